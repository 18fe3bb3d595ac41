//! `allot compaction set`: changes the options of an unfinished task.

use anyhow::{Error, Result};
use clap::Args;

use super::submit::{span, timeout, window};
use super::task_client::{Common, TaskClient};
use super::views;
use super::words::{parsed, wrong};
use crate::outcome::Outcome;
use allot_compaction::ids::TaskId;
use allot_compaction::task::MainTask;
use allot_compaction::task_store::options::Change;
use allot_console::TaskChange;

/// The value of --window that removes the window.
const ANY: &str = "any";

/// The command line of a change.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    wanted: TaskChange,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Changes the task, and prints it.
pub(super) async fn run(client: &TaskClient, arguments: &Arguments) -> Result<Outcome> {
    let (id, change) = check(&arguments.wanted)?;
    client.store.set(id, &change).await?;
    views::show(client, id, arguments.common.json).await
}

/// Changes a task with these words of a command line. Returns the task as it is now.
///
/// # Errors
/// A refusal if the words themselves are wrong.
pub(super) async fn set_words(client: &TaskClient, words: &[String]) -> Result<MainTask> {
    let (id, change) = check(&parsed(words)?).map_err(|error| wrong(&error))?;
    Ok(client.store.set(id, &change).await?)
}

/// The task, and the options whose text was read.
fn check(wanted: &TaskChange) -> Result<(TaskId, Change)> {
    let id = wanted.id.parse().map_err(Error::msg)?;
    let window = match wanted.window.as_deref() {
        None => None,
        Some(ANY) => Some(None),
        Some(text) => Some(Some(window(text, wanted.time_zone.as_deref()).map_err(Error::msg)?)),
    };
    let change = Change {
        priority: wanted.priority,
        limit: wanted.limit,
        window,
        timeout: span(wanted.timeout.as_deref())?.map(timeout).transpose()?,
        retries: wanted.retries,
    };
    Ok((id, change))
}
