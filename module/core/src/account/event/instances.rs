//! Events of one instance: its place, and accounts that go to it.

use std::collections::BTreeMap;

use super::counters::Counter;
use crate::account::model::place::{Instance, Presence, Share};
use crate::account::model::record::{Account, AccountState, Goal, Name, day_of};
use crate::account::model::state::Book;
use crate::account::model::worth::Worth;
use crate::shared::codec::{Damaged, ensure};
use crate::shared::invariant::Expected;
use crate::shared::list::NONE;
use crate::shared::{Bytes, Millis};
use crate::{events, invariant};

events! {
    /// A change of an instance that is attached, or of accounts that go to it.
    pub enum InstanceEvent counted by Counter {
        /// The instance gets a place, or loses it.
        Placed {
            /// Whether it has a place.
            active: bool,
        } = 1, notice if *active { c"allot.account.promoted" } else { c"allot.account.demoted" };
        /// The instance is away; its place is kept.
        Away {
            /// Until when the place is kept.
            until: Millis,
        } = 2, notice c"allot.account.away";
        /// The instance is detached. Its record is removed when it has no accounts left.
        Detached = 3, notice c"allot.account.detached";
        /// Accounts without a login are assigned to the instance, which is of their module, each at a new epoch. The
        /// instance may be away if an account replaces a frozen one.
        Assigned {
            /// Their names.
            accounts: Vec<Bytes>,
        } = 4, notice c"allot.account.assigned", count (Counter::Assigned, accounts.len() as u64);
        /// Accounts with a login must go to the instance, which is of their module, when the login ends.
        Recalled {
            /// Their names.
            accounts: Vec<Bytes>,
        } = 5, notice c"allot.account.revoked";
        /// Rebalancing moves a free account, or an account of an active instance, to the instance, which is of its module
        /// or of another of the department; or the instance found no account to use and gets one of its module.
        Shifted {
            /// The account.
            account: Bytes,
        } = 6, notice c"allot.account.shifted", count (Counter::Shifted, 1);
    }
}

impl Book {
    pub(super) fn admits_to_instance(
        &self,
        id: u32,
        instance: &Instance,
        event: &InstanceEvent,
    ) -> Result<(), Damaged> {
        let is = |holds: bool| ensure(holds, "an instance is in another state");
        let home = instance.module;
        match event {
            InstanceEvent::Placed { active: true } => is(instance.presence == Presence::Standby),
            InstanceEvent::Placed { active: false } => is(instance.presence == Presence::Active),
            InstanceEvent::Away { .. } => is(instance.has_place()),
            InstanceEvent::Detached => is(instance.presence != Presence::Leaving),
            InstanceEvent::Assigned { accounts } => {
                is(instance.has_place())?;
                self.all_are(accounts, |account| {
                    let stands = matches!(account.state, AccountState::Free | AccountState::Assigned);
                    stands && account.login.is_none() && account.module == home
                })
            }
            InstanceEvent::Recalled { accounts } => {
                is(instance.presence == Presence::Active)?;
                self.all_are(accounts, |account| {
                    account.state == AccountState::Assigned
                        && account.login.is_some()
                        && account.module == home
                })
            }
            InstanceEvent::Shifted { account } => {
                is(instance.presence == Presence::Active)?;
                let can_move = |account: &Account| {
                    let from = self.instance(account.instance);
                    let active = from.is_some_and(|from| from.presence == Presence::Active);
                    let assigned =
                        account.state == AccountState::Assigned && active && account.instance != id;
                    assigned || account.state == AccountState::Free && account.login.is_none()
                };
                let known = self.account_called(account).ok_or(Damaged("an account is not there"))?;
                ensure(can_move(known), "an account is in another state")
            }
        }
    }

