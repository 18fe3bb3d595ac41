//! Assigns accounts to instances: even to within one, with the fewest moves, in steps of bounded length.
//!
//! The assignment evens out the *level* of instances: accounts assigned or in transit, minus the offset from
//! rebalancing. A step gives free accounts (beyond the reserve) to the instance with the lowest level. While the
//! highest level is more than one above the lowest, it also moves an account from the highest to the lowest. No
//! shorter way exists: each move reduces the distance to an even assignment by one, and no move can reduce it by
//! more.

use std::collections::{BTreeMap, BTreeSet};

use crate::account::event::{Event, Events};
use crate::account::model::place::{Instance, Module};
use crate::account::model::record::AccountState;
use crate::account::model::state::Book;
use crate::invariant;
use crate::shared::Bytes;
use smallvec::smallvec;

/// Names of accounts by target instance.
type Shares = BTreeMap<u32, Vec<Bytes>>;

/// The most accounts that a step moves: about 100 microseconds.
pub const STEP: usize = 256;

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
        let (mut dealt, mut recalled) = (Shares::new(), Shares::new());
        let over = module.free.len().saturating_sub(module.reserve as usize);
        for &account in module.free.iter().take(over.min(limit)) {
            let Some((level, lowest)) = levels.pop_first() else {
                invariant!("accounts are assigned only in modules with an active instance");
                break;
            };
            let Some(account) = self.indexed(account) else { break };
            dealt.entry(lowest).or_default().push(account.name.clone());
            levels.insert((level + 1, lowest));
            // An instance that keeps all that it has gives nothing before this step is applied.
            if givers.remove(&(level, lowest)) {
                givers.insert((level + 1, lowest));
            }
        }
        let mut left = limit.saturating_sub(over);
        let mut gifts: BTreeMap<u32, Box<dyn Iterator<Item = u32> + '_>> = BTreeMap::new();
        while left > 0
            && let (Some(&(low, to)), Some(&(high, from))) = (levels.first(), givers.last())
            && high - low > 1
        {
            let gift = gifts.entry(from).or_insert_with(|| self.givable(from));
            let Some(account) = gift.next().and_then(|id| self.indexed(id)) else {
                // The remaining accounts of this level are still in transit.
                givers.remove(&(high, from));
                continue;
            };
            let shares = if account.login.is_some() { &mut recalled } else { &mut dealt };
            shares.entry(to).or_default().push(account.name.clone());
            for (level, id, next) in [(low, to, low + 1), (high, from, high - 1)] {
                levels.remove(&(level, id));
                levels.insert((next, id));
                if givers.remove(&(level, id)) {
                    givers.insert((next, id));
                }
            }
            left -= 1;
        }
        let place = |to: u32| (module.name.clone(), self.instance_name(to));
        let recalled = recalled.into_iter().map(|(to, accounts)| {
            let (module, instance) = place(to);
            Event::Recalled { module, instance, accounts }
        });
        let dealt = dealt.into_iter().map(|(to, accounts)| {
            let (module, instance) = place(to);
            Event::Dealt { module, instance, accounts }
        });
        recalled.chain(dealt).collect()
    }

    /// Takes accounts from an instance without a place.
    fn withdraw(&self, instance: &Instance, limit: usize) -> Event {
        let dealt = |&id: &u32| self.indexed(id).filter(|account| account.state == AccountState::Dealt);
        let accounts = instance.accounts.iter().filter_map(dealt).take(limit);
        let accounts: Vec<Bytes> = accounts.map(|account| account.name.clone()).collect();
        invariant!(limit == 0 || !accounts.is_empty(), "an instance that drains has accounts");
        Event::Withdrawn { accounts }
    }

    /// Accounts that an instance can give: first those without a login, with most left at the flat price first.
    pub(super) fn givable(&self, instance: u32) -> Box<dyn Iterator<Item = u32> + '_> {
        let Some(instance) = self.indexed_instance(instance) else { return Box::new(std::iter::empty()) };
        let in_use = |&id: &u32| {
            self.indexed(id)
                .is_some_and(|account| account.state == AccountState::Dealt && account.login.is_some())
        };
        let ready = instance.ready.iter().rev().map(|&(_, id)| id);
        Box::new(ready.chain(instance.accounts.iter().copied().filter(in_use)))
    }

    /// The largest difference between two levels of a module's instances; 0 or 1 if the assignment is even.
    pub fn spread(&self, module: u32) -> i64 {
        let levels = self.modules.get(module).map(|module| &module.levels);
        let ends = levels.and_then(|levels: &BTreeSet<_>| Some((levels.first()?.0, levels.last()?.0)));
        ends.map_or(0, |(lowest, highest)| highest - lowest)
    }
}
