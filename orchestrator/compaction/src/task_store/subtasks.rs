//! Subtasks from their beginning to their end: each change as one multi that holds only if the subtask, or its main task,
//! is as it was read.

use futures_util::StreamExt as _;

use super::{ATTEMPTS, FILL, Fault, Found, READS, TaskStore, create, delete};
use crate::ids::TaskId;
use crate::paths;
use crate::task::{Ended, MainTask, SubState, SubTask, write};
use allot_coordination::{Error, Kind, Op};
use allot_runtime::time::now_ms;

/// Bytes of a multi that are left for what counting adds to a main task.
const ROOM: usize = 32 * 1024;
/// What people read of a subtask that may not be begun again.
const LOST: &str = "its worker was lost while it ran";

impl TaskStore {
    /// Those of these subtasks at this worker that stand there as running.
    pub async fn running(&self, worker: &str, ids: &[TaskId]) -> Result<Vec<TaskId>, Fault> {
        let looks: Vec<_> = ids
            .iter()
            .map(|&id| {
                let (store, dir) = (self.clone(), self.paths.at(worker, id));
                async move {
                    let names = store.children(&dir).await?;
                    Ok::<_, Fault>(names.contains(&paths::status(SubState::Running)).then_some(id))
                }
            })
            .collect();
        let mut looks = futures_util::stream::iter(looks).buffered(READS);
        let mut running = Vec::new();
        while let Some(look) = looks.next().await {
            match look {
                Ok(id) => running.extend(id),
                Err(fault) if fault.is_of_its_own() => tracing::warn!(%fault, "a subtask is passed over"),
                Err(fault) => return Err(fault),
            }
        }
        Ok(running)
    }

    /// From waiting to running, under the partition's lock, which this session of ours holds. Within `limit`
    /// milliseconds its worker ends it. Returns the fencing token.
    pub async fn start(
        &self,
        sub: &mut Found<SubTask>,
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
        let mut ops: Vec<Op> = held.collect();
        let mut new = sub.task.clone();
        new.state = SubState::Running;
        new.started = now_ms();
        new.permits = permits;
        new.limit = limit;
        ops.extend([
            Op::Set { path: sub.info.clone(), data: write(&new), version: sub.version },
            delete(sub.status(SubState::Init)),
            create(sub.status(SubState::Running), Vec::new()),
        ]);
        self.tree.multi(ops).await?;
        sub.version = sub.version.next();
        sub.task = new;
        match self.tree.get(&lock).await? {
            Some(node) if node.owner == Some(session) && node.data == name => Ok(node.created),
            // The session ended meanwhile, and the lock with it; it may be another's by now.
            _ => Err(Error::NoNode(lock).into()),
        }
    }

    /// From its worker into its main task's hands. One that ran gives back what this session of ours holds for it, and
    /// must still have its lock.
    pub async fn finish(
        &self,
        sub: &Found<SubTask>,
        holder: Option<i64>,
        ended: &Ended,
    ) -> Result<(), Fault> {
        let path = format!("{}/{}", self.paths.finished(sub.id.of_main()), sub.id);
        let mut ops = vec![create(path, write(ended))];
        ops.extend(sub.gone(sub.task.state));
        self.hand_in(sub, holder, ops).await
    }

    /// A subtask that nobody waits for goes.
    pub async fn discard(&self, sub: &Found<SubTask>) -> Result<(), Fault> {
        Ok(self.tree.multi(sub.gone(sub.task.state).into()).await?)
    }

