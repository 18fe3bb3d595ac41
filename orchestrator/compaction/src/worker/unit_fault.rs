//! Whether this unit can run runners. If a runner cannot be started, that is a fault of the unit and not of the partition:
//! the unit starts nothing for a while, is not ready, and says why. After that it tries with one start, and not with all of
//! its slots at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use allot_runtime::time::now_ms;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use crate::node_context::NodeContext;

/// How long a unit starts nothing after its first fault. Each further time is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// The longest such time.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How long a unit starts nothing else after a start that tries whether it can run runners again.
const TRY_PAUSE: Duration = Duration::from_secs(5);

/// Why a unit starts nothing for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The reason, for people.
    pub why: String,
    /// When the unit tries again, in milliseconds since 1970; 0 if that is not known yet.
    pub until: u64,
}

/// The fault of a unit. Clones share it.
#[derive(Clone)]
pub(crate) struct UnitFault {
    /// Why the unit starts nothing; `None` if it does.
    refusal: watch::Sender<Option<Refusal>>,
    /// Whether a runner has run since the last fault.
    has_worked: Arc<AtomicBool>,
    times: Arc<Mutex<Times>>,
}

/// When something last happened; `None` if it never has.
#[derive(Default)]
struct Times {
    /// A runner could not be started.
    fault: Option<Instant>,
    /// A start was begun.
    start: Option<Instant>,
}

impl UnitFault {
    /// No fault is known yet.
    pub(crate) fn new() -> Self {
        Self {
            refusal: watch::Sender::new(None),
            has_worked: Arc::new(AtomicBool::new(true)),
            times: Arc::default(),
        }
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the unit starts nothing, with notification of changes.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<Refusal>> {
        self.refusal.subscribe()
    }

    /// Why the unit starts nothing now.
    pub(super) fn now(&self) -> Option<Refusal> {
        self.refusal.borrow().clone()
    }

    pub(super) fn is_present(&self) -> bool {
        self.refusal.borrow().is_some()
    }

    /// The unit could not run a runner.
    pub(super) fn refused(&self, why: &str) {
        self.times().fault = Some(Instant::now());
        self.set(Some(why.to_owned()));
    }

    /// Sets the reason. The time until which the unit starts nothing remains.
    fn set(&self, why: Option<String>) {
        self.refusal.send_if_modified(|refusal| {
            let until = refusal.as_ref().map_or(0, |refusal| refusal.until);
            let next = why.map(|why| Refusal { why, until });
            std::mem::replace(refusal, next.clone()) != next
        });
    }

    /// A runner that began at this time has run to its end. One that began before the last fault shows nothing.
    pub(super) fn worked(&self, began: Instant) {
        if self.times().fault.is_none_or(|fault| fault < began) {
            self.has_worked.store(true, Ordering::Relaxed);
        }
    }

    /// The unit begins to start a subtask.
    pub(super) fn starts(&self) {
        self.times().start = Some(Instant::now());
    }

    /// A start was given up before there was a runner, so it tries nothing.
    pub(super) fn gives_up(&self) {
        self.times().start = None;
    }

    /// Until when the unit starts nothing else, because a start tries whether it can run runners again; `None` if none does.
    fn tries_until(&self) -> Option<Instant> {
        if self.has_worked.load(Ordering::Relaxed) {
            return None;
        }
        self.times().start.map(|start| start + TRY_PAUSE).filter(|until| *until > Instant::now())
    }

    /// Whether a start tries at this moment whether the unit can run runners again.
    pub(super) fn is_trying(&self) -> bool {
        self.tries_until().is_some()
    }

    /// Returns when such a start has taken so long that another may begin.
    pub(super) async fn has_tried(&self) {
        match self.tries_until() {
            Some(until) => sleep_until(until).await,
            None => std::future::pending().await,
        }
    }

    /// Looks for the runner at the start and after each fault, and ends a fault after its time unless the runner still
    /// cannot be started.
    pub(crate) async fn follow(self, node_context: NodeContext) {
        let (mut pause, mut changes) = (FIRST_PAUSE, self.subscribe());
        loop {
            self.set(node_context.launch.problem(&node_context.config).await);
            if changes.wait_for(Option::is_some).await.is_err() {
                return;
            }
            let has_worked = self.has_worked.swap(false, Ordering::Relaxed);
            pause = if has_worked { FIRST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
            let until = now_ms().saturating_add(pause.as_millis() as u64);
            self.refusal.send_modify(|refusal| {
                if let Some(refusal) = refusal {
                    refusal.until = until;
                }
            });
            sleep(pause).await;
        }
    }
}
