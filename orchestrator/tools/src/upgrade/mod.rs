//! The upgrade from version 1: each old task is written in the form of version 2 and locked, in one multi that
//! succeeds only if the old task is still as it was read. So the upgrade may be killed at any point, repeated, and
//! run by two processes at once: no task is lost or duplicated.

mod lock;
pub mod version_1;

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use allot_compaction::hashing::choose;
use allot_compaction::history;
use allot_compaction::ids::TaskId;
use allot_compaction::node::Units;
use allot_compaction::task::{MainTask, State};
use allot_compaction::task_store::queue::last_of;
use allot_compaction::task_store::{Fault, TaskStore};
use allot_coordination::{Error, Kind, MULTI_LIMIT, Node, Op};
use allot_runtime::time::now_ms;
use lock::Lock;
use version_1::{Name, Old, Source, convert, removal};

/// Retries of the upgrade of a task when other processes change the task.
const ATTEMPTS: usize = 20;

/// The result of the upgrade of one old task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The task was upgraded before: its lock exists.
    Passed,
    /// An operator has skipped the task, for this reason.
    Skipped(String),
    /// The task was written, in this state.
    Written(State),
    /// The task existed already, and has its lock now.
    Locked,
    /// The old task has disappeared or was renamed by a version-1 process that still runs.
    Gone,
    /// The old task cannot be read, for this reason.
    Odd(String),
}

/// One run of the upgrade.
pub struct Upgrade {
    store: TaskStore,
    source: Source,
    units: Units,
    pc: String,
    /// After how long packs of history are deleted.
    delete_after: Duration,
    /// Whether this is a dry run, which writes nothing.
    dry: bool,
    /// Tasks that existed when the run began, also in packed history, and those that a dry run would have written so far.
    known: Mutex<HashSet<TaskId>>,
    /// The locks that existed when the run began, by path. They may be cached: no process changes a lock, and only
    /// finalizing deletes one.
    locks: HashMap<String, Lock>,
    /// The subtasks of the old tree that have succeeded, by main task.
    successes: HashMap<TaskId, Vec<String>>,
    /// The last unfinished task of each table, for which no other task waits yet.
    live: Mutex<HashMap<[String; 3], TaskId>>,
}

impl Upgrade {
    /// An upgrade of the tasks of `source` to units of the processing cluster `pc`. `delete_after` is how long packs
    /// are kept.
    pub async fn new(
        store: TaskStore,
        source: Source,
        units: Units,
        pc: String,
        delete_after: Duration,
        dry: bool,
    ) -> Result<Self, Fault> {
        if !dry {
            store.prepare().await?;
            store.tree.ensure(&store.paths.upgrade_locks()).await?;
        }
        let dir = store.paths.upgrade_locks();
        let nodes = store.tree.get_many_readable(&dir, store.children(&dir).await?).await?.into_iter();
        // A lock that cannot be read is an error only for its own task, if this run comes to it.
        let read = |(name, node): (_, Result<Node, _>)| {
            Some((format!("{dir}/{name}"), Lock::read(&node.ok()?.data)))
        };
        let locks = nodes.filter_map(read).collect();
        let packed = history::packed(&store).await?;
        let mains = store.mains().await?;
        let packed = packed.iter().filter_map(|task| task.id.parse().ok());
        let known = Mutex::new(mains.iter().map(|main| main.id).chain(packed).collect());
        let tables = mains.iter().filter(|main| !main.task.state.is_over()).map(|main| main.task.table());
        let last = |table| Some((<[&str; 3]>::map(table, str::to_owned), last_of(&mains, table)?));
        let live = Mutex::new(tables.filter_map(last).collect());
        let successes = source.successes().await?;
        Ok(Self { store, source, units, pc, delete_after, dry, known, locks, successes, live })
    }

    /// The names of the old tasks.
    pub async fn names(&self) -> Result<Vec<String>, Fault> {
        self.source.names().await
    }

