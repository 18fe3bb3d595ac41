//! The client of tasks: submits and changes them.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use allot_coordination::{Coordinator, Error, Kind, Node, Op};
use allot_runtime::time::now_ms;
use tokio::sync::watch;

use super::options::{Submission, TaskChange};
use crate::Settings;
use crate::fault::Fault;
use crate::hashing::choose;
use crate::history::{self, Filter};
use crate::ids::TaskId;
use crate::node::{Drained, Units, follow};
use crate::paths::decode;
use crate::task::{MainTask, write};
use crate::task_store::TaskStore;
use crate::worker::offer::Offered;
use crate::worker::unit_fault::Refusal;

/// Time limit for reading the units.
const PATIENCE: Duration = Duration::from_secs(15);

/// A connection to ZooKeeper, with the task store.
#[derive(Clone)]
pub struct TaskClient {
    /// The session with ZooKeeper.
    pub coordinator: Coordinator,
    /// The tasks.
    pub store: TaskStore,
    /// The settings of compaction. Submissions have its `node`, `pc` and `retries` by default.
    pub settings: Settings,
}

impl TaskClient {
    /// A client of the tasks at the root that these settings name.
    pub fn new(coordinator: Coordinator, settings: Settings) -> Self {
        let store = TaskStore::new(coordinator.tree(), &settings.root);
        Self { coordinator, store, settings }
    }

    /// The present units; none before the first unit has ever started. Writes nothing.
    pub async fn units(&self) -> Result<Units, Fault> {
        if self.coordinator.tree().get(&self.store.paths.nodes()).await?.is_none() {
            return Ok(Units::default());
        }
        current_units(follow(&self.coordinator, &self.store.paths)).await
    }

    /// The unit that is the monitor; `None` if there is none.
    pub async fn monitor(&self) -> Result<Option<String>, Fault> {
        // The first candidate in the election is the leader. Reading the election does not join it.
        Ok(self.coordinator.leader(&self.store.paths.election()).await?)
    }

    /// The units that start nothing now because they cannot run runners.
    pub async fn refusals(&self) -> Result<BTreeMap<String, Refusal>, Fault> {
        let directory = self.store.paths.offers();
        let names = self.store.children(&directory).await?;
        let offers = self.store.tree.get_many(&directory, names).await?.into_iter();
        let refusal = |data: &[u8]| serde_json::from_slice::<Offered>(data).ok()?.refusal;
        Ok(offers.filter_map(|(name, offer)| Some((decode(&name), refusal(&offer.data)?))).collect())
    }

    /// The units that were here and are not present: each has an inbox, or is drained. With the time since which it is away,
    /// in milliseconds since 1970, if the monitor has recorded it.
    pub async fn away(&self, units: &Units) -> Result<BTreeMap<String, Option<u64>>, Fault> {
        let mut away: BTreeMap<String, Option<u64>> =
            units.drained.keys().map(|name| (name.clone(), None)).collect();
        away.extend(self.store.inboxes().await?.into_iter().map(|(name, inbox)| (name, inbox.away)));
        away.retain(|name, _| !units.live.contains_key(name));
        Ok(away)
    }

    /// A task that is not packed into history.
    pub async fn task(&self, id: TaskId) -> Result<MainTask, Fault> {
        let main = self.store.main(id).await?;
        main.map(|main| main.task).ok_or_else(|| {
            Fault::Absent(format!(
                "task {id} does not exist; allot task history {id} looks among the packed ones"
            ))
        })
    }

    /// Submits a task, and returns it with its id.
    pub async fn submit(&self, wanted: &Submission) -> Result<(TaskId, MainTask), Fault> {
        // What is wrong with the request itself is found before the cluster is asked.
        let mut task = wanted.task(self.settings.retries)?;
        if let Some(after) = &wanted.after {
            task.follows = self.followed(after).await?.map(|id| id.to_string());
        }
        let units = self.units().await?;
        let node = wanted.node.as_ref().or(self.settings.node.as_ref());
        let pc = wanted.pc.clone().or_else(|| Some(units.live.get(node?)?.pc.clone()));
        let pc = pc.unwrap_or_else(|| self.settings.pc.clone());
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64;
        let manager = match node {
            Some(node) if units.bins(&pc).iter().any(|bin| bin.name == *node) => node.clone(),
            Some(node) => return Err(unusable(node, &units, &pc)),
            None => chosen(&time.to_string(), &units, &pc, wanted.pc.is_some())?,
        };
        let id = TaskId::main(&manager, time);
        let task = MainTask { id: id.to_string(), manager, pc, ..task };
        self.store.submit(id, &task, wanted.queue).await?;
        Ok((id, task))
    }

