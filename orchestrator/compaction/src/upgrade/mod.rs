//! The upgrade from the first generation: each old task is written in this generation's form and locked, in one multi
//! that holds only if the old task is still as it was read. So it may be killed at any point, repeated, and done by two at
//! once: no task is lost, and none is there twice.

pub mod version_1;

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::hashing::choose;
use crate::history;
use crate::ids::TaskId;
use crate::node::Units;
use crate::task::{MainTask, State};
use crate::task_store::{Fault, TaskStore, last_of};
use allot_coordination::{Error, Kind, MULTI_LIMIT, Node, Op};
use allot_runtime::time::now_ms;
use version_1::{Name, Old, Source, convert, removal};

/// How often a task is tried that others work on as well.
const ATTEMPTS: usize = 20;

/// What became of an old task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// It has its lock already.
    Passed,
    /// It was written, in this state.
    Written(State),
    /// It stood there already, and has its lock now.
    Locked,
    /// It is gone, renamed by whoever still works in the old tree.
    Gone,
    /// It cannot be read, for this reason.
    Odd(String),
}

/// An upgrade.
pub struct Upgrade {
    store: TaskStore,
    source: Source,
    units: Units,
    pc: String,
    /// After how long packs of history are deleted.
    delete_after: Duration,
    /// Whether nothing is written.
    dry: bool,
    /// Tasks that were packed.
    packed: HashSet<String>,
    /// Tasks that stood there when we came.
    known: HashSet<TaskId>,
    /// The live task of each table for which nobody waits yet.
    live: Mutex<HashMap<[String; 3], TaskId>>,
}

impl Upgrade {
    /// Of the tasks of a source, to units of this processing cluster, where packs are deleted after this time.
    pub async fn new(
        store: TaskStore,
        source: Source,
        units: Units,
        pc: String,
        delete_after: Duration,
        dry: bool,
    ) -> Result<Self, Fault> {
        let packed = history::packed(&store).await?.into_iter().map(|task| task.id).collect();
        if !dry {
            store.tree.ensure(&store.paths.upgrade_locks()).await?;
        }
        let mains = store.mains().await?;
        let known = mains.iter().map(|main| main.id).collect();
        let tables = mains.iter().filter(|main| !main.task.state.is_over()).map(|main| main.task.table());
        let last = |table| Some((<[&str; 3]>::map(table, str::to_owned), last_of(&mains, table)?));
        let live = tables.filter_map(last).collect();
        Ok(Self { store, source, units, pc, delete_after, dry, packed, known, live: Mutex::new(live) })
    }

    /// The old tasks, by name.
    pub async fn names(&self) -> Result<Vec<String>, Fault> {
        self.source.names().await
    }

    /// Which of them are live, from old to new, and the others.
    pub fn order(names: &[String]) -> (Vec<&str>, Vec<&str>) {
        let read = |name: &str| name.parse::<Name>().ok();
        let (mut live, over): (Vec<&str>, Vec<&str>) = names
            .iter()
            .map(String::as_str)
            .partition(|name| read(name).is_some_and(|name| !name.state.is_over()));
        live.sort_by_key(|name| read(name).map(|name| name.id()));
        (live, over)
    }

