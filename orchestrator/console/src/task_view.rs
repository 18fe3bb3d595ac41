//! Tasks of compaction as the page and the API show them: with the names of this program, not those of their nodes in
//! ZooKeeper.

use std::collections::BTreeMap;

use allot_compaction::task::{EntryKind, Failure, MainTask};
use serde::Serialize;
use utoipa::ToSchema;

/// A task, or one round of a repeated task.
#[derive(Debug, Serialize, ToSchema)]
#[allow(clippy::struct_excessive_bools, reason = "they are independent")]
pub(crate) struct TaskView {
    id: String,
    /// Database, schema and table.
    table: String,
    state: String,
    /// Whether it has ended.
    over: bool,
    paused: bool,
    /// Whether it is being stopped.
    stopping: bool,
    priority: i32,
    /// Subtasks that run at once, at most; 0 for any number.
    limit: u32,
    /// The window in which subtasks may start, with its time zone; null for the whole day.
    window: Option<String>,
    /// The times at which rounds begin, as a cron expression with its time zone; null if there are none.
    schedule: Option<String>,
    /// Seconds from the end of a round to the beginning of the next, without a schedule.
    every: u64,
    /// Rounds in all; 0 until the task is stopped.
    rounds: u64,
    /// Rounds that have ended.
    ended_rounds: u64,
    /// When the next round begins, in milliseconds since 1970; 0 if that is not known.
    next_at: u64,
    /// When the current or last round began, in milliseconds since 1970; 0 before the first.
    round_started: u64,
    /// Whether the current round has not ended.
    round_runs: bool,
    /// How many times failed partitions of a round run again.
    retry_failed: u32,
    /// The task whose current or last round must have ended well when a round of this one begins; null if there is none.
    follows: Option<String>,
    /// Time limit of each runner in seconds; 0 for that of the unit's settings.
    timeout: u64,
    /// Times that a subtask starts again after its worker was lost.
    retries: u32,
    manager: String,
    pc: String,
    /// The current or last round, or the one that this is the record of.
    round: u64,
    /// `round` if this is the record of one round, and `task` otherwise.
    kind: EntryKind,
    /// Partitions of the round, and how many of them succeeded, failed and were stopped.
    all: u64,
    done: u64,
    failed: u64,
    stopped: u64,
    /// Why it does not go on, or ended; empty if there is no reason.
    error: String,
    /// Milliseconds since 1970; 0 if it did not happen yet.
    created: u64,
    started: u64,
    finished: u64,
    /// Sums of the numbers that runners reported, by name.
    sums: BTreeMap<String, f64>,
    /// The last failures; absent if there are none, and in the state that live values have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failures: Vec<Failure>,
}

impl From<&MainTask> for TaskView {
    fn from(task: &MainTask) -> Self {
        Self { failures: task.failures.clone(), ..Self::without_failures(task) }
    }
}

impl TaskView {
    /// A task without the list of its failures.
    pub(crate) fn without_failures(task: &MainTask) -> Self {
        Self {
            id: task.id.clone(),
            table: task.table().join("."),
            state: task.state.to_string(),
            over: task.state.is_over(),
            paused: task.paused,
            stopping: task.cancelling,
            priority: task.priority,
            limit: task.limit,
            window: task.window.as_ref().map(ToString::to_string),
            schedule: task.schedule.as_ref().map(ToString::to_string),
            every: task.repeat.repeat_interval,
            rounds: task.repeat.repeat_count,
            ended_rounds: task.ended_rounds(),
            next_at: task.begins_at(),
            round_started: task.round_started,
            round_runs: task.is_round_open(),
            retry_failed: task.retry.limit,
            follows: task.follows.clone(),
            timeout: task.timeout,
            retries: task.retries,
            manager: task.manager.clone(),
            pc: task.pc.clone(),
            round: task.round,
            kind: task.kind,
            all: task.round_size(),
            done: task.result.success_count,
            failed: task.result.failed_count,
            stopped: task.result.stopped_count,
            error: task.error.clone(),
            created: task.created,
            started: task.started,
            finished: task.finished,
            sums: task.sums.clone(),
            failures: Vec::new(),
        }
    }
}
