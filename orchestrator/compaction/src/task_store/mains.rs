//! Reads many main tasks at once: a request reads from many tasks, so that a list of 20,000 tasks takes hundreds of requests
//! and not 40,000.

use futures_util::{StreamExt as _, TryStreamExt as _};

use super::{Fault, Found, TaskStore, paths};
use crate::ids::TaskId;
use crate::task::{MainTask, State, read};
use allot_coordination::Error;

/// Number of tasks that one request reads. The node of a task usually has 1 KiB, and at most 512 KiB.
const BATCH: usize = 32;
/// Most requests in flight.
const MAX_REQUESTS: usize = 16;

impl TaskStore {
    /// All main tasks except packed ones, from old to new. A task that cannot be read is skipped and logged.
    pub async fn mains(&self) -> Result<Vec<Found<MainTask>>, Fault> {
        self.mains_if(|_| true).await
    }

    /// All unfinished main tasks, from old to new. Of a finished task, only the names of its nodes are read. A task that
    /// cannot be read is skipped and logged.
    pub async fn live_mains(&self) -> Result<Vec<Found<MainTask>>, Fault> {
        let over = [State::Done, State::Cancel].map(paths::status);
        self.mains_if(|names| !names.iter().any(|name| over.contains(name))).await
    }

    /// The main tasks for whose nodes `is_wanted` is true, from old to new.
    async fn mains_if(&self, is_wanted: impl Fn(&[String]) -> bool) -> Result<Vec<Found<MainTask>>, Fault> {
        let names = self.children(&self.paths.scheduler()).await?;
        let ids: Vec<TaskId> = names.iter().filter_map(|name| name.parse().ok()).collect();
        self.mains_of_if(&ids, is_wanted).await
    }

    /// Of the main tasks `ids`, those that exist, from old to new. A task that cannot be read is skipped and logged.
    pub async fn mains_of(&self, ids: &[TaskId]) -> Result<Vec<Found<MainTask>>, Fault> {
        self.mains_of_if(ids, |_| true).await
    }

    /// Of the main tasks `ids`, those for whose nodes `is_wanted` is true, from old to new.
    async fn mains_of_if(
        &self,
        ids: &[TaskId],
        is_wanted: impl Fn(&[String]) -> bool,
    ) -> Result<Vec<Found<MainTask>>, Fault> {
        let is_wanted = &is_wanted;
        let reads: Vec<_> = ids.chunks(BATCH).map(|batch| self.read_batch(batch, is_wanted)).collect();
        let reads = futures_util::stream::iter(reads).buffer_unordered(MAX_REQUESTS);
        let mut found: Vec<Found<MainTask>> = reads.try_concat().await?;
        found.sort_by_key(|main| main.id);
        Ok(found)
    }

    /// Reads these main tasks in two requests: the names of their nodes, and the info nodes of those that are wanted.
    async fn read_batch(
        &self,
        ids: &[TaskId],
        is_wanted: impl Fn(&[String]) -> bool,
    ) -> Result<Vec<Found<MainTask>>, Fault> {
        let dirs: Vec<String> = ids.iter().map(|&id| self.paths.main(id)).collect();
        let (mut wanted, mut infos) = (Vec::new(), Vec::new());
        let answers = self.tree.children_of_each(&dirs).await?;
        for ((&id, dir), names) in ids.iter().zip(&dirs).zip(answers) {
            let Some(names) = readable(names)? else { continue };
            if is_wanted(&names)
                && let Some(name) = names.iter().find(|name| paths::is_info(name))
            {
                infos.push(format!("{dir}/{name}"));
                wanted.push((id, dir.clone()));
            }
        }
        let mut found = Vec::with_capacity(wanted.len());
        let nodes = self.tree.get_each(&infos).await?;
        for (((id, dir), info), node) in wanted.into_iter().zip(infos).zip(nodes) {
            let Some(node) = readable(node)? else { continue };
            match read(&info, &node.data) {
                Ok(task) => found.push(Found { id, task, dir, info, version: node.version }),
                Err(fault) => tracing::warn!(%fault, "skipping a task that cannot be read"),
            }
        }
        Ok(found)
    }
}

/// The answer for one of many nodes; `None` if the node is gone, or is skipped because this process may not read it.
fn readable<T>(answer: Result<T, Error>) -> Result<Option<T>, Fault> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(Error::NoNode(_)) => Ok(None),
        Err(error @ Error::Refused { .. }) => {
            tracing::warn!(%error, "skipping a task that cannot be read");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::*;
    use allot_coordination::Coordinator;
    use allot_coordination::in_process::InProcess;
    use allot_simulation::line::{Line, Step, Steps};

    /// Counts the requests to the tree.
    #[derive(Default)]
    struct Calls(AtomicU64);

    impl Steps for Calls {
        fn next(&self, _: &str, _: &str) -> Step {
            self.0.fetch_add(1, Ordering::Relaxed);
            Step::Answered(Duration::ZERO)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn many_tasks_are_read_with_less_than_a_request_for_each() {
        const COUNT: u64 = 1000;
        let calls = Arc::new(Calls::default());
        let line = Line::new(InProcess::new(Duration::from_secs(2)), calls.clone());
        let coordinator = Coordinator::start(Arc::new(line));
        coordinator.up().await.unwrap();
        let store = TaskStore::new(coordinator.tree(), "/c");
        store.prepare().await.unwrap();
        let states = [State::Init, State::Assigned, State::Done, State::Cancel];
        let mut ids = Vec::new();
        for (number, state) in (0..COUNT).zip(states.into_iter().cycle()) {
            let id = TaskId::main("u_1", 1_000_000 + number);
            let names = ["d".to_owned(), "s".to_owned(), format!("t{number}")];
            let task = MainTask { state, ..MainTask::new(id, names, "u_1".into(), "default".into()) };
            store.tree.multi(store.creation(id, &task)).await.unwrap();
            ids.push((id, state));
        }
        // A node that is gone, one without data, and one that cannot be read do not keep the others from being read.
        let odd = ids.pop().unwrap().0;
        let info = store.main(odd).await.unwrap().unwrap();
        store.tree.set(&info.info, b"{", info.version).await.unwrap();
        store.tree.ensure(&store.paths.main(TaskId::main("u_1", 7))).await.unwrap();
        let gone = TaskId::main("u_1", 8);

        let before = calls.0.load(Ordering::Relaxed);
        let found = store.mains().await.unwrap();
        let requests = calls.0.load(Ordering::Relaxed) - before;
        assert!(requests <= COUNT / 10, "{requests} requests");
        let states = |found: &[Found<MainTask>]| {
            found.iter().map(|main| (main.id, main.task.state)).collect::<Vec<_>>()
        };
        assert_eq!(states(&found), ids);

        let before = calls.0.load(Ordering::Relaxed);
        let found = store.live_mains().await.unwrap();
        let requests = calls.0.load(Ordering::Relaxed) - before;
        assert!(requests <= COUNT / 10, "{requests} requests");
        ids.retain(|(_, state)| !state.is_over());
        assert_eq!(states(&found), ids);
        let some = [ids[0].0, gone, ids[2].0];
        assert_eq!(states(&store.mains_of(&some).await.unwrap()), [ids[0], ids[2]]);
    }
}
