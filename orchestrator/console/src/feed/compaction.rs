//! The reader of compaction: unfinished tasks with their partitions, and the units that run them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use allot_compaction::node::follow;
use allot_runtime::time::now_ms;
use serde::Serialize;

use super::channel::{Feed, Message, Reader};
use super::live_tasks::LiveTasks;
use super::partition_grid::{PartitionGrid, Partitions};
use super::points::Points;
use crate::problem::Problem;
use crate::sources::Sources;
use crate::task_view::{FailureView, TaskView};

/// Interval of reads.
const PAUSE: Duration = Duration::from_secs(1);
/// The newest tasks that are sent: a message goes to every browser each second.
const TASKS: usize = 500;

/// A unit of compaction.
#[derive(Serialize)]
struct Unit {
    node: String,
    pc: String,
    slots: u32,
    monitor: bool,
    started: u64,
    version: String,
}

/// Compaction, as its page shows it.
#[derive(Serialize)]
struct State<'a> {
    /// The clock of the console in milliseconds since 1970.
    now: u64,
    /// The unfinished tasks, from old to new; the newest [`TASKS`].
    tasks: Vec<TaskView>,
    /// Grows when the history may have changed.
    ends: u64,
    units: Vec<Unit>,
    /// Subtasks that ended and bytes that were compacted, a second.
    points: &'a Points<[f64; 2]>,
}

pub(super) struct Tasks {
    sources: Arc<Sources>,
    live: LiveTasks,
    grid: PartitionGrid,
    /// The partitions that all listeners have.
    sent: Option<Partitions>,
}

impl Tasks {
    pub(super) fn new(sources: Arc<Sources>) -> Self {
        Self { sources, live: LiveTasks::default(), grid: PartitionGrid::default(), sent: None }
    }

    /// Sends all partitions, or those that have changed.
    fn send_partitions(&mut self, partitions: Partitions, feed: &Feed) {
        let whole = || Message::new("partitions", &partitions);
        match self.sent.as_ref().and_then(|sent| partitions.changes_since(sent)) {
            None => feed.send_kept(whole()),
            Some(changes) if changes.is_empty() => {}
            Some(changes) => feed.send_change(whole(), Message::new("partition-changes", &changes)),
        }
        self.sent = Some(partitions);
    }
}

impl Reader for Tasks {
    async fn read(&mut self, feed: &Feed) -> Result<Duration, Problem> {
        let sources = Arc::clone(&self.sources);
        let Some(store) = &sources.tasks else {
            return Err(Problem::absent("no ZooKeeper is configured: set zookeeper.servers"));
        };
        let now = now_ms();
        self.live.read(store, now).await?;
        let partitions = self.grid.read(store, &self.live.tasks).await?;
        self.send_partitions(partitions, feed);
        let monitor = self.sources.process.coordinator.leader(&store.paths.election()).await?;
        let mut units = follow(&self.sources.process.coordinator, &store.paths.nodes());
        let units = match tokio::time::timeout(PAUSE, units.wait_for(|units| units.current)).await {
            Ok(Ok(units)) => units.live.clone(),
            _ => BTreeMap::new(),
        };
        let unit = |(node, info): (String, allot_compaction::node::NodeInfo)| Unit {
            monitor: monitor.as_ref() == Some(&node),
            node,
            pc: info.pc,
            slots: info.slots,
            started: info.started,
            version: info.version,
        };
        let tasks = &self.live.tasks;
        let newest = tasks.get(tasks.len().saturating_sub(TASKS)..).unwrap_or_default();
        // Failures change seldom, and have the output of runners: they are not sent with every state.
        let failures: BTreeMap<&str, Vec<FailureView>> = newest
            .iter()
            .filter(|main| !main.task.failures.is_empty())
            .map(|main| (main.task.id.as_str(), FailureView::list(&main.task)))
            .collect();
        feed.send_kept(Message::new("failures", &failures));
        let state = State {
            now,
            tasks: newest.iter().map(|main| TaskView::without_failures(&main.task)).collect(),
            ends: self.live.ends,
            units: units.into_iter().map(unit).collect(),
            points: &self.live.points,
        };
        feed.send_state(Message::new("state", &state));
        Ok(PAUSE)
    }
}
