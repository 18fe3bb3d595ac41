//! Assigns accounts to instances: shares of even worth, with few moves (the fewest if all accounts are worth the same), in
//! steps of bounded length.
//!
//! A module divides its accounts among the instances that are present, or into one share for each of its places. In
//! the second case an instance gets no more than the share of its place, and what belongs to empty places stays free.
//!
//! The assignment evens out the *level* of instances: what their accounts are worth (assigned or in transit), minus the
//! offset from rebalancing. A step gives free accounts (beyond the reserve) to the instance with the lowest level, the
//! largest account first. Then it moves accounts to the instance with the lowest level, as long as a move brings two
//! levels closer together: from the instance that would still have the most after giving its smallest account (of those
//! that have one small enough), and of this instance the account that brings both levels closest together. The moves come to an end, because each of them
//! reduces the sum of the squares of all levels.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::account::event::{Event, Events, InstanceEvent};
use crate::account::model::place::{Instance, Level, Module};
use crate::account::model::record::{Account, AccountState, Name};
use crate::account::model::state::Book;
use crate::account::model::worth::{ByWorth, QuotaCounts, Spare, Untaken, Worth, giver};
use crate::invariant;
use crate::shared::Bytes;
use crate::shared::invariant::Expected;
use smallvec::smallvec;

/// Names of accounts by target instance.
type Shares = BTreeMap<u32, Vec<Bytes>>;

/// The most accounts that a step moves: about 100 microseconds.
pub const STEP: usize = 256;

/// The free accounts of a module that are not in reserve, each once.
struct FreeAccounts<'a> {
    module: &'a Module,
    spare: Spare,
    all: Untaken<'a>,
    /// By instance: the accounts that it had last.
    own: BTreeMap<u32, Untaken<'a>>,
    taken: BTreeSet<u32>,
}

impl<'a> FreeAccounts<'a> {
    fn of(module: &'a Module) -> Option<Self> {
        let (spare, all) = (module.spare()?, module.free.untaken());
        Some(Self { module, spare, all, own: BTreeMap::new(), taken: BTreeSet::new() })
    }

    /// A free account for an instance, and its worth: one that it had last, if there is one.
    fn next_for(&mut self, taker: Level, name: &Name) -> Option<(u64, u32)> {
        let (room, (.., id)) = (self.module.room_for_free(taker, self.spare.worth), taker);
        let least = self.spare.least;
        let own = || self.module.free_of.get(name).map(ByWorth::untaken).unwrap_or_default();
        let own = self.own.entry(id).or_insert_with(own);
        let mut take = |most: u64, smallest: bool| {
            let mut both = [&mut *own, &mut self.all].into_iter();
            both.find_map(|accounts| accounts.take((least, most), smallest, &mut self.taken))
        };
        let next @ (worth, _) = take(room.fits, false).or_else(|| take(room.most, true))?;
        self.spare.worth -= Worth::from(worth);
        if worth == least {
            self.spare.equal = self.spare.equal.saturating_sub(1);
        }
        if self.spare.equal == 0 {
            // The others that are worth as much are in reserve.
            self.spare.least = least.saturating_add(1);
        }
        Some(next)
    }
}

/// The accounts that an instance can give.
struct Givable<'a> {
    quotas: QuotaCounts,
    left: u32,
    rest: Box<dyn Iterator<Item = u32> + 'a>,
    /// Those of `rest` that were passed, by worth.
    passed: BTreeMap<u64, VecDeque<u32>>,
}

/// A step of the assignment of a module: the levels as they are after the accounts that the step has given.
struct AssignmentStep<'a> {
    book: &'a Book,
    module: &'a Module,
    levels: BTreeSet<Level>,
    givers: BTreeSet<(Worth, u32)>,
    givable: BTreeMap<u32, Givable<'a>>,
}

