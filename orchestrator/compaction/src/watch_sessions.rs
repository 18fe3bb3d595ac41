//! The sessions with ZooKeeper on which a unit watches tasks. One session cannot carry the watches of all tasks: a client
//! with more than 128 KiB of watched paths cannot reconnect. So the tasks are spread over sessions.
//!
//! Watches and reads of a task use the same session. On another session, a read could return a state from before the
//! watch, whose change the watch does not report any more.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::error;

use allot_coordination::{Coordinator, Link};

/// Most tasks of one session. Each has three watched paths of about 80 bytes at most.
const MAX_TASKS: usize = 400;

/// Opens a further session with the same ZooKeeper.
pub type OpenSession = Arc<dyn Fn() -> Coordinator + Send + Sync>;

/// How long a session may take to connect, for the first time or again, before the unit counts as not ready.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// The sessions on which a unit watches tasks. The unit's main session is the first one.
#[derive(Clone, Default)]
pub(crate) struct WatchSessions {
    /// `None` keeps all tasks on the main session.
    open: Option<OpenSession>,
    leased: Arc<Mutex<Leased>>,
}

/// Which sessions the tasks use.
#[derive(Default)]
struct Leased {
    /// Number of tasks on the main session.
    main: usize,
    more: Vec<Session>,
    /// Number of sessions opened so far.
    opened: u64,
}

/// A session beside the main one.
struct Session {
    number: u64,
    coordinator: Coordinator,
    /// Since when tasks have been seen to wait for a connection; `None` if none do.
    waiting_since: Option<Instant>,
    /// Number of tasks on this session.
    tasks: usize,
}

impl Session {
    fn is_full(&self) -> bool {
        self.tasks >= MAX_TASKS
    }

    /// Whether tasks wait for this session in vain, as far as calls of this function have seen.
    fn is_down(&mut self) -> bool {
        if self.tasks == 0 || self.coordinator.status().link == Link::Up {
            self.waiting_since = None;
            return false;
        }
        self.waiting_since.get_or_insert_with(Instant::now).elapsed() >= CONNECT_TIME
    }
}

impl Leased {
    /// Closes a session without tasks, unless the next tasks would soon need it again.
    fn close_idle(&mut self) {
        let used: usize = self.main + self.more.iter().map(|session| session.tasks).sum::<usize>();
        // One session fewer, and still room for half of its tasks.
        let has_room = |sessions: usize| used + MAX_TASKS / 2 <= sessions * MAX_TASKS;
        if let Some(idle) = self.more.iter().position(|session| session.tasks == 0)
            && has_room(self.more.len())
        {
            // Its last handle ends the session.
            self.more.remove(idle);
            self.show();
        }
    }

    fn show(&self) {
        metrics::gauge!("allot_compaction_watch_sessions").set(self.more.len() as f64);
    }
}

impl WatchSessions {
    /// No session but the main one. Further sessions are opened when they are needed, and closed when tasks no longer
    /// need them.
    pub(crate) fn new(open: Option<OpenSession>) -> Self {
        Self { open, ..Self::default() }
    }

    /// A session for one task, until the lease is dropped. `main` is the unit's main session.
    pub(crate) fn lease(&self, main: &Coordinator) -> WatchLease {
        let mut leased = self.leased();
        if leased.main >= MAX_TASKS
            && let Some(open) = &self.open
        {
            if leased.more.iter().all(Session::is_full) {
                leased.opened += 1;
                let number = leased.opened;
                leased.more.push(Session { number, coordinator: open(), waiting_since: None, tasks: 0 });
                leased.show();
            }
            if let Some(session) = leased.more.iter_mut().find(|session| !session.is_full()) {
                session.tasks += 1;
                let (number, coordinator) = (Some(session.number), session.coordinator.clone());
                return WatchLease { sessions: self.clone(), number, coordinator };
            }
        }
        leased.main += 1;
        WatchLease { sessions: self.clone(), number: None, coordinator: main.clone() }
    }

    /// How many sessions on which tasks are watched have had no connection for a while. To be called regularly: what
    /// happens between two calls is not seen.
    pub(crate) fn down(&self) -> usize {
        self.leased().more.iter_mut().filter_map(|session| session.is_down().then_some(())).count()
    }

