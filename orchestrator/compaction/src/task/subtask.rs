//! The data of a subtask, and of how it ended.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The state of a subtask.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SubState {
    /// The subtask waits in its worker's inbox.
    #[default]
    Init,
    /// The subtask's runner is running.
    Running,
    /// The runner succeeded.
    Success,
    /// The runner failed, or the worker was lost too often.
    Failed,
    /// The subtask was ended, or not started, because its task was stopped.
    Stopped,
}

impl fmt::Display for SubState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A subtask at its worker.
#[allow(clippy::struct_field_names, reason = "the names of the tree, which others read")]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubTask {
    /// The task id, as text.
    #[serde(rename = "CompactTaskId")]
    pub id: String,
    /// The current state.
    #[serde(rename = "CompactTaskState")]
    pub state: SubState,
    /// Database of the table.
    pub db_name: String,
    /// Schema of the table.
    pub schema_name: String,
    /// Name of the table.
    pub table_name: String,
    /// The partition of the table.
    pub partition_name: String,
    /// The processing cluster whose units do the work.
    pub pc: String,
    /// The unit that runs the subtask.
    pub worker: String,
    /// The round of the main task, from 1.
    pub round: u64,
    /// Number of times that the subtask may start again.
    pub retries: u32,
    /// Number of times that the subtask has started again, from 0.
    pub attempt: u32,
    /// Number of starts of the subtask at any unit, with any result.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub starts: u32,
    /// How often a unit could not start the runner, which uses up no retry.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refusals: u32,
    /// The unit at which the partition has failed in this round, and which does not run it again while there is another;
    /// empty if it has not failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub avoid: String,
    /// Start of the runner, in milliseconds since 1970; 0 before.
    pub started: u64,
    /// The time limit of the run in milliseconds; 0 if it is not known.
    pub limit: u64,
    /// The partition's file with all links resolved, while the subtask runs and if the worker lists a directory; empty
    /// otherwise. Its lock is that of the file.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub file: String,
    /// The permits that the subtask holds while it runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permits: Vec<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl SubTask {
    /// Database, schema and table.
    pub fn table(&self) -> [&str; 3] {
        [&self.db_name, &self.schema_name, &self.table_name]
    }

    /// The same subtask, waiting at another worker or again at this one; `None` if it may not start again. A retry is
    /// used up only if the subtask was running and `counted` is true.
    pub fn again(&self, worker: &str, counted: bool) -> Option<Self> {
        let begun = counted && self.state == SubState::Running;
        if begun && self.attempt >= self.retries {
            return None;
        }
        let attempt = self.attempt + u32::from(begun);
        let (state, worker) = (SubState::Init, worker.to_owned());
        Some(Self {
            state,
            worker,
            attempt,
            started: 0,
            file: String::new(),
            permits: Vec::new(),
            ..self.clone()
        })
    }

    /// The outcome of this subtask with this state and message, ended now.
    pub fn ended(&self, state: SubState, message: &str) -> Ended {
        Ended {
            state,
            partition: self.partition_name.clone(),
            worker: self.worker.clone(),
            attempt: self.attempt,
            exit: None,
            message: message.to_owned(),
            output: String::new(),
            result: None,
            started: self.started,
            finished: allot_runtime::time::now_ms(),
        }
    }
}

/// The end of a subtask.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// The current state.
    pub state: SubState,
    /// The partition of the table.
    pub partition: String,
    /// The unit that runs the subtask.
    pub worker: String,
    /// Number of times that the subtask had started again, from 0.
    pub attempt: u32,
    /// The runner's exit code; `None` if a signal ended it or it did not run.
    pub exit: Option<i32>,
    /// The reason, for people; empty on success.
    pub message: String,
    /// The last KiB of the runner's output.
    pub output: String,
    /// The last line of its standard output, if it is a JSON object.
    pub result: Option<Map<String, Value>>,
    /// Start of the subtask, in milliseconds since 1970; 0 before.
    pub started: u64,
    /// End of the subtask, in milliseconds since 1970; 0 before.
    pub finished: u64,
}
