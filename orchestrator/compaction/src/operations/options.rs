//! The options of a submission and of a change: one definition behind the command line, the requests of the console and
//! their documents. What the options mean, and which go together, is checked here and nowhere else.

use std::ops::RangeInclusive;

use allot_runtime::time::now_ms;
use clap::Args;
use serde::Deserialize;

use crate::fault::Fault;
use crate::ids::TaskId;
use crate::partitions::check_table_name;
use crate::schedule::Schedule;
use crate::task::{LIST_RETRIES, MainTask, RepeatInfo, RetryInfo};
use crate::window::{Window, own_zone};

/// Whether options fit.
type Checked = Result<(), Fault>;

/// Most bytes of all partitions named in a submission.
const NAMED: usize = 32 * 1024;
/// The greatest limit of subtasks that run at once.
const LIMIT: u32 = 1_000_000;
/// The value of a window that removes it.
const ANY: &str = "any";
/// Seconds before failed partitions run again, if a submission names none.
const RETRY_DELAY: u64 = 60;
/// Seconds.
const YEAR: u64 = 366 * 24 * 3600;

/// A task of compaction to submit. An option that is absent has its default.
#[derive(Debug, Args, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// Database.
    #[arg(skip)]
    pub db: String,
    /// Schema.
    #[arg(skip)]
    pub schema: String,
    /// Table.
    #[arg(skip)]
    pub table: String,
    /// Only this partition; may be repeated. Without it the manager lists the partitions.
    #[arg(long = "partition", value_name = "PARTITION")]
    #[serde(default)]
    pub partitions: Vec<String>,
    /// Rounds in all; 0 until stopped. With --every or --cron [default: 1; with --cron, 0]
    #[arg(long, value_name = "COUNT")]
    pub repeat: Option<u64>,
    /// From the end of a round to the beginning of the next; whole seconds
    #[arg(long, value_name = "DURATION")]
    pub every: Option<String>,
    /// Begin each round, also the first, at these times: minute, hour, day of month, month, day of week, e.g. "0 2 * * *".
    /// A time at which the round before still runs is left out.
    #[arg(long, value_name = "EXPRESSION")]
    pub cron: Option<String>,
    /// Time zone of --cron and --window, e.g. Europe/Berlin [default: this machine's]
    #[arg(long)]
    pub time_zone: Option<String>,
    /// Times that a listing of the partitions which failed is repeated before its round fails: 1 s later, then after twice
    /// as long each time, up to a minute [default: 15, about ten minutes]
    #[arg(long, value_name = "TIMES")]
    pub list_retries: Option<u32>,
    /// Accept an empty list of partitions although an earlier round had some; otherwise its round fails
    #[arg(long)]
    #[serde(default)]
    pub allow_empty: bool,
    /// Leave out partitions whose score is lower; the partitions program prints the scores.
    #[arg(long, value_name = "SCORE", allow_negative_numbers = true)]
    pub min_score: Option<f64>,
    /// Compact so many partitions in a round at most, those with the highest scores; 0 for all [default: 0]
    #[arg(long, value_name = "COUNT")]
    pub budget: Option<u64>,
    /// Time limit of each runner; whole seconds [default: compaction.timeout of the compaction node]
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<String>,
    /// The compaction node that manages it [default: compaction.node, if a file names it; else by hashing]
    #[arg(long, value_name = "NODE", help = "The compaction node that manages it [default: by hashing]")]
    pub node: Option<String>,
    /// Processing cluster [default: that of the compaction node, or compaction.pc]
    #[arg(long, help = "Processing cluster [default: that of --node, or \"default\"]")]
    pub pc: Option<String>,
    /// Times that a subtask starts again after its worker was lost [default: compaction.retries]
    #[arg(long, help = "Times that a subtask starts again after its worker was lost [default: 1]")]
    pub retries: Option<u32>,
    /// Times that partitions which failed run again, after all others of the round [default: 0]
    #[arg(long, value_name = "TIMES")]
    pub retry_failed: Option<u32>,
    /// Time before failed partitions run again; doubled each time, and up to a quarter shorter or longer. Whole seconds;
    /// with --retry-failed [default: 1m]
    #[arg(long, value_name = "DURATION")]
    pub retry_delay: Option<String>,
    /// If the table has an unfinished task, wait for it instead of failing.
    #[arg(long)]
    #[serde(default)]
    pub queue: bool,
    /// Begin each round only if the current or last round of this task has ended without failures; of a table, of the task
    /// that was submitted last
    #[arg(long, value_name = "TASK|TABLE")]
    pub after: Option<String>,
    /// Subtasks of tasks with a higher priority start first [default: 0]
    #[arg(long, allow_negative_numbers = true)]
    pub priority: Option<i32>,
    /// Time of day in which subtasks may start, e.g. 22:00-06:00; subtasks that run at its end go on.
    #[arg(long, value_name = "FROM-TO")]
    pub window: Option<String>,
    /// Subtasks that run at once, at most; 0 for any number [default: 0]
    #[arg(long)]
    pub limit: Option<u32>,
}

