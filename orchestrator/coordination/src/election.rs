//! Standing for election, as Curator's LeaderLatch does: the first of the ephemeral sequential nodes leads. On
//! being elected the epoch node is raised under the latch; its number is the term.
//!
//! A loop that compares what should be with what is. Candidates are few, so they watch the directory, and a
//! look at it is the whole truth each time.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tracing::{debug, info, warn};

use super::coordinator::{Coordinator, Shared};
use super::error::Error;
use super::lead::{Lead, Standing, Term};
use super::node::{Kind, Op, Version};
use super::session::Changed;
use super::tree::Tree;
use crate::random;

/// A candidacy. Dropping it withdraws in the background.
pub struct Election {
    lead: watch::Receiver<Option<Lead>>,
    stop: Option<watch::Sender<bool>>,
    task: Option<JoinHandle<()>>,
    tree: Tree,
    dir: String,
}

impl Coordinator {
    /// Stands for election under `dir`, by this name (people and other candidates see it) until withdrawn.
    pub fn campaign(&self, dir: &str, name: &str) -> Election {
        let (lead_sender, lead) = watch::channel(None);
        let (stop, stopped) = watch::channel(false);
        let candidate = Candidate {
            shared: self.shared.clone(),
            tree: self.tree(),
            latches: format!("{dir}/latches"),
            epoch: format!("{dir}/epoch"),
            prefix: format!("_c_{}-latch-", token()),
            name: name.to_owned(),
            lead: lead_sender,
            stop: stopped,
        };
        let task = tokio::spawn(candidate.run());
        Election { lead, stop: Some(stop), task: Some(task), tree: self.tree(), dir: dir.to_owned() }
    }

    /// The name of the candidate whose turn it is under `dir` by the tree, for those who do not stand themselves.
    pub async fn leader(&self, dir: &str) -> Result<Option<String>, Error> {
        leader(&self.tree(), dir).await
    }
}

impl Election {
    /// The stint, while there is one, suspended ones included.
    pub fn lead(&self) -> Option<Lead> {
        self.lead.borrow().clone().filter(|lead| lead.now() != Standing::Over)
    }

    /// Waits until this candidate leads.
    pub async fn elected(&mut self) -> Result<Lead, Error> {
        loop {
            let lead = self.lead.borrow_and_update().clone();
            if let Some(lead) = lead.filter(|lead| lead.now() == Standing::Leading) {
                return Ok(lead);
            }
            let limit = Duration::from_millis(500);
            // With a limit, since a suspended stint may hold again.
            if let Ok(Err(_)) = tokio::time::timeout(limit, self.lead.changed()).await {
                return Err(Error::Closed);
            }
        }
    }

    /// The name of the candidate whose turn it is by the tree, here or elsewhere.
    pub async fn leader(&self) -> Result<Option<String>, Error> {
        leader(&self.tree, &self.dir).await
    }

    /// Withdraws: the stint is over and the lock is free when this returns.
    pub async fn withdraw(mut self) {
        drop(self.stop.take());
        if let Some(task) = self.task.take() {
            let _ = task.await;
        }
    }
}

async fn leader(tree: &Tree, dir: &str) -> Result<Option<String>, Error> {
    let latches = format!("{dir}/latches");
    let mut names = match tree.children(&latches).await {
        Err(Error::NoNode(_)) => return Ok(None),
        names => names?,
    };
    names.sort_by(|a, b| sequence(a).cmp(sequence(b)));
    let Some(first) = names.first() else { return Ok(None) };
    let node = tree.get(&format!("{latches}/{first}")).await?;
    Ok(node.map(|node| String::from_utf8_lossy(&node.data).into_owned()))
}

/// 128 random bits in the form of a UUID, as Curator writes them.
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

/// What orders candidates: the digits at the end.
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
    lead: watch::Sender<Option<Lead>>,
    stop: watch::Receiver<bool>,
}

impl Candidate {
    async fn run(mut self) {
        let pause = self.shared.call.min(Duration::from_millis(100));
        let mut stop = self.stop.clone();
        loop {
            let standing = tokio::select! {
                // The sender is dropped, never used.
                _ = stop.changed() => break,
                standing = self.stand() => standing,
            };
            self.finish();
            match standing {
                Ok(()) => {}
                Err(Error::Closed) => return,
                Err(error) => {
                    if error.is_transient() {
                        debug!(dir = self.latches, %error, "candidacy interrupted");
                    } else {
                        warn!(dir = self.latches, %error, "candidacy interrupted");
                    }
                    tokio::select! {
                        _ = stop.changed() => break,
                        () = sleep(pause) => {}
                    }
                }
            }
        }
        self.finish();
        // Left there, the latch would stand before all others as long as the session lives.
        while let Err(error) = self.clear().await {
            debug!(dir = self.latches, %error, "the latch is still there");
            sleep(pause).await;
            if self.shared.up().await.is_err() {
                break;
            }
        }
    }

