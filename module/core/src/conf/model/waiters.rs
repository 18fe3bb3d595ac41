//! The creations that wait for room, in their order, and which of them are to be decided again.

use crate::shared::{Bytes, Millis};
use hashbrown::HashMap;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
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
    /// Classes for which there was no room then.
    pub(in crate::conf) refused: BTreeSet<Class>,
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
            self.decided = None;
            self.refused.clear();
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

    /// The next waiter to decide whose class was not refused.
    pub(in crate::conf) fn next(&mut self) -> Option<Rank> {
        let from = self.decided.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = self.queue.range((from, Bound::Unbounded));
        let next = rest.find(|(_, waiter)| !self.refused.contains(&waiter.class)).map(|(rank, _)| *rank);
        self.is_pending = next.is_some();
        self.decided = next;
        next
    }
}
