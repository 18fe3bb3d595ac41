//! Queries of a book.

use std::collections::BTreeMap;

use super::model::pace::scaled;
use super::model::place::{Instance, Module};
use super::model::record::{Account, AccountState, Name, Rank};
use super::model::state::{Book, levels_of};
use super::model::tariff::Amount;
pub use super::model::usage::{LedgerLine, Usage};
use crate::shared::Millis;

/// The most accounts that one list examines.
const MAX_PASSED: usize = 20_000;

/// The reply of `ACCOUNT.USE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    /// Instructions of this month, with those just counted.
    pub used: u64,
    /// Instructions left at the flat price, in the account's own month.
    pub left: u64,
    /// The step of the last instruction; 0 at the flat price.
    pub step: usize,
    /// Cost of this month beyond the flat price.
    pub cost: Amount,
}

/// What is still to come until the end of the month.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forecast {
    /// Instructions.
    pub more: u64,
    /// Their cost beyond the flat price. Instructions beyond the `CAP` of the book cannot be sent, and cost nothing.
    pub cost: Amount,
}

impl Forecast {
    /// The sum of two forecasts.
    fn with(self, other: Self) -> Self {
        let cost = Amount(self.cost.0.saturating_add(other.cost.0));
        Self { more: self.more.saturating_add(other.more), cost }
    }
}

impl Used {
    /// After further instructions of an account.
    pub(super) fn with(account: &Account, month: u32, count: u64) -> Self {
        let position = account.position(month).saturating_add(count);
        Self {
            used: account.used_in(month).saturating_add(count),
            left: account.tariff.left(position),
            step: account.tariff.step(position),
            cost: account.cost_with(month, count),
        }
    }
}

impl Book {
    /// Accounts of an instance without a login and below the cap, the account whose next instruction is cheapest first;
    /// of equal prices, the account with the most instructions left at this price. O(count), or O(accounts of the instance) before the first login or use after a new month or a new cap.
    pub fn pick(&self, instance: &Instance, count: usize) -> Vec<&Account> {
        // Accounts that have reached the cap come first in the order, so last here.
        let open = |&(rank, id): &(Rank, u32)| self.indexed(id).filter(|_| rank.is_open());
        let order @ (month, limit) = self.order();
        if instance.ready_order == order {
            return instance.ready.iter().rev().map_while(open).take(count).collect();
        }
        let rank = |&(_, id): &(Rank, u32)| Some((self.indexed(id)?.rank(month, limit), id));
        let mut all: Vec<(Rank, u32)> = instance.ready.iter().filter_map(rank).collect();
        all.sort_unstable();
        all.iter().rev().map_while(open).take(count).collect()
    }

