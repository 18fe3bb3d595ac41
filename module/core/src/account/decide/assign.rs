//! Assigns accounts to instances: even to within one, with the fewest moves, in steps of bounded length.
//!
//! A module divides its accounts among the instances that are present, or into one share for each of its places. In
//! the second case an instance gets no more than the share of its place, and what belongs to empty places stays free.
//!
//! The assignment evens out the *level* of instances: accounts assigned or in transit, minus the offset from
//! rebalancing. A step gives free accounts (beyond the reserve) to the instance with the lowest level. While the
//! highest level is more than one above the lowest, it also moves an account from the highest to the lowest. No
//! shorter way exists: each move reduces the distance to an even assignment by one, and no move can reduce it by
//! more.

use std::collections::{BTreeMap, BTreeSet, btree_set};

use crate::account::event::{Event, Events, InstanceEvent};
use crate::account::model::place::{Instance, Module};
use crate::account::model::record::{AccountState, Name};
use crate::account::model::state::Book;
use crate::invariant;
use crate::shared::Bytes;
use smallvec::smallvec;

/// Names of accounts by target instance.
type Shares = BTreeMap<u32, Vec<Bytes>>;

/// The most accounts that a step moves: about 100 microseconds.
pub const STEP: usize = 256;

/// The free accounts of a module, each once.
struct FreeAccounts<'a> {
    module: &'a Module,
    all: btree_set::Iter<'a, u32>,
    /// By instance: the accounts that it had last.
    own: BTreeMap<u32, btree_set::Iter<'a, u32>>,
    given: BTreeSet<u32>,
}

impl<'a> FreeAccounts<'a> {
    fn of(module: &'a Module) -> Self {
        Self { module, all: module.free.iter(), own: BTreeMap::new(), given: BTreeSet::new() }
    }

    /// A free account for an instance: one that it had last, if there is one.
    fn next_for(&mut self, id: u32, name: &Name) -> Option<u32> {
        const NONE: &BTreeSet<u32> = &BTreeSet::new();
        let own = || self.module.free_of.get(name).unwrap_or(NONE).iter();
        let own = self.own.entry(id).or_insert_with(own);
        let next = own.chain(&mut self.all).copied().find(|id| !self.given.contains(id))?;
        self.given.insert(next);
        Some(next)
    }
}

impl Book {
    /// The next step towards an even assignment; no events if all modules are even. O(instances of the module +
    /// accounts moved log accounts).
    pub fn decide_assignment(&self, limit: usize) -> Events {
        if let Some(instance) = self.draining.first().and_then(|&id| self.indexed_instance(id)) {
            return smallvec![self.withdraw(instance, limit.min(STEP))];
        }
        let modules = self.uneven.iter().filter_map(|&id| self.indexed_module(id));
        for module in modules {
            let events = self.assign_in(module, limit.min(STEP));
            if invariant!(limit == 0 || !events.is_empty(), "an uneven module has accounts to assign") {
                return events;
            }
        }
        Events::new()
    }

    fn assign_in(&self, module: &Module, limit: usize) -> Events {
        let (mut levels, mut givers) = (module.levels.clone(), module.givers.clone());
        let (mut assigned, mut recalled) = (Shares::new(), Shares::new());
        let mut over = module.free.len().saturating_sub(module.reserve as usize);
        let mut left = limit;
        let mut free = FreeAccounts::of(module);
        while over > 0
            && left > 0
            && let Some(taker @ (level, place, lowest)) = module.taker(&levels)
            && let Some(account) =
                free.next_for(lowest, &self.instance_name(lowest)).and_then(|id| self.indexed(id))
        {
            levels.remove(&taker);
            assigned.entry(lowest).or_default().push(account.name.clone());
            levels.insert((level + 1, place, lowest));
            // An instance that keeps all that it has gives nothing before this step is applied.
            if givers.remove(&(level, lowest)) {
                givers.insert((level + 1, lowest));
            }
            (over, left) = (over - 1, left - 1);
        }
        if left == 0 || !module.evens_out() {
            return self.assigned(module, assigned, recalled);
        }
        let mut gifts: BTreeMap<u32, Box<dyn Iterator<Item = u32> + '_>> = BTreeMap::new();
        let mut given: BTreeMap<u32, u32> = BTreeMap::new();
        while left > 0
            && let (Some(taker @ (low, _, to)), Some(&(high, from))) = (module.taker(&levels), givers.last())
            && high - low > 1
        {
            let gift = gifts.entry(from).or_insert_with(|| self.givable(from));
            let Some(account) = gift.next().and_then(|id| self.indexed(id)) else {
                // The remaining accounts of this level are still in transit.
                givers.remove(&(high, from));
                continue;
            };
            let shares = if account.login.is_some() { &mut recalled } else { &mut assigned };
            shares.entry(to).or_default().push(account.name.clone());
            let place_of = |id: u32| self.indexed_instance(id).and_then(|instance| instance.place);
            let giver = (high, place_of(from).unwrap_or(u32::MAX), from);
            for (entry @ (level, place, id), next) in [(taker, low + 1), (giver, high - 1)] {
                levels.remove(&entry);
                levels.insert((next, place, id));
                if givers.remove(&(level, id)) {
                    givers.insert((next, id));
                }
            }
            // It keeps its last accounts.
            let from_giver = given.entry(from).or_insert(0);
            *from_giver += 1;
            let keeps = |giver: &Instance| giver.assigned.saturating_sub(*from_giver) <= module.floor();
            if self.indexed_instance(from).is_none_or(keeps) {
                givers.remove(&(high - 1, from));
            }
            left -= 1;
        }
        self.assigned(module, assigned, recalled)
    }

    /// The events that assign accounts to instances of a module.
    fn assigned(&self, module: &Module, assigned: Shares, recalled: Shares) -> Events {
        let to = |event: InstanceEvent, to: u32| event.of(module.name.clone(), self.instance_name(to));
        let recalled =
            recalled.into_iter().map(|(id, accounts)| to(InstanceEvent::Recalled { accounts }, id));
        let assigned =
            assigned.into_iter().map(|(id, accounts)| to(InstanceEvent::Assigned { accounts }, id));
        recalled.chain(assigned).collect()
    }

    /// Takes accounts from an instance without a place.
    fn withdraw(&self, instance: &Instance, limit: usize) -> Event {
        let assigned = |&id: &u32| self.indexed(id).filter(|account| account.state == AccountState::Assigned);
        let accounts = instance.accounts.iter().filter_map(assigned).take(limit);
        let accounts: Vec<Bytes> = accounts.map(|account| account.name.clone()).collect();
        invariant!(limit == 0 || !accounts.is_empty(), "an instance that drains has accounts");
        Event::Withdrawn { accounts }
    }

    /// Accounts that an instance can give: first those without a login, with most left at the flat price first.
    pub(super) fn givable(&self, instance: u32) -> Box<dyn Iterator<Item = u32> + '_> {
        let Some(instance) = self.indexed_instance(instance) else { return Box::new(std::iter::empty()) };
        let in_use = |&id: &u32| {
            self.indexed(id)
                .is_some_and(|account| account.state == AccountState::Assigned && account.login.is_some())
        };
        let ready = instance.ready.iter().rev().map(|&(_, id)| id);
        Box::new(ready.chain(instance.accounts.iter().copied().filter(in_use)))
    }
}
