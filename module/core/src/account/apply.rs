//! What an event does to a book. It cannot fail: `decide` made the event for this state, or `admit` has checked it.
//!
//! Whatever an event does to an account goes through `change`, so that shares, levels and totals follow the record by
//! themselves. What follows from the end of a login of an account that is revoked happens here as well (`settle`): it
//! depends on nothing but the state.

use super::event::Event;
use super::place::{Instance, Module, Presence};
use super::record::{Account, Goal, Login, Name, Standing, Stay};
use super::state::Book;
use crate::invariant;
use crate::shared::list::NONE;
use crate::shared::{Bytes, Millis};

/// A day, in milliseconds.
pub(super) const DAY: Millis = 24 * super::place::HOUR;

/// The day of an instant.
pub(super) fn day_of(at: Millis) -> i32 {
    i32::try_from(at / DAY).unwrap_or(i32::MAX)
}

impl Book {
    /// Applies an event at its time. O(log accounts) for each account that it names.
    pub fn apply(&mut self, at: Millis, event: &Event) {
        self.applied = self.applied.max(at);
        match event {
            Event::Opened(_) => {}
            Event::Configured(settings) => self.settings = settings.clone(),
            Event::Claimed { term, leader } => (self.term, self.leader) = (*term, Some(leader.clone())),
            Event::Defined { module, department, places, weight, reserve } => {
                let department = self.department_name(department);
                let id = self.find_module(module).unwrap_or_else(|| self.enter_module(module, &department));
                if let Some(module) = self.indexed_module_mut(id) {
                    module.department = department;
                    (module.places, module.weight, module.reserve) = (*places, *weight, *reserve);
                }
                self.look_at(id);
            }
            Event::Added { module, tariff, accounts } => {
                let Some(module) = self.admitted_module(module) else { return };
                let tariff = self.shared_tariff(tariff);
                for name in accounts {
                    self.enter(Account::new(name.clone(), module, tariff.clone(), self.month, at));
                }
            }
            Event::MonthTurned => {
                if self.settings.turns.is_empty() {
                    invariant!("a month turns at its time");
                    return;
                }
                let at = self.settings.turns.remove(0);
                self.turn_month(at);
            }
            Event::LoggedIn { account, terminal, until } => self.log_in(at, account, terminal, *until),
            Event::Renewed { account, until } => {
                let Some(id) = self.admitted(account) else { return };
                let Some(login) = self.accounts.get_mut(id).and_then(|one| one.login.as_mut()) else {
                    invariant!("a login that is renewed is there");
                    return;
                };
                login.until = *until;
                self.logins.set(id, *until);
            }
            Event::LoggedOut { account, .. } => {
                let Some(id) = self.admitted(account) else { return };
                self.log_out(id);
                self.settle(at, id);
            }
            Event::Used { account, count } => self.count(at, account, *count),
            _ => self.apply_to_deal(at, event),
        }
    }

    fn apply_to_deal(&mut self, at: Millis, event: &Event) {
        match event {
            Event::Deleted { accounts } => self.each(at, accounts, Goal::Delete),
            Event::Rehomed { module, accounts } => {
                let Some(module) = self.admitted_module(module) else { return };
                self.each(at, accounts, Goal::Module(module));
            }
            Event::Withdrawn { accounts } => self.each(at, accounts, Goal::Deal),
            Event::Dealt { module, instance, accounts } => {
                // One that is away gets what replaces its accounts, too.
                let Some(place) = self.admitted_place(module, instance) else { return };
                for name in accounts {
                    let Some(id) = self.admitted(name) else { continue };
                    self.deal(at, id, place);
                }
            }
            Event::Recalled { module, instance, accounts } => {
                let Some(place) = self.admitted_place(module, instance) else { return };
                self.each(at, accounts, Goal::Place(place));
            }
            Event::Shifted { account, module, instance } => {
                let Some(place) = self.admitted_place(module, instance) else { return };
                let Some(id) = self.admitted(account) else { return };
                let Some(one) = self.accounts.get_mut(id) else { return };
                let from = one.instance;
                one.moved = (day_of(at), one.moves_on(day_of(at)).saturating_add(1));
                self.with_instance(from, |from| from.offset -= 1);
                self.with_instance(place, |place| place.offset += 1);
                self.go_on(at, id, Goal::Place(place));
            }
            Event::Frozen { account } | Event::Halted { account } => {
                let Some(id) = self.admitted(account) else { return };
                // It gets to the module that it was to go to, if it was.
                let home = self.indexed(id).and_then(|one| self.destination(one));
                invariant!(home.is_some(), "an account that is frozen is not being deleted");
                self.change(id, |one| {
                    one.end_stay(at);
                    one.module = home.unwrap_or(one.module);
                    (one.standing, one.instance, one.goal, one.since) = (Standing::Frozen, NONE, None, at);
                });
            }
            Event::Thawed { account } => {
                let Some(id) = self.admitted(account) else { return };
                self.change(id, |one| (one.standing, one.since) = (Standing::Free, at));
            }
            Event::Attached { module, instance, active } => self.attach(at, module, instance, *active),
            Event::Placed { module, instance, active } => {
                let presence = if *active { Presence::Active } else { Presence::Standby };
                self.set_presence(module, instance, presence, None);
            }
            Event::Away { module, instance, until } => {
                self.set_presence(module, instance, Presence::Away, Some(*until));
            }
            Event::Detached { module, instance } => {
                self.set_presence(module, instance, Presence::Leaving, None);
            }
            _ => invariant!("every kind of event is applied"),
        }
    }

