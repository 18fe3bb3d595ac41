//! The paths of all compaction nodes in ZooKeeper, and the encoding of names in them.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::ids::TaskId;

/// All characters except letters, digits, `_` and `-` are percent-encoded. The dot is encoded, since dots separate
/// names.
const CODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'-');
/// Prefix of a status node's name.
const STATUS: &str = "Status.";
/// Prefix of an info node's name.
const INFO: &str = "TaskInfo.";

/// The tree's root, and the paths under it.
#[derive(Debug, Clone)]
pub struct Paths(String);

/// Encodes a name as one part of a path.
pub fn encode(name: &str) -> String {
    utf8_percent_encode(name, CODED).to_string()
}

/// Decodes the name that [`encode`] encoded.
pub fn decode(part: &str) -> String {
    percent_decode_str(part).decode_utf8_lossy().into_owned()
}

/// The name of the status node of a task in this state.
pub fn status(state: impl fmt::Display) -> String {
    format!("{STATUS}{state}")
}

/// The name of the info node, which holds a task's data.
pub fn info(pc: &str, db: &str) -> String {
    format!("{INFO}{}.{}", encode(pc), encode(db))
}

/// Whether a node of this name is a status node.
pub fn is_status(node: &str) -> bool {
    node.starts_with(STATUS)
}

/// Whether a node of this name is an info node.
pub fn is_info(node: &str) -> bool {
    node.starts_with(INFO)
}

impl Paths {
    /// The paths below this root, e.g. `/cluster.compact/Compaction_v2`.
    pub fn new(root: &str) -> Self {
        Self(root.to_owned())
    }

    /// The directory of all main tasks.
    pub fn scheduler(&self) -> String {
        format!("{}/Scheduler", self.0)
    }

    /// The directory of a main task.
    pub fn main(&self, id: TaskId) -> String {
        format!("{}/Scheduler/{id}", self.0)
    }

    /// The chunks of the partition list of a task's current round.
    pub fn partitions(&self, id: TaskId) -> String {
        format!("{}/Partitions", self.main(id))
    }

    /// Outcomes of subtasks that the manager has not counted yet.
    pub fn finished(&self, id: TaskId) -> String {
        format!("{}/Finished", self.main(id))
    }

    /// The chunks of the log of a task's failures.
    pub fn failures(&self, id: TaskId) -> String {
        format!("{}/Failures", self.main(id))
    }

    /// The records of a repeated task's rounds that are not packed.
    pub fn rounds(&self, id: TaskId) -> String {
        format!("{}/Rounds", self.main(id))
    }

    /// The partitions of a task that the first generation has compacted.
    pub fn succeeded(&self, id: TaskId) -> String {
        format!("{}/Succeeded", self.main(id))
    }

    /// The directory of packed history.
    pub fn compress(&self) -> String {
        format!("{}/Scheduler/Compress", self.0)
    }

    /// The directory of all inboxes.
    pub fn assigned(&self) -> String {
        format!("{}/TaskAssigned", self.0)
    }

    /// The inbox of a unit: its subtasks, and notices of main tasks to manage.
    pub fn inbox(&self, unit: &str) -> String {
        format!("{}/TaskAssigned/{}", self.0, encode(unit))
    }

    /// The node of a subtask in its worker's inbox, or of a notice in a new manager's inbox.
    pub fn at(&self, unit: &str, id: TaskId) -> String {
        format!("{}/{id}", self.inbox(unit))
    }

    /// The directory of the present units.
    pub fn nodes(&self) -> String {
        format!("{}/Nodes", self.0)
    }

    /// The node of a present unit.
    pub fn node(&self, unit: &str) -> String {
        format!("{}/Nodes/{}", self.0, encode(unit))
    }

    /// The election of the monitor.
    pub fn election(&self) -> String {
        format!("{}/Election", self.0)
    }

    /// The directory of partition locks.
    pub fn locks(&self) -> String {
        format!("{}/Locks", self.0)
    }

    /// The locks of version-1 tasks that were taken over.
    pub fn upgrade_locks(&self) -> String {
        format!("{}/TaskUpgradeLock", self.0)
    }

    /// The lock of a version-1 task, by its old name.
    pub fn upgrade_lock(&self, old: &str) -> String {
        format!("{}/TaskUpgradeLock/{old}.lock", self.0)
    }

    /// The directory of the units that have more subtasks than free slots, or cannot run runners.
    pub fn offers(&self) -> String {
        format!("{}/Offers", self.0)
    }

    /// The offer of this unit.
    pub fn offer_of(&self, unit: &str) -> String {
        format!("{}/Offers/{}", self.0, encode(unit))
    }

    /// The directory of the units that take nothing more.
    pub fn drained(&self) -> String {
        format!("{}/Drained", self.0)
    }

    /// The node that says that this unit takes nothing more.
    pub fn drain_of(&self, unit: &str) -> String {
        format!("{}/Drained/{}", self.0, encode(unit))
    }

    /// The directory whose child says that all tasks are paused.
    pub fn paused(&self) -> String {
        format!("{}/Paused", self.0)
    }

    /// The node that says that all tasks are paused.
    pub fn paused_all(&self) -> String {
        format!("{}/Paused/all", self.0)
    }

    /// The directory of permits.
    pub fn permits(&self) -> String {
        format!("{}/Permits", self.0)
    }

    /// The node of a permit.
    pub fn permit(&self, name: &str) -> String {
        format!("{}/Permits/{name}", self.0)
    }

    /// The lock of a partition. Its name leaves out the processing cluster, since two of them may know the same data.
    pub fn lock(&self, [db, schema, table]: [&str; 3], partition: &str) -> String {
        let name = [db, schema, table, partition].map(encode).join(".");
        format!("{}/Locks/{name}", self.0)
    }

    /// The lock of a partition that is a file, whose path has all links resolved. Two tables may have the same files.
    pub fn file_lock(&self, file: &str) -> String {
        format!("{}/Locks/file.{}", self.0, encode(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_follow_the_documented_layout() {
        let paths = Paths::new("/cluster.compact/Compaction_v2");
        let id: TaskId = "aaaaffff.16176931.56000000.0".parse().unwrap();
        let main = "/cluster.compact/Compaction_v2/Scheduler/aaaaffff.16176931.56000000.0";
        assert_eq!(paths.main(id), main);
        assert_eq!(paths.partitions(id), format!("{main}/Partitions"));
        assert_eq!(paths.finished(id), format!("{main}/Finished"));
        assert_eq!(
            paths.at("xcloud24_9876", id.subtask(3)),
            "/cluster.compact/Compaction_v2/TaskAssigned/xcloud24_9876/aaaaffff.16176931.56000000.3"
        );
        assert_eq!(status("Init"), "Status.Init");
        assert_eq!(info("pc1", "my.db"), "TaskInfo.pc1.my%2Edb");
        assert!(is_info(&info("a", "b")) && is_status(&status("Init")) && !is_status(&info("a", "b")));
    }

    #[test]
    fn encoded_names_decode_and_never_collide() {
        for name in ["/data/p=1/x.db", "100%", "a.b", "zoë", "..", "%2E"] {
            assert!(!encode(name).contains(['/', '.']), "{name}");
            assert_eq!(decode(&encode(name)), name);
        }
        let paths = Paths::new("/r");
        assert_ne!(paths.lock(["a", "b", "c"], "d"), paths.lock(["a", "b.c", "d"], ""));
        assert_ne!(paths.lock(["a", "b", "c.d"], "e"), paths.lock(["a", "b", "c"], "d.e"));
    }
}