    pub(super) fn apply_to_instance(&mut self, at: Millis, id: u32, event: &InstanceEvent) {
        match event {
            InstanceEvent::Placed { active: true } => self.set_presence(id, Presence::Active, None),
            InstanceEvent::Placed { active: false } => self.set_presence(id, Presence::Standby, None),
            InstanceEvent::Away { until } => self.set_presence(id, Presence::Away, Some(*until)),
            InstanceEvent::Detached => self.set_presence(id, Presence::Leaving, None),
            InstanceEvent::Assigned { accounts } => {
                self.each(accounts, |book, account| book.assign(at, account, id));
            }
            InstanceEvent::Recalled { accounts } => {
                self.each(accounts, |book, account| book.go_on(at, account, Goal::Place(id)));
            }
            InstanceEvent::Shifted { account } => {
                if let Some(account) = self.named(account) {
                    self.shift_account(at, account, id);
                }
            }
        }
    }

    pub(super) fn attach(&mut self, at: Millis, module: u32, name: &Name, active: bool) {
        let presence = if active { Presence::Active } else { Presence::Standby };
        if let Some(id) = self.find_instance(module, name) {
            self.away.remove(id);
            self.come_back(at, id);
            self.with_instance(id, |instance| (instance.presence, instance.away_until) = (presence, None));
            self.number_place(id);
            self.reclaim(id);
        } else {
            self.arrivals += 1;
            self.enter_instance(Instance::new(name.clone(), module, presence, self.arrivals, at));
        }
        self.look_at(module);
    }

    /// Gives an instance that had left, and still has an account with a login, the rank of a new one.
    fn come_back(&mut self, at: Millis, id: u32) {
        let leaving = |instance: &&Instance| instance.presence == Presence::Leaving;
        let Some(instance) = self.indexed_instance(id).filter(leaving) else { return };
        let (module, before) = (instance.module, instance.arrived);
        self.arrivals += 1;
        let arrived = self.arrivals;
        if let Some(module) = self.indexed_module_mut(module) {
            let moved = module.instances.remove(&(before, id)) && module.instances.insert((arrived, id));
            invariant!(moved, "a module has its instances, each once");
        }
        self.with_instance(id, |instance| (instance.arrived, instance.since) = (arrived, at));
    }

    /// Keeps accounts for an instance that has a place again: those that it had before, whose logins have not ended.
    fn reclaim(&mut self, id: u32) {
        let Some(instance) = self.indexed_instance(id).filter(|one| one.presence == Presence::Active) else {
            return;
        };
        let leaves =
            |&account: &u32| self.indexed(account).is_some_and(|one| one.goal == Some(Goal::Reassign));
        let own: Vec<u32> = instance.accounts.iter().copied().filter(leaves).collect();
        for account in own {
            self.change(account, |account| account.goal = Some(Goal::Place(id)));
        }
    }

    fn set_presence(&mut self, id: u32, presence: Presence, until: Option<Millis>) {
        match until {
            Some(until) => self.away.set(id, until),
            None => self.away.remove(id),
        }
        let Some(module) = self.indexed_instance(id).map(|instance| instance.module) else { return };
        let mut lost: Worth = 0;
        self.with_instance(id, |instance| {
            (instance.presence, instance.away_until) = (presence, until);
            // Without a place, the instance loses its offset from rebalancing.
            if !instance.has_place() {
                lost = std::mem::take(&mut instance.offset);
            }
        });
        self.number_place(id);
        self.reclaim(id);
        self.forget_if_empty(id);
        self.make_up_for(module, lost);
        self.look_at(module);
    }

    /// Distributes the offset that an instance lost with its place to the instances of its module with the opposite
    /// offset, the largest first. The part that came from other modules is dropped.
    fn make_up_for(&mut self, module: u32, lost: Worth) {
        let Some(module) = self.indexed_module(module).filter(|_| lost != 0) else { return };
        let offset = |id: u32| self.indexed_instance(id).map_or(0, |instance| instance.offset);
        // The sum of the remaining offsets is what came from this instance and from other modules.
        let rest: Worth = module.instances().map(offset).sum();
        if rest.signum() != -lost.signum() {
            return;
        }
        let mut due = rest.abs().min(lost.abs());
        let mut others: Vec<(Worth, u32)> = module
            .instances()
            .map(|id| (offset(id), id))
            .filter(|(offset, _)| offset.signum() == -lost.signum())
            .collect();
        // The sort is stable: of equal offsets, the earlier instance first.
        others.sort_by_key(|(offset, _)| std::cmp::Reverse(offset.abs()));
        for (offset, id) in others {
            let back = due.min(offset.abs());
            due -= back;
            self.with_instance(id, |instance| instance.offset += back * lost.signum());
        }
    }

