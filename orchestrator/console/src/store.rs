//! Connections to Redis, one for each master, opened when they are needed and dropped at the first fault.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use allot_client::{BookStore, Endpoint, Error, NumberStore, RealmStore, SeatStore, Servers, Session};

/// Additional time limit for an answer: the plan of a large show takes the server a while.
const LARGE_ANSWER: Duration = Duration::from_secs(10);

/// The most sessions that are kept; in a cluster each key has one, and a browser may ask for any key.
const SESSIONS: usize = 64;

/// The connections of one user.
pub(crate) struct Store {
    servers: Servers,
    /// The sessions by key; in other setups than a cluster there is one master, and one session under an empty name.
    sessions: Mutex<HashMap<String, Session>>,
}

impl Store {
    pub(crate) fn new(servers: Servers) -> Self {
        let timeout = servers.timeout.max(LARGE_ANSWER);
        Self { servers: Servers { timeout, ..servers }, sessions: Mutex::default() }
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
        let session = Servers { key: key.to_owned(), ..self.servers.clone() }.session().await?;
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
        if let Err(error) = &result {
            self.drop_after(key, error);
        }
        result
    }

    /// Drops the session of this key if this error ended it.
    pub(crate) fn drop_after(&self, key: &str, error: &Error) {
        if error.ends_session() {
            self.sessions.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.name(key));
        }
    }

    /// Runs requests on the show at this key.
    pub(crate) async fn show<T>(
        &self,
        key: &str,
        ask: impl AsyncFnOnce(SeatStore) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let session = self.session(key).await?;
        self.checked(key, ask(SeatStore::new(session.connection, key)).await)
    }

    /// Runs requests on the realm at this key.
    pub(crate) async fn realm<T>(
        &self,
        key: &str,
        ask: impl AsyncFnOnce(RealmStore) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let session = self.session(key).await?;
        self.checked(key, ask(RealmStore::new(session.connection, key)).await)
    }

    /// Runs requests on the pool at this key.
    pub(crate) async fn pool<T>(
        &self,
        key: &str,
        ask: impl AsyncFnOnce(NumberStore) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let session = self.session(key).await?;
        self.checked(key, ask(NumberStore::new(session.connection, key)).await)
    }

    /// Runs requests on the book at this key.
    pub(crate) async fn book<T>(
        &self,
        key: &str,
        ask: impl AsyncFnOnce(BookStore) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let session = self.session(key).await?;
        self.checked(key, ask(BookStore::new(session.connection, key)).await)
    }
}
