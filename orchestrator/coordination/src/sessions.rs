//! Spreads watches over several sessions: a client with more than 128 KiB of watched paths cannot reconnect.
//!
//! Watches and reads of one thing use the same session. On another session, a read could return a state from before the
//! watch, whose change the watch does not report any more.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tracing::warn;

use super::coordinator::Coordinator;
use super::follower::Following;
use super::problems::Problem;
use super::shared::Status;

/// Most bytes of watched paths in one session.
const MAX_BYTES: usize = 88 * 1024;
/// How long a session may take to connect, for the first time or again, before the process counts as not ready.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// Sessions on which a process watches many nodes. They are opened when they are needed, and closed when the others have
/// room. Clones share the sessions.
#[derive(Clone)]
pub struct Sessions(Arc<Pool>);

struct Pool {
    own: Coordinator,
    /// The metric of how many sessions there are beside the process's own.
    gauge: &'static str,
    /// The process's own comes first, if it is used.
    open: Mutex<Vec<Arc<Session>>>,
}

struct Session {
    /// 0 for the process's own session; the others are counted from 1.
    number: u64,
    coordinator: Coordinator,
    /// Bytes of the paths that are watched in it.
    used: watch::Sender<usize>,
    /// Reports while the session has no connection.
    _reporting: Option<Following>,
}

impl Sessions {
    /// No session but the process's own; `gauge` is the metric of how many further ones there are.
    pub fn new(own: &Coordinator, gauge: &'static str) -> Self {
        let used = watch::Sender::new(0);
        let first = Session { number: 0, coordinator: own.clone(), used, _reporting: None };
        Self(Arc::new(Pool { own: own.clone(), gauge, open: Mutex::new(vec![Arc::new(first)]) }))
    }

    /// Like [`new`](Self::new), but the process's own session is used for no watches.
    pub fn beside(own: &Coordinator, gauge: &'static str) -> Self {
        Self(Arc::new(Pool { own: own.clone(), gauge, open: Mutex::default() }))
    }

    /// A session with room for watched paths of this many bytes, until the lease is dropped.
    pub fn lease(&self, bytes: usize) -> Lease {
        let mut open = self.open();
        let has_room = |session: &&Arc<Session>| {
            let used = *session.used.borrow();
            used == 0 || used + bytes <= MAX_BYTES
        };
        let found = open.iter().find(has_room).cloned();
        let session = found.unwrap_or_else(|| {
            let session = Arc::new(self.another(open.last().map_or(0, |last| last.number) + 1));
            open.push(session.clone());
            self.show(&open);
            session
        });
        session.used.send_modify(|used| *used += bytes);
        Lease { sessions: self.clone(), session, bytes }
    }

    /// Opens a session.
    fn another(&self, number: u64) -> Session {
        let coordinator = self.0.own.another();
        let (used, in_use) = watch::channel(0);
        let problem = Problem::new(&coordinator.shared.problems);
        let reporting = tokio::spawn(report(coordinator.subscribe(), in_use, number, problem));
        Session { number, coordinator, used, _reporting: Some(Following(reporting)) }
    }

    fn release(&self, session: &Session, bytes: usize) {
        let mut open = self.open();
        session.used.send_modify(|used| *used -= bytes);
        let used = open.iter().map(|session| *session.used.borrow()).sum::<usize>();
        let idle = open.iter().rposition(|session| session.number > 0 && *session.used.borrow() == 0);
        // One session fewer, and still room for half of its watches.
        if let Some(idle) = idle
            && used + MAX_BYTES / 2 <= open.len().saturating_sub(1) * MAX_BYTES
        {
            // Its last handle ends the session.
            open.remove(idle);
            self.show(&open);
        }
    }

    fn show(&self, open: &[Arc<Session>]) {
        let further = open.iter().filter(|session| session.number > 0).count();
        metrics::gauge!(self.0.gauge).set(further as f64);
    }

