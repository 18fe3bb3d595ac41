//! Leader election, as Curator's LeaderLatch does it: each candidate has an ephemeral sequential node, its latch, and
//! the candidate whose latch is first leads. An elected candidate increments the epoch node under a check of its latch;
//! the number in that node is the term.
//!
//! A candidate that waits watches only the latch before its own, and the leader only its own latch. So a candidate that
//! joins or leaves makes at most one other candidate read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info};

use super::coordinator::Coordinator;
use super::error::Error;
use super::follower::Retries;
use super::leadership::{Leadership, LeadershipState, Term, TermState};
use super::node::{Kind, Op, Version};
use super::session::Changed;
use super::shared::Shared;
use super::tree::Tree;
use crate::random;

/// A candidacy. Dropping it withdraws the candidate in the background.
pub struct Election {
    leadership: watch::Receiver<Option<Leadership>>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
    /// The session timeout.
    session: Duration,
}

impl Coordinator {
    /// Becomes a candidate under `dir`, until withdrawn. People and other candidates see the name.
    pub fn campaign(&self, dir: &str, name: &str) -> Election {
        let (leadership_sender, leadership) = watch::channel(None);
        let (stop, stopped) = watch::channel(false);
        let candidate = Candidate {
            shared: self.shared.clone(),
            tree: self.tree(),
            latches: format!("{dir}/latches"),
            epoch: format!("{dir}/epoch"),
            prefix: format!("_c_{}-latch-", token()),
            name: name.to_owned(),
            leadership: leadership_sender,
            stop: stopped,
        };
        let task = tokio::spawn(candidate.run());
        Election { leadership, stop, task, session: self.session_timeout() }
    }

    /// The name of the candidate that leads under `dir`, read from the tree: for processes that are no candidates.
    pub async fn leader(&self, dir: &str) -> Result<Option<String>, Error> {
        let (tree, latches) = (self.tree(), format!("{dir}/latches"));
        let names = match tree.children(&latches).await {
            Err(Error::NoNode(_)) => return Ok(None),
            names => names?,
        };
        let Some(first) = names.iter().min_by(|a, b| sequence(a).cmp(sequence(b))) else { return Ok(None) };
        let node = tree.get(&format!("{latches}/{first}")).await?;
        Ok(node.map(|node| String::from_utf8_lossy(&node.data).into_owned()))
    }

    /// The last term of the election under `dir`, read from the tree: that of its leader, if there is one. `None` before
    /// the first term, and if the node holds no number.
    pub async fn term(&self, dir: &str) -> Result<Option<Term>, Error> {
        let node = self.tree().get(&format!("{dir}/epoch")).await?;
        Ok(node.and_then(|node| std::str::from_utf8(&node.data).ok()?.parse().ok().map(Term)))
    }
}

impl Election {
    /// This candidate's current leadership, suspended leadership included.
    pub fn leadership(&self) -> Option<Leadership> {
        let leadership = self.leadership.borrow().clone();
        leadership.filter(|leadership| leadership.state() != LeadershipState::Lost)
    }

    /// Waits until this candidate leads.
    pub async fn elected(&mut self) -> Result<Leadership, Error> {
        loop {
            let leadership = self.leadership.borrow_and_update().clone();
            if let Some(leadership) =
                leadership.filter(|leadership| leadership.state() == LeadershipState::Leading)
            {
                return Ok(leadership);
            }
            let limit = Duration::from_millis(500);
            // With a time limit: suspended leadership may hold again, and nothing signals that.
            if let Ok(Err(_)) = timeout(limit, self.leadership.changed()).await {
                return Err(Error::Closed);
            }
        }
    }

    /// Withdraws: the term has ended when this returns, and the lock is free. If the service does not answer for one session
    /// timeout, the lock ends with the session.
    pub async fn withdraw(self) {
        drop(self.stop);
        let _ = timeout(self.session, self.task).await;
    }
}

/// 128 random bits in the form of a UUID, as in the node names of Curator.
fn token() -> String {
    let bits = format!("{:032x}", random::any::<u128>());
    let mut token = String::with_capacity(36);
    for (at, digit) in bits.chars().enumerate() {
        if matches!(at, 8 | 12 | 16 | 20) {
            token.push('-');
        }
        token.push(digit);
    }
    token
}

/// The sequence number at the end of a latch's name, which orders the candidates.
fn sequence(name: &str) -> &str {
    name.len().checked_sub(10).and_then(|at| name.get(at..)).unwrap_or(name)
}

