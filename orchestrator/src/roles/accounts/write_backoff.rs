//! Instances in whose part of the tree something cannot be written, whatever the reason: others go on meanwhile, and after
//! a while nobody waits for them any more. What is to be written is tried at every tick all the same.

use std::collections::{BTreeMap, BTreeSet};

use tracing::warn;

use super::observed_tree::InstanceId;

/// Since when something fails, in milliseconds since 1970, and whether that was said.
#[derive(Debug)]
pub(super) struct WriteBackoff {
    since: BTreeMap<InstanceId, (u64, bool)>,
    /// How long an instance is waited for, in milliseconds.
    limit: u64,
}

impl WriteBackoff {
    /// None yet.
    pub(super) fn new(limit: u64) -> Self {
        Self { since: BTreeMap::new(), limit }
    }

    /// Notes what failed just now, and that nothing else did.
    pub(super) fn note(&mut self, failed: &BTreeSet<InstanceId>, now: u64) {
        self.since.retain(|id, _| failed.contains(id));
        for id in failed {
            let (since, told) = self.since.entry(id.clone()).or_insert((now, false));
            if now >= since.saturating_add(self.limit) && !*told {
                *told = true;
                let (dir, instance) = (&id.dir, &id.instance);
                warn!(
                    dir,
                    instance, "what is to observed here cannot be written; nobody waits for it any more"
                );
            }
        }
    }

    /// Until when an instance is waited for, where something fails.
    pub(super) fn end(&self, id: &InstanceId) -> Option<u64> {
        self.since.get(id).map(|(since, _)| since.saturating_add(self.limit))
    }

    /// Whether nobody waits for an instance any more.
    pub(super) fn is_late(&self, id: &InstanceId, now: u64) -> bool {
        self.end(id).is_some_and(|end| now >= end)
    }
}
