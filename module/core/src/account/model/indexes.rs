//! The indexes of a book: every change of an account or an instance goes through these functions, which update the
//! indexes.

use std::sync::Arc;

use super::place::{Instance, Level, MAX_OFFSET, Module, Presence};
use super::record::{Account, AccountState, Epoch, Goal, Name};
use super::state::Book;
use super::tariff::Tariff;
use super::usage::step;
use super::worth::{Worth, giver};
use crate::invariant;
use crate::shared::Millis;
use crate::shared::invariant::Expected;
use crate::shared::list::NONE;

impl Book {
    /// The module that an account is in transit to, or else belongs to; `None` if the account will be deleted.
    pub(in crate::account) fn destination(&self, account: &Account) -> Option<u32> {
        match account.goal {
            Some(Goal::Delete) => None,
            Some(Goal::Module(module)) => Some(module),
            Some(Goal::Place(place)) => {
                // An instance is not removed while an account is in transit to it.
                Some(self.indexed_instance(place).map_or(account.module, |place| place.module))
            }
            Some(Goal::Reassign) | None => Some(account.module),
        }
    }

    /// Whether an operator's move to a module changes anything. An account that is on its way to an instance of the
    /// module changes as well: it would come back if the instance left before.
    pub(in crate::account) fn moves_to(&self, account: &Account, module: u32) -> bool {
        let destination = self.destination(account);
        let by_rebalancing = matches!(account.goal, Some(Goal::Place(_))) && account.module != module;
        destination.is_some_and(|home| home != module || by_rebalancing)
    }

    /// Whether a module has no accounts, no instances, and no account on its way to it.
    pub(in crate::account) fn is_unused(&self, module: u32) -> bool {
        self.indexed_module(module).is_some_and(|module| {
            module.accounts.is_empty() && module.instances.is_empty() && module.expected == 0
        })
    }

    /// Whether accounts of a module must be assigned or moved. O(log instances + different worths in the reserve), and while
    /// a place is empty O(instances).
    pub(in crate::account) fn is_uneven(&self, module: u32) -> bool {
        let Some(module) = self.indexed_module(module) else { return false };
        let Some(&taker @ (lowest, ..)) = module.levels.first() else { return false };
        let spare = module.spare();
        if spare.is_some_and(|spare| spare.least <= module.room_for_free(taker, spare.worth).most) {
            return true;
        }
        let least = |id: u32| self.indexed_instance(id)?.quotas.least();
        module.evens_out() && giver(&module.givers, (lowest, module.room(taker).most), least).is_some()
    }

    /// A department's name, shared with other modules of the department.
    pub(in crate::account) fn department_name(&self, name: &[u8]) -> Name {
        let same = self.modules().find(|module| *module.department == *name);
        same.map_or_else(|| Name::from(name), |module| module.department.clone())
    }

    /// The tariff, shared with other accounts that have an equal one.
    pub(in crate::account) fn shared_tariff(&self, tariff: &Tariff) -> Arc<Tariff> {
        let known = self.tariffs.get_key_value(tariff);
        known.map_or_else(|| Arc::new(tariff.clone()), |(known, _)| known.clone())
    }

    /// Gives out the next epoch: `max(last + 1, now)`, *now* in microseconds, so that epochs still increase after a failover to
    /// a replica that does not know the last ones.
    pub(in crate::account) fn next_epoch(&mut self, at: Millis) -> Epoch {
        /// The year 2112, in microseconds: even if a clock is far ahead, enough epochs are left.
        const LAST_OF_CLOCK: u64 = 1 << 52;
        let now = at.max(0).unsigned_abs().saturating_mul(1000).min(LAST_OF_CLOCK);
        self.last_epoch = (self.last_epoch + 1).max(now);
        self.last_epoch
    }