struct Candidate {
    shared: Arc<Shared>,
    tree: Tree,
    latches: String,
    epoch: String,
    prefix: String,
    name: String,
    leadership: watch::Sender<Option<Leadership>>,
    stop: watch::Receiver<bool>,
}

impl Candidate {
    async fn run(mut self) {
        let mut stop = self.stop.clone();
        let mut retries = Retries::new(&self.shared, format!("candidacy under {}", self.latches));
        loop {
            let ended = tokio::select! {
                // Nothing is ever sent; the sender is dropped.
                _ = stop.changed() => break,
                ended = self.wait_and_lead(&mut retries) => ended,
            };
            self.finish();
            match ended {
                Ok(()) => {}
                Err(Error::Closed) => return,
                Err(error) => tokio::select! {
                    _ = stop.changed() => break,
                    () = retries.failed(&error) => {}
                },
            }
        }
        self.finish();
        // A latch that is left behind would be ahead of all other candidates until the session ends. If the coordinator is
        // closed, the latch goes with the session.
        let _ = retries.repeat(|| self.clear()).await;
    }

    /// Creates a latch, waits for its turn, and leads until the latch or the leadership is lost.
    async fn wait_and_lead(&mut self, retries: &mut Retries) -> Result<(), Error> {
        let status = self.shared.up().await?;
        self.tree.ensure(&self.latches).await?;
        // An earlier attempt whose answer was lost may have left a latch, which would be ahead of the new one and never
        // lead.
        self.clear().await?;
        let name = self
            .tree
            .create_sequential(&self.latches, &self.prefix, self.name.as_bytes(), Kind::Ephemeral)
            .await?;
        loop {
            let mut status_changes = self.shared.subscribe();
            let now = *status_changes.borrow_and_update();
            if now.closed || now.generation != status.generation {
                return Ok(());
            }
            let mut names = self.tree.children(&self.latches).await?;
            names.sort_by(|a, b| sequence(a).cmp(sequence(b)));
            let Some(place) = names.iter().position(|latch| *latch == name) else { return Ok(()) };
            let Some(ahead) = place.checked_sub(1).and_then(|ahead| names.get(ahead)) else {
                let result = self.lead(&name, status.generation, retries).await;
                self.finish();
                return result.and(self.clear().await);
            };
            let changed = match self.tree.watch_node(&format!("{}/{ahead}", self.latches)).await {
                Ok((_, changed)) => changed,
                // It has gone since the list was read.
                Err(Error::NoNode(_)) => continue,
                // This process may not read the latch of that candidate.
                Err(Error::Refused { .. }) => self.tree.watch(&self.latches).await?.1,
                Err(error) => return Err(error),
            };
            retries.succeeded();
            tokio::select! {
                () = changed => {}
                _ = status_changes.changed() => {}
            }
        }
    }

    /// This candidate's latch is the first: starts a term, and keeps it as long as it holds.
    async fn lead(&mut self, name: &str, generation: u64, retries: &mut Retries) -> Result<(), Error> {
        let latch = format!("{}/{name}", self.latches);
        let attachment = self.shared.status().attachment;
        drop(self.watch_latch(&latch).await?);
        let (term, version) = self.increment_epoch(&latch).await?;
        let leadership = Leadership(Arc::new(TermState {
            shared: Arc::downgrade(&self.shared),
            term,
            generation,
            latch,
            epoch: self.epoch.clone(),
            epoch_version: version,
            verified: AtomicU64::new(attachment),
            lost: watch::Sender::new(false),
            resign: Notify::new(),
        }));
        info!(dir = self.latches, term = term.0, "leading");
        retries.succeeded();
        self.leadership.send_replace(Some(leadership.clone()));
        let result = self.keep(&leadership).await;
        info!(dir = self.latches, term = term.0, "stopped leading");
        result
    }

    /// Watches the latch, which must exist and belong to the current session. A latch of an earlier session of this process
    /// disappears with that session, and a second candidate would lead then.
    async fn watch_latch(&self, latch: &str) -> Result<Changed, Error> {
        let (node, changed) = self.tree.watch_node(latch).await?;
        let session = self.shared.connected()?.id();
        if node.owner == Some(session) { Ok(changed) } else { Err(Error::NotLeading) }
    }