    /// The number of an account that an event names. `None` breaks an invariant, as for the two below, which is
    /// reported where this is called: admission refuses an event whose account is not there.
    #[track_caller]
    fn admitted(&self, account: &[u8]) -> Option<u32> {
        let id = self.find(account);
        if id.is_none() {
            invariant!("an event that was admitted names an account that is there");
        }
        id
    }

    /// The number of a module that an event names.
    #[track_caller]
    fn admitted_module(&self, module: &[u8]) -> Option<u32> {
        let id = self.find_module(module);
        if id.is_none() {
            invariant!("an event that was admitted names a module that is there");
        }
        id
    }

    /// The number of an instance that an event names.
    #[track_caller]
    fn admitted_place(&self, module: &[u8], instance: &[u8]) -> Option<u32> {
        let id = self.find_place(module, instance);
        if id.is_none() {
            invariant!("an event that was admitted names an instance that is there");
        }
        id
    }

    fn enter_module(&mut self, name: &Name, department: &Name) -> u32 {
        let id = self.modules.insert(Module::new(name.clone(), department.clone()));
        self.module_names.insert(name.clone(), id);
        id
    }

    /// The number of an instance by its names.
    pub(super) fn find_place(&self, module: &[u8], instance: &[u8]) -> Option<u32> {
        self.find_module(module).and_then(|module| self.find_instance(module, instance))
    }

    fn attach(&mut self, at: Millis, module: &[u8], name: &Name, active: bool) {
        let Some(module) = self.admitted_module(module) else { return };
        let presence = if active { Presence::Active } else { Presence::Standby };
        if let Some(id) = self.find_instance(module, name) {
            self.away.remove(id);
            self.with_instance(id, |instance| (instance.presence, instance.away_until) = (presence, None));
        } else {
            self.arrivals += 1;
            self.enter_instance(Instance::new(name.clone(), module, presence, self.arrivals, at));
        }
        self.look_at(module);
    }

    fn set_presence(&mut self, module: &[u8], name: &[u8], presence: Presence, until: Option<Millis>) {
        let Some(id) = self.admitted_place(module, name) else { return };
        match until {
            Some(until) => self.away.set(id, until),
            None => self.away.remove(id),
        }
        let mut lost = 0;
        self.with_instance(id, |instance| {
            (instance.presence, instance.away_until) = (presence, until);
            // What rebalancing gave it goes with its place.
            if !instance.has_place() {
                lost = std::mem::take(&mut instance.offset);
            }
        });
        self.forget_if_empty(id);
        let Some(module) = self.admitted_module(module) else { return };
        self.make_up_for(module, lost);
        self.look_at(module);
    }

    /// What rebalancing gave an instance that has lost its place, others of the module gave, or other modules did. The part
    /// of the module is theirs again, those first who gave most; and the other way round where it gave.
    fn make_up_for(&mut self, module: u32, lost: i64) {
        if lost == 0 {
            return;
        }
        let Some(module) = self.indexed_module(module) else { return };
        let offset = |id: u32| self.indexed_instance(id).map_or(0, |instance| instance.offset);
        // Their offsets are even among themselves but for what came from this one, and from other modules.
        let rest: i64 = module.instances().map(offset).sum();
        if rest.signum() != -lost.signum() {
            return;
        }
        let mut due = rest.abs().min(lost.abs());
        let mut others: Vec<(i64, u32)> = module
            .instances()
            .map(|id| (offset(id), id))
            .filter(|(offset, _)| offset.signum() == rest.signum())
            .collect();
        // Stable: of equals who came first.
        others.sort_by_key(|(offset, _)| std::cmp::Reverse(offset.abs()));
        for (offset, id) in others {
            let back = due.min(offset.abs());
            due -= back;
            self.with_instance(id, |instance| instance.offset += back * lost.signum());
        }
    }

