//! `allot task`: tasks of compaction. The commands read and write ZooKeeper directly. No node needs to be running, except
//! for a submission.

use std::time::Duration;

use allot_compaction::ids::TaskId;
use allot_compaction::paths::decode;
use allot_compaction::task::{MainTask, ResultInfo, State, SubState, SubTask};
use allot_compaction::{HistoryQuery, Submission, TaskChange, TaskClient};
use allot_coordination::{Retry, Retryable as _};
use clap::{Args, Subcommand};
use clap_complete::engine::ArgValueCompleter;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::context::{Context, Work};
use crate::failure::{Failure, Result, counted};
use crate::output::{Format, Section, columns, lines};
use crate::watch::watch;
use crate::{complete, upgrade};

/// Interval at which a waiting command reads the task.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The verbs of tasks.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List the tasks that are not packed into history
    #[command(alias = "ls")]
    List(List),
    /// Show a task and its subtasks
    Get(One),
    /// Submit a task: compact a table, each of its partitions
    Submit(Box<Submit>),
    /// Explain why a task is not running, or not finished
    Explain(One),
    /// List the partitions that failed in the current or last round of a task, each with the reason
    Failures {
        #[command(flatten)]
        one: One,
        /// Of this round [default: the current or last]
        #[arg(long, value_name = "NUMBER")]
        round: Option<u64>,
    },
    /// Run the failed partitions of a finished task again
    Retry(Waiting),
    /// Pause a task: no further subtask starts, and running ones go on
    Pause(OneOrAll),
    /// Resume a paused task
    Resume(OneOrAll),
    /// Stop a task: no further subtask starts, and running ones are ended
    Stop(Waiting),
    /// Change options of an unfinished task, for the subtasks that have not begun
    Set(TaskChange),
    /// Give a task to another manager, or a waiting subtask to another worker
    Reassign(Reassign),
    /// Follow a task to its end; exit code 1 unless every subtask succeeded
    Watch(One),
    /// List the finished tasks and the rounds of repeated tasks, packed or not; of one task all details and its rounds
    History {
        /// Only this task
        #[arg(conflicts_with_all = ["db", "schema", "table", "state", "from", "to", "limit"])]
        task: Option<TaskId>,
        #[command(flatten)]
        wanted: HistoryQuery,
        /// List this many at least, the newest; 0 for all
        #[arg(long, value_name = "COUNT", default_value_t = 1000)]
        limit: usize,
    },
    /// Take over the tasks of the first generation, or delete its tree
    Upgrade(upgrade::Upgrading),
}

/// One task.
#[derive(Debug, Args)]
pub(crate) struct One {
    /// The task
    #[arg(add = ArgValueCompleter::new(complete::tasks))]
    task: TaskId,
}

/// Arguments of `task list`.
#[derive(Debug, Default, Args)]
pub(crate) struct List {
    /// Only unfinished tasks
    #[arg(long)]
    live: bool,
    /// Follow the list
    #[arg(long)]
    watch: bool,
}

/// Arguments of `task submit`.
#[derive(Debug, Args)]
pub(crate) struct Submit {
    /// The table: DATABASE.SCHEMA.TABLE
    table: String,
    #[command(flatten)]
    wanted: Submission,
    /// Wait for the end; exit code 1 unless every subtask succeeded. Ctrl-C ends the wait, not the task
    #[arg(long)]
    wait: bool,
}

/// A task whose end is perhaps waited for.
#[derive(Debug, Args)]
pub(crate) struct Waiting {
    #[command(flatten)]
    one: One,
    /// Wait for the end
    #[arg(long)]
    wait: bool,
}

/// One task, or all.
#[derive(Debug, Args)]
pub(crate) struct OneOrAll {
    /// The task
    #[arg(required_unless_present = "all", add = ArgValueCompleter::new(complete::tasks))]
    task: Option<TaskId>,
    /// All tasks, also those that are submitted later
    #[arg(long, conflicts_with = "task")]
    all: bool,
}

/// Arguments of `task reassign`.
#[derive(Debug, Args)]
pub(crate) struct Reassign {
    /// The task, or a subtask
    #[arg(add = ArgValueCompleter::new(complete::tasks))]
    task: TaskId,
    /// The node [default: by hashing, another than now]
    #[arg(long, value_name = "NODE", add = ArgValueCompleter::new(complete::nodes))]
    to: Option<String>,
}