    /// The task that is meant by its id, or by its table as `DATABASE.SCHEMA.TABLE`: the one that was submitted last. `None`
    /// if there is nothing to wait for: that task has ended well and is packed into history.
    async fn followed(&self, wanted: &str) -> Result<Option<TaskId>, Fault> {
        if let Ok(id) = wanted.parse::<TaskId>() {
            let id = id.of_main();
            if self.store.main(id).await?.is_some() {
                return Ok(Some(id));
            }
            return match history::find(&self.store, id, None).await? {
                Some(packed) => check_ended_well(&packed),
                None => self.task(id).await.map(|_| Some(id)),
            };
        }
        let table: Vec<&str> = wanted.split('.').collect();
        let [db, schema, name] = table.as_slice() else {
            let why =
                format!("`after` '{wanted}' is neither a task nor a table: write DATABASE.SCHEMA.TABLE");
            return Err(Fault::Wrong(why));
        };
        let mains = self.store.mains().await?;
        let last = mains.iter().rev().find(|main| main.task.table() == [*db, *schema, *name]);
        if let Some(last) = last {
            return Ok(Some(last.id));
        }
        let table = [*db, *schema, *name].map(|part| Some(part.to_owned()));
        // Packed tasks of a table are found from new to old, each after its rounds.
        let (ended, _) = history::all(&self.store, &Filter { table, ..Filter::default() }, 1).await?;
        let tasks = ended.iter().filter(|task| !task.is_round());
        let last = tasks.max_by_key(|task| task.id.parse::<TaskId>().ok());
        check_ended_well(
            last.ok_or_else(|| {
                Fault::Busy(format!("no task of table {wanted} exists; submit that one first"))
            })?,
        )
    }

    /// Changes options of an unfinished task. Returns the task as it is now.
    pub async fn set(&self, wanted: &TaskChange) -> Result<MainTask, Fault> {
        let (id, change) = wanted.change()?;
        self.store.set_if(id, change).await
    }

    /// Reopens a finished task with its failed partitions, and returns it. Its manager remains if that unit is present.
    pub async fn retry(&self, id: TaskId) -> Result<MainTask, Fault> {
        let (task, units) = (self.task(id).await?, self.units().await?);
        let followed = task.followed();
        let stays = units.bins(&task.pc).iter().any(|bin| bin.name == task.manager);
        let manager = if stays { task.manager } else { chosen(&task.id, &units, &task.pc, false)? };
        let packed = match followed {
            Some(other) if self.store.main(other).await?.is_none() => {
                history::find(&self.store, other, None).await?
            }
            _ => None,
        };
        self.store.retry(id, &manager, packed.as_ref()).await
    }

    /// What [`set`](Self::set) would make of this task.
    pub fn tried(wanted: &TaskChange, mut task: MainTask) -> Result<MainTask, Fault> {
        let (_, change) = wanted.change()?;
        change(&mut task)?;
        Ok(task)
    }

    /// Refuses a unit that is neither present nor has been.
    pub async fn known(&self, unit: &str) -> Result<(), Fault> {
        let is_known = self.units().await?.live.contains_key(unit)
            || self.store.tree.get(&self.store.paths.inbox(unit)).await?.is_some();
        let why = || format!("there is no compaction node {unit}; allot node list lists them");
        if is_known { Ok(()) } else { Err(Fault::Absent(why())) }
    }

    /// Drains a unit, present or not, until [`undrain`](Self::undrain): it takes nothing more, finishes what runs, and others
    /// take what waits there. After `deadline`, if there is one, what still runs is ended and runs elsewhere. Another call
    /// changes the deadline. Returns how many subtasks are at the unit.
    pub async fn drain(&self, unit: &str, deadline: Option<Duration>) -> Result<usize, Fault> {
        self.known(unit).await?;
        let since = now_ms();
        let after = |span: Duration| since.saturating_add(span.as_millis() as u64);
        let data = write(&Drained { since, deadline: deadline.map_or(0, after) });
        let path = self.store.paths.drain_of(unit);
        let create = Op::Create { path: path.clone(), data, kind: Kind::Persistent };
        // As a new node, since those who follow the directory watch its names only.
        let replace = vec![Op::Delete { path, version: None }, create.clone()];
        match self.store.tree.multi(replace).await {
            Err(Error::NoNode(_)) => self.store.tree.multi(vec![create]).await?,
            done => done?,
        }
        Ok(self.store.at(unit, None).await?.len())
    }

    /// Pauses all tasks, also those that are submitted later, until [`resume_all`](Self::resume_all). Returns whether they
    /// were not paused before.
    pub async fn pause_all(&self) -> Result<bool, Fault> {
        let (tree, directory) = (&self.store.tree, self.store.paths.paused());
        loop {
            tree.ensure(&directory).await?;
            let Some(Node { version, .. }) = tree.get(&directory).await? else { continue };
            let data = now_ms().to_string().into_bytes();
            let path = self.store.paths.paused_all();
            let create = Op::Create { path, data: data.clone(), kind: Kind::Persistent };
            // A round that is about to begin checks the version of the directory.
            let touch = Op::Set { path: directory.clone(), data, version };
            match tree.multi(vec![create, touch]).await {
                Err(Error::Exists(_)) => return Ok(false),
                Err(Error::BadVersion(_)) => {}
                done => return Ok(done.map(|()| true)?),
            }
        }
    }

