//! The queue of a table: of the tasks on one table, one is unfinished and runs, and each further one waits for another.
//! Submissions and retries enter it one after the other.

use super::{ATTEMPTS, Fault, Found, TaskStore, create};
use crate::ids::TaskId;
use crate::task::{MainTask, State, write};
use allot_coordination::{Error, Op, Retry, Retryable as _};
use allot_runtime::time::now_ms;

/// The last unfinished task in the queue of a table: the one for which no other waits. The next task waits for it.
pub fn last_of(mains: &[Found<MainTask>], table: [&str; 3]) -> Option<TaskId> {
    let live = || mains.iter().filter(|main| !main.task.state.is_over() && main.task.table() == table);
    let awaited = |id: &TaskId| live().any(|main| main.task.after == Some(id.to_string()));
    live().map(|main| main.id).rev().find(|id| !awaited(id))
}

/// Refuses to let a task begin after the task `id`, which is not in the tree any more, unless that one has ended well by
/// what history has of it.
fn check_ended_well(id: TaskId, packed: Option<&MainTask>) -> Result<(), Fault> {
    let gone = || Some(format!("task {id} does not exist any more"));
    match packed.map_or_else(gone, |packed| packed.holds_up(now_ms())) {
        Some(why) => Err(Fault::Refused(format!("{why}, and this task follows it; submit this task again"))),
        None => Ok(()),
    }
}

impl TaskStore {
    /// Submits a task, with a notice to its manager, which must be present. With `queue` the task waits for the last
    /// unfinished task on its table; without, it is refused if there is one.
    pub async fn submit(&self, id: TaskId, task: &MainTask, queue: bool) -> Result<(), Fault> {
        let submission = |mut ops: Vec<Op>| async move {
            let mut task = task.clone();
            task.after = match last_of(&self.live_mains().await?, task.table()) {
                Some(same) if !queue => {
                    let why = format!(
                        "task {same} on this table has not ended; with `queue` this one waits for it"
                    );
                    return Err(Fault::Busy(why));
                }
                same => same.map(|same| same.to_string()),
            };
            if let Some(followed) = task.followed() {
                let keeps = self.keeps_unpacked(followed).await?;
                ops.push(keeps.ok_or_else(|| {
                    Fault::Refused(format!("task {followed}, which this one follows, is packed into history"))
                })?);
            }
            ops.extend(self.creation(id, &task));
            Ok(self.tree.multi(ops).await?)
        };
        self.enter_queue(id, &task.manager, submission).await
    }

    /// Reopens a task that is done, to run its failed partitions again, or one that was cancelled, to begin its round again.
    /// `manager` must be present. As for a submission, the table must have no other unfinished task. If the task that it
    /// follows is packed, `packed` is what history has of that task.
    pub async fn retry(
        &self,
        id: TaskId,
        manager: &str,
        packed: Option<&MainTask>,
    ) -> Result<MainTask, Fault> {
        let reopening = |mut ops: Vec<Op>| async move {
            let Some(mut main) = self.main(id).await? else {
                return Err(Fault::Refused(format!("task {id} does not exist, or is packed into history")));
            };
            match main.task.state {
                State::Cancel => {}
                State::Done if main.task.failure_log.count > 0 => {}
                State::Done => return Err(Fault::Refused(format!("task {id} has no failed partition"))),
                State::Init | State::Assigned => {
                    return Err(Fault::Refused(format!(
                        "task {id} has not ended: only an ended task is retried"
                    )));
                }
            }
            if let Some(other) = last_of(&self.live_mains().await?, main.task.table()) {
                return Err(Fault::Busy(format!(
                    "task {other} on this table has not ended; retry {id} after it"
                )));
            }
            let mut new = main.task.clone();
            new.reopen(manager, now_ms());
            if let Some(followed) = new.followed() {
                match self.keeps_unpacked(followed).await? {
                    Some(keeps) => ops.push(keeps),
                    // Partitions that have failed run again, also if the other task has failed.
                    None if main.task.state == State::Done => {}
                    None => {
                        check_ended_well(followed, packed)?;
                        new.follows = None;
                    }
                }
            }
            self.write(&mut main, new, ops).await?;
            Ok(main.task)
        };
        self.enter_queue(id, manager, reopening).await
    }

    /// The operation that keeps this finished task, or one that runs, from being packed into history by a process that has
    /// read it before, and fails if the task was packed or changed meanwhile; `None` if the task does not exist any more.
    async fn keeps_unpacked(&self, id: TaskId) -> Result<Option<Op>, Fault> {
        let found = self.main(id).await?;
        // Writes what is there: the task has another version then, and a task is packed only at the version that was read.
        Ok(found.map(|Found { task, info, version, .. }| Op::Set { path: info, data: write(&task), version }))
    }

    /// Lets `enter` write a task into the queue of its table, together with the operations that it is given: they tell
    /// the manager of the task, and succeed only if no other task entered a queue since they were made.
    async fn enter_queue<T, F: Future<Output = Result<T, Fault>>>(
        &self,
        id: TaskId,
        manager: &str,
        enter: impl Fn(Vec<Op>) -> F,
    ) -> Result<T, Fault> {
        let scheduler = self.paths.scheduler();
        let at = self.paths.node(manager);
        for _ in 0..ATTEMPTS {
            let Some(node) = self.tree.get(&scheduler).await? else {
                return Err(Fault::Busy(
                    "no compaction node has ever started here; start one: allotd run --roles compaction"
                        .into(),
                ));
            };
            let ops = vec![
                Op::Set { path: scheduler.clone(), data: id.to_string().into_bytes(), version: node.version },
                Op::Check { path: at.clone(), version: None },
                self.notice(manager, id).await?,
            ];
            match enter(ops).await {
                Err(Fault::Tree(Error::NoNode(path))) if path == at => {
                    return Err(Fault::Busy(format!("compaction node {manager} is not present")));
                }
                Err(Fault::Tree(Error::Exists(path))) if path == self.paths.main(id) => {
                    return Err(Error::Exists(path).into());
                }
                Err(fault) if fault.retry() == Retry::Reread => {}
                done => return done,
            }
        }
        Err(Fault::Busy(format!("task {id} lost {ATTEMPTS} races with other submissions; try again")))
    }

    /// The operation that leaves a task as a notice in the inbox of its manager, which may read and delete an earlier
    /// notice at any moment.
    pub(super) async fn notice(&self, manager: &str, id: TaskId) -> Result<Op, Fault> {
        let path = self.paths.at(manager, id);
        Ok(match self.tree.get(&path).await? {
            Some(_) => Op::Check { path, version: None },
            None => create(path, Vec::new()),
        })
    }
}
