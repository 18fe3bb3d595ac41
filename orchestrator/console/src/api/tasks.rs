//! Compaction: history, and what an operator does with tasks.

use std::sync::Arc;

use allot_compaction::ids::TaskId;
use allot_compaction::task::Failure;
use allot_compaction::{HistoryQuery, Submission, TaskChange, TaskClient};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use super::declaration::Action;
use crate::problem::Problem;
use crate::state::Console;
use crate::task_view::TaskView;

/// Tasks of one page of history, at most, as long as they are not packed.
const PAGE: usize = 100;

fn tasks(console: &Console) -> Result<&TaskClient, Problem> {
    let absent = || Problem::absent("no ZooKeeper is configured, where tasks are: set zookeeper.servers");
    console.tasks.as_ref().ok_or_else(absent)
}

fn id(text: &str) -> Result<TaskId, Problem> {
    text.parse().map_err(|_| Problem::bad(format!("'{text}' is no id of a task")))
}

/// A page of tasks that have ended, and of rounds of repeated tasks.
#[derive(Serialize, ToSchema)]
pub(super) struct History {
    /// Cursor of the next page; null at the end.
    next: Option<String>,
    items: Vec<TaskView>,
}

pub(super) async fn history(console: Arc<Console>, wanted: HistoryQuery) -> Result<History, Problem> {
    let (found, next) = tasks(&console)?.history_page(&wanted, PAGE).await?;
    let items = found.iter().map(TaskView::from).collect();
    Ok(History { next: next.map(|next| next.to_string()), items })
}

/// One task.
#[derive(Deserialize, IntoParams)]
pub(super) struct One {
    /// The id of the task.
    id: String,
}

pub(super) async fn explain(console: Arc<Console>, One { id: task }: One) -> Result<Vec<String>, Problem> {
    Ok(tasks(&console)?.explain(id(&task)?, &allot_compaction::time).await?)
}

/// The failures of a task.
#[derive(Deserialize, IntoParams)]
pub(super) struct OfTask {
    /// The id of the task.
    id: String,
    /// The number of the round; without it, the current or last one.
    round: Option<u64>,
    /// The cursor of the page before; without it, the first page.
    cursor: Option<u64>,
}

/// A page of failed partitions.
#[derive(Serialize, ToSchema)]
pub(super) struct Failures {
    /// Cursor of the next page; null at the end.
    next: Option<u64>,
    items: Vec<Failure>,
}

pub(super) async fn failures(console: Arc<Console>, which: OfTask) -> Result<Failures, Problem> {
    let client = tasks(&console)?;
    let Some(main) = client.unpacked(id(&which.id)?, which.round).await? else {
        let what = which.round.map(|round| format!("round {round} of ")).unwrap_or_default();
        let why = "does not exist, or is packed into history, which keeps only its last failures";
        return Err(Problem::absent(format!("{what}task {} {why}", which.id)));
    };
    let (store, chunks) = (&client.store, main.task.failure_log.chunks);
    if chunks == 0 {
        // Of an older round only the last ones are kept.
        return Ok(Failures { next: None, items: store.failures(&main).await? });
    }
    let mut page = Failures { next: Some(which.cursor.unwrap_or(0)), items: Vec::new() };
    while page.items.is_empty()
        && let Some(chunk) = page.next.take().filter(|chunk| *chunk < chunks)
    {
        page.items = store.failures_of_chunk(&main, chunk).await?;
        page.next = Some(chunk + 1).filter(|next| *next < chunks);
    }
    Ok(page)
}

/// A task.
#[derive(Deserialize, ToSchema)]
pub(super) struct Task {
    id: String,
    /// For pause: whether it goes on.
    #[serde(default)]
    resume: bool,
}

impl Action for Task {
    fn target(&self) -> String {
        format!("{}{}", self.id, if self.resume { " resume" } else { "" })
    }
}

pub(super) async fn pause(console: Arc<Console>, task: Task) -> Result<Value, Problem> {
    let paused = tasks(&console)?.store.pause(id(&task.id)?, !task.resume).await?;
    Ok(json!(TaskView::from(&paused)))
}

pub(super) async fn stop(console: Arc<Console>, task: Task) -> Result<Value, Problem> {
    Ok(json!(TaskView::from(&tasks(&console)?.store.stop(id(&task.id)?).await?)))
}

pub(super) async fn retry(console: Arc<Console>, task: Task) -> Result<Value, Problem> {
    Ok(json!(TaskView::from(&tasks(&console)?.retry(id(&task.id)?).await?)))
}

impl Action for Submission {
    fn target(&self) -> String {
        [&self.db, &self.schema, &self.table].map(String::as_str).join(".")
    }
}

pub(super) async fn submit(console: Arc<Console>, wanted: Submission) -> Result<String, Problem> {
    let (id, _) = tasks(&console)?.submit(&wanted).await?;
    Ok(id.to_string())
}

impl Action for TaskChange {
    fn target(&self) -> String {
        self.id.clone()
    }
}

pub(super) async fn set(console: Arc<Console>, wanted: TaskChange) -> Result<Value, Problem> {
    Ok(json!(TaskView::from(&tasks(&console)?.set(&wanted).await?)))
}

/// A task or a subtask that another unit is to have.
#[derive(Deserialize, ToSchema)]
pub(super) struct Reassigned {
    /// The id of a task, or of a subtask that waits.
    id: String,
    /// The unit; without it, any other.
    to: Option<String>,
}

impl Action for Reassigned {
    fn target(&self) -> String {
        format!("{} {}", self.id, self.to.as_deref().unwrap_or("-"))
    }
}

pub(super) async fn reassign(console: Arc<Console>, wanted: Reassigned) -> Result<String, Problem> {
    Ok(tasks(&console)?.reassign(id(&wanted.id)?, wanted.to.as_deref()).await?)
}

/// A compaction node that is to take no more subtasks, or to take some again.
#[derive(Deserialize, ToSchema)]
pub(super) struct Drain {
    /// The name of the node.
    node: String,
    /// Whether it is drained.
    drained: bool,
}

impl Action for Drain {
    fn target(&self) -> String {
        format!("{} {}", self.node, if self.drained { "drained" } else { "present" })
    }
}

pub(super) async fn drain(console: Arc<Console>, Drain { node, drained }: Drain) -> Result<usize, Problem> {
    let client = tasks(&console)?;
    if drained {
        return Ok(client.drain(&node, None).await?);
    }
    client.undrain(&node).await?;
    Ok(client.store.at(&node, None).await?.len())
}
