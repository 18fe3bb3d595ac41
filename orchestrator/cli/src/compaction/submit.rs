//! `allot compaction submit`, and waiting for the end of a task.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use indicatif::ProgressBar;
use tokio::time::sleep;

use super::session::Common;
use crate::outcome::Outcome;
use crate::progress;
use crate::terminal::{self, errln};
use allot_compaction::ids::TaskId;
use allot_compaction::task::{MainTask, State};
use allot_compaction::{Submission, TaskClient};
use allot_coordination::{Retry, Retryable as _};

/// Interval at which a waiting command reads the task.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The command line of a submission.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    wanted: Submission,
    /// Wait for the end; the exit code is 1 unless every subtask succeeded. Ctrl-C ends the wait, not the task.
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Submits a task, and waits for its end if asked to.
pub(super) async fn run(client: &TaskClient, arguments: &Arguments) -> Result<Outcome> {
    let (id, task) = client.submit(&arguments.wanted).await?;
    if arguments.common.json {
        terminal::write(&format!(
            "{}\n",
            serde_json::json!({"task": id.to_string(), "manager": task.manager})
        ))?;
    } else {
        terminal::write(&format!("{id}\n"))?;
    }
    if arguments.wait { wait(client, id, "goes on").await } else { Ok(Outcome::Done) }
}

/// Waits for the end of a task, with a progress bar on a terminal. The outcome is `Done` if no subtask failed.
/// `otherwise` tells the user what the task does when the wait is interrupted.
pub(super) async fn wait(client: &TaskClient, id: TaskId, otherwise: &str) -> Result<Outcome> {
    let bar = progress::bar(0, "");
    let watched = tokio::select! {
        end = follow(client, id, &bar) => Some(end),
        _ = tokio::signal::ctrl_c() => None,
    };
    bar.finish_and_clear();
    let Some(task) = watched else {
        errln!("the task {otherwise}; allot compaction show {id} shows it");
        return Ok(Outcome::CheckFailed);
    };
    let task = task?;
    let total = task.grand_total();
    let why = if task.error.is_empty() { String::new() } else { format!(": {}", task.error) };
    errln!(
        "{}{why} after {} rounds: {} succeeded, {} failed, {} stopped",
        task.state,
        task.round,
        total.success_count,
        total.failed_count,
        total.stopped_count
    );
    let well = task.state == State::Done && total.failed_count == 0 && total.stopped_count == 0;
    Ok(if well { Outcome::Done } else { Outcome::CheckFailed })
}

async fn follow(client: &TaskClient, id: TaskId, bar: &ProgressBar) -> Result<MainTask> {
    loop {
        match client.task(id).await {
            Ok(task) if task.state.is_over() => return Ok(task),
            Ok(task) => {
                bar.set_message(format!("round {}", task.round));
                bar.set_length(task.round_size());
                bar.set_position(task.result.all());
            }
            Err(fault) if matches!(fault.retry(), Retry::Pause | Retry::Reread) => {}
            Err(fault) => return Err(fault.into()),
        }
        sleep(POLL_INTERVAL).await;
    }
}
