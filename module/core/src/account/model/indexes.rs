//! Keeps the indexes of a book in step: every change of an account or an instance goes through here.

use std::sync::Arc;

use super::place::{Instance, MAX_OFFSET, Presence};
use super::record::{Account, Epoch, Goal, MONTHS, Name, Standing};
use super::state::Book;
use super::tariff::Tariff;
use crate::invariant;
use crate::shared::Millis;
use crate::shared::list::NONE;

impl Book {
    /// The module that an account is on its way to, or belongs to; `None` where it is about to be deleted.
    pub(in crate::account) fn destination(&self, account: &Account) -> Option<u32> {
        match account.goal {
            Some(Goal::Delete) => None,
            Some(Goal::Module(module)) => Some(module),
            Some(Goal::Place(place)) => {
                // Its instance is not forgotten while an account is on its way to it.
                Some(self.indexed_instance(place).map_or(account.module, |place| place.module))
            }
            Some(Goal::Deal) | None => Some(account.module),
        }
    }

    /// Whether there is something to deal in a module. O(log instances).
    pub(in crate::account) fn is_uneven(&self, module: u32) -> bool {
        let Some(module) = self.indexed_module(module) else { return false };
        let Some(lowest) = module.levels.first() else { return false };
        let highest = module.givers.last();
        module.free.len() > module.reserve as usize || highest.is_some_and(|highest| highest.0 - lowest.0 > 1)
    }

    /// A name that others have already, if others have it.
    pub(in crate::account) fn department_name(&self, name: &[u8]) -> Name {
        let same = self.modules().find(|module| *module.department == *name);
        same.map_or_else(|| Name::from(name), |module| module.department.clone())
    }

    /// The tariff that is equal to this and that other accounts have, if some have it.
    pub(in crate::account) fn shared_tariff(&self, tariff: &Tariff) -> Arc<Tariff> {
        let known = self.tariffs.get_key_value(tariff);
        known.map_or_else(|| Arc::new(tariff.clone()), |(known, _)| known.clone())
    }

    /// The next epoch: `max(last + 1, now)`, *now* in microseconds, so that epochs still grow after a failover to a
    /// replica that had not heard of the last ones.
    pub(in crate::account) fn take_epoch(&mut self, at: Millis) -> Epoch {
        /// Year 2112: however far ahead a clock is, as many epochs follow as anybody can give.
        const LAST_OF_CLOCK: u64 = 1 << 52;
        let now = at.max(0).unsigned_abs().saturating_mul(1000).min(LAST_OF_CLOCK);
        self.last_epoch = (self.last_epoch + 1).max(now);
        self.last_epoch
    }

    /// Changes an instance with its module's levels in step; `NONE` is none.
    pub(in crate::account) fn with_instance(&mut self, id: u32, change: impl FnOnce(&mut Instance)) {
        if id == NONE {
            return;
        }
        let Some(instance) = self.instances.get_mut(id) else {
            invariant!("an instance that changes is there");
            return;
        };
        let level = |instance: &Instance| {
            (instance.presence == Presence::Active).then(|| (instance.level(), instance.dealt > 0))
        };
        let before = level(instance);
        change(instance);
        instance.offset = instance.offset.clamp(-MAX_OFFSET, MAX_OFFSET);
        let after = level(instance);
        let module = instance.module;
        if !instance.has_place() && instance.dealt > 0 {
            self.draining.insert(id);
        } else {
            self.draining.remove(&id);
        }
        if before == after {
            return;
        }
        if let Some(module) = self.indexed_module_mut(module) {
            if let Some((level, gave)) = before {
                let was_there =
                    module.levels.remove(&(level, id)) && module.givers.remove(&(level, id)) == gave;
                invariant!(was_there, "an active instance has a place among the levels");
            }
            if let Some((level, gives)) = after {
                let is_new =
                    module.levels.insert((level, id)) && (!gives || module.givers.insert((level, id)));
                invariant!(is_new, "an active instance has one place among the levels");
            }
        }
        // An account on its way may belong to another module, which nobody else would look at.
        self.look_at(module);
    }

    /// What the order of ready accounts depends on beside them: the running month, and the most that it may have.
    pub(in crate::account) fn order(&self) -> (u32, u64) {
        (self.month, self.settings.limit())
    }

