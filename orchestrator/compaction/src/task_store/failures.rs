//! The log of a task's failures: each failure of a round, in chunks of bounded size below the task. The multi that counts a
//! failure also writes it to the log.

use futures_util::{StreamExt as _, TryStreamExt as _};

use super::{Fault, Found, MAX_READS, TaskStore, create, delete};
use crate::task::{Ended, Failure, MainTask, Partition, SubState, read, write};
use allot_coordination::{Op, Retry, Retryable as _};

/// Most bytes of a chunk, unless it has one failure only.
const CHUNK: usize = 64 * 1024;
/// Bytes of a multi that are reserved for what counting adds to a main task, and for a chunk of the log.
pub(super) const COUNT_RESERVE: usize = 32 * 1024 + CHUNK;
/// Failures of a round whose output is kept. Of further ones only partition, worker and reason are kept, so that a table
/// whose 100,000 partitions all fail needs no 100 MB of ZooKeeper's memory.
const MAX_OUTPUTS: u64 = 1000;
/// Number of leftover chunks that one multi deletes.
const SWEEP_BATCH: usize = 500;

/// An upper bound of the bytes that an outcome adds to the log.
pub(super) fn size_in_log(ended: &Ended) -> usize {
    if ended.state == SubState::Failed { write(ended).len() + 128 } else { 0 }
}

impl TaskStore {
    /// All failures of the current or last round that have not run again; of a round whose log is not kept any more, the
    /// last ones. A chunk that cannot be read is skipped and logged.
    pub async fn failures(&self, main: &Found<MainTask>) -> Result<Vec<Failure>, Fault> {
        let log = &main.task.failure_log;
        if main.task.is_round() && log.chunks == 0 {
            return Ok(main.task.failures.clone());
        }
        let reads = (0..log.chunks).map(|number| self.failures_of_chunk(main, number));
        futures_util::stream::iter(reads.collect::<Vec<_>>()).buffered(MAX_READS).try_concat().await
    }

    /// The failures in one chunk of the log, whose chunks are numbered from 0. A chunk that cannot be read is empty, which
    /// is logged.
    pub async fn failures_of_chunk(
        &self,
        main: &Found<MainTask>,
        number: u64,
    ) -> Result<Vec<Failure>, Fault> {
        let path = format!("{}/{}", self.paths.failures(main.id), main.task.failure_log.chunk(number));
        let chunk = async {
            let Some(node) = self.tree.get(&path).await? else {
                return Err(Fault::Corrupt(format!("{path} does not exist")));
            };
            read::<Vec<Failure>>(&path, &node.data)
        };
        match chunk.await {
            Err(fault) if fault.retry() == Retry::Refused => {
                tracing::warn!(%fault, "skipping failures that cannot be read");
                Ok(Vec::new())
            }
            failures => failures,
        }
    }

    /// The operations that append failures to the log of `main`, which becomes `new` in the same multi.
    pub(super) async fn log_failures(
        &self,
        main: &Found<MainTask>,
        new: &mut MainTask,
        mut failures: Vec<Failure>,
    ) -> Result<Vec<Op>, Fault> {
        if failures.is_empty() {
            return Ok(Vec::new());
        }
        if main.task.result.failed_count >= MAX_OUTPUTS {
            failures.iter_mut().for_each(|failure| failure.output.clear());
        }
        let dir = self.paths.failures(main.id);
        let (mut ops, mut chunk, mut version) = (Vec::new(), Vec::<Failure>::new(), None);
        if let Some(last) = new.failure_log.chunks.checked_sub(1) {
            let path = format!("{dir}/{}", new.failure_log.chunk(last));
            // After a chunk that cannot be read, the log goes on in a new one.
            if let Some(node) = self.tree.get(&path).await?
                && let Ok(last) = read(&path, &node.data)
            {
                (chunk, version) = (last, Some(node.version));
            }
        } else if self.tree.get(&dir).await?.is_none() {
            ops.push(create(dir.clone(), Vec::new()));
        }
        new.failure_log.count += failures.len() as u64;
        let mut size = write(&chunk).len();
        let mut rest = failures.into_iter().peekable();
        loop {
            let mut is_changed = false;
            while let Some(failure) =
                rest.next_if(|next| chunk.is_empty() || size + write(next).len() < CHUNK)
            {
                size += write(&failure).len() + 1;
                chunk.push(failure);
                is_changed = true;
            }
            if is_changed {
                let data = write(&chunk);
                ops.push(if let Some(version) = version {
                    let last = new.failure_log.chunk(new.failure_log.chunks - 1);
                    Op::Set { path: format!("{dir}/{last}"), data, version }
                } else {
                    new.failure_log.chunks += 1;
                    create(format!("{dir}/{}", new.failure_log.chunk(new.failure_log.chunks - 1)), data)
                });
            }
            if rest.peek().is_none() {
                return Ok(ops);
            }
            (chunk, version, size) = (Vec::new(), None, 0);
        }
    }