    /// From one latch to its end.
    async fn stand(&mut self) -> Result<(), Error> {
        let status = self.shared.up().await?;
        self.tree.ensure(&self.latches).await?;
        // What an earlier try left, its answer lost, would stand before us and never lead.
        self.clear().await?;
        let name = self
            .tree
            .create_sequential(&self.latches, &self.prefix, self.name.as_bytes(), Kind::Ephemeral)
            .await?;
        loop {
            let mut news = self.shared.subscribe();
            let now = *news.borrow_and_update();
            if now.closed || now.generation != status.generation {
                return Ok(());
            }
            let (mut names, changed) = self.tree.watch(&self.latches).await?;
            if !names.contains(&name) {
                return Ok(());
            }
            names.sort_by(|a, b| sequence(a).cmp(sequence(b)));
            if names.first() == Some(&name) {
                let result = self.lead(&name, status.generation).await;
                self.finish();
                return result.and(self.clear().await);
            }
            tokio::select! {
                () = changed => {}
                _ = news.changed() => {}
            }
        }
    }

    /// Ours is the first latch: takes the lead and keeps it as long as it holds.
    async fn lead(&mut self, name: &str, generation: u64) -> Result<(), Error> {
        let latch = format!("{}/{name}", self.latches);
        let attachment = self.shared.status().attachment;
        self.look_at_latch(&latch).await?;
        let (term, version) = self.raise_epoch(&latch).await?;
        let at = (generation, attachment);
        let lead = Lead::new(&self.shared, term, at, latch, (self.epoch.clone(), version));
        info!(dir = self.latches, term = term.0, "leading");
        self.lead.send_replace(Some(lead.clone()));
        let result = self.keep(&lead).await;
        info!(dir = self.latches, term = term.0, "leading no more");
        result
    }

    /// Whether the latch is there and lives with our session. A node of ours that an earlier session left
    /// would make two leaders when it goes.
    async fn look_at_latch(&self, latch: &str) -> Result<(), Error> {
        let node = self.tree.get(latch).await?.ok_or(Error::NotLeading)?;
        let session = self.shared.connected()?.id();
        if node.owner == Some(session) { Ok(()) } else { Err(Error::NotLeading) }
    }

    /// Raises the epoch node under the latch.
    async fn raise_epoch(&self, latch: &str) -> Result<(Term, Version), Error> {
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
                        what: format!("raising {}", self.epoch),
                        why: "it does not hold a number".to_owned(),
                    })?;
                    let data = term.to_string().into_bytes();
                    (Term(term), node.version.next(), Op::Set { path, data, version: node.version })
                }
            };
            let check = Op::Check { path: latch.to_owned(), version: None };
            match self.tree.multi(vec![check, op]).await {
                Ok(()) => return Ok((term, version)),
                // Somebody's last word came between; he is gone, for the latch is ours.
                Err(Error::BadVersion(path) | Error::Exists(path)) if path == self.epoch => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Watches over a stint until it is over.
    async fn keep(&self, lead: &Lead) -> Result<(), Error> {
        let mut news = self.shared.subscribe();
        let mut changed: Changed = Box::pin(std::future::ready(()));
        let mut look = true;
        while !lead.is_over() {
            let status = *news.borrow_and_update();
            if status.closed || status.generation != lead.generation() {
                lead.end();
                break;
            }
            if status.is_up() && (look || status.attachment != lead.verified_at()) {
                match self.verify(lead).await {
                    Ok(watch) => {
                        changed = watch;
                        look = false;
                        lead.verified(status.attachment);
                    }
                    Err(error) if error.is_transient() => {}
                    Err(error) => {
                        debug!(%error, "the lead is lost");
                        lead.end();
                        break;
                    }
                }
            }
            lead.tell(lead.now());
            let left = self.left();
            if left.is_zero() {
                // Not heard for so long that others may soon take over.
                lead.end();
                break;
            }
            tokio::select! {
                () = &mut changed, if !look => look = true,
                _ = news.changed() => {}
                () = lead.resigned() => {}
                () = sleep(if look { left.min(Duration::from_millis(20)) } else { left }) => {}
            }
        }
        Ok(())
    }

    /// How long the answers so far still let leadership hold.
    fn left(&self) -> Duration {
        let until = self.shared.trusted_session();
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }

    /// Whether lock and epoch are still as they were when the stint began, by word of the whole service.
    async fn verify(&self, lead: &Lead) -> Result<Changed, Error> {
        self.tree.sync_heard().await?;
        let (_, changed) = self.tree.watch(&self.latches).await?;
        self.look_at_latch(lead.latch()).await?;
        let (epoch, version) = lead.epoch();
        let node = self.tree.get(epoch).await?.ok_or(Error::NotLeading)?;
        if node.version == version { Ok(changed) } else { Err(Error::NotLeading) }
    }

    /// Ends a stint before its latch goes, lest two lead for a moment.
    fn finish(&self) {
        if let Some(lead) = self.lead.send_replace(None) {
            lead.end();
        }
    }

    /// Removes what this candidate has in the queue. The `sync` lets a create come through whose answer was lost.
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
    fn candidates_are_ordered_by_their_number_whatever_their_token() {
        let mut names = ["_c_ffff-latch-0000000002", "_c_0000-latch-0000000010", "_c_aaaa-latch-0000000001"];
        names.sort_by(|a, b| sequence(a).cmp(sequence(b)));
        let numbers: Vec<&str> = names.iter().map(|name| sequence(name)).collect();
        assert_eq!(numbers, ["0000000001", "0000000002", "0000000010"]);
        assert_eq!(sequence("short"), "short");
        assert_eq!(token().len(), 36);
        assert_ne!(token(), token());
    }
}