/// A change of an unfinished task. An option that is absent stays as it is.
#[derive(Debug, Args, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TaskChange {
    /// The task.
    #[arg(value_name = "TASK")]
    pub id: String,
    /// Subtasks of tasks with a higher priority start first.
    #[arg(long, allow_negative_numbers = true)]
    pub priority: Option<i32>,
    /// Subtasks that run at once, at most; 0 for any number.
    #[arg(long)]
    pub limit: Option<u32>,
    /// Time of day in which subtasks may start, e.g. 22:00-06:00; any for the whole day.
    #[arg(long, value_name = "FROM-TO")]
    pub window: Option<String>,
    /// Time zone of the window, e.g. Europe/Berlin [default: this machine's]
    #[arg(long)]
    pub time_zone: Option<String>,
    /// Time limit of each runner; whole seconds, 0s for compaction.timeout of the compaction node.
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<String>,
    /// Times that a subtask starts again after its worker was lost; for the subtasks of the next wave.
    #[arg(long)]
    pub retries: Option<u32>,
    /// Rounds in all; 0 until stopped.
    #[arg(long, value_name = "COUNT")]
    pub repeat: Option<u64>,
    /// From the end of a round to the beginning of the next; whole seconds. Ends the times of --cron.
    #[arg(long, value_name = "DURATION")]
    pub every: Option<String>,
    /// Begin each further round at these times, e.g. "0 2 * * *" or @daily. A task of one round has them until it is
    /// stopped, unless --repeat says how many.
    #[arg(long, value_name = "EXPRESSION")]
    pub cron: Option<String>,
    /// Times that partitions which failed run again, after all others of the round.
    #[arg(long, value_name = "TIMES")]
    pub retry_failed: Option<u32>,
}

impl Submission {
    /// The task, without an id, a manager and a cluster. `retries` is the default.
    pub(super) fn task(&self, retries: u32) -> Result<MainTask, Fault> {
        let named: usize = self.partitions.iter().map(String::len).sum();
        let is_timed = self.cron.is_some() || self.window.is_some();
        refuse(&[
            (self.every.is_some() && self.cron.is_some(), "`every` and `cron` exclude each other"),
            (
                self.repeat.is_some() && self.every.is_none() && self.cron.is_none(),
                "`repeat` needs `every` or `cron`",
            ),
            (
                self.every.is_some() && self.repeat.is_none(),
                "`every` needs `repeat`: a number of rounds, or 0 for rounds until the task is stopped",
            ),
            (self.time_zone.is_some() && !is_timed, "`time_zone` needs `cron` or `window`"),
            (
                self.min_score.is_some() && !self.partitions.is_empty(),
                "`min_score` and named partitions exclude each other",
            ),
            (self.min_score.is_some_and(|score| !score.is_finite()), "`min_score` is a number"),
            (self.retry_delay.is_some() && self.retry_failed.is_none(), "`retry_delay` needs `retry_failed`"),
            (
                named > NAMED,
                "the named partitions take more than 32 KiB; let compaction.partitions list them",
            ),
        ])?;
        for (name, text) in [("DB", &self.db), ("SCHEMA", &self.schema), ("TABLE", &self.table)] {
            check_table_name(name, text).map_err(Fault::Wrong)?;
        }
        let zone = self.time_zone.clone().unwrap_or_else(own_zone);
        let (schedule, next_at) = match self.cron.as_ref().map(|cron| schedule(cron, &zone)).transpose()? {
            Some((schedule, first)) => (Some(schedule), first),
            None => (None, 0),
        };
        let window = self.window.as_ref().map(|text| Window::new(text, &zone));
        let every = every(self.every.as_ref())?;
        let repeat_count = self.repeat.unwrap_or(u64::from(schedule.is_none()));
        let delay = seconds("retry_delay", self.retry_delay.as_ref(), 0..=10 * YEAR, "ten years")?;
        let table = [&self.db, &self.schema, &self.table].map(Clone::clone);
        Ok(MainTask {
            repeat: RepeatInfo { repeat_count, repeat_interval: every.unwrap_or(0) },
            retry: RetryInfo {
                limit: self.retry_failed.unwrap_or(0),
                delay: delay.unwrap_or(RETRY_DELAY),
                ..RetryInfo::default()
            },
            retries: self.retries.unwrap_or(retries),
            list_retries: self.list_retries.unwrap_or(LIST_RETRIES),
            allow_empty: self.allow_empty,
            named: self.partitions.clone(),
            priority: self.priority.unwrap_or(0),
            window: window.transpose().map_err(Fault::Wrong)?,
            limit: limit(self.limit)?.unwrap_or(0),
            timeout: timeout(self.timeout.as_ref())?.unwrap_or(0),
            next_at,
            schedule,
            min_score: self.min_score,
            budget: self.budget.unwrap_or(0),
            ..MainTask::new(TaskId::main("", 0), table, String::new(), String::new())
        })
    }
}

