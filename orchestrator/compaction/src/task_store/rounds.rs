//! The records of the rounds of repeated tasks: one node for each ended round below its task, until the monitor packs it
//! into history. The log of a round's failures remains beside that of the current round.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use super::{Fault, Found, TaskStore, create, delete};
use crate::task::{ChunkedList, MainTask, read, write};
use allot_coordination::{Error, Op, Retry, Retryable as _};
use allot_runtime::time::now_ms;

/// Most rounds of a task that are kept and not packed: for a day of rounds each minute.
const ROUNDS: usize = 2000;
/// Most chunks of failures of earlier rounds that a task keeps, of the newest rounds: those of 100,000 failures, and 32 MiB
/// at most.
const CHUNKS: usize = 512;

/// The number of a round, from the name of its record: the number, and the prefix of the chunks of its failures.
fn number(name: &str) -> Option<u64> {
    name.split_once('.')?.0.parse().ok()
}

/// The chunks, of these, that have the failures of this log.
pub(crate) fn of_log<'a>(chunks: &'a [String], log: &ChunkedList) -> impl Iterator<Item = &'a String> {
    let prefix = format!("{}.", log.tag);
    chunks.iter().filter(move |name| name.starts_with(&prefix))
}

impl TaskStore {
    /// The operations that record the round which ends when `main` becomes `new`; none if no round ends. The oldest record
    /// beyond the limit is deleted.
    pub(super) async fn record_round(
        &self,
        main: &Found<MainTask>,
        new: &MainTask,
    ) -> Result<Vec<Op>, Fault> {
        let Some(record) = main.task.ended_round(new, now_ms()) else { return Ok(Vec::new()) };
        let dir = self.paths.rounds(main.id);
        let mut ops = Vec::new();
        let mut names = match self.tree.children(&dir).await {
            Err(Error::NoNode(_)) => {
                ops.push(create(dir.clone(), Vec::new()));
                Vec::new()
            }
            names => names?,
        };
        names.sort_unstable();
        let surplus = (names.len() + 1).saturating_sub(ROUNDS);
        // A task that was retried ends the same round again.
        let is_replaced = |name: &String| number(name) == Some(record.round);
        let old = names.iter().enumerate().filter(|(at, name)| *at < surplus || is_replaced(name));
        ops.extend(old.map(|(_, name)| delete(format!("{dir}/{name}"))));
        ops.push(create(format!("{dir}/{:010}.{}", record.round, record.failure_log.tag), write(&record)));
        // Wakes those that wait for the end of a round. A change of the state does so too.
        if new.state == main.task.state {
            ops.extend(main.touch(new.state));
        }
        Ok(ops)
    }

    /// The names of the records of a task's rounds below `before`, from new to old.
    pub(crate) async fn round_names(
        &self,
        main: &Found<MainTask>,
        before: Option<u64>,
    ) -> Result<Vec<String>, Fault> {
        if !main.task.repeats() && main.task.round <= 1 {
            return Ok(Vec::new());
        }
        let mut names = self.children(&self.paths.rounds(main.id)).await?;
        names.retain(|name| number(name).is_some_and(|number| before.is_none_or(|before| number < before)));
        names.sort_unstable_by(|a, b| b.cmp(a));
        Ok(names)
    }

    /// The records of these names, from new to old. One that is gone or cannot be read is skipped, which is logged.
    pub(crate) async fn rounds(
        &self,
        main: &Found<MainTask>,
        names: Vec<String>,
    ) -> Result<Vec<Found<MainTask>>, Fault> {
        let dir = self.paths.rounds(main.id);
        let mut rounds: Vec<Found<MainTask>> = Vec::with_capacity(names.len());
        for (name, node) in self.tree.get_many_readable(&dir, names).await? {
            let info = format!("{dir}/{name}");
            let found =
                node.map_err(Fault::from).and_then(|node| Ok((read(&info, &node.data)?, node.version)));
            match found {
                Ok((task, version)) => {
                    rounds.push(Found { id: main.id, task, dir: main.dir.clone(), info, version });
                }
                Err(fault) if fault.retry() == Retry::Refused => {
                    tracing::warn!(%fault, "skipping a round that cannot be read");
                }
                Err(fault) => return Err(fault),
            }
        }
        rounds.sort_unstable_by_key(|record| Reverse(record.task.round));
        Ok(rounds)
    }

