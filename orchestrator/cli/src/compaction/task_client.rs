//! The connection of the commands on tasks.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use tokio::sync::watch;

use crate::outcome::Outcome;
use crate::sources::TreeSource;
use allot_compaction::ids::TaskId;
use allot_compaction::node::{Units, follow};
use allot_compaction::task_store::{Fault, TaskStore};
use allot_coordination::Coordinator;
use allotd::config::Config;
use allotd::coordination;

/// Time limit for a command to connect to ZooKeeper, and to read the units there.
const PATIENCE: Duration = Duration::from_secs(15);

/// The options of every command.
#[derive(Debug, Args)]
pub(crate) struct Common {
    #[command(flatten)]
    pub(super) source: TreeSource,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
}

/// A connection to ZooKeeper, with the task store.
pub(super) struct TaskClient {
    pub(super) config: Config,
    pub(super) coordinator: Coordinator,
    pub(super) store: TaskStore,
}

impl TaskClient {
    pub(super) async fn open(common: &Common) -> Result<Self> {
        let config = common.source.config()?;
        let Some(zookeeper) = &config.zookeeper else {
            bail!(
                "no ZooKeeper is configured: give --zookeeper-servers, ALLOT_ZOOKEEPER, or zookeeper.servers in a file"
            );
        };
        let coordinator = coordination::coordinator(&config);
        if tokio::time::timeout(PATIENCE, coordinator.up()).await.is_err() {
            return Err(allot_coordination::Error::Offline).with_context(|| {
                format!("ZooKeeper at {} did not answer for {PATIENCE:?}", zookeeper.servers)
            });
        }
        Ok(Self::new(config, coordinator))
    }

    /// A client with this session.
    pub(super) fn new(config: Config, coordinator: Coordinator) -> Self {
        let store = TaskStore::new(coordinator.tree(), &config.compaction.root);
        Self { config, coordinator, store }
    }

    /// The present units; none before the first unit has ever started. Writes nothing.
    pub(super) async fn units(&self) -> Result<Units> {
        if self.coordinator.tree().get(&self.store.paths.nodes()).await?.is_none() {
            return Ok(Units::default());
        }
        current_units(follow(&self.coordinator, &self.store.paths.nodes())).await
    }

    /// The unit that is the monitor; `None` if there is none.
    pub(super) async fn monitor(&self) -> Result<Option<String>> {
        // The first candidate in the election is the leader. Reading the election does not join it.
        Ok(self.coordinator.leader(&self.store.paths.election()).await?)
    }

    pub(super) async fn close(self, outcome: Result<Outcome>) -> Result<Outcome> {
        self.coordinator.close().await;
        outcome
    }
}

/// Waits until the units were read. They are not read while there is no connection, or while a node cannot be read.
async fn current_units(mut units: watch::Receiver<Units>) -> Result<Units> {
    let Ok(Ok(units)) = tokio::time::timeout(PATIENCE, units.wait_for(|units| units.current)).await else {
        return Err(allot_coordination::Error::Offline).context("the units could not be read");
    };
    Ok(units.clone())
}

pub(super) fn gone(id: TaskId) -> Fault {
    Fault::Refused(format!(
        "task {id} is not there; allot compaction history {id} looks among the packed ones"
    ))
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
