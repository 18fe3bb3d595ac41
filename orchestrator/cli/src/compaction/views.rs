//! Prints tasks and units, as tables for people and as JSON for programs.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use crate::outcome::Outcome;
use crate::table::lay;
use crate::terminal::write;
use allot_compaction::TaskClient;
use allot_compaction::ids::TaskId;
use allot_compaction::paths::decode;
use allot_compaction::task::{MainTask, SubState, SubTask};
use allot_compaction::{history as packed, task_store, time};

/// Most subtasks that are printed for people.
const SHOWN: usize = 50;

fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|&cell| cell.to_owned()).collect()
}

fn print(value: &Value) -> Result<Outcome> {
    write(&format!("{value}\n"))?;
    Ok(Outcome::Done)
}

fn tasks(tasks: &[MainTask]) -> Result<Outcome> {
    let mut rows = vec![row(&[
        "task",
        "table",
        "state",
        "manager",
        "round",
        "succeeded",
        "failed",
        "of",
        "created",
        "finished",
    ])];
    for task in tasks {
        let state = match task.state.is_over() {
            false if task.cancelling => "stopping",
            false if task.paused => "paused",
            _ => &task.state.to_string(),
        };
        rows.push(row(&[
            &task.id,
            &task.table().join("."),
            state,
            &task.manager,
            &task.round.to_string(),
            &task.result.success_count.to_string(),
            &task.result.failed_count.to_string(),
            &task.round_size().to_string(),
            &time(task.created),
            &time(task.finished),
        ]));
    }
    write(&lay(&rows))?;
    Ok(Outcome::Done)
}

/// Runs `list`.
pub(super) async fn list(client: &TaskClient, live: bool, as_json: bool) -> Result<Outcome> {
    let mains = if live { client.store.live_mains().await? } else { client.store.mains().await? };
    let all: Vec<MainTask> = mains.into_iter().map(|main| main.task).collect();
    if as_json { print(&json!(all)) } else { tasks(&all) }
}

/// Runs `history`.
pub(super) async fn history(client: &TaskClient, id: Option<TaskId>, as_json: bool) -> Result<Outcome> {
    let mut all = packed::all(&client.store).await?;
    if let Some(id) = id {
        all.retain(|task| task.id == id.to_string());
        let Some(task) = all.first() else {
            return Err(task_store::Fault::Refused(format!("task {id} is not in the history")).into());
        };
        return if as_json { print(&json!(task)) } else { print_task(task, &[]) };
    }
    if as_json { print(&json!(all)) } else { tasks(&all) }
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

/// Runs `show`.
pub(super) async fn show(client: &TaskClient, id: TaskId, as_json: bool) -> Result<Outcome> {
    let (task, subs) = (client.task(id).await?, subtasks(client, id).await?);
    if as_json { print(&json!({"task": task, "subtasks": subs})) } else { print_task(&task, &subs) }
}

fn print_task(task: &MainTask, subs: &[SubTask]) -> Result<Outcome> {
    let result = task.result;
    let total = task.grand_total();
    let counts = |result: allot_compaction::task::ResultInfo| {
        let (succeeded, failed, stopped) = (result.success_count, result.failed_count, result.stopped_count);
        format!("{succeeded} succeeded, {failed} failed, {stopped} stopped")
    };
    let running = subs.iter().filter(|sub| sub.state == SubState::Running).count();
    let mut facts = vec![
        ("task", task.id.clone()),
        ("table", task.table().join(".")),
        ("state", task.state.to_string()),
        ("manager", task.manager.clone()),
        ("pc", task.pc.clone()),
        ("round", task.round.to_string()),
        ("this round", format!("{} of {}", counts(result), task.round_size())),
        ("all rounds", counts(total)),
        ("now", format!("{running} running, {} waiting", subs.len() - running)),
        ("created", time(task.created)),
        ("started", time(task.started)),
        ("next round", time(task.next_at)),
        ("finished", time(task.finished)),
    ];
    facts.extend(task.sums.iter().map(|(name, sum)| (name.as_str(), sum.to_string())));
    if task.retry.at > 0 {
        facts.push(("next retry", time(task.retry.at)));
    }
    if task.paused {
        facts.push(("paused", "yes".to_owned()));
    }
    if task.priority != 0 {
        facts.push(("priority", task.priority.to_string()));
    }
    if task.limit != 0 {
        facts.push(("limit", task.limit.to_string()));
    }
    if task.timeout != 0 {
        facts.push(("timeout", humantime::format_duration(Duration::from_secs(task.timeout)).to_string()));
    }
    facts.extend(task.schedule.iter().map(|schedule| ("schedule", schedule.to_string())));
    facts.extend(task.min_score.iter().map(|score| ("lowest score", score.to_string())));
    if task.budget != 0 {
        facts.push(("budget", task.budget.to_string()));
    }
    facts.extend(task.window.iter().map(|window| ("window", window.to_string())));
    facts.extend(task.after.iter().map(|before| ("after", before.clone())));
    if task.cancelling {
        facts.push(("stop", "asked for".to_owned()));
    }
    if !task.error.is_empty() {
        facts.push(("why", task.error.clone()));
    }
    let rows: Vec<Vec<String>> = facts.iter().map(|(name, value)| row(&[name, value])).collect();
    let mut text = lay(&rows);
    if !subs.is_empty() {
        let mut rows = vec![row(&["subtask", "partition", "state", "worker", "attempt", "since"])];
        rows.extend(subs.iter().take(SHOWN).map(|sub| {
            let (state, attempt) = (sub.state.to_string(), sub.attempt.to_string());
            row(&[&sub.id, &sub.partition_name, &state, &sub.worker, &attempt, &time(sub.started)])
        }));
        let _ = write!(text, "\nsubtasks\n{}", lay(&rows));
        if subs.len() > SHOWN {
            let _ = writeln!(text, "and {} more; --json has all", subs.len() - SHOWN);
        }
    }
    let more = result.failed_count.saturating_sub(task.failures.len() as u64);
    if more > 0 && !task.failures.is_empty() {
        let _ =
            writeln!(text, "\nthe last failures; allot compaction failures {} lists {more} more", task.id);
    }
    for failure in &task.failures {
        let _ = writeln!(
            text,
            "\nfailed: {} ({}) at {}: {}\n{}",
            failure.partition,
            failure.id,
            failure.worker,
            failure.message,
            failure.output.trim_end()
        );
    }
    write(&text)?;
    Ok(Outcome::Done)
}

/// Runs `nodes`.
pub(super) async fn nodes(client: &TaskClient, as_json: bool) -> Result<Outcome> {
    let units = client.units().await?;
    let monitor = client.monitor().await?;
    let mut rows = vec![row(&["node", "pc", "slots", "subtasks", "monitor", "since", "version"])];
    let mut values = Vec::new();
    for (name, info) in &units.live {
        let count = client.store.at(name, None).await?.len();
        let leads = monitor.as_deref() == Some(name);
        values.push(json!({
            "node": name, "pc": info.pc, "slots": info.slots, "subtasks": count, "monitor": leads,
            "started": info.started, "version": info.version,
        }));
        let (slots, count) = (info.slots.to_string(), count.to_string());
        let leads = if leads { "yes" } else { "-" };
        rows.push(row(&[name, &info.pc, &slots, &count, leads, &time(info.started), &info.version]));
    }
    if as_json {
        return print(&Value::from(values));
    }
    write(&lay(&rows))?;
    Ok(Outcome::Done)
}
