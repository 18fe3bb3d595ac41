//! The unfinished tasks of compaction. A task that has ended is read once, and not again before something in the directory
//! of all tasks changes, so the cost of a read depends on the number of unfinished tasks.

use std::collections::{BTreeSet, HashMap};

use allot_compaction::Fault;
use allot_compaction::ids::TaskId;
use allot_compaction::task::MainTask;
use allot_compaction::task_store::{Found, TaskStore};
use allot_coordination::Version;

use super::points::Points;

/// The unfinished tasks, and what went on since the read before.
#[derive(Default)]
pub(super) struct LiveTasks {
    /// The unfinished tasks, from old to new.
    pub(super) tasks: Vec<Found<MainTask>>,
    /// The tasks that have ended and have nodes of their own.
    over: BTreeSet<TaskId>,
    /// The version of the directory of all tasks. Each submission and each retry changes it.
    version: Option<Version>,
    /// Grows when a task ends, and with each submission and retry.
    pub(super) ends: u64,
    /// For each unfinished task, the ended subtasks of all its rounds, and the sums of its runners' results.
    counted: HashMap<TaskId, Counted>,
    /// Subtasks that ended, and bytes that were compacted, a second.
    pub(super) points: Points<[f64; 2]>,
}

/// What a task has done until now.
#[derive(Clone, Copy, Default)]
struct Counted {
    subtasks: u64,
    bytes: f64,
}

impl Counted {
    /// The example runners report the size of a partition before its compaction under this name.
    const BYTES: &str = "before";

    fn of(task: &MainTask) -> Self {
        let bytes = task.sums.get(Self::BYTES).copied().unwrap_or_default();
        Self { subtasks: task.grand_total().all(), bytes }
    }
}

impl LiveTasks {
    /// Reads the tasks that may have changed. `now` is in milliseconds since 1970.
    pub(super) async fn read(&mut self, store: &TaskStore, now: u64) -> Result<(), Fault> {
        let scheduler = store.paths.scheduler();
        // The version is read first: a retry between the two reads is seen by the next read.
        let version = store.tree.get(&scheduler).await?.map(|node| node.version);
        if version != self.version {
            self.over.clear();
            self.version = version;
            // A retried task may have ended again before it was seen to run.
            self.ends += 1;
        }
        let names = store.children(&scheduler).await?;
        let ids: BTreeSet<TaskId> = names.iter().filter_map(|name| name.parse().ok()).collect();
        self.over.retain(|id| ids.contains(id));
        let wanted: Vec<TaskId> = ids.difference(&self.over).copied().collect();
        let (over, live): (Vec<_>, Vec<_>) =
            store.mains_of(&wanted).await?.into_iter().partition(|main| main.task.state.is_over());
        let mut done = Counted::default();
        for main in over.iter().chain(&live) {
            if let Some(before) = self.counted.get(&main.id) {
                let after = Counted::of(&main.task);
                done.subtasks += after.subtasks.saturating_sub(before.subtasks);
                done.bytes += (after.bytes - before.bytes).max(0.0);
            }
        }
        self.ends += over.iter().filter(|main| self.counted.contains_key(&main.id)).count() as u64;
        self.over.extend(over.iter().map(|main| main.id));
        self.counted = live.iter().map(|main| (main.id, Counted::of(&main.task))).collect();
        self.tasks = live;
        self.points.add_rates(now, [done.subtasks as f64, done.bytes]);
        Ok(())
    }
}
