//! What the accounts of an instance may still send in the current month, without a look at each account.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::record::{Account, limited};
use super::tariff::{Amount, Tariff};
use super::usage::step;
use crate::invariant;
use crate::shared::invariant::Expected;

/// Instructions by price, in ascending order of the price, without prices that have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::account) struct Rooms(Vec<(Amount, i128)>);

impl Rooms {
    /// Adds other instructions (`sign` 1), or removes them (`sign` -1).
    pub(in crate::account) fn add(&mut self, other: &Self, sign: i128) {
        other.0.iter().for_each(|&(price, room)| self.add_room(price, sign * room));
    }

    /// Adds instructions of a price, or removes as many as are there if `room` is negative. O(log prices), or O(prices) for a price
    /// that comes or goes.
    pub(in crate::account) fn add_room(&mut self, price: Amount, room: i128) {
        match self.0.binary_search_by_key(&price, |&(price, _)| price) {
            Ok(place) => {
                let level = self.0.get_mut(place).expected("a search finds places in the list");
                let Some(level) = level else { return };
                level.1 += room;
                invariant!(level.1 >= 0, "only instructions that are there are removed");
                if level.1 == 0 {
                    self.0.remove(place);
                }
            }
            Err(_) if room == 0 => {}
            Err(place) => {
                invariant!(room > 0, "only instructions that are there are removed");
                self.0.insert(place, (price, room));
            }
        }
    }

    /// Whether there are no instructions at any price.
    pub(in crate::account) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Instructions without others, at each price; not less than none. O(prices).
    fn without(&self, others: &Self) -> Self {
        let mut others = others.0.iter().peekable();
        let rest = |&(price, room): &(Amount, i128)| {
            while others.next_if(|other| other.0 < price).is_some() {}
            let other = others.next_if(|other| other.0 == price).map_or(0, |other| other.1);
            Some((price, room - other)).filter(|&(_, room)| room > 0)
        };
        Self(self.0.iter().filter_map(rest).collect())
    }

    /// Bytes allocated.
    fn allocated(&self) -> usize {
        self.0.capacity() * size_of::<(Amount, i128)>()
    }

    /// Removes all instructions.
    pub(in crate::account) fn clear(&mut self) {
        self.0.clear();
    }

    /// The cost of so many instructions, the cheapest first. Instructions beyond all rooms cannot be sent, and cost
    /// nothing.
    pub(in crate::account) fn cost(&self, mut count: i128) -> i128 {
        let mut cost = 0i128;
        for &(price, room) in &self.0 {
            let here = count.min(room);
            cost = cost.saturating_add(here.saturating_mul(price.0));
            count -= here;
        }
        cost
    }
}

impl FromIterator<(Amount, i128)> for Rooms {
    /// Sums up instructions of prices in any order. O(n log n).
    fn from_iter<I: IntoIterator<Item = (Amount, i128)>>(all: I) -> Self {
        let mut all: Vec<(Amount, i128)> = all.into_iter().collect();
        all.sort_unstable_by_key(|&(price, _)| price);
        all.dedup_by(|next, sum| {
            let is_same = next.0 == sum.0;
            if is_same {
                sum.1 += next.1;
            }
            is_same
        });
        all.retain(|&(_, room)| room != 0);
        Self(all)
    }
}

/// The tariff of an account, and its cap.
type Terms = (Arc<Tariff>, u64);

/// Bytes of an entry of a map of terms, whose nodes are three quarters full on average.
const TERMS_ENTRY: usize = size_of::<(Terms, usize)>() * 4 / 3;

/// The accounts that an instance has or will get, by tariff and cap, and what they have sent in the current month, by price.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Supply {
    terms: BTreeMap<Terms, usize>,
    sent: Rooms,
    /// What the accounts may send in a whole month, if none sends more than `limit`.
    whole: Rooms,
    /// The limit for which `whole` was computed: another one after a change, until an account comes, goes or sends.
    limit: u64,
}

