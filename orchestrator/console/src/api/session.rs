//! Log in with a token, log out, and what a caller may do.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use tracing::{info, warn};
use utoipa::ToSchema;

use crate::problem::Problem;
use crate::security::{Access, Caller, session_cookie};
use crate::state::Console;

/// What the caller may do.
#[derive(Serialize, ToSchema)]
pub(super) struct Session {
    access: Access,
    /// Whether there are tokens at all.
    tokens: bool,
}

/// A token.
#[derive(Deserialize, ToSchema)]
pub(super) struct Login {
    token: String,
}

fn session(console: &Console, access: Access) -> Json<Session> {
    Json(Session { access, tokens: console.guard.sessions.open_access() < Access::Operator })
}

/// What the caller may do.
#[utoipa::path(get, path = "/api/v1/session", responses((status = 200, body = Session)))]
pub(super) async fn show(
    State(console): State<Console>,
    Extension(caller): Extension<Caller>,
) -> Json<Session> {
    session(&console, caller.access)
}

/// Exchanges a token for a session cookie.
#[utoipa::path(post, path = "/api/v1/session", request_body = Login,
    responses((status = 200, body = Session), (status = 401, body = Problem)))]
pub(super) async fn open(
    State(console): State<Console>,
    Extension(caller): Extension<Caller>,
    Json(login): Json<Login>,
) -> Result<impl IntoResponse, Problem> {
    let Some(access) = console.guard.sessions.token_access(&login.token) else {
        warn!(peer = %caller.peer, "a wrong token was given to the console");
        return Err(Problem::new(StatusCode::UNAUTHORIZED, "wrong-token", "this token is not known"));
    };
    let id = console.guard.sessions.open(access);
    info!(peer = %caller.peer, session = id.get(..8), ?access, "logged in");
    let cookie = session_cookie(Some(&id), console.guard.settings.address().starts_with("https:"));
    Ok((AppendHeaders([(header::SET_COOKIE, cookie)]), session(&console, access)))
}

/// Ends the session.
#[utoipa::path(delete, path = "/api/v1/session", responses((status = 200, body = Session)))]
pub(super) async fn close(
    State(console): State<Console>,
    Extension(caller): Extension<Caller>,
) -> impl IntoResponse {
    if let Some(id) = &caller.session {
        console.guard.sessions.close(id);
    }
    let cookie = session_cookie(None, console.guard.settings.address().starts_with("https:"));
    (AppendHeaders([(header::SET_COOKIE, cookie)]), session(&console, console.guard.sessions.open_access()))
}
