//! What operators do: each action is logged with who, what and the outcome.

use axum::Json;
use serde::Serialize;
use serde_json::Value;
use tracing::{info, warn};
use utoipa::ToSchema;

use crate::problem::Problem;
use crate::security::Caller;

/// The outcome of an action.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Done {
    /// The reply of the command.
    #[schema(value_type = Object)]
    result: Value,
}

/// The answer of an action.
pub(super) type Answer = Result<Json<Done>, Problem>;

/// Carries out an action and logs it. `what` is the command, `target` the key and what the command names in it.
pub(super) async fn act<T: Into<Value>>(
    caller: &Caller,
    what: &'static str,
    target: String,
    action: impl Future<Output = Result<T, Problem>>,
) -> Answer {
    let session = caller.session.as_ref().and_then(|id| id.get(..8)).unwrap_or("none");
    // Before the action: a client that closes its connection ends this handler, and perhaps not the action.
    info!(peer = %caller.peer, session, action = what, target, "operator's action begins");
    let outcome = action.await;
    match &outcome {
        Ok(_) => info!(peer = %caller.peer, session, action = what, target, "operator's action done"),
        Err(problem) => {
            warn!(peer = %caller.peer, session, action = what, target, code = problem.code(), "operator's action refused");
        }
    }
    Ok(Json(Done { result: outcome?.into() }))
}
