//! The creations that wait for room, in their order, and which of them are to be decided again.

use crate::shared::invariant::Expected;
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
    /// When its zone and host no longer count; `None` if they always do, or no longer do.
    pub(in crate::conf) falls_at: Option<Millis>,
    /// The zone and host that it wished, once they no longer count: its class has none then.
    pub(in crate::conf) fallen: Option<(Option<Bytes>, Option<Bytes>)>,
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
    /// Those whose zone and host will no longer count, and when.
    falls: BTreeSet<(Millis, Rank)>,
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
        self.falls.extend(waiter.falls_at.map(|at| (at, rank)));
        self.queue.insert(rank, waiter);
    }

    pub(in crate::conf) fn leave(&mut self, id: u64) {
        let Some(rank) = self.ranks.remove(&id) else { return };
        if let Some(at) = self.queue.remove(&rank).and_then(|waiter| waiter.falls_at) {
            self.falls.remove(&(at, rank));
        }
    }

    /// When the zone and host of a waiter will no longer count, the earliest of all.
    pub(in crate::conf) fn next_fall(&self) -> Option<Millis> {
        self.falls.first().map(|&(at, _)| at)
    }

    /// Takes zone and host from the waiters that have waited for them long enough. O(log n) for each.
    pub(in crate::conf) fn fall(&mut self, now: Millis) {
        while self.next_fall().is_some_and(|at| at <= now)
            && let Some((_, rank)) = self.falls.pop_first()
        {
            let waiter = self.queue.get_mut(&rank).expected("a waiter whose zone falls waits");
            let Some(waiter) = waiter else { continue };
            waiter.falls_at = None;
            let (_, _, zone, host, _) = &mut waiter.class;
            waiter.fallen = Some((zone.take(), host.take()));
            self.open();
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
