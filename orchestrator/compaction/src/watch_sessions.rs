//! The sessions with ZooKeeper on which a unit watches tasks. One session cannot carry the watches of all tasks: a client
//! with more than 128 KiB of watched paths cannot reconnect. So the tasks are spread over sessions.
//!
//! Watches and reads of a task use the same session. On another session, a read could return a state from before the
//! watch, whose change the watch does not report any more.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use allot_coordination::Coordinator;

/// Most tasks of one session. Each has three watched paths of about 80 bytes at most.
const MAX_TASKS: usize = 400;

/// Opens a further session with the same ZooKeeper.
pub type OpenSession = Arc<dyn Fn() -> Coordinator + Send + Sync>;

/// The sessions on which a unit watches tasks. The unit's main session is the first one.
#[derive(Clone, Default)]
pub(crate) struct WatchSessions {
    /// `None` keeps all tasks on the main session.
    open: Option<OpenSession>,
    /// Number of tasks on the main session.
    main: Arc<AtomicUsize>,
    more: Arc<Mutex<Vec<Session>>>,
}

#[derive(Clone)]
struct Session {
    coordinator: Coordinator,
    /// Number of tasks on this session.
    tasks: Arc<AtomicUsize>,
}

impl WatchSessions {
    /// No session but the main one. Further sessions are opened when they are needed.
    pub(crate) fn new(open: Option<OpenSession>) -> Self {
        Self { open, ..Self::default() }
    }

    /// A session for one task, until the lease is dropped. `main` is the unit's main session.
    pub(crate) fn lease(&self, main: &Coordinator) -> WatchLease {
        let is_full = |tasks: &AtomicUsize| tasks.load(Ordering::Relaxed) >= MAX_TASKS;
        let session = match &self.open {
            Some(open) if is_full(&self.main) => {
                let mut more = self.more.lock().unwrap_or_else(PoisonError::into_inner);
                let free = more.iter().find(|session| !is_full(&session.tasks)).cloned();
                free.unwrap_or_else(|| {
                    let session = Session { coordinator: open(), tasks: Arc::default() };
                    more.push(session.clone());
                    metrics::gauge!("allot_compaction_watch_sessions").set(more.len() as f64);
                    session
                })
            }
            _ => Session { coordinator: main.clone(), tasks: self.main.clone() },
        };
        session.tasks.fetch_add(1, Ordering::Relaxed);
        WatchLease(session)
    }
}

/// The session of one task.
pub(crate) struct WatchLease(Session);

impl WatchLease {
    pub(crate) fn coordinator(&self) -> &Coordinator {
        &self.0.coordinator
    }
}

impl Drop for WatchLease {
    fn drop(&mut self) {
        self.0.tasks.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use allot_coordination::in_process::InProcess;

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
        leases.truncate(1);
        leases.extend((0..3 * MAX_TASKS - 1).map(|_| sessions.lease(&main)));
        assert_eq!(opened.load(Ordering::Relaxed), 2);
        leases.push(sessions.lease(&main));
        assert_eq!(opened.load(Ordering::Relaxed), 3);
        // Without a way to open more, all are on the main session.
        let alone = WatchSessions::default();
        leases.extend((0..3 * MAX_TASKS).map(|_| alone.lease(&main)));
    }
}
