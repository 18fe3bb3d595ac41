//! The sums of use and cost: every count of instructions, every account that comes to a module or leaves it, and every
//! new month goes through these functions.

use std::sync::Arc;

use super::place::Module;
use super::record::{Account, MONTHS};
use super::state::{Book, levels_of};
use super::tariff::Tariff;
use super::usage::{PastUsage, step};
use crate::invariant;
use crate::shared::Millis;
use crate::shared::invariant::Expected;

impl Module {
    /// Adds an account to the sums of all months, or removes it. O(months in which the account was used).
    fn sum(&mut self, account: &Account, month: u32, on: bool) {
        if on {
            self.sums.add(account, month);
        } else {
            self.sums.take(account, month);
        }
        for (past, used) in account.past_use(month) {
            let sums = self.past.entry(past).or_default();
            sums.change(&account.tariff, used, on);
            if sums.is_zero() {
                self.past.remove(&past);
            }
        }
    }

    /// The current month ends.
    fn begin_month(&mut self, ended: u32) {
        let sums = PastUsage::of(&self.sums);
        if !sums.is_zero() {
            self.past.insert(ended, sums);
        }
        let oldest = (ended + 1).saturating_sub(MONTHS as u32);
        self.past = self.past.split_off(&oldest);
        self.sums.begin_month();
    }
}

impl Book {
    /// Adds an account to those of its module, or removes it.
    pub(super) fn set_home(&mut self, module: u32, id: u32, on: bool) {
        let both = self.modules.get_mut(module).zip(self.accounts.get(id));
        let Some((module, account)) = both.expected("an account and its module are there") else { return };
        module.sum(account, self.month, on);
        let changed = if on { module.accounts.insert(id) } else { module.accounts.remove(&id) };
        invariant!(changed, "a module has its accounts, each once");
        let (used, department) = (account.used_in(self.month), module.department.clone());
        self.count_in_budgets(&department, used.into(), on);
    }

    /// Counts instructions of an account in the current month, and updates the sums of its module.
    pub(in crate::account) fn count_use(&mut self, id: u32, count: u64) {
        let (month, limit) = self.order();
        let account = self.accounts.get_mut(id).expected("an account that is used is there");
        let Some(account) = account else { return };
        let module = self.modules.get_mut(account.module).expected("an account has a module");
        let Some(module) = module else { return };
        module.sums.take(account, month);
        let before = account.used_in(month);
        account.count(month, count);
        module.sums.add(account, month);
        let (tariff, now) = (account.tariff.clone(), account.used_in(month));
        let department = module.department.clone();
        self.count_in_budgets(&department, count.into(), true);
        let Some(supplied) = self.indexed(id).and_then(Account::supplied) else { return };
        let instance = self.instances.get_mut(supplied);
        if let Some(instance) = instance.expected("an account that is assigned or in transit has an instance")
        {
            instance.supply.count(&tariff, (before, now), limit);
        }
    }

    /// Counts instructions in the budgets of a department and of those that contain it, or removes them.
    fn count_in_budgets(&mut self, department: &[u8], count: u128, on: bool) {
        if self.departments.is_empty() {
            return;
        }
        for level in levels_of(department) {
            let Some(budget) = self.departments.get_mut(level) else { continue };
            let used = if on { budget.used.checked_add(count) } else { budget.used.checked_sub(count) };
            budget.used = used.expected("a budget has the use of its accounts").unwrap_or(0);
        }
    }

    /// Counts the use of all budgets again. O(budgets x modules).
    pub(in crate::account) fn recount_budgets(&mut self) {
        let all: Vec<u128> = self.departments.keys().map(|name| self.used_by_department(name)).collect();
        for (budget, used) in self.departments.values_mut().zip(all) {
            budget.used = used;
        }
    }

    /// Gives an account another tariff.
    pub(in crate::account) fn set_tariff(&mut self, id: u32, tariff: Arc<Tariff>) {
        self.set_ready(id, false);
        self.set_supply(id, false);
        let month = self.month;
        let account = self.accounts.get_mut(id).expected("an account that gets a tariff is there");
        let Some(account) = account else { return };
        let module = self.modules.get_mut(account.module).expected("an account has a module");
        let Some(module) = module else { return };
        module.sum(account, month, false);
        let before = std::mem::replace(&mut account.tariff, tariff.clone());
        module.sum(account, month, true);
        *self.tariffs.entry(tariff).or_default() += 1;
        self.forget_tariff(&before);
        self.set_supply(id, true);
        self.set_ready(id, true);
    }

    /// Counts down the accounts of a tariff, and removes the tariff with the last of them.
    pub(super) fn forget_tariff(&mut self, tariff: &Tariff) {
        let count = self.tariffs.get_mut(tariff).expected("the tariff of an account is known");
        let Some(count) = count else { return };
        step!(*count, false);
        if *count == 0 {
            self.tariffs.remove(tariff);
        }
    }

    /// A new month begins.
    pub(in crate::account) fn turn_month(&mut self, at: Millis) {
        let ended = self.month;
        self.month += 1;
        let start = self.month_starts.last().expected("the month that ends has begun");
        let start = start.copied().unwrap_or(at);
        for id in 0..self.instances.slots() {
            // Some slots of the table are empty.
            if let Some(instance) = self.instances.get_mut(id) {
                instance.pace.turn_month(start, at);
                instance.supply.begin_month();
            }
        }
        self.departments.values_mut().for_each(|budget| budget.used = 0);
        for &id in self.module_names.values() {
            let module = self.modules.get_mut(id);
            if let Some(module) = module.expected("the names of modules are of modules that are there") {
                module.begin_month(ended);
            }
        }
        self.month_starts.push(at);
        let kept = self.month_starts.len().saturating_sub(MONTHS + 1);
        self.month_starts.drain(..kept);
    }
}
