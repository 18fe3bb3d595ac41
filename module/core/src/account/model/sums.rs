//! The sums of use and cost: every count of instructions, every account that comes to a module or leaves it, and every
//! new month goes through these functions.

use std::sync::Arc;

use super::count::step;
use super::place::Module;
use super::record::{Account, MONTHS, Name};
use super::state::{Book, levels_of};
use super::tariff::Tariff;
use super::usage::PastUsage;
use crate::invariant;
use crate::shared::Millis;

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
        let (Some(module), Some(account)) = (self.modules.get_mut(module), self.accounts.get(id)) else {
            invariant!("an account and its module are there");
            return;
        };
        module.sum(account, self.month, on);
        let changed = if on { module.accounts.insert(id) } else { module.accounts.remove(&id) };
        invariant!(changed, "a module has its accounts, each once");
        let (used, department) = (account.used_in(self.month), module.department.clone());
        self.count_in_budgets(&department, used.into(), on);
    }

    /// Counts instructions of an account in the current month, and updates the sums of its module.
    pub(in crate::account) fn count_use(&mut self, id: u32, count: u64) {
        let (month, limit) = self.order();
        let Some(account) = self.accounts.get_mut(id) else {
            invariant!("an account that is used is there");
            return;
        };
        let Some(module) = self.modules.get_mut(account.module) else {
            invariant!("an account has a module");
            return;
        };
        module.sums.take(account, month);
        let before = account.used_in(month);
        account.count(month, count);
        module.sums.add(account, month);
        let (tariff, now) = (account.tariff.clone(), account.used_in(month));
        let department = module.department.clone();
        self.count_in_budgets(&department, count.into(), true);
        let supplied = self.indexed(id).and_then(Account::supplied);
        if let Some(instance) = supplied.and_then(|id| self.instances.get_mut(id)) {
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
            invariant!(used.is_some(), "a budget has the use of its accounts");
            budget.used = used.unwrap_or(0);
        }
    }

    /// Counts the use of all budgets again. O(budgets x modules).
    pub(in crate::account) fn recount_budgets(&mut self) {
        let used = |department: &Name| (department.clone(), self.used_by_department(department));
        let all: Vec<(Name, u128)> = self.departments.keys().map(used).collect();
        for (department, used) in all {
            if let Some(budget) = self.departments.get_mut(&department) {
                budget.used = used;
            }
        }
    }

    /// Gives an account another tariff.
    pub(in crate::account) fn set_tariff(&mut self, id: u32, tariff: Arc<Tariff>) {
        self.set_ready(id, false);
        self.set_supply(id, false);
        let (Some(account), month) = (self.accounts.get_mut(id), self.month) else { return };
        let Some(module) = self.modules.get_mut(account.module) else {
            invariant!("an account has a module");
            return;
        };
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
        let Some(count) = self.tariffs.get_mut(tariff) else {
            invariant!("the tariff of an account is known");
            return;
        };
        step(count, false);
        if *count == 0 {
            self.tariffs.remove(tariff);
        }
    }

    /// A new month begins.
    pub(in crate::account) fn turn_month(&mut self, at: Millis) {
        let ended = self.month;
        self.month += 1;
        let start = self.month_starts.last().copied().unwrap_or(at);
        for id in 0..self.instances.slots() {
            if let Some(instance) = self.instances.get_mut(id) {
                instance.pace.turn_month(start, at);
                instance.supply.begin_month();
            }
        }
        self.departments.values_mut().for_each(|budget| budget.used = 0);
        for &id in self.module_names.values() {
            match self.modules.get_mut(id) {
                Some(module) => module.begin_month(ended),
                None => invariant!("the names of modules are of modules that are there"),
            }
        }
        self.month_starts.push(at);
        let kept = self.month_starts.len().saturating_sub(MONTHS + 1);
        self.month_starts.drain(..kept);
    }
}
