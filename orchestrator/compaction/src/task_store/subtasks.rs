//! The changes of a subtask from its start to its end. Each change is one multi that succeeds only if the subtask, or
//! its main task, is still as it was read.

use super::failures::{COUNT_RESERVE, size_in_log};
use super::{ATTEMPTS, FILL, Fault, Found, TaskStore, create, delete, read_subtasks};
use crate::counters::note_retries;
use crate::ids::TaskId;
use crate::paths;
use crate::task::{Ended, MainTask, SubState, SubTask, write};
use allot_coordination::{Error, Kind, Op, Retry, Retryable as _, Version};
use allot_runtime::time::now_ms;

/// The failure message of a subtask that may not start again.
const LOST: &str = "its worker was lost while it ran";

impl TaskStore {
    /// Of the subtasks `ids`, those in this worker's inbox that are in this state.
    pub async fn in_state(
        &self,
        worker: &str,
        ids: &[TaskId],
        state: SubState,
    ) -> Result<Vec<TaskId>, Fault> {
        let reads: Vec<_> = ids
            .iter()
            .map(|&id| {
                let (store, dir) = (self.clone(), self.paths.at(worker, id));
                async move {
                    let names = store.children(&dir).await?;
                    Ok::<_, Fault>(names.contains(&paths::status(state)).then_some(id))
                }
            })
            .collect();
        read_subtasks(reads).await
    }

    /// Moves a subtask from waiting to running at the unit `at`, which may take it from another one's inbox, and takes the
    /// partition's lock for this unit's session, if `unpaused` succeeds. The worker ends the run within `limit`
    /// milliseconds. Returns the fencing token.
    pub async fn start(
        &self,
        sub: &mut Found<SubTask>,
        at: &str,
        unpaused: Op,
        permits: Vec<String>,
        session: i64,
        limit: u64,
    ) -> Result<i64, Fault> {
        let lock = self.lock(&sub.task);
        let name = sub.id.to_string().into_bytes();
        let held = permits.iter().chain([&lock]).map(|path| Op::Create {
            path: path.clone(),
            data: name.clone(),
            kind: Kind::Ephemeral,
        });
        let mut ops: Vec<Op> = held.chain([unpaused]).collect();
        let mut new = sub.task.clone();
        new.state = SubState::Running;
        new.starts += 1;
        new.started = now_ms();
        new.permits = permits;
        new.limit = limit;
        at.clone_into(&mut new.worker);
        let started = if new.worker == sub.task.worker {
            ops.extend([
                Op::Set { path: sub.info.clone(), data: write(&new), version: sub.version },
                delete(sub.status(SubState::Init)),
                create(sub.status(SubState::Running), Vec::new()),
            ]);
            Found { task: new, version: sub.version.next(), ..sub.clone() }
        } else {
            ops.extend(sub.gone(SubState::Init));
            ops.extend(self.place(sub.id, &new));
            let dir = self.paths.at(at, sub.id);
            let info = format!("{dir}/{}", paths::info(&new.pc, &new.db_name));
            Found { id: sub.id, task: new, dir, info, version: Version::FIRST }
        };
        self.tree.multi(ops).await?;
        *sub = started;
        match self.tree.get(&lock).await? {
            Some(node) if node.owner == Some(session) && node.data == name => Ok(node.created),
            // The session ended meanwhile and the lock with it; another worker may hold the lock by now.
            _ => Err(Error::NoNode(lock).into()),
        }
    }

    /// Moves the outcome of a subtask from its worker to its main task. With a `holder`, the subtask ran: that
    /// session must still hold its lock, and releases lock and permits.
    pub async fn finish(
        &self,
        sub: &Found<SubTask>,
        holder: Option<i64>,
        ended: &Ended,
    ) -> Result<(), Fault> {
        let path = format!("{}/{}", self.paths.finished(sub.id.of_main()), sub.id);
        let mut ops = vec![create(path, write(ended))];
        ops.extend(sub.gone(sub.task.state));
        self.apply_and_release(sub, holder, ops).await
    }

    /// Deletes a subtask for which no task waits.
    pub async fn discard(&self, sub: &Found<SubTask>) -> Result<(), Fault> {
        Ok(self.tree.multi(sub.gone(sub.task.state).into()).await?)
    }

