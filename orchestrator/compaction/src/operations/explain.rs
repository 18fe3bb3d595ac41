//! Why a task is not running, or not finished.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, UNIX_EPOCH};

use allot_runtime::time::now_ms;

use super::client::TaskClient;
use crate::fault::Fault;
use crate::ids::TaskId;
use crate::node::Units;
use crate::paths::decode;
use crate::permits;
use crate::task::MainTask;

/// A time (milliseconds since 1970) as text for people.
pub fn time(ms: u64) -> String {
    if ms == 0 {
        return "-".to_owned();
    }
    // Times beyond the range of this format are printed as a number.
    let ms = ms.min(253_402_300_799_000);
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(ms)).to_string()
}

/// How times are written.
type Shown<'a> = &'a (dyn Fn(u64) -> String + Sync);

impl TaskClient {
    /// The reasons why a task is not running, or not finished. `time` writes times, in milliseconds since 1970.
    pub async fn explain(&self, id: TaskId, time: Shown<'_>) -> Result<Vec<String>, Fault> {
        let (task, units) = (self.task(id).await?, self.units().await?);
        let subs = count_subtasks(self, id).await?;
        let before = match task.after.as_ref().and_then(|id| id.parse::<TaskId>().ok()) {
            Some(before) => self.store.main(before).await?.filter(|before| !before.task.state.is_over()),
            None => None,
        };
        let waits = before.map(|before| format!("it waits for task {} on the same table", before.id));
        let held_up = self.store.held_up(&task).await?.filter(|_| !task.is_round_open());
        let waits =
            waits.into_iter().chain(held_up.map(|why| format!("its next round waits: {why}"))).collect();
        let limits = limits(self, &task, &units).await?;
        let inboxes = self.store.inboxes().await?.into_iter();
        let away = inboxes.filter_map(|(unit, inbox)| Some((unit, inbox.away?))).collect();
        let faulty = self.refusals().await?.into_keys().collect();
        let there = Presences { units: &units, away, faulty, time };
        Ok(reasons(&task, waits, &limits, &subs, &there, now_ms()))
    }
}

/// How many subtasks of a task run and wait at each worker.
type Counts = BTreeMap<String, Count>;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Count {
    running: usize,
    waiting: usize,
}

/// Counts the subtasks of a task: by the inboxes, and by the locks of the partitions that run. So the cost depends on the
/// number of workers and of running subtasks, and not on that of waiting ones.
async fn count_subtasks(client: &TaskClient, id: TaskId) -> Result<Counts, Fault> {
    let store = &client.store;
    let locks = store.children(&store.paths.locks()).await?;
    let locks = store.tree.get_many(&store.paths.locks(), locks).await?.into_iter();
    let running = locks.filter_map(|(_, lock)| String::from_utf8(lock.data).ok()?.parse::<TaskId>().ok());
    let running: BTreeSet<TaskId> = running.filter(|sub| sub.of_main() == id).collect();
    let mut counts = Counts::new();
    for name in store.children(&store.paths.assigned()).await? {
        let worker = decode(&name);
        let ids = store.at(&worker, Some(id)).await?;
        if !ids.is_empty() {
            let running = ids.iter().filter(|sub| running.contains(sub)).count();
            counts.insert(worker, Count { running, waiting: ids.len() - running });
        }
    }
    Ok(counts)
}

/// The present units, and since when the others are away, as the monitor recorded it.
struct Presences<'a> {
    units: &'a Units,
    away: BTreeMap<String, u64>,
    /// Those that are present and cannot run runners.
    faulty: BTreeSet<String>,
    time: Shown<'a>,
}

impl Presences<'_> {
    fn since(&self, unit: &str) -> String {
        self.away.get(unit).map(|at| format!(" since {}", (self.time)(*at))).unwrap_or_default()
    }
}