    /// Ends the pause of all tasks. Those that were paused by themselves remain so. Returns whether all were paused.
    pub async fn resume_all(&self) -> Result<bool, Fault> {
        let delete = Op::Delete { path: self.store.paths.paused_all(), version: None };
        match self.store.tree.multi(vec![delete]).await {
            Err(Error::NoNode(_)) => Ok(false),
            done => Ok(done.map(|()| true)?),
        }
    }

    /// Whether all tasks are paused.
    pub async fn are_all_paused(&self) -> Result<bool, Fault> {
        Ok(self.store.tree.get(&self.store.paths.paused_all()).await?.is_some())
    }

    /// Lets a drained unit take work again. Returns whether it was drained.
    pub async fn undrain(&self, unit: &str) -> Result<bool, Fault> {
        let delete = Op::Delete { path: self.store.paths.drain_of(unit), version: None };
        match self.store.tree.multi(vec![delete]).await {
            Err(Error::NoNode(_)) => Ok(false),
            done => Ok(done.map(|()| true)?),
        }
    }

    /// Gives a task to another manager, or a waiting subtask to another worker: to `to`, or to one that is chosen by
    /// hashing. Returns the unit.
    pub async fn reassign(&self, id: TaskId, to: Option<&str>) -> Result<String, Fault> {
        let task = self.task(id.of_main()).await?;
        let units = self.units().await?;
        let mut bins = units.bins(&task.pc);
        let has = if id.is_main() {
            Some(task.manager)
        } else {
            self.store.find_sub(id).await?.map(|sub| sub.task.worker)
        };
        let to = if let Some(to) = to {
            if !bins.iter().any(|bin| bin.name == to) {
                return Err(unusable(to, &units, &task.pc));
            }
            to.to_owned()
        } else {
            bins.retain(|bin| Some(&bin.name) != has.as_ref());
            let other = choose(&id.to_string(), &bins).map(|bin| bin.name.clone());
            other.ok_or_else(|| Fault::Busy(format!("no other compaction node of {} takes work", task.pc)))?
        };
        if id.is_main() {
            self.store.reassign(id, None, &to).await?;
        } else {
            self.store.move_subtask(id, &to).await?;
        }
        Ok(to)
    }
}

/// Nothing to wait for, if this packed task has ended well; otherwise, it never will.
fn check_ended_well(packed: &MainTask) -> Result<Option<TaskId>, Fault> {
    match packed.holds_up(now_ms()) {
        None => Ok(None),
        Some(why) => {
            let why = format!("{why}, and it is packed into history; submit a task of its table first");
            Err(Fault::Refused(why))
        }
    }
}

/// A unit of a processing cluster that takes work, by hashing. A cluster that people named and that has no units is absent.
fn chosen(key: &str, units: &Units, pc: &str, is_named: bool) -> Result<String, Fault> {
    let unit = choose(key, &units.bins(pc)).map(|bin| bin.name.clone());
    unit.ok_or_else(|| {
        let why = format!("no compaction node of {pc} {}; allot node list lists them", units.lack(pc));
        let is_there = units.live.values().any(|info| info.pc == pc);
        if is_named && !is_there { Fault::Absent(why) } else { Fault::Busy(why) }
    })
}

/// Why this unit cannot be given work of this processing cluster.
fn unusable(unit: &str, units: &Units, pc: &str) -> Fault {
    Fault::Busy(match units.live.get(unit) {
        None => {
            let why = format!("compaction node {unit} is not present; allot node list lists them");
            return Fault::Absent(why);
        }
        Some(info) if info.pc != pc => format!("compaction node {unit} is of {}, and not of {pc}", info.pc),
        Some(_) => format!("compaction node {unit} is drained; allot node undrain {unit} lets it take work"),
    })
}

/// Waits until the units were read. They are not read while there is no connection, or while a node cannot be read.
async fn current_units(mut units: watch::Receiver<Units>) -> Result<Units, Fault> {
    match tokio::time::timeout(PATIENCE, units.wait_for(|units| units.current)).await {
        Ok(Ok(units)) => Ok(units.clone()),
        _ => Err(Error::Offline.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn units_that_cannot_be_read_end_the_wait() {
        let (_sender, units) = watch::channel(Units::default());
        let ended = tokio::time::timeout(4 * PATIENCE, current_units(units)).await;
        assert!(ended.expect("an end").is_err());
    }
}
