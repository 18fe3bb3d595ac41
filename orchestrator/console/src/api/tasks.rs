//! Compaction: history, and what an operator does with tasks.

use allot_compaction::history::{self as packed, Cursor};
use allot_compaction::ids::TaskId;
use allot_compaction::task_store::TaskStore;
use axum::extract::{Query, State};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};

use super::action::{Answer, Done, act};
use crate::problem::Problem;
use crate::security::Caller;
use crate::state::Console;
use crate::submission::Submission;
use crate::task_change::TaskChange;
use crate::task_view::{FailureView, TaskView};

/// Tasks of one page of history, at most, as long as they are not packed.
const PAGE: usize = 100;

fn store(console: &Console) -> Result<&TaskStore, Problem> {
    let absent = || Problem::absent("no ZooKeeper is configured, where tasks are: set zookeeper.servers");
    console.sources.tasks.as_ref().ok_or_else(absent)
}

fn id(text: &str) -> Result<TaskId, Problem> {
    text.parse().map_err(|_| Problem::bad(format!("'{text}' is no id of a task")))
}

/// Which tasks.
#[derive(Deserialize, IntoParams)]
pub(super) struct Which {
    /// The cursor of the page before; without it, the first page.
    cursor: Option<String>,
}

/// A page of tasks that have ended.
#[derive(Serialize, ToSchema)]
pub(super) struct History {
    /// Cursor of the next page; null at the end.
    next: Option<String>,
    items: Vec<TaskView>,
}

/// Tasks that have ended, from new to old: first those with nodes of their own, then the packed ones, a pack in each
/// page.
#[utoipa::path(get, path = "/api/v1/compaction/history", params(Which),
    responses((status = 200, body = History), (status = 400, body = Problem), (status = 503, body = Problem)))]
pub(super) async fn history(
    State(console): State<Console>,
    Query(Which { cursor }): Query<Which>,
) -> Result<Json<History>, Problem> {
    let store = store(&console)?;
    let cursor = cursor.map(|text| text.parse::<Cursor>().map_err(Problem::bad)).transpose()?;
    let (mut tasks, mut next) = packed::page(store, cursor.unwrap_or_default(), PAGE).await?;
    // A page that is empty is no reason to ask again while there are older tasks.
    while tasks.is_empty()
        && let Some(cursor) = next
    {
        (tasks, next) = packed::page(store, cursor, PAGE).await?;
    }
    let items = tasks.iter().map(TaskView::from).collect();
    Ok(Json(History { next: next.map(|next| next.to_string()), items }))
}

/// One task.
#[derive(Deserialize, IntoParams)]
pub(super) struct One {
    /// The id of the task.
    id: String,
}

/// Why a task does not run, or has not finished.
#[utoipa::path(get, path = "/api/v1/compaction/explain", params(One),
    responses((status = 200, body = [String]), (status = 409, body = Problem)))]
pub(super) async fn explain(
    State(console): State<Console>,
    Query(One { id: task }): Query<One>,
) -> Result<Json<Vec<String>>, Problem> {
    store(&console)?;
    Ok(Json(console.operations.explain(id(&task)?).await?))
}

/// The failures of a task.
#[derive(Deserialize, IntoParams)]
pub(super) struct OfTask {
    /// The id of the task.
    id: String,
    /// The cursor of the page before; without it, the first page.
    cursor: Option<u64>,
}

/// A page of failed partitions.
#[derive(Serialize, ToSchema)]
pub(super) struct Failures {
    /// Cursor of the next page; null at the end.
    next: Option<u64>,
    items: Vec<FailureView>,
}

/// All partitions that failed in the current or last round of a task, from old to new. A task that is packed into history
/// has only its last failures, which the history shows.
#[utoipa::path(get, path = "/api/v1/compaction/failures", params(OfTask),
    responses((status = 200, body = Failures), (status = 404, body = Problem), (status = 503, body = Problem)))]
pub(super) async fn failures(
    State(console): State<Console>,
    Query(OfTask { id: task, cursor }): Query<OfTask>,
) -> Result<Json<Failures>, Problem> {
    let store = store(&console)?;
    let Some(main) = store.main(id(&task)?).await? else {
        let why =
            format!("task {task} is not there, or packed into history, which keeps only its last failures");
        return Err(Problem::absent(why));
    };
    let chunks = main.task.failure_log.chunks;
    let mut page = Failures { next: Some(cursor.unwrap_or(0)), items: Vec::new() };
    while page.items.is_empty()
        && let Some(chunk) = page.next.take().filter(|chunk| *chunk < chunks)
    {
        page.items = store.failures_of_chunk(&main, chunk).await?.iter().map(FailureView::from).collect();
        page.next = Some(chunk + 1).filter(|next| *next < chunks);
    }
    Ok(Json(page))
}

