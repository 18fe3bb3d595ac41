//! The units whose nodes stand in the coordination service, and since when that is known without a break.

use std::collections::BTreeSet;
use std::time::Instant;

use allot_coordination::name_of_node;
use allot_coordination::{Coordinator, Error, Members, Snapshot};

/// The directory of units, followed.
pub(super) struct Nodes {
    members: Members,
    since: Option<(u64, Instant)>,
}

impl Nodes {
    pub(super) fn follow(coordinator: &Coordinator, dir: &str) -> Self {
        Self { members: coordinator.members(dir), since: None }
    }

    /// Who is there, and since when it has been followed on this connection; `None` while it is not.
    pub(super) fn look(&mut self, coordinator: &Coordinator) -> (BTreeSet<String>, Option<Instant>) {
        let snapshot = self.members.snapshot();
        let is_current = snapshot.current && snapshot.attachment == coordinator.status().attachment;
        if !is_current || !coordinator.is_trusted() {
            self.since = None;
        } else if self.since.is_none_or(|(attachment, _)| attachment != snapshot.attachment) {
            self.since = Some((snapshot.attachment, Instant::now()));
        }
        (names(&snapshot), self.since.map(|(_, since)| since))
    }

    /// Waits for a look that was taken on the connection that there is.
    pub(super) async fn current(&mut self, coordinator: &Coordinator) -> Result<BTreeSet<String>, Error> {
        let seen = self
            .members
            .wait_for(|seen| seen.current && seen.attachment == coordinator.status().attachment)
            .await?;
        Ok(names(&seen))
    }

    /// Waits for a change.
    pub(super) async fn changed(&mut self) {
        let _ = self.members.changed().await;
    }
}

fn names(snapshot: &Snapshot) -> BTreeSet<String> {
    snapshot.members.keys().map(|node| name_of_node(node)).collect()
}
