//! The reader of compaction: live tasks with their subtasks, and the units that run them.

use std::sync::Arc;
use std::time::Duration;

use allot_compaction::node::follow;
use allot_compaction::paths::decode;
use allot_compaction::task_store::TaskStore;
use allot_runtime::time::now_ms;
use serde::Serialize;

use super::channel::{Feed, Message, Reader};
use crate::problem::Problem;
use crate::sources::Sources;
use crate::task_view::{SubtaskView, TaskView};

/// Interval of reads.
const PAUSE: Duration = Duration::from_secs(1);
/// The newest tasks that are sent: a message goes to every browser each second.
const TASKS: usize = 500;
/// Subtasks that are read; a page draws a cell for each.
const SUBTASKS: usize = 2000;

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
struct State {
    /// The clock of the console in milliseconds since 1970.
    now: u64,
    tasks: Vec<TaskView>,
    /// Unfinished subtasks.
    subtasks: Vec<SubtaskView>,
    units: Vec<Unit>,
}

pub(super) struct Tasks {
    sources: Arc<Sources>,
}

impl Tasks {
    pub(super) fn new(sources: Arc<Sources>) -> Self {
        Self { sources }
    }
}

impl Reader for Tasks {
    async fn read(&mut self, feed: &Feed) -> Result<Duration, Problem> {
        let Some(store) = &self.sources.tasks else {
            return Err(Problem::absent("no ZooKeeper is configured: set zookeeper.servers"));
        };
        let mains = store.mains().await?;
        let monitor = self.sources.process.coordinator.leader(&store.paths.election()).await?;
        let mut units = follow(&self.sources.process.coordinator, &store.paths.nodes());
        let units = match tokio::time::timeout(PAUSE, units.wait_for(|units| units.current)).await {
            Ok(Ok(units)) => units.live.clone(),
            _ => std::collections::BTreeMap::new(),
        };
        let unit = |(node, info): (String, allot_compaction::node::NodeInfo)| Unit {
            monitor: monitor.as_ref() == Some(&node),
            node,
            pc: info.pc,
            slots: info.slots,
            started: info.started,
            version: info.version,
        };
        let newest = mains.get(mains.len().saturating_sub(TASKS)..).unwrap_or_default();
        let state = State {
            now: now_ms(),
            tasks: newest.iter().map(|main| TaskView::from(&main.task)).collect(),
            subtasks: subtasks(store).await?,
            units: units.into_iter().map(unit).collect(),
        };
        feed.send_state(Message::new("state", &state));
        Ok(PAUSE)
    }
}

/// The unfinished subtasks of all workers.
async fn subtasks(store: &TaskStore) -> Result<Vec<SubtaskView>, Problem> {
    let mut all = Vec::new();
    for name in store.children(&store.paths.assigned()).await? {
        let worker = decode(&name);
        let ids = store.at(&worker, None).await?;
        let rest = SUBTASKS.saturating_sub(all.len());
        let ids = ids.get(..rest.min(ids.len())).unwrap_or_default();
        all.extend(store.subs(&worker, ids).await?.iter().map(|sub| SubtaskView::from(&sub.task)));
    }
    Ok(all)
}
