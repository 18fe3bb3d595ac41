//! A compaction unit: joins the cluster, and runs worker, manager and monitor until the process shuts down.

use std::sync::Arc;
use std::time::Duration;

use allot_coordination::{Coordinator, Presence};
use allot_runtime::time::now_ms;
use allot_runtime::{Health, Shutdown};
use anyhow::{Context as _, Result};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::node::{self, NodeInfo};
use super::node_context::{NodeContext, PAUSE};
use super::runner::SupervisedLaunch;
use super::settings::Settings;
use super::task_store::{Fault, TaskStore};
use super::watch_sessions::{OpenSession, WatchSessions};
use super::{manager, monitor, paths, worker};

/// The name of this role in logs and health checks.
const PART: &str = "compaction";

/// Runs a compaction unit until the process shuts down. `open` opens a further session of the coordinator's kind: the unit
/// spreads the watches of many tasks over sessions.
///
/// # Errors
/// The settings name no unit.
pub async fn run(
    coordinator: Coordinator,
    open: Option<OpenSession>,
    health: Health,
    stop: Shutdown,
    settings: Settings,
) -> Result<()> {
    let name = settings.node.clone().context("compaction.node is not set")?;
    let launch = Arc::new(SupervisedLaunch::new());
    let watch_sessions = WatchSessions::new(open);
    run_unit(NodeContext { coordinator, watch_sessions, health, stop, config: settings, name, launch }).await
}

pub(crate) async fn run_unit(node_context: NodeContext) -> Result<()> {
    let store = node_context.store();
    let mut stop = node_context.stop.clone();
    // The inbox must exist before the unit joins, since other units assign work to members only.
    while let Err(fault) = create_inbox(&store, &node_context.name).await {
        tracing::debug!(%fault, "cannot create the nodes of this unit; retrying");
        tokio::select! { () = tokio::time::sleep(PAUSE) => {}, () = stop.requested() => return Ok(()) }
    }
    let info = NodeInfo {
        pc: node_context.config.pc.clone(),
        slots: node_context.config.slots,
        limit: node_context.config.limit,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started: now_ms(),
    };
    let coordinator = &node_context.coordinator;
    let membership = coordinator.join(
        &store.paths.nodes(),
        &paths::encode(&node_context.name),
        &serde_json::to_vec(&info)?,
    );
    let units = node::follow(coordinator, &store.paths.nodes());
    let (notices, notice_receiver) = mpsc::channel(64);
    let mut loops = JoinSet::new();
    loops.spawn(manager::run(node_context.clone(), notice_receiver, units.clone()));
    loops.spawn(monitor::run(node_context.clone(), units.clone()));
    let mut work = JoinSet::new();
    work.spawn(worker::run(node_context.clone(), notices));
    let mut ticks = tokio::time::interval(Duration::from_millis(250));
    while !stop.is_requested() {
        tokio::select! { _ = ticks.tick() => {}, () = stop.requested() => break }
        match membership.presence() {
            Presence::Present => match node_context.watch_sessions.down() {
                0 => node_context.health.ready(PART),
                count => {
                    let why = format!(
                        "{count} of its sessions for watching tasks have no connection with ZooKeeper"
                    );
                    node_context.health.not_ready(PART, why);
                }
            },
            Presence::Away => {
                node_context.health.not_ready(PART, "not among the units: no session with ZooKeeper");
            }
            Presence::Taken => {
                let why = format!(
                    "another unit is there as {}; each needs its own compaction.node",
                    node_context.name
                );
                node_context.health.not_ready(PART, why);
            }
        }
    }
    // Return running subtasks first. One session timeout after a unit has left, others declare it lost and count its
    // running subtasks as failed.
    while work.join_next().await.is_some() {}
    membership.leave().await;
    while loops.join_next().await.is_some() {}
    Ok(())
}

async fn create_inbox(store: &TaskStore, name: &str) -> Result<(), Fault> {
    store.prepare().await?;
    Ok(store.tree.ensure(&store.paths.inbox(name)).await?)
}
