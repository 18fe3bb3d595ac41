//! A leadership term, from the election to its end: whether leadership holds at this instant, and the fence that keeps
//! a deposed leader from writing.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use tokio::time::Instant;

use tokio::sync::{Notify, watch};

use super::error::Error;
use super::node::{Op, Version};
use super::shared::Shared;

/// The number of a leadership term. Terms of one election strictly increase. Every command that only a leader may give
/// carries the term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(pub u64);

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether leadership holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeadershipState {
    /// The candidate leads.
    Leading,
    /// The connection is lost: the leader must stop acting at once. Leadership continues in the same term if the
    /// session comes back in time and the lock is still held.
    Suspended,
    /// The term has ended for good.
    Lost,
}

/// One leadership term. Clones are the same term; dropping all of them does not end it.
#[derive(Clone)]
pub struct Leadership(pub(super) Arc<TermState>);

pub(super) struct TermState {
    pub(super) shared: Weak<Shared>,
    pub(super) term: Term,
    /// The number of the session that has the lock.
    pub(super) generation: u64,
    pub(super) latch: String,
    pub(super) epoch: String,
    pub(super) epoch_version: Version,
    /// The attachment at which the lock was last seen to be ours.
    pub(super) verified: AtomicU64,
    pub(super) lost: watch::Sender<bool>,
    pub(super) resign: Notify,
}

impl Leadership {
    /// The number of the term.
    pub fn term(&self) -> Term {
        self.0.term
    }

    /// The term, if leadership holds at this instant: the lock is ours, the session is connected, and the service
    /// answered within the last 0.6 session timeouts. Reads the clock, so the answer is right even in a process that
    /// was suspended and has just resumed. Call this before each action of a leader.
    pub fn check(&self) -> Result<Term, Error> {
        if self.state() == LeadershipState::Leading { Ok(self.0.term) } else { Err(Error::NotLeading) }
    }

    /// Whether leadership holds at this instant.
    pub fn state(&self) -> LeadershipState {
        if self.is_lost() {
            return LeadershipState::Lost;
        }
        let Some(shared) = self.0.shared.upgrade() else { return LeadershipState::Lost };
        let status = shared.status();
        if status.closed || status.generation != self.0.generation {
            return LeadershipState::Lost;
        }
        let Ok(session) = shared.connected() else { return LeadershipState::Suspended };
        if shared.trusted_until(session.as_ref()).is_none_or(|until| until <= Instant::now()) {
            return LeadershipState::Suspended;
        }
        // After each reconnect the lock must be read again before leadership holds again.
        if status.attachment != self.0.verified.load(Ordering::SeqCst) {
            return LeadershipState::Suspended;
        }
        LeadershipState::Leading
    }

    /// Waits until the term has ended for good.
    pub async fn lost(&self) {
        // The sender lives as long as this handle.
        let _ = self.0.lost.subscribe().wait_for(|lost| *lost).await;
    }

    /// Ends the term: it is lost when this returns, and the next candidate takes over at once. Stop the work first.
    pub fn resign(&self) {
        self.end();
        self.0.resign.notify_one();
    }

    pub(super) fn end(&self) {
        self.0.lost.send_replace(true);
    }

    pub(super) fn is_lost(&self) -> bool {
        *self.0.lost.borrow()
    }

    /// Checks that go before each fenced write: the lock exists, and no candidate has led since. The second check also
    /// refuses the writes of an earlier term of this same process.
    pub(super) fn checks(&self) -> [Op; 2] {
        [
            Op::Check { path: self.0.latch.clone(), version: None },
            Op::Check { path: self.0.epoch.clone(), version: Some(self.0.epoch_version) },
        ]
    }

    pub(super) fn is_fence(&self, path: &str) -> bool {
        path == self.0.latch || path == self.0.epoch
    }
}