    /// Takes one over.
    pub async fn step(&self, old: &str) -> Result<Step, Fault> {
        let name: Name = match old.parse() {
            Ok(name) => name,
            Err(why) => return Ok(Step::Odd(why)),
        };
        let lock = self.store.paths.upgrade_lock(old);
        // Managers that are gone since we looked.
        let mut gone: Vec<String> = Vec::new();
        for _ in 0..ATTEMPTS {
            if self.store.tree.get(&lock).await?.is_some() {
                self.passed(&name).await?;
                return Ok(Step::Passed);
            }
            let read = match self.source.get(old).await {
                Ok(Some(read)) => read,
                Ok(None) => return Ok(Step::Gone),
                Err(Fault::Odd(why)) => return Ok(Step::Odd(why)),
                Err(fault) => return Err(fault),
            };
            let mut ops = read.checks.clone();
            ops.push(create(lock.clone(), now_ms().to_string().into_bytes()));
            let mut notified = None;
            let step = match self.stands(name.id()).await {
                Err(Fault::Odd(why)) => return Ok(Step::Odd(why)),
                Err(fault) => return Err(fault),
                Ok(true) => Step::Locked,
                Ok(false) => match self.form(&name, &read, &gone) {
                    Ok((task, more)) => {
                        ops.extend(more);
                        notified = (!task.state.is_over()).then_some(task.manager);
                        Step::Written(task.state)
                    }
                    Err(Fault::Odd(why)) => return Ok(Step::Odd(why)),
                    Err(fault) => return Err(fault),
                },
            };
            if self.dry {
                return Ok(step);
            }
            if let Some(manager) = notified {
                // Whoever is not there hears of it when it comes.
                self.store.tree.ensure(&self.store.paths.inbox(&manager)).await?;
            }
            match self.store.tree.multi(ops).await {
                // Somebody else is at it as well, or a unit has gone; look again.
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
        Err(Fault::Refused(format!("old task {old} changes all the time; try again")))
    }

    /// Whether a task stands in the tree, or was packed.
    async fn stands(&self, id: TaskId) -> Result<bool, Fault> {
        Ok(self.packed.contains(&id.to_string()) || self.store.main(id).await?.is_some())
    }

    /// A task that was taken over, by us or by somebody beside us, is the last one of its table from now on, if it is
    /// live. Where it stood there before, others may wait for it.
    async fn passed(&self, name: &Name) -> Result<(), Fault> {
        if name.state.is_over() || self.known.contains(&name.id()) {
            return Ok(());
        }
        let found = match self.store.main(name.id()).await {
            // One that does not read holds up nobody here; finalizing names it.
            Err(Fault::Odd(_)) => None,
            found => found?,
        };
        if let Some(main) = found.filter(|main| !main.task.state.is_over()) {
            let table = main.task.table().map(str::to_owned);
            let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
            live.insert(table, main.id);
        }
        Ok(())
    }

    /// What writes a task in this generation's form, where these nodes are gone.
    fn form(&self, name: &Name, old: &Old, gone: &[String]) -> Result<(MainTask, Vec<Op>), Fault> {
        let here = self.units.live.get(&name.unit).is_some_and(|info| info.pc == self.pc);
        let bins = self.units.bins(&self.pc);
        let chosen = choose(&name.id().to_string(), &bins).map(|bin| bin.name.clone());
        // Where nobody is there, the monitor finds one when somebody is.
        let manager = if here { name.unit.clone() } else { chosen.unwrap_or_else(|| name.unit.clone()) };
        let mut task = convert(name, &old.path, &old.data, &manager, &self.pc)?;
        if !task.state.is_over() {
            // Two on one table, which the locks of partitions keep apart anyway, also take turns.
            // Each waits for one that stands there already, so that no two wait for each other.
            let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
            task.after = live.get(&task.table().map(str::to_owned)).map(ToString::to_string);
        }
        let mut ops = self.store.creation(name.id(), &task);
        if !task.state.is_over() {
            ops.push(create(self.store.paths.at(&manager, name.id()), Vec::new()));
            let node = self.store.paths.node(&manager);
            if self.units.live.contains_key(&manager) && !gone.contains(&node) {
                ops.push(Op::Check { path: node, version: None });
            }
        }
        Ok((task, ops))
    }

    /// Why the old tree may not be removed yet: tasks without lock, or without a new task that reads.
    pub async fn missing(&self) -> Result<Vec<String>, Fault> {
        let mut missing = Vec::new();
        for old in self.names().await? {
            let lock = self.store.tree.get(&self.store.paths.upgrade_lock(&old)).await?;
            let why = match old.parse::<Name>() {
                Err(why) => Some(why),
                Ok(_) if lock.is_none() => Some(format!("{old} has not been taken over")),
                Ok(name) => match self.stands(name.id()).await {
                    Ok(true) => None,
                    Ok(false) if self.may_be_deleted(lock) => None,
                    Ok(false) => Some(format!("{old} has a lock, and task {} is not there", name.id())),
                    Err(Fault::Odd(why)) => Some(why),
                    Err(fault) => return Err(fault),
                },
            };
            missing.extend(why);
        }
        Ok(missing)
    }

    /// Whether a task that was taken over this long ago may have been packed, and the pack deleted.
    fn may_be_deleted(&self, lock: Option<Node>) -> bool {
        let time = lock.and_then(|lock| String::from_utf8(lock.data).ok()?.parse().ok());
        time.is_some_and(|time: u64| now_ms().saturating_sub(time) > self.delete_after.as_millis() as u64)
    }

    /// Removes an old task with its lock.
    pub async fn remove(&self, old: &str) -> Result<(), Fault> {
        let Source::Tree(tree, root) = &self.source else { return Ok(()) };
        let mut ops = removal(tree, &format!("{root}/Scheduler/{old}")).await?;
        ops.push(Op::Delete { path: self.store.paths.upgrade_lock(old), version: None });
        settle(self.store.tree.multi(ops).await)
    }

    /// Removes what is left of the old tree and of the locks, when all tasks are removed; and where one came meanwhile
    /// nothing.
    pub async fn remove_rest(&self) -> Result<(), Fault> {
        if let Source::Tree(tree, root) = &self.source {
            let (scheduler, last) = (format!("{root}/Scheduler"), format!("{root}/TaskAssigned"));
            // What the tree is known by goes last, so that what is cut short is found again.
            if tree.get(&scheduler).await?.is_some() {
                tree.ensure(&last).await?;
            }
            match tree.multi(vec![Op::Delete { path: scheduler.clone(), version: None }]).await {
                Err(Error::NotEmpty(_)) => {
                    let why = format!(
                        "a task came under {scheduler} meanwhile, and was not removed: does the first generation still \
                         run? Take it over by allotd compaction upgrade, then finalize again"
                    );
                    return Err(Fault::Refused(why));
                }
                done => settle(done)?,
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
            settle(self.store.tree.multi(now.to_vec()).await)?;
        }
        Ok(())
    }
}

/// Another who removes the same was faster.
fn settle(done: Result<(), Error>) -> Result<(), Fault> {
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