    /// Changes an instance and updates the levels of its module. Does nothing for `NONE`.
    pub(in crate::account) fn with_instance(&mut self, id: u32, change: impl FnOnce(&mut Instance)) {
        if id == NONE {
            return;
        }
        let instance = self.instances.get_mut(id).expected("an instance that changes is there");
        let Some(instance) = instance else { return };
        let module = self.modules.get(instance.module).expected("an instance has a module");
        let floor = module.map_or(0, |module| module.floor);
        let level = |instance: &Instance| {
            let place = instance.place.unwrap_or(u32::MAX);
            (instance.presence == Presence::Active).then(|| {
                ((instance.level(), place, id), instance.level_of_giver(floor).map(|level| (level, id)))
            })
        };
        let (before, offset) = (level(instance), instance.offset);
        change(instance);
        instance.offset = instance.offset.clamp(-MAX_OFFSET, MAX_OFFSET);
        let after = level(instance);
        let (module, offset) = (instance.module, instance.offset - offset);
        if !instance.has_place() && instance.assigned > 0 {
            self.draining.insert(id);
        } else {
            self.draining.remove(&id);
        }
        if before == after && offset == 0 {
            return;
        }
        if let Some(module) = self.indexed_module_mut(module) {
            module.offsets += offset;
            if let Some((level, gave)) = before {
                let gave = gave.is_none_or(|giver| module.givers.remove(&giver));
                let was_there = module.levels.remove(&level) && gave;
                invariant!(was_there, "an active instance has a place among the levels");
            }
            if let Some((level, gives)) = after {
                let is_new =
                    module.levels.insert(level) && gives.is_none_or(|giver| module.givers.insert(giver));
                invariant!(is_new, "an active instance has one place among the levels");
            }
        }
        // An account in transit may belong to another module, whose evenness must be checked as well.
        self.note_evenness(module);
    }

    /// Gives an instance that has a place the lowest number that is not taken, and takes the number from one that has
    /// none. O(active instances).
    pub(in crate::account) fn number_place(&mut self, id: u32) {
        let Some(instance) = self.indexed_instance(id) else { return };
        let (before, module) = (instance.place, instance.module);
        if before.is_some() == instance.has_place() {
            return;
        }
        let Some(module) = self.indexed_module_mut(module) else { return };
        let place = before.is_none().then(|| module.empty_place());
        let changed = match (before, place) {
            (Some(before), _) => module.taken.remove(&before),
            (None, place) => place.is_none_or(|place| module.taken.insert(place)),
        };
        invariant!(changed, "each place of a module is taken once");
        self.with_instance(id, |instance| instance.place = place);
    }

    /// Numbers the places of a module again, in the order in which the instances came. O(instances).
    pub(in crate::account) fn number_places(&mut self, module: u32) {
        let Some(known) = self.indexed_module_mut(module) else { return };
        known.taken.clear();
        let instances: Vec<u32> = known.instances().collect();
        for &id in &instances {
            self.with_instance(id, |instance| instance.place = None);
        }
        instances.into_iter().for_each(|id| self.number_place(id));
    }

    /// The current month and the limit of instructions: the order of ready accounts and the supply of an instance
    /// depend on both.
    pub(in crate::account) fn order(&self) -> (u32, u64) {
        (self.month, self.settings.limit())
    }

    /// Sorts the ready accounts of an instance again if the month or the cap has changed since; returns whether it
    /// did.
    fn refresh(&mut self, instance: u32) -> bool {
        let order @ (month, limit) = self.order();
        let instance = self.instances.get_mut(instance);
        let Some(instance) = instance.expected("an account that is assigned has an instance") else {
            return false;
        };
        if instance.ready_order == order {
            return false;
        }
        let ready = |&id: &u32| {
            let account = self.accounts.get(id).expected("an instance has accounts that are there");
            account.filter(|account| account.is_ready()).map(|account| (account.rank(month, limit), id))
        };
        instance.ready = instance.accounts.iter().filter_map(ready).collect();
        instance.ready_order = order;
        true
    }

    /// Adds an account to the accounts that can be picked, or removes it, if it is ready.
    pub(in crate::account) fn set_ready(&mut self, id: u32, on: bool) {
        let Some(account) = self.indexed(id).filter(|account| account.is_ready()) else { return };
        let (month, limit) = self.order();
        let (instance, key) = (account.instance, (account.rank(month, limit), id));
        let refreshed = self.refresh(instance);
        let instance = self.instances.get_mut(instance);
        let Some(instance) = instance.expected("an account that is assigned has an instance") else { return };
        if on {
            let is_new = instance.ready.insert(key);
            // An order that was just sorted may contain the account already.
            invariant!(is_new || refreshed, "an account is ready once");
        } else {
            let was_there = instance.ready.remove(&key);
            invariant!(was_there, "a ready account is in the order");
        }
    }

