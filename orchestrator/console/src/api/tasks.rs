//! Compaction: history, and what an operator does with tasks.

use allot_compaction::history as packed;
use allot_compaction::ids::TaskId;
use allot_compaction::task_store::TaskStore;
use axum::extract::State;
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use super::action::{Answer, Done, act};
use crate::problem::Problem;
use crate::security::Caller;
use crate::state::Console;
use crate::task_view::TaskView;

fn store(console: &Console) -> Result<&TaskStore, Problem> {
    let absent = || Problem::absent("no ZooKeeper is configured, where tasks are: set zookeeper.servers");
    console.sources.tasks.as_ref().ok_or_else(absent)
}

fn id(text: &str) -> Result<TaskId, Problem> {
    text.parse().map_err(|_| Problem::bad(format!("'{text}' is no id of a task")))
}

/// All tasks that have ended, packed ones included.
#[utoipa::path(get, path = "/api/v1/compaction/history",
    responses((status = 200, body = [TaskView]), (status = 503, body = Problem)))]
pub(super) async fn history(State(console): State<Console>) -> Result<Json<Vec<TaskView>>, Problem> {
    let tasks = packed::all(store(&console)?).await?;
    Ok(Json(tasks.iter().map(TaskView::from).collect()))
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