    /// A subtask whose runner was ended before its time waits again, or is failed where it may not be begun again.
    /// With a `holder`, that session of ours still has its lock, which goes; `counted` says whether this uses up a retry.
    pub async fn requeue(
        &self,
        sub: &Found<SubTask>,
        holder: Option<i64>,
        counted: bool,
    ) -> Result<(), Fault> {
        let mut ops = Vec::new();
        if let Some(new) = sub.task.again(&sub.task.worker, counted) {
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
        self.hand_in(sub, holder, ops).await
    }

    /// Carries this out, and gives back what this session of ours holds for a subtask. Only as that session: when it is
    /// over so are its nodes, and what stands in their place is another's.
    async fn hand_in(
        &self,
        sub: &Found<SubTask>,
        holder: Option<i64>,
        mut ops: Vec<Op>,
    ) -> Result<(), Fault> {
        let Some(session) = holder else { return Ok(self.tree.multi(ops).await?) };
        ops.extend(self.held(&sub.task));
        Ok(self.tree.multi_on(session, ops).await?)
    }

    /// What a subtask holds while it runs, to be given back: its partition's lock, and permits.
    fn held(&self, sub: &SubTask) -> impl Iterator<Item = Op> {
        [self.lock(sub)].into_iter().chain(sub.permits.clone()).map(delete)
    }

    /// Gives back what a session of ours still holds for a subtask that is not ours any more.
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

    /// Where the lock of a subtask's partition stands.
    pub fn lock(&self, sub: &SubTask) -> String {
        self.paths.lock(sub.table(), &sub.partition_name)
    }

    /// What a lost worker, or one that is to be relieved, had of this task: moved to `to`, or failed where it may not
    /// be begun again or nobody is there, or stopped with the task. How many were moved.
    pub async fn relieve(
        &self,
        main: &mut Found<MainTask>,
        subs: &[(Found<SubTask>, Option<String>)],
    ) -> Result<u64, Fault> {
        let (mut rest, mut all_moved) = (subs, 0);
        while !rest.is_empty() {
            // As many as one multi takes; names of partitions may be long.
            let (mut new, mut all, mut count) = (main.task.clone(), Vec::new(), 0);
            let mut size = write(&new).len() + ROOM;
            for (sub, to) in rest {
                let mut ops = sub.gone(sub.task.state).to_vec();
                let to = to.as_ref().filter(|_| !new.cancelling);
                let moved = to.and_then(|to| Some((to, sub.task.again(to, true)?)));
                if let Some((to, again)) = &moved {
                    ops.push(Op::Check { path: self.paths.node(to), version: None });
                    ops.extend(self.place(sub.id, again));
                }
                size += ops.iter().map(Op::size).sum::<usize>();
                if size > FILL && count > 0 {
                    break;
                }
                all.append(&mut ops);
                count += 1;
                if moved.is_some() {
                    all_moved += 1;
                } else {
                    let stopped = (SubState::Stopped, "its task was stopped");
                    let (state, why) = if new.cancelling { stopped } else { (SubState::Failed, LOST) };
                    new.take(sub.id, &sub.task.ended(state, why));
                }
            }
            self.write(main, new, all).await?;
            rest = rest.get(count..).unwrap_or_default();
        }
        Ok(all_moved)
    }

    /// Subtasks that run too long at a worker that hangs are failed.
    pub async fn fail(
        &self,
        main: &mut Found<MainTask>,
        subs: &[Found<SubTask>],
        why: &str,
    ) -> Result<(), Fault> {
        let mut new = main.task.clone();
        let mut ops = Vec::new();
        for sub in subs {
            ops.extend(sub.gone(sub.task.state));
            new.take(sub.id, &sub.task.ended(SubState::Failed, why));
        }
        self.write(main, new, ops).await
    }

    /// Gives a subtask that waits another worker, which must be there.
    pub async fn move_subtask(&self, id: TaskId, to: &str) -> Result<String, Fault> {
        for _ in 0..ATTEMPTS {
            let Some(mut main) = self.main(id.of_main()).await? else {
                return Err(Fault::Refused(format!("task {} is not there", id.of_main())));
            };
            let Some(sub) = self.find_sub(id).await? else {
                return Err(Fault::Refused(format!(
                    "subtask {id} is not there: it is over, or not assigned yet"
                )));
            };
            if sub.task.state == SubState::Running {
                return Err(Fault::Refused(format!("subtask {id} runs already, at {}", sub.task.worker)));
            }
            if sub.task.worker == to {
                return Err(Fault::Refused(format!("subtask {id} is at {to} already")));
            }
            let from = sub.task.worker.clone();
            match self.relieve(&mut main, &[(sub, Some(to.to_owned()))]).await {
                Err(Fault::Tree(Error::NoNode(path))) if path == self.paths.node(to) => {
                    return Err(Fault::Refused(format!("unit {to} is not there")));
                }
                Err(fault) if fault.is_race() => {}
                done => return done.map(|_| from),
            }
        }
        Err(Fault::Refused(format!("subtask {id} changes all the time; try again")))
    }

    /// A subtask, wherever it is.
    pub async fn find_sub(&self, id: TaskId) -> Result<Option<Found<SubTask>>, Fault> {
        for name in self.children(&self.paths.assigned()).await? {
            if let Some(sub) = self.sub(&paths::decode(&name), id).await? {
                return Ok(Some(sub));
            }
        }
        Ok(None)
    }
}