    fn open(&self) -> MutexGuard<'_, Vec<Arc<Session>>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reports a session that is used and has had no connection for a while.
async fn report(
    mut status: watch::Receiver<Status>,
    mut used: watch::Receiver<usize>,
    number: u64,
    mut problem: Problem,
) {
    let mut missed_since: Option<Instant> = None;
    loop {
        let is_missed = *used.borrow_and_update() > 0 && !status.borrow_and_update().is_up();
        missed_since = is_missed.then(|| missed_since.unwrap_or_else(Instant::now));
        let due = missed_since.map(|since| since + CONNECT_TIME);
        if due.is_some_and(|due| due <= Instant::now()) {
            let text = format!("session {number} for watching has no connection with ZooKeeper");
            problem.set(text);
            warn!(number, "a session for watching has no connection with ZooKeeper");
        } else if !is_missed {
            problem.clear();
        }
        tokio::select! {
            changed = status.changed() => if changed.is_err() { return },
            changed = used.changed() => if changed.is_err() { return },
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some_and(|due| due > Instant::now()) => {}
        }
    }
}

/// A session for some watches.
pub struct Lease {
    sessions: Sessions,
    session: Arc<Session>,
    bytes: usize,
}

impl Lease {
    /// The session.
    pub fn coordinator(&self) -> &Coordinator {
        &self.session.coordinator
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.sessions.release(&self.session, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;
    use crate::Link;
    use crate::in_process::InProcess;

    /// Bytes of one lease, and how many fit into a session.
    const BYTES: usize = 1024;
    const FIT: usize = MAX_BYTES / BYTES;

    fn sessions_of(
        service: &InProcess,
    ) -> (Sessions, watch::Receiver<std::collections::BTreeMap<u64, String>>) {
        let main = Coordinator::start(Arc::new(service.clone()));
        (Sessions::new(&main, "sessions"), main.problems())
    }

    fn lease(sessions: &Sessions, count: usize) -> Vec<Lease> {
        (0..count).map(|_| sessions.lease(BYTES)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn watches_are_spread_over_sessions_and_leave_room() {
        let (sessions, _) = sessions_of(&InProcess::new(Duration::from_secs(2)));
        let opened = || sessions.open().len() - 1;
        let mut leases = lease(&sessions, FIT);
        assert_eq!(opened(), 0);
        leases.extend(lease(&sessions, FIT + 1));
        assert_eq!(opened(), 2);
        // The room of watches that have ended is used again.
        leases.truncate(2 * FIT);
        leases.extend(lease(&sessions, FIT));
        assert_eq!(opened(), 2);
        leases.push(sessions.lease(BYTES));
        assert_eq!(opened(), 3);
        // Paths that are too long for any session are watched, too.
        drop(sessions.lease(2 * MAX_BYTES));
    }

    #[tokio::test(start_paused = true)]
    async fn idle_session_is_closed_when_the_others_have_room() {
        let (sessions, _) = sessions_of(&InProcess::new(Duration::from_secs(2)));
        let mut leases = lease(&sessions, 2 * FIT + 1);
        let open = || sessions.open().len() - 1;
        assert_eq!(open(), 2);
        // The next watch would need it again.
        leases.truncate(2 * FIT);
        assert_eq!(open(), 2);
        leases.truncate(2 * FIT - FIT / 2 + 1);
        assert_eq!(open(), 2);
        leases.truncate(2 * FIT - FIT / 2);
        assert_eq!(open(), 1);
        leases.clear();
        assert_eq!((open(), *sessions.open()[0].used.borrow()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn session_without_connection_is_a_problem_while_it_is_used() {
        let timeout = Duration::from_secs(2);
        let service = InProcess::new(timeout);
        let (sessions, mut problems) = sessions_of(&service);
        sessions.0.own.up().await.unwrap();
        let mut leases = lease(&sessions, FIT + 1);
        let coordinator = leases[FIT].coordinator().clone();
        coordinator.up().await.unwrap();
        service.freeze();
        sleep(timeout).await;
        assert_ne!(coordinator.status().link, Link::Up);
        assert!(problems.borrow().is_empty(), "it may connect again");
        sleep(CONNECT_TIME).await;
        let text = problems.borrow_and_update().values().cloned().collect::<Vec<_>>();
        assert_eq!(text, ["session 1 for watching has no connection with ZooKeeper"]);
        leases.truncate(FIT);
        problems.wait_for(std::collections::BTreeMap::is_empty).await.unwrap();
        leases.push(sessions.lease(BYTES));
        sleep(CONNECT_TIME / 2).await;
        assert!(problems.borrow().is_empty(), "nothing has waited for long");
        problems.wait_for(|problems| problems.len() == 1).await.unwrap();
        service.thaw();
        problems.wait_for(std::collections::BTreeMap::is_empty).await.unwrap();
    }
}
