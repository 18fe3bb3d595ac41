//! `allot compaction submit`, and waiting for the end of a task.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Error, Result, bail};
use clap::Args;
use indicatif::ProgressBar;
use tokio::time::sleep;

use super::task_client::{Common, TaskClient, gone};
use super::words::{parsed, wrong};
use crate::outcome::Outcome;
use crate::progress;
use crate::terminal::{self, errln};
use allot_compaction::hashing::choose;
use allot_compaction::ids::TaskId;
use allot_compaction::partitions::check_table_name;
use allot_compaction::schedule::Schedule;
use allot_compaction::task::{MainTask, RepeatInfo, RetryInfo, State};
use allot_compaction::task_store::Fault;
use allot_compaction::window::{Window, own_zone};
use allot_console::Submission;
use allot_coordination::{Retry, Retryable as _};
use allot_runtime::settings::Span;
use allot_runtime::time::now_ms;

/// Most bytes of all partitions named in a submission.
const NAMED: usize = 32 * 1024;
/// Interval at which a waiting command reads the task.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The delay before failed partitions run again, if a submission names none.
const RETRY_DELAY: Duration = Duration::from_secs(60);

/// The command line of a submission.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    wanted: Submission,
    /// The earlier name of --time-zone, for the window only.
    #[arg(long, requires = "window", hide = true)]
    zone: Option<String>,
    /// Wait for the end; the exit code is 1 unless every subtask succeeded. Ctrl-C ends the wait, not the task.
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Submits a task, and waits for its end if asked to.
pub(super) async fn run(client: &TaskClient, arguments: &Arguments) -> Result<Outcome> {
    let checked = check(arguments)?;
    let (id, task) = compose(client, &arguments.wanted, checked).await?;
    client.store.submit(id, &task, arguments.wanted.queue).await?;
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
///
/// # Errors
/// A refusal if the words themselves are wrong.
pub(super) async fn submit_words(client: &TaskClient, words: &[String]) -> Result<TaskId> {
    let arguments: Arguments = parsed(words)?;
    let checked = check(&arguments).map_err(|error| wrong(&error))?;
    let (id, task) = compose(client, &arguments.wanted, checked).await?;
    client.store.submit(id, &task, arguments.wanted.queue).await?;
    Ok(id)
}

/// The options whose text was read. What is wrong with the command itself is found before the cluster is asked.
struct Checked {
    repeat: RepeatInfo,
    /// The schedule, and the time of its first round in milliseconds since 1970.
    schedule: Option<(Schedule, u64)>,
    window: Option<Window>,
    /// Seconds.
    timeout: u64,
    retry_delay: Duration,
}

fn check(Arguments { wanted, zone, .. }: &Arguments) -> Result<Checked> {
    for (name, text) in [("DB", &wanted.db), ("SCHEMA", &wanted.schema), ("TABLE", &wanted.table)] {
        check_table_name(name, text).map_err(Error::msg)?;
    }
    if wanted.partitions.iter().map(String::len).sum::<usize>() > NAMED {
        bail!("the named partitions take more than {NAMED} bytes; let compaction.partitions list them");
    }
    let schedule = schedule(wanted)?;
    let repeat_count = wanted.repeat.unwrap_or(u64::from(schedule.is_none()));
    let repeat = RepeatInfo { repeat_count, repeat_interval: interval(span(wanted.every.as_deref())?)? };
    let zone = zone.as_deref().or(wanted.time_zone.as_deref());
    let window = wanted.window.as_deref().map(|text| window(text, zone));
    let window = window.transpose().map_err(Error::msg)?;
    let timeout = span(wanted.timeout.as_deref())?.map(timeout).transpose()?.unwrap_or(0);
    let retry_delay = span(wanted.retry_delay.as_deref())?.map_or(RETRY_DELAY, |span| span.0);
    if wanted.min_score.is_some_and(|score| !score.is_finite()) {
        bail!("--min-score is a number");
    }
    Ok(Checked { repeat, schedule, window, timeout, retry_delay })
}

/// A length of time from its text.
pub(super) fn span(text: Option<&str>) -> Result<Option<Span>> {
    text.map(str::parse).transpose().map_err(Error::msg)
}

async fn compose(client: &TaskClient, wanted: &Submission, checked: Checked) -> Result<(TaskId, MainTask)> {
    let Checked { repeat, schedule, window, timeout, retry_delay } = checked;
    let units = client.units().await?;
    let config = &client.config.compaction;
    let node = wanted.node.as_ref().or(config.node.as_ref());
    let pc = wanted.pc.clone().or_else(|| Some(units.live.get(node?)?.pc.clone()));
    let pc = pc.unwrap_or_else(|| config.pc.clone());
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64;
    let manager = match node {
        Some(node) if units.live.get(node).is_some_and(|info| info.pc == pc) => node.clone(),
        Some(node) => return Err(Fault::Busy(format!("unit {node} is not there, or not of {pc}")).into()),
        None => {
            let chosen = choose(&format!("{time}"), &units.bins(&pc)).map(|bin| bin.name.clone());
            chosen.ok_or_else(|| Fault::Busy(format!("no unit of {pc} is there: allot compaction nodes")))?
        }
    };
    let id = TaskId::main(&manager, time);
    let table = [&wanted.db, &wanted.schema, &wanted.table].map(Clone::clone);
    let task = MainTask {
        repeat_flag: repeat.repeat_count != 1,
        repeat,
        retry: RetryInfo {
            limit: wanted.retry_failed.unwrap_or(0),
            delay: retry_delay.as_secs(),
            ..RetryInfo::default()
        },
        retries: wanted.retries.unwrap_or(config.retries),
        named: wanted.partitions.clone(),
        priority: wanted.priority.unwrap_or(0),
        window,
        limit: wanted.limit.unwrap_or(0),
        timeout,
        next_at: schedule.as_ref().map_or(0, |(_, first)| *first),
        schedule: schedule.map(|(schedule, _)| schedule),
        min_score: wanted.min_score,
        budget: wanted.budget.unwrap_or(0),
        ..MainTask::new(id, table, manager, pc)
    };
    Ok((id, task))
}

/// Seconds between two rounds.
fn interval(every: Option<Span>) -> Result<u64> {
    const LONGEST: u64 = 10 * 366 * 24 * 3600;
    match every.map(|span| span.0.as_secs()) {
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
fn schedule(wanted: &Submission) -> Result<Option<(Schedule, u64)>> {
    let Some(expression) = &wanted.cron else { return Ok(None) };
    let zone = wanted.time_zone.clone().unwrap_or_else(own_zone);
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
        match client.store.main(id).await {
            Ok(Some(main)) if main.task.state.is_over() => return Ok(main.task),
            Ok(Some(main)) => {
                bar.set_message(format!("round {}", main.task.round));
                bar.set_length(main.task.round_size());
                bar.set_position(main.task.result.all());
            }
            Ok(None) => return Err(gone(id).into()),
            Err(fault) if matches!(fault.retry(), Retry::Pause | Retry::Reread) => {}
            Err(fault) => return Err(fault.into()),
        }
        sleep(POLL_INTERVAL).await;
    }
}
