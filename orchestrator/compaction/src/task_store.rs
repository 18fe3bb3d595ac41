//! The tasks in ZooKeeper: reads them, and makes each change as one multi at the version that was read. A caller with
//! an old version changes nothing.

mod changes;
mod failures;
mod inboxes;
mod mains;
mod outcomes;
pub mod queue;
pub(crate) mod rounds;
mod subtasks;

use std::collections::HashSet;
use std::fmt;

use futures_util::StreamExt as _;

use super::counters::note_change;
pub use super::fault::Fault;
use super::ids::TaskId;
use super::packed_list::{squeeze, unpack};
use super::paths::{self, Paths};
use super::task::{ChunkedList, MainTask, Partition, State, SubTask, read, write};
use allot_coordination::random;
use allot_coordination::{Error, Kind, Op, Retry, Retryable as _, Tree, Version};
use allot_runtime::time::now_ms;

/// Most bytes of a multi or of a chunk that Allot fills; ZooKeeper's limits are higher.
const FILL: usize = 200 * 1024;
/// Most reads in flight.
const MAX_READS: usize = 128;
/// Retries of a change after another process made a change first.
const ATTEMPTS: usize = 50;

/// A task with the nodes from which it was read.
#[derive(Debug, Clone)]
pub struct Found<T> {
    /// The task's id.
    pub id: TaskId,
    /// The task's data.
    pub task: T,
    /// The task's directory.
    pub dir: String,
    /// The path of the task's info node.
    pub info: String,
    /// The version of the info node's data.
    pub version: Version,
}

impl<T> Found<T> {
    fn status(&self, state: impl fmt::Display) -> String {
        format!("{}/{}", self.dir, paths::status(state))
    }

    /// The operations that replace the status node. Others watch the names of a task's nodes, and not their data.
    fn touch(&self, state: impl fmt::Display) -> [Op; 2] {
        let status = self.status(state);
        [delete(status.clone()), create(status, Vec::new())]
    }

    fn check(&self) -> Op {
        Op::Check { path: self.info.clone(), version: Some(self.version) }
    }

    fn gone(&self, state: impl fmt::Display) -> [Op; 3] {
        [
            Op::Delete { path: self.info.clone(), version: Some(self.version) },
            delete(self.status(state)),
            delete(self.dir.clone()),
        ]
    }
}

fn delete(path: String) -> Op {
    Op::Delete { path, version: None }
}

fn create(path: String, data: Vec<u8>) -> Op {
    Op::Create { path, data, kind: Kind::Persistent }
}

/// The subtasks that these reads find. A subtask that cannot be read is skipped and logged.
async fn read_subtasks<T>(
    reads: Vec<impl Future<Output = Result<Option<T>, Fault>>>,
) -> Result<Vec<T>, Fault> {
    let mut reads = futures_util::stream::iter(reads).buffered(MAX_READS);
    let mut found = Vec::new();
    while let Some(read) = reads.next().await {
        match read {
            Ok(subtask) => found.extend(subtask),
            Err(fault) if fault.retry() == Retry::Refused => {
                tracing::warn!(%fault, "skipping a subtask that cannot be read");
            }
            Err(fault) => return Err(fault),
        }
    }
    Ok(found)
}

/// Reads and changes the tasks in ZooKeeper.
#[derive(Clone)]
pub struct TaskStore {
    /// Access to ZooKeeper.
    pub tree: Tree,
    /// The paths of the nodes.
    pub paths: Paths,
}

impl TaskStore {
    /// The tasks below this root.
    pub fn new(tree: Tree, root: &str) -> Self {
        Self { tree, paths: Paths::new(root) }
    }

    /// Creates those of the directories that contain all tasks that do not exist.
    pub async fn prepare(&self) -> Result<(), Fault> {
        let paths = [
            self.paths.scheduler(),
            self.paths.compress(),
            self.paths.assigned(),
            self.paths.nodes(),
            self.paths.locks(),
            self.paths.permits(),
            self.paths.offers(),
            self.paths.drained(),
            self.paths.paused(),
        ];
        for (path, found) in paths.iter().zip(self.tree.get_each(&paths).await?) {
            if found.is_err() {
                self.tree.ensure(path).await?;
            }
        }
        Ok(())
    }

