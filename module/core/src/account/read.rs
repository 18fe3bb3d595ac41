//! Questions to a book. None of them changes anything.

use std::collections::BTreeMap;

use super::place::{Instance, Module};
use super::record::{Account, Name, Standing};
use super::state::Book;
use super::tariff::Amount;
use crate::invariant;
use crate::shared::Millis;

/// How many accounts one list passes over at most.
const MAX_PASSED: usize = 20_000;

/// What `ACCOUNT.USE` tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    /// Instructions of this month, those just counted among them.
    pub used: u64,
    /// What is left at the flat price.
    pub left: u64,
    /// The step of the last one; 0 at the flat price.
    pub step: usize,
    /// What the month costs so far beyond the flat price.
    pub cost: Amount,
}

impl Used {
    pub(super) fn of(one: &Account, used: u64) -> Self {
        let tariff = &one.tariff;
        Self { used, left: tariff.left(used), step: tariff.step(used), cost: tariff.cost(used) }
    }
}

/// Use and cost of some accounts in a month.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// How many accounts.
    pub accounts: usize,
    /// Instructions that the flat price covers.
    pub quota: u128,
    /// Instructions sent.
    pub used: u128,
    /// What is left of each at the flat price, in sum.
    pub left: u128,
    /// Cost beyond the flat price.
    pub cost: Amount,
}

impl Usage {
    pub(super) fn add(&mut self, one: &Account, month: u32) {
        self.accounts += 1;
        self.quota += u128::from(one.tariff.quota);
        self.used += u128::from(one.used_in(month));
        self.left += u128::from(one.left(month));
        // Not saturating, so that `take` is exact again once it is below its end, which no real sum comes near to.
        self.cost.0 = self.cost.0.wrapping_add(one.cost_in(month).0);
    }

    pub(super) fn take(&mut self, one: &Account, month: u32) {
        self.accounts = less(self.accounts as u128, 1) as usize;
        self.quota = less(self.quota, one.tariff.quota.into());
        self.used = less(self.used, one.used_in(month).into());
        self.left = less(self.left, one.left(month).into());
        self.cost.0 = self.cost.0.wrapping_sub(one.cost_in(month).0);
    }

    /// Nothing is used yet.
    pub(super) fn begin_month(&mut self) {
        (self.used, self.left, self.cost) = (0, self.quota, Amount(0));
    }

    fn sum(&mut self, more: &Self) {
        self.accounts += more.accounts;
        self.quota += more.quota;
        self.used += more.used;
        self.left += more.left;
        self.cost.0 = self.cost.0.wrapping_add(more.cost.0);
    }
}

/// A sum less one of the numbers that it is of.
fn less(sum: u128, number: u128) -> u128 {
    let rest = sum.checked_sub(number);
    invariant!(rest.is_some(), "a sum is that of its numbers");
    rest.unwrap_or(0)
}

impl Book {
    /// An instance's accounts that nobody is logged in with, those first with which most can be sent at the flat price,
    /// and none that has reached the cap. O(count), or O(accounts of the instance) until it is worked with for the first
    /// time in a month or under a new cap.
    pub fn pick(&self, instance: &Instance, count: usize) -> Vec<&Account> {
        // Those that have reached it come first in the order, and are last here.
        let open = |&(room, id): &(Option<u64>, u32)| room.and_then(|_| self.indexed(id));
        let order @ (month, limit) = self.order();
        if instance.ready_order == order {
            return instance.ready.iter().rev().map_while(open).take(count).collect();
        }
        let room = |&(_, id): &(Option<u64>, u32)| Some((self.indexed(id)?.room(month, limit), id));
        let mut all: Vec<(Option<u64>, u32)> = instance.ready.iter().filter_map(room).collect();
        all.sort_unstable();
        all.iter().rev().map_while(open).take(count).collect()
    }

    /// Accounts after a cursor, at most `count`, and the cursor of the next ones; 0 at the end. Of a module, of an
    /// instance, in a standing. O(accounts passed over), of which there are at most 20,000.
    pub fn list(
        &self,
        module: Option<u32>,
        instance: Option<u32>,
        standing: Option<Standing>,
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
            // Among all numbers some are of no account.
            let Some(one) = self.accounts.get(id) else { continue };
            let fits = module.is_none_or(|module| one.module == module)
                && standing.is_none_or(|standing| one.standing == standing);
            if !fits {
                continue;
            }
            if found.len() == count {
                return (found, u64::from(id));
            }
            found.push(one);
        }
        (found, 0)
    }

    /// Use and cost by module in a month, with the module's department. O(modules) for the running month, O(accounts) for
    /// one that is past.
    pub fn usage_by_module(&self, month: u32) -> BTreeMap<Name, (Name, Usage)> {
        let usage = |module: &Module| {
            if month == self.month {
                return module.sums.clone();
            }
            let mut usage = Usage::default();
            module.accounts.iter().filter_map(|&id| self.indexed(id)).for_each(|one| usage.add(one, month));
            usage
        };
        self.modules()
            .map(|module| (module.name.clone(), (module.department.clone(), usage(module))))
            .collect()
    }

    /// Use and cost by department in a month. As fast as by module.
    pub fn usage_by_department(&self, month: u32) -> BTreeMap<Name, Usage> {
        let mut sums: BTreeMap<Name, Usage> = BTreeMap::new();
        for (department, usage) in self.usage_by_module(month).into_values() {
            sums.entry(department).or_default().sum(&usage);
        }
        sums
    }

    /// Use and cost of one account in a month.
    pub fn usage_of(&self, one: &Account, month: u32) -> Usage {
        let mut usage = Usage::default();
        usage.add(one, month);
        usage
    }

    /// How many more instructions departments will send this month at the pace of their instances. O(instances).
    pub fn projected_by_department(&self, now: Millis) -> BTreeMap<Name, u64> {
        let mut sums: BTreeMap<Name, u64> = BTreeMap::new();
        for (&id, module) in self.module_names.values().filter_map(|id| Some((id, self.modules.get(*id)?))) {
            let sum = sums.entry(module.department.clone()).or_default();
            *sum = sum.saturating_add(self.projected_of(id, now));
        }
        sums
    }

    /// How many more instructions a module will send this month at the pace of its instances.
    pub fn projected_of(&self, module: u32, now: Millis) -> u64 {
        let instances = self.modules.get(module).into_iter().flat_map(super::place::Module::instances);
        instances.map(|id| self.projected(id, now)).fold(0, u64::saturating_add)
    }
}
