//! Log in with a token, log out, and what a caller may do.

use std::sync::Arc;

use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use tracing::{info, warn};
use utoipa::ToSchema;

use crate::problem::Problem;
use crate::security::{Access, Caller, Identity, session_cookie};
use crate::state::Console;

/// What the caller may do.
#[derive(Serialize, ToSchema)]
pub(super) struct Session {
    access: Access,
    /// The name of the caller, if it is known.
    user: Option<String>,
    /// Whether the caller can log in or out with a token.
    tokens: bool,
}

/// A token.
#[derive(Deserialize, ToSchema)]
pub(super) struct Login {
    token: String,
}

fn session(console: &Console, identity: Identity, by_proxy: bool) -> Json<Session> {
    let Identity { access, user } = identity;
    Json(Session { access, user, tokens: console.guard.sessions.open_access < Access::Operator && !by_proxy })
}

fn cookie(console: &Console, id: Option<&str>) -> AppendHeaders<[(HeaderName, String); 1]> {
    let is_secure = console.guard.settings.address().starts_with("https:");
    AppendHeaders([(header::SET_COOKIE, session_cookie(id, is_secure))])
}

pub(super) async fn show(
    State(console): State<Arc<Console>>,
    Extension(caller): Extension<Caller>,
) -> Json<Session> {
    let by_proxy = caller.user.is_some() && caller.session.is_none();
    session(&console, Identity { access: caller.access, user: caller.user }, by_proxy)
}

pub(super) async fn open(
    State(console): State<Arc<Console>>,
    Extension(caller): Extension<Caller>,
    login: Result<Json<Login>, JsonRejection>,
) -> Result<impl IntoResponse, Problem> {
    let Some(identity) = console.guard.sessions.of_token(&login?.token) else {
        warn!(address = %caller.address, "a wrong token was given to the console");
        return Err(Problem::new(StatusCode::UNAUTHORIZED, "wrong-token", "this token is not known"));
    };
    let id = console.guard.sessions.open(identity.clone());
    let (access, user) = (identity.access, identity.user.as_deref());
    info!(address = %caller.address, session = id.get(..8), ?access, user, "logged in");
    Ok((cookie(&console, Some(&id)), session(&console, identity, false)))
}

pub(super) async fn close(
    State(console): State<Arc<Console>>,
    Extension(caller): Extension<Caller>,
) -> impl IntoResponse {
    if let Some(id) = &caller.session {
        console.guard.sessions.close(id);
    }
    let nobody = Identity { access: console.guard.sessions.open_access, user: None };
    (cookie(&console, None), session(&console, nobody, false))
}