    /// At most `count` accounts after a cursor, and the next cursor: 0 at the end. Module, instance and state filter.
    /// O(accounts examined), at most 20,000.
    pub fn list(
        &self,
        module: Option<u32>,
        instance: Option<u32>,
        state: Option<AccountState>,
        cursor: u64,
        count: usize,
    ) -> (Vec<&Account>, u64) {
        let from = u32::try_from(cursor).unwrap_or(u32::MAX);
        let all: Box<dyn Iterator<Item = u32> + '_> = match (instance, module) {
            (Some(instance), _) => match self.indexed_instance(instance) {
                Some(instance) => Box::new(instance.accounts.range(from..).copied()),
                None => Box::new(std::iter::empty()),
            },
            (None, Some(module)) => match self.indexed_module(module) {
                Some(module) => Box::new(module.accounts.range(from..).copied()),
                None => Box::new(std::iter::empty()),
            },
            (None, None) => Box::new(from..self.accounts.slots()),
        };
        let mut found = Vec::new();
        for (passed, id) in all.enumerate() {
            if passed == MAX_PASSED {
                return (found, u64::from(id));
            }
            // Some slots of the table are empty.
            let Some(account) = self.accounts.get(id) else { continue };
            let fits = module.is_none_or(|module| account.module == module)
                && state.is_none_or(|state| account.state == state);
            if !fits {
                continue;
            }
            if found.len() == count {
                return (found, u64::from(id));
            }
            found.push(account);
        }
        (found, 0)
    }

    /// What each module has spent in a month that is kept, and which accounts it has, or had at the end of the month. A
    /// module that was deleted since is among them. O(lines of the ledger in the month).
    pub fn usage_by_module(&self, month: u32) -> BTreeMap<Name, Usage> {
        sums(self.ledger_of(month).map(|line| (line.module, line.usage)))
    }

    /// As `usage_by_module`, of the whole book.
    pub fn usage_of_book(&self, month: u32) -> Usage {
        let mut whole = Usage::default();
        self.ledger_of(month).for_each(|line| whole.sum(line.usage));
        whole
    }

    /// As `usage_by_module`, by department. A department has the sums of the departments that it contains.
    pub fn usage_by_department(&self, month: u32) -> BTreeMap<Name, Usage> {
        let lines = self.ledger_of(month);
        sums(lines.flat_map(|line| levels_of(line.department).map(move |level| (level, line.usage))))
    }

    /// What a module has spent in the current month, in all departments to which it belonged, and its accounts.
    /// O(lines of the ledger in the month).
    pub fn usage_of_module(&self, module: &Module) -> Usage {
        let mut usage = module.sums.clone();
        let closed = self.closed_lines(self.month).filter(|(key, _)| key.module == module.name);
        closed.for_each(|(_, line)| usage.sum(line));
        usage
    }

    /// Use and cost of one account in a month.
    pub fn usage_of(&self, account: &Account, month: u32) -> Usage {
        let mut usage = Usage::default();
        usage.hold(account, month, true);
        usage.spend(account.used_in(month).into(), account.cost_in(month));
        usage
    }

    /// What an instance will send this month; `None` if too little is known about it. An instance that has no accounts,
    /// gets none, and has sent nothing this month is expected to send nothing, as long as nothing else is known. Each
    /// instance sends with its own accounts, the cheapest instructions first. O(prices of its tariffs); after a change
    /// of the `CAP` of the book O(n log n) with n steps of these tariffs, until an account of the instance comes, goes
    /// or sends.
    pub fn projected(&self, instance: u32, now: Millis) -> Option<Forecast> {
        let instance = self.indexed_instance(instance)?;
        let forecast = instance.pace.forecast(now, self.month_span(now), self.expected_quota(instance));
        let is_idle = instance.accounts.is_empty() && instance.incoming == 0 && instance.pace.month == 0;
        let more = forecast.or_else(|| is_idle.then_some(0))?;
        Some(Forecast { more, cost: instance.supply.cost(more, self.settings.limit()) })
    }

    /// What a module will send this month; `None` if too little is known of one of its instances.
    /// O(instances x prices), with the exception of `projected`.
    pub fn projected_of(&self, module: u32, now: Millis) -> Option<Forecast> {
        let instances = self.modules.get(module).into_iter().flat_map(Module::instances);
        instances
            .map(|id| self.projected(id, now))
            .try_fold(Forecast::default(), |sum, projected| Some(sum.with(projected?)))
    }

    /// What all modules will send this month; `None` if too little is known of one of them. O(instances x prices), with
    /// the exception of `projected`.
    pub fn projected_of_book(&self, now: Millis) -> Option<Forecast> {
        let mut modules = self.module_names.values().map(|&module| self.projected_of(module, now));
        modules.try_fold(Forecast::default(), |sum, module| Some(sum.with(module?)))
    }

    /// What departments will send this month; `None` for a department with an instance of which too little is known.
    /// O(instances x prices), with the exception of `projected`.
    pub fn projected_by_department(&self, now: Millis) -> BTreeMap<Name, Option<Forecast>> {
        let mut sums: BTreeMap<Name, Option<Forecast>> = BTreeMap::new();
        for (&id, module) in self.module_names.values().filter_map(|id| Some((id, self.indexed_module(*id)?)))
        {
            let projected = self.projected_of(id, now);
            for level in levels_of(&module.department) {
                let sum = sums.entry(Name::from(level)).or_insert_with(|| Some(Forecast::default()));
                *sum = sum.and_then(|sum| Some(sum.with(projected?)));
            }
        }
        sums
    }

    /// What an account will send this month, at its own average pace; `None` if too little is known about it, and
    /// between the end of a month and the event that begins the next one. O(steps of its tariff).
    pub fn projected_for(&self, account: &Account, now: Millis) -> Option<Forecast> {
        let month = Some(self.month).filter(|&month| month == self.month_at(now))?;
        let last = month.checked_sub(1).and_then(|last| self.month_start(last));
        let span @ (_, end) = self.month_span(now);
        let more = account.forecast(now, (month, span), last)?;
        let limit = account.limit(self.settings.limit());
        let cost = |sent: u64, more: u64| -> i128 {
            let rooms = account.tariff.rooms(sent, limit.min(sent.saturating_add(more)));
            rooms.map(|(price, room)| i128::from(room).saturating_mul(price.0)).sum()
        };
        // What an account sends after its own month has begun again starts at the flat price.
        let turn = self.turns_at(account).filter(|&turn| turn < end);
        let before = turn.map_or(more, |turn| scaled(more.into(), turn - now, end - now));
        let cost = cost(account.position(month), before).saturating_add(cost(0, more - before));
        Some(Forecast { more, cost: Amount(cost) })
    }
}

/// Sums of use by name.
fn sums<'a>(lines: impl Iterator<Item = (&'a [u8], &'a Usage)>) -> BTreeMap<Name, Usage> {
    let mut sums: BTreeMap<Name, Usage> = BTreeMap::new();
    for (name, usage) in lines {
        match sums.get_mut(name) {
            Some(sum) => sum.sum(usage),
            None => drop(sums.insert(Name::from(name), usage.clone())),
        }
    }
    sums
}
