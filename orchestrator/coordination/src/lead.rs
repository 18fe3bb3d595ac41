//! A leader's stint, from its election to its end: whether it holds at this instant, and the fence that keeps
//! a deposed leader from writing.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use tokio::time::Instant;

use tokio::sync::{Notify, watch};

use super::coordinator::Shared;
use super::error::Error;
use super::node::{Op, Version};
use super::tree::Tree;

/// The number of a stint: each is greater than all before it in the same election. It goes into every command
/// that only a leader may give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(pub u64);

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How a stint stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It holds.
    Leading,
    /// Cut off: stop at once. It may go on, in the same term, if the session is back in time and the lock is
    /// found to be still held.
    Suspended,
    /// For good.
    Over,
}

/// One stint of leadership. Clones are the same stint; dropping them all does not end it.
#[derive(Clone)]
pub struct Lead(Arc<Inner>);

struct Inner {
    shared: Weak<Shared>,
    term: Term,
    generation: u64,
    latch: String,
    epoch: String,
    epoch_version: Version,
    /// The attachment at which the lock was last seen to be ours.
    verified: AtomicU64,
    over: AtomicBool,
    standing: watch::Sender<Standing>,
    resign: Notify,
}

impl Lead {
    pub(super) fn new(
        shared: &Arc<Shared>,
        term: Term,
        (generation, attachment): (u64, u64),
        latch: String,
        epoch: (String, Version),
    ) -> Self {
        Self(Arc::new(Inner {
            shared: Arc::downgrade(shared),
            term,
            generation,
            latch,
            epoch: epoch.0,
            epoch_version: epoch.1,
            verified: AtomicU64::new(attachment),
            over: AtomicBool::new(false),
            standing: watch::Sender::new(Standing::Leading),
            resign: Notify::new(),
        }))
    }

    /// Its number.
    pub fn term(&self) -> Term {
        self.0.term
    }

    /// The term, if leadership holds at this instant: the lock is ours, the session is connected, and the
    /// service was heard within 0.6 session timeouts. Reads the clock, so that it is right in a process that
    /// was stopped and has just woken up. Ask before each act.
    pub fn check(&self) -> Result<Term, Error> {
        if self.now() == Standing::Leading { Ok(self.0.term) } else { Err(Error::NotLeading) }
    }

    /// How it stands at this instant.
    pub fn now(&self) -> Standing {
        if self.0.over.load(Ordering::SeqCst) {
            return Standing::Over;
        }
        let Some(shared) = self.0.shared.upgrade() else { return Standing::Over };
        let status = shared.status();
        if status.closed || status.generation != self.0.generation {
            return Standing::Over;
        }
        let Ok(session) = shared.connected() else { return Standing::Suspended };
        if shared.trusted_until(session.as_ref()).is_none_or(|until| until <= Instant::now()) {
            return Standing::Suspended;
        }
        // After each reconnect the lock has to be looked at before it counts again.
        if status.attachment != self.0.verified.load(Ordering::SeqCst) {
            return Standing::Suspended;
        }
        Standing::Leading
    }

    /// The standing as it was last looked at, to be waited on. [`check`](Self::check) is the word that counts.
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.0.standing.subscribe()
    }

    /// Waits until it is over for good.
    pub async fn over(&self) {
        // The sender lives as long as we do.
        let _ = self.0.standing.subscribe().wait_for(|standing| *standing == Standing::Over).await;
    }

    /// The tree behind the fence: its writes are refused as soon as the lock is lost or another has led,
    /// whatever this process still believes.
    pub fn tree(&self) -> Result<Tree, Error> {
        let shared = self.0.shared.upgrade().ok_or(Error::NotLeading)?;
        Ok(Tree::fenced(shared, self.clone()))
    }

    /// Hands over: it is over when this returns, and the next candidate is let in at once. Stop the work first.
    pub fn resign(&self) {
        self.end();
        self.0.resign.notify_one();
    }

    pub(super) fn end(&self) {
        self.0.over.store(true, Ordering::SeqCst);
        self.0.standing.send_replace(Standing::Over);
    }

    pub(super) fn tell(&self, standing: Standing) {
        self.0.standing.send_if_modified(|now| {
            let news = *now != standing && *now != Standing::Over;
            if news {
                *now = standing;
            }
            news
        });
    }

    pub(super) fn verified(&self, attachment: u64) {
        self.0.verified.store(attachment, Ordering::SeqCst);
    }

    pub(super) fn verified_at(&self) -> u64 {
        self.0.verified.load(Ordering::SeqCst)
    }

    pub(super) fn is_over(&self) -> bool {
        self.0.over.load(Ordering::SeqCst)
    }

    pub(super) async fn resigned(&self) {
        self.0.resign.notified().await;
    }

    pub(super) fn generation(&self) -> u64 {
        self.0.generation
    }

    pub(super) fn latch(&self) -> &str {
        &self.0.latch
    }

    pub(super) fn epoch(&self) -> (&str, Version) {
        (&self.0.epoch, self.0.epoch_version)
    }

    /// The lock is there, and nobody has led since. The second also holds off an earlier stint of our own.
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
