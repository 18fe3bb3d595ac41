//! The checks of every request, before an endpoint sees it, and the headers of every answer.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::sessions::{Access, Sessions, session_of};
use crate::problem::Problem;
use crate::settings::Settings;

/// A header that no form of another site can send.
const REQUEST_HEADER: &str = "x-allot-request";
/// The page loads only its own files, sends only to its own server, and is in no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What decides who may call the console.
pub(crate) struct Guard {
    pub(crate) settings: Settings,
    pub(crate) sessions: Sessions,
}

/// The caller of a request.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) access: Access,
    pub(crate) peer: SocketAddr,
    /// The session id, if the caller has a session.
    pub(crate) session: Option<String>,
}

/// Refuses requests to other names, requests that another site sends, and callers without access.
pub(crate) async fn check_caller(
    State(guard): State<Arc<Guard>>,
    mut request: Request,
    next: Next,
) -> Response {
    let headers = request.headers();
    if let Some(problem) = wrong_site(&guard.settings, headers) {
        return problem.into_response();
    }
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if !reads && !headers.contains_key(REQUEST_HEADER) {
        let why = "a request that changes something needs the header X-Allot-Request";
        return Problem::new(StatusCode::FORBIDDEN, "no-request-header", why).into_response();
    }
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0);
    let peer = peer.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)));
    let (access, session) = access(&guard, headers);
    let path = request.uri().path();
    // Files of the page and logging in need no access; everything else under /api/ does. Each command has its own.
    let is_open = !path.starts_with("/api/") || path == "/api/v1/session";
    let needed = if reads || path == "/api/v1/command" { Access::Viewer } else { Access::Operator };
    if !is_open && access < needed {
        return refusal(access).into_response();
    }
    request.extensions_mut().insert(Caller { access, peer, session });
    next.run(request).await
}

/// Why a caller with this access is refused.
pub(crate) fn refusal(access: Access) -> Problem {
    match access {
        Access::None => Problem::new(StatusCode::UNAUTHORIZED, "no-token", "log in with a token"),
        _ => Problem::new(
            StatusCode::FORBIDDEN,
            "viewer",
            "a viewer may not act; log in with the operator's token",
        ),
    }
}

/// The access of a request by its session cookie or its bearer token.
fn access(guard: &Guard, headers: &HeaderMap) -> (Access, Option<String>) {
    let open = guard.sessions.open_access();
    let bearer = text(headers, &header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
    if let Some(access) = bearer.and_then(|token| guard.sessions.token_access(token)) {
        return (access.max(open), None);
    }
    let session = text(headers, &header::COOKIE).and_then(session_of);
    match session.and_then(|id| Some((guard.sessions.session_access(id)?, id))) {
        Some((access, id)) => (access.max(open), Some(id.to_owned())),
        None => (open, None),
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Refuses a request whose `Host` or `Origin` is not the console: a name of another site that was made to lead here.
fn wrong_site(settings: &Settings, headers: &HeaderMap) -> Option<Problem> {
    let is_ours = |host: &str| hosts(settings).iter().any(|ours| ours.eq_ignore_ascii_case(host));
    let forbidden = |code, message| Some(Problem::new(StatusCode::FORBIDDEN, code, message));
    if !text(headers, &header::HOST).is_some_and(is_ours) {
        return forbidden("wrong-host", "this is not an address of the console; console.origins adds one");
    }
    let origin = headers.get(header::ORIGIN)?;
    let host = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
    if host.is_some_and(is_ours) { None } else { forbidden("wrong-origin", "another site sent this request") }
}

/// The names and ports by which the console may be called.
fn hosts(settings: &Settings) -> Vec<String> {
    let (listen, port) = (settings.listen, settings.listen.port());
    let mut hosts = vec![listen.to_string()];
    if listen.ip().is_loopback() {
        hosts.push(format!("localhost:{port}"));
    }
    hosts.extend(settings.origins.iter().filter_map(|origin| Some(origin.split_once("://")?.1.to_owned())));
    hosts
}

/// Sets the headers that keep other sites out of the page and the page out of other sites.
pub(crate) async fn answer_headers(request: Request, next: Next) -> Response {
    let is_api = request.uri().path().starts_with("/api/");
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if is_api {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}
