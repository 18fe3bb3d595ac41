//! The options of a submission: the one definition behind `allot compaction submit`, the request of the API, and its
//! OpenAPI document.

use clap::Args;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::command_words::length;

/// A task of compaction to submit. An option that is absent has its default.
#[derive(Debug, Args, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[command(group(clap::ArgGroup::new("zoned").args(["cron", "window"]).multiple(true)))]
pub struct Submission {
    /// Database.
    pub db: String,
    /// Schema.
    pub schema: String,
    /// Table.
    pub table: String,
    /// Only this partition; may be repeated. Without it the manager lists the partitions.
    #[arg(long = "partition", value_name = "PARTITION")]
    #[serde(default)]
    pub partitions: Vec<String>,
    /// Rounds in all; 0 until stopped [default: 1; with --cron, 0]
    #[arg(long, value_name = "COUNT", requires = "when")]
    pub repeat: Option<u64>,
    /// From the end of a round to the beginning of the next; whole seconds
    #[arg(long, value_name = "DURATION", value_parser = length, group = "when")]
    pub every: Option<String>,
    /// Begin each round, also the first, at these times: minute, hour, day of month, month, day of week, e.g. "0 2 * * *".
    /// A time at which the round before still runs is left out.
    #[arg(long, value_name = "EXPRESSION", group = "when")]
    pub cron: Option<String>,
    /// Time zone of --cron and --window, e.g. Europe/Berlin [default: this machine's]
    #[arg(long, requires = "zoned")]
    pub time_zone: Option<String>,
    /// Leave out partitions whose score is lower; the partitions program prints the scores.
    #[arg(long, value_name = "SCORE", allow_negative_numbers = true, conflicts_with = "partitions")]
    pub min_score: Option<f64>,
    /// Compact so many partitions in a round at most, those with the highest scores; 0 for all [default: 0]
    #[arg(long, value_name = "COUNT")]
    pub budget: Option<u64>,
    /// Time limit of each runner; whole seconds [default: compaction.timeout of the unit]
    #[arg(long, value_name = "DURATION", value_parser = length)]
    pub timeout: Option<String>,
    /// The unit that manages it [default: compaction.node, if a file names it; else by hashing]
    #[arg(long, value_name = "NODE")]
    pub node: Option<String>,
    /// Processing cluster [default: the unit's, or compaction.pc]
    #[arg(long)]
    pub pc: Option<String>,
    /// Times that a subtask starts again after its worker was lost [default: compaction.retries]
    #[arg(long)]
    pub retries: Option<u32>,
    /// Times that partitions which failed run again, after all others of the round [default: 0]
    #[arg(long, value_name = "TIMES")]
    pub retry_failed: Option<u32>,
    /// Time before failed partitions run again; doubled each time, and up to a quarter shorter or longer. Whole seconds
    /// [default: 1m]
    #[arg(long, value_name = "DURATION", value_parser = length, requires = "retry_failed")]
    pub retry_delay: Option<String>,
    /// If the table has an unfinished task, wait for it instead of failing.
    #[arg(long)]
    #[serde(default)]
    pub queue: bool,
    /// Subtasks of tasks with a higher priority start first [default: 0]
    #[arg(long, allow_negative_numbers = true)]
    pub priority: Option<i32>,
    /// Time of day in which subtasks may start, e.g. 22:00-06:00; subtasks that run at its end go on.
    #[arg(long, value_name = "FROM-TO")]
    pub window: Option<String>,
    /// Subtasks that run at once, at most; 0 for any number [default: 0]
    #[arg(long, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    pub limit: Option<u32>,
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches as _;
    use serde_json::json;

    use super::*;
    use crate::command_words::words;

    #[test]
    fn names_of_a_submission_are_never_options() {
        let wanted: Submission = serde_json::from_value(json!({
            "db": "--queue", "schema": "public", "table": "t", "partitions": ["--priority=9", "p2"], "priority": -3,
            "window": "22:00-06:00", "budget": null, "queue": true,
        }))
        .unwrap();
        let mut words = words(&wanted).unwrap();
        assert_eq!(words.split_off(words.len() - 4), ["--", "--queue", "public", "t"]);
        words.sort_unstable();
        let options = [
            "--partition=--priority=9",
            "--partition=p2",
            "--priority=-3",
            "--queue",
            "--window=22:00-06:00",
        ];
        assert_eq!(words, options);
    }

    #[test]
    fn words_lead_back_to_every_option() {
        let all = json!({
            "db": "shop", "schema": "public", "table": "orders", "partitions": [], "repeat": 3, "every": "1h",
            "cron": null, "time_zone": "Europe/Berlin", "min_score": -0.5, "budget": 7, "timeout": "30m",
            "node": "u1", "pc": "night", "retries": 2, "retry_failed": 4, "retry_delay": "5m", "queue": true,
            "priority": 9, "window": "22:00-06:00", "limit": 5,
        });
        let wanted: Submission = serde_json::from_value(all.clone()).unwrap();
        let command = Submission::augment_args(clap::Command::new("submit").no_binary_name(true));
        let matches = command.try_get_matches_from(words(&wanted).unwrap()).unwrap();
        let read = Submission::from_arg_matches(&matches).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), all);
    }

    #[test]
    fn unknown_field_is_refused() {
        let odd = json!({"db": "a", "schema": "b", "table": "c", "retrys": 2});
        let refused = serde_json::from_value::<Submission>(odd).unwrap_err().to_string();
        assert!(refused.contains("retrys"), "{refused}");
    }
}
