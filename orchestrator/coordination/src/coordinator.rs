//! The supervisor of the session. It opens a new session when the old one has ended, counts the sessions, announces when
//! everything must be read again, and knows when the service last answered.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use super::error::{Error, Retry, Retryable as _};
use super::problems::{Problem, Problems};
use super::session::{Connector, Link, Session};
use super::shared::{LONGEST_REFUSED_PAUSE, Limits, Shared, Status, lock};
use super::tree::Tree;
use crate::random;

/// The first pause after an attempt to open a session.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The number of probes in a session timeout.
const PROBES: u32 = 8;

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
    pub fn start(connector: Arc<dyn Connector>) -> Self {
        let limits = Limits::of(connector.session_timeout());
        Self::start_with(connector, limits)
    }

    /// The same with other limits.
    pub fn start_with(connector: Arc<dyn Connector>, limits: Limits) -> Self {
        Self::supervised(connector, limits, Problems::default())
    }

    /// Another session with the same service, for more watches than one session can have. What it reports is among the
    /// [`problems`](Self::problems) of this one.
    #[must_use]
    pub fn another(&self) -> Self {
        Self::supervised(self.shared.connector.clone(), self.shared.limits, self.shared.problems.clone())
    }

    fn supervised(connector: Arc<dyn Connector>, limits: Limits, problems: Problems) -> Self {
        let requested = connector.session_timeout();
        let none = Status { generation: 0, attachment: 0, link: Link::Down, closed: false };
        let shared = Arc::new(Shared {
            connector: connector.clone(),
            limits,
            problems,
            permits: Arc::new(Semaphore::new(limits.in_flight.max(1))),
            status: watch::Sender::new(none),
            connect_error: watch::Sender::new(None),
            session: Mutex::new(None),
            last_answer: Mutex::new(None),
        });
        let supervisor = tokio::spawn(supervise(shared.clone(), connector)).abort_handle();
        Self { guard: Arc::new(Guard { shared: shared.clone(), supervisor }), shared, requested }
    }

    /// The current state.
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// The state, with notification of changes. A new [`Status::attachment`] means that everything must be read again.
    pub fn subscribe(&self) -> watch::Receiver<Status> {
        self.shared.subscribe()
    }

    /// What keeps loops of this process from their work, by number: requests that the service refuses, sessions that cannot be
    /// opened, and answers that come too late for the session timeout.
    pub fn problems(&self) -> watch::Receiver<BTreeMap<u64, String>> {
        self.shared.problems.subscribe()
    }

    /// Waits until requests can be sent.
    pub async fn up(&self) -> Result<Status, Error> {
        self.shared.up().await
    }

    /// Waits until requests can be sent, but no longer than this, and not at all while the service refuses a session.
    ///
    /// # Errors
    /// Why there is no session.
    pub async fn up_within(&self, limit: Duration) -> Result<Status, Error> {
        let mut connect_error = self.shared.connect_error.subscribe();
        let is_refused =
            |error: &Option<Error>| error.as_ref().is_some_and(|error| error.retry() == Retry::Refused);
        tokio::select! {
            status = self.up() => return status,
            _ = connect_error.wait_for(is_refused) => {}
            () = sleep(limit) => {}
        }
        let error = self.shared.connect_error.borrow().clone();
        Err(error.unwrap_or(Error::Offline))
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

/// Opens one session after another. A failure is one of the problems of the process until there is a session.
async fn supervise(shared: Arc<Shared>, connector: Arc<dyn Connector>) {
    let mut problem = Problem::new(&shared.problems);
    loop {
        let mut pause = FIRST_PAUSE;
        let session = loop {
            let error = match connector.connect().await {
                Ok(session) => break session,
                Err(error) => error,
            };
            let servers = connector.describe();
            problem.set(format!("no session with ZooKeeper: {error}"));
            warn!(servers, %error, "no session with ZooKeeper; retrying");
            let limit = match error.retry() {
                Retry::Refused => LONGEST_REFUSED_PAUSE,
                _ => connector.session_timeout() / 4,
            };
            shared.connect_error.send_replace(Some(error));
            // Jitter: all processes would otherwise reconnect in the same instant.
            sleep(pause.mul_f64(random::within(0.5..1.0))).await;
            pause = (pause * 2).min(limit.max(FIRST_PAUSE));
        };
        problem.clear();
        shared.connect_error.send_replace(None);
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

/// Probes the service eight times per session timeout, without waiting for the answers to earlier probes: otherwise an
/// answer that takes a quarter of the session timeout would end all trust. The answers to the client's own pings cannot
/// be observed. The probe is a `sync`, because a server that is cut off from its ensemble still answers reads.
async fn probe(shared: &Shared, session: &dyn Session) {
    let timeout_of_session = session.timeout();
    let mut link = session.link();
    let mut problem = Problem::new(&shared.problems);
    let mut slow_answers = 0;
    let mut answers = FuturesUnordered::new();
    let pause = sleep(Duration::ZERO);
    tokio::pin!(pause);
    loop {
        let attached = {
            let state = *link.borrow_and_update();
            if state.link == Link::Up && pause.is_elapsed() {
                let (sent, answer) = (Instant::now(), session.sync());
                answers.push(async move {
                    let answer = timeout(timeout_of_session, answer).await;
                    matches!(answer, Ok(Ok(()))).then_some(sent)
                });
                pause.as_mut().reset(sent + timeout_of_session / PROBES);
            }
            state.attached
        };
        tokio::select! {
            biased;
            Some(answered) = answers.next() => {
                let Some(sent) = answered else { continue };
                shared.note_answer(session, sent);
                let slow = too_slow(sent.elapsed(), timeout_of_session);
                slow_answers = if slow.is_some() { slow_answers + 1 } else { 0 };
                match slow {
                    // A pause of this process or of the service makes some answers late, and is over then.
                    Some(text) if slow_answers > PROBES => {
                        problem.set(text.clone());
                        warn!("{text}");
                    }
                    Some(_) => {}
                    None => drop(problem.clear()),
                }
            }
            changed = link.changed() => {
                if changed.is_err() {
                    // The session is being dropped, which `follow_session` notices.
                    return std::future::pending().await;
                }
                // A connection that comes up again is probed at once.
                if link.borrow().attached != attached {
                    pause.as_mut().reset(Instant::now());
                }
            }
            () = &mut pause, if !pause.is_elapsed() => {}
        }
    }
}

/// Whether answers take too long for this session timeout, and what helps. Sessions cannot be opened if an answer takes
/// 0.4 of it, and leadership is lost again and again if it takes little more.
pub(crate) fn too_slow(answer: Duration, session: Duration) -> Option<String> {
    (answer * 3 > session).then(|| {
        let tenths = |span: Duration| Duration::from_millis(span.as_millis().div_ceil(100) as u64 * 100);
        format!(
            "ZooKeeper takes up to {:?} to answer, which is too long for a session timeout of {session:?}: set \
             zookeeper.session to {:?} or more, or shorten the way to ZooKeeper",
            tenths(answer),
            tenths(answer * 4)
        )
    })
}
