//! The supervisor of the session. It opens a new session when the old one has ended, counts the sessions, announces when
//! everything must be read again, and knows when the service last answered.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::error::Error;
use super::session::{Connector, Link, Session};
use super::tree::Tree;
use crate::random;

/// Time limits and concurrency limits. [`Settings::default`] suits all roles.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long a call may take; by default the session timeout.
    pub call: Option<Duration>,
    /// How long the read-back of a write whose answer was lost may take; by default three session timeouts.
    pub settle: Option<Duration>,
    /// How many calls may be in flight at once.
    pub in_flight: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { call: None, settle: None, in_flight: 256 }
    }
}

/// The state of the coordinator's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// Number of the session, counted from 1; 0 before the first session.
    pub generation: u64,
    /// How often a connection came up, over all sessions. Each time, everything must be read again.
    pub attachment: u64,
    /// How it is connected now.
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

/// The share of the session timeout, in percent, within which the service must have answered for leadership to hold.
const TRUST_PERCENT: u32 = 60;

/// The state that all handles share.
pub(crate) struct Shared {
    pub(crate) permits: Arc<Semaphore>,
    pub(crate) call: Duration,
    pub(crate) settle: Duration,
    status: watch::Sender<Status>,
    session: Mutex<Option<Arc<dyn Session>>>,
    /// The session on which the service last answered, and when the answered request was *sent*: the session lives at
    /// least one session timeout from then.
    heard: Mutex<Option<(i64, Instant)>>,
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

    /// Until when the session certainly lives, by its answers so far; `None` before its first answer.
    pub(crate) fn trusted_until(&self, session: &dyn Session) -> Option<Instant> {
        let (id, sent) = (*lock(&self.heard))?;
        (id == session.id()).then(|| sent + session.timeout() * TRUST_PERCENT / 100)
    }

    /// The same of the session that there is, connected or not.
    pub(crate) fn trusted_session(&self) -> Option<Instant> {
        let session = lock(&self.session).clone()?;
        self.trusted_until(session.as_ref())
    }

    pub(crate) fn note_heard(&self, session: &dyn Session, sent: Instant) {
        let mut heard = lock(&self.heard);
        match *heard {
            Some((id, before)) if id == session.id() && before >= sent => {}
            _ => *heard = Some((session.id(), sent)),
        }
    }

    /// Takes the session away, so that it ends when its last request has.
    fn shut(&self) -> Option<Arc<dyn Session>> {
        let session = lock(&self.session).take();
        self.status.send_modify(|status| {
            status.link = Link::Ended;
            status.closed = true;
        });
        session
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the supervisor and the session when the last handle is gone.
struct Guard {
    shared: Arc<Shared>,
    supervisor: AbortHandle,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.supervisor.abort();
        drop(self.shared.shut());
    }
}

/// The session of a process with the coordination service, shared by all its roles. Clones are handles of the same
/// session; the session ends at [`close`](Self::close), or when the last handle is dropped.
#[derive(Clone)]
pub struct Coordinator {
    pub(crate) shared: Arc<Shared>,
    guard: Arc<Guard>,
}

impl Coordinator {
    /// Starts the supervisor, which tries to connect until the coordinator is closed.
    pub fn start(connector: Arc<dyn Connector>, settings: &Settings) -> Self {
        let timeout = connector.session_timeout();
        let none = Status { generation: 0, attachment: 0, link: Link::Down, closed: false };
        let shared = Arc::new(Shared {
            permits: Arc::new(Semaphore::new(settings.in_flight.max(1))),
            call: settings.call.unwrap_or(timeout),
            settle: settings.settle.unwrap_or(timeout * 3),
            status: watch::Sender::new(none),
            session: Mutex::new(None),
            heard: Mutex::new(None),
        });
        let supervisor = tokio::spawn(supervise(shared.clone(), connector)).abort_handle();
        Self { guard: Arc::new(Guard { shared: shared.clone(), supervisor }), shared }
    }

    /// The current state.
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// The state, with notification of changes. A new [`Status::attachment`] means that everything must be read again.
    pub fn subscribe(&self) -> watch::Receiver<Status> {
        self.shared.subscribe()
    }

