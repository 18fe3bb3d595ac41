//! Who gets which account: even to within one, by the fewest moves, in steps of bounded length.
//!
//! What is evened out is an instance's *level*: accounts dealt to it and on their way, over what rebalancing gave it. A
//! step gives free accounts (beyond the reserve) to whoever has the lowest level, and while the highest is more than one
//! above the lowest takes one from there. Taking from the highest and giving to the lowest, one by one, is the shortest
//! way to an even deal: each move lessens the sum of what is above even and of what is below it by one, which is all that
//! a move can do.

use std::collections::{BTreeMap, BTreeSet};

use super::event::{Event, Events};
use super::place::{Instance, Presence};
use super::record::{Goal, Standing};
use super::state::Book;
use crate::shared::Bytes;
use smallvec::smallvec;

/// The most accounts that a step moves: some 100 microseconds.
pub const STEP: usize = 256;

impl Book {
    /// Whether there is something to deal in a module. O(log instances) while none of its instances stands by with
    /// accounts.
    pub(super) fn is_uneven(&self, module: u32) -> bool {
        let Some(module) = self.modules.get(module) else { return false };
        let (Some(lowest), Some(highest)) = (module.levels.first(), module.levels.last()) else {
            return false;
        };
        module.free.len() > module.reserve as usize || (highest.0 - lowest.0 > 1 && self.gives(highest.1))
    }

    /// Whether an instance has an account to give.
    fn gives(&self, instance: u32) -> bool {
        self.instances.get(instance).is_some_and(|instance| instance.dealt > 0)
    }

    /// The next step towards an even deal; nothing where all are even. O(instances of the module + accounts moved log
    /// accounts).
    pub fn decide_deal(&self, limit: usize) -> Events {
        if let Some(instance) = self.draining.first().and_then(|&id| self.instances.get(id)) {
            return smallvec![self.withdraw(instance, limit.min(STEP))];
        }
        let Some(&id) = self.uneven.first() else { return Events::new() };
        let Some(module) = self.modules.get(id) else { return Events::new() };
        let limit = limit.min(STEP);
        let mut levels = module.levels.clone();
        let mut dealt: BTreeMap<u32, Vec<Bytes>> = BTreeMap::new();
        let mut revoked: BTreeMap<u32, Vec<Bytes>> = BTreeMap::new();
        let over = module.free.len().saturating_sub(module.reserve as usize);
        for &account in module.free.iter().take(over.min(limit)) {
            let (Some((level, lowest)), Some(one)) = (levels.pop_first(), self.accounts.get(account)) else {
                break;
            };
            dealt.entry(lowest).or_default().push(one.name.clone());
            levels.insert((level + 1, lowest));
        }
        let mut left = limit.saturating_sub(over);
        let mut givers: BTreeMap<u32, Box<dyn Iterator<Item = u32> + '_>> = BTreeMap::new();
        while left > 0
            && let (Some(&(low, to)), Some(&(high, from))) = (levels.first(), levels.last())
            && high - low > 1
        {
            let giver = givers.entry(from).or_insert_with(|| self.givable(from));
            let Some(one) = giver.next().and_then(|id| self.accounts.get(id)) else { break };
            let list = if one.login.is_some() { &mut revoked } else { &mut dealt };
            list.entry(to).or_default().push(one.name.clone());
            levels.remove(&(low, to));
            levels.remove(&(high, from));
            levels.insert((low + 1, to));
            levels.insert((high - 1, from));
            left -= 1;
        }
        let place = |to: u32| (module.name.clone(), self.instance_name(to));
        let mut events = Events::new();
        for (to, accounts) in revoked {
            let (module, instance) = place(to);
            events.push(Event::Recalled { module, instance, accounts });
        }
        for (to, accounts) in dealt {
            let (module, instance) = place(to);
            events.push(Event::Dealt { module, instance, accounts });
        }
        events
    }

    /// What an instance without a place gives back.
    fn withdraw(&self, instance: &Instance, limit: usize) -> Event {
        let dealt = |&id: &u32| self.accounts.get(id).filter(|one| one.standing == Standing::Dealt);
        let accounts = instance.accounts.iter().filter_map(dealt).take(limit);
        Event::Withdrawn { accounts: accounts.map(|one| one.name.clone()).collect() }
    }

    /// Accounts that an instance can give, those first that nobody is logged in with and that have most left.
    fn givable(&self, instance: u32) -> Box<dyn Iterator<Item = u32> + '_> {
        let Some(instance) = self.instances.get(instance) else { return Box::new(std::iter::empty()) };
        let dealt = |login: bool| {
            move |&id: &u32| {
                self.accounts
                    .get(id)
                    .is_some_and(|one| one.standing == Standing::Dealt && one.login.is_some() == login)
            }
        };
        let ready = instance.ready.iter().rev().map(|&(_, id)| id);
        Box::new(ready.chain(instance.accounts.iter().copied().filter(dealt(true))))
    }

    /// Instances of a module that have its places, and those that stand by for one.
    pub(super) fn places_taken(&self, module: u32) -> (usize, Vec<u32>) {
        let Some(module) = self.modules.get(module) else { return (0, Vec::new()) };
        let is =
            |presence| move |&id: &u32| self.instances.get(id).is_some_and(|one| one.presence == presence);
        let taken =
            module.instances().filter(|id| is(Presence::Active)(id) || is(Presence::Away)(id)).count();
        (taken, module.instances().filter(is(Presence::Standby)).collect())
    }

    /// The largest difference between two levels of a module's instances; 0 or 1 where its deal is even.
    pub fn spread(&self, module: u32) -> i64 {
        let levels = self.modules.get(module).map(|module| &module.levels);
        let ends = levels.and_then(|levels: &BTreeSet<_>| Some((levels.first()?.0, levels.last()?.0)));
        ends.map_or(0, |(lowest, highest)| highest - lowest)
    }

    /// What the goal of an account is, if it goes on to another instance.
    pub(super) fn place_of(goal: Option<Goal>) -> Option<u32> {
        match goal {
            Some(Goal::Place(place)) => Some(place),
            _ => None,
        }
    }
}
