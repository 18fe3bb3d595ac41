//! The options of an unfinished task that can be changed: the one definition behind `allot compaction set`, the request of
//! the API, and its OpenAPI document.

use allot_compaction::ids::TaskId;
use clap::Args;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::command_words::length;

/// A change of an unfinished task. An option that is absent stays as it is.
#[derive(Debug, Args, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[command(group(clap::ArgGroup::new("change").required(true).multiple(true)))]
pub struct TaskChange {
    /// The task.
    #[arg(value_name = "TASK", value_parser = id)]
    pub id: String,
    /// Subtasks of tasks with a higher priority start first.
    #[arg(long, allow_negative_numbers = true, group = "change")]
    pub priority: Option<i32>,
    /// Subtasks that run at once, at most; 0 for any number.
    #[arg(long, value_parser = clap::value_parser!(u32).range(..=1_000_000), group = "change")]
    pub limit: Option<u32>,
    /// Time of day in which subtasks may start, e.g. 22:00-06:00; any for the whole day.
    #[arg(long, value_name = "FROM-TO", group = "change")]
    pub window: Option<String>,
    /// Time zone of the window, e.g. Europe/Berlin [default: this machine's]
    #[arg(long, alias = "zone", requires = "window")]
    pub time_zone: Option<String>,
    /// Time limit of each runner; whole seconds, 0s for compaction.timeout of the unit.
    #[arg(long, value_name = "DURATION", value_parser = length, group = "change")]
    pub timeout: Option<String>,
    /// Times that a subtask starts again after its worker was lost; for the subtasks of the next wave.
    #[arg(long, group = "change")]
    pub retries: Option<u32>,
}

/// The id of a task, as it was written.
fn id(text: &str) -> Result<String, String> {
    text.parse::<TaskId>().map(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches as _;
    use serde_json::json;

    use super::*;
    use crate::command_words::words;

    #[test]
    fn words_lead_back_to_every_option() {
        let all = json!({
            "id": "aaaaffff.16176931.56000000.0", "priority": -9, "limit": 5, "window": "22:00-06:00",
            "time_zone": "Europe/Berlin", "timeout": "30m", "retries": 2,
        });
        let wanted: TaskChange = serde_json::from_value(all.clone()).unwrap();
        let command = TaskChange::augment_args(clap::Command::new("set").no_binary_name(true));
        let matches = command.try_get_matches_from(words(&wanted).unwrap()).unwrap();
        let read = TaskChange::from_arg_matches(&matches).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), all);
    }
}
