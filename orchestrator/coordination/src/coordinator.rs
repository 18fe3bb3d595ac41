//! The supervisor of the session. It opens a new session when the old one has ended, counts the sessions, announces when
//! everything must be read again, and knows when the service last answered.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use super::error::{Error, Retry, Retryable as _};
use super::problems::{Problem, Problems};
use super::session::{Connector, Link, Session};
use super::shared::{Settings, Shared, Status, lock};
use super::tree::Tree;
use crate::random;

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
    /// The session timeout that sessions ask for.
    requested: Duration,
}

impl Coordinator {
    /// Starts the supervisor, which tries to connect until the coordinator is closed.
    pub fn start(connector: Arc<dyn Connector>, settings: &Settings) -> Self {
        Self::start_with(connector, settings, Problems::default())
    }

    /// Another session with the same service, for more watches than one session can have. What it reports is among the
    /// [`problems`](Self::problems) of this one.
    #[must_use]
    pub fn another(&self) -> Self {
        Self::start_with(self.shared.connector.clone(), &self.shared.settings, self.shared.problems.clone())
    }

    fn start_with(connector: Arc<dyn Connector>, settings: &Settings, problems: Problems) -> Self {
        let timeout = connector.session_timeout();
        let none = Status { generation: 0, attachment: 0, link: Link::Down, closed: false };
        let shared = Arc::new(Shared {
            connector: connector.clone(),
            settings: settings.clone(),
            problems,
            permits: Arc::new(Semaphore::new(settings.in_flight.max(1))),
            call: settings.call.unwrap_or(timeout),
            settle: settings.settle.unwrap_or(timeout * 3),
            status: watch::Sender::new(none),
            session: Mutex::new(None),
            last_answer: Mutex::new(None),
        });
        let supervisor = tokio::spawn(supervise(shared.clone(), connector)).abort_handle();
        Self { guard: Arc::new(Guard { shared: shared.clone(), supervisor }), shared, requested: timeout }
    }

    /// The current state.
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// The state, with notification of changes. A new [`Status::attachment`] means that everything must be read again.
    pub fn subscribe(&self) -> watch::Receiver<Status> {
        self.shared.subscribe()
    }

    /// What keeps loops of this process from their work until a person helps, by number: requests that the service refuses,
    /// and further sessions without a connection.
    pub fn problems(&self) -> watch::Receiver<BTreeMap<u64, String>> {
        self.shared.problems.subscribe()
    }

    /// Waits until requests can be sent.
    pub async fn up(&self) -> Result<Status, Error> {
        self.shared.up().await
    }

    /// ZooKeeper's id of the session, if there is one.
    pub fn session_id(&self) -> Option<i64> {
        lock(&self.shared.session).as_ref().map(|session| session.id())
    }

    /// The session timeout as the service granted it; without a session, the one that sessions ask for.
    pub fn session_timeout(&self) -> Duration {
        lock(&self.shared.session).as_ref().map_or(self.requested, |session| session.timeout())
    }

    /// Whether the service answered within the last 0.6 session timeouts, so that the session cannot have expired. Work
    /// that must not run twice must stop when this is false.
    pub fn is_trusted(&self) -> bool {
        let Ok(session) = self.shared.connected() else { return false };
        self.shared.trusted_until(session.as_ref()).is_some_and(|until| Instant::now() < until)
    }

    /// The time until which the session cannot have expired, by the answers so far, connected or not; `None` before the
    /// first answer. Work that must not run twice must have stopped by then.
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
    let mut problem = Problem::new(&shared.problems);
    loop {
        let session = match connector.connect().await {
            Ok(session) => session,
            Err(error) => {
                let servers = connector.describe();
                if error.retry() == Retry::Refused {
                    problem.set(format!("{servers}: {error}"));
                }
                warn!(servers, %error, "no session with the coordination service; retrying");
                // Jitter: all processes would otherwise reconnect in the same instant.
                sleep(pause.mul_f64(random::within(0.5..1.0))).await;
                pause = (pause * 2).min(longest_pause);
                continue;
            }
        };
        pause = FIRST_PAUSE;
        problem.clear();
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
    let pause = sleep(Duration::ZERO);
    tokio::pin!(pause);
    loop {
        if link.wait_for(|state| state.link == Link::Up).await.is_err() {
            // The session is being dropped, which `follow_session` notices.
            return std::future::pending().await;
        }
        let sent = Instant::now();
        if let Ok(Ok(())) = timeout(session.timeout(), session.sync()).await {
            shared.note_answer(session, sent);
        }
        // A connection that comes up again is probed at once.
        let attached = link.borrow().attached;
        pause.as_mut().reset(Instant::now() + session.timeout() / 8);
        tokio::select! {
            biased;
            _ = link.wait_for(|state| state.attached != attached) => {}
            () = &mut pause => {}
        }
    }
}
