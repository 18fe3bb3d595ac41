//! Where everything stands in the coordination service.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::ids::TaskId;

/// What stands in a path as it is. Not the dot, since dots divide names.
const CODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'-');
/// What a status node's name begins with.
const STATUS: &str = "Status.";
/// What an info node's name begins with.
const INFO: &str = "TaskInfo.";

/// The tree's root, and the paths under it.
#[derive(Debug, Clone)]
pub struct Paths(String);

/// A name as node_context of a path.
pub fn encode(name: &str) -> String {
    utf8_percent_encode(name, CODED).to_string()
}

/// The name that a node_context of a path was made of.
pub fn decode(node_context: &str) -> String {
    percent_decode_str(node_context).decode_utf8_lossy().into_owned()
}

/// The name of the node that says in which state a task is.
pub fn status(state: impl fmt::Display) -> String {
    format!("{STATUS}{state}")
}

/// The name of the node that holds a task.
pub fn info(pc: &str, db: &str) -> String {
    format!("{INFO}{}.{}", encode(pc), encode(db))
}

/// Whether that is such a node.
pub fn is_info(node: &str) -> bool {
    node.starts_with(INFO)
}

impl Paths {
    /// Under this root, e.g. `/cluster.compact/Compaction_v2`.
    pub fn new(root: &str) -> Self {
        Self(root.to_owned())
    }

    /// All main tasks.
    pub fn scheduler(&self) -> String {
        format!("{}/Scheduler", self.0)
    }

    /// A main task.
    pub fn main(&self, id: TaskId) -> String {
        format!("{}/Scheduler/{id}", self.0)
    }

    /// The chunks of its round's partitions.
    pub fn partitions(&self, id: TaskId) -> String {
        format!("{}/Partitions", self.main(id))
    }

    /// What its workers have finished and its manager has not counted.
    pub fn finished(&self, id: TaskId) -> String {
        format!("{}/Finished", self.main(id))
    }

    /// Packed history.
    pub fn compress(&self) -> String {
        format!("{}/Scheduler/Compress", self.0)
    }

    /// The units that have, or had, work.
    pub fn assigned(&self) -> String {
        format!("{}/TaskAssigned", self.0)
    }

    /// What a unit shall do.
    pub fn inbox(&self, unit: &str) -> String {
        format!("{}/TaskAssigned/{}", self.0, encode(unit))
    }

    /// A subtask at its worker; of a main task, the notice to its new manager.
    pub fn at(&self, unit: &str, id: TaskId) -> String {
        format!("{}/{id}", self.inbox(unit))
    }

    /// The units that are there.
    pub fn nodes(&self) -> String {
        format!("{}/Nodes", self.0)
    }

    /// One of them.
    pub fn node(&self, unit: &str) -> String {
        format!("{}/Nodes/{}", self.0, encode(unit))
    }

    /// The election of the monitor.
    pub fn election(&self) -> String {
        format!("{}/Election", self.0)
    }

    /// The locks.
    pub fn locks(&self) -> String {
        format!("{}/Locks", self.0)
    }

    /// The locks of tasks of the first generation that were taken over.
    pub fn upgrade_locks(&self) -> String {
        format!("{}/TaskUpgradeLock", self.0)
    }

    /// The lock of one of them, by its old name.
    pub fn upgrade_lock(&self, old: &str) -> String {
        format!("{}/TaskUpgradeLock/{old}.lock", self.0)
    }

    /// The permits.
    pub fn permits(&self) -> String {
        format!("{}/Permits", self.0)
    }

    /// One of them.
    pub fn permit(&self, name: &str) -> String {
        format!("{}/Permits/{name}", self.0)
    }

    /// The lock of a partition. Without the cluster's name: the same data may be known to two.
    pub fn lock(&self, [db, schema, table]: [&str; 3], partition: &str) -> String {
        let name = [db, schema, table, partition].map(encode).join(".");
        format!("{}/Locks/{name}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_as_it_is_named() {
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
        assert!(is_info(&info("a", "b")));
    }

    #[test]
    fn any_name_stands_in_a_path_and_no_two_meet() {
        for name in ["/data/p=1/x.db", "100%", "a.b", "zoë", "..", "%2E"] {
            assert!(!encode(name).contains(['/', '.']), "{name}");
            assert_eq!(decode(&encode(name)), name);
        }
        let paths = Paths::new("/r");
        assert_ne!(paths.lock(["a", "b", "c"], "d"), paths.lock(["a", "b.c", "d"], ""));
        assert_ne!(paths.lock(["a", "b", "c.d"], "e"), paths.lock(["a", "b", "c"], "d.e"));
    }
}