impl Supply {
    /// Adds an account with its use of the month, or removes it; no account sends more than `limit`
    /// (`Settings::limit`) in a month. O(log tariffs + steps x log prices), or O(prices) for a price that comes or
    /// goes; after a change of the limit as `follow`.
    pub(super) fn set(&mut self, account: &Account, (month, limit): (u32, u64), on: bool) {
        self.follow(limit);
        let (tariff, terms) = (&account.tariff, (account.tariff.clone(), account.cap));
        match self.terms.get_mut(&terms) {
            Some(count) => {
                step!(*count, on);
                if *count == 0 {
                    self.terms.remove(&terms);
                }
            }
            None if on => {
                self.terms.insert(terms, 1);
            }
            None => invariant!("an instance has the tariffs of its accounts"),
        }
        let sign = if on { 1 } else { -1 };
        for (price, room) in tariff.rooms(0, account.limit(limit)).filter(|&(_, room)| room > 0) {
            self.whole.add_room(price, sign * i128::from(room));
        }
        self.add_sent(tariff, (0, account.position(month)), sign);
    }

    /// An account of this tariff, which has sent so many instructions in the month, has sent so many now.
    /// O(steps x log prices), or O(prices) for a price at which nothing was sent before; after a change of the limit as
    /// `follow`.
    pub(super) fn count(&mut self, tariff: &Tariff, span: (u64, u64), limit: u64) {
        self.follow(limit);
        self.add_sent(tariff, span, 1);
    }

    fn add_sent(&mut self, tariff: &Tariff, (before, now): (u64, u64), sign: i128) {
        for (price, sent) in tariff.rooms(before, now).filter(|&(_, sent)| sent > 0) {
            self.sent.add_room(price, sign * i128::from(sent));
        }
    }

    /// Resets the use for a new month.
    pub(super) fn begin_month(&mut self) {
        self.sent.clear();
    }

    /// Computes what the accounts may send again if the limit has changed. O(n log n) with n steps of all tariffs.
    pub(super) fn follow(&mut self, limit: u64) {
        if self.limit != limit {
            self.whole = self.within(limit);
            self.limit = limit;
        }
    }

    /// What the accounts may send in a whole month, if none sends more than `limit`.
    fn within(&self, limit: u64) -> Rooms {
        let all = self.terms.iter().flat_map(|((tariff, cap), &accounts)| {
            let accounts = i128::try_from(accounts).unwrap_or(i128::MAX);
            let rooms = tariff.rooms(0, limited(*cap, limit));
            rooms.map(move |(price, room)| (price, i128::from(room).saturating_mul(accounts)))
        });
        all.collect()
    }

    /// The cost of so many further instructions in the month, the cheapest first, if no account sends more than
    /// `limit`. O(prices); after a change of the limit as `follow`.
    pub(in crate::account) fn cost(&self, count: u64, limit: u64) -> Amount {
        if count == 0 {
            return Amount::default();
        }
        let rest = if self.limit == limit {
            self.whole.without(&self.sent)
        } else {
            self.within(limit).without(&self.sent)
        };
        Amount(rest.cost(count.into()))
    }

    /// Instructions that may still be sent in the month below a price, if no account sends more than `limit`. Where an
    /// account has sent more than a limit that came later, at most as many as there are. As `cost`.
    pub(in crate::account) fn left(&self, below: Amount, limit: u64) -> i128 {
        let whole = if self.limit == limit { None } else { Some(self.within(limit)) };
        let rest = whole.as_ref().unwrap_or(&self.whole).without(&self.sent);
        rest.0.iter().filter(|&&(price, _)| price < below).map(|&(_, room)| room).sum()
    }

    /// Bytes allocated, approximately.
    pub(super) fn allocated(&self) -> usize {
        self.terms.len() * TERMS_ENTRY + self.sent.allocated() + self.whole.allocated()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rooms(all: &[(i128, i128)]) -> Rooms {
        all.iter().map(|&(price, room)| (Amount(price), room)).collect()
    }

    #[test]
    fn prices_are_summed_up_and_those_without_instructions_are_left_out() {
        let mut all = rooms(&[(5, 1), (2, 3), (5, 4), (7, 0), (9, 2), (9, -2)]);
        assert_eq!(all.0, [(Amount(2), 3), (Amount(5), 5)]);
        all.add_room(Amount(3), 0);
        all.add_room(Amount(2), -3);
        all.add_room(Amount(4), 6);
        assert_eq!(all, rooms(&[(4, 6), (5, 5)]));
    }

    #[test]
    fn no_price_has_less_than_nothing_left() {
        let all = rooms(&[(1, 4), (3, 5), (5, 6)]);
        assert_eq!(all.without(&rooms(&[(0, 9), (1, 4), (2, 9), (3, 2), (5, 8), (6, 1)])), rooms(&[(3, 3)]));
        assert_eq!(all.without(&Rooms::default()), all);
    }
}