    /// Runs the failed partitions of the round again. Returns `false`, and runs none, if all tasks are paused.
    pub async fn open_retry(&self, main: &mut Found<MainTask>) -> Result<bool, Fault> {
        let Some(unpaused) = self.unpaused().await? else { return Ok(false) };
        let failures = self.failures(main).await?;
        let failed = failures.into_iter().map(|failure| Partition::Failed(failure.partition, failure.worker));
        let partitions: Vec<Partition> = failed.collect();
        let listing = self.write_listing(main, &partitions).await?;
        let mut new = main.task.clone();
        new.open_retry(listing);
        self.write(main, new, vec![unpaused]).await?;
        self.sweep_failures(main).await?;
        Ok(true)
    }

    /// Deletes the failures that have run again, and those of earlier rounds of which too many are kept. If the process
    /// dies before, the end of the round repeats it.
    pub(super) async fn sweep_failures(&self, main: &Found<MainTask>) -> Result<(), Fault> {
        let chunks = self.children(&self.paths.failures(main.id)).await?;
        if chunks.is_empty() {
            return Ok(());
        }
        let unkept = self.unkept(main, chunks).await?;
        self.delete_failures(main, unkept).await
    }

    /// Deletes the log of a finished task in multis of bounded size, if one multi that deletes the task cannot delete the
    /// log too.
    pub(crate) async fn shorten_failures(&self, main: &Found<MainTask>) -> Result<(), Fault> {
        if main.task.failure_log.chunks < SWEEP_BATCH as u64 {
            return Ok(());
        }
        let chunks = self.children(&self.paths.failures(main.id)).await?;
        self.delete_failures(main, chunks).await
    }