    /// Brings the order of an instance's ready accounts to the running month and the cap of today. Whether it was not.
    fn refresh(&mut self, instance: u32) -> bool {
        let order @ (month, limit) = self.order();
        let Some(instance) = self.instances.get_mut(instance) else {
            invariant!("an account that is dealt has an instance");
            return false;
        };
        if instance.ready_order == order {
            return false;
        }
        let ready = |&id: &u32| {
            let account = self.accounts.get(id);
            invariant!(account.is_some(), "an instance has accounts that are there");
            account.filter(|account| account.is_ready()).map(|account| (account.room(month, limit), id))
        };
        instance.ready = instance.accounts.iter().filter_map(ready).collect();
        instance.ready_order = order;
        true
    }

    /// Enters an account among those that can be picked, or takes it out, if it is one of those.
    pub(in crate::account) fn set_ready(&mut self, id: u32, on: bool) {
        let Some(account) = self.indexed(id) else { return };
        if !account.is_ready() {
            return;
        }
        let (month, limit) = self.order();
        let (instance, key) = (account.instance, (account.room(month, limit), id));
        let refreshed = self.refresh(instance);
        let Some(instance) = self.instances.get_mut(instance) else { return };
        if on {
            let is_new = instance.ready.insert(key);
            // An order that was made just now may have it already.
            invariant!(is_new || refreshed, "an account is ready once");
        } else {
            let was_there = instance.ready.remove(&key);
            invariant!(was_there, "an account that is ready has a place in the order");
        }
    }

    /// Enters an account in all indexes that depend on where it stands, or takes it out. Its module stays.
    fn link(&mut self, id: u32, on: bool) {
        let Some(account) = self.indexed(id) else { return };
        let (standing, instance, goal, module) =
            (account.standing, account.instance, account.goal, account.module);
        let barred = account.login.is_some();
        match self.totals.get_mut(standing as usize) {
            Some(total) => step(total, on),
            None => invariant!("there is a total for each standing"),
        }
        if standing == Standing::Free
            && let Some(module) = self.indexed_module_mut(module)
        {
            if barred {
                step(&mut module.barred, on);
            } else {
                let changed = if on { module.free.insert(id) } else { module.free.remove(&id) };
                invariant!(changed, "a module has its free accounts, each once");
            }
        }
        self.set_ready(id, on);
        self.with_instance(instance, |instance| {
            let changed = if on { instance.accounts.insert(id) } else { instance.accounts.remove(&id) };
            invariant!(changed, "an instance has its accounts, each once");
            if standing == Standing::Dealt {
                step(&mut instance.dealt, on);
            }
        });
        if let Some(Goal::Place(place)) = goal {
            self.with_instance(place, |place| step(&mut place.incoming, on));
        }
    }

    /// Enters an account among those of a module, or takes it out.
    fn set_home(&mut self, module: u32, id: u32, on: bool) {
        let (Some(module), Some(account)) = (self.modules.get_mut(module), self.accounts.get(id)) else {
            invariant!("an account and its module are there");
            return;
        };
        let changed = if on {
            module.sums.add(account, self.month);
            module.accounts.insert(id)
        } else {
            module.sums.take(account, self.month);
            module.accounts.remove(&id)
        };
        invariant!(changed, "a module has its accounts, each once");
    }

    /// Counts instructions of an account in the running month, with the sums of its module in step.
    pub(in crate::account) fn count_use(&mut self, id: u32, count: u64) {
        let month = self.month;
        let Some(account) = self.accounts.get_mut(id) else {
            invariant!("an account that is used is there");
            return;
        };
        let Some(module) = self.modules.get_mut(account.module) else {
            invariant!("an account has a module");
            return;
        };
        module.sums.take(account, month);
        account.count(month, count);
        module.sums.add(account, month);
    }

    /// Changes an account with all indexes in step.
    pub(in crate::account) fn change(&mut self, id: u32, change: impl FnOnce(&mut Account)) {
        let Some(account) = self.indexed(id) else { return };
        let (before, left) = (account.module, account.instance);
        let passed = account.goal.and_then(Goal::place).unwrap_or(NONE);
        self.link(id, false);
        let Some(account) = self.accounts.get_mut(id) else { return };
        change(account);
        let after = account.module;
        if before != after {
            self.set_home(before, id, false);
            self.set_home(after, id, true);
            self.look_at(before);
        }
        self.link(id, true);
        self.look_at(after);
        self.forget_if_empty(left);
        self.forget_if_empty(passed);
    }

