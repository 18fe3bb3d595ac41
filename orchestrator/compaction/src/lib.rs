//! Compaction: tasks for tables, split into a subtask for each partition, spread over the units, followed to their
//! end. What is so stands in the tree (`board`); `worker`, `manager` and `monitor` are loops that compare what should
//! be with what is. The compacting itself is an operator's program, behind a `guard`.

pub mod board;
mod gate;
mod guard;
pub mod hashing;
pub mod history;
pub mod ids;
pub mod legacy;
mod manager;
mod monitor;
pub mod node;
mod partitions;
pub mod paths;
pub mod permits;
mod runner;
mod settings;
#[cfg(test)]
mod simulation;
pub mod task;
pub mod upgrade;
pub mod window;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use allot_coordination::{Coordinator, Presence};
use allot_runtime::time::now_ms;
use allot_runtime::{Health, Shutdown};

use board::Board;
use node::NodeInfo;
use runner::{Guarded, Launch};

pub use board::Fault;
pub use guard::run as run_guard;
pub use settings::Settings;

/// The name of this part in logs and probes.
const PART: &str = "compaction";
/// How long a loop rests after a fault that may pass.
const PAUSE: Duration = Duration::from_millis(100);

/// What the loops of a unit share.
#[derive(Clone)]
struct Part {
    coordinator: Coordinator,
    health: Health,
    stop: Shutdown,
    config: Settings,
    /// The unit: `<host>_<port>`.
    name: String,
    /// How runners begin.
    launch: Arc<dyn Launch>,
}

impl Part {
    fn board(&self) -> Board {
        Board::new(self.coordinator.tree(), &self.config.root)
    }

    fn session_timeout(&self) -> Duration {
        self.coordinator.session_timeout().or(self.config.session).unwrap_or(Duration::from_secs(4))
    }
}

/// Runs a compaction unit until the process is asked to end.
///
/// # Errors
/// The settings name no unit.
pub async fn run(coordinator: Coordinator, health: Health, stop: Shutdown, settings: Settings) -> Result<()> {
    let name = settings.node.clone().context("compaction.node is not set")?;
    let launch = Arc::new(Guarded::new());
    play(Part { coordinator, health, stop, config: settings, name, launch }).await
}

async fn play(part: Part) -> Result<()> {
    let board = part.board();
    let mut stop = part.stop.clone();
    // The inbox stands before the unit is seen, since only who is seen is given anything.
    while let Err(fault) = make(&board, &part.name).await {
        tracing::debug!(%fault, "the tree cannot be prepared now");
        tokio::select! { () = tokio::time::sleep(PAUSE) => {}, () = stop.requested() => return Ok(()) }
    }
    let info = NodeInfo {
        pc: part.config.pc.clone(),
        slots: part.config.slots,
        limit: part.config.limit,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started: now_ms(),
    };
    let coordinator = &part.coordinator;
    let membership =
        coordinator.join(&board.paths.nodes(), &paths::encode(&part.name), &serde_json::to_vec(&info)?);
    let units = node::follow(coordinator, &board.paths.nodes());
    let (notices, noticed) = mpsc::channel(64);
    let mut loops = JoinSet::new();
    loops.spawn(manager::run(part.clone(), noticed, units.clone()));
    loops.spawn(monitor::run(part.clone(), units.clone()));
    let mut work = JoinSet::new();
    work.spawn(worker::run(part.clone(), notices));
    let mut ticks = tokio::time::interval(Duration::from_millis(250));
    while !stop.is_requested() {
        tokio::select! { _ = ticks.tick() => {}, () = stop.requested() => break }
        match membership.presence() {
            Presence::Present => part.health.ready(PART),
            Presence::Away => {
                part.health.not_ready(PART, "not among the units: no session with ZooKeeper");
            }
            Presence::Taken => {
                let why =
                    format!("another unit is there as {}; each needs its own compaction.node", part.name);
                part.health.not_ready(PART, why);
            }
        }
    }
    // What runs is put back first: who has left counts as lost a session time later, and what it ran as failed.
    while work.join_next().await.is_some() {}
    membership.leave().await;
    while loops.join_next().await.is_some() {}
    Ok(())
}

async fn make(board: &Board, name: &str) -> Result<(), Fault> {
    board.prepare().await?;
    Ok(board.tree.ensure(&board.paths.inbox(name)).await?)
}

/// Ends with what is waited for, or never where nothing is.
pub(crate) async fn event<T>(awaited: Option<impl Future<Output = T>>) -> T {
    match awaited {
        Some(awaited) => awaited.await,
        None => std::future::pending().await,
    }
}
