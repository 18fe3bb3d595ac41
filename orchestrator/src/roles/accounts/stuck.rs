//! Instances in whose part of the tree something cannot be written, whatever the reason: others go on meanwhile, and after
//! a while nobody waits for them any more. What is to be written is tried at every tick all the same.

use std::collections::{BTreeMap, BTreeSet};

use tracing::warn;

use super::view::Place;

/// Since when something fails, in milliseconds since 1970, and whether that was said.
#[derive(Debug)]
pub(super) struct Stuck {
    since: BTreeMap<Place, (u64, bool)>,
    /// How long an instance is waited for, in milliseconds.
    limit: u64,
}

impl Stuck {
    /// None yet.
    pub(super) fn new(limit: u64) -> Self {
        Self { since: BTreeMap::new(), limit }
    }

    /// Notes what failed just now, and that nothing else did.
    pub(super) fn note(&mut self, failed: &BTreeSet<Place>, now: u64) {
        self.since.retain(|place, _| failed.contains(place));
        for place in failed {
            let (since, told) = self.since.entry(place.clone()).or_insert((now, false));
            if now >= since.saturating_add(self.limit) && !*told {
                *told = true;
                let (dir, instance) = (&place.dir, &place.instance);
                warn!(dir, instance, "what is to stand here cannot be written; nobody waits for it any more");
            }
        }
    }

    /// Until when an instance is waited for, where something fails.
    pub(super) fn end(&self, place: &Place) -> Option<u64> {
        self.since.get(place).map(|(since, _)| since.saturating_add(self.limit))
    }

    /// Whether nobody waits for an instance any more.
    pub(super) fn is_late(&self, place: &Place, now: u64) -> bool {
        self.end(place).is_some_and(|end| now >= end)
    }
}
