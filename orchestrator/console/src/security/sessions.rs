//! Tokens, and the sessions of browsers that have shown one. Sessions are in memory: after a restart of the console
//! people log in again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use allot_client::Secret;
use rand::Rng as _;
use serde::Serialize;
use subtle::ConstantTimeEq as _;
use tokio::time::Instant;
use utoipa::ToSchema;

/// Name of the session cookie.
const COOKIE: &str = "allot-session";
/// Time for which a session lasts.
const LIFETIME: Duration = Duration::from_secs(12 * 3600);
/// Most sessions at once. Beyond that the oldest ends.
const SESSIONS: usize = 10_000;

/// What a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Access {
    /// Log in.
    None,
    /// Look.
    Viewer,
    /// Look and act.
    Operator,
}

/// The tokens, and the sessions that were opened with them.
pub(crate) struct Sessions {
    viewer: Option<Secret>,
    operator: Option<Secret>,
    open: Mutex<HashMap<String, (Access, Instant)>>,
}

impl Sessions {
    pub(crate) fn new(viewer: Option<Secret>, operator: Option<Secret>) -> Self {
        Self { viewer, operator, open: Mutex::default() }
    }

    /// The access of callers without a token: everything if there are no tokens, which only loopback allows. A token
    /// that exists protects its own access and every higher one.
    pub(crate) fn open_access(&self) -> Access {
        match (&self.viewer, &self.operator) {
            (None, None) => Access::Operator,
            (None, Some(_)) => Access::Viewer,
            (Some(_), _) => Access::None,
        }
    }

    /// The access that a token gives.
    pub(crate) fn token_access(&self, token: &str) -> Option<Access> {
        // Both are compared, so that the time does not tell which one was nearly right.
        let operator = is_equal(self.operator.as_ref(), token);
        let viewer = is_equal(self.viewer.as_ref(), token);
        match (operator, viewer) {
            (true, _) => Some(Access::Operator),
            (false, true) => Some(Access::Viewer),
            (false, false) => None,
        }
    }

    /// Opens a session and returns its id.
    pub(crate) fn open(&self, access: Access) -> String {
        let id = format!("{:032x}{:032x}", rand::rng().random::<u128>(), rand::rng().random::<u128>());
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        open.retain(|_, (_, since)| now.duration_since(*since) < LIFETIME);
        if open.len() >= SESSIONS
            && let Some(oldest) = open.iter().min_by_key(|(_, (_, since))| *since).map(|(id, _)| id.clone())
        {
            open.remove(&oldest);
        }
        open.insert(id.clone(), (access, now));
        id
    }

    /// The access of a live session.
    pub(crate) fn session_access(&self, id: &str) -> Option<Access> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(id).filter(|(_, since)| since.elapsed() < LIFETIME).map(|(access, _)| *access)
    }

    /// Ends a session.
    pub(crate) fn close(&self, id: &str) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }
}

/// Whether the token is this secret. The time depends on the lengths only.
fn is_equal(secret: Option<&Secret>, token: &str) -> bool {
    secret.is_some_and(|secret| bool::from(secret.reveal().as_bytes().ct_eq(token.as_bytes())))
}

/// The session id in a `Cookie` header.
pub(crate) fn session_of(cookies: &str) -> Option<&str> {
    let pairs = cookies.split(';').filter_map(|pair| pair.trim().split_once('='));
    pairs.into_iter().find(|(name, _)| *name == COOKIE).map(|(_, id)| id)
}

/// The `Set-Cookie` header of a session; without an id, the header that removes the cookie.
pub(crate) fn session_cookie(id: Option<&str>, secure: bool) -> String {
    let (id, age) = id.map_or(("", 0), |id| (id, LIFETIME.as_secs()));
    let secure = if secure { "; Secure" } else { "" };
    format!("{COOKIE}={id}; Path=/; HttpOnly; SameSite=Strict; Max-Age={age}{secure}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> Secret {
        Secret::new(text.to_owned())
    }

    #[test]
    fn token_gives_its_access_and_no_other() {
        let sessions =
            Sessions::new(Some(token("viewer-viewer-viewer")), Some(token("operator-operator-op")));
        assert_eq!(sessions.open_access(), Access::None);
        assert_eq!(sessions.token_access("viewer-viewer-viewer"), Some(Access::Viewer));
        assert_eq!(sessions.token_access("operator-operator-op"), Some(Access::Operator));
        for wrong in ["", "viewer-viewer-viewe", "viewer-viewer-viewerr", "operator-operator-oP"] {
            assert_eq!(sessions.token_access(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn access_without_a_token_is_what_no_token_protects() {
        assert_eq!(Sessions::new(None, None).open_access(), Access::Operator);
        assert_eq!(Sessions::new(None, Some(token("o"))).open_access(), Access::Viewer);
        assert_eq!(Sessions::new(Some(token("v")), None).open_access(), Access::None);
        assert_eq!(Sessions::new(None, None).token_access(""), None);
    }

    #[test]
    fn session_ends_when_it_is_closed() {
        let sessions = Sessions::new(Some(token("v")), Some(token("o")));
        let id = sessions.open(Access::Viewer);
        let header = format!("other=1; {COOKIE}={id}; more=2");
        assert_eq!(session_of(&header), Some(id.as_str()));
        assert_eq!(sessions.session_access(&id), Some(Access::Viewer));
        sessions.close(&id);
        assert_eq!(sessions.session_access(&id), None);
        assert_eq!(session_of("a=b"), None);
    }
}
