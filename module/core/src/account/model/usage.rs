//! Sums of use and cost.

use super::record::{Account, Name};
use super::tariff::Amount;
use crate::fields;
use crate::shared::invariant::Expected;

/// Counts one more in an index, or one less.
macro_rules! step {
    ($count:expr, $up:expr) => {
        match $count.checked_add_signed(if $up { 1 } else { -1 }) {
            Some(next) => $count = next,
            None => $crate::invariant!("a count is that of what is there"),
        }
    };
}
pub(super) use step;

fields! {
    /// What some accounts include, have sent and cost in a month.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Usage {
        /// Number of accounts.
        pub accounts: u32,
        /// Instructions that the flat price covers.
        pub quota: u128,
        /// Instructions sent.
        pub used: u128,
        /// Sum of the instructions that each account has left at the flat price.
        pub left: u128,
        /// Cost beyond the flat price.
        pub cost: Amount,
    }
}

impl Usage {
    /// Adds an account that a module has, or removes it. What it has sent stays where it was counted.
    pub(in crate::account) fn hold(&mut self, account: &Account, month: u32, on: bool) {
        step!(self.accounts, on);
        let change = |sum: &mut u128, number: u64| {
            *sum = if on { *sum + u128::from(number) } else { less(*sum, number.into()) };
        };
        change(&mut self.quota, account.tariff.quota);
        change(&mut self.left, account.left(month));
    }

    /// Removes instructions at the flat price that were sent.
    pub(in crate::account) fn use_up(&mut self, count: u64) {
        self.left = less(self.left, count.into());
    }

    /// Adds what was sent.
    pub(in crate::account) fn spend(&mut self, used: u128, cost: Amount) {
        self.used = self.used.saturating_add(used);
        // Wrapping, so that the sums of accounts and modules agree after an overflow, which no real sum comes near.
        self.cost.0 = self.cost.0.wrapping_add(cost.0);
    }

    /// Resets the use for a new month.
    pub(in crate::account) fn begin_month(&mut self) {
        (self.used, self.left, self.cost) = (0, self.quota, Amount(0));
    }

    /// Adds other sums.
    pub(in crate::account) fn sum(&mut self, more: &Self) {
        self.accounts = self.accounts.saturating_add(more.accounts);
        self.quota = self.quota.saturating_add(more.quota);
        self.left = self.left.saturating_add(more.left);
        self.spend(more.used, more.cost);
    }
}

/// A sum minus one of its terms.
fn less(sum: u128, number: u128) -> u128 {
    sum.checked_sub(number).expected("a sum is that of its numbers").unwrap_or(0)
}

fields! {
    /// What a line of the ledger is about.
    #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(in crate::account) struct LedgerKey {
        /// The month.
        pub(in crate::account) month: u32,
        /// The department to which the module belonged.
        pub(in crate::account) department: Name,
        /// The module.
        pub(in crate::account) module: Name,
    }
}

/// A line of the ledger: what a module spent in a month, as long as it belonged to a department.
#[derive(Clone, Copy, Debug)]
pub struct LedgerLine<'a> {
    /// The department.
    pub department: &'a [u8],
    /// The module.
    pub module: &'a [u8],
    /// What was spent, and which accounts the module had at the end of the month.
    pub usage: &'a Usage,
}
