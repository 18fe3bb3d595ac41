//! Listening to client systems: who is there, and what they say. One watch for each module's directory and one for each
//! instance, spread over sessions, since no session should hold more than some thousand (see `docs/coordination.md`).
//! The leader's own session holds none of them.
//!
//! What is heard is read on the session that watches, so nothing is missed between reading and watching. The first look
//! of each listener stands behind a `sync`, so that nothing older is told than what the leader had seen before.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};
use tracing::debug;

use super::paths;
use crate::config::Config;
use crate::daemon;
use allot_coordination::session::Changed;
use allot_coordination::{Coordinator, Error, Node, Status, Tree};

/// Watches of one session, at most.
const WATCHES: usize = 1000;
/// Bytes of their paths, at most: a session with more than 128 KiB of them could not reconnect.
const BYTES: usize = 64 * 1024;
/// How long a listener rests after a fault.
const PAUSE: Duration = Duration::from_millis(50);
/// How often it says that a directory is not there.
const MISSING: Duration = Duration::from_secs(1);

/// Something was heard.
#[derive(Debug)]
pub(super) enum WatchEvent {
    /// Who is in a module's directory: the nodes of instances, by their names.
    Instances { dir: String, nodes: BTreeMap<String, Node> },
    /// A module's directory is not there, and nobody in it.
    Missing { dir: String },
    /// A node of an instance's accounts has these data.
    AllocChanged { alloc: String, node: Node },
    /// The notify node has these data.
    Notified(Node),
}

/// What is listened to at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A module's directory.
    Directory,
    /// The node of an instance's accounts.
    Alloc,
    /// The notify node.
    Notify,
}

/// All listeners. Dropping it ends them, and their sessions.
pub(super) struct Watcher {
    config: Config,
    sessions: Vec<Session>,
    listeners: BTreeMap<String, Listener>,
    heard: mpsc::UnboundedSender<WatchEvent>,
}

struct Session {
    coordinator: Coordinator,
    watches: usize,
    bytes: usize,
}

struct Listener {
    session: usize,
    task: AbortHandle,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watcher {
    /// None yet.
    pub(super) fn new(config: &Config) -> (Self, mpsc::UnboundedReceiver<WatchEvent>) {
        let (heard, hearing) = mpsc::unbounded_channel();
        let config = config.clone();
        (Self { config, sessions: Vec::new(), listeners: BTreeMap::new(), heard }, hearing)
    }

    /// Listens at a path, if not so already.
    pub(super) fn listen(&mut self, path: &str, kind: Kind) {
        if self.listeners.contains_key(path) {
            return;
        }
        let room = |one: &Session| one.watches < WATCHES && one.bytes + path.len() <= BYTES;
        let session = self.sessions.iter().position(room).unwrap_or_else(|| {
            let coordinator = daemon::coordinator(&self.config);
            self.sessions.push(Session { coordinator, watches: 0, bytes: 0 });
            metrics::gauge!("allot_accounts_listening_sessions").set(self.sessions.len() as f64);
            self.sessions.len() - 1
        });
        let Some(one) = self.sessions.get_mut(session) else { return };
        one.watches += 1;
        one.bytes += path.len();
        let listening = Listening {
            coordinator: one.coordinator.clone(),
            path: path.to_owned(),
            kind,
            heard: self.heard.clone(),
        };
        let task = tokio::spawn(listening.run()).abort_handle();
        self.listeners.insert(path.to_owned(), Listener { session, task });
    }

    /// Listens on at these paths only.
    pub(super) fn retain(&mut self, wanted: impl Fn(&str) -> bool) {
        let ends: Vec<String> = self.listeners.keys().filter(|path| !wanted(path)).cloned().collect();
        ends.iter().for_each(|path| self.forget(path));
    }

    /// Listens at a path no more.
    pub(super) fn forget(&mut self, path: &str) {
        let Some(listener) = self.listeners.remove(path) else { return };
        if let Some(session) = self.sessions.get_mut(listener.session) {
            session.watches = session.watches.saturating_sub(1);
            session.bytes = session.bytes.saturating_sub(path.len());
        }
    }
}

struct Listening {
    coordinator: Coordinator,
    path: String,
    kind: Kind,
    heard: mpsc::UnboundedSender<WatchEvent>,
}

impl Listening {
    async fn run(self) {
        let tree = self.coordinator.tree();
        let mut news = self.coordinator.subscribe();
        let (mut synced, mut missed): (_, Option<Instant>) = (None, None);
        loop {
            let Ok(status) = self.coordinator.up().await else { return };
            news.borrow_and_update();
            let look = async {
                if synced != Some(status.attachment) {
                    tree.sync().await?;
                }
                self.look(&tree).await
            };
            match look.await {
                Ok((heard, changed)) => {
                    synced = Some(status.attachment);
                    if self.heard.send(heard).is_err() {
                        return;
                    }
                    tokio::select! {
                        () = changed => {}
                        () = moved(&mut news, status) => {}
                    }
                }
                Err(error) => {
                    debug!(path = self.path, %error, "cannot listen here now");
                    let is_missing = self.kind == Kind::Directory && matches!(error, Error::NoNode(_));
                    if is_missing && missed.is_none_or(|missed| missed.elapsed() >= MISSING) {
                        missed = Some(Instant::now());
                        if self.heard.send(WatchEvent::Missing { dir: self.path.clone() }).is_err() {
                            return;
                        }
                    }
                    sleep(PAUSE).await;
                }
            }
        }
    }

    async fn look(&self, tree: &Tree) -> Result<(WatchEvent, Changed), Error> {
        match self.kind {
            Kind::Directory => {
                let (names, changed) = tree.watch(&self.path).await?;
                let own = names.into_iter().filter(|name| paths::instance_of(name).is_none()).collect();
                let nodes = tree.get_many_readable(&self.path, own).await?.into_iter();
                // Whom the leader may not read takes no part.
                let nodes = nodes.filter_map(|(name, node)| Some((name, node.ok()?))).collect();
                Ok((WatchEvent::Instances { dir: self.path.clone(), nodes }, changed))
            }
            Kind::Alloc => {
                let (node, changed) = tree.watch_node(&self.path).await?;
                Ok((WatchEvent::AllocChanged { alloc: self.path.clone(), node }, changed))
            }
            Kind::Notify => {
                let (node, changed) = tree.watch_node(&self.path).await?;
                Ok((WatchEvent::Notified(node), changed))
            }
        }
    }
}

/// Waits until the session has another connection than this, or none.
async fn moved(news: &mut tokio::sync::watch::Receiver<Status>, status: Status) {
    let other = |now: &Status| now.attachment != status.attachment || !now.is_up();
    if news.wait_for(other).await.is_err() {
        std::future::pending::<()>().await;
    }
}
