//! Connections to Redis, one for each master, opened when they are needed and dropped at the first fault.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use allot_client::{Connection, Endpoint, Error, Servers, Session, query};
use redis::{Cmd, Value, cmd};
use tokio::time::Instant;

/// Additional time limit for an answer: the plan of a large show takes the server a while.
const LARGE_ANSWER: Duration = Duration::from_secs(10);
/// Time after which a request that was denied is sent again: the rules of the user may have changed.
const DENIED: Duration = Duration::from_secs(60);
/// The most sessions that are kept; in a cluster each key has one, and a browser may ask for any key.
const SESSIONS: usize = 64;

/// The connections of one user.
pub(crate) struct Store {
    servers: Servers,
    /// The sessions by key; in other setups than a cluster there is one master, and one session under an empty name.
    sessions: Mutex<HashMap<String, Session>>,
    /// Requests that this user may not send, by a name, and when the server said so.
    denied: Mutex<HashMap<String, Instant>>,
}

impl Store {
    pub(crate) fn new(servers: Servers) -> Self {
        let timeout = servers.timeout.max(LARGE_ANSWER);
        Self { servers: Servers { timeout, ..servers }, sessions: Mutex::default(), denied: Mutex::default() }
    }

    fn name(&self, key: &str) -> String {
        if matches!(self.servers.endpoint, Endpoint::Cluster { .. }) { key.to_owned() } else { String::new() }
    }

    /// A session with the master of this key.
    ///
    /// # Errors
    /// No server is reached, or none is a master.
    pub(crate) async fn session(&self, key: &str) -> Result<Session, Error> {
        let name = self.name(key);
        let known = self.sessions.lock().unwrap_or_else(PoisonError::into_inner).get(&name).cloned();
        if let Some(session) = known.filter(|session| session.is_named().is_ok()) {
            return Ok(session);
        }
        let servers = Servers { key: key.to_owned(), ..self.servers.clone() };
        // Most requests have a session already, and need no room for the opening of one.
        let mut session = Box::pin(servers.session()).await?;
        // Only in RESP3 a reply says which lists are records.
        query::<Value>(&mut session.connection, cmd("HELLO").arg(3)).await?;
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.len() >= SESSIONS {
            // Those in use live on; the others close their connections.
            sessions.clear();
        }
        sessions.insert(name, session.clone());
        Ok(session)
    }

    /// Drops the session of this key if the error ended it, and passes the result on.
    pub(crate) fn checked<T>(&self, key: &str, result: Result<T, Error>) -> Result<T, Error> {
        if result.as_ref().is_err_and(Error::ends_session) {
            self.sessions.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.name(key));
        }
        result
    }

    /// Drops the session of this key, whose server does not answer: the next request opens another.
    pub(crate) fn forget(&self, key: &str) {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.name(key));
    }

    /// Sends a command on this key. Returns its reply, and the session for a wait for replicas.
    pub(crate) async fn send(&self, key: &str, command: &Cmd) -> Result<(Value, Session), Error> {
        let mut session = self.session(key).await?;
        let reply = query(&mut session.connection, command).await;
        Ok((self.checked(key, reply)?, session))
    }

    /// Runs requests on the value at this key, with the client that `new` makes: `SeatStore::new` for a show.
    pub(crate) async fn ask<S, T>(
        &self,
        new: impl FnOnce(Connection, &str) -> S,
        key: &str,
        ask: impl AsyncFnOnce(S) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let session = self.session(key).await?;
        self.checked(key, ask(new(session.connection, key)).await)
    }

    /// Sends a request, unless the server refused the request of this name a moment ago, because this user may not send it:
    /// the server counts and logs each refusal (`ACL LOG`). `None` if this user may not send it.
    pub(crate) async fn ask_if_permitted<T>(
        &self,
        name: String,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<Option<T>, Error> {
        let denied = || self.denied.lock().unwrap_or_else(PoisonError::into_inner);
        denied().retain(|_, refused| refused.elapsed() < DENIED);
        if denied().contains_key(&name) {
            return Ok(None);
        }
        match request.await {
            Err(error) if error.code() == Some("NOPERM") => {
                denied().insert(name, Instant::now());
                Ok(None)
            }
            answer => answer.map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> Error {
        Error::Refused { command: String::new(), code: "NOPERM".to_owned(), message: String::new() }
    }

    #[tokio::test(start_paused = true)]
    async fn refused_request_is_sent_again_after_a_while() {
        let (endpoint, _) = Endpoint::url("redis://h:1").unwrap();
        let store = Store::new(Servers::new(endpoint, "k"));
        let mut sent = 0;
        for _ in 0..100 {
            let answer = store.ask_if_permitted("a".to_owned(), async {
                sent += 1;
                Err::<(), Error>(refused())
            });
            assert_eq!(answer.await.unwrap(), None);
        }
        assert_eq!(sent, 1);
        assert_eq!(store.ask_if_permitted("b".to_owned(), async { Ok(7) }).await.unwrap(), Some(7));
        tokio::time::advance(DENIED).await;
        assert_eq!(store.ask_if_permitted("a".to_owned(), async { Ok(8) }).await.unwrap(), Some(8));
    }
}
