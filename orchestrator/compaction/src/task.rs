//! The data of tasks in ZooKeeper: JSON with the field names that version 1 and its readers use.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::fault::Fault;
use super::ids::TaskId;
use super::schedule::Schedule;
use super::window::Window;
pub use subtask::{Ended, SubState, SubTask};

mod round;
mod subtask;

/// How many times a listing that failed is repeated, if a submission does not say: for about ten minutes.
pub(crate) const LIST_RETRIES: u32 = 15;

/// The state of a main task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// Submitted; nothing of it is assigned yet.
    #[default]
    Init,
    /// The task has started.
    Assigned,
    /// The task has finished all rounds.
    Done,
    /// The task was stopped, or could not go on.
    Cancel,
}

impl State {
    /// Whether the task has ended.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Cancel)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What an entry of the history is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum EntryKind {
    /// A task.
    #[default]
    Task,
    /// One ended round of a repeated task.
    Round,
}

impl EntryKind {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
    fn is_task(&self) -> bool {
        *self == Self::Task
    }
}

/// The repetition of a task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RepeatInfo {
    /// Rounds in all; 0 = until stopped.
    pub repeat_count: u64,
    /// Seconds between the end of a round and the beginning of the next.
    pub repeat_interval: u64,
}

/// Number of subtasks that have ended, by outcome.
#[allow(clippy::struct_field_names, reason = "the names of the tree, which others read")]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResultInfo {
    /// Subtasks that succeeded.
    pub success_count: u64,
    /// Subtasks that failed.
    pub failed_count: u64,
    /// Subtasks that were stopped.
    pub stopped_count: u64,
}

impl ResultInfo {
    /// All ended subtasks.
    pub fn all(self) -> u64 {
        self.success_count.saturating_add(self.failed_count).saturating_add(self.stopped_count)
    }

    /// The sum of both.
    fn plus(self, other: Self) -> Self {
        Self {
            success_count: self.success_count.saturating_add(other.success_count),
            failed_count: self.failed_count.saturating_add(other.failed_count),
            stopped_count: self.stopped_count.saturating_add(other.stopped_count),
        }
    }

    fn count(&mut self, state: SubState) {
        let count = match state {
            SubState::Success => &mut self.success_count,
            SubState::Stopped => &mut self.stopped_count,
            SubState::Failed | SubState::Init | SubState::Running => &mut self.failed_count,
        };
        *count = count.saturating_add(1);
    }
}

/// A list that is stored in chunks of bounded size, each in a node below the task: the partitions of a round, or the
/// failures of a round.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkedList {
    /// The prefix of the chunks' names. A replaced manager uses another prefix, so its leftover chunks are never
    /// mistaken for these. The failures of a round have the prefix of its partitions.
    pub tag: String,
    /// Number of chunks.
    pub chunks: u64,
    /// Number of entries.
    pub count: u64,
}

impl ChunkedList {
    /// The name of a chunk, from 0.
    pub fn chunk(&self, number: u64) -> String {
        format!("{}.{number:06}", self.tag)
    }
}

/// A partition in the list of a round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Partition {
    /// A partition that has not run in this round.
    First(String),
    /// A partition that has failed in this round, and the unit where.
    Failed(String, String),
}

impl Partition {
    /// The partition's name.
    pub fn name(&self) -> &str {
        let (Self::First(name) | Self::Failed(name, _)) = self;
        name
    }

    /// The unit at which the partition has failed; empty if it has not.
    pub fn failed_at(&self) -> &str {
        match self {
            Self::First(_) => "",
            Self::Failed(_, unit) => unit,
        }
    }
}

/// How often the failed partitions of a round run again, and what has been done of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RetryInfo {
    /// How many times the failed partitions of a round run again.
    pub limit: u32,
    /// Seconds before the first of these times. Each further delay is twice as long as the one before; all have jitter.
    pub delay: u64,
    /// How many times the failed partitions of this round have run again or are due to.
    pub done: u32,
    /// The time at which they run again, in milliseconds since 1970; 0 if they do not.
    pub at: u64,
    /// Outcomes of the round from before its failed partitions ran again, without the failures that ran again.
    pub counted: u64,
}

