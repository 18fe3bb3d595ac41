//! The partitions of the running rounds, each with its state and the unit that has it. No node of a subtask is read: the
//! number of a subtask is its place in the list of partitions, inboxes have the numbers of those that have not ended, and
//! locks the numbers of those that run.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use allot_compaction::Fault;
use allot_compaction::ids::TaskId;
use allot_compaction::paths::decode;
use allot_compaction::task::MainTask;
use allot_compaction::task_store::{Found, TaskStore};
use serde::Serialize;

/// Partitions that are sent; a page draws a cell for each.
const PARTITIONS: usize = 2000;
/// A list of more partitions is not read.
const LONGEST_LIST: u64 = 20_000;

/// The partitions of the running rounds.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Partitions {
    items: Vec<PartitionView>,
    /// Whether there are further partitions.
    more: bool,
}

/// A partition of a running round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct PartitionView {
    /// Id of its subtask.
    id: String,
    partition: String,
    /// The unit that has it or had it; empty if it has none yet, or if nobody looked when it ended.
    worker: String,
    state: PartitionState,
}

/// How far a partition is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum PartitionState {
    /// No unit has it yet.
    Unassigned,
    Waiting,
    Running,
    Done,
    Failed,
    /// Its task is being stopped, so it succeeded or was stopped.
    Ended,
}

/// What is remembered of a round.
struct Round {
    /// The name of its list of partitions.
    tag: String,
    partitions: Vec<String>,
    /// Number of failures when they were read.
    failed_count: u64,
    /// The failed partitions, with their workers.
    failed: HashMap<String, String>,
    /// The last known worker of each subtask.
    workers: HashMap<TaskId, String>,
}

/// Reads the partitions of running rounds.
#[derive(Default)]
pub(super) struct PartitionGrid {
    rounds: HashMap<TaskId, Round>,
}

impl PartitionGrid {
    /// The partitions of these tasks.
    pub(super) async fn read(
        &mut self,
        store: &TaskStore,
        tasks: &[Found<MainTask>],
    ) -> Result<Partitions, Fault> {
        self.rounds.retain(|id, _| tasks.iter().any(|main| main.id == *id));
        let (workers, running) = (inboxes(store).await?, running(store).await?);
        let mut found = Partitions::default();
        for main in tasks {
            if main.task.count() > LONGEST_LIST {
                found.more = true;
                continue;
            }
            let Some(round) = self.round(store, main).await? else { continue };
            for (at, partition) in (1..).zip(&round.partitions) {
                if found.items.len() >= PARTITIONS {
                    found.more = true;
                    break;
                }
                let id = main.id.subtask(main.task.first + at);
                if let Some(worker) = workers.get(&id) {
                    round.workers.insert(id, worker.clone());
                }
                let (state, worker) = if at > main.task.cursor {
                    (PartitionState::Unassigned, None)
                } else if workers.contains_key(&id) {
                    let is_running = running.contains(&id);
                    let state = if is_running { PartitionState::Running } else { PartitionState::Waiting };
                    (state, round.workers.get(&id))
                } else if let Some(worker) = round.failed.get(partition) {
                    (PartitionState::Failed, Some(worker))
                } else if main.task.cancelling {
                    (PartitionState::Ended, round.workers.get(&id))
                } else {
                    (PartitionState::Done, round.workers.get(&id))
                };
                found.items.push(PartitionView {
                    id: id.to_string(),
                    partition: partition.clone(),
                    worker: worker.cloned().unwrap_or_default(),
                    state,
                });
            }
        }
        Ok(found)
    }

    /// The running round of a task; `None` between two rounds.
    async fn round(
        &mut self,
        store: &TaskStore,
        main: &Found<MainTask>,
    ) -> Result<Option<&mut Round>, Fault> {
        let Some(listing) = &main.task.listing else {
            self.rounds.remove(&main.id);
            return Ok(None);
        };
        let is_known = self.rounds.get(&main.id).is_some_and(|round| round.tag == listing.tag);
        if !is_known {
            let partitions = match store.partitions(main).await {
                // The round has ended since the task was read.
                Err(fault) if fault.is_race() => return Ok(None),
                partitions => partitions?,
            };
            let (failed, workers) = (HashMap::new(), HashMap::new());
            let round = Round { tag: listing.tag.clone(), partitions, failed_count: 0, failed, workers };
            self.rounds.insert(main.id, round);
        }
        let Some(round) = self.rounds.get_mut(&main.id) else { return Ok(None) };
        let failed_count = main.task.result.failed_count;
        if failed_count != round.failed_count {
            let failures = store.failures(main).await?.into_iter();
            round.failed = failures.map(|failure| (failure.partition, failure.worker)).collect();
            round.failed_count = failed_count;
        }
        Ok(Some(round))
    }
}

/// The worker of each subtask that has not ended.
async fn inboxes(store: &TaskStore) -> Result<BTreeMap<TaskId, String>, Fault> {
    let mut all = BTreeMap::new();
    for name in store.children(&store.paths.assigned()).await? {
        let worker = decode(&name);
        all.extend(store.at(&worker, None).await?.into_iter().map(|id| (id, worker.clone())));
    }
    Ok(all)
}

/// The subtasks that run: those that hold the lock of a partition.
async fn running(store: &TaskStore) -> Result<BTreeSet<TaskId>, Fault> {
    let locks = store.children(&store.paths.locks()).await?;
    let locks = store.tree.get_many(&store.paths.locks(), locks).await?.into_iter();
    Ok(locks.filter_map(|(_, lock)| String::from_utf8(lock.data).ok()?.parse().ok()).collect())
}
