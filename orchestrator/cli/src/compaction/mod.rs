//! `allot compaction`: the commands for people and scripts. They read and write ZooKeeper directly. No unit needs to
//! be running, except for a submission.

mod failures;
mod session;
mod submit;
mod upgrade;
mod views;

use anyhow::{Error, Result};
use clap::{Args, Subcommand};

use crate::outcome::Outcome;
use crate::terminal::write;
use allot_compaction::ids::TaskId;
use allot_compaction::{Fault, TaskChange, TaskClient};
use session::Common;

/// A task.
#[derive(Debug, Args)]
pub(crate) struct OfTask {
    /// The task.
    task: TaskId,
    #[command(flatten)]
    common: Common,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Submit a task: compact a table, each of its partitions.
    Submit(Box<submit::Arguments>),
    /// List the tasks that are not packed into history.
    List {
        /// List only unfinished tasks.
        #[arg(long)]
        live: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Show a task and its subtasks.
    Show(OfTask),
    /// Explain why a task is not running, or not finished.
    Explain(OfTask),
    /// List the partitions that failed in the current or last round of a task, each with the reason.
    Failures {
        /// The task.
        task: TaskId,
        /// The form of the list [default: table; with --json, json]
        #[arg(long, value_name = "FORMAT", conflicts_with = "json")]
        format: Option<failures::Format>,
        #[command(flatten)]
        common: Common,
    },
    /// Run the failed partitions of a finished task again.
    Retry {
        /// The task.
        task: TaskId,
        /// Wait for the end; the exit code is 1 unless every subtask succeeded.
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Stop a task: no further subtask starts, and running ones are ended.
    Stop {
        /// The task.
        task: TaskId,
        /// Wait until it has stopped.
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Pause a task: no further subtask starts, and running ones go on.
    Pause(OfTask),
    /// Resume a paused task.
    Resume(OfTask),
    /// Change options of an unfinished task. They hold for the subtasks that have not begun.
    Set {
        #[command(flatten)]
        wanted: TaskChange,
        #[command(flatten)]
        common: Common,
    },
    /// Give a task to another manager, or a waiting subtask to another worker.
    Reassign {
        /// The task, or the subtask with --subtask.
        task: TaskId,
        /// The unit [default: by hashing, another than now]
        #[arg(long, value_name = "NODE")]
        to: Option<String>,
        /// The id names a subtask.
        #[arg(long)]
        subtask: bool,
        #[command(flatten)]
        common: Common,
    },
    /// List the finished tasks, packed or not.
    History {
        /// Show only this task, with all details.
        task: Option<TaskId>,
        #[command(flatten)]
        common: Common,
    },
    /// Upgrade the tasks of version 1, or delete its tree afterwards.
    Upgrade(upgrade::Arguments),
    /// List the units.
    Nodes {
        #[command(flatten)]
        common: Common,
    },
}

/// Runs a command.
pub(crate) async fn run(command: Command) -> Result<Outcome> {
    let common = match &command {
        Command::Submit(arguments) => &arguments.common,
        Command::Upgrade(arguments) => &arguments.common,
        Command::List { common, .. }
        | Command::Show(OfTask { common, .. })
        | Command::Explain(OfTask { common, .. })
        | Command::Failures { common, .. }
        | Command::Retry { common, .. }
        | Command::Stop { common, .. }
        | Command::Pause(OfTask { common, .. })
        | Command::Resume(OfTask { common, .. })
        | Command::Set { common, .. }
        | Command::Reassign { common, .. }
        | Command::History { common, .. }
        | Command::Nodes { common } => common,
    };
    let json = common.json;
    let client = session::open(common).await?;
    let outcome = match &command {
        Command::Submit(arguments) => submit::run(&client, arguments).await,
        Command::List { live, .. } => views::list(&client, *live, json).await,
        Command::Show(OfTask { task, .. }) => views::show(&client, *task, json).await,
        Command::Explain(OfTask { task, .. }) => explain(&client, *task, json).await,
        Command::Failures { task, format, .. } => {
            let usual = if json { failures::Format::Json } else { failures::Format::Table };
            failures::list(&client, *task, format.unwrap_or(usual)).await
        }
        Command::Retry { task, wait, .. } => retry(&client, *task, *wait, json).await,
        Command::Stop { task, wait, .. } => stop(&client, *task, *wait, json).await,
        Command::Pause(OfTask { task, .. }) => pause(&client, *task, true, json).await,
        Command::Resume(OfTask { task, .. }) => pause(&client, *task, false, json).await,
        Command::Set { wanted, .. } => set(&client, wanted, json).await,
        Command::Reassign { task, to, subtask, .. } => {
            reassign(&client, *task, *subtask, to.as_deref(), json).await
        }
        Command::History { task, .. } => views::history(&client, *task, json).await,
        Command::Upgrade(arguments) => upgrade::run(&client, arguments).await,
        Command::Nodes { .. } => views::nodes(&client, json).await,
    };
    client.coordinator.close().await;
    outcome
}

async fn explain(client: &TaskClient, id: TaskId, json: bool) -> Result<Outcome> {
    let reasons = client.explain(id).await?;
    if json {
        write(&format!("{}\n", serde_json::json!({"task": id.to_string(), "reasons": reasons})))?;
    } else {
        write(&format!("{}\n", reasons.join("\n")))?;
    }
    Ok(Outcome::Done)
}

async fn retry(client: &TaskClient, id: TaskId, wait: bool, json: bool) -> Result<Outcome> {
    client.retry(id).await?;
    if wait { submit::wait(client, id, "goes on").await } else { views::show(client, id, json).await }
}

async fn set(client: &TaskClient, wanted: &TaskChange, json: bool) -> Result<Outcome> {
    let task = client.set(wanted).await?;
    views::show(client, task.id.parse().map_err(Error::msg)?, json).await
}

async fn reassign(
    client: &TaskClient,
    id: TaskId,
    subtask: bool,
    to: Option<&str>,
    json: bool,
) -> Result<Outcome> {
    if subtask == id.is_main() {
        let kind = if subtask { "a task, and no subtask" } else { "a subtask: say --subtask" };
        return Err(Fault::Wrong(format!("{id} is {kind}")).into());
    }
    client.reassign(id, to).await?;
    views::show(client, id.of_main(), json).await
}

async fn stop(client: &TaskClient, id: TaskId, wait: bool, json: bool) -> Result<Outcome> {
    client.store.stop(id).await?;
    let outcome = if wait { submit::wait(client, id, "is being stopped").await? } else { Outcome::Done };
    views::show(client, id, json).await?;
    // The user asked to stop the task, so its unfinished work is no failure. Only an interrupted wait is
    // reported.
    let over = client.store.main(id).await?.is_none_or(|main| main.task.state.is_over());
    Ok(if wait && !over { outcome } else { Outcome::Done })
}

async fn pause(client: &TaskClient, id: TaskId, paused: bool, json: bool) -> Result<Outcome> {
    client.store.pause(id, paused).await?;
    views::show(client, id, json).await
}