columns! {
    TASKS = task Text, state Text, table Text, succeeded Number, failed Number, of Number, round Number,
        manager Text, created Time, finished Time, pc Text wide, started Time wide, priority Number wide,
        retries Number wide, limit Number wide, timeout_ms Span wide, budget Number wide, window Text wide,
        schedule Text wide, after Text wide, follows Text wide, why Text wide;
    HISTORY = task Text, kind Text, round Number, state Text, table Text, succeeded Number, failed Number,
        of Number, started Time, finished Time, stopped Number wide, before_bytes Number wide, after_bytes Number wide,
        manager Text wide, pc Text wide, created Time wide, schedule Text wide, why Text wide;
    TASK = task Text, table Text, state Text, manager Text, pc Text, round Number, succeeded Number,
        failed Number, stopped Number, of Number, all_succeeded Number, all_failed Number,
        all_stopped Number, running Number, waiting Number, created Time, started Time, next_round Time,
        finished Time, next_retry Time, priority Number, retries Number, repeats Flag, rounds Number,
        failed_rounds Number, every_ms Span, retry_failed Number, retry_delay_ms Span, partitions Text, limit Number,
        timeout_ms Span, schedule Text, min_score Number, budget Number, window Text, after Text,
        follows Text, stopping Flag, why Text, sums Text;
    SUBTASKS = subtask Text, state Text, partition Text, worker Text, attempt Number, since Time;
    FAILURES = subtask Text, partition Text, worker Text, message Text, output Text wide;
    SUBMITTED = task Text, manager Text, table Text;
    REASONS = task Text, reasons Text;
    ALL = paused Flag, tasks Number;
}

/// A number of which 0 is none; of milliseconds since 1970, never.
fn some(number: impl Into<u64>) -> Option<u64> {
    Some(number.into()).filter(|number| *number > 0)
}

fn state_of(task: &MainTask) -> String {
    match task.state.is_over() {
        false if task.cancelling => "stopping".to_owned(),
        false if task.paused => "paused".to_owned(),
        _ => task.state.to_string(),
    }
}

/// The fields of a task, by the names of the columns.
fn row(task: &MainTask, subs: &[SubTask]) -> Value {
    let (now, all): (ResultInfo, ResultInfo) = (task.result, task.grand_total());
    let running = subs.iter().filter(|sub| sub.state == SubState::Running).count();
    json!({
        "task": task.id,
        "table": task.table().join("."),
        "state": state_of(task),
        "manager": task.manager,
        "pc": task.pc,
        "round": task.round,
        "succeeded": now.success_count,
        "failed": now.failed_count,
        "stopped": now.stopped_count,
        "of": task.round_size(),
        "all_succeeded": all.success_count,
        "all_failed": all.failed_count,
        "all_stopped": all.stopped_count,
        "running": running,
        "waiting": subs.len() - running,
        "created": some(task.created),
        "started": some(task.started),
        "next_round": some(task.begins_at()),
        "finished": some(task.finished),
        "next_retry": some(task.retry.at),
        "priority": task.priority,
        "retries": task.retries,
        "repeats": task.repeat.repeat_count != 1,
        "rounds": some(task.repeat.repeat_count),
        "failed_rounds": some(task.failed_rounds),
        "every_ms": some(task.repeat.repeat_interval * 1000),
        "retry_failed": some(task.retry.limit),
        "retry_delay_ms": (task.retry.limit > 0).then_some(task.retry.delay * 1000),
        "partitions": (!task.named.is_empty()).then_some(&task.named),
        "limit": some(task.limit),
        "timeout_ms": some(task.timeout * 1000),
        "schedule": task.schedule.as_ref().map(ToString::to_string),
        "min_score": task.min_score,
        "budget": some(task.budget),
        "window": task.window.as_ref().map(ToString::to_string),
        "after": task.after,
        "follows": task.follows,
        "stopping": task.cancelling,
        "why": (!task.error.is_empty()).then_some(&task.error),
        "sums": (!task.sums.is_empty()).then_some(&task.sums),
    })
}

/// The fields of a finished task or of a round. Those of a task count all of its rounds, as its sums do.
fn history_row(task: &MainTask) -> Value {
    let mut row = row(task, &[]);
    if let Value::Object(fields) = &mut row {
        fields.insert("kind".to_owned(), json!(task.kind));
        if !task.is_round() {
            let all = task.grand_total();
            let counts = [
                ("succeeded", all.success_count),
                ("failed", all.failed_count),
                ("stopped", all.stopped_count),
                ("of", task.totals.all().saturating_add(task.round_size())),
            ];
            fields.extend(counts.map(|(column, count)| (column.to_owned(), json!(count))));
        }
        for (column, sum) in [("before_bytes", "before"), ("after_bytes", "after")] {
            fields.insert(column.to_owned(), json!(task.sums.get(sum)));
        }
    }
    row
}

