//! The units that have a node in the coordination service, and the time since which their directory has been followed
//! without a break.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::time::Instant;

use allot_coordination::name_of_node;
use allot_coordination::{Coordinator, Error, Member, Members, Snapshot};

/// The directory of units, followed by watches.
pub(super) struct UnitNodes {
    members: Members,
    /// The connection on which the directory is followed, and the time since which it is.
    since: Option<(u64, Instant)>,
    /// The members of the last snapshot, and the names of their units.
    seen: (Arc<BTreeMap<String, Member>>, Arc<BTreeSet<String>>),
}

impl UnitNodes {
    pub(super) fn follow(coordinator: &Coordinator, dir: &str) -> Self {
        Self { members: coordinator.members(dir), since: None, seen: Default::default() }
    }

    /// The units that have a node, and the time since which the directory has been followed on this connection; `None`
    /// while it is not followed.
    pub(super) fn snapshot(&mut self, coordinator: &Coordinator) -> (Arc<BTreeSet<String>>, Option<Instant>) {
        let snapshot = self.members.snapshot();
        let is_current = snapshot.current && snapshot.attachment == coordinator.status().attachment;
        if !is_current || !coordinator.is_trusted() {
            self.since = None;
        } else if self.since.is_none_or(|(attachment, _)| attachment != snapshot.attachment) {
            self.since = Some((snapshot.attachment, Instant::now()));
        }
        if !Arc::ptr_eq(&self.seen.0, &snapshot.members) {
            self.seen = (snapshot.members.clone(), Arc::new(names(&snapshot)));
        }
        (self.seen.1.clone(), self.since.map(|(_, since)| since))
    }

    /// Waits until the directory was read on the current connection. Returns the units that have a node then.
    pub(super) async fn current(&mut self, coordinator: &Coordinator) -> Result<BTreeSet<String>, Error> {
        let snapshot = self
            .members
            .wait_for(|snapshot| snapshot.current && snapshot.attachment == coordinator.status().attachment)
            .await?;
        Ok(names(&snapshot))
    }

    /// Waits for a change.
    pub(super) async fn changed(&mut self) {
        let _ = self.members.changed().await;
    }
}

fn names(snapshot: &Snapshot) -> BTreeSet<String> {
    snapshot.members.keys().map(|node| name_of_node(node)).collect()
}
