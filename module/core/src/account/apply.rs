//! Applies events to a book. This cannot fail: `decide` made the event for this state, or `admits` has checked it.
//!
//! Every change of an account goes through `change`, which updates shares, levels and totals. When the login of a
//! revoked account ends, the account goes to its goal without an event of its own (`settle`), because that depends on
//! the state alone.

use super::event::Event;
use super::model::place::{Instance, Module, Presence};
use super::model::record::{Account, AccountState, Epoch, Goal, Login, Name, Stay, day_of};
use super::model::state::Book;
use crate::invariant;
use crate::shared::list::NONE;
use crate::shared::{Bytes, Millis};

impl Book {
    /// Applies an event at its time. O(log accounts) for each account in the event.
    pub fn apply(&mut self, at: Millis, event: &Event) {
        self.applied = self.applied.max(at);
        match event {
            Event::Opened(_) => {}
            Event::Configured(settings) => self.settings = settings.clone(),
            Event::BookTuned(policy) => self.policy = *policy,
            Event::ModuleTuned { module, policy } => {
                let Some(id) = self.admitted_module(module) else { return };
                if let Some(module) = self.indexed_module_mut(id) {
                    module.policy = *policy;
                }
                self.look_at(id);
            }
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
                let Some(login) = self.accounts.get_mut(id).and_then(|account| account.login.as_mut()) else {
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
            Event::Used { account, count } => {
                let Some(id) = self.admitted(account) else { return };
                let instance = self.indexed(id).map_or(NONE, |account| account.instance);
                self.count(at, id, instance, *count);
            }
            Event::EpochRaised { epoch } => self.last_epoch = self.last_epoch.max(*epoch),
            Event::Reported { account, epoch, count } => self.report(at, account, *epoch, *count),
            _ => self.apply_to_assignment(at, event),
        }
    }

    fn apply_to_assignment(&mut self, at: Millis, event: &Event) {
        match event {
            Event::Deleted { accounts } => self.each(at, accounts, Goal::Delete),
            Event::Rehomed { module, accounts } => {
                let Some(module) = self.admitted_module(module) else { return };
                self.each(at, accounts, Goal::Module(module));
            }
            Event::Withdrawn { accounts } => self.each(at, accounts, Goal::Reassign),
            Event::Dealt { module, instance, accounts } => {
                // An instance that is away may get replacements of its frozen accounts.
                let Some(place) = self.admitted_place(module, instance) else { return };
                for name in accounts {
                    let Some(id) = self.admitted(name) else { continue };
                    self.assign(at, id, place);
                }
            }
            Event::Reassigned { account } => {
                let Some(id) = self.admitted(account) else { return };
                let Some((place, since)) = self.indexed(id).map(|account| (account.instance, account.since))
                else {
                    return;
                };
                self.assign(at, id, place);
                // The account has not moved.
                self.change(id, |account| account.since = since);
            }
            Event::Recalled { module, instance, accounts } => {
                let Some(place) = self.admitted_place(module, instance) else { return };
                self.each(at, accounts, Goal::Place(place));
            }
            Event::Shifted { account, module, instance } => {
                let Some(place) = self.admitted_place(module, instance) else { return };
                let Some(id) = self.admitted(account) else { return };
                let Some(account) = self.accounts.get_mut(id) else { return };
                let from = account.instance;
                account.moved = (day_of(at), account.moves_on(day_of(at)).saturating_add(1));
                self.with_instance(from, |from| from.offset -= 1);
                self.with_instance(place, |place| place.offset += 1);
                self.go_on(at, id, Goal::Place(place));
            }
            Event::Frozen { account } | Event::Halted { account } => {
                let Some(id) = self.admitted(account) else { return };
                // An account on its way to another module belongs to that module from now on.
                let home = self.indexed(id).and_then(|account| self.destination(account));
                invariant!(home.is_some(), "an account that is frozen is not being deleted");
                self.change(id, |account| {
                    account.end_stay(at);
                    account.module = home.unwrap_or(account.module);
                    (account.state, account.instance, account.goal, account.since) =
                        (AccountState::Frozen, NONE, None, at);
                });
            }
            Event::Thawed { account } => {
                let Some(id) = self.admitted(account) else { return };
                self.change(id, |account| (account.state, account.since) = (AccountState::Free, at));
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
            _ => invariant!("every kind of event is handled"),
        }
    }

    /// The number of the account that an event names. Admission refuses events of unknown accounts, so `None` is a
    /// broken invariant, reported at the caller's line. The same holds for modules and instances below.
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
            // Without a place, the instance loses its offset from rebalancing.
            if !instance.has_place() {
                lost = std::mem::take(&mut instance.offset);
            }
        });
        self.forget_if_empty(id);
        let Some(module) = self.admitted_module(module) else { return };
        self.make_up_for(module, lost);
        self.look_at(module);
    }

    /// Distributes the offset that an instance lost with its place to the instances of its module with the opposite
    /// offset, the largest first. The part that came from other modules is dropped.
    fn make_up_for(&mut self, module: u32, lost: i64) {
        if lost == 0 {
            return;
        }
        let Some(module) = self.indexed_module(module) else { return };
        let offset = |id: u32| self.indexed_instance(id).map_or(0, |instance| instance.offset);
        // The sum of the remaining offsets is what came from this instance and from other modules.
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
        // The sort is stable: of equal offsets, the earlier instance first.
        others.sort_by_key(|(offset, _)| std::cmp::Reverse(offset.abs()));
        for (offset, id) in others {
            let back = due.min(offset.abs());
            due -= back;
            self.with_instance(id, |instance| instance.offset += back * lost.signum());
        }
    }

    /// Cancels a move of rebalancing between modules that cannot be completed: removes the offset of both instances.
    /// Within a module, `make_up_for` did so, or the instance is away and waits for another account.
    fn call_off(&mut self, id: u32, place: u32) {
        let Some(from) = self.indexed(id).map(|account| account.instance) else { return };
        if from == NONE {
            return;
        }
        let module = |id: u32| self.indexed_instance(id).map(|instance| instance.module);
        if module(from) == module(place) {
            return;
        }
        // An instance that lost its place meanwhile and has one again has no offset left to remove.
        for (id, by) in [(from, 1), (place, -1)] {
            self.with_instance(id, |instance| {
                if instance.has_place() && instance.offset.signum() == -by {
                    instance.offset += by;
                }
            });
        }
    }

    /// Gives accounts a new goal.
    fn each(&mut self, at: Millis, accounts: &[Bytes], goal: Goal) {
        for name in accounts {
            let Some(id) = self.admitted(name) else { continue };
            self.go_on(at, id, goal);
        }
    }

    /// Gives an account a new goal. The account moves there at once, or when its login ends.
    fn go_on(&mut self, at: Millis, id: u32, goal: Goal) {
        let Some(account) = self.indexed(id) else { return };
        let before = account.goal;
        // An account that was frozen in use has no instance; only its deletion waits for the end of the login.
        if account.login.is_some() && (account.instance != NONE || goal == Goal::Delete) {
            if let Some(Goal::Place(missed)) = before.filter(|before| *before != goal) {
                self.call_off(id, missed);
            }
            self.change(id, |account| (account.state, account.goal) = (AccountState::Revoking, Some(goal)));
        } else {
            self.arrive(at, id, goal);
        }
    }

    /// Moves an account whose login has ended to its goal, if there is one.
    fn settle(&mut self, at: Millis, id: u32) {
        let Some(goal) = self.indexed(id).and_then(|account| account.goal) else { return };
        self.arrive(at, id, goal);
    }

    /// Moves an account without a login to its goal.
    fn arrive(&mut self, at: Millis, id: u32, goal: Goal) {
        let place = goal.place();
        let active = |&place: &u32| {
            self.indexed_instance(place).is_some_and(|place| place.presence == Presence::Active)
        };
        let place = place.filter(active);
        if let (Goal::Place(missed), None) = (goal, place) {
            self.call_off(id, missed);
        }
        match (goal, place) {
            (Goal::Delete, _) => self.remove(id),
            (_, Some(place)) => self.assign(at, id, place),
            (goal, None) => self.change(id, |account| {
                account.end_stay(at);
                if let Goal::Module(module) = goal {
                    account.module = module;
                }
                // A frozen account stays frozen in its new module.
                if account.state != AccountState::Frozen {
                    (account.state, account.since) = (AccountState::Free, at);
                }
                (account.instance, account.goal) = (NONE, None);
            }),
        }
    }

    /// Assigns an account to an instance: a stay begins.
    fn assign(&mut self, at: Millis, id: u32, place: u32) {
        let Some(instance) = self.indexed_instance(place) else { return };
        let (module, name) = (instance.module, instance.name.clone());
        let epoch = self.take_epoch(at);
        let stay = Stay { epoch, module: self.module_name(module), instance: name, from: at, to: None };
        self.change(id, |account| {
            account.begin_stay(stay);
            (account.module, account.state, account.instance, account.goal) =
                (module, AccountState::Dealt, place, None);
            (account.epoch, account.since) = (epoch, at);
        });
    }

    fn log_in(&mut self, at: Millis, account: &[u8], terminal: &Bytes, until: Millis) {
        let Some(id) = self.admitted(account) else { return };
        let epoch = self.take_epoch(at);
        self.set_ready(id, false);
        let Some(account) = self.accounts.get_mut(id) else { return };
        account.login = Some(Box::new(Login { terminal: terminal.clone(), epoch, until }));
        self.logins.set(id, until);
    }

    /// Ends a login.
    fn log_out(&mut self, id: u32) {
        self.logins.remove(id);
        let Some(account) = self.accounts.get_mut(id) else { return };
        invariant!(account.login.is_some(), "a login that ends was there");
        if account.state == AccountState::Free {
            self.change(id, |account| account.login = None);
        } else {
            account.login = None;
            self.set_ready(id, true);
        }
    }

    /// Counts instructions of an account, which an instance has sent.
    fn count(&mut self, at: Millis, id: u32, instance: u32, count: u64) {
        self.set_ready(id, false);
        self.count_use(id, count);
        self.set_ready(id, true);
        self.with_instance(instance, |instance| instance.pace.count(at, count));
    }

    /// Counts instructions that the instance of an assignment has reported.
    fn report(&mut self, at: Millis, account: &[u8], epoch: Epoch, count: u64) {
        let Some(id) = self.admitted(account) else { return };
        let Some(account) = self.accounts.get_mut(id) else { return };
        account.reports.get_or_insert_default().count(epoch, count);
        let stay = account.history.iter().rfind(|stay| stay.epoch == epoch);
        let names = stay.map(|stay| (stay.module.clone(), stay.instance.clone()));
        // An instance that has gone needs no pace any more.
        let instance = names.and_then(|(module, instance)| self.find_place(&module, &instance));
        self.count(at, id, instance.unwrap_or(NONE), count);
    }
}