    /// An account does not get to an instance of another module that rebalancing gave it to: neither keeps a target by it.
    /// Within a module `make_up_for` has seen to it, or the instance is away and waits for another.
    fn call_off(&mut self, id: u32, place: u32) {
        let Some(from) = self.indexed(id).map(|one| one.instance) else { return };
        if from == NONE {
            return;
        }
        let module = |id: u32| self.indexed_instance(id).map(|instance| instance.module);
        if module(from) == module(place) {
            return;
        }
        // Who has lost its place meanwhile, and has one again, keeps no target that could be undone.
        for (id, by) in [(from, 1), (place, -1)] {
            self.with_instance(id, |instance| {
                if instance.has_place() && instance.offset.signum() == -by {
                    instance.offset += by;
                }
            });
        }
    }

    /// Sends accounts on their way.
    fn each(&mut self, at: Millis, accounts: &[Bytes], goal: Goal) {
        for name in accounts {
            let Some(id) = self.admitted(name) else { continue };
            self.go_on(at, id, goal);
        }
    }

    /// Sends an account on its way: at once where nobody is logged in with it, else as soon as nobody is.
    fn go_on(&mut self, at: Millis, id: u32, goal: Goal) {
        let Some(one) = self.indexed(id) else { return };
        let before = one.goal;
        // One that was frozen in use is with nobody, and need only be waited for before it is forgotten.
        if one.login.is_some() && (one.instance != NONE || goal == Goal::Delete) {
            if let Some(Goal::Place(missed)) = before.filter(|before| *before != goal) {
                self.call_off(id, missed);
            }
            self.change(id, |one| (one.standing, one.goal) = (Standing::Revoking, Some(goal)));
        } else {
            self.arrive(at, id, goal);
        }
    }

    /// An account whose login is over goes on, if it is to.
    fn settle(&mut self, at: Millis, id: u32) {
        let Some(goal) = self.indexed(id).and_then(|one| one.goal) else { return };
        self.arrive(at, id, goal);
    }

    /// An account that nobody is logged in with gets where it is to go.
    fn arrive(&mut self, at: Millis, id: u32, goal: Goal) {
        let place = Self::place_of(Some(goal));
        let active = |&place: &u32| {
            self.indexed_instance(place).is_some_and(|place| place.presence == Presence::Active)
        };
        let place = place.filter(active);
        if let (Goal::Place(missed), None) = (goal, place) {
            self.call_off(id, missed);
        }
        match (goal, place) {
            (Goal::Delete, _) => self.remove(id),
            (_, Some(place)) => self.deal(at, id, place),
            (goal, None) => self.change(id, |one| {
                one.end_stay(at);
                if let Goal::Module(module) = goal {
                    one.module = module;
                }
                // A frozen one stays so wherever it goes.
                if one.standing != Standing::Frozen {
                    (one.standing, one.since) = (Standing::Free, at);
                }
                (one.instance, one.goal) = (NONE, None);
            }),
        }
    }

    /// An account begins a stay.
    fn deal(&mut self, at: Millis, id: u32, place: u32) {
        let Some(instance) = self.indexed_instance(place) else { return };
        let (module, name) = (instance.module, instance.name.clone());
        let epoch = self.take_epoch(at);
        let stay = Stay { epoch, module: self.module_name(module), instance: name, from: at, to: None };
        self.change(id, |one| {
            one.begin_stay(stay);
            (one.module, one.standing, one.instance, one.goal) = (module, Standing::Dealt, place, None);
            (one.epoch, one.since) = (epoch, at);
        });
    }

    fn log_in(&mut self, at: Millis, account: &[u8], terminal: &Bytes, until: Millis) {
        let Some(id) = self.admitted(account) else { return };
        let epoch = self.take_epoch(at);
        self.set_ready(id, false);
        let Some(one) = self.accounts.get_mut(id) else { return };
        one.login = Some(Box::new(Login { terminal: terminal.clone(), epoch, until }));
        self.logins.set(id, until);
    }

    /// A login is over.
    fn log_out(&mut self, id: u32) {
        self.logins.remove(id);
        let Some(one) = self.accounts.get_mut(id) else { return };
        invariant!(one.login.is_some(), "a login that is over was there");
        if one.standing == Standing::Free {
            self.change(id, |one| one.login = None);
        } else {
            one.login = None;
            self.set_ready(id, true);
        }
    }

    fn count(&mut self, at: Millis, account: &[u8], count: u64) {
        let Some(id) = self.admitted(account) else { return };
        self.set_ready(id, false);
        self.count_use(id, count);
        let instance = self.indexed(id).map_or(NONE, |one| one.instance);
        self.set_ready(id, true);
        self.with_instance(instance, |instance| instance.pace.count(at, count));
    }
}
