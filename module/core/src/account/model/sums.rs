//! The ledger: what was spent by month, department and module. What was counted stays where it was counted, at the price
//! of its time: the ledger does not change when accounts are deleted, move, or get another tariff, or when a module
//! goes to another department. Every count of instructions, every account that comes to a module or leaves it, and
//! every new month goes through these functions.

use std::sync::Arc;

use super::record::{Account, MONTHS, Name};
use super::state::{Book, levels_of};
use super::tariff::{Amount, Tariff};
use super::usage::{LedgerKey, LedgerLine, Usage, step};
use crate::invariant;
use crate::shared::Millis;
use crate::shared::invariant::Expected;

impl Book {
    /// The lines of a month. Several lines of a module have different departments, and a department and a module may be
    /// named by one closed line and one that still grows. O(lines of the month + modules).
    pub fn ledger_of(&self, month: u32) -> impl Iterator<Item = LedgerLine<'_>> {
        let closed = self.closed_lines(month).map(|(key, usage)| LedgerLine {
            department: &key.department,
            module: &key.module,
            usage,
        });
        let current = (month == self.month).then(|| {
            self.modules().map(|module| LedgerLine {
                department: &module.department,
                module: &module.name,
                usage: &module.sums,
            })
        });
        closed.chain(current.into_iter().flatten())
    }

    /// The lines of a month to which nothing is added any more.
    pub(in crate::account) fn closed_lines(&self, month: u32) -> impl Iterator<Item = (&LedgerKey, &Usage)> {
        let first = LedgerKey { month, department: Name::default(), module: Name::default() };
        self.ledger.range(first..).take_while(move |(key, _)| key.month == month)
    }

    /// What a module of this name spent in the current month in departments that it has left, or before it was deleted.
    pub(in crate::account) fn used_elsewhere(&self, module: &[u8]) -> u128 {
        let lines = self.closed_lines(self.month).filter(|(key, _)| *key.module == *module);
        lines.map(|(_, usage)| usage.used).fold(0, u128::saturating_add)
    }

    /// Closes the line of the current month of a module that leaves its department or is deleted. Its accounts are not
    /// part of the line.
    pub(in crate::account) fn close_line(&mut self, module: u32) {
        let month = self.month;
        let Some(module) = self.indexed_module_mut(module) else { return };
        let (used, cost) = (std::mem::take(&mut module.sums.used), std::mem::take(&mut module.sums.cost));
        if used == 0 {
            return;
        }
        module.elsewhere = module.elsewhere.saturating_add(used);
        let (department, module) = (module.department.clone(), module.name.clone());
        self.ledger.entry(LedgerKey { month, department, module }).or_default().spend(used, cost);
    }

    /// Adds an account to those of its module, or removes it.
    pub(super) fn set_home(&mut self, module: u32, id: u32, on: bool) {
        let both = self.modules.get_mut(module).zip(self.accounts.get(id));
        let Some((module, account)) = both.expected("an account and its module are there") else { return };
        module.sums.hold(account, self.month, on);
        let changed = if on { module.accounts.insert(id) } else { module.accounts.remove(&id) };
        invariant!(changed, "a module has its accounts, each once");
    }

    /// Counts instructions of an account in the current month: in its tally, in the line of its module, and in budgets.
    pub(in crate::account) fn count_use(&mut self, id: u32, count: u64) {
        let (month, limit) = self.order();
        let account = self.accounts.get_mut(id).expected("an account that is used is there");
        let Some(account) = account else { return };
        let (before, left) = (account.position(month), account.left(month));
        let cost = account.count(month, count);
        let (tariff, now) = (account.tariff.clone(), account.position(month));
        let (home, less) = (account.module, left - account.left(month));
        if let Some(module) = self.indexed_module_mut(home) {
            module.sums.use_up(less);
        }
        self.spend(home, count, cost);
        let Some(supplied) = self.indexed(id).and_then(Account::supplied) else { return };
        let instance = self.instances.get_mut(supplied);
        if let Some(instance) = instance.expected("an account that is assigned or in transit has an instance")
        {
            instance.supply.count(&tariff, (before, now), limit);
        }
    }

    /// Adds what was sent to the line of a module, and to budgets.
    pub(in crate::account) fn spend(&mut self, module: u32, count: u64, cost: Amount) {
        let Some(module) = self.indexed_module_mut(module) else { return };
        module.sums.spend(count.into(), cost);
        let department = module.department.clone();
        for level in levels_of(&department) {
            if let Some(budget) = self.departments.get_mut(level) {
                budget.used = budget.used.saturating_add(count.into());
            }
        }
    }

    /// Gives an account another tariff.
    pub(in crate::account) fn set_tariff(&mut self, id: u32, tariff: Arc<Tariff>) {
        let Some(account) = self.indexed(id) else { return };
        let before = account.tariff.clone();
        *self.tariffs.entry(tariff.clone()).or_default() += 1;
        self.change_left(id, |account| account.tariff = tariff);
        self.forget_tariff(&before);
    }

    /// Has the own month of an account begin on another day.
    pub(in crate::account) fn set_turn(&mut self, at: Millis, id: u32, day: u32) {
        let (month, turned) = (self.month, self.day_start(day) <= at);
        // Its own month may be over, and this was not carried out yet.
        let turns = self.indexed(id).and_then(|account| self.turns_at(account));
        let is_over = turns.is_some_and(|turns| turns <= at);
        self.change_left(id, |account| {
            if is_over {
                account.tally.turn();
            }
            account.tally.set_day(month, day, turned);
        });
    }

    /// The own month of an account begins.
    pub(in crate::account) fn turn_account(&mut self, id: u32) {
        self.change_left(id, |account| account.tally.turn());
    }

    /// Changes what an account has left, and updates all sums and indexes.
    fn change_left(&mut self, id: u32, change: impl FnOnce(&mut Account)) {
        let Some(home) = self.indexed(id).map(|account| account.module) else { return };
        self.set_home(home, id, false);
        self.change(id, change);
        self.set_home(home, id, true);
        self.note_turn(id);
    }

    /// Notes when an account turns.
    pub(super) fn note_turn(&mut self, id: u32) {
        match self.indexed(id).and_then(|account| self.turns_at(account)) {
            Some(at) => self.cycles.set(id, at),
            None => self.cycles.remove(id),
        }
    }

    /// Takes an account with an own month over into a month of the book that has just begun, with nothing sent.
    fn carry_over(&mut self, id: u32) {
        let (month, limit) = self.order();
        let Some(account) = self.indexed_mut(id) else { return };
        account.tally.end_month();
        let (sent, tariff) = (account.position(month), account.tariff.clone());
        let (home, supplied) = (account.module, account.supplied());
        if let Some(module) = self.indexed_module_mut(home) {
            module.sums.use_up(tariff.quota - tariff.left(sent));
        }
        // An account that is free or frozen is supplied to nobody.
        if let Some(instance) = supplied.and_then(|id| self.instances.get_mut(id)) {
            instance.supply.count(&tariff, (0, sent), limit);
        }
        self.note_turn(id);
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
                let (department, name) = (module.department.clone(), module.name.clone());
                let key = LedgerKey { month: ended, department, module: name };
                self.ledger.entry(key).or_default().sum(&module.sums);
                module.elsewhere = 0;
                module.sums.begin_month();
            }
        }
        self.ledger.retain(|key, _| key.month + MONTHS as u32 > ended);
        self.deleted.retain(|_, account| account.tally.end_month());
        self.month_starts.push(at);
        let kept = self.month_starts.len().saturating_sub(MONTHS + 1);
        self.month_starts.drain(..kept);
        for id in self.cycles.ids().collect::<Vec<_>>() {
            self.carry_over(id);
        }
    }
}