    /// The names in the order of the upgrade: first those that must be upgraded one after another, then all others.
    ///
    /// Version 1 renames a task when its state changes, and a crash leaves both names. The name of the later state
    /// comes first, so that a finished task is not run again. Then come the unfinished tasks, from old to new.
    pub fn order(names: &[String]) -> (Vec<&str>, Vec<&str>) {
        let read = |name: &str| name.parse::<Name>().ok();
        let is_live = |name: &&str| read(name).is_some_and(|name| !name.state.is_over());
        let (mut live, over): (Vec<&str>, Vec<&str>) = names.iter().map(String::as_str).partition(is_live);
        let unfinished: HashSet<TaskId> = live.iter().filter_map(|name| Some(read(name)?.id())).collect();
        let (mut first, over): (Vec<&str>, Vec<&str>) =
            over.into_iter().partition(|name| read(name).is_some_and(|name| unfinished.contains(&name.id())));
        live.sort_by_key(|name| read(name).map(|name| name.id()));
        first.append(&mut live);
        (first, over)
    }

    /// Upgrades one old task.
    pub async fn step(&self, old: &str) -> Result<Step, Fault> {
        let lock = self.store.paths.upgrade_lock(old);
        let name: Name = match old.parse() {
            Ok(name) => name,
            Err(why) => {
                let found = self.lock(old).await?;
                return Ok(match found {
                    Some(Lock::Skipped(why)) => Step::Skipped(why),
                    Some(Lock::Upgraded(_)) | None => Step::Odd(why),
                });
            }
        };
        // Managers that have left since the units were read.
        let mut gone: Vec<String> = Vec::new();
        for _ in 0..ATTEMPTS {
            match self.lock(old).await? {
                Some(Lock::Skipped(why)) => return Ok(Step::Skipped(why)),
                Some(Lock::Upgraded(_)) => {
                    self.passed(&name).await?;
                    return Ok(Step::Passed);
                }
                None => {}
            }
            let read = match self.source.get(old).await {
                Ok(Some(read)) => read,
                Ok(None) => return Ok(Step::Gone),
                Err(Fault::Corrupt(why)) => return Ok(Step::Odd(why)),
                Err(fault) => return Err(fault),
            };
            let mut ops = read.checks.clone();
            ops.push(create(lock.clone(), Lock::Upgraded(now_ms()).data(now_ms())));
            let mut notified = None;
            let step = match self.exists(name.id()).await {
                Err(Fault::Corrupt(why)) => return Ok(Step::Odd(why)),
                Err(fault) => return Err(fault),
                Ok(true) => Step::Locked,
                Ok(false) => match self.form(&name, &read, &gone).await {
                    Ok((task, more)) => {
                        ops.extend(more);
                        notified = (!task.state.is_over()).then_some(task.manager);
                        Step::Written(task.state)
                    }
                    Err(Fault::Corrupt(why)) => return Ok(Step::Odd(why)),
                    Err(fault) => return Err(fault),
                },
            };
            if self.dry {
                self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(name.id());
                return Ok(step);
            }
            if let Some(manager) = notified {
                // A manager that is absent finds the notice when it starts.
                self.store.tree.ensure(&self.store.paths.inbox(&manager)).await?;
            }
            match self.store.tree.multi(ops).await {
                // Another process upgrades the same task, or a unit has left: read again.
                Err(Error::NoNode(path)) => gone.push(path),
                Err(Error::BadVersion(_) | Error::Exists(_)) => {}
                done => {
                    done?;
                    if matches!(step, Step::Written(state) if !state.is_over()) {
                        self.passed(&name).await?;
                    }
                    return Ok(step);
                }
            }
        }
        Err(Fault::Busy(format!("old task {old} changes all the time; try again")))
    }

    /// The lock of an old task. A lock that is not cached may have been created since the run began.
    async fn lock(&self, old: &str) -> Result<Option<Lock>, Fault> {
        let path = self.store.paths.upgrade_lock(old);
        if let Some(lock) = self.locks.get(&path) {
            return Ok(Some(lock.clone()));
        }
        let node = self.store.tree.get(&path).await?;
        Ok(node.map(|node| Lock::read(&node.data)))
    }