    fn leased(&self) -> MutexGuard<'_, Leased> {
        self.leased.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The session of one task.
pub(crate) struct WatchLease {
    sessions: WatchSessions,
    /// `None` for the main session.
    number: Option<u64>,
    coordinator: Coordinator,
}

impl WatchLease {
    pub(crate) fn coordinator(&self) -> &Coordinator {
        &self.coordinator
    }
}

impl Drop for WatchLease {
    fn drop(&mut self) {
        let mut leased = self.sessions.leased();
        match self.number {
            None => leased.main -= 1,
            Some(number) => {
                // A session with tasks is not closed.
                if let Some(session) = leased.more.iter_mut().find(|session| session.number == number) {
                    session.tasks -= 1;
                } else {
                    error!(number, "a session for watching tasks was closed while a task used it");
                }
            }
        }
        leased.close_idle();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use allot_coordination::in_process::InProcess;

    /// The sessions of `service`, opened when they are needed.
    fn sessions_of(service: &InProcess) -> (WatchSessions, Coordinator) {
        let service = service.clone();
        let start =
            move || Coordinator::start(Arc::new(service.clone()), &allot_coordination::Settings::default());
        let main = start();
        (WatchSessions::new(Some(Arc::new(start))), main)
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_are_spread_over_sessions_and_leave_room() {
        let tree = InProcess::new(Duration::from_secs(2));
        let start =
            move || Coordinator::start(Arc::new(tree.clone()), &allot_coordination::Settings::default());
        let opened = Arc::new(AtomicUsize::new(0));
        let main = start();
        let open: OpenSession = {
            let opened = opened.clone();
            Arc::new(move || {
                opened.fetch_add(1, Ordering::Relaxed);
                start()
            })
        };
        let sessions = WatchSessions::new(Some(open));
        let mut leases: Vec<WatchLease> = (0..MAX_TASKS).map(|_| sessions.lease(&main)).collect();
        assert_eq!(opened.load(Ordering::Relaxed), 0);
        leases.extend((0..=MAX_TASKS).map(|_| sessions.lease(&main)));
        assert_eq!(opened.load(Ordering::Relaxed), 2);
        // The room of tasks that have ended is used again.
        leases.truncate(2 * MAX_TASKS);
        leases.extend((0..MAX_TASKS).map(|_| sessions.lease(&main)));
        assert_eq!(opened.load(Ordering::Relaxed), 2);
        leases.push(sessions.lease(&main));
        assert_eq!(opened.load(Ordering::Relaxed), 3);
        // Without a way to open more, all are on the main session.
        let alone = WatchSessions::default();
        leases.extend((0..3 * MAX_TASKS).map(|_| alone.lease(&main)));
    }

    #[tokio::test(start_paused = true)]
    async fn idle_session_is_closed_when_the_others_have_room() {
        let (sessions, main) = sessions_of(&InProcess::new(Duration::from_secs(2)));
        let mut leases: Vec<WatchLease> = (0..=2 * MAX_TASKS).map(|_| sessions.lease(&main)).collect();
        let open = || sessions.leased().more.len();
        assert_eq!(open(), 2);
        // The next task would need it again.
        leases.truncate(2 * MAX_TASKS);
        assert_eq!(open(), 2);
        leases.truncate(2 * MAX_TASKS - MAX_TASKS / 2 + 1);
        assert_eq!(open(), 2);
        leases.truncate(2 * MAX_TASKS - MAX_TASKS / 2);
        assert_eq!(open(), 1);
        leases.clear();
        assert_eq!((open(), sessions.leased().main), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn session_without_connection_counts_while_tasks_need_it() {
        let timeout = Duration::from_secs(2);
        let service = InProcess::new(timeout);
        let (sessions, _) = sessions_of(&service);
        // The main session is with another service, which does not fail.
        let (_, main) = sessions_of(&InProcess::new(timeout));
        let mut leases: Vec<WatchLease> = (0..=MAX_TASKS).map(|_| sessions.lease(&main)).collect();
        assert_eq!(sessions.down(), 0, "it is being opened");
        leases[MAX_TASKS].coordinator().up().await.unwrap();
        assert_eq!(sessions.down(), 0);
        service.freeze();
        tokio::time::sleep(timeout).await;
        assert_eq!(sessions.down(), 0, "it may connect again");
        service.thaw();
        leases[MAX_TASKS].coordinator().up().await.unwrap();
        assert_eq!(sessions.down(), 0);
        service.freeze();
        tokio::time::sleep(timeout).await;
        assert_eq!(sessions.down(), 0, "the time of the first disconnection does not count");
        tokio::time::sleep(CONNECT_TIME).await;
        assert_eq!(sessions.down(), 1);
        leases.truncate(MAX_TASKS);
        assert_eq!(sessions.down(), 0, "no task needs it");
        leases.push(sessions.lease(&main));
        assert_eq!(sessions.down(), 0, "no task has waited for long");
        tokio::time::sleep(CONNECT_TIME).await;
        assert_eq!(sessions.down(), 1);
        service.thaw();
        leases[MAX_TASKS].coordinator().up().await.unwrap();
        assert_eq!(sessions.down(), 0);
    }
}
