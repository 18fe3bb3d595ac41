//! The client of tasks: submits and changes them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use allot_coordination::{Coordinator, Error};
use tokio::sync::watch;

use super::options::{Submission, TaskChange};
use crate::Settings;
use crate::fault::Fault;
use crate::hashing::choose;
use crate::ids::TaskId;
use crate::node::{Units, follow};
use crate::task::MainTask;
use crate::task_store::TaskStore;

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
        current_units(follow(&self.coordinator, &self.store.paths.nodes())).await
    }

    /// The unit that is the monitor; `None` if there is none.
    pub async fn monitor(&self) -> Result<Option<String>, Fault> {
        // The first candidate in the election is the leader. Reading the election does not join it.
        Ok(self.coordinator.leader(&self.store.paths.election()).await?)
    }

    /// A task that is not packed into history.
    pub async fn task(&self, id: TaskId) -> Result<MainTask, Fault> {
        let main = self.store.main(id).await?;
        main.map(|main| main.task).ok_or_else(|| {
            Fault::Refused(format!(
                "task {id} does not exist; allot task history {id} looks among the packed ones"
            ))
        })
    }

    /// Submits a task, and returns it with its id.
    pub async fn submit(&self, wanted: &Submission) -> Result<(TaskId, MainTask), Fault> {
        // What is wrong with the request itself is found before the cluster is asked.
        let task = wanted.task(self.settings.retries)?;
        let units = self.units().await?;
        let node = wanted.node.as_ref().or(self.settings.node.as_ref());
        let pc = wanted.pc.clone().or_else(|| Some(units.live.get(node?)?.pc.clone()));
        let pc = pc.unwrap_or_else(|| self.settings.pc.clone());
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64;
        let manager = match node {
            Some(node) if units.live.get(node).is_some_and(|info| info.pc == pc) => node.clone(),
            Some(node) => {
                return Err(Fault::Busy(format!("compaction node {node} is not present, or not of {pc}")));
            }
            None => chosen(&time.to_string(), &units, &pc)?,
        };
        let id = TaskId::main(&manager, time);
        let task = MainTask { id: id.to_string(), manager, pc, ..task };
        self.store.submit(id, &task, wanted.queue).await?;
        Ok((id, task))
    }

    /// Changes options of an unfinished task. Returns the task as it is now.
    pub async fn set(&self, wanted: &TaskChange) -> Result<MainTask, Fault> {
        let (id, change) = wanted.change()?;
        self.store.set_if(id, change).await
    }

    /// Reopens a finished task with its failed partitions, and returns it. Its manager remains if that unit is present.
    pub async fn retry(&self, id: TaskId) -> Result<MainTask, Fault> {
        let (task, units) = (self.task(id).await?, self.units().await?);
        let stays = units.live.get(&task.manager).is_some_and(|unit| unit.pc == task.pc);
        let manager = if stays { task.manager } else { chosen(&task.id, &units, &task.pc)? };
        self.store.retry(id, &manager).await
    }

    /// Gives a task to another manager, or a waiting subtask to another worker: to `to`, or to one that is chosen by
    /// hashing. Returns the unit.
    pub async fn reassign(&self, id: TaskId, to: Option<&str>) -> Result<String, Fault> {
        let task = self.task(id.of_main()).await?;
        let mut bins = self.units().await?.bins(&task.pc);
        let has = if id.is_main() {
            Some(task.manager)
        } else {
            self.store.find_sub(id).await?.map(|sub| sub.task.worker)
        };
        let to = if let Some(to) = to {
            if !bins.iter().any(|bin| bin.name == to) {
                return Err(Fault::Busy(format!(
                    "compaction node {to} is not present, or not of {}",
                    task.pc
                )));
            }
            to.to_owned()
        } else {
            bins.retain(|bin| Some(&bin.name) != has.as_ref());
            let other = choose(&id.to_string(), &bins).map(|bin| bin.name.clone());
            other.ok_or_else(|| Fault::Busy(format!("no other compaction node of {} is present", task.pc)))?
        };
        if id.is_main() {
            self.store.reassign(id, None, &to).await?;
        } else {
            self.store.move_subtask(id, &to).await?;
        }
        Ok(to)
    }
}

/// A present unit of a processing cluster, by hashing.
fn chosen(key: &str, units: &Units, pc: &str) -> Result<String, Fault> {
    let unit = choose(key, &units.bins(pc)).map(|bin| bin.name.clone());
    unit.ok_or_else(|| {
        Fault::Busy(format!("no compaction node of {pc} is present; allot node list lists them"))
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