    /// Waits until requests can be sent.
    pub async fn up(&self) -> Result<Status, Error> {
        self.shared.up().await
    }

    /// ZooKeeper's id of the session, if there is one.
    pub fn session_id(&self) -> Option<i64> {
        lock(&self.shared.session).as_ref().map(|session| session.id())
    }

    /// The session timeout as the service granted it, if there is a session.
    pub fn session_timeout(&self) -> Option<Duration> {
        lock(&self.shared.session).as_ref().map(|session| session.timeout())
    }

    /// Whether the service answered within the last 0.6 session timeouts, so that the session cannot have expired. Work
    /// that must not run twice must stop when this is false.
    pub fn is_trusted(&self) -> bool {
        let Ok(session) = self.shared.connected() else { return false };
        self.shared.trusted_until(session.as_ref()).is_some_and(|until| Instant::now() < until)
    }

    /// Until when the session cannot have expired, by the answers so far, connected or not; `None` before the first
    /// answer. Work that must not run twice must have stopped by then.
    pub fn trusted_until(&self) -> Option<Instant> {
        self.shared.trusted_session()
    }

    /// The tree, without a fence.
    pub fn tree(&self) -> Tree {
        Tree::new(self.shared.clone())
    }

    /// Closes the session: its ephemeral nodes are gone when this returns. Its elections and memberships end as well.
    pub async fn close(&self) {
        self.guard.supervisor.abort();
        if let Some(session) = self.shared.shut() {
            session.close().await;
        }
    }
}

/// Opens one session after another.
async fn supervise(shared: Arc<Shared>, connector: Arc<dyn Connector>) {
    const FIRST_PAUSE: Duration = Duration::from_millis(50);
    let longest_pause = (connector.session_timeout() / 4).max(FIRST_PAUSE);
    let mut pause = FIRST_PAUSE;
    loop {
        let session = match connector.connect().await {
            Ok(session) => session,
            Err(error) => {
                warn!(servers = connector.describe(), %error, "no session with the coordination service; retrying");
                // Jitter: all processes would otherwise reconnect in the same instant.
                sleep(pause.mul_f64(random::within(0.5..1.0))).await;
                pause = (pause * 2).min(longest_pause);
                continue;
            }
        };
        pause = FIRST_PAUSE;
        follow_session(&shared, &session).await;
        drop(lock(&shared.session).take());
    }
}

/// Publishes the state of one session until the session ends.
async fn follow_session(shared: &Shared, session: &Arc<dyn Session>) {
    let mut link = session.link();
    let generation = shared.status().generation + 1;
    info!(generation, session = format_args!("{:#x}", session.id()), "session with the coordination service");
    *lock(&shared.session) = Some(session.clone());
    let probing = probe(shared, session.as_ref());
    tokio::pin!(probing);
    let mut attached = 0;
    loop {
        let now = *link.borrow_and_update();
        shared.status.send_modify(|status| {
            status.generation = generation;
            status.attachment += u64::from(now.attached != attached);
            status.link = now.link;
        });
        attached = now.attached;
        match now.link {
            Link::Up => {}
            Link::Down => info!(generation, "connection to the coordination service lost"),
            Link::Ended => {
                warn!(generation, "session with the coordination service ended; opening another");
                return;
            }
        }
        tokio::select! {
            changed = link.changed() => if changed.is_err() {
                shared.status.send_modify(|status| status.link = Link::Ended);
                return;
            },
            () = &mut probing => {}
        }
    }
}

/// Probes the service eight times per session timeout. The answers to the client's own pings cannot be observed. The
/// probe is a `sync`, because a server that is cut off from its ensemble still answers reads.
async fn probe(shared: &Shared, session: &dyn Session) {
    let mut link = session.link();
    loop {
        if link.wait_for(|state| state.link == Link::Up).await.is_err() {
            // The session is being dropped, which `follow_session` notices.
            return std::future::pending().await;
        }
        let sent = Instant::now();
        if let Ok(Ok(())) = timeout(session.timeout(), session.sync()).await {
            shared.note_heard(session, sent);
        }
        // A connection that comes up again is probed at once.
        let attached = link.borrow().attached;
        let _ = timeout(session.timeout() / 8, link.wait_for(|state| state.attached != attached)).await;
    }
}
