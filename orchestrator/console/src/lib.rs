//! The web console: one page for operators, and the HTTP API under it.
//!
//! The console keeps no state of its own. Everything that it shows is read from Redis and ZooKeeper, and everything that
//! an operator does is a command of a family or a change of the task store. `feed` has one reader for each key that
//! browsers look at, however many browsers look. `api` has the endpoints, `security` decides who may call them, and
//! `server` has the listener with its limits.
//!
//! docs/console.md describes the behaviour.

#![warn(clippy::disallowed_types)]

mod api;
mod assets;
mod command_words;
mod feed;
mod numbers;
mod operations;
mod problem;
mod router;
mod security;
mod server;
mod settings;
mod sources;
mod state;
mod store;
mod submission;
mod task_change;
mod task_view;
mod values;

use anyhow::Result;
use tracing::info;

pub use command_words::words;
pub use operations::{Import, Imported, Operations, Refusal};
pub use settings::{Places, Section, Settings};
use state::Console;
pub use submission::Submission;
pub use task_change::TaskChange;

/// Name of the role in probes and metrics.
const PART: &str = "console";

/// Serves the console until the process shuts down.
///
/// # Errors
/// The settings are refused, or the address cannot be listened on.
pub async fn run(
    process: allot_runtime::Context,
    mut settings: Settings,
    places: Places,
    operations: Box<dyn Operations>,
) -> Result<()> {
    settings.check()?;
    let mut shutdown = process.shutdown.clone();
    let health = process.health.clone();
    let listener = server::Listener::bind(&settings).await?;
    settings.listen = listener.address;
    info!(address = settings.address(), "console by HTTP");
    let console = Console::new(process, settings, places, operations);
    health.ready(PART);
    tokio::select! {
        () = listener.serve(router::router(console)) => Ok(()),
        () = shutdown.requested() => Ok(()),
    }
}