    /// The children of a node; empty if the node does not exist.
    pub async fn children(&self, path: &str) -> Result<Vec<String>, Fault> {
        match self.tree.children(path).await {
            Err(Error::NoNode(_)) => Ok(Vec::new()),
            names => Ok(names?),
        }
    }

    async fn found<T: for<'a> serde::Deserialize<'a>>(
        &self,
        id: TaskId,
        dir: String,
    ) -> Result<Option<Found<T>>, Fault> {
        self.found_if(id, dir, |_| Ok(true)).await
    }

    /// The same, if `is_wanted` is true for the names of its nodes.
    async fn found_if<T: for<'a> serde::Deserialize<'a>>(
        &self,
        id: TaskId,
        dir: String,
        is_wanted: impl Fn(&[String]) -> Result<bool, Fault>,
    ) -> Result<Option<Found<T>>, Fault> {
        let names = self.children(&dir).await?;
        if !is_wanted(&names)? {
            return Ok(None);
        }
        let Some(name) = names.iter().find(|name| paths::is_info(name)) else { return Ok(None) };
        let info = format!("{dir}/{name}");
        let Some(node) = self.tree.get(&info).await? else { return Ok(None) };
        Ok(Some(Found { id, task: read(&info, &node.data)?, dir, info, version: node.version }))
    }

    /// A main task; `None` if it does not exist.
    pub async fn main(&self, id: TaskId) -> Result<Option<Found<MainTask>>, Fault> {
        self.found(id, self.paths.main(id)).await
    }

    /// Why the task that this one follows does not let it begin a round, for people; `None` if it does, or if this one
    /// follows none.
    pub(crate) async fn held_up(&self, task: &MainTask) -> Result<Option<String>, Fault> {
        let Some(id) = task.followed() else { return Ok(None) };
        Ok(match self.main(id).await? {
            Some(followed) => followed.task.holds_up(now_ms()),
            None => Some(format!("task {id} does not exist any more")),
        })
    }

    /// A subtask in this worker's inbox; `None` if it is not there. A subtask without a status is an error.
    pub async fn sub(&self, worker: &str, id: TaskId) -> Result<Option<Found<SubTask>>, Fault> {
        let dir = self.paths.at(worker, id);
        let info = dir.clone();
        // Each change replaces the status. Without one, no change of the subtask can succeed.
        let has_status = |names: &[String]| {
            if names.is_empty() || names.iter().any(|name| paths::is_status(name)) {
                return Ok(true);
            }
            Err(Fault::Corrupt(format!("{info} is a subtask without a status")))
        };
        self.found_if(id, dir, has_status).await
    }

    /// Of the subtasks `ids`, those in this worker's inbox. A subtask that cannot be read is skipped and logged.
    pub async fn subs(&self, worker: &str, ids: &[TaskId]) -> Result<Vec<Found<SubTask>>, Fault> {
        let reads: Vec<_> = ids
            .iter()
            .map(|&id| {
                let (store, worker) = (self.clone(), worker.to_owned());
                async move { store.sub(&worker, id).await }
            })
            .collect();
        read_subtasks(reads).await
    }

