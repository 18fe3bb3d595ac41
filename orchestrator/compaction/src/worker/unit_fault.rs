//! Whether this unit can run runners. If a runner cannot be started, that is a fault of the unit and not of the partition:
//! the unit starts nothing for a while, is not ready, and says why.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use crate::node_context::NodeContext;

/// How long a unit starts nothing after its first fault. Each further time is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// The longest such time.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The fault of a unit. Clones share it.
#[derive(Clone)]
pub(crate) struct UnitFault {
    /// The reason why the unit starts nothing; `None` if it does.
    why: watch::Sender<Option<String>>,
    /// Whether a runner has run since the last fault.
    has_worked: Arc<AtomicBool>,
}

impl UnitFault {
    /// No fault is known yet.
    pub(crate) fn new() -> Self {
        Self { why: watch::Sender::new(None), has_worked: Arc::new(AtomicBool::new(true)) }
    }

    /// The reason why the unit starts nothing, with notification of changes.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<String>> {
        self.why.subscribe()
    }

    pub(super) fn is_present(&self) -> bool {
        self.why.borrow().is_some()
    }

    /// The unit could not run a runner.
    pub(super) fn refused(&self, why: &str) {
        self.why.send_replace(Some(why.to_owned()));
    }

    /// A runner has run to its end.
    pub(super) fn worked(&self) {
        self.has_worked.store(true, Ordering::Relaxed);
    }

    /// Looks for the runner at the start and after each fault, and ends a fault after its time unless the runner still
    /// cannot be started.
    pub(crate) async fn follow(self, node_context: NodeContext) {
        let (mut pause, mut changes) = (FIRST_PAUSE, self.subscribe());
        loop {
            let problem = node_context.launch.problem(&node_context.config).await;
            self.why.send_if_modified(|why| std::mem::replace(why, problem.clone()) != problem);
            if changes.wait_for(Option::is_some).await.is_err() {
                return;
            }
            let has_worked = self.has_worked.swap(false, Ordering::Relaxed);
            pause = if has_worked { FIRST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
            sleep(pause).await;
        }
    }
}