    /// Requeues a subtask whose runner was ended early, at the unit `to`, or fails it if it may not start again. With a
    /// `holder`, that session still holds the lock and releases it; `counted` says whether this uses up a retry.
    pub async fn requeue(
        &self,
        sub: &Found<SubTask>,
        to: &str,
        holder: Option<i64>,
        counted: bool,
    ) -> Result<(), Fault> {
        let mut ops = Vec::new();
        let again = sub.task.again(to, counted);
        let is_retry = again.as_ref().is_some_and(|new| new.attempt > sub.task.attempt);
        if let Some(new) = again.as_ref().filter(|new| new.worker != sub.task.worker) {
            ops.extend(sub.gone(sub.task.state));
            ops.push(Op::Check { path: self.paths.node(to), version: None });
            ops.extend(self.place(sub.id, new));
        } else if let Some(new) = again {
            ops.extend([
                Op::Set { path: sub.info.clone(), data: write(&new), version: sub.version },
                delete(sub.status(SubState::Running)),
                create(sub.status(SubState::Init), Vec::new()),
            ]);
        } else {
            let ended = sub.task.ended(SubState::Failed, LOST);
            let path = format!("{}/{}", self.paths.finished(sub.id.of_main()), sub.id);
            ops.push(create(path, write(&ended)));
            ops.extend(sub.gone(sub.task.state));
        }
        self.apply_and_release(sub, holder, ops).await?;
        note_retries("lost", u64::from(is_retry));
        Ok(())
    }

    /// Applies `ops` and releases what the session `holder` holds for the subtask. The multi succeeds only on that
    /// session: after the session's end its lock and permits are gone, and nodes of the same names belong to others.
    async fn apply_and_release(
        &self,
        sub: &Found<SubTask>,
        holder: Option<i64>,
        mut ops: Vec<Op>,
    ) -> Result<(), Fault> {
        let Some(session) = holder else { return Ok(self.tree.multi(ops).await?) };
        ops.extend(self.held(&sub.task));
        Ok(self.tree.multi_on(session, ops).await?)
    }

    /// The operations that release what a subtask holds while it runs: its partition's lock, and permits.
    fn held(&self, sub: &SubTask) -> impl Iterator<Item = Op> {
        [self.lock(sub)].into_iter().chain(sub.permits.clone()).map(delete)
    }

