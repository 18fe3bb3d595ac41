//! Queries of a book.

use std::collections::BTreeMap;

use super::model::place::{Instance, Module};
use super::model::record::{Account, AccountState, Name, Rank};
use super::model::state::{Book, levels_of};
use super::model::tariff::Amount;
use super::model::usage::PastUsage;
pub use super::model::usage::Usage;
use crate::shared::Millis;

/// The most accounts that one list examines.
const MAX_PASSED: usize = 20_000;

/// The reply of `ACCOUNT.USE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    /// Instructions of this month, with those just counted.
    pub used: u64,
    /// Instructions left at the flat price.
    pub left: u64,
    /// The step of the last instruction; 0 at the flat price.
    pub step: usize,
    /// Cost of this month beyond the flat price.
    pub cost: Amount,
}

impl Used {
    pub(super) fn of(account: &Account, used: u64) -> Self {
        let tariff = &account.tariff;
        Self { used, left: tariff.left(used), step: tariff.step(used), cost: tariff.cost(used) }
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

    /// Use and cost by module in a month that is kept, with the module's department. O(modules).
    pub fn usage_by_module(&self, month: u32) -> BTreeMap<Name, (Name, Usage)> {
        let none = PastUsage::default();
        let usage = |module: &Module| {
            if month == self.month {
                return module.sums.clone();
            }
            module.past.get(&month).unwrap_or(&none).with(&module.sums)
        };
        self.modules()
            .map(|module| (module.name.clone(), (module.department.clone(), usage(module))))
            .collect()
    }

    /// Use and cost by department in a month. A department has the sums of the departments that it contains. The complexity is that of `usage_by_module`.
    pub fn usage_by_department(&self, month: u32) -> BTreeMap<Name, Usage> {
        let mut sums: BTreeMap<Name, Usage> = BTreeMap::new();
        for (department, usage) in self.usage_by_module(month).into_values() {
            for level in levels_of(&department) {
                match sums.get_mut(level) {
                    Some(sum) => sum.sum(&usage),
                    None => drop(sums.insert(Name::from(level), usage.clone())),
                }
            }
        }
        sums
    }

    /// Use and cost of one account in a month.
    pub fn usage_of(&self, account: &Account, month: u32) -> Usage {
        let mut usage = Usage::default();
        usage.add(account, month);
        usage
    }

    /// How many more instructions departments will send this month; `None` for a department with an instance of which
    /// too little is known. O(instances).
    pub fn projected_by_department(&self, now: Millis) -> BTreeMap<Name, Option<u64>> {
        let mut sums: BTreeMap<Name, Option<u64>> = BTreeMap::new();
        for (&id, module) in self.module_names.values().filter_map(|id| Some((id, self.modules.get(*id)?))) {
            let projected = self.projected_of(id, now);
            for level in levels_of(&module.department) {
                let sum = sums.entry(Name::from(level)).or_insert(Some(0));
                *sum = sum.and_then(|sum| Some(sum.saturating_add(projected?)));
            }
        }
        sums
    }

    /// How many more instructions a module will send this month; `None` if too little is known of one of its
    /// instances.
    pub fn projected_of(&self, module: u32, now: Millis) -> Option<u64> {
        let instances = self.modules.get(module).into_iter().flat_map(super::model::place::Module::instances);
        instances
            .map(|id| self.projected(id, now))
            .try_fold(0u64, |sum, projected| Some(sum.saturating_add(projected?)))
    }
}