impl TaskChange {
    /// The task, and the change, once the texts of the options are read.
    pub(super) fn change(&self) -> Result<(TaskId, impl Fn(&mut MainTask) -> Checked), Fault> {
        let is_empty = self.priority.is_none()
            && self.limit.is_none()
            && self.window.is_none()
            && self.timeout.is_none()
            && self.retries.is_none()
            && self.repeat.is_none()
            && self.every.is_none()
            && self.cron.is_none()
            && self.retry_failed.is_none();
        let is_timed = self.cron.is_some() || self.window.is_some();
        refuse(&[
            (self.time_zone.is_some() && !is_timed, "`time_zone` needs `cron` or `window`"),
            (self.every.is_some() && self.cron.is_some(), "`every` and `cron` exclude each other"),
            (
                is_empty,
                "nothing to change: give `priority`, `limit`, `window`, `timeout`, `retries`, `repeat`, `every`, `cron` or \
                 `retry_failed`",
            ),
        ])?;
        let id = self.id.parse().map_err(Fault::Wrong)?;
        let zone = self.time_zone.clone().unwrap_or_else(own_zone);
        let window = self.window.as_ref().filter(|text| *text != ANY).map(|text| Window::new(text, &zone));
        let window = window.transpose().map_err(Fault::Wrong)?;
        let (limit, timeout) = (limit(self.limit)?, timeout(self.timeout.as_ref())?);
        let every = every(self.every.as_ref())?;
        let cron = self.cron.as_ref().map(|cron| schedule(cron, &zone)).transpose()?;
        let change = move |task: &mut MainTask| {
            task.priority = self.priority.unwrap_or(task.priority);
            task.limit = limit.unwrap_or(task.limit);
            if self.window.is_some() {
                task.window.clone_from(&window);
            }
            task.timeout = timeout.unwrap_or(task.timeout);
            task.retries = self.retries.unwrap_or(task.retries);
            task.retry.limit = self.retry_failed.unwrap_or(task.retry.limit);
            repeat(task, self.repeat, every, cron.as_ref())
        };
        Ok((id, change))
    }
}

