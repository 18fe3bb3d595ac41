//! The settings of a compaction node.

use std::path::PathBuf;

use allot_runtime::child::program;
use allot_runtime::section;
use allot_runtime::settings::{Span, Words, identity, path};
use anyhow::{Result, ensure};

section! {
    /// The compaction node.
    Section "compaction" => Settings {
        /// Name of the compaction node, HOST_PORT; each needs its own
        node: String = "compaction-node", "ALLOT_COMPACTION_NODE", example r#""xcloud24_9876""#;
        /// Processing cluster of the compaction node. A task runs only on nodes of its own cluster
        pc: String = "compaction-pc", "ALLOT_COMPACTION_PC", default "default";
        /// Subtasks that the compaction node runs at once
        slots: u32 = "compaction-slots", "ALLOT_COMPACTION_SLOTS", default 2, in "1"..="10000";
        /// Subtasks that run at once in the whole cluster, at most; the same for all compaction nodes. 0 is no limit
        limit: u32 = "compaction-limit", "ALLOT_COMPACTION_LIMIT", default 0, in "0"..="1000000";
        /// Program, and its arguments, that compacts a partition; examples/compaction has two
        runner: Words = "compaction-runner", "ALLOT_COMPACTION_RUNNER", list r#"["/usr/local/lib/allot/sqlite"]"#;
        /// Program, and its arguments, that prints the partitions of a table, a line each
        partitions: Words = "compaction-partitions", "ALLOT_COMPACTION_PARTITIONS", list r#"["/usr/local/lib/allot/partitions"]"#;
        /// Program, and its arguments, that is told as JSON on standard input when a task ends, a round fails or is late
        notify: Words = "compaction-notify", "ALLOT_COMPACTION_NOTIFY", list r#"["/usr/local/lib/allot/tell"]"#;
        /// Directory whose files are the partitions, in place of a program. {db}, {schema} and {table} are replaced by
        /// the task's
        partitions_dir: String = "compaction-partitions-dir", "ALLOT_COMPACTION_PARTITIONS_DIR", example r#""/data/{db}/{table}""#;
        /// Time limit of a runner
        timeout: Span = "compaction-timeout", "ALLOT_COMPACTION_TIMEOUT", default "1h", in "1ns"..="1000years";
        /// Time that a runner has to end after SIGTERM, before SIGKILL
        stop_limit: Span = "compaction-stop-limit", "ALLOT_COMPACTION_STOP_LIMIT", default "10s", in "1ns"..="1000years";
        /// Whether the compaction node finishes the subtasks that run when it is asked to shut down, and takes no others
        drain: bool = "compaction-drain", "ALLOT_COMPACTION_DRAIN", default false;
        /// Longest time for finishing them
        drain_limit: Span = "compaction-drain-limit", "ALLOT_COMPACTION_DRAIN_LIMIT", default "2h", in "1ns"..="1000years";
        /// Retries of a subtask after its worker was lost, if its task does not set them
        retries: u32 = "compaction-retries", "ALLOT_COMPACTION_RETRIES", default 1;
        /// Time that a manager may be away before its tasks are moved. Without it, one ZooKeeper session timeout
        grace: Span = "compaction-grace", "ALLOT_COMPACTION_GRACE", example r#""4s""#;
        /// Interval at which the monitor examines all tasks and packs history
        every: Span = "compaction-every", "ALLOT_COMPACTION_EVERY", default "1h", in "1ns"..="1000years";
        /// Subtasks of one task that are assigned and not finished, at most
        wave: u32 = "compaction-wave", "ALLOT_COMPACTION_WAVE", default 1000, in "1"..="100000";
        /// Time between the end of a task and its packing into history
        compress_after: Span = "compaction-compress-after", "ALLOT_COMPACTION_COMPRESS_AFTER", default "1day", in "1ns"..="1000years";
        /// Time for which packed history is kept
        delete_after: Span = "compaction-delete-after", "ALLOT_COMPACTION_DELETE_AFTER", default "30days", in "1ns"..="1000years";
        /// Directory for the last 64 KiB of each runner's output; the latest 1000 are kept. Without it,
        /// allot-compaction/NODE among temporary files
        output_dir: PathBuf = "compaction-output-dir", "ALLOT_COMPACTION_OUTPUT_DIR", example r#""/var/lib/allot/output""#;
        /// Path of compaction's nodes in ZooKeeper
        root: String = "compaction-root", "ALLOT_COMPACTION_ROOT", default "/cluster.compact/Compaction_v2";
    }
}

impl Settings {
    /// The settings that a section gives.
    ///
    /// # Errors
    /// A setting that is wrong.
    pub fn of(section: &Section) -> Result<Self> {
        let settings = section.resolve()?;
        ensure!(
            settings.partitions.is_empty() || settings.partitions_dir.is_none(),
            "compaction.partitions and compaction.partitions-dir are two ways to list partitions; give one of them"
        );
        if let Some(node) = &settings.node {
            identity("compaction.node", node)?;
        }
        identity("compaction.pc", &settings.pc)?;
        path(&settings.root, "compaction.root", "/cluster.compact/Compaction_v2")?;
        Ok(settings)
    }

    /// Looks for the runner: a file that this process may execute.
    ///
    /// # Errors
    /// Why it cannot be started, for people.
    pub fn check_runner(&self) -> Result<(), String> {
        let Some(runner) = self.runner.first() else { return Err("compaction.runner is not set".to_owned()) };
        program::find(runner).map(drop).map_err(|why| format!("compaction.runner {runner}: {why}"))
    }

    /// Directory for the output of runners.
    pub(crate) fn output_dir(&self) -> PathBuf {
        let unit = self.node.as_deref().unwrap_or("unit").replace('/', "_");
        self.output_dir.clone().unwrap_or_else(|| std::env::temp_dir().join("allot-compaction").join(unit))
    }
}

#[cfg(any(test, feature = "simulation"))]
impl Default for Settings {
    #[allow(clippy::unwrap_used, reason = "defaults are in their ranges")]
    fn default() -> Self {
        Self::of(&Section::default()).unwrap()
    }
}
