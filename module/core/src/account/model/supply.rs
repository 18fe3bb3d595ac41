//! What the accounts of an instance may still send in the current month, without a look at each account.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::count::step;
use super::record::Account;
use super::rooms::Rooms;
use super::tariff::{Amount, Tariff};
use crate::invariant;

/// Bytes of an entry of a map of tariffs, whose nodes are three quarters full on average.
const TARIFF_ENTRY: usize = size_of::<(Arc<Tariff>, usize)>() * 4 / 3;

/// The accounts that an instance has or will get, by tariff, and what they have sent in the current month, by price.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Supply {
    tariffs: BTreeMap<Arc<Tariff>, usize>,
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
        let tariff = &account.tariff;
        match self.tariffs.get_mut(tariff) {
            Some(count) => {
                step(count, on);
                if *count == 0 {
                    self.tariffs.remove(tariff);
                }
            }
            None if on => {
                self.tariffs.insert(tariff.clone(), 1);
            }
            None => invariant!("an instance has the tariffs of its accounts"),
        }
        let sign = if on { 1 } else { -1 };
        for (price, room) in tariff.rooms(0, limit).filter(|&(_, room)| room > 0) {
            self.whole.add_room(price, sign * i128::from(room));
        }
        self.add_sent(tariff, (0, account.used_in(month)), sign);
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
        let all = self.tariffs.iter().flat_map(|(tariff, &accounts)| {
            let accounts = i128::try_from(accounts).unwrap_or(i128::MAX);
            let rooms = tariff.rooms(0, limit);
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

    /// The limit for which the supply was computed.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes allocated, approximately.
    pub(super) fn allocated(&self) -> usize {
        self.tariffs.len() * TARIFF_ENTRY + self.sent.allocated() + self.whole.allocated()
    }
}