    /// Skips an old task that cannot be read: its lock records the reason, and neither the upgrade nor the deletion of the
    /// old tree stops at it any more. Succeeds too if it was skipped before.
    ///
    /// # Errors
    /// There is no such task, it was upgraded, or it can be read. In none of these cases anything is written.
    pub async fn skip(&self, old: &str, why: &str) -> Result<(), Fault> {
        let path = self.store.paths.upgrade_lock(old);
        for _ in 0..ATTEMPTS {
            match self.lock(old).await? {
                Some(Lock::Skipped(_)) => return Ok(()),
                Some(Lock::Upgraded(_)) => {
                    return Err(Fault::Refused(format!("{old} was taken over; it cannot be skipped")));
                }
                None => {}
            }
            let checks = match self.source.get(old).await {
                Ok(Some(read)) => {
                    let is_readable = old.parse().is_ok_and(|name| {
                        convert(&name, &read.path, &read.data, &name.unit, &self.pc).is_ok()
                    });
                    if is_readable {
                        let why = format!(
                            "{old} can be read, so that the upgrade takes it over; it is not skipped"
                        );
                        return Err(Fault::Refused(why));
                    }
                    read.checks
                }
                Ok(None) => return Err(Fault::Refused(format!("there is no old task {old}"))),
                // A file that cannot be read.
                Err(Fault::Corrupt(_)) => Vec::new(),
                Err(fault) => return Err(fault),
            };
            if self.dry {
                return Ok(());
            }
            let lock = create(path.clone(), Lock::Skipped(why.to_owned()).data(now_ms()));
            match self.store.tree.multi(checks.into_iter().chain([lock]).collect()).await {
                // Another process has changed, upgraded or skipped the task: read again.
                Err(Error::NoNode(_) | Error::BadVersion(_) | Error::Exists(_)) => {}
                done => return Ok(done?),
            }
        }
        Err(Fault::Busy(format!("old task {old} changes all the time; try again")))
    }