/// A subtask that failed, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Failure {
    /// The task id, as text.
    pub id: String,
    /// The partition of the table.
    pub partition: String,
    /// The unit that runs the subtask.
    pub worker: String,
    /// The reason of the failure, for people.
    pub message: String,
    /// The last KiB of the runner's output.
    pub output: String,
}

/// A main task. Times are milliseconds since 1970, 0 for never.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MainTask {
    /// The task id, as text.
    #[serde(rename = "CompactTaskId")]
    pub id: String,
    /// The current state.
    #[serde(rename = "CompactTaskState")]
    pub state: State,
    /// The repetition of the task.
    #[serde(rename = "RepeatInfo")]
    pub repeat: RepeatInfo,
    /// The outcomes of the current or last round.
    #[serde(rename = "ResultInfo")]
    pub result: ResultInfo,
    /// Database of the table.
    pub db_name: String,
    /// Schema of the table.
    pub schema_name: String,
    /// Name of the table.
    pub table_name: String,
    /// The unit that manages the task.
    pub manager: String,
    /// The processing cluster whose units do the work.
    pub pc: String,
    /// Number of times that a subtask may start again after its worker was lost.
    pub retries: u32,
    /// The current or last round, from 1; 0 before the first.
    pub round: u64,
    /// When the next round is due, in milliseconds since 1970; 0 if it is not known.
    pub next_at: u64,
    /// Number of partitions of the round that have been assigned.
    pub cursor: u64,
    /// Start of the current or last round, in milliseconds since 1970; 0 before the first.
    #[serde(default)]
    pub round_started: u64,
    /// The outcomes of all earlier rounds.
    pub totals: ResultInfo,
    /// The sums of numbers that runners gave as their results, over all rounds.
    pub sums: BTreeMap<String, f64>,
    /// The sums of all earlier rounds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub earlier_sums: BTreeMap<String, f64>,
    /// Submission of the task, in milliseconds since 1970.
    pub created: u64,
    /// Start of the task, in milliseconds since 1970; 0 before.
    pub started: u64,
    /// End of the task, in milliseconds since 1970; 0 before.
    pub finished: u64,
    /// Whether the task must be stopped.
    pub cancelling: bool,
    /// The reason that the task was cancelled or cannot go on; empty otherwise.
    pub error: String,
    /// The partitions of the current round; `None` between two rounds.
    pub listing: Option<ChunkedList>,
    /// How many times a listing of partitions that failed is repeated before its round fails.
    pub list_retries: u32,
    /// Number of partitions that the first generation has compacted and that the first round leaves out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub succeeded_before: u64,
    /// How many listings of the next round's partitions have failed.
    pub list_failed: u32,
    /// When the partitions are listed again after that, in milliseconds since 1970; 0 if no listing has failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub list_at: u64,
    /// Number of partitions in the last list that was not empty; 0 if there was none.
    pub listed: u64,
    /// Whether a list may be empty although an earlier one was not.
    pub allow_empty: bool,
    /// Number of rounds that failed because their partitions could not be listed.
    pub failed_rounds: u64,
    /// The partitions that were named in the submission; empty if they are listed again for each round.
    pub named: Vec<String>,
    /// Subtasks of tasks with a higher priority start first.
    pub priority: i32,
    /// Whether the task is paused: no further subtask starts.
    pub paused: bool,
    /// The daily window in which subtasks may start; `None` for any time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// The most subtasks of the task that run at once; 0 for any number.
    pub limit: u32,
    /// Time limit of each runner, in seconds; 0 for that of the worker's settings.
    pub timeout: u64,
    /// The times at which rounds begin; `None` if the interval alone decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    /// Partitions with a lower score are left out; `None` for all partitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_score: Option<f64>,
    /// The most partitions of a round, those with the highest scores; 0 for all.
    pub budget: u64,
    /// The id of a task on the same table that must end first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The id of a task whose current or last round must have ended well when a round of this one begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<String>,
    /// Number of subtasks of all earlier rounds together.
    pub first: u64,
    /// The last failures of the current or last round. The log has all of them.
    pub failures: Vec<Failure>,
    /// The log of the failures of the current or last round.
    pub failure_log: ChunkedList,
    /// The repetition of failed partitions.
    pub retry: RetryInfo,
    /// Whether this is the task itself or the record of one ended round.
    #[serde(default, skip_serializing_if = "EntryKind::is_task")]
    pub kind: EntryKind,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl MainTask {
    /// The subtask that compacts this partition, waiting at this worker.
    pub fn subtask(&self, id: TaskId, partition: &str, worker: &str) -> SubTask {
        SubTask {
            id: id.to_string(),
            db_name: self.db_name.clone(),
            schema_name: self.schema_name.clone(),
            table_name: self.table_name.clone(),
            partition_name: partition.to_owned(),
            pc: self.pc.clone(),
            worker: worker.to_owned(),
            round: self.round,
            retries: self.retries,
            ..SubTask::default()
        }
    }

    /// A task that is submitted now, for one round.
    pub fn new(id: TaskId, table: [String; 3], manager: String, pc: String) -> Self {
        let [db_name, schema_name, table_name] = table;
        Self {
            id: id.to_string(),
            repeat: RepeatInfo { repeat_count: 1, repeat_interval: 0 },
            db_name,
            schema_name,
            table_name,
            manager,
            pc,
            retries: 1,
            list_retries: LIST_RETRIES,
            created: allot_runtime::time::now_ms(),
            ..Self::default()
        }
    }

    /// The task whose round must have ended well when a round of this one begins.
    pub(crate) fn followed(&self) -> Option<TaskId> {
        self.follows.as_ref().and_then(|id| id.parse().ok())
    }

    /// Database, schema and table.
    pub fn table(&self) -> [&str; 3] {
        [&self.db_name, &self.schema_name, &self.table_name]
    }

    /// Whether the task has more than one round.
    pub fn repeats(&self) -> bool {
        self.repeat.repeat_count != 1
    }

    /// The hashing key of a partition of this task.
    pub fn key(&self, partition: &str) -> String {
        let [db, schema, table] = self.table();
        [db, schema, table, partition].join("\u{1f}")
    }

    /// Number of partitions that are listed now: those of the current round, or those of them that run again.
    pub fn count(&self) -> u64 {
        self.listing.as_ref().map_or(0, |listing| listing.count)
    }

    /// Number of subtasks that are assigned and not counted yet.
    pub fn outstanding(&self) -> u64 {
        self.cursor.saturating_add(self.retry.counted).saturating_sub(self.result.all())
    }

    /// Number of partitions of the current or last round.
    pub fn round_size(&self) -> u64 {
        self.count().saturating_add(self.retry.counted).max(self.result.all())
    }

    /// Whether this is the record of one ended round.
    pub fn is_round(&self) -> bool {
        self.kind == EntryKind::Round
    }

    /// Whether the current round has not ended.
    pub fn is_round_open(&self) -> bool {
        self.listing.is_some() || self.retry.at > 0
    }

    /// The time before which the next round does not begin, in milliseconds since 1970: when it is due, or its partitions
    /// are listed again. 0 if that is not known.
    pub fn begins_at(&self) -> u64 {
        self.next_at.max(self.list_at)
    }

    /// Number of rounds that have ended.
    pub fn ended_rounds(&self) -> u64 {
        self.round.saturating_sub(self.is_round_open().into())
    }

    /// The outcomes of all rounds.
    pub fn grand_total(&self) -> ResultInfo {
        self.totals.plus(self.result)
    }
}

/// Serialises a value as JSON.
pub fn write<T: Serialize>(value: &T) -> Vec<u8> {
    // Serialising strings, numbers, lists and maps with text keys cannot fail.
    serde_json::to_vec(value).unwrap_or_default()
}

/// Parses JSON; `path` is named in the error.
pub fn read<T: for<'a> Deserialize<'a>>(path: &str, data: &[u8]) -> Result<T, Fault> {
    serde_json::from_slice(data)
        .map_err(|error| Fault::Corrupt(format!("{path} does not read as a task: {error}")))
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