    /// Adds an account to all indexes that depend on its state, or removes it.
    fn link(&mut self, id: u32, on: bool) {
        let Some(account) = self.indexed(id) else { return };
        let (state, instance, goal, module) = (account.state, account.instance, account.goal, account.module);
        let worth = account.worth();
        let more = if on { Worth::from(worth) } else { -Worth::from(worth) };
        let barred = account.login.is_some();
        let holder = account.last_holder().cloned();
        if let Some(total) = self.totals.get_mut(state as usize).expected("there is a total for each state") {
            step!(*total, on);
        }
        if state == AccountState::Free
            && let Some(module) = self.indexed_module_mut(module)
        {
            if barred {
                step!(module.barred, on);
            } else {
                module.free.set(worth, id, on);
                if let Some(holder) = holder {
                    module.note_free(&holder, (worth, id), on);
                }
            }
        }
        if goal == Some(Goal::Reassign)
            && let Some(module) = self.indexed_module_mut(module)
        {
            step!(module.returning, on);
        }
        self.set_ready(id, on);
        self.set_supply(id, on);
        if let Some(module) = self.expecting(id).and_then(|module| self.indexed_module_mut(module)) {
            step!(module.expected, on);
            module.worth += more;
            module.quotas.count(worth, on);
        }
        self.with_instance(instance, |instance| {
            let changed = if on { instance.accounts.insert(id) } else { instance.accounts.remove(&id) };
            invariant!(changed, "an instance has its accounts, each once");
            if state == AccountState::Assigned {
                step!(instance.assigned, on);
                instance.quotas.count(worth, on);
                instance.worth += more;
            }
        });
        if let Some(Goal::Place(place)) = goal {
            self.with_instance(place, |place| {
                step!(place.incoming, on);
                place.worth += more;
            });
        }
    }

    /// Adds an account to the supply of its instance, or removes it.
    fn set_supply(&mut self, id: u32, on: bool) {
        let order = self.order();
        let account = self.accounts.get(id).expected("an index has only accounts that exist");
        let Some((account, supplied)) = account.and_then(|one| Some((one, one.supplied()?))) else { return };
        let instance = self.instances.get_mut(supplied);
        if let Some(instance) = instance.expected("an account that is assigned or in transit has an instance")
        {
            instance.supply.set(account, order, on);
        }
    }

    /// The module whose instances share an account now or soon; `None` if it is frozen or will be deleted.
    pub(in crate::account) fn expecting(&self, id: u32) -> Option<u32> {
        let account = self.indexed(id).filter(|account| account.state != AccountState::Frozen)?;
        self.destination(account)
    }

    /// Adds a module without accounts and instances; returns its number.
    pub(in crate::account) fn enter_module(&mut self, module: Module) -> u32 {
        let (name, elsewhere) = (module.name.clone(), self.used_elsewhere(&module.name));
        let module = Module { elsewhere, ..module };
        let id = self.modules.insert(module);
        let is_new = self.module_names.insert(name, id).is_none();
        invariant!(is_new, "a module's name is that of no other");
        id
    }

    /// Removes a module that has neither accounts nor instances.
    pub(in crate::account) fn remove_module(&mut self, id: u32) {
        let module = self.modules.remove(id).expected("a module that is removed was there");
        let Some(module) = module else { return };
        self.uneven.remove(&id);
        self.module_names.remove(&module.name);
    }

    /// Changes an account and updates all indexes.
    pub(in crate::account) fn change(&mut self, id: u32, change: impl FnOnce(&mut Account)) {
        let Some(account) = self.indexed(id) else { return };
        let (before, left) = (account.module, account.instance);
        let passed = account.goal.and_then(Goal::place).unwrap_or(NONE);
        let missed = self.expecting(id).filter(|&missed| missed != before);
        self.link(id, false);
        let Some(account) = self.indexed_mut(id) else { return };
        let thaws = account.thaws_at();
        change(account);
        if account.state != AccountState::Frozen && !account.was_frozen {
            account.frozen_until = None;
        }
        let (after, until) = (account.module, account.thaws_at());
        match until {
            _ if until == thaws => {}
            Some(until) => self.thaws.set(id, until),
            None => self.thaws.remove(id),
        }
        if before != after {
            self.set_home(before, id, false);
            self.set_home(after, id, true);
            self.look_at(before);
        }
        self.link(id, true);
        let expecting = self.expecting(id).filter(|&expecting| expecting != after);
        for module in [missed, expecting].into_iter().flatten() {
            self.look_at(module);
        }
        self.look_at(after);
        self.forget_if_empty(left);
        self.forget_if_empty(passed);
    }