fn failure_row(failure: &allot_compaction::task::Failure) -> Value {
    json!({
        "subtask": failure.id,
        "partition": failure.partition,
        "worker": failure.worker,
        "message": failure.message,
        "output": failure.output,
    })
}

/// Runs a verb.
pub(crate) async fn run(context: &Context, verb: Verb) -> Result {
    let client = context.tasks().await?;
    let done = run_with(context, &client, verb).await;
    client.coordinator.close().await;
    done
}

async fn run_with(context: &Context, client: &TaskClient, verb: Verb) -> Result {
    match verb {
        Verb::List(arguments) => list(context, client, &arguments).await,
        Verb::Get(One { task }) => get(context, client, task).await,
        Verb::Submit(arguments) => submit(context, client, *arguments).await,
        Verb::Explain(One { task }) => {
            find(client, task).await?;
            let reasons = client.explain(task, &|ms| context.out.time(ms as i64)).await?;
            if context.out.is_table() {
                return context.out.text(&lines(reasons.iter().map(String::as_str)));
            }
            context.out.get(REASONS, &json!({"task": task.to_string(), "reasons": reasons}), &[])
        }
        Verb::Failures { one: One { task }, round } => failures(context, client, task, round).await,
        Verb::Retry(Waiting { one: One { task }, wait: waits }) => {
            context.no_dry_run("a retry")?;
            let before = find(client, task).await?;
            let what = match before.state {
                State::Cancel => "its round".to_owned(),
                _ => counted(before.result.failed_count, "failed partition"),
            };
            let retried = client.retry(task).await?;
            context.out.done(&format!("task {task} runs {what} again"), TASK, &row(&retried, &[]))?;
            if waits { wait(context, client, task).await } else { Ok(()) }
        }
        Verb::Pause(which) => pause(context, client, &which, true).await,
        Verb::Resume(which) => pause(context, client, &which, false).await,
        Verb::Stop(Waiting { one: One { task }, wait: waits }) => stop(context, client, task, waits).await,
        Verb::Set(wanted) => {
            let id: TaskId = wanted.id.parse().map_err(Failure::usage)?;
            TaskClient::tried(&wanted, unfinished(client, id).await?)?;
            context.proceed(&format!("change options of task {id}"))?;
            let task = client.set(&wanted).await?;
            context.out.done(&format!("task {id} is changed"), TASK, &row(&task, &[]))
        }
        Verb::Reassign(Reassign { task, to }) => {
            context.no_dry_run("a choice of another node")?;
            find(client, task.of_main()).await?;
            let node = client.reassign(task, to.as_deref()).await?;
            let what = if task.is_main() { "task" } else { "subtask" };
            let after = row(&find(client, task.of_main()).await?, &[]);
            context.out.done(&format!("{what} {task} is at {node}"), TASK, &after)
        }
        Verb::Watch(One { task }) => {
            find(client, task).await?;
            wait(context, client, task).await
        }
        Verb::History { task: Some(task), .. } => past(context, client, task).await,
        Verb::History { task: None, wanted, limit } => {
            let limit = if limit == 0 { usize::MAX } else { limit };
            let (found, are_all) = client.history(&wanted, limit).await?;
            if !are_all {
                context.out.note("there may be older ones; --limit 0 lists all, --to those before a time");
            }
            let rows: Vec<Value> = found.iter().map(history_row).collect();
            context.out.list(HISTORY, &rows, "no task and no round of a repeated task has ended so")
        }
        Verb::Upgrade(arguments) => upgrade::run(context, client, &arguments).await,
    }
}

/// A task that is not packed into history.
async fn find(client: &TaskClient, id: TaskId) -> Result<MainTask> {
    let main = client.store.main(id).await?;
    main.map(|main| main.task).ok_or_else(|| {
        Failure::absent(format!("there is no task {id}"))
            .hint(format!("allot task history {id} looks among finished ones"))
    })
}

/// A task that has not ended.
async fn unfinished(client: &TaskClient, id: TaskId) -> Result<MainTask> {
    let task = find(client, id).await?;
    if task.state.is_over() {
        return Err(Failure::refused(format!("task {id} has ended: {}", task.state)));
    }
    Ok(task)
}

