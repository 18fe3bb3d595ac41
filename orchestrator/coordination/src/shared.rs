//! The state that all handles of one coordinator share: the current session, and the state of its connection.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use super::error::Error;
use super::problems::Problems;
use super::session::{Connector, Link, Session};

/// Limits of requests.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Time limit of a call.
    pub call: Duration,
    /// Time limit for the read-back of a write whose answer was lost.
    pub settle: Duration,
    /// The most calls in flight at once.
    pub in_flight: usize,
}

impl Limits {
    /// The limits for a session timeout, which suit all roles.
    pub(crate) fn of(session_timeout: Duration) -> Self {
        Self { call: session_timeout, settle: session_timeout * 3, in_flight: 256 }
    }
}

/// The state of the coordinator's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// Number of the session, counted from 1; 0 before the first session.
    pub generation: u64,
    /// Number of connections that came up, over all sessions. Each time, everything must be read again.
    pub attachment: u64,
    /// State of the session's connection.
    pub link: Link,
    /// Whether the coordinator was closed; no further session will be opened.
    pub closed: bool,
}

impl Status {
    /// Whether requests can be sent.
    pub fn is_up(&self) -> bool {
        self.link == Link::Up && !self.closed
    }
}

/// The longest pause between attempts while the service refuses.
pub(crate) const LONGEST_REFUSED_PAUSE: Duration = Duration::from_secs(10);

/// The share of the session timeout, in percent, within which the service must have answered for leadership to hold.
const TRUST_PERCENT: u32 = 60;

/// The state that all handles share.
pub(crate) struct Shared {
    pub(crate) connector: Arc<dyn Connector>,
    pub(crate) limits: Limits,
    /// The problems of all sessions of the process.
    pub(crate) problems: Problems,
    pub(crate) permits: Arc<Semaphore>,
    pub(crate) status: watch::Sender<Status>,
    /// Why the last attempt to open a session failed; `None` while there is a session.
    pub(crate) connect_error: watch::Sender<Option<Error>>,
    pub(crate) session: Mutex<Option<Arc<dyn Session>>>,
    /// The session on which the service last answered, and when the answered request was *sent*: the session lives at
    /// least one session timeout from then.
    pub(crate) last_answer: Mutex<Option<(i64, Instant)>>,
}

impl Shared {
    pub(crate) fn status(&self) -> Status {
        *self.status.borrow()
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    /// The session, if a request can be sent on it now. Requests that are made without a connection would
    /// queue in the client without bound.
    pub(crate) fn connected(&self) -> Result<Arc<dyn Session>, Error> {
        let status = self.status();
        if status.closed {
            return Err(Error::Closed);
        }
        if !status.is_up() {
            return Err(Error::Offline);
        }
        let session = lock(&self.session).clone().ok_or(Error::Offline)?;
        // The supervisor may not have run since the link broke.
        if session.link().borrow().link == Link::Up { Ok(session) } else { Err(Error::Offline) }
    }

    /// Waits until requests can be sent.
    pub(crate) async fn up(&self) -> Result<Status, Error> {
        let mut status = self.subscribe();
        let seen = status.wait_for(|status| status.is_up() || status.closed).await;
        match seen {
            Ok(status) if !status.closed => Ok(*status),
            _ => Err(Error::Closed),
        }
    }

    /// The time until which the session certainly lives, by its answers so far; `None` before its first answer.
    pub(crate) fn trusted_until(&self, session: &dyn Session) -> Option<Instant> {
        let (id, sent) = (*lock(&self.last_answer))?;
        (id == session.id()).then(|| sent + session.timeout() * TRUST_PERCENT / 100)
    }

    /// [`trusted_until`](Self::trusted_until) of the current session, connected or not.
    pub(crate) fn trusted_session(&self) -> Option<Instant> {
        let session = lock(&self.session).clone()?;
        self.trusted_until(session.as_ref())
    }

    pub(crate) fn note_answer(&self, session: &dyn Session, sent: Instant) {
        let mut last_answer = lock(&self.last_answer);
        match *last_answer {
            Some((id, before)) if id == session.id() && before >= sent => {}
            _ => *last_answer = Some((session.id(), sent)),
        }
    }

    /// Removes the session, which ends when its last request has ended.
    pub(crate) fn shut(&self) -> Option<Arc<dyn Session>> {
        let session = lock(&self.session).take();
        self.status.send_modify(|status| {
            status.link = Link::Ended;
            status.closed = true;
        });
        session
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
