//! The checks of every request, before an endpoint sees it, and the headers of every answer.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::sessions::{Access, Identity, Sessions, session_of};
use crate::problem::Problem;
use crate::settings::Settings;

/// The addresses that a request came through, the newest last; each proxy adds the one that it was sent from.
const FORWARDED_FOR: &str = "x-forwarded-for";
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
    /// The name of the user, if it is known.
    pub(crate) user: Option<String>,
    /// The address of the browser or program.
    pub(crate) address: IpAddr,
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
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
    let peer = peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let address = client(&guard.settings.proxies, peer, headers);
    let (Identity { access, user }, session) = identity(&guard, peer, headers);
    let path = request.uri().path();
    // Files of the page and logging in need no access; everything else under /api/ does. Each command has its own.
    let is_open = !path.starts_with("/api/") || path == "/api/v1/session";
    let needed = if reads || path == "/api/v1/command" { Access::Viewer } else { Access::Operator };
    if !is_open && access < needed {
        return refusal(access).into_response();
    }
    request.extensions_mut().insert(Caller { access, user, address, session });
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

/// Who sends a request, by its bearer token, its session cookie or the name that a proxy gives; and the session.
fn identity(guard: &Guard, peer: IpAddr, headers: &HeaderMap) -> (Identity, Option<String>) {
    let open = guard.sessions.open_access;
    let at_least = |identity: Identity| Identity { access: identity.access.max(open), ..identity };
    let bearer = text(headers, &header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
    if let Some(identity) = bearer.and_then(|token| guard.sessions.of_token(token)) {
        return (at_least(identity), None);
    }
    let session = text(headers, &header::COOKIE).and_then(session_of);
    if let Some((identity, id)) = session.and_then(|id| Some((guard.sessions.of_session(id)?, id))) {
        return (at_least(identity), Some(id.to_owned()));
    }
    let of_proxy = proxy_user(&guard.settings, peer, headers).map(at_least);
    (of_proxy.unwrap_or(Identity { access: open, user: None }), None)
}

/// Who sends a request, if a named proxy says so. The header of anybody else says nothing.
fn proxy_user(settings: &Settings, peer: IpAddr, headers: &HeaderMap) -> Option<Identity> {
    let name = settings.user_header.as_ref().filter(|_| settings.proxies.contains(&peer))?;
    // A proxy that adds its header to one of the client says two names, and nobody knows which is right.
    let mut lines = headers.get_all(name).into_iter();
    let user = lines.next().filter(|_| lines.next().is_none())?.to_str().ok()?.trim();
    let acts = settings.operators.iter().any(|operator| operator == user);
    let access = if acts { Access::Operator } else { Access::Viewer };
    (!user.is_empty()).then(|| Identity { access, user: Some(user.to_owned()) })
}

/// The address of a client: that of its connection, or, if a named proxy sends the request, the last one in its
/// `X-Forwarded-For` that is no named proxy. What stands before that, the client has written itself.
fn client(proxies: &[IpAddr], peer: IpAddr, headers: &HeaderMap) -> IpAddr {
    if !proxies.contains(&peer) {
        return peer;
    }
    let lines = headers.get_all(FORWARDED_FOR).into_iter().filter_map(|line| line.to_str().ok());
    let hops: Vec<&str> = lines.flat_map(|line| line.split(',')).map(str::trim).collect();
    for hop in hops.into_iter().rev() {
        match hop.parse() {
            Ok(address) if proxies.contains(&address) => {}
            Ok(address) => return address,
            Err(_) => return peer,
        }
    }
    peer
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_proxies_say_whose_request_it_is() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let proxies = [ip("10.0.0.1"), ip("10.0.0.2")];
        for (peer, forwarded, client_is) in [
            ("192.0.2.7", &["203.0.113.9"][..], "192.0.2.7"),
            ("10.0.0.1", &["203.0.113.9"], "203.0.113.9"),
            // What a client writes itself stands before what the proxy adds.
            ("10.0.0.1", &["198.51.100.1, 203.0.113.9"], "203.0.113.9"),
            ("10.0.0.1", &["198.51.100.1", "203.0.113.9, 10.0.0.2"], "203.0.113.9"),
            ("10.0.0.1", &["2001:db8::1"], "2001:db8::1"),
            ("10.0.0.1", &["unknown"], "10.0.0.1"),
            ("10.0.0.1", &[], "10.0.0.1"),
        ] {
            let mut headers = HeaderMap::new();
            for line in forwarded {
                headers.append(FORWARDED_FOR, HeaderValue::from_str(line).unwrap());
            }
            assert_eq!(client(&proxies, ip(peer), &headers), ip(client_is), "{peer} {forwarded:?}");
        }
    }
    #[test]
    fn only_a_named_proxy_names_the_user() {
        let mut settings = crate::settings::tests::settings("127.0.0.1:1");
        settings.proxies = vec!["10.0.0.1".parse().unwrap()];
        settings.user_header = Some("x-user".parse().unwrap());
        settings.operators = vec!["ann".to_owned()];
        for (peer, lines, found) in [
            ("10.0.0.1", &["ann"][..], Some((Access::Operator, "ann"))),
            ("10.0.0.1", &["bob"], Some((Access::Viewer, "bob"))),
            ("10.0.0.2", &["ann"], None),
            ("10.0.0.1", &["ann", "bob"], None),
            ("10.0.0.1", &[" "], None),
            ("10.0.0.1", &[], None),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append("x-user", HeaderValue::from_str(line).unwrap());
            }
            let user = proxy_user(&settings, peer.parse().unwrap(), &headers);
            let user = user.map(|identity| (identity.access, identity.user.unwrap()));
            assert_eq!(user, found.map(|(access, name)| (access, name.to_owned())), "{peer} {lines:?}");
        }
    }
}