async fn list(context: &Context, client: &TaskClient, List { live, watch: follows }: &List) -> Result {
    let look = async || -> Result<Vec<Value>> {
        let mains = if *live { client.store.live_mains().await? } else { client.store.mains().await? };
        Ok(mains.iter().map(|main| row(&main.task, &[])).collect())
    };
    if *follows {
        return watch(context, TASKS, look).await;
    }
    context.out.list(TASKS, &look().await?, "there are no tasks; allot task history lists finished ones")?;
    note_pause(context, client).await
}

/// A finished task, or a repeated one, and its rounds.
async fn past(context: &Context, client: &TaskClient, id: TaskId) -> Result {
    let all = client.history_of(id).await?;
    let (rounds, mut ended): (Vec<_>, Vec<_>) = all.into_iter().partition(MainTask::is_round);
    let task = match ended.pop() {
        Some(task) => task,
        None if rounds.is_empty() => {
            return Err(Failure::absent(format!("neither task {id} nor a round of it is in the history"))
                .hint(format!("allot task get {id} looks among those that are not finished")));
        }
        None => find(client, id).await?,
    };
    let rows: Vec<Value> = rounds.iter().map(history_row).collect();
    print(context, &task, &[], Section { name: "rounds", columns: HISTORY, rows: &rows })
}

/// The unfinished subtasks of a task, by worker.
async fn subtasks(client: &TaskClient, id: TaskId) -> Result<Vec<SubTask>> {
    let mut all = Vec::new();
    for name in client.store.children(&client.store.paths.assigned()).await? {
        let worker = decode(&name);
        let ids = client.store.at(&worker, Some(id)).await?;
        all.extend(client.store.subs(&worker, &ids).await?.into_iter().map(|sub| sub.task));
    }
    Ok(all)
}

async fn get(context: &Context, client: &TaskClient, id: TaskId) -> Result {
    let (task, subs) = (find(client, id).await?, subtasks(client, id).await?);
    let sub = |sub: &SubTask| {
        json!({
            "subtask": sub.id, "state": sub.state.to_string(), "partition": sub.partition_name,
            "worker": sub.worker, "attempt": sub.attempt, "since": some(sub.started),
        })
    };
    let rows: Vec<Value> = subs.iter().map(sub).collect();
    print(context, &task, &subs, Section { name: "subtasks", columns: SUBTASKS, rows: &rows })
}

/// Prints a task with its last failures, and with its subtasks or its rounds.
fn print(context: &Context, task: &MainTask, subs: &[SubTask], parts: Section<'_>) -> Result {
    let failures: Vec<Value> = task.failures.iter().map(failure_row).collect();
    let sections = [parts, Section { name: "last_failures", columns: FAILURES, rows: &failures }];
    context.out.get(TASK, &row(task, subs), &sections)?;
    let more = task.result.failed_count.saturating_sub(task.failures.len() as u64);
    if more > 0 && context.out.is_table() {
        context.out.note(&format!("allot task failures {} lists {more} more", task.id));
    }
    Ok(())
}

async fn submit(context: &Context, client: &TaskClient, arguments: Submit) -> Result {
    let Submit { table, mut wanted, wait: waits } = arguments;
    context.no_dry_run("a submission")?;
    let parts: Vec<&str> = table.split('.').collect();
    let [db, schema, name] = parts.as_slice() else {
        return Err(Failure::usage(format!("'{table}' is no table: write DATABASE.SCHEMA.TABLE")));
    };
    (wanted.db, wanted.schema, wanted.table) = ((*db).to_owned(), (*schema).to_owned(), (*name).to_owned());
    let (id, task) = client.submit(&wanted).await?;
    let submitted = json!({"task": id.to_string(), "manager": task.manager, "table": table});
    // Scripts take the id from standard output.
    if context.out.is_table() {
        context.out.text(&format!("{id}\n"))?;
    } else {
        context.out.done("", SUBMITTED, &submitted)?;
    }
    if waits { wait(context, client, id).await } else { Ok(()) }
}

/// All failures of a round; of a packed task or round, the last ones.
async fn failures(context: &Context, client: &TaskClient, id: TaskId, round: Option<u64>) -> Result {
    let what = round.map_or_else(|| format!("task {id}"), |round| format!("round {round} of task {id}"));
    let Some(failures) = client.failures(id, round).await? else {
        return Err(Failure::absent(format!("there is no {what}"))
            .hint(format!("allot task history {id} lists its rounds")));
    };
    let (kept, all) = (failures.kept.len() as u64, failures.all);
    if kept < all {
        context.out.note(&format!("of {what}, history keeps the last {kept} of {all} failures"));
    }
    let rows: Vec<Value> = failures.kept.iter().map(failure_row).collect();
    context.out.list(FAILURES, &rows, "no partition has failed")?;
    if context.out.format == Format::Table && failures.kept.iter().any(|failure| !failure.output.is_empty()) {
        context.out.note("--format wide shows their output");
    }
    Ok(())
}

