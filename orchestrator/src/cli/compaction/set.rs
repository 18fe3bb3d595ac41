//! `allotd compaction set`: changes the options of an unfinished task.

use anyhow::{Error, Result};
use clap::Args;

use super::submit::{timeout, window};
use super::task_client::{Common, TaskClient};
use super::views;
use crate::cli::outcome::Outcome;
use crate::config::Span;
use allot_compaction::ids::TaskId;
use allot_compaction::task_store::options::Change;

/// The value of --window that removes the window.
const ANY: &str = "any";

/// The options that can be changed.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
pub(crate) struct Arguments {
    /// The task.
    task: TaskId,
    /// Subtasks of tasks with a higher priority start first.
    #[arg(long, allow_negative_numbers = true, group = "change")]
    priority: Option<i32>,
    /// Subtasks that run at once, at most; 0 for any number.
    #[arg(long, value_parser = clap::value_parser!(u32).range(..=1_000_000), group = "change")]
    limit: Option<u32>,
    /// Time of day in which subtasks may start, e.g. 22:00-06:00; any for the whole day.
    #[arg(long, value_name = "FROM-TO", group = "change")]
    window: Option<String>,
    /// Time zone of the window, e.g. Europe/Berlin [default: this machine's]
    #[arg(long, alias = "zone", requires = "window")]
    time_zone: Option<String>,
    /// Time limit of each runner; whole seconds, 0s for compaction.timeout of the unit.
    #[arg(long, value_name = "DURATION", group = "change")]
    timeout: Option<Span>,
    /// Times that a subtask starts again after its worker was lost; for the subtasks of the next wave.
    #[arg(long, group = "change")]
    retries: Option<u32>,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Changes the task, and prints it.
pub(super) async fn run(client: &TaskClient, arguments: &Arguments) -> Result<Outcome> {
    let window = match arguments.window.as_deref() {
        None => None,
        Some(ANY) => Some(None),
        Some(text) => Some(Some(window(text, arguments.time_zone.as_deref()).map_err(Error::msg)?)),
    };
    let change = Change {
        priority: arguments.priority,
        limit: arguments.limit,
        window,
        timeout: arguments.timeout.map(timeout).transpose()?,
        retries: arguments.retries,
    };
    client.store.set(arguments.task, &change).await?;
    views::show(client, arguments.task, arguments.common.json).await
}
