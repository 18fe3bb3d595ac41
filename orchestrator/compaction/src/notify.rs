//! Notifications: what people should hear of a task goes to the program `compaction.notify`, as JSON on its standard input.
//! The program is run again if it fails, and nothing waits for it.

use std::process::Stdio;
use std::time::Duration;

use allot_runtime::child::program::command_with_parent_death_signal;
use allot_runtime::time::now_ms;
use serde::Serialize;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tracing::warn;

use crate::task::{MainTask, write};

/// Most notifications that wait for the program. Further ones are lost.
const QUEUE: usize = 1000;
/// Time limit of the program.
const LIMIT: Duration = Duration::from_secs(30);
/// How often the program is run for one notification, if it fails.
const ATTEMPTS: u32 = 6;
/// Pause before the program is run again. Each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// A round that begins so long after its time, in milliseconds, is late.
pub(crate) const LATE: u64 = 300_000;

/// What a notification is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Event {
    /// A task is done or cancelled.
    TaskEnded,
    /// A round had failed partitions, or could not list its partitions, and the task goes on.
    RoundFailed,
    /// A round begins late.
    RoundLate,
}

/// The JSON that the program gets. Times are in milliseconds since 1970.
#[derive(Debug, Serialize)]
struct Notification<'a> {
    event: Event,
    time: u64,
    node: &'a str,
    task: &'a str,
    db: &'a str,
    schema: &'a str,
    table: &'a str,
    state: String,
    round: u64,
    succeeded: u64,
    failed: u64,
    stopped: u64,
    /// The reason; empty if there is none.
    why: &'a str,
    /// By how much the round is late, in milliseconds; 0 if it is not.
    late_ms: u64,
}

/// The notification of people about a task as it is now, from this node. `due` is the time of the round in milliseconds
/// since 1970 if that is what it is about, else 0.
pub(crate) fn notification(event: Event, node: &str, task: &MainTask, due: u64) -> Vec<u8> {
    let [db, schema, table] = task.table();
    let time = now_ms();
    write(&Notification {
        event,
        time,
        node,
        task: &task.id,
        db,
        schema,
        table,
        state: task.state.to_string(),
        round: task.round,
        succeeded: task.result.success_count,
        failed: task.result.failed_count,
        stopped: task.result.stopped_count,
        why: &task.error,
        late_ms: if due == 0 { 0 } else { time.saturating_sub(due) },
    })
}

/// Starts to run this program for each notification.
pub(crate) fn start(program: &[String]) -> mpsc::Sender<Vec<u8>> {
    let (queue, mut waiting) = mpsc::channel::<Vec<u8>>(QUEUE);
    let program = program.to_vec();
    tokio::spawn(async move {
        while let Some(notification) = waiting.recv().await {
            pass_on(&program, &notification).await;
        }
    });
    queue
}

/// Runs the program until it has taken the notification, or has failed too often.
async fn pass_on(program: &[String], notification: &[u8]) {
    let mut pause = FIRST_PAUSE;
    for attempt in 1..=ATTEMPTS {
        let why = match timeout(LIMIT, run(program, notification)).await {
            Ok(Ok(())) => return,
            Ok(Err(why)) => why,
            Err(_) => format!("it took longer than {} s", LIMIT.as_secs()),
        };
        warn!(program = program.first(), attempt, why, "the program compaction.notify failed");
        if attempt < ATTEMPTS {
            sleep(pause).await;
            pause *= 2;
        }
    }
}

async fn run(program: &[String], notification: &[u8]) -> Result<(), String> {
    let start = || {
        let mut command = command_with_parent_death_signal(program)?;
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).spawn()
    };
    let mut child = start().map_err(|error| error.to_string())?;
    if let Some(mut input) = child.stdin.take() {
        // A program need not read its input: its exit code says whether it has succeeded.
        let _ = input.write_all(notification).await;
    }
    match child.wait().await {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(status.to_string()),
        Err(error) => Err(error.to_string()),
    }
}