    async fn delete_failures(&self, main: &Found<MainTask>, chunks: Vec<String>) -> Result<(), Fault> {
        let dir = self.paths.failures(main.id);
        let old: Vec<Op> = chunks.into_iter().map(|name| delete(format!("{dir}/{name}"))).collect();
        for batch in old.chunks(SWEEP_BATCH) {
            self.tree.multi([&[main.check()], batch].concat()).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::ids::TaskId;
    use crate::task::State;
    use allot_coordination::Coordinator;
    use allot_coordination::in_process::InProcess;

    /// A unit and a task that it manages, whose round has these partitions.
    async fn with_round(partitions: &[String]) -> (Coordinator, TaskStore, TaskId) {
        let tree = InProcess::new(Duration::from_secs(2));
        let coordinator = Coordinator::start(Arc::new(tree));
        coordinator.up().await.unwrap();
        let store = TaskStore::new(coordinator.tree(), "/c");
        store.prepare().await.unwrap();
        store.tree.ensure(&store.paths.inbox("u_1")).await.unwrap();
        store.tree.ensure(&store.paths.node("u_1")).await.unwrap();
        let id = TaskId::main("u_1", 1_000_000);
        let task = MainTask::new(id, ["d", "s", "t"].map(str::to_owned), "u_1".into(), "default".into());
        store.submit(id, &task, false).await.unwrap();
        store.noticed("u_1", id).await.unwrap();
        let mut main = store.main(id).await.unwrap().unwrap();
        store.open_round(&mut main, partitions).await.unwrap();
        (coordinator, store, id)
    }

    /// Assigns all partitions, and fails those for which `is_failed` is true with this output.
    async fn run(store: &TaskStore, id: TaskId, output: &str, is_failed: impl Fn(&str) -> bool) {
        let mut main = store.main(id).await.unwrap().unwrap();
        let partitions = store.listed(&main).await.unwrap();
        while main.task.cursor < main.task.count() {
            let from = main.task.cursor as usize;
            let wave: Vec<(&Partition, &str)> =
                partitions[from..].iter().map(|partition| (partition, "u_1")).collect();
            store.assign(&mut main, &wave).await.unwrap();
        }
        for sub in store.subs("u_1", &store.at("u_1", Some(id)).await.unwrap()).await.unwrap() {
            let is_failed = is_failed(&sub.task.partition_name);
            let state = if is_failed { SubState::Failed } else { SubState::Success };
            let ended = Ended { output: output.to_owned(), ..sub.task.ended(state, "why") };
            store.finish(&sub, None, &ended).await.unwrap();
        }
        loop {
            let names = store.children(&store.paths.finished(id)).await.unwrap();
            if names.is_empty() {
                break;
            }
            store.count(&mut main, &names).await.unwrap();
        }
        store.close_round(&mut main).await.unwrap();
    }

    async fn failed(store: &TaskStore, id: TaskId) -> Vec<String> {
        let main = store.main(id).await.unwrap().unwrap();
        let failures = store.failures(&main).await.unwrap();
        assert_eq!(failures.len() as u64, main.task.result.failed_count);
        assert_eq!(failures.len() as u64, main.task.failure_log.count);
        let mut names: Vec<String> = failures.into_iter().map(|failure| failure.partition).collect();
        names.sort();
        names
    }

    #[tokio::test(start_paused = true)]
    async fn all_failures_are_kept_in_chunks_and_retried() {
        let partitions: Vec<String> = (0..1500).map(|n| format!("p{n:05}")).collect();
        let (_coordinator, store, id) = with_round(&partitions).await;
        // Control characters need most bytes as JSON.
        run(&store, id, &"\\u{1}".repeat(1024), |name| name != "p00007").await;
        let expected: Vec<String> = partitions.iter().filter(|name| *name != "p00007").cloned().collect();
        assert_eq!(failed(&store, id).await, expected);
        let main = store.main(id).await.unwrap().unwrap();
        assert!(main.task.failure_log.chunks > 10 && main.task.failures.len() == 5);
        let dir = store.paths.failures(id);
        let chunks = store.tree.get_many(&dir, store.children(&dir).await.unwrap()).await.unwrap();
        assert!(chunks.iter().all(|(_, chunk)| chunk.data.len() <= CHUNK + 1));

        // Only a task that is done is retried, and only at a present unit.
        assert!(matches!(store.retry(id, "gone_1", None).await, Err(Fault::Busy(_))));
        store.retry(id, "u_1", None).await.unwrap();
        assert!(matches!(store.retry(id, "u_1", None).await, Err(Fault::Refused(_))));
        let mut main = store.main(id).await.unwrap().unwrap();
        store.open_retry(&mut main).await.unwrap();
        assert_eq!((main.task.count(), main.task.round_size()), (1499, 1500));
        assert!(store.children(&dir).await.unwrap().is_empty(), "the failures that run again are deleted");
        run(&store, id, "", |name| name == "p00003").await;
        assert_eq!(failed(&store, id).await, ["p00003"]);
        let task = store.main(id).await.unwrap().unwrap().task;
        assert_eq!((task.state, task.result.success_count, task.first), (State::Done, 1499, 2999));
    }

    #[tokio::test(start_paused = true)]
    async fn task_waits_for_its_retry_until_its_table_is_free() {
        let (_coordinator, store, id) = with_round(&["p".to_owned()]).await;
        run(&store, id, "", |_| true).await;
        let other = TaskId::main("u_1", 2_000_000);
        let task = MainTask::new(other, ["d", "s", "t"].map(str::to_owned), "u_1".into(), "default".into());
        store.submit(other, &task, false).await.unwrap();
        assert!(matches!(store.retry(id, "u_1", None).await, Err(Fault::Busy(_))));
        let mut main = store.main(other).await.unwrap().unwrap();
        store.cancel(&mut main, "for a test").await.unwrap();
        store.retry(id, "u_1", None).await.unwrap();
    }
}
