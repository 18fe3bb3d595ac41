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

use crate::settings::Settings;

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

/// What somebody may do, and the name, if it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) access: Access,
    pub(crate) user: Option<String>,
}

/// The tokens, and the sessions that were opened with them.
pub(crate) struct Sessions {
    /// Each token with what it gives.
    tokens: Vec<(Secret, Identity)>,
    /// The access of callers without a token. A token that exists protects its own access and every higher one; names
    /// that a proxy sends protect everything. Without any of them, which only loopback allows, it is everything.
    pub(crate) open_access: Access,
    open: Mutex<HashMap<String, (Identity, Instant)>>,
}

impl Sessions {
    pub(crate) fn new(settings: &Settings) -> Self {
        let nameless = |token: &Option<Secret>, access| {
            token.clone().map(|token| (token, Identity { access, user: None }))
        };
        let operators = settings.operator_tokens.iter().map(|(user, token)| {
            (token.clone(), Identity { access: Access::Operator, user: Some(user.clone()) })
        });
        let viewer = nameless(&settings.viewer_token, Access::Viewer);
        let open_access = if viewer.is_some() || settings.user_header.is_some() {
            Access::None
        } else if settings.operator_token.is_some() || !settings.operator_tokens.is_empty() {
            Access::Viewer
        } else {
            Access::Operator
        };
        let operator = nameless(&settings.operator_token, Access::Operator);
        let tokens = operators.chain(operator).chain(viewer).collect();
        Self { tokens, open_access, open: Mutex::default() }
    }

    /// Whom a token stands for.
    pub(crate) fn of_token(&self, token: &str) -> Option<Identity> {
        // All are compared, so that the time does not tell which one was nearly right.
        let equal = |secret: &Secret| bool::from(secret.reveal().as_bytes().ct_eq(token.as_bytes()));
        let matches: Vec<bool> = self.tokens.iter().map(|(secret, _)| equal(secret)).collect();
        let found = matches.into_iter().zip(&self.tokens).find(|(equal, _)| *equal);
        found.map(|(_, (_, identity))| identity.clone())
    }

    /// Opens a session and returns its id.
    pub(crate) fn open(&self, identity: Identity) -> String {
        let id = format!("{:032x}{:032x}", rand::rng().random::<u128>(), rand::rng().random::<u128>());
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        open.retain(|_, (_, since)| now.duration_since(*since) < LIFETIME);
        if open.len() >= SESSIONS
            && let Some(oldest) = open.iter().min_by_key(|(_, (_, since))| *since).map(|(id, _)| id.clone())
        {
            open.remove(&oldest);
        }
        open.insert(id.clone(), (identity, now));
        id
    }

    /// Whose a live session is.
    pub(crate) fn of_session(&self, id: &str) -> Option<Identity> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(id).filter(|(_, since)| since.elapsed() < LIFETIME).map(|(identity, _)| identity.clone())
    }

    /// Ends a session.
    pub(crate) fn close(&self, id: &str) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }
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
    use crate::settings::tests::settings;

    fn token(text: &str) -> Secret {
        Secret::new(text.to_owned())
    }

    fn identity(access: Access, user: Option<&str>) -> Identity {
        Identity { access, user: user.map(str::to_owned) }
    }

    #[test]
    fn token_gives_its_access_and_name_and_no_other() {
        let mut settings = settings("127.0.0.1:1");
        settings.viewer_token = Some(token("viewer-viewer-viewer"));
        settings.operator_token = Some(token("operator-operator-op"));
        settings.operator_tokens = vec![("ann".to_owned(), token("ann-ann-ann-ann-ann"))];
        let sessions = Sessions::new(&settings);
        assert_eq!(sessions.open_access, Access::None);
        for (token, access, user) in [
            ("viewer-viewer-viewer", Access::Viewer, None),
            ("operator-operator-op", Access::Operator, None),
            ("ann-ann-ann-ann-ann", Access::Operator, Some("ann")),
        ] {
            assert_eq!(sessions.of_token(token), Some(identity(access, user)), "{token}");
        }
        for wrong in ["", "ann", "viewer-viewer-viewe", "viewer-viewer-viewerr", "operator-operator-oP"] {
            assert_eq!(sessions.of_token(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn access_without_a_token_is_what_no_token_protects() {
        let open = |change: &dyn Fn(&mut Settings)| {
            let mut settings = settings("127.0.0.1:1");
            change(&mut settings);
            Sessions::new(&settings)
        };
        assert_eq!(open(&|_| ()).open_access, Access::Operator);
        assert_eq!(open(&|_| ()).of_token(""), None);
        assert_eq!(open(&|given| given.operator_token = Some(token("o"))).open_access, Access::Viewer);
        let named = vec![("ann".to_owned(), token("a"))];
        assert_eq!(open(&|given| given.operator_tokens.clone_from(&named)).open_access, Access::Viewer);
        assert_eq!(open(&|given| given.viewer_token = Some(token("v"))).open_access, Access::None);
        assert_eq!(
            open(&|given| given.user_header = Some("x-user".parse().unwrap())).open_access,
            Access::None
        );
    }

    #[test]
    fn session_ends_when_it_is_closed() {
        let sessions = Sessions::new(&settings("127.0.0.1:1"));
        let id = sessions.open(identity(Access::Viewer, Some("ann")));
        let header = format!("other=1; {COOKIE}={id}; more=2");
        assert_eq!(session_of(&header), Some(id.as_str()));
        assert_eq!(sessions.of_session(&id), Some(identity(Access::Viewer, Some("ann"))));
        sessions.close(&id);
        assert_eq!(sessions.of_session(&id), None);
        assert_eq!(session_of("a=b"), None);
    }
}