impl<'a> AssignmentStep<'a> {
    /// An instance gets an account of this worth.
    fn gain(&mut self, (level, place, id): Level, worth: u64) {
        let worth = Worth::from(worth);
        self.levels.remove(&(level, place, id));
        self.levels.insert((level + worth, place, id));
        let quotas = self.givable.get(&id).map(|givable| &givable.quotas);
        let quotas = quotas.or_else(|| self.book.indexed_instance(id).map(|instance| &instance.quotas));
        let giver = quotas.and_then(QuotaCounts::least).map(|least| level - Worth::from(least));
        if let Some(giver) = giver.filter(|giver| self.givers.remove(&(*giver, id))) {
            // Before this step is applied, the instance can give only what it had.
            self.givers.insert((giver + worth, id));
        }
    }

    /// The next account that an instance gives to an instance with the lowest level.
    fn give(&mut self, (lowest, ..): Level, most: u64) -> Option<(u64, &'a Account)> {
        let (book, floor) = (self.book, self.module.floor());
        let (rest, id) = giver(&self.givers, (lowest, most), |id| {
            let given = self.givable.get(&id).map(|givable| &givable.quotas);
            given.or_else(|| book.indexed_instance(id).map(|instance| &instance.quotas))?.least()
        })?;
        let instance = book.indexed_instance(id)?;
        let givable = self.givable.entry(id).or_insert_with(|| Givable {
            quotas: instance.quotas.clone(),
            left: instance.assigned,
            rest: book.givable(id),
            passed: BTreeMap::new(),
        });
        let level = rest + Worth::from(givable.quotas.least()?);
        let worth = givable.quotas.closing(level - lowest, most)?;
        let account = givable.next(book, worth)?;
        let place = instance.place.unwrap_or(u32::MAX);
        self.givers.remove(&(rest, id));
        self.levels.remove(&(level, place, id));
        let level = level - Worth::from(worth);
        self.levels.insert((level, place, id));
        if givable.left > floor
            && let Some(least) = givable.quotas.least()
        {
            self.givers.insert((level - Worth::from(least), id));
        }
        Some((worth, account))
    }
}

impl Givable<'_> {
    /// The next account of this worth.
    fn next<'b>(&mut self, book: &'b Book, worth: u64) -> Option<&'b Account> {
        self.quotas.count(worth, false);
        self.left = self.left.saturating_sub(1);
        loop {
            if let Some(id) = self.passed.get_mut(&worth).and_then(VecDeque::pop_front) {
                return book.indexed(id);
            }
            let id =
                self.rest.next().expected("an instance can give the accounts that are assigned to it")?;
            self.passed.entry(book.indexed(id)?.worth()).or_default().push_back(id);
        }
    }
}

impl Book {
    /// The next step towards an even assignment; no events if all modules are even. O(instances of the module + different
    /// worths of its free accounts and of the accounts of instances that give some + accounts moved log accounts).
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
        let (levels, givers) = (module.levels.clone(), module.givers.clone());
        let mut step = AssignmentStep { book: self, module, levels, givers, givable: BTreeMap::new() };
        let (mut assigned, mut recalled) = (Shares::new(), Shares::new());
        let (mut left, mut free) = (limit, FreeAccounts::of(module));
        while left > 0
            && let Some(free) = &mut free
            && let Some(&taker @ (.., lowest)) = step.levels.first()
            && let Some((worth, account)) = free.next_for(taker, &self.instance_name(lowest))
            && let Some(account) = self.indexed(account)
        {
            assigned.entry(lowest).or_default().push(account.name.clone());
            step.gain(taker, worth);
            left -= 1;
        }
        while left > 0
            && module.evens_out()
            && let Some(&taker @ (.., to)) = step.levels.first()
            && let Some((worth, account)) = step.give(taker, module.room(taker).most)
        {
            let shares = if account.login.is_some() { &mut recalled } else { &mut assigned };
            shares.entry(to).or_default().push(account.name.clone());
            step.gain(taker, worth);
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