    /// The record of a round that is not packed; `None` if there is none.
    pub(crate) async fn round(
        &self,
        main: &Found<MainTask>,
        round: u64,
    ) -> Result<Option<Found<MainTask>>, Fault> {
        let mut names = self.round_names(main, None).await?;
        names.retain(|name| number(name) == Some(round));
        let Some(mut record) = self.rounds(main, names).await?.pop() else { return Ok(None) };
        let chunks = self.children(&self.paths.failures(main.id)).await?;
        if of_log(&chunks, &record.task.failure_log).next().is_none() {
            record.task.failure_log.chunks = 0;
        }
        Ok(Some(record))
    }

    /// Of these chunks of failures, those that no round keeps: neither the current one nor one of the newest of those with
    /// a record, which together keep at most [`CHUNKS`].
    pub(super) async fn unkept(
        &self,
        main: &Found<MainTask>,
        mut chunks: Vec<String>,
    ) -> Result<Vec<String>, Fault> {
        let tag = |name: &str| name.split_once('.').map(|(_, tag)| tag.to_owned());
        let mut sizes: BTreeMap<&str, usize> = BTreeMap::new();
        for (tag, _) in chunks.iter().filter_map(|chunk| chunk.split_once('.')) {
            *sizes.entry(tag).or_default() += 1;
        }
        let mut kept = HashSet::from([main.task.failure_log.tag.clone()]);
        let mut size = 0;
        for tag in self.round_names(main, None).await?.iter().filter_map(|name| tag(name)) {
            if !kept.contains(&tag) {
                size += sizes.get(tag.as_str()).copied().unwrap_or_default();
                if size > CHUNKS {
                    break;
                }
                kept.insert(tag);
            }
        }
        chunks.retain(|chunk| chunk.split_once('.').is_none_or(|(tag, _)| !kept.contains(tag)));
        Ok(chunks)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::ids::TaskId;
    use crate::task::RepeatInfo;
    use allot_coordination::Coordinator;
    use allot_coordination::in_process::InProcess;

    async fn with_repeated_task() -> (Coordinator, TaskStore, Found<MainTask>) {
        let tree = InProcess::new(Duration::from_secs(2));
        let coordinator = Coordinator::start(Arc::new(tree));
        coordinator.up().await.unwrap();
        let store = TaskStore::new(coordinator.tree(), "/c");
        store.prepare().await.unwrap();
        let id = TaskId::main("u_1", 1_000_000);
        let names = ["d", "s", "t"].map(str::to_owned);
        let mut task = MainTask::new(id, names, "u_1".into(), "default".into());
        task.repeat = RepeatInfo { repeat_count: 0, repeat_interval: 60 };
        store.tree.multi(store.creation(id, &task)).await.unwrap();
        let main = store.main(id).await.unwrap().unwrap();
        (coordinator, store, main)
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_rounds_and_failures_of_a_task_are_kept() {
        let (_coordinator, store, mut main) = with_repeated_task().await;
        let dir = store.paths.rounds(main.id);
        for batch in (0..=ROUNDS).collect::<Vec<_>>().chunks(500) {
            let names = batch.iter().map(|round| format!("{dir}/{round:010}.t{round}"));
            let mut ops: Vec<Op> = names.map(|path| create(path, Vec::new())).collect();
            if store.tree.get(&dir).await.unwrap().is_none() {
                ops.insert(0, create(dir.clone(), Vec::new()));
            }
            store.tree.multi(ops).await.unwrap();
        }
        main.task.round = ROUNDS as u64;
        store.open_round(&mut main, &[]).await.unwrap();
        store.close_round(&mut main).await.unwrap();
        let mut names = store.children(&dir).await.unwrap();
        names.sort();
        assert_eq!((names.len(), number(&names[0])), (ROUNDS, Some(2)), "the oldest are gone");
        assert_eq!(number(&names[ROUNDS - 1]), Some(ROUNDS as u64 + 1));

        // Those of the current round, of the newest rounds as long as they fit, and none that no round has.
        let chunks =
            |tag: &str, count: usize| (0..count).map(|at| format!("{tag}.{at:06}")).collect::<Vec<_>>();
        let current = main.task.failure_log.tag.clone();
        let all = [
            chunks(&current, 2 * CHUNKS),
            chunks(&format!("t{ROUNDS}"), CHUNKS - 1),
            chunks(&format!("t{}", ROUNDS - 1), 2),
            chunks(&format!("t{}", ROUNDS - 2), 1),
            chunks("other", 1),
        ];
        let unkept = store.unkept(&main, all.concat()).await.unwrap();
        assert_eq!(unkept, all[2..].concat());
    }
}