    fn is_known(&self, id: TaskId) -> bool {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).contains(&id)
    }

    /// Whether a task is known, or exists in the tree.
    async fn exists(&self, id: TaskId) -> Result<bool, Fault> {
        Ok(self.is_known(id) || self.store.main(id).await?.is_some())
    }

    /// Records that an unfinished task that was upgraded is now the last one of its table, whether this process or
    /// another upgraded it. If the task existed before, others may already wait for it.
    async fn passed(&self, name: &Name) -> Result<(), Fault> {
        if name.state.is_over() || self.is_known(name.id()) {
            return Ok(());
        }
        let found = match self.store.main(name.id()).await {
            // An unreadable task does not stop the upgrade; finalizing reports it.
            Err(Fault::Corrupt(_)) => None,
            found => found?,
        };
        if let Some(main) = found.filter(|main| !main.task.state.is_over()) {
            let table = main.task.table().map(str::to_owned);
            let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
            live.insert(table, main.id);
        }
        Ok(())
    }

    /// The task in the form of version 2, and the operations that write it. `gone` are the nodes of managers that
    /// have left.
    async fn form(&self, name: &Name, old: &Old, gone: &[String]) -> Result<(MainTask, Vec<Op>), Fault> {
        let here = self.units.live.get(&name.unit).is_some_and(|info| info.pc == self.pc);
        let bins = self.units.bins(&self.pc);
        let chosen = choose(&name.id().to_string(), &bins).map(|bin| bin.name.clone());
        // If no unit is present, the monitor chooses a manager when one joins. A finished task keeps the one that it had.
        let stays = here || name.state.is_over();
        let manager = chosen.filter(|_| !stays).unwrap_or_else(|| name.unit.clone());
        let mut task = convert(name, &old.path, &old.data, &manager, &self.pc)?;
        if !task.state.is_over() {
            // Two tasks on one table take turns; the locks of partitions would keep them apart as well. Each waits
            // for a task that exists already, so no two wait for each other.
            let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
            task.after = live.get(&task.table().map(str::to_owned)).map(ToString::to_string);
        }
        let succeeded = if task.state.is_over() { Vec::new() } else { self.succeeded(name.id()).await? };
        let mut ops = self.store.creation_after(name.id(), &mut task, succeeded)?;
        if !task.state.is_over() {
            ops.push(create(self.store.paths.at(&manager, name.id()), Vec::new()));
            let node = self.store.paths.node(&manager);
            if self.units.live.contains_key(&manager) && !gone.contains(&node) {
                ops.push(Op::Check { path: node, version: None });
            }
        }
        Ok((task, ops))
    }

    /// The partitions of an old task whose subtasks have succeeded.
    async fn succeeded(&self, id: TaskId) -> Result<Vec<String>, Fault> {
        let mut partitions = Vec::new();
        for path in self.successes.get(&id).into_iter().flatten() {
            partitions.extend(self.source.partition(path).await?);
        }
        Ok(partitions)
    }

    /// The obstacles to the deletion of the old tree: the tasks without a lock, or without a readable new task.
    pub async fn missing(&self) -> Result<Vec<String>, Fault> {
        let mut missing = Vec::new();
        for old in self.names().await? {
            let lock = self.lock(&old).await?;
            if let Some(Lock::Skipped(_)) = lock {
                continue;
            }
            let why = match old.parse::<Name>() {
                Err(why) => Some(why),
                Ok(_) if lock.is_none() => Some(format!("{old} has not been taken over")),
                Ok(name) => match self.exists(name.id()).await {
                    Ok(true) => None,
                    Ok(false) if self.may_be_deleted(lock.as_ref()) => None,
                    Ok(false) => Some(format!("{old} has a lock, and task {} is not there", name.id())),
                    Err(Fault::Corrupt(why)) => Some(why),
                    Err(fault) => return Err(fault),
                },
            };
            missing.extend(why);
        }
        Ok(missing)
    }

    /// Whether a task that was upgraded this long ago may have been packed and its pack deleted.
    fn may_be_deleted(&self, lock: Option<&Lock>) -> bool {
        let Some(&Lock::Upgraded(time @ 1..)) = lock else { return false };
        now_ms().saturating_sub(time) > self.delete_after.as_millis() as u64
    }

    /// Deletes an old task and its lock.
    pub async fn remove(&self, old: &str) -> Result<(), Fault> {
        let Source::Tree(tree, root) = &self.source else { return Ok(()) };
        let mut ops = removal(tree, &format!("{root}/Scheduler/{old}")).await?;
        ops.push(Op::Delete { path: self.store.paths.upgrade_lock(old), version: None });
        ignore_already_deleted(self.store.tree.multi(ops).await)
    }

    /// Deletes the rest of the old tree and the locks, after all tasks are deleted. If a task was added meanwhile,
    /// nothing is deleted.
    pub async fn remove_rest(&self) -> Result<(), Fault> {
        if let Source::Tree(tree, root) = &self.source {
            let (scheduler, last) = (format!("{root}/Scheduler"), format!("{root}/TaskAssigned"));
            // The nodes that identify the old tree are deleted last, so that an interrupted deletion can be found and
            // resumed.
            if tree.get(&scheduler).await?.is_some() {
                tree.ensure(&last).await?;
            }
            match tree.multi(vec![Op::Delete { path: scheduler.clone(), version: None }]).await {
                Err(Error::NotEmpty(_)) => {
                    let why = format!(
                        "a task came under {scheduler} meanwhile, and was not removed: does the first generation still \
                         run? Take it over by allot task upgrade, then finalize again"
                    );
                    return Err(Fault::Refused(why));
                }
                done => ignore_already_deleted(done)?,
            }
            let is_last = |op: &Op| matches!(op, Op::Delete { path, .. } if path == root || *path == last);
            let (last, first): (Vec<_>, Vec<_>) = removal(tree, root).await?.into_iter().partition(is_last);
            self.delete_all(first).await?;
            self.delete_all(last).await?;
        }
        self.delete_all(removal(&self.store.tree, &self.store.paths.upgrade_locks()).await?).await
    }

    async fn delete_all(&self, ops: Vec<Op>) -> Result<(), Fault> {
        let mut rest = ops.as_slice();
        while !rest.is_empty() {
            let mut size = 0;
            let fits = rest.iter().take_while(|op| {
                size += op.size();
                size <= MULTI_LIMIT / 2
            });
            let (now, more) = rest.split_at(fits.count().max(1).min(rest.len()));
            rest = more;
            ignore_already_deleted(self.store.tree.multi(now.to_vec()).await)?;
        }
        Ok(())
    }
}

/// Ignores that another process has deleted the same nodes first.
fn ignore_already_deleted(done: Result<(), Error>) -> Result<(), Fault> {
    match done {
        Err(Error::NoNode(_)) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn create(path: String, data: Vec<u8>) -> Op {
    Op::Create { path, data, kind: Kind::Persistent }
}

#[cfg(test)]
mod tests;
