//! The partitions of the running rounds, each with its state and the unit that has it. No node of a subtask is read: the
//! number of a subtask is its place in the list of partitions, inboxes have the numbers of those that have not ended, and
//! locks the numbers of those that run.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use allot_compaction::Fault;
use allot_compaction::ids::TaskId;
use allot_compaction::paths::decode;
use allot_compaction::task::MainTask;
use allot_compaction::task_store::{Found, TaskStore};
use allot_coordination::{Retry, Retryable as _};
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
pub(super) struct PartitionView {
    /// Id of its subtask.
    id: String,
    partition: String,
    /// The unit that has it or had it; empty if it has none yet, or if nobody looked when it ended.
    worker: String,
    state: PartitionState,
}

impl Partitions {
    /// The partitions whose unit or state differs from this earlier list; `None` if the two lists have not the same
    /// partitions.
    pub(super) fn changes_since<'a>(&'a self, earlier: &Self) -> Option<Vec<&'a PartitionView>> {
        let pairs = || self.items.iter().zip(&earlier.items);
        let is_same = self.more == earlier.more
            && self.items.len() == earlier.items.len()
            && pairs().all(|(new, old)| new.id == old.id && new.partition == old.partition);
        is_same.then(|| pairs().filter(|(new, old)| new != old).map(|(new, _)| new).collect())
    }
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
        let mut shown = BTreeSet::new();
        let (workers, running) = (inboxes(store).await?, running(store).await?);
        let mut found = Partitions::default();
        for main in tasks {
            let is_full = found.items.len() >= PARTITIONS;
            // A list that is not shown is not read, and not kept.
            if is_full || main.task.count() > LONGEST_LIST {
                found.more |= main.task.count() > 0;
                continue;
            }
            let Some(round) = self.round(store, main).await? else { continue };
            shown.insert(main.id);
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
        self.rounds.retain(|id, _| shown.contains(id));
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
                Err(fault) if fault.retry() == Retry::Reread => return Ok(None),
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use allot_coordination::Coordinator;
    use allot_coordination::in_process::InProcess;

    use super::*;

    /// Submits tasks with running rounds of so many partitions.
    async fn running_tasks(store: &TaskStore, counts: &[usize]) -> Vec<Found<MainTask>> {
        let mut tasks = Vec::new();
        for (at, count) in (1..).zip(counts) {
            let id = TaskId::main("u1", at);
            let table = ["db", "s", &format!("t{at}")].map(str::to_owned);
            store.submit(id, &MainTask::new(id, table, "u1".into(), "p".into()), false).await.unwrap();
            let mut main = store.main(id).await.unwrap().unwrap();
            let partitions: Vec<String> = (0..*count).map(|number| format!("p{number}")).collect();
            store.open_round(&mut main, &partitions).await.unwrap();
            tasks.push(main);
        }
        tasks
    }

    #[test]
    fn only_partitions_that_changed_are_sent_again() {
        let view = |id: &str, state| PartitionView {
            id: id.to_owned(),
            partition: format!("p{id}"),
            worker: String::new(),
            state,
        };
        let list = |states: [PartitionState; 2]| Partitions {
            items: vec![view("1", states[0]), view("2", states[1])],
            more: false,
        };
        let before = list([PartitionState::Waiting, PartitionState::Running]);
        let after = list([PartitionState::Waiting, PartitionState::Done]);
        assert_eq!(after.changes_since(&before), Some(vec![&view("2", PartitionState::Done)]));
        assert_eq!(after.changes_since(&after), Some(Vec::new()));
        let other = Partitions { items: vec![view("1", PartitionState::Waiting)], more: false };
        assert_eq!(other.changes_since(&after), None);
        assert_eq!(Partitions { more: true, ..after }.changes_since(&before), None);
    }

    #[tokio::test]
    async fn lists_that_are_not_shown_are_not_read() {
        let tree = InProcess::new(Duration::from_secs(2));
        let coordinator = Coordinator::start(Arc::new(tree));
        coordinator.up().await.unwrap();
        let store = TaskStore::new(coordinator.tree(), "/c");
        store.prepare().await.unwrap();
        for path in [store.paths.node("u1"), store.paths.inbox("u1")] {
            store.tree.ensure(&path).await.unwrap();
        }
        let tasks = running_tasks(&store, &[1500, 1500, 1500, 1500]).await;
        let mut grid = PartitionGrid::default();
        let found = grid.read(&store, &tasks).await.unwrap();
        assert_eq!((found.items.len(), found.more), (PARTITIONS, true));
        let kept: BTreeSet<TaskId> = grid.rounds.keys().copied().collect();
        assert_eq!(kept, tasks[..2].iter().map(|main| main.id).collect());
        // A list that is shown no more is forgotten.
        let found = grid.read(&store, &tasks[2..3]).await.unwrap();
        assert_eq!((found.items.len(), found.more), (1500, false));
        assert_eq!(grid.rounds.len(), 1);
    }
}