    /// Releases what this unit's session still holds for a subtask that was reassigned.
    pub async fn release(&self, sub: &Found<SubTask>, session: i64) -> Result<(), Fault> {
        let name = sub.id.to_string().into_bytes();
        for op in self.held(&sub.task) {
            let Some(node) = self.tree.get(op.path()).await? else { continue };
            if node.owner != Some(session) || node.data != name {
                continue;
            }
            let delete = Op::Delete { path: op.path().to_owned(), version: Some(node.version) };
            match self.tree.multi_on(session, vec![delete]).await {
                Ok(()) | Err(Error::NoNode(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The path of the lock of a subtask's partition.
    pub fn lock(&self, sub: &SubTask) -> String {
        if !sub.file.is_empty() {
            return self.paths.file_lock(&sub.file);
        }
        self.paths.lock(sub.table(), &sub.partition_name)
    }

    /// Reassigns subtasks of one main task. Each goes to the worker named with it. A subtask that may not start
    /// again, or has no worker, is failed; if the task is cancelled, the subtask is stopped. Returns how many were
    /// reassigned.
    pub async fn reassign_subtasks(
        &self,
        main: &mut Found<MainTask>,
        subs: &[(Found<SubTask>, Option<String>)],
    ) -> Result<u64, Fault> {
        let (mut rest, mut all_moved) = (subs, 0);
        while !rest.is_empty() {
            // Each multi takes as many subtasks as fit, since partition names may be long.
            let (mut new, mut all, mut failed, mut count) = (main.task.clone(), Vec::new(), Vec::new(), 0);
            let mut retries = 0;
            let mut size = write(&new).len() + COUNT_RESERVE;
            for (sub, to) in rest {
                let mut ops = sub.gone(sub.task.state).to_vec();
                let to = to.as_ref().filter(|_| !new.cancelling);
                let moved = to.and_then(|to| Some((to, sub.task.again(to, true)?)));
                if let Some((to, again)) = &moved {
                    ops.push(Op::Check { path: self.paths.node(to), version: None });
                    ops.extend(self.place(sub.id, again));
                }
                let stopped = (SubState::Stopped, "its task was stopped");
                let (state, why) = if new.cancelling { stopped } else { (SubState::Failed, LOST) };
                let ended = sub.task.ended(state, why);
                size += ops.iter().map(Op::size).sum::<usize>() + size_in_log(&ended);
                if size > FILL && count > 0 {
                    break;
                }
                all.append(&mut ops);
                count += 1;
                if let Some((_, again)) = &moved {
                    all_moved += 1;
                    retries += u64::from(again.attempt > sub.task.attempt);
                } else {
                    failed.extend(new.count_outcome(sub.id, &ended));
                }
            }
            all.extend(self.log_failures(main, &mut new, failed).await?);
            self.write(main, new, all).await?;
            note_retries("lost", retries);
            rest = rest.get(count..).unwrap_or_default();
        }
        Ok(all_moved)
    }

    /// Stops waiting subtasks of a cancelled task at this worker, the last first, and counts them: as many as fit into one
    /// multi. `ids` loses those that were stopped, and those that do not wait (any more). Returns how many were stopped.
    pub(crate) async fn stop_waiting(
        &self,
        main: &mut Found<MainTask>,
        worker: &str,
        ids: &mut Vec<TaskId>,
    ) -> Result<u64, Fault> {
        let info = paths::info(&main.task.pc, &main.task.db_name);
        let removal = |id: TaskId| {
            let dir = self.paths.at(worker, id);
            let status = paths::status(SubState::Init);
            [format!("{dir}/{info}"), format!("{dir}/{status}"), dir].map(delete)
        };
        let mut size = write(&main.task).len() + COUNT_RESERVE;
        let fits = ids.iter().rev().take_while(|id| {
            size += removal(**id).iter().map(Op::size).sum::<usize>();
            size <= FILL
        });
        let mut batch = ids.split_off(ids.len() - fits.count().max(1).min(ids.len()));
        // Some may run by now, or be over: then the others are stopped without them.
        for _ in 0..2 {
            let (mut new, mut ops) = (main.task.clone(), Vec::new());
            for &id in &batch {
                ops.extend(removal(id));
                let sub = new.subtask(id, "", worker);
                new.count_outcome(id, &sub.ended(SubState::Stopped, "its task was stopped"));
            }
            match self.write(main, new, ops).await {
                Err(Fault::Tree(Error::NoNode(_) | Error::NotEmpty(_))) => {
                    batch = self.in_state(worker, &batch, SubState::Init).await?;
                    if batch.is_empty() {
                        return Ok(0);
                    }
                }
                done => return done.map(|()| batch.len() as u64),
            }
        }
        Ok(0)
    }

    /// Fails subtasks that run too long at a hanging worker.
    pub async fn fail(
        &self,
        main: &mut Found<MainTask>,
        subs: &[Found<SubTask>],
        why: &str,
    ) -> Result<(), Fault> {
        let mut new = main.task.clone();
        let (mut ops, mut failed) = (Vec::new(), Vec::new());
        for sub in subs {
            ops.extend(sub.gone(sub.task.state));
            failed.extend(new.count_outcome(sub.id, &sub.task.ended(SubState::Failed, why)));
        }
        ops.extend(self.log_failures(main, &mut new, failed).await?);
        self.write(main, new, ops).await
    }

    /// Gives a waiting subtask to another worker, which must be present. Returns the previous worker.
    pub async fn move_subtask(&self, id: TaskId, to: &str) -> Result<String, Fault> {
        for _ in 0..ATTEMPTS {
            let Some(mut main) = self.main(id.of_main()).await? else {
                return Err(Fault::Refused(format!("task {} does not exist", id.of_main())));
            };
            let Some(sub) = self.find_sub(id).await? else {
                return Err(Fault::Refused(format!(
                    "subtask {id} does not exist: it has ended, or is not assigned yet"
                )));
            };
            if sub.task.state == SubState::Running {
                return Err(Fault::Busy(format!("subtask {id} runs already, at {}", sub.task.worker)));
            }
            if sub.task.worker == to {
                return Err(Fault::Refused(format!("subtask {id} is at {to} already")));
            }
            let from = sub.task.worker.clone();
            match self.reassign_subtasks(&mut main, &[(sub, Some(to.to_owned()))]).await {
                Err(Fault::Tree(Error::NoNode(path))) if path == self.paths.node(to) => {
                    return Err(Fault::Busy(format!("compaction node {to} is not present")));
                }
                Err(fault) if fault.retry() == Retry::Reread => {}
                done => return done.map(|_| from),
            }
        }
        Err(Fault::Busy(format!("subtask {id} was changed by others {ATTEMPTS} times in a row; try again")))
    }

    /// Finds a subtask in the inbox of any worker.
    pub async fn find_sub(&self, id: TaskId) -> Result<Option<Found<SubTask>>, Fault> {
        for name in self.children(&self.paths.assigned()).await? {
            if let Some(sub) = self.sub(&paths::decode(&name), id).await? {
                return Ok(Some(sub));
            }
        }
        Ok(None)
    }
}