/// Changes when, and how often, the rounds of a task begin.
fn repeat(
    task: &mut MainTask,
    count: Option<u64>,
    every: Option<u64>,
    cron: Option<&(Schedule, u64)>,
) -> Checked {
    if let Some((schedule, _)) = cron {
        task.schedule = Some(schedule.clone());
        task.repeat.repeat_interval = 0;
        if !task.repeats() {
            task.repeat.repeat_count = 0;
        }
    }
    if let Some(every) = every {
        task.schedule = None;
        task.repeat.repeat_interval = every;
    }
    task.repeat.repeat_count = count.unwrap_or(task.repeat.repeat_count);
    let is_untimed = task.schedule.is_none() && task.repeat.repeat_interval == 0;
    let waits = task.listing.is_none() && task.retry.at == 0 && task.round > 0;
    let is_late = waits && task.repeat.repeat_count > 0 && task.round >= task.repeat.repeat_count;
    refuse(&[
        (task.repeats() && is_untimed, "`repeat` needs `every` or `cron`"),
        (every.is_some() && !task.repeats(), "`every` needs `repeat`, since the task has one round"),
        (is_late, "the task has done as many rounds as `repeat` says; stop it, or name more"),
    ])?;
    // The time of a round that waits already.
    match (cron, every) {
        (Some((_, first)), _) if task.listing.is_none() && task.retry.at == 0 => task.next_at = *first,
        (None, Some(every)) if waits => task.next_at = now_ms().saturating_add(every.saturating_mul(1000)),
        _ => {}
    }
    Ok(())
}

/// Refuses a request of which one of these is true, for that reason.
fn refuse(reasons: &[(bool, &str)]) -> Checked {
    match reasons.iter().find(|(is_true, _)| *is_true) {
        Some((_, why)) => Err(Fault::Wrong((*why).to_owned())),
        None => Ok(()),
    }
}

fn limit(wanted: Option<u32>) -> Result<Option<u32>, Fault> {
    match wanted {
        Some(limit) if limit > LIMIT => Err(Fault::Wrong(format!("`limit` is 0 to {LIMIT}"))),
        wanted => Ok(wanted),
    }
}

/// A time limit of runners, in seconds.
fn timeout(text: Option<&String>) -> Result<Option<u64>, Fault> {
    seconds("timeout", text, 0..=YEAR, "a year")
}

/// The seconds from the end of a round to the beginning of the next.
fn every(text: Option<&String>) -> Result<Option<u64>, Fault> {
    seconds("every", text, 1..=10 * YEAR, "a second at least, and ten years")
}

/// The seconds of a length of time. `bounds` names the range to people.
fn seconds(
    option: &str,
    text: Option<&String>,
    range: RangeInclusive<u64>,
    bounds: &str,
) -> Result<Option<u64>, Fault> {
    let Some(text) = text else { return Ok(None) };
    let length = humantime::parse_duration(text).map_err(|error| {
        let example = "write a number and a unit, e.g. 30s, 5m, 1h";
        Fault::Wrong(format!("`{option}` '{text}' is no length of time ({error}); {example}"))
    })?;
    if length.subsec_nanos() != 0 || !range.contains(&length.as_secs()) {
        return Err(Fault::Wrong(format!("`{option}` is {bounds} at most, in whole seconds")));
    }
    Ok(Some(length.as_secs()))
}

