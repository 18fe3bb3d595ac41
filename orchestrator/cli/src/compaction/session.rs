//! The connection of the commands on tasks.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::sources::TreeSource;
use allot_compaction::TaskClient;
use allotd::coordination::coordinator;

/// Time limit for a command to connect to ZooKeeper.
const PATIENCE: Duration = Duration::from_secs(15);

/// The options of every command.
#[derive(Debug, Args)]
pub(crate) struct Common {
    #[command(flatten)]
    source: TreeSource,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
}

/// Connects to ZooKeeper.
pub(super) async fn open(common: &Common) -> Result<TaskClient> {
    let config = common.source.config()?;
    let Some(zookeeper) = &config.zookeeper else {
        bail!(
            "no ZooKeeper is configured: give --zookeeper-servers, ALLOT_ZOOKEEPER, or zookeeper.servers in a file"
        );
    };
    let coordinator = coordinator(&config, false);
    let up = coordinator.up_within(PATIENCE).await;
    up.with_context(|| format!("no session with ZooKeeper at {}", zookeeper.servers))?;
    Ok(TaskClient::new(coordinator, config.compaction))
}
