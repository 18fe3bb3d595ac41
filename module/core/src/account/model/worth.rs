//! Accounts by their worth, which even assignment divides: the instructions that the flat price of an account includes.

use std::collections::{BTreeMap, BTreeSet, btree_set};

use super::record::Account;
use crate::invariant;
use crate::shared::invariant::Expected;

/// A sum of worths, or a difference of two.
pub(in crate::account) type Worth = i128;

impl Account {
    /// The instructions a month at the flat price. An account without any is worth one instruction, so that such
    /// accounts are divided as well.
    pub(in crate::account) fn worth(&self) -> u64 {
        self.tariff.quota.max(1)
    }
}

/// A set of accounts, by worth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::account) struct ByWorth {
    groups: BTreeMap<u64, BTreeSet<u32>>,
    len: usize,
    worth: Worth,
}

impl ByWorth {
    /// Adds an account that is not in the set, or removes one that is.
    pub(in crate::account) fn set(&mut self, worth: u64, id: u32, on: bool) {
        let equal = self.groups.entry(worth).or_default();
        let changed = if on { equal.insert(id) } else { equal.remove(&id) };
        if equal.is_empty() {
            self.groups.remove(&worth);
        }
        if invariant!(changed, "a set has its accounts, each once") {
            self.len = if on { self.len + 1 } else { self.len.saturating_sub(1) };
            self.worth += if on { Worth::from(worth) } else { -Worth::from(worth) };
        }
    }

    /// How many accounts there are.
    pub(in crate::account) fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no accounts.
    pub(in crate::account) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The accounts that are left without the smallest ones, so many of them; `None` if none is left. O(different worths
    /// of the smallest ones).
    pub(in crate::account) fn without_smallest(&self, mut count: usize) -> Option<Spare> {
        let mut worth = self.worth;
        for (&least, equal) in &self.groups {
            let without = equal.len().min(count);
            worth -= Worth::from(least) * without as Worth;
            count -= without;
            if without < equal.len() {
                return Some(Spare { worth, least, equal: equal.len() - without });
            }
        }
        None
    }

    /// The accounts, those that are worth most first.
    pub(in crate::account) fn iter(&self) -> impl Iterator<Item = u32> {
        self.groups.values().rev().flatten().copied()
    }

    /// The first account of those that are worth most, but at most so much; else of those that are worth least.
    pub(in crate::account) fn nearest(&self, most: u64) -> Option<u32> {
        let within = self.groups.range(..=most).next_back();
        within.or_else(|| self.groups.iter().next()).and_then(|(_, equal)| equal.first()).copied()
    }

    /// The accounts, to take one after the other. O(different worths).
    pub(in crate::account) fn untaken(&self) -> Untaken<'_> {
        Untaken(self.groups.iter().map(|(&worth, equal)| (worth, equal.iter())).collect())
    }
}

/// Accounts by worth, of which some are taken.
#[derive(Clone, Debug, Default)]
pub(in crate::account) struct Untaken<'a>(BTreeMap<u64, btree_set::Iter<'a, u32>>);

impl Untaken<'_> {
    /// Takes an account whose worth is within these limits and that `taken` does not have, and notes it in `taken`: of
    /// those that are worth most, or with `smallest` of those that are worth least.
    pub(in crate::account) fn take(
        &mut self,
        (least, most): (u64, u64),
        smallest: bool,
        taken: &mut BTreeSet<u32>,
    ) -> Option<(u64, u32)> {
        if least > most {
            return None;
        }
        loop {
            let mut within = self.0.range_mut(least..=most);
            let (&worth, equal) = if smallest { within.next() } else { within.next_back() }?;
            if let Some(&id) = equal.find(|id| !taken.contains(id)) {
                taken.insert(id);
                return Some((worth, id));
            }
            self.0.remove(&worth);
        }
    }
}

/// Of the instances that can give an account to one of level `lowest`, the one that keeps the most: of those whose smallest
/// account, by `least`, is worth at most `most`. O(instances passed over).
pub(in crate::account) fn giver(
    givers: &BTreeSet<(Worth, u32)>,
    (lowest, most): (Worth, u64),
    least: impl Fn(u32) -> Option<u64>,
) -> Option<(Worth, u32)> {
    let above = givers.iter().rev().take_while(|(rest, _)| *rest > lowest);
    above.copied().find(|&(_, id)| least(id).is_some_and(|least| least <= most))
}

/// The free accounts of a module without its reserve, which are its smallest free accounts.
#[derive(Clone, Copy, Debug)]
pub(in crate::account) struct Spare {
    /// What all of them are worth.
    pub(in crate::account) worth: Worth,
    /// The least worth of an account.
    pub(in crate::account) least: u64,
    /// How many accounts are worth so much; at least 1.
    pub(in crate::account) equal: usize,
}

/// How many accounts there are of each worth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::account) struct QuotaCounts(BTreeMap<u64, u32>);

impl QuotaCounts {
    /// Counts an account more, or one less.
    pub(in crate::account) fn count(&mut self, worth: u64, on: bool) {
        let count = self.0.entry(worth).or_default();
        let next = count.checked_add_signed(if on { 1 } else { -1 });
        *count = next.expected("a count is that of what is there").unwrap_or(0);
        if *count == 0 {
            self.0.remove(&worth);
        }
    }

    /// The least worth of an account.
    pub(in crate::account) fn least(&self) -> Option<u64> {
        self.0.keys().next().copied()
    }

    /// Whether all accounts are worth the same.
    pub(in crate::account) fn are_equal(&self) -> bool {
        self.0.len() <= 1
    }

    /// What the smallest accounts are worth, so many of them. O(different worths of these).
    pub(in crate::account) fn worth_of_smallest(&self, mut count: u32) -> Worth {
        let smallest = self.0.iter().map_while(|(&worth, &equal)| {
            let some = equal.min(count);
            count -= some;
            (some > 0).then(|| Worth::from(worth) * Worth::from(some))
        });
        smallest.sum()
    }

    /// The worth, at most `most` and less than `gap`, of the account that brings two shares closest together whose
    /// difference is `gap`: the worth next to half of the gap.
    pub(in crate::account) fn closing(&self, gap: Worth, most: u64) -> Option<u64> {
        let half = u64::try_from(gap / 2).unwrap_or(u64::MAX);
        let lower = self.0.range(..=half.min(most)).next_back();
        let upper = self.0.range(half.saturating_add(1)..).next();
        let fits = |worth: &u64| *worth <= most && Worth::from(*worth) < gap;
        let both = [lower, upper].into_iter().flatten().map(|(&worth, _)| worth).filter(fits);
        both.min_by_key(|&worth| (2 * Worth::from(worth) - gap).abs())
    }
}