/// A schedule, and the time of its first round in milliseconds since 1970.
fn schedule(expression: &str, zone: &str) -> Result<(Schedule, u64), Fault> {
    let schedule = Schedule::new(expression, zone).map_err(Fault::Wrong)?;
    match schedule.next(now_ms()) {
        Some(first) => Ok((schedule, first)),
        None => Err(Fault::Wrong(format!("'{expression}' names no time of the next four years"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn submission(more: Value) -> Result<MainTask, Fault> {
        let mut all = json!({"db": "shop", "schema": "public", "table": "orders"});
        let (Some(fields), Value::Object(more)) = (all.as_object_mut(), more) else { unreachable!() };
        fields.extend(more);
        serde_json::from_value::<Submission>(all).unwrap().task(3)
    }

    #[test]
    fn every_option_of_a_submission_is_in_the_task() {
        let task = submission(json!({
            "repeat": 3, "every": "1h", "window": "22:00-06:00", "time_zone": "Europe/Berlin", "min_score": -0.5,
            "budget": 7, "list_retries": 2, "allow_empty": true, "timeout": "30m", "retries": 2, "retry_failed": 4, "retry_delay": "5m", "priority": -9,
            "limit": 5,
        }))
        .unwrap();
        assert_eq!(task.repeat, RepeatInfo { repeat_count: 3, repeat_interval: 3600 });
        assert_eq!((task.retry.limit, task.retry.delay, task.retries), (4, 300, 2));
        assert_eq!((task.min_score, task.budget, task.timeout), (Some(-0.5), 7, 1800));
        assert_eq!((task.priority, task.limit), (-9, 5));
        assert_eq!((task.list_retries, task.allow_empty), (2, true));
        assert_eq!(task.window.unwrap().to_string(), "22:00-06:00 Europe/Berlin");
        let plain = submission(json!({"partitions": ["--priority=9"]})).unwrap();
        assert_eq!((plain.repeat.repeat_count, plain.retries, plain.retry.delay), (1, 3, RETRY_DELAY));
        assert_eq!(plain.named, ["--priority=9"]);
        let cron = submission(json!({"cron": "0 2 1 1 *"})).unwrap();
        assert!(cron.repeat.repeat_count == 0 && cron.next_at > now_ms(), "{cron:?}");
    }

    #[test]
    fn options_that_do_not_fit_are_refused_by_name() {
        for (odd, why) in [
            (json!({"every": "1h", "cron": "0 2 * * *"}), "`cron`"),
            (json!({"repeat": 3}), "`every` or `cron`"),
            (json!({"every": "1h"}), "`repeat`"),
            (json!({"time_zone": "Europe/Berlin"}), "`cron` or `window`"),
            (json!({"min_score": 1.0, "partitions": ["p"]}), "named partitions"),
            (json!({"retry_delay": "1m"}), "`retry_failed`"),
            (json!({"limit": 1_000_001}), "1000000"),
            (json!({"every": "500ms", "repeat": 0}), "`every` is a second at least"),
            (json!({"timeout": "soon"}), "e.g. 30s"),
            (json!({"partitions": ["p".repeat(NAMED + 1)]}), "32 KiB"),
            (json!({"db": ""}), "DB"),
        ] {
            let Err(Fault::Wrong(refused)) = submission(odd.clone()) else { panic!("{odd} was accepted") };
            assert!(refused.contains(why), "{odd}: {refused}");
        }
        let unknown = json!({"db": "a", "schema": "b", "table": "c", "retrys": 2});
        let refused = serde_json::from_value::<Submission>(unknown).unwrap_err().to_string();
        assert!(refused.contains("retrys"), "{refused}");
    }

    #[test]
    fn change_has_at_least_one_option() {
        let change = |more: Value| {
            let mut all = json!({"id": "aaaaffff.16176931.56000000.0"});
            let (Some(fields), Value::Object(more)) = (all.as_object_mut(), more) else { unreachable!() };
            fields.extend(more);
            let mut task = submission(json!({"priority": 1, "window": "22:00-06:00", "limit": 3}))?;
            let wanted = serde_json::from_value::<TaskChange>(all).unwrap();
            let (_, change) = wanted.change()?;
            change(&mut task)?;
            Ok(task)
        };
        let all = change(json!({"priority": -9, "window": "any", "timeout": "1m", "retries": 2})).unwrap();
        assert_eq!((all.priority, all.limit, all.window, all.timeout, all.retries), (-9, 3, None, 60, 2));
        let window = change(json!({"window": "any", "timeout": "0s"})).unwrap();
        assert_eq!((window.priority, window.timeout, window.retries), (1, 0, 3));
        assert!(change(json!({"limit": 4})).unwrap().window.is_some());
        let hourly = change(json!({"every": "1h", "repeat": 3, "retry_failed": 2})).unwrap();
        assert_eq!(hourly.repeat, RepeatInfo { repeat_count: 3, repeat_interval: 3600 });
        assert_eq!((hourly.retry.limit, hourly.schedule), (2, None));
        let daily = change(json!({"cron": "@daily", "time_zone": "UTC"})).unwrap();
        assert_eq!(daily.schedule.unwrap().to_string(), "0 0 * * * UTC");
        assert!(daily.repeat.repeat_count == 0 && daily.next_at > now_ms());
        for (odd, why) in [
            (json!({"every": "1h"}), "`repeat`"),
            (json!({"repeat": 4}), "`every` or `cron`"),
            (json!({}), "`priority`"),
            (json!({"time_zone": "UTC"}), "`window`"),
            (json!({"id": "--limit=1", "limit": 1}), "aaaaffff"),
            (json!({"timeout": "1500ms"}), "whole seconds"),
        ] {
            let Err(Fault::Wrong(refused)) = change(odd.clone()) else { panic!("{odd} was accepted") };
            assert!(refused.contains(why), "{odd}: {refused}");
        }
    }
}
