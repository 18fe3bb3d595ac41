//! Reads the account nodes again, a few instances at a time: only the leader may write them, but others may be able to.
//! What another program changed is repaired. No watch covers these nodes, since there are too many of them.

use std::ops::Bound::{Excluded, Unbounded};
use std::time::Duration;

use tokio::time::Instant;

use super::observed_tree::{InstanceId, ObservedTree};
use super::tree_writer::TreeWriter;
use allot_coordination::Error;

/// Interval between two parts of the audit.
const INTERVAL: Duration = Duration::from_secs(1);
/// The most accounts of one part, unless a single instance has more.
const MAX_ACCOUNTS: usize = 500;
/// The most instances of one part.
const MAX_INSTANCES: usize = 100;

/// Where the audit is.
pub(super) struct TreeAudit {
    /// The last instance that was read.
    last: Option<InstanceId>,
    /// When the last part was read.
    at: Instant,
}

impl TreeAudit {
    pub(super) fn new() -> Self {
        Self { last: None, at: Instant::now() }
    }

    /// Reads the next part, if it is time. Returns whether another program changed something.
    pub(super) async fn run(
        &mut self,
        tree_writer: &TreeWriter,
        tree: &mut ObservedTree,
    ) -> Result<bool, Error> {
        if self.at.elapsed() < INTERVAL {
            return Ok(false);
        }
        self.at = Instant::now();
        let part = self.next_part(tree);
        if part.is_empty() { Ok(false) } else { tree_writer.audit(tree, &part).await }
    }

    /// The next instances; from the first one again after the last one.
    fn next_part(&mut self, tree: &ObservedTree) -> Vec<InstanceId> {
        let from = self.last.take().map_or(Unbounded, Excluded);
        let (mut part, mut accounts) = (Vec::new(), 0);
        for (id, observed) in tree.instances.range((from, Unbounded)) {
            if observed.alloc.is_none() && observed.accounts.is_empty() {
                continue;
            }
            accounts += observed.accounts.len();
            if !part.is_empty() && accounts > MAX_ACCOUNTS || part.len() >= MAX_INSTANCES {
                self.last = part.last().cloned();
                break;
            }
            part.push(id.clone());
        }
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roles::accounts::tests::fixtures::{assigned, id};

    #[test]
    fn each_instance_is_read_in_its_turn() {
        let mut tree = ObservedTree::default();
        for instance in ["a", "b", "c", "d"] {
            let observed = tree.at(&id(instance));
            // An instance without accounts is not read.
            let count = if instance == "c" { 0 } else { 300 };
            observed.accounts = (0..count).map(|number| (format!("p{number}"), assigned(1))).collect();
        }
        let mut audit = TreeAudit::new();
        for expected in [["a"], ["b"], ["d"], ["a"]] {
            assert_eq!(audit.next_part(&tree), expected.map(id));
        }
        tree.instances.retain(|other, _| *other == id("b"));
        audit.last = Some(id("d"));
        assert_eq!(audit.next_part(&tree), []);
        assert_eq!(audit.next_part(&tree), [id("b")]);
    }
}