/// A limit: its scope, its value, and how many of its permits are taken.
type Limit = (&'static str, u32, u32);

async fn limits(client: &TaskClient, task: &MainTask, units: &Units) -> Result<Vec<Limit>, Fault> {
    let taken = permits::taken(&client.store).await?;
    // Each unit applies the limit of its own settings; if they differ, the lowest one is shown.
    let of_all = units.live.values().map(|unit| unit.limit).filter(|limit| *limit > 0).min();
    let scopes = permits::needed(task, of_all.unwrap_or(0)).into_iter();
    Ok(scopes
        .map(|(scope, limit)| {
            let what = if scope == permits::ALL { "all tasks" } else { "the task" };
            let of = taken.iter().filter(|name| name.rsplit_once('.').is_some_and(|(of, _)| of == scope));
            (what, limit, of.count() as u32)
        })
        .collect())
}

fn reasons(
    task: &MainTask,
    waits: Vec<String>,
    limits: &[Limit],
    subs: &Counts,
    there: &Presences<'_>,
    now: u64,
) -> Vec<String> {
    if task.state.is_over() {
        let why = if task.error.is_empty() { String::new() } else { format!(": {}", task.error) };
        return vec![format!("it has ended, {} since {}{why}", task.state, (there.time)(task.finished))];
    }
    let mut all = Vec::new();
    let has_manager = there.units.live.contains_key(&task.manager);
    if !has_manager {
        let (manager, since) = (&task.manager, there.since(&task.manager));
        all.push(format!(
            "its manager {manager} is away{since}; the monitor gives it to another after the grace"
        ));
    }
    if there.units.bins(&task.pc).is_empty() {
        let lack = there.units.lack(&task.pc);
        all.push(format!("no compaction node of its processing cluster {} {lack}", task.pc));
    }
    if there.units.are_tasks_paused {
        all.push("all tasks are paused; allot task resume --all lets them go on".to_owned());
    }
    if task.paused {
        all.push("it is paused; allot task resume lets it go on".to_owned());
    }
    if let Some(window) = &task.window
        && let Some(span) = window.shut_for(now)
    {
        all.push(format!(
            "it is outside of its window {window}, which opens at {}",
            (there.time)(now + span.as_millis() as u64)
        ));
    }
    let is_next = waits.is_empty();
    all.extend(waits);
    all.extend(
        limits
            .iter()
            .filter(|(_, limit, taken)| taken >= limit)
            .map(|(what, limit, taken)| format!("{taken} subtasks of {what} run, and {limit} is the limit")),
    );
    if task.cancelling {
        all.push(format!("it is being stopped: {} subtasks are not over", task.outstanding()));
    }
    if task.listing.is_none() {
        if task.retry.at > now {
            let (count, at) = (task.result.failed_count, (there.time)(task.retry.at));
            all.push(format!("{count} failed partitions of round {} run again at {at}", task.round));
        } else if task.begins_at() > now {
            let what = if task.list_failed > 0 { "lists its partitions again" } else { "is due" };
            all.push(format!("round {} {what} at {}", task.round + 1, (there.time)(task.begins_at())));
        } else if is_next && !task.paused && !there.units.are_tasks_paused && has_manager {
            all.push("its manager lists its partitions".to_owned());
        }
        if !task.error.is_empty() {
            all.push(task.error.clone());
        }
    }
    let rest = task.count().saturating_sub(task.cursor);
    if rest > 0 {
        all.push(format!("{rest} partitions of the round are not assigned yet"));
    }
    all.extend(by_worker(task, subs, there));
    let present: usize = subs.values().map(|count| count.running + count.waiting).sum();
    let finished = task.outstanding().saturating_sub(present as u64);
    if finished > 0 {
        all.push(format!("{finished} subtasks are over, and not counted yet"));
    }
    all
}

fn by_worker(task: &MainTask, subs: &Counts, there: &Presences<'_>) -> Vec<String> {
    let mut others = there.units.bins(&task.pc);
    others.retain(|bin| !there.faulty.contains(&bin.name));
    let line = |(worker, &Count { running, waiting }): (&String, &Count)| {
        let Some(info) = there.units.live.get(worker) else {
            return format!(
                "worker {worker} is away{}: {} subtasks wait until it counts as lost",
                there.since(worker),
                running + waiting
            );
        };
        let held = if there.units.is_drained(worker) {
            Some("it is drained")
        } else {
            there.faulty.contains(worker).then_some("it cannot run runners, as its /readyz says")
        };
        // Otherwise one of the reasons above applies, or the subtasks are about to start.
        let why = match held {
            _ if waiting == 0 => String::new(),
            Some(held) if others.iter().any(|bin| bin.name != *worker) => {
                format!("; {held}, and others take what waits")
            }
            Some(held) => format!("; {held}, and no other compaction node can take what waits"),
            None if running >= info.slots as usize => "; they wait for a free slot".to_owned(),
            None => String::new(),
        };
        format!("worker {worker}, {} slots: {running} running, {waiting} waiting{why}", info.slots)
    };
    subs.iter().map(line).collect()
}
