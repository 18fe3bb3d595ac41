//! The reader of compaction: unfinished tasks with their partitions, and the units that run them. A task that has ended is
//! read once, and not again before something in the directory of all tasks changes, so the cost of a read depends on the
//! number of unfinished tasks.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use allot_compaction::ids::TaskId;
use allot_compaction::node::{NodeInfo, Units};
use allot_compaction::task::{Failure, MainTask};
use allot_compaction::task_store::{Found, TaskStore};
use allot_compaction::{Fault, Refusal, TaskClient};
use allot_coordination::Version;
use allot_runtime::time::now_ms;
use serde::Serialize;
use tokio::time::timeout;

use super::partition_grid::{PartitionGrid, Partitions};
use super::points::Points;
use super::reader::Reader;
use crate::channel::{Feed, Message};
use crate::problem::Problem;
use crate::state::Console;
use crate::task_view::TaskView;

/// Interval of reads.
const PAUSE: Duration = Duration::from_secs(1);
/// The newest tasks that are sent: a message goes to every browser each second.
const TASKS: usize = 500;

/// A unit of compaction.
#[derive(Serialize)]
struct Unit {
    node: String,
    monitor: bool,
    drained: bool,
    /// Why it starts nothing now; null if it does.
    refusal: Option<Refusal>,
    #[serde(flatten)]
    info: NodeInfo,
}

/// A unit of compaction that is not present.
#[derive(Serialize)]
struct AwayUnit {
    node: String,
    drained: bool,
    /// Since when it is away, in milliseconds since 1970; null if that is not known.
    since: Option<u64>,
}

/// The units that are present, and those that are away.
#[derive(Default)]
struct AllUnits {
    units: Units,
    refusals: BTreeMap<String, Refusal>,
    away: BTreeMap<String, Option<u64>>,
}

impl AllUnits {
    async fn read(client: &TaskClient) -> Result<Self, Fault> {
        let units = client.units().await?;
        let (refusals, away) = (client.refusals().await?, client.away(&units).await?);
        Ok(Self { units, refusals, away })
    }
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
    /// Whether all tasks are paused, also those that are submitted later.
    paused: bool,
    units: Vec<Unit>,
    away: Vec<AwayUnit>,
    /// Subtasks that ended and bytes that were compacted, a second.
    points: &'a Points<[f64; 2]>,
}

/// The unfinished tasks, and what went on since the read before.
#[derive(Default)]
struct LiveTasks {
    /// The unfinished tasks, from old to new.
    tasks: Vec<Found<MainTask>>,
    /// The tasks that have ended and have nodes of their own.
    over: BTreeSet<TaskId>,
    /// The version of the directory of all tasks. Each submission and each retry changes it.
    version: Option<Version>,
    /// Grows when a task or a round ends, and with each submission and retry.
    ends: u64,
    /// For each unfinished task, its ended rounds, their ended subtasks, and the sums of its runners' results.
    counted: HashMap<TaskId, Counted>,
    /// Subtasks that ended, and bytes that were compacted, a second.
    points: Points<[f64; 2]>,
}

/// What a task has done until now.
#[derive(Clone, Copy, Default)]
struct Counted {
    subtasks: u64,
    bytes: f64,
    rounds: u64,
}

impl Counted {
    /// The example runners report the size of a partition before its compaction under this name.
    const BYTES: &str = "before";

    fn of(task: &MainTask) -> Self {
        let bytes = task.sums.get(Self::BYTES).copied().unwrap_or_default();
        Self { subtasks: task.grand_total().all(), bytes, rounds: task.ended_rounds() }
    }
}

impl LiveTasks {
    /// Reads the tasks that may have changed. `now` is in milliseconds since 1970.
    async fn read(&mut self, store: &TaskStore, now: u64) -> Result<(), Fault> {
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
                done.rounds += u64::from(main.task.repeats() && after.rounds != before.rounds);
            }
        }
        self.ends += done.rounds;
        self.ends += over.iter().filter(|main| self.counted.contains_key(&main.id)).count() as u64;
        self.over.extend(over.iter().map(|main| main.id));
        self.counted = live.iter().map(|main| (main.id, Counted::of(&main.task))).collect();
        self.tasks = live;
        self.points.add_rates(now, [done.subtasks as f64, done.bytes]);
        Ok(())
    }
}

#[derive(Default)]
pub(super) struct Tasks {
    live: LiveTasks,
    grid: PartitionGrid,
    /// The partitions that all listeners have.
    sent: Option<Partitions>,
}

impl Tasks {
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
    async fn read(&mut self, console: &Arc<Console>, _: &str, feed: &Feed) -> Result<Duration, Problem> {
        let Some(client) = &console.tasks else {
            return Err(Problem::absent("no ZooKeeper is configured: set zookeeper.servers"));
        };
        let (store, now) = (&client.store, now_ms());
        self.live.read(store, now).await?;
        let partitions = self.grid.read(store, &self.live.tasks).await?;
        self.send_partitions(partitions, feed);
        let monitor = client.monitor().await?;
        // Units that cannot be read are no reason to show no tasks.
        let AllUnits { units, mut refusals, away } = match timeout(PAUSE, AllUnits::read(client)).await {
            Ok(Ok(units)) => units,
            _ => AllUnits::default(),
        };
        let unit = |(node, info): (&String, &NodeInfo)| Unit {
            node: node.clone(),
            monitor: monitor.as_ref() == Some(node),
            drained: units.is_drained(node),
            refusal: refusals.remove(node),
            info: info.clone(),
        };
        let away =
            away.into_iter().map(|(node, since)| AwayUnit { drained: units.is_drained(&node), node, since });
        let tasks = &self.live.tasks;
        let newest = tasks.get(tasks.len().saturating_sub(TASKS)..).unwrap_or_default();
        // Failures change seldom, and have the output of runners: they are not sent with every state.
        let failures: BTreeMap<&str, &[Failure]> = newest
            .iter()
            .filter(|main| !main.task.failures.is_empty())
            .map(|main| (main.task.id.as_str(), main.task.failures.as_slice()))
            .collect();
        feed.send_kept(Message::new("failures", &failures));
        let state = State {
            now,
            tasks: newest.iter().map(|main| TaskView::without_failures(&main.task)).collect(),
            ends: self.live.ends,
            paused: units.are_tasks_paused,
            units: units.live.iter().map(unit).collect(),
            away: away.collect(),
            points: &self.live.points,
        };
        feed.send_state(Message::new("state", &state));
        Ok(PAUSE)
    }
}
