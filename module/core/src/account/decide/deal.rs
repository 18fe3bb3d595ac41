//! Who gets which account: even to within one, by the fewest moves, in steps of bounded length.
//!
//! What is evened out is an instance's *level*: accounts dealt to it and on their way, over what rebalancing gave it. A
//! step gives free accounts (beyond the reserve) to the instance with the lowest level, and while the highest is more than one
//! above the lowest takes one from there. Taking from the highest and giving to the lowest, one by one, is the shortest
//! way to an even deal: each move lessens the sum of what is above even and of what is below it by one, which is all that
//! a move can do.

use std::collections::{BTreeMap, BTreeSet};

use crate::account::event::{Event, Events};
use crate::account::model::place::{Instance, Module};
use crate::account::model::record::Standing;
use crate::account::model::state::Book;
use crate::invariant;
use crate::shared::Bytes;
use smallvec::smallvec;

/// Names of accounts by the instance that they go to.
type Shares = BTreeMap<u32, Vec<Bytes>>;

/// The most accounts that a step moves: some 100 microseconds.
pub const STEP: usize = 256;

impl Book {
    /// The next step towards an even deal; nothing where all are even. O(instances of the module + accounts moved log
    /// accounts).
    pub fn decide_deal(&self, limit: usize) -> Events {
        if let Some(instance) = self.draining.first().and_then(|&id| self.indexed_instance(id)) {
            return smallvec![self.withdraw(instance, limit.min(STEP))];
        }
        let modules = self.uneven.iter().filter_map(|&id| self.indexed_module(id));
        for module in modules {
            let events = self.deal_in(module, limit.min(STEP));
            if invariant!(limit == 0 || !events.is_empty(), "there is something to deal in an uneven module")
            {
                return events;
            }
        }
        Events::new()
    }

    fn deal_in(&self, module: &Module, limit: usize) -> Events {
        let (mut levels, mut givers) = (module.levels.clone(), module.givers.clone());
        let (mut dealt, mut recalled) = (Shares::new(), Shares::new());
        let over = module.free.len().saturating_sub(module.reserve as usize);
        for &account in module.free.iter().take(over.min(limit)) {
            let Some((level, lowest)) = levels.pop_first() else {
                invariant!("accounts are dealt where an instance is active");
                break;
            };
            let Some(account) = self.indexed(account) else { break };
            dealt.entry(lowest).or_default().push(account.name.clone());
            levels.insert((level + 1, lowest));
            // Who had nothing has it only when this step is applied.
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
                // All that it has left is on its way to it.
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

    /// What an instance without a place gives back.
    fn withdraw(&self, instance: &Instance, limit: usize) -> Event {
        let dealt = |&id: &u32| self.indexed(id).filter(|account| account.standing == Standing::Dealt);
        let accounts = instance.accounts.iter().filter_map(dealt).take(limit);
        let accounts: Vec<Bytes> = accounts.map(|account| account.name.clone()).collect();
        invariant!(limit == 0 || !accounts.is_empty(), "an instance that drains has accounts");
        Event::Withdrawn { accounts }
    }

    /// Accounts that an instance can give, those first that nobody is logged in with and that have most left.
    fn givable(&self, instance: u32) -> Box<dyn Iterator<Item = u32> + '_> {
        let Some(instance) = self.indexed_instance(instance) else { return Box::new(std::iter::empty()) };
        let in_use = |&id: &u32| {
            self.indexed(id)
                .is_some_and(|account| account.standing == Standing::Dealt && account.login.is_some())
        };
        let ready = instance.ready.iter().rev().map(|&(_, id)| id);
        Box::new(ready.chain(instance.accounts.iter().copied().filter(in_use)))
    }

    /// The largest difference between two levels of a module's instances; 0 or 1 where its deal is even.
    pub fn spread(&self, module: u32) -> i64 {
        let levels = self.modules.get(module).map(|module| &module.levels);
        let ends = levels.and_then(|levels: &BTreeSet<_>| Some((levels.first()?.0, levels.last()?.0)));
        ends.map_or(0, |(lowest, highest)| highest - lowest)
    }
}