    /// The ids of the subtasks in this worker's inbox: of one main task, or of all.
    pub async fn at(&self, worker: &str, of: Option<TaskId>) -> Result<Vec<TaskId>, Fault> {
        let names = self.children(&self.paths.inbox(worker)).await?;
        let ids = names.iter().filter_map(|name| name.parse::<TaskId>().ok());
        let mut ids: Vec<TaskId> =
            ids.filter(|id| !id.is_main() && of.is_none_or(|of| id.of_main() == of)).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// The operations that create a main task.
    pub fn creation(&self, id: TaskId, task: &MainTask) -> Vec<Op> {
        let dir = self.paths.main(id);
        vec![
            create(dir.clone(), Vec::new()),
            create(format!("{dir}/{}", paths::status(task.state)), Vec::new()),
            create(format!("{dir}/{}", paths::info(&task.pc, &task.db_name)), write(task)),
            create(self.paths.partitions(id), Vec::new()),
            create(self.paths.finished(id), Vec::new()),
        ]
    }

    /// Writes a main task, if its state changes its status node, and the record of the round that ends by this. `ops` are
    /// added to the multi.
    async fn write(&self, main: &mut Found<MainTask>, new: MainTask, mut ops: Vec<Op>) -> Result<(), Fault> {
        let set = Op::Set { path: main.info.clone(), data: write(&new), version: main.version };
        ops.insert(0, set);
        ops.extend(self.record_round(main, &new).await?);
        if new.state != main.task.state {
            ops.push(delete(main.status(main.task.state)));
            ops.push(create(main.status(new.state), Vec::new()));
        }
        self.tree.multi(ops).await?;
        note_change(&main.task, &new);
        main.version = main.version.next();
        main.task = new;
        Ok(())
    }

    /// The same, if these partitions need not run in the first round: the first generation has compacted them. If they are
    /// too many for a node, only so many as fit are noted.
    pub fn creation_after(
        &self,
        id: TaskId,
        task: &mut MainTask,
        mut succeeded: Vec<String>,
    ) -> Result<Vec<Op>, Fault> {
        let mut data = Vec::new();
        while !succeeded.is_empty() {
            data = squeeze(&succeeded)?;
            if data.len() <= FILL {
                break;
            }
            succeeded.truncate(succeeded.len() / 2);
        }
        task.succeeded_before = succeeded.len() as u64;
        let mut ops = self.creation(id, task);
        if !succeeded.is_empty() {
            ops.push(create(self.paths.succeeded(id), data));
        }
        Ok(ops)
    }

    /// The operation that fails if all tasks were paused after this was read; `None` if they are paused.
    pub(crate) async fn unpaused(&self) -> Result<Option<Op>, Fault> {
        let directory = self.paths.paused();
        let Some(node) = self.tree.get(&directory).await? else {
            return Err(Error::NoNode(directory).into());
        };
        // A pause of all tasks writes both nodes, so the one that is read first decides.
        let is_paused = self.tree.get(&self.paths.paused_all()).await?.is_some();
        Ok((!is_paused).then_some(Op::Check { path: directory, version: Some(node.version) }))
    }

    /// Starts a round with these partitions. Returns `false`, and starts none, if all tasks are paused.
    pub async fn open_round(&self, main: &mut Found<MainTask>, partitions: &[String]) -> Result<bool, Fault> {
        let Some(unpaused) = self.unpaused().await? else { return Ok(false) };
        let (mut succeeded, mut ops) = (HashSet::<String>::new(), vec![unpaused]);
        let path = self.paths.succeeded(main.id);
        if main.task.succeeded_before > 0
            && let Some(node) = self.tree.get(&path).await?
        {
            succeeded = unpack(&path, &node.data)?;
            ops.push(delete(path));
        }
        let rest = partitions.iter().filter(|name| !succeeded.contains(*name)).cloned();
        let rest: Vec<Partition> = rest.map(Partition::First).collect();
        let listing = self.write_listing(main, &rest).await?;
        let mut new = main.task.clone();
        new.open_round(listing, (partitions.len() - rest.len()) as u64, now_ms());
        self.write(main, new, ops).await?;
        self.sweep_failures(main).await?;
        Ok(true)
    }

    /// Writes a list of partitions that the task does not have yet.
    async fn write_listing(
        &self,
        main: &Found<MainTask>,
        partitions: &[Partition],
    ) -> Result<ChunkedList, Fault> {
        let tag = format!("{:08x}", random::any::<u32>());
        let mut listing = ChunkedList { tag, chunks: 0, count: partitions.len() as u64 };
        let dir = self.paths.partitions(main.id);
        let mut rest = partitions;
        while !rest.is_empty() {
            let mut size = 0;
            let fits = rest.iter().take_while(|partition| {
                size += write(partition).len() + 1;
                size <= FILL
            });
            let (chunk, more) = rest.split_at(fits.count().max(1).min(rest.len()));
            rest = more;
            let path = format!("{dir}/{}", listing.chunk(listing.chunks));
            self.tree.multi(vec![main.check(), create(path, write(&chunk))]).await?;
            listing.chunks += 1;
        }
        Ok(listing)
    }

    /// The names of the partitions of the running round, in order.
    pub async fn partitions(&self, main: &Found<MainTask>) -> Result<Vec<String>, Fault> {
        Ok(self.listed(main).await?.iter().map(|partition| partition.name().to_owned()).collect())
    }

    /// The partitions of the running round, in order.
    pub(crate) async fn listed(&self, main: &Found<MainTask>) -> Result<Vec<Partition>, Fault> {
        let Some(listing) = &main.task.listing else { return Ok(Vec::new()) };
        let dir = self.paths.partitions(main.id);
        let mut all: Vec<Partition> = Vec::new();
        for number in 0..listing.chunks {
            let path = format!("{dir}/{}", listing.chunk(number));
            let Some(node) = self.tree.get(&path).await? else { return Err(Error::NoNode(path).into()) };
            all.extend(read::<Vec<Partition>>(&path, &node.data)?);
        }
        Ok(all)
    }

    /// Assigns as many of these (partition, worker) pairs as fit into one multi, starting at the cursor.
    pub async fn assign(&self, main: &mut Found<MainTask>, wave: &[(&Partition, &str)]) -> Result<(), Fault> {
        let mut new = main.task.clone();
        new.state = State::Assigned;
        let mut ops: Vec<Op> = Vec::new();
        let mut size = write(&new).len() + 1024;
        let mut workers = std::collections::BTreeSet::new();
        for &(partition, worker) in wave {
            let id = main.id.subtask(new.first + new.cursor + 1);
            let avoid = partition.failed_at().to_owned();
            let sub = SubTask { avoid, ..new.subtask(id, partition.name(), worker) };
            let mut subtask_ops = self.place(id, &sub).to_vec();
            if workers.insert(worker) {
                subtask_ops.push(Op::Check { path: self.paths.node(worker), version: None });
            }
            size += subtask_ops.iter().map(Op::size).sum::<usize>();
            if size > FILL {
                break;
            }
            ops.append(&mut subtask_ops);
            new.cursor += 1;
        }
        self.write(main, new, ops).await
    }

    /// The operations that create a subtask in its worker's inbox.
    fn place(&self, id: TaskId, sub: &SubTask) -> [Op; 3] {
        let dir = self.paths.at(&sub.worker, id);
        [
            create(dir.clone(), Vec::new()),
            create(format!("{dir}/{}", paths::status(sub.state)), Vec::new()),
            create(format!("{dir}/{}", paths::info(&sub.pc, &sub.db_name)), write(sub)),
        ]
    }

    /// Ends the current round after all of its subtasks are counted, or runs its failed partitions again.
    pub async fn close_round(&self, main: &mut Found<MainTask>) -> Result<(), Fault> {
        self.sweep_failures(main).await?;
        let mut new = main.task.clone();
        new.close_round(now_ms(), random::within(0.0..1.0));
        let ops = self.chunks(main).await?;
        self.write(main, new, ops).await
    }

    /// Cancels a task that has no outstanding subtasks.
    pub async fn cancel(&self, main: &mut Found<MainTask>, why: &str) -> Result<(), Fault> {
        self.sweep_failures(main).await?;
        let mut new = main.task.clone();
        new.state = State::Cancel;
        new.finished = now_ms();
        // Should the task run again, its subtasks have other numbers.
        new.first = new.first.saturating_add(new.count());
        new.listing = None;
        new.retry.at = 0;
        why.clone_into(&mut new.error);
        let ops = self.chunks(main).await?;
        self.write(main, new, ops).await
    }

    /// Notes that the partitions of the next round could not be listed.
    pub async fn listing_failed(&self, main: &mut Found<MainTask>, why: &str) -> Result<(), Fault> {
        let mut new = main.task.clone();
        new.listing_failed(why, now_ms());
        // A manager that died while it wrote a list has left some of it.
        let ops = if new.state.is_over() { self.chunks(main).await? } else { Vec::new() };
        self.write(main, new, ops).await
    }

    async fn chunks(&self, main: &Found<MainTask>) -> Result<Vec<Op>, Fault> {
        let dir = self.paths.partitions(main.id);
        let names = self.children(&dir).await?;
        Ok(names.into_iter().map(|name| delete(format!("{dir}/{name}"))).collect())
    }

    /// Deletes a notice that its manager has read.
    pub async fn noticed(&self, unit: &str, id: TaskId) -> Result<(), Fault> {
        match self.tree.delete(&self.paths.at(unit, id), Version::FIRST).await {
            Ok(()) | Err(Error::NoNode(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