    /// What the accounts are worth of each module that has one of these.
    pub(super) fn worth_by_module(&self, accounts: &[Bytes]) -> BTreeMap<u32, Worth> {
        let modules = accounts.iter().filter_map(|name| self.expecting(self.find(name)?));
        modules.filter_map(|id| Some((id, self.indexed_module(id)?.worth))).collect()
    }

    /// Scales the offsets in a module whose accounts were worth `before`, because offsets are not kept by account. They
    /// remain worth as many average accounts as they were.
    pub(super) fn scale_offsets(&mut self, module: u32, before: Worth) {
        let Some(known) = self.indexed_module(module) else { return };
        let after = known.worth;
        if after == before {
            return;
        }
        // A product of an offset and the greater of the two must not overflow.
        let shift = before.max(after).max(1).ilog2().saturating_sub(45);
        let (before, after) = ((before >> shift).max(1), after >> shift);
        for id in known.instances().collect::<Vec<_>>() {
            self.with_instance(id, |instance| instance.offset = instance.offset * after / before);
        }
    }

    /// Moves an account to an instance for which an even assignment has none.
    fn shift_account(&mut self, at: Millis, id: u32, place: u32) {
        let Some(to) = self.indexed_instance(place).map(|to| self.module_name(to.module)) else { return };
        let name = self.instance_name(place);
        let Some(account) = self.accounts.get_mut(id).expected("an account that is moved is there") else {
            return;
        };
        let (from, home, worth) = (account.instance, account.module, Worth::from(account.worth()));
        account.moved = (day_of(at), account.moves_on(day_of(at)).saturating_add(1));
        self.tell_of_move(id, &to, Some(&name));
        self.with_instance(from, |from| from.offset -= worth);
        if from != NONE || !self.lends_within(home, place) || self.would_lose(place, worth) {
            self.with_instance(place, |place| place.offset += worth);
        }
        self.go_on(at, id, Goal::Place(place));
    }

    /// Whether an instance gets a free account of its own module that divides its accounts by places. The account stays
    /// part of the share of an empty place, so an instance that comes to this place can take accounts back.
    fn lends_within(&self, home: u32, place: u32) -> bool {
        let same = self.indexed_instance(place).is_some_and(|place| place.module == home);
        same && self.indexed_module(home).is_some_and(|module| module.policy.share == Share::Places)
    }

    /// Whether an even assignment would take an account at once from an instance that gets one of this worth, and give it
    /// to another.
    fn would_lose(&self, place: u32, worth: Worth) -> bool {
        let Some(instance) = self.indexed_instance(place) else { return false };
        let Some(module) = self.indexed_module(instance.module) else { return false };
        let least = instance.quotas.least().map_or(worth, |least| worth.min(least.into()));
        let taker = module.levels.iter().find(|&&(.., id)| id != place);
        taker.is_some_and(|&taker| {
            instance.level() + worth - least > taker.0 && least <= module.room(taker).most.into()
        })
    }

    /// Cancels a move of rebalancing between modules that cannot be completed: removes the offset of both instances.
    /// Within a module, `make_up_for` did so, or the instance is away and waits for another account.
    pub(super) fn call_off(&mut self, id: u32, place: u32) {
        let Some(from) = self.indexed(id).map(|account| account.instance) else { return };
        let worth = self.indexed(id).map_or(0, |account| Worth::from(account.worth()));
        let module = |id: u32| self.indexed_instance(id).map(|instance| instance.module);
        if from == NONE || module(from) == module(place) {
            return;
        }
        // An instance that lost its place meanwhile and has one again has no offset left to remove.
        for (id, sign) in [(from, 1), (place, -1)] {
            self.with_instance(id, |instance| {
                if instance.has_place() && instance.offset.signum() == -sign {
                    instance.offset += sign * worth.min(instance.offset.abs());
                }
            });
        }
    }
}
