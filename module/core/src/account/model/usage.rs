//! Sums of use and cost.

use super::record::Account;
use super::tariff::{Amount, Tariff};
use crate::shared::invariant::Expected;

/// Use and cost of some accounts in a month.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Number of accounts.
    pub accounts: usize,
    /// Instructions that the flat price covers.
    pub quota: u128,
    /// Instructions sent.
    pub used: u128,
    /// Sum of the instructions that each account has left at the flat price.
    pub left: u128,
    /// Cost beyond the flat price.
    pub cost: Amount,
}

impl Usage {
    pub(in crate::account) fn add(&mut self, account: &Account, month: u32) {
        self.accounts += 1;
        self.quota += u128::from(account.tariff.quota);
        self.used += u128::from(account.used_in(month));
        self.left += u128::from(account.left(month));
        // Wrapping, not saturating, so that `take` is exact again after an overflow, which no real sum comes near.
        self.cost.0 = self.cost.0.wrapping_add(account.cost_in(month).0);
    }

    pub(in crate::account) fn take(&mut self, account: &Account, month: u32) {
        self.accounts = less(self.accounts as u128, 1) as usize;
        self.quota = less(self.quota, account.tariff.quota.into());
        self.used = less(self.used, account.used_in(month).into());
        self.left = less(self.left, account.left(month).into());
        self.cost.0 = self.cost.0.wrapping_sub(account.cost_in(month).0);
    }

    /// Resets the use for a new month.
    pub(in crate::account) fn begin_month(&mut self) {
        (self.used, self.left, self.cost) = (0, self.quota, Amount(0));
    }

    /// Adds other sums.
    pub(in crate::account) fn sum(&mut self, more: &Self) {
        self.accounts += more.accounts;
        self.quota += more.quota;
        self.used += more.used;
        self.left += more.left;
        self.cost.0 = self.cost.0.wrapping_add(more.cost.0);
    }
}

/// Use and cost of the accounts of a module in a past month. The quotas are those of the present.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::account) struct PastUsage {
    used: u128,
    /// Instructions at the flat price.
    flat: u128,
    cost: Amount,
}

impl PastUsage {
    /// The use of a month that ends now.
    pub(in crate::account) fn of(usage: &Usage) -> Self {
        Self { used: usage.used, flat: less(usage.quota, usage.left), cost: usage.cost }
    }

    pub(in crate::account) fn is_zero(&self) -> bool {
        self.used == 0
    }

    /// Adds the use of an account in the month, or removes it.
    pub(in crate::account) fn change(&mut self, tariff: &Tariff, used: u64, on: bool) {
        let (flat, cost): (u128, _) = (tariff.quota.min(used).into(), tariff.cost(used).0);
        if on {
            self.used += u128::from(used);
            self.flat += flat;
            self.cost.0 = self.cost.0.wrapping_add(cost);
        } else {
            self.used = less(self.used, used.into());
            self.flat = less(self.flat, flat);
            self.cost.0 = self.cost.0.wrapping_sub(cost);
        }
    }

    /// The sums of the month, for accounts that have these sums now.
    pub(in crate::account) fn with(&self, now: &Usage) -> Usage {
        let (accounts, quota) = (now.accounts, now.quota);
        Usage { accounts, quota, used: self.used, left: less(quota, self.flat), cost: self.cost }
    }
}

/// A sum minus one of its terms.
fn less(sum: u128, number: u128) -> u128 {
    sum.checked_sub(number).expected("a sum is that of its numbers").unwrap_or(0)
}

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
