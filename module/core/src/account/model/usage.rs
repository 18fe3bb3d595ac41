//! Sums of use and cost.

use super::record::Account;
use super::tariff::Amount;
use crate::invariant;

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

/// A sum minus one of its terms.
fn less(sum: u128, number: u128) -> u128 {
    let rest = sum.checked_sub(number);
    invariant!(rest.is_some(), "a sum is that of its numbers");
    rest.unwrap_or(0)
}