    /// Enters a new account.
    pub(in crate::account) fn enter(&mut self, account: Account) -> u32 {
        let (name, module) = (account.name.clone(), account.module);
        *self.tariffs.entry(account.tariff.clone()).or_default() += 1;
        let id = self.accounts.insert(account);
        self.names.insert(&name, id);
        self.set_home(module, id, true);
        self.link(id, true);
        self.look_at(module);
        id
    }

    /// Forgets an account.
    pub(in crate::account) fn remove(&mut self, id: u32) {
        self.link(id, false);
        self.logins.remove(id);
        let Some(home) = self.indexed(id).map(|account| account.module) else { return };
        self.set_home(home, id, false);
        let Some(account) = self.accounts.remove(id) else { return };
        self.names.remove(&account.name, id);
        self.look_at(account.module);
        self.forget_tariff(&account.tariff);
        self.forget_if_empty(account.instance);
    }

    /// An account that had a tariff is gone, and the tariff with the last of them.
    fn forget_tariff(&mut self, tariff: &Tariff) {
        let Some(count) = self.tariffs.get_mut(tariff) else {
            invariant!("the tariff of an account is known");
            return;
        };
        step(count, false);
        if *count == 0 {
            self.tariffs.remove(tariff);
        }
    }

    /// Forgets an instance that is gone, once it has nothing and nothing is on its way to it.
    pub(in crate::account) fn forget_if_empty(&mut self, id: u32) {
        let gone = |instance: &Instance| {
            instance.presence == Presence::Leaving && instance.accounts.is_empty() && instance.incoming == 0
        };
        // There is none, or it was forgotten a moment ago.
        if self.instances.get(id).is_some_and(gone) {
            self.remove_instance(id);
        }
    }

    /// Notes whether a module's deal is even.
    pub(in crate::account) fn look_at(&mut self, module: u32) {
        if self.is_uneven(module) {
            self.uneven.insert(module);
        } else {
            self.uneven.remove(&module);
        }
    }

    /// A new month begins.
    pub(in crate::account) fn turn_month(&mut self, at: Millis) {
        self.month += 1;
        for &id in self.module_names.values() {
            match self.modules.get_mut(id) {
                Some(module) => module.sums.begin_month(),
                None => invariant!("the names of modules are of modules that are there"),
            }
        }
        self.month_starts.push(at);
        let kept = self.month_starts.len().saturating_sub(MONTHS + 1);
        self.month_starts.drain(..kept);
    }

    /// Enters an instance, which has no accounts yet.
    pub(in crate::account) fn enter_instance(&mut self, instance: Instance) -> u32 {
        let (module, name, arrived) = (instance.module, instance.name.clone(), instance.arrived);
        let presence = instance.presence;
        // Its place among the levels comes with the change below.
        let id = self.instances.insert(Instance { presence: Presence::Standby, ..instance });
        if let Some(module) = self.indexed_module_mut(module) {
            let is_new = module.names.insert(name, id).is_none() && module.instances.insert((arrived, id));
            invariant!(is_new, "a module has its instances, each once");
        }
        self.with_instance(id, |instance| instance.presence = presence);
        id
    }

    /// Forgets an instance that has no accounts and no place.
    fn remove_instance(&mut self, id: u32) {
        self.away.remove(id);
        let Some(instance) = self.instances.remove(id) else {
            invariant!("an instance that is forgotten was there");
            return;
        };
        invariant!(!self.draining.contains(&id), "an instance that is forgotten has nothing to give back");
        if let Some(module) = self.indexed_module_mut(instance.module) {
            let was_there = module.names.remove(&instance.name) == Some(id)
                && module.instances.remove(&(instance.arrived, id));
            invariant!(was_there, "a module has its instances");
        }
    }
}

/// A count that goes up and down by one.
trait Count: Copy {
    fn next(self, up: bool) -> Option<Self>;
}

impl Count for u32 {
    fn next(self, up: bool) -> Option<Self> {
        if up { self.checked_add(1) } else { self.checked_sub(1) }
    }
}

impl Count for usize {
    fn next(self, up: bool) -> Option<Self> {
        if up { self.checked_add(1) } else { self.checked_sub(1) }
    }
}

/// One more, or one less.
fn step(count: &mut impl Count, up: bool) {
    match count.next(up) {
        Some(next) => *count = next,
        None => invariant!("a count is that of what is there"),
    }
}
