//! What programs of conferences tell, and their end.

use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

/// An event of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MediaEvent {
    /// The program wrote a detail.
    Detail {
        /// Number of the conference.
        e164: String,
        /// Which start of the conference's media.
        start: u64,
        /// Name of the field.
        field: String,
        /// Value of the field.
        value: String,
    },
    /// The program ended by itself with code 0.
    Ended {
        /// Number of the conference.
        e164: String,
        /// Which start of the conference's media.
        start: u64,
    },
    /// The program failed too often: the unit cannot keep the conference.
    Failed {
        /// Number of the conference.
        e164: String,
        /// Which start of the conference's media.
        start: u64,
        /// Why.
        reason: String,
    },
}

/// Gets the result of a start: the program is ready, or why it is not.
pub(super) type Readiness = oneshot::Receiver<Result<(), String>>;

/// The end of a program with everything that it started.
#[derive(Debug, Clone)]
pub(crate) struct ProgramEnd {
    /// Closed at the end.
    pub(super) ended: watch::Receiver<()>,
    /// How long ending may take.
    pub(super) limit: Duration,
}

impl ProgramEnd {
    /// Waits until the program has ended, or the limit has passed: not even SIGKILL ends a process that is stuck in the
    /// kernel.
    pub(crate) async fn wait(mut self) {
        let _ = timeout(self.limit, async { while self.ended.changed().await.is_ok() {} }).await;
    }

    pub(super) fn has_come(&self) -> bool {
        self.ended.has_changed().is_err()
    }
}