async fn pause(context: &Context, client: &TaskClient, which: &OneOrAll, paused: bool) -> Result {
    let (verb, done) = if paused { ("pause", "paused") } else { ("resume", "resumed") };
    if let Some(id) = which.task {
        unfinished(client, id).await?;
        context.proceed(&format!("{verb} task {id}"))?;
        let task = client.store.pause(id, paused).await?;
        if !paused {
            note_pause(context, client).await?;
        }
        return context.out.done(&format!("task {id} is {done}"), TASK, &row(&task, &[]));
    }
    context.confirm(&format!("{verb} all tasks")).await?;
    let is_changed = if paused { client.pause_all().await? } else { client.resume_all().await? };
    let live = client.store.live_mains().await?;
    let alone = live.iter().filter(|main| main.task.paused).count();
    if alone > 0 && !paused {
        context
            .out
            .note(&format!("{alone} tasks were paused by themselves and remain so; allot task resume TASK"));
    }
    let line = match (is_changed, paused) {
        (true, true) => "all tasks are paused, also those that are submitted later",
        (true, false) => "the pause of all tasks has ended",
        (false, true) => "all tasks were paused already",
        (false, false) => "all tasks were not paused",
    };
    context.out.done(line, ALL, &json!({"paused": paused, "tasks": live.len()}))
}

/// Says so if all tasks are paused.
async fn note_pause(context: &Context, client: &TaskClient) -> Result {
    if client.are_all_paused().await? {
        context.out.note("all tasks are paused; allot task resume --all lets them go on");
    }
    Ok(())
}

async fn stop(context: &Context, client: &TaskClient, id: TaskId, waits: bool) -> Result {
    let task = unfinished(client, id).await?;
    let (table, rest) = (task.table().join("."), task.round_size().saturating_sub(task.result.all()));
    context.confirm(&format!("stop task {id} on {table}, of which {rest} partitions are not done")).await?;
    let mut stopped = client.store.stop(id).await?;
    if waits {
        let work = context.work("stopping", 0, "subtasks are over", &format!("allot task get {id}"));
        stopped = follow(client, id, &work).await?;
    }
    let what = if stopped.state.is_over() { "has stopped" } else { "is stopping" };
    context.out.done(&format!("task {id} {what}"), TASK, &row(&stopped, &[]))
}

/// Waits for the end of a task. The answer is no unless every subtask succeeded.
async fn wait(context: &Context, client: &TaskClient, id: TaskId) -> Result {
    let again = format!("the task goes on; allot task watch {id} follows it again");
    let work = context.work("round 1", 0, "partitions are done", &again);
    let task = follow(client, id, &work).await?;
    drop(work);
    let total = task.grand_total();
    let why = if task.error.is_empty() { String::new() } else { format!(": {}", task.error) };
    let said = format!(
        "task {id} is {}{why} after {}: {} succeeded, {} failed, {} stopped",
        task.state,
        counted(task.round, "round"),
        total.success_count,
        total.failed_count,
        total.stopped_count
    );
    if context.out.format.is_json() {
        context.out.get(TASK, &row(&task, &[]), &[])?;
    }
    let is_whole = total.failed_count == 0 && total.stopped_count == 0 && task.failed_rounds == 0;
    if task.state == State::Done && is_whole {
        // Standard output has the id of a task that was submitted, and nothing else.
        context.out.note(&said);
        return Ok(());
    }
    Err(Failure::no(said).hint(format!("allot task failures {id}")))
}

async fn follow(client: &TaskClient, id: TaskId, work: &Work) -> Result<MainTask> {
    let mut told = String::new();
    loop {
        match client.task(id).await {
            Ok(task) if task.state.is_over() => return Ok(task),
            Ok(task) => {
                if task.error != told {
                    told.clone_from(&task.error);
                    if !told.is_empty() {
                        work.note(&format!("task {id}: {told}"));
                    }
                }
                work.message(format!("round {}", task.round));
                work.at(task.result.all(), task.round_size());
            }
            Err(fault) if matches!(fault.retry(), Retry::Pause | Retry::Reread) => {}
            Err(fault) => return Err(fault.into()),
        }
        sleep(POLL_INTERVAL).await;
    }
}
