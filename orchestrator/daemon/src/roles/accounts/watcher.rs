//! Watches client systems: which instances are present, and what they report. There is one watch for each module's
//! directory and one for each instance. The watches are spread over several ZooKeeper sessions, since one session
//! should hold at most some thousand (see `docs/concepts.md`). The leader's own session holds none of them.
//!
//! Each watch loop reads on the session that holds the watch, so no change is lost between reading and watching. Its
//! first read follows a `sync`, so it never reports a state older than what the leader has read before.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};
use tracing::{debug, warn};

use super::paths;
use crate::config::Config;
use crate::coordination;
use allot_coordination::session::Changed;
use allot_coordination::{Coordinator, Error, Node, Status, Tree};

/// Most watches of one session.
const MAX_WATCHES: usize = 1000;
/// Most bytes of watched paths in one session: a session with more than 128 KiB of them could not reconnect.
const MAX_PATH_BYTES: usize = 64 * 1024;
/// Pause of a watch loop after an error.
const RETRY_DELAY: Duration = Duration::from_millis(50);
/// Interval at which a watch loop reports that its directory is missing.
const MISSING_INTERVAL: Duration = Duration::from_secs(1);

/// The result of one read of a watch loop.
#[derive(Debug)]
pub(super) enum WatchEvent {
    /// The instances in a module's directory: their nodes by name.
    Instances { dir: String, nodes: BTreeMap<String, Node> },
    /// A module's directory does not exist, so it has no instances.
    Missing { dir: String },
    /// The `-alloc` node of an instance, with its current data.
    AllocChanged { alloc: String, node: Node },
    /// The notify node, with its current data.
    Notified(Node),
}

/// The kind of node that a watch loop watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A module's directory.
    Directory,
    /// The `-alloc` node of an instance.
    Alloc,
    /// The notify node.
    Notify,
}

/// All watch loops. Dropping the watcher ends them and their ZooKeeper sessions.
pub(super) struct Watcher {
    config: Config,
    sessions: Vec<Session>,
    watches: BTreeMap<String, WatchHandle>,
    events: mpsc::UnboundedSender<WatchEvent>,
}

struct Session {
    coordinator: Coordinator,
    watches: usize,
    bytes: usize,
}

struct WatchHandle {
    session: usize,
    task: AbortHandle,
}

impl Drop for WatchHandle {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watcher {
    /// Nothing is watched yet. The receiver yields the events of all watch loops.
    pub(super) fn new(config: &Config) -> (Self, mpsc::UnboundedReceiver<WatchEvent>) {
        let (events, receiver) = mpsc::unbounded_channel();
        let config = config.clone();
        (Self { config, sessions: Vec::new(), watches: BTreeMap::new(), events }, receiver)
    }

    /// Watches a path, unless it is watched already.
    pub(super) fn watch(&mut self, path: &str, kind: Kind) {
        if self.watches.contains_key(path) {
            return;
        }
        let has_room =
            |session: &Session| session.watches < MAX_WATCHES && session.bytes + path.len() <= MAX_PATH_BYTES;
        let index = self.sessions.iter().position(has_room).unwrap_or_else(|| {
            let coordinator = coordination::coordinator(&self.config);
            self.sessions.push(Session { coordinator, watches: 0, bytes: 0 });
            metrics::gauge!("allot_accounts_listening_sessions").set(self.sessions.len() as f64);
            self.sessions.len() - 1
        });
        let Some(session) = self.sessions.get_mut(index) else { return };
        session.watches += 1;
        session.bytes += path.len();
        let watch_loop = WatchLoop {
            coordinator: session.coordinator.clone(),
            path: path.to_owned(),
            kind,
            events: self.events.clone(),
        };
        let task = tokio::spawn(watch_loop.run()).abort_handle();
        self.watches.insert(path.to_owned(), WatchHandle { session: index, task });
    }

    /// Keeps only the watches of the paths that `wanted` accepts.
    pub(super) fn retain(&mut self, wanted: impl Fn(&str) -> bool) {
        let unwanted: Vec<String> = self.watches.keys().filter(|path| !wanted(path)).cloned().collect();
        unwanted.iter().for_each(|path| self.forget(path));
    }

    /// Stops watching a path.
    pub(super) fn forget(&mut self, path: &str) {
        let Some(handle) = self.watches.remove(path) else { return };
        if let Some(session) = self.sessions.get_mut(handle.session) {
            session.watches = session.watches.saturating_sub(1);
            session.bytes = session.bytes.saturating_sub(path.len());
        }
    }
}

struct WatchLoop {
    coordinator: Coordinator,
    path: String,
    kind: Kind,
    events: mpsc::UnboundedSender<WatchEvent>,
}

impl WatchLoop {
    async fn run(self) {
        let tree = self.coordinator.tree();
        let mut status_changes = self.coordinator.subscribe();
        let (mut synced_attachment, mut missing_reported_at): (_, Option<Instant>) = (None, None);
        loop {
            let Ok(status) = self.coordinator.up().await else { return };
            status_changes.borrow_and_update();
            let read = async {
                if synced_attachment != Some(status.attachment) {
                    tree.sync().await?;
                }
                self.read_and_watch(&tree).await
            };
            match read.await {
                Ok((event, changed)) => {
                    synced_attachment = Some(status.attachment);
                    if self.events.send(event).is_err() {
                        return;
                    }
                    tokio::select! {
                        () = changed => {}
                        () = connection_changed(&mut status_changes, status) => {}
                    }
                }
                Err(error) => {
                    debug!(path = self.path, %error, "cannot watch a node; retrying");
                    let is_missing = self.kind == Kind::Directory && matches!(error, Error::NoNode(_));
                    if is_missing
                        && missing_reported_at.is_none_or(|missing_reported_at| {
                            missing_reported_at.elapsed() >= MISSING_INTERVAL
                        })
                    {
                        missing_reported_at = Some(Instant::now());
                        if self.events.send(WatchEvent::Missing { dir: self.path.clone() }).is_err() {
                            return;
                        }
                    }
                    sleep(RETRY_DELAY).await;
                }
            }
        }
    }

    async fn read_and_watch(&self, tree: &Tree) -> Result<(WatchEvent, Changed), Error> {
        match self.kind {
            Kind::Directory => {
                let (names, changed) = tree.watch(&self.path).await?;
                let own = names.into_iter().filter(|name| paths::instance_of(name).is_none()).collect();
                let nodes = tree.get_many_readable(&self.path, own).await?.into_iter();
                let readable = |(name, node): (String, Result<Node, Error>)| match node {
                    Ok(node) => Some((name, node)),
                    Err(error) => {
                        // An instance whose node the leader may not read takes no part.
                        warn!(dir = self.path, name, %error, "ignoring a node that may not be read");
                        None
                    }
                };
                let nodes = nodes.filter_map(readable).collect();
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

/// Waits until the session is down or has another connection than the one in `status`.
async fn connection_changed(status_changes: &mut tokio::sync::watch::Receiver<Status>, status: Status) {
    let differs = |now: &Status| now.attachment != status.attachment || !now.is_up();
    if status_changes.wait_for(differs).await.is_err() {
        std::future::pending::<()>().await;
    }
}
