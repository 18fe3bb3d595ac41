//! The web console: one page for operators, and the HTTP API under it.
//!
//! What the console shows is read from Redis and ZooKeeper, while a page shows it. It keeps only what they do not have:
//! what the module did by the minute (`recorder`), and what operators did (`actions`). Everything that an operator does is a command of a family or a change of the task store. `feed` has one reader for each
//! thing that browsers look at, however many browsers look. `api` has the endpoints, `security` decides who may call them,
//! and `server` has the listener with its limits.
//!
//! docs/console.md describes the behaviour.

#![warn(clippy::disallowed_types)]

mod actions;
mod alerts;
mod api;
mod assets;
mod channel;
mod feed;
mod history;
mod journal;
mod problem;
mod recorder;
mod rule;
mod security;
mod server;
mod settings;
mod shared;
mod state;
mod store;
mod task_view;
mod webhook;

use std::sync::Arc;

use allot_compaction::TaskClient;
use allot_runtime::Context;
use anyhow::Result;
use tracing::info;

pub use rule::Rule;
pub use settings::{Keys, Section, Settings};
use state::Console;

/// Name of the console in probes.
const PART: &str = "console";

/// Serves the console until the process shuts down. Without a ZooKeeper there are no tasks.
///
/// # Errors
/// The settings are refused, or the address cannot be listened on.
pub async fn run(
    process: Context,
    mut settings: Settings,
    keys: Keys,
    tasks: Option<TaskClient>,
) -> Result<()> {
    settings.check()?;
    let mut shutdown = process.shutdown;
    let listener = server::Listener::bind(&settings).await?;
    settings.listen = listener.address;
    info!(address = settings.address(), "console by HTTP");
    let console = Console::new(settings, keys, tasks)?;
    process.health.ready(PART);
    tokio::select! {
        () = listener.serve(Arc::clone(&console)) => {},
        () = recorder::record(Arc::clone(&console)) => {},
        () = alerts::watch(Arc::clone(&console)) => {},
        () = shutdown.requested() => {},
    }
    console.end().await;
    Ok(())
}
