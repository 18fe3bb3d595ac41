//! `allotd compaction submit`, and waiting for the end of a task.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Error, Result, bail};
use clap::{Args, FromArgMatches as _};
use indicatif::ProgressBar;
use tokio::time::sleep;

use super::task_client::{Common, TaskClient, gone};
use crate::cli::outcome::Outcome;
use crate::cli::progress;
use crate::cli::terminal::{self, errln};
use crate::config::Span;
use allot_compaction::hashing::choose;
use allot_compaction::ids::TaskId;
use allot_compaction::partitions::check_table_name;
use allot_compaction::schedule::Schedule;
use allot_compaction::task::{MainTask, RepeatInfo, RetryInfo, State};
use allot_compaction::task_store::Fault;
use allot_compaction::window::{Window, own_zone};
use allot_runtime::time::now_ms;

/// Most bytes of all partitions named in a submission.
const NAMED: usize = 32 * 1024;
/// Interval at which a waiting command reads the task.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The options of a submission.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("zoned").args(["cron", "window"]).multiple(true)))]
pub(crate) struct Arguments {
    /// Database.
    db: String,
    /// Schema.
    schema: String,
    /// Table.
    table: String,
    /// Only this partition; may be repeated. Without it the manager lists the partitions.
    #[arg(long = "partition", value_name = "PARTITION")]
    partitions: Vec<String>,
    /// Rounds in all; 0 until stopped [default: 1; with --cron, 0]
    #[arg(long, value_name = "COUNT", requires = "when")]
    repeat: Option<u64>,
    /// From the end of a round to the beginning of the next; whole seconds
    #[arg(long, value_name = "DURATION", group = "when")]
    every: Option<Span>,
    /// Begin each round, also the first, at these times: minute, hour, day of month, month, day of week, e.g. "0 2 * * *".
    /// A time at which the round before still runs is left out.
    #[arg(long, value_name = "EXPRESSION", group = "when")]
    cron: Option<String>,
    /// Time zone of --cron and --window, e.g. Europe/Berlin [default: this machine's]
    #[arg(long, requires = "zoned")]
    time_zone: Option<String>,
    /// Leave out partitions whose score is lower; the partitions program prints the scores.
    #[arg(long, value_name = "SCORE", allow_negative_numbers = true, conflicts_with = "partitions")]
    min_score: Option<f64>,
    /// Compact so many partitions in a round at most, those with the highest scores; 0 for all.
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    budget: u64,
    /// Time limit of each runner; whole seconds [default: compaction.timeout of the unit]
    #[arg(long, value_name = "DURATION")]
    timeout: Option<Span>,
    /// Wait for the end; the exit code is 1 unless every subtask succeeded. Ctrl-C ends the wait, not the task.
    #[arg(long)]
    wait: bool,
    /// The unit that manages it [default: compaction.node, if a file names it; else by hashing]
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Processing cluster [default: the unit's, or compaction.pc]
    #[arg(long)]
    pc: Option<String>,
    /// Times that a subtask starts again after its worker was lost [default: compaction.retries]
    #[arg(long)]
    retries: Option<u32>,
    /// Times that partitions which failed run again, after all others of the round.
    #[arg(long, value_name = "TIMES", default_value_t = 0)]
    retry_failed: u32,
    /// Time before failed partitions run again; doubled each time, and up to a quarter shorter or longer. Whole seconds
    #[arg(long, value_name = "DURATION", requires = "retry_failed", default_value = "1m")]
    retry_delay: Span,
    /// If the table has an unfinished task, wait for it instead of failing.
    #[arg(long)]
    queue: bool,
    /// Subtasks of tasks with a higher priority start first.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    priority: i32,
    /// Time of day in which subtasks may start, e.g. 22:00-06:00; subtasks that run at its end go on.
    #[arg(long, value_name = "FROM-TO")]
    window: Option<String>,
    /// The earlier name of --time-zone, for the window only.
    #[arg(long, requires = "window", hide = true)]
    zone: Option<String>,
    /// Subtasks that run at once, at most; 0 for any number.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    limit: u32,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Submits a task, and waits for its end if asked to.
pub(super) async fn run(client: &TaskClient, arguments: &Arguments) -> Result<Outcome> {
    let (id, task) = compose(client, arguments).await?;
    client.store.submit(id, &task, arguments.queue).await?;
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

/// Submits a task with these words of a command line. Returns its id.
pub(super) async fn submit_words(client: &TaskClient, words: &[String]) -> Result<TaskId> {
    let definition = Arguments::augment_args(clap::Command::new("submit").no_binary_name(true));
    let arguments = definition
        .try_get_matches_from(words)
        .and_then(|matches| Arguments::from_arg_matches(&matches))
        .map_err(|error| {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            Error::msg(first.trim_start_matches("error: ").to_owned())
        })?;
    let (id, task) = compose(client, &arguments).await?;
    client.store.submit(id, &task, arguments.queue).await?;
    Ok(id)
}

async fn compose(client: &TaskClient, arguments: &Arguments) -> Result<(TaskId, MainTask)> {
    for (name, text) in [("DB", &arguments.db), ("SCHEMA", &arguments.schema), ("TABLE", &arguments.table)] {
        check_table_name(name, text).map_err(Error::msg)?;
    }
    if arguments.partitions.iter().map(String::len).sum::<usize>() > NAMED {
        bail!("the named partitions take more than {NAMED} bytes; let compaction.partitions list them");
    }
    // What is wrong with the command itself comes before what the cluster says of it.
    let schedule = schedule(arguments)?;
    let repeat_count = arguments.repeat.unwrap_or(u64::from(schedule.is_none()));
    let repeat = RepeatInfo { repeat_count, repeat_interval: interval(arguments)? };
    let zone = arguments.zone.as_deref().or(arguments.time_zone.as_deref());
    let window = arguments.window.as_deref().map(|text| window(text, zone));
    let window = window.transpose().map_err(Error::msg)?;
    let timeout = arguments.timeout.map(timeout).transpose()?.unwrap_or(0);
    if arguments.min_score.is_some_and(|score| !score.is_finite()) {
        bail!("--min-score is a number");
    }
    let units = client.units().await?;
    let config = &client.config.compaction;
    let wanted = arguments.node.as_ref().or(config.node.as_ref());
    let pc = arguments.pc.clone().or_else(|| Some(units.live.get(wanted?)?.pc.clone()));
    let pc = pc.unwrap_or_else(|| config.pc.clone());
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64;
    let manager = match wanted {
        Some(node) if units.live.get(node).is_some_and(|info| info.pc == pc) => node.clone(),
        Some(node) => return Err(Fault::Busy(format!("unit {node} is not there, or not of {pc}")).into()),
        None => {
            let chosen = choose(&format!("{time}"), &units.bins(&pc)).map(|bin| bin.name.clone());
            chosen.ok_or_else(|| Fault::Busy(format!("no unit of {pc} is there: allotd compaction nodes")))?
        }
    };
    let id = TaskId::main(&manager, time);
    let table = [&arguments.db, &arguments.schema, &arguments.table].map(Clone::clone);
    let task = MainTask {
        repeat_flag: repeat_count != 1,
        repeat,
        retry: RetryInfo {
            limit: arguments.retry_failed,
            delay: arguments.retry_delay.0.as_secs(),
            ..RetryInfo::default()
        },
        retries: arguments.retries.unwrap_or(config.retries),
        named: arguments.partitions.clone(),
        priority: arguments.priority,
        window,
        limit: arguments.limit,
        timeout,
        next_at: schedule.as_ref().map_or(0, |(_, first)| *first),
        schedule: schedule.map(|(schedule, _)| schedule),
        min_score: arguments.min_score,
        budget: arguments.budget,
        ..MainTask::new(id, table, manager, pc)
    };
    Ok((id, task))
}

/// Seconds between two rounds.
fn interval(arguments: &Arguments) -> Result<u64> {
    const LONGEST: u64 = 10 * 366 * 24 * 3600;
    match arguments.every.map(|span| span.0.as_secs()) {
        None => Ok(0),
        Some(seconds @ 1..=LONGEST) => Ok(seconds),
        Some(_) => bail!("--every is a second at least, and ten years at most"),
    }
}

/// The window in this zone, or in that of this machine.
pub(super) fn window(text: &str, zone: Option<&str>) -> Result<Window, String> {
    Window::new(text, &zone.map_or_else(own_zone, str::to_owned))
}

/// A time limit of runners, in seconds.
pub(super) fn timeout(span: Span) -> Result<u64> {
    const LONGEST: u64 = 366 * 24 * 3600;
    match span.0.as_secs() {
        seconds if seconds <= LONGEST && span.0.subsec_nanos() == 0 => Ok(seconds),
        _ => bail!("--timeout is whole seconds, and a year at most"),
    }
}

/// The schedule, and the time of its first round in milliseconds since 1970.
fn schedule(arguments: &Arguments) -> Result<Option<(Schedule, u64)>> {
    let Some(expression) = &arguments.cron else { return Ok(None) };
    let zone = arguments.time_zone.clone().unwrap_or_else(own_zone);
    let schedule = Schedule::new(expression, &zone).map_err(Error::msg)?;
    match schedule.next(now_ms()) {
        Some(first) => Ok(Some((schedule, first))),
        None => bail!("'{expression}' names no time of the next four years"),
    }
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
        errln!("the task {otherwise}; allotd compaction show {id} shows it");
        return Ok(Outcome::CheckFailed);
    };
    let task = task?;
    let total = task.grand_total();
    let why = if task.error.is_empty() { String::new() } else { format!(": {}", task.error) };
    errln!(
        "{}{why} after {} rounds: {} well, {} failed, {} stopped",
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
        match client.store.main(id).await {
            Ok(Some(main)) if main.task.state.is_over() => return Ok(main.task),
            Ok(Some(main)) => {
                bar.set_message(format!("round {}", main.task.round));
                bar.set_length(main.task.round_size());
                bar.set_position(main.task.result.all());
            }
            Ok(None) => return Err(gone(id).into()),
            Err(fault) if fault.is_passing() => {}
            Err(fault) => return Err(fault.into()),
        }
        sleep(POLL_INTERVAL).await;
    }
}
