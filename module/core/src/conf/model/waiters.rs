//! The creations that wait for room, in their order, and which of them are to be decided again.

use crate::shared::{Bytes, Millis};
use hashbrown::HashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Who comes first: the greater priority, then the earlier arrival.
pub(in crate::conf) type Rank = (Reverse<i64>, u64);

/// What decides whether there is room: size, licences, zone, host and required tags. If there is no room for one waiter,
/// there is none for the others of its class.
pub(in crate::conf) type Class = (i64, i64, Option<Bytes>, Option<Bytes>, Vec<Bytes>);

/// A creation that waits. It owns its words.
#[derive(Debug)]
pub(in crate::conf) struct Waiter {
    pub(in crate::conf) id: u64,
    pub(in crate::conf) class: Class,
    pub(in crate::conf) e164: Bytes,
    pub(in crate::conf) end: Option<Millis>,
    pub(in crate::conf) priority: i64,
    pub(in crate::conf) zone_fall: Option<Millis>,
    pub(in crate::conf) prefer: Vec<Bytes>,
    pub(in crate::conf) recoverable: bool,
    pub(in crate::conf) request: Option<Bytes>,
}

impl Waiter {
    /// When the conference is planned to end.
    pub(in crate::conf) fn lasts_until(&self) -> Millis {
        self.end.unwrap_or(Millis::MAX)
    }
}

/// The waiters of a realm.
#[derive(Debug, Default)]
pub(in crate::conf) struct Waiters {
    pub(in crate::conf) queue: BTreeMap<Rank, Waiter>,
    ranks: HashMap<u64, Rank>,
    arrivals: u64,
    /// Whether there are waiters that were not decided since room may last have become free.
    pub(in crate::conf) is_pending: bool,
    /// The last waiter that was decided since then.
    decided: Option<Rank>,
    /// Classes for which there was no room then, each from which end on.
    pub(in crate::conf) refused: BTreeMap<Class, Millis>,
    /// Whether the last call ended before all waiters were decided. The next one goes on behind them, also if room has
    /// become free again meanwhile, so that no waiter is never decided.
    pub(in crate::conf) is_cut: bool,
    /// Whether the waiters up to `decided` must be decided again after the others.
    begins_again: bool,
}

/// A copy of a realm has no connections.
impl Clone for Waiters {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Waiters {
    /// Has all waiters decided again, because room may have become free.
    #[inline]
    pub(in crate::conf) fn open(&mut self) {
        if !self.queue.is_empty() {
            self.is_pending = true;
            self.refused.clear();
            if self.is_cut {
                self.begins_again = true;
            } else {
                self.decided = None;
            }
        }
    }

    pub(in crate::conf) fn join(&mut self, waiter: Waiter) {
        self.arrivals += 1;
        let rank = (Reverse(waiter.priority), self.arrivals);
        self.ranks.insert(waiter.id, rank);
        self.queue.insert(rank, waiter);
    }

    pub(in crate::conf) fn leave(&mut self, id: u64) {
        if let Some(rank) = self.ranks.remove(&id) {
            self.queue.remove(&rank);
        }
    }

    /// The next waiter to decide that was not refused with its class.
    pub(in crate::conf) fn next(&mut self) -> Option<Rank> {
        let mut next = self.next_after(self.decided);
        if next.is_none() {
            self.is_cut = false;
            if std::mem::take(&mut self.begins_again) {
                next = self.next_after(None);
            }
        }
        self.is_pending = next.is_some();
        self.decided = next;
        next
    }

    fn next_after(&self, decided: Option<Rank>) -> Option<Rank> {
        let from = decided.map_or(Bound::Unbounded, Bound::Excluded);
        let is_open =
            |waiter: &Waiter| self.refused.get(&waiter.class).is_none_or(|&from| waiter.lasts_until() < from);
        let mut rest = self.queue.range((from, Bound::Unbounded));
        rest.find(|(_, waiter)| is_open(waiter)).map(|(rank, _)| *rank)
    }
}
