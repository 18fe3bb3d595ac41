//! Remembers the instances whose part of the tree cannot be written. The leader serves other instances meanwhile.
//! After a time limit the leader no longer waits for such an instance, but it retries the writes: at every tick or, if
//! ZooKeeper refuses them, after pauses that grow.

use std::collections::{BTreeMap, BTreeSet};

use tracing::warn;

use super::observed_tree::InstanceId;

/// The first and the longest pause after a refused write, in milliseconds.
const FIRST_PAUSE: u64 = 250;
const LONGEST_PAUSE: u64 = 10_000;

/// For each instance with failing writes: since when they fail (milliseconds since 1970), and whether the warning was
/// logged.
#[derive(Debug)]
pub(super) struct WriteBackoff {
    since: BTreeMap<InstanceId, (u64, bool)>,
    /// For each instance whose writes are refused: when the next one is due (milliseconds since 1970), and the pause before
    /// it.
    refused: BTreeMap<InstanceId, (u64, u64)>,
    /// Time limit for the wait for an instance with failing writes, in milliseconds.
    limit: u64,
}

impl WriteBackoff {
    /// No instance has failing writes yet. `limit` is in milliseconds.
    pub(super) fn new(limit: u64) -> Self {
        Self { since: BTreeMap::new(), refused: BTreeMap::new(), limit }
    }

    /// ZooKeeper has refused a write of this instance.
    pub(super) fn refused(&mut self, id: InstanceId, now: u64) {
        let (due, pause) = self.refused.entry(id).or_insert((0, FIRST_PAUSE / 2));
        *pause = (*pause * 2).min(LONGEST_PAUSE);
        *due = now.saturating_add(*pause);
    }

    /// Whether writes of this instance may be tried.
    pub(super) fn may_write(&self, id: &InstanceId, now: u64) -> bool {
        self.refused.get(id).is_none_or(|(due, _)| *due <= now)
    }

    /// Whether ZooKeeper refuses writes.
    pub(super) fn has_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    /// Replaces the set of instances with failing writes by `failed`, and by those whose refused writes were not tried
    /// again. `now` is in milliseconds since 1970.
    pub(super) fn note(&mut self, failed: &BTreeSet<InstanceId>, now: u64) {
        // Those that were due were tried.
        self.refused.retain(|_, (due, _)| *due > now);
        self.since.retain(|id, _| failed.contains(id) || self.refused.contains_key(id));
        for id in failed {
            let (since, warned) = self.since.entry(id.clone()).or_insert((now, false));
            if now >= since.saturating_add(self.limit) && !*warned {
                *warned = true;
                let (dir, instance) = (&id.dir, &id.instance);
                warn!(
                    dir,
                    instance,
                    "cannot write the nodes of an instance; the leader no longer waits for it and keeps retrying"
                );
            }
        }
    }

    /// The end of the wait for an instance with failing writes, in milliseconds since 1970.
    pub(super) fn end(&self, id: &InstanceId) -> Option<u64> {
        self.since.get(id).map(|(since, _)| since.saturating_add(self.limit))
    }

    /// Whether the leader no longer waits for an instance.
    pub(super) fn is_late(&self, id: &InstanceId, now: u64) -> bool {
        self.end(id).is_some_and(|end| now >= end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roles::accounts::tests::fixtures::id;

    #[test]
    fn refused_writes_are_tried_after_growing_pauses() {
        let (mut backoff, refused, none) =
            (WriteBackoff::new(1000), BTreeSet::from([id("a")]), BTreeSet::new());
        let tried = (0..120_000).step_by(50).filter(|&now| {
            let tries = backoff.may_write(&id("a"), now);
            if tries {
                backoff.refused(id("a"), now);
            }
            backoff.note(if tries { &refused } else { &none }, now);
            tries
        });
        let tried: Vec<u64> = tried.collect();
        assert_eq!(tried.get(..5), Some(&[0, 250, 750, 1750, 3750][..]));
        assert_eq!(tried.len(), 6 + 11);
        // The leader has stopped to wait for the instance although most ticks tried nothing.
        assert!(backoff.is_late(&id("a"), 120_000) && backoff.may_write(&id("b"), 0));
        backoff.note(&none, 200_000);
        assert!(!backoff.has_refused() && !backoff.is_late(&id("a"), 200_000));
    }
}