    /// Adds an account to the table and to all indexes.
    pub(in crate::account) fn enter(&mut self, account: Account) -> u32 {
        let (name, module) = (account.name.clone(), account.module);
        let (login, thaws) = (account.login.as_ref().map(|login| login.until), account.thaws_at());
        *self.tariffs.entry(account.tariff.clone()).or_default() += 1;
        let id = self.accounts.insert(account);
        self.names.insert(&name, id);
        thaws.into_iter().for_each(|until| self.thaws.set(id, until));
        login.into_iter().for_each(|until| self.logins.set(id, until));
        self.note_turn(id);
        self.set_home(module, id, true);
        self.link(id, true);
        self.look_at(module);
        id
    }

    /// Removes an account from the table and from all indexes.
    pub(in crate::account) fn remove(&mut self, at: Millis, id: u32) {
        let missed = self.expecting(id);
        self.link(id, false);
        self.logins.remove(id);
        self.thaws.remove(id);
        self.cycles.remove(id);
        missed.into_iter().for_each(|module| self.look_at(module));
        let Some(home) = self.indexed(id).map(|account| account.module) else { return };
        self.set_home(home, id, false);
        let account = self.accounts.remove(id).expected("an account that is removed was there");
        let Some(account) = account else { return };
        self.names.remove(&account.name, id);
        self.look_at(account.module);
        self.forget_tariff(&account.tariff);
        self.forget_if_empty(account.instance);
        let deleted = account.deleted(at);
        if deleted.is_worth_keeping() {
            self.deleted.insert(deleted.name.clone(), deleted);
        }
    }

    /// Removes a leaving instance that has no accounts, and none in transit to it.
    pub(in crate::account) fn forget_if_empty(&mut self, id: u32) {
        let gone = |instance: &Instance| {
            instance.presence == Presence::Leaving && instance.accounts.is_empty() && instance.incoming == 0
        };
        // `NONE`, or the instance was removed just before.
        if self.instances.get(id).is_some_and(gone) {
            self.remove_instance(id);
        }
    }

    /// Updates what is computed from all accounts and instances of a module: how many accounts each instance keeps,
    /// and whether the module is in the set of uneven modules. O(1), or O(active instances) if the first changes.
    pub(in crate::account) fn look_at(&mut self, module: u32) {
        let Some(known) = self.indexed_module(module) else { return };
        let floor = known.computed_floor();
        if floor != known.floor {
            let giver = |&(_, _, id): &Level| Some((self.indexed_instance(id)?.level_of_giver(floor)?, id));
            let givers = known.levels.iter().filter_map(giver).collect();
            if let Some(module) = self.indexed_module_mut(module) {
                (module.floor, module.givers) = (floor, givers);
            }
        }
        self.note_evenness(module);
    }

    /// Updates the set of uneven modules for a module.
    fn note_evenness(&mut self, module: u32) {
        if self.is_uneven(module) {
            self.uneven.insert(module);
        } else {
            self.uneven.remove(&module);
        }
    }

    /// Adds an instance without accounts.
    pub(in crate::account) fn enter_instance(&mut self, instance: Instance) -> u32 {
        let (module, name, arrived) = (instance.module, instance.name.clone(), instance.arrived);
        let (presence, place, offset) = (instance.presence, instance.place, instance.offset);
        // The change below adds the instance to the levels.
        let id = self.instances.insert(Instance {
            presence: Presence::Standby,
            place: None,
            offset: 0,
            ..instance
        });
        if let Some(module) = self.indexed_module_mut(module) {
            let is_new = module.names.insert(name, id).is_none() && module.instances.insert((arrived, id));
            invariant!(is_new, "a module has its instances, each once");
        }
        self.with_instance(id, |instance| (instance.presence, instance.offset) = (presence, offset));
        match place {
            Some(place) => {
                if let Some(module) = self.indexed_module_mut(module) {
                    invariant!(module.taken.insert(place), "each place of a module is taken once");
                }
                self.with_instance(id, |instance| instance.place = Some(place));
            }
            None => self.number_place(id),
        }
        id
    }

    /// Removes an instance that has no accounts and no place.
    fn remove_instance(&mut self, id: u32) {
        self.away.remove(id);
        let instance = self.instances.remove(id).expected("an instance that is forgotten was there");
        let Some(instance) = instance else { return };
        invariant!(!self.draining.contains(&id), "an instance that is forgotten has nothing to give back");
        if let Some(module) = self.indexed_module_mut(instance.module) {
            let was_there = module.names.remove(&instance.name) == Some(id)
                && module.instances.remove(&(instance.arrived, id));
            invariant!(was_there, "a module has its instances");
        }
    }
}
