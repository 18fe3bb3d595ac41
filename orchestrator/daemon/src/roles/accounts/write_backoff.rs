//! Remembers the instances whose part of the tree cannot be written. The leader serves other instances meanwhile.
//! After a time limit the leader no longer waits for such an instance, but it retries the writes at every tick.

use std::collections::{BTreeMap, BTreeSet};

use tracing::warn;

use super::observed_tree::InstanceId;

/// For each instance with failing writes: since when they fail (milliseconds since 1970), and whether the warning was
/// logged.
#[derive(Debug)]
pub(super) struct WriteBackoff {
    since: BTreeMap<InstanceId, (u64, bool)>,
    /// Time limit for the wait for an instance with failing writes, in milliseconds.
    limit: u64,
}

impl WriteBackoff {
    /// No instance has failing writes yet. `limit` is in milliseconds.
    pub(super) fn new(limit: u64) -> Self {
        Self { since: BTreeMap::new(), limit }
    }

    /// Replaces the set of instances with failing writes by `failed`. `now` is in milliseconds since 1970.
    pub(super) fn note(&mut self, failed: &BTreeSet<InstanceId>, now: u64) {
        self.since.retain(|id, _| failed.contains(id));
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