    /// Increments the epoch node under a check of the latch; returns the new term and the node's version.
    async fn increment_epoch(&self, latch: &str) -> Result<(Term, Version), Error> {
        loop {
            let node = self.tree.get(&self.epoch).await?;
            let path = self.epoch.clone();
            let (term, version, op) = match node {
                None => {
                    let data = b"1".to_vec();
                    (Term(1), Version::FIRST, Op::Create { path, data, kind: Kind::Persistent })
                }
                Some(node) => {
                    let last = std::str::from_utf8(&node.data).ok().and_then(|text| text.parse::<u64>().ok());
                    let term = last.and_then(|last| last.checked_add(1)).ok_or_else(|| Error::Refused {
                        what: format!("incrementing {}", self.epoch),
                        why: "it does not hold a number".to_owned(),
                    })?;
                    let data = term.to_string().into_bytes();
                    (Term(term), node.version.next(), Op::Set { path, data, version: node.version })
                }
            };
            let check = Op::Check { path: latch.to_owned(), version: None };
            match self.tree.multi(vec![check, op]).await {
                Ok(()) => return Ok((term, version)),
                // A write of the previous leader came in between. It was the last: the latch is ours now.
                Err(Error::BadVersion(path) | Error::Exists(path)) if path == self.epoch => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Verifies leadership after each change of the own latch and each reconnect, until the term ends.
    async fn keep(&self, leadership: &Leadership) -> Result<(), Error> {
        let mut status_changes = self.shared.subscribe();
        let mut latch_changed: Changed = Box::pin(std::future::ready(()));
        let mut must_verify = true;
        while !leadership.is_lost() {
            let status = *status_changes.borrow_and_update();
            if status.closed || status.generation != leadership.0.generation {
                leadership.end();
                break;
            }
            let verified = &leadership.0.verified;
            if status.is_up() && (must_verify || status.attachment != verified.load(Ordering::SeqCst)) {
                match self.verify(leadership).await {
                    Ok(watch) => {
                        latch_changed = watch;
                        must_verify = false;
                        verified.store(status.attachment, Ordering::SeqCst);
                    }
                    Err(error) if error.is_transient() => {}
                    Err(error) => {
                        debug!(dir = self.latches, %error, "leadership is lost");
                        leadership.end();
                        break;
                    }
                }
            }
            let left = self.trusted_for();
            if left.is_zero() {
                // The service has not answered for so long that another candidate may soon lead.
                leadership.end();
                break;
            }
            tokio::select! {
                () = &mut latch_changed, if !must_verify => must_verify = true,
                _ = status_changes.changed() => {}
                () = leadership.0.resign.notified() => {}
                () = sleep(if must_verify { left.min(Duration::from_millis(20)) } else { left }) => {}
            }
        }
        Ok(())
    }

    /// Time for which leadership still holds if the service gives no further answer.
    fn trusted_for(&self) -> Duration {
        let until = self.shared.trusted_session();
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }

    /// Checks that latch and epoch are as they were when the term began. The `sync` before makes the answer that of the
    /// whole service, not of one server that may lag.
    async fn verify(&self, leadership: &Leadership) -> Result<Changed, Error> {
        self.tree.sync_extending_trust().await?;
        let changed = self.watch_latch(&leadership.0.latch).await?;
        let node = self.tree.get(&leadership.0.epoch).await?.ok_or(Error::NotLeading)?;
        if node.version == leadership.0.epoch_version { Ok(changed) } else { Err(Error::NotLeading) }
    }

    /// Ends the term before its latch is deleted: otherwise two candidates would lead for a short time.
    fn finish(&self) {
        if let Some(leadership) = self.leadership.send_replace(None) {
            leadership.end();
        }
    }

    /// Deletes all latches of this candidate. The `sync` first makes a create visible whose answer was lost.
    async fn clear(&self) -> Result<(), Error> {
        self.tree.sync().await?;
        let names = match self.tree.children(&self.latches).await {
            Err(Error::NoNode(_)) => return Ok(()),
            names => names?,
        };
        for name in names {
            if name.starts_with(&self.prefix) {
                match self.tree.delete(&format!("{}/{name}", self.latches), Version::FIRST).await {
                    Ok(()) | Err(Error::NoNode(_)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_ordered_by_sequence_number_and_not_by_token() {
        let mut names = ["_c_ffff-latch-0000000002", "_c_0000-latch-0000000010", "_c_aaaa-latch-0000000001"];
        names.sort_by(|a, b| sequence(a).cmp(sequence(b)));
        let numbers: Vec<&str> = names.iter().map(|name| sequence(name)).collect();
        assert_eq!(numbers, ["0000000001", "0000000002", "0000000010"]);
        assert_eq!(sequence("short"), "short");
        assert_eq!(token().len(), 36);
        assert_ne!(token(), token());
    }
}
