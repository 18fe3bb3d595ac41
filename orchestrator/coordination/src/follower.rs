//! The loop in which everything reads the tree: read under a one-shot watch, and read again after each event and each new
//! connection. All loops have the error policy of [`Retries`].

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tracing::{debug, info, warn};

use super::coordinator::Coordinator;
use super::error::{Error, Retry, Retryable};
use super::problems::Problem;
use super::session::Changed;
use super::shared::{LONGEST_REFUSED_PAUSE, Shared, Status};
use super::tree::Tree;
use crate::random;

/// The first pause after a failure.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause while the service does not answer, or others make changes first.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The error policy of a loop. The pauses between its attempts grow exponentially up to a limit, with jitter. A refusal,
/// which lasts until a person acts, is logged at each attempt (the log shows repetitions once a minute), and makes the
/// process not ready until an attempt succeeds.
pub struct Retries {
    shared: Arc<Shared>,
    /// The purpose of the attempts, for people.
    what: String,
    pause: Duration,
    problem: Problem,
}

impl Retries {
    /// No attempt has failed yet. Holds no handle of the coordinator, so that the session ends with its last user.
    pub(crate) fn new(shared: &Arc<Shared>, what: impl Into<String>) -> Self {
        let problem = Problem::new(&shared.problems);
        Self { shared: shared.clone(), what: what.into(), pause: FIRST_PAUSE, problem }
    }

    /// An attempt has succeeded.
    pub fn succeeded(&mut self) {
        self.pause = FIRST_PAUSE;
        if self.problem.clear() {
            info!(what = self.what, "the coordination service no longer refuses");
        }
    }

    /// The service refuses an attempt. The caller decides when it tries again.
    pub fn report(&mut self, refusal: &impl Retryable) {
        self.problem.set(format!("{}: {refusal}", self.what));
        warn!(what = self.what, error = %refusal, "refused; not ready until this is allowed or repaired");
    }

    /// An attempt has failed. Returns when the next one is due: after a pause, or when there is a new connection.
    pub async fn failed(&mut self, error: &impl Retryable) {
        let limit = if error.retry() == Retry::Refused {
            self.report(error);
            LONGEST_REFUSED_PAUSE
        } else {
            debug!(what = self.what, %error, "retrying");
            LONGEST_PAUSE
        };
        // All processes would otherwise try again in the same instant.
        let pause = self.pause.min(limit).mul_f64(random::within(0.5..1.0));
        self.pause = (self.pause * 2).min(limit);
        let mut status_changes = self.shared.subscribe();
        let attachment = status_changes.borrow_and_update().attachment;
        tokio::select! {
            () = sleep(pause) => {}
            Ok(_) = status_changes.wait_for(|status| status.attachment != attachment) => {
                self.pause = FIRST_PAUSE;
            }
        }
    }

    /// Repeats a request until it succeeds.
    ///
    /// # Errors
    /// The coordinator is closed.
    pub async fn repeat<T, E: Retryable, F: Future<Output = Result<T, E>>>(
        &mut self,
        mut request: impl FnMut() -> F,
    ) -> Result<T, Error> {
        loop {
            self.shared.up().await?;
            match request().await {
                Ok(value) => {
                    self.succeeded();
                    return Ok(value);
                }
                Err(error) => self.failed(&error).await,
            }
        }
    }
}

/// Reads something in the tree again and again, in the task that uses it.
pub struct Follower {
    retries: Retries,
    tree: Tree,
    status_changes: watch::Receiver<Status>,
    /// The connection of the last read.
    seen: Status,
    /// The connection on which a `sync` preceded the last read: no read is older than what the process knew before.
    synced: Option<u64>,
    /// In a mutex only so that a follower can be shared; it is never locked.
    changed: Mutex<Changed>,
}