/// A task.
#[derive(Deserialize, ToSchema)]
pub(super) struct Task {
    id: String,
    /// For pause: whether it goes on.
    #[serde(default)]
    resume: bool,
}

/// Pauses a task, or lets it go on.
#[utoipa::path(post, path = "/api/v1/compaction/pause", request_body = Task,
    responses((status = 200, body = Done), (status = 409, body = Problem)))]
pub(super) async fn pause(
    State(console): State<Console>,
    Extension(caller): Extension<Caller>,
    Json(task): Json<Task>,
) -> Answer {
    let what = if task.resume { "resume" } else { "pause" };
    act(&caller, what, task.id.clone(), async {
        let paused = store(&console)?.pause(id(&task.id)?, !task.resume).await?;
        Ok(json!(TaskView::from(&paused)))
    })
    .await
}

/// Stops a task.
#[utoipa::path(post, path = "/api/v1/compaction/stop", request_body = Task,
    responses((status = 200, body = Done), (status = 409, body = Problem)))]
pub(super) async fn stop(
    State(console): State<Console>,
    Extension(caller): Extension<Caller>,
    Json(task): Json<Task>,
) -> Answer {
    act(&caller, "stop", task.id.clone(), async {
        let stopped = store(&console)?.stop(id(&task.id)?).await?;
        Ok(json!(TaskView::from(&stopped)))
    })
    .await
}

/// Submits a task. The result is its id.
#[utoipa::path(post, path = "/api/v1/compaction/submit", request_body = Submission,
    responses((status = 200, body = Done), (status = 400, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn submit(
    State(console): State<Console>,
    Extension(caller): Extension<Caller>,
    Json(wanted): Json<Submission>,
) -> Answer {
    let target = [&wanted.db, &wanted.schema, &wanted.table].map(String::as_str).join(".");
    act(&caller, "submit", target, async {
        store(&console)?;
        Ok(console.operations.submit(wanted).await?)
    })
    .await
}

/// Changes options of an unfinished task, for the subtasks that have not begun. The result is the task.
#[utoipa::path(post, path = "/api/v1/compaction/set", request_body = TaskChange,
    responses((status = 200, body = Done), (status = 400, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn set(
    State(console): State<Console>,
    Extension(caller): Extension<Caller>,
    Json(wanted): Json<TaskChange>,
) -> Answer {
    act(&caller, "set", wanted.id.clone(), async {
        store(&console)?;
        Ok(json!(TaskView::from(&console.operations.set(wanted).await?)))
    })
    .await
}

/// Runs the failed partitions of a finished task again.
#[utoipa::path(post, path = "/api/v1/compaction/retry", request_body = Task,
    responses((status = 200, body = Done), (status = 409, body = Problem)))]
pub(super) async fn retry(
    State(console): State<Console>,
    Extension(caller): Extension<Caller>,
    Json(task): Json<Task>,
) -> Answer {
    act(&caller, "retry", task.id.clone(), async {
        store(&console)?;
        console.operations.retry(id(&task.id)?).await?;
        Ok(true)
    })
    .await
}

/// A task or a subtask that another unit is to have.
#[derive(Deserialize, ToSchema)]
pub(super) struct Reassigned {
    /// The id of a task, or of a subtask that waits.
    id: String,
    /// The unit; without it, any other.
    to: Option<String>,
}

/// Gives a task to another manager, or a waiting subtask to another worker. The result is the unit.
#[utoipa::path(post, path = "/api/v1/compaction/reassign", request_body = Reassigned,
    responses((status = 200, body = Done), (status = 409, body = Problem)))]
pub(super) async fn reassign(
    State(console): State<Console>,
    Extension(caller): Extension<Caller>,
    Json(Reassigned { id: task, to }): Json<Reassigned>,
) -> Answer {
    act(&caller, "reassign", format!("{task} {}", to.as_deref().unwrap_or("-")), async {
        store(&console)?;
        Ok(console.operations.reassign(id(&task)?, to).await?)
    })
    .await
}
