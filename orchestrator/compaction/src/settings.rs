//! The settings of a compaction unit, and their defaults.

use std::path::PathBuf;
use std::time::Duration;

/// The settings of a compaction unit.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Name of the unit, `<host>_<port>`; unique in the cluster.
    pub node: Option<String>,
    /// Processing cluster to which the unit belongs.
    pub pc: String,
    /// Subtasks that the unit runs at once, 1 to 10,000.
    pub slots: u32,
    /// Subtasks that the whole cluster runs at once; 0 for any number.
    pub limit: u32,
    /// The runner: a program and its arguments.
    pub runner: Vec<String>,
    /// The program that lists a table's partitions, and its arguments.
    pub partitions: Vec<String>,
    /// The directory whose files are a table's partitions.
    pub partitions_dir: Option<String>,
    /// Time limit of a runner.
    pub timeout: Duration,
    /// Time that a runner has to end after SIGTERM before it is killed.
    pub stop_limit: Duration,
    /// Retries of a subtask after its worker was lost.
    pub retries: u32,
    /// Time that a unit may be away before it counts as lost; `None` for one ZooKeeper session timeout.
    pub grace: Option<Duration>,
    /// Interval at which the monitor checks all tasks and runs maintenance.
    pub every: Duration,
    /// Subtasks of one task that are assigned at once, 1 to 100,000.
    pub wave: u32,
    /// Time between the end of a task and its packing into history.
    pub compress_after: Duration,
    /// Time between the end of a task and its deletion from history.
    pub delete_after: Duration,
    /// Directory of the runners' output.
    pub output_dir: PathBuf,
    /// Path of compaction's nodes in ZooKeeper.
    pub root: String,
    /// The requested ZooKeeper session timeout; `None` for the default.
    pub session: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        const HOUR: Duration = Duration::from_secs(3600);
        Self {
            node: None,
            pc: "default".to_owned(),
            slots: 2,
            limit: 0,
            runner: Vec::new(),
            partitions: Vec::new(),
            partitions_dir: None,
            timeout: HOUR,
            stop_limit: Duration::from_secs(10),
            retries: 1,
            grace: None,
            every: HOUR,
            wave: 1000,
            compress_after: 24 * HOUR,
            delete_after: 30 * 24 * HOUR,
            output_dir: std::env::temp_dir().join("allot-compaction"),
            root: "/cluster.compact/Compaction_v2".to_owned(),
            session: None,
        }
    }
}