impl Follower {
    /// Reads with `read`, whose second value is the watch, and repeats that until it succeeds.
    ///
    /// # Errors
    /// The coordinator is closed.
    pub async fn read<T, E: Retryable + From<Error>, F: Future<Output = Result<(T, Changed), E>>>(
        &mut self,
        mut read: impl FnMut() -> F,
    ) -> Result<T, Error> {
        loop {
            self.seen = self.retries.shared.up().await?;
            match self.attempt(read()).await {
                Ok(value) => return Ok(value),
                Err(error) => self.retries.failed(&error).await,
            }
        }
    }

    async fn attempt<T, E: Retryable + From<Error>>(
        &mut self,
        read: impl Future<Output = Result<(T, Changed), E>>,
    ) -> Result<T, E> {
        if self.synced != Some(self.seen.attachment) {
            self.tree.sync().await?;
            self.synced = Some(self.seen.attachment);
        }
        let (value, changed) = read.await?;
        self.changed = Mutex::new(changed);
        self.retries.succeeded();
        Ok(value)
    }

    /// Nothing needs to be read for now: a refusal of the last attempt keeps the process from no work any more.
    pub fn rest(&mut self) {
        self.retries.problem.clear();
    }

    /// Completes when what was read last may have changed, or the connection is another.
    pub async fn changed(&mut self) {
        let seen = self.seen;
        tokio::select! {
            () = self.changed.get_mut().unwrap_or_else(PoisonError::into_inner) => {}
            _ = self.status_changes.wait_for(|now| *now != seen) => {}
        }
        self.changed = Mutex::new(Box::pin(std::future::ready(())));
    }
}

/// A follower in a task of its own, which ends when this is dropped.
pub struct Following(pub(crate) JoinHandle<()>);

impl Following {
    /// Ends the task, and waits until it does nothing any more.
    pub async fn stop(mut self) {
        self.0.abort();
        let _ = (&mut self.0).await;
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What a [`Following`] publishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update<T> {
    /// What was read, on the connection with this [`Status::attachment`].
    Read(u64, T),
    /// The connection is lost, or reading fails: what was read last may be out of date.
    Outdated,
}

impl Coordinator {
    /// The error policy of a loop; `what` is the purpose of its requests.
    pub fn retries(&self, what: impl Into<String>) -> Retries {
        Retries::new(&self.shared, what)
    }

    /// Follows something in the tree in the task of the caller; `what` is its name for people.
    pub fn follower(&self, what: impl Into<String>) -> Follower {
        Follower {
            retries: self.retries(what),
            tree: self.tree(),
            status_changes: self.subscribe(),
            seen: self.status(),
            synced: None,
            changed: Mutex::new(Box::pin(std::future::ready(()))),
        }
    }

    /// Follows something in the tree in a task of its own, until the coordinator is closed. `read` reads it on the connection
    /// with this [`Status::attachment`] and returns it with a watch; `publish` gets each value.
    pub fn follow<T, E, F>(
        &self,
        what: impl Into<String>,
        mut read: impl FnMut(u64) -> F + Send + 'static,
        mut publish: impl FnMut(Update<T>) + Send + 'static,
    ) -> Following
    where
        T: Send + 'static,
        E: Retryable + From<Error> + Send + Sync + 'static,
        F: Future<Output = Result<(T, Changed), E>> + Send,
    {
        let mut follower = self.follower(what);
        let task = tokio::spawn(async move {
            loop {
                if !follower.status_changes.borrow_and_update().is_up() {
                    publish(Update::Outdated);
                }
                let Ok(status) = follower.retries.shared.up().await else {
                    publish(Update::Outdated);
                    return;
                };
                follower.seen = status;
                match follower.attempt(read(status.attachment)).await {
                    Ok(value) => {
                        publish(Update::Read(status.attachment, value));
                        follower.changed().await;
                    }
                    Err(error) => {
                        publish(Update::Outdated);
                        follower.retries.failed(&error).await;
                    }
                }
            }
        });
        Following(task)
    }
}
