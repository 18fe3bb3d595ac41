//! Watches client systems: which instances are present, and what they report. There is one watch for each module's
//! directory and one for each instance. The watches are spread over several ZooKeeper sessions; the leader's own session
//! holds none of them.
//!
//! Only the newest event of each watch is kept until the leader takes it, however long the leader is busy.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;
use tracing::warn;

use super::paths;
use allot_coordination::session::Changed;
use allot_coordination::{Coordinator, Error, Following, Lease, Node, Sessions, Tree, Update};

/// Interval at which a watch reports that its directory is missing.
const MISSING_INTERVAL: Duration = Duration::from_secs(1);

/// The result of one read of a watch.
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

/// The kind of node that is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A module's directory.
    Directory,
    /// The `-alloc` node of an instance.
    Alloc,
    /// The notify node.
    Notify,
}

/// All watches. Dropping the watcher ends them and their ZooKeeper sessions.
pub(super) struct Watcher {
    sessions: Sessions,
    watches: BTreeMap<String, (Following, Lease)>,
    news: News,
}

/// The newest event of each watched path that was not taken yet.
#[derive(Clone, Default)]
struct News(Arc<(Mutex<BTreeMap<String, WatchEvent>>, Notify)>);

impl News {
    fn with<T>(&self, act: impl FnOnce(&mut BTreeMap<String, WatchEvent>) -> T) -> T {
        act(&mut self.0.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Watcher {
    /// Nothing is watched yet.
    pub(super) fn new(own: &Coordinator) -> Self {
        let sessions = Sessions::beside(own, "allot_accounts_listening_sessions");
        Self { sessions, watches: BTreeMap::new(), news: News::default() }
    }

    /// Waits until there are events.
    pub(super) async fn has_events(&self) {
        while self.news.with(|news| news.is_empty()) {
            self.news.0.1.notified().await;
        }
    }

    /// Takes all events.
    pub(super) fn events(&self) -> impl Iterator<Item = WatchEvent> + use<> {
        self.news.with(std::mem::take).into_values()
    }

    /// Watches a path, unless it is watched already.
    pub(super) fn watch(&mut self, path: &str, kind: Kind) {
        if self.watches.contains_key(path) {
            return;
        }
        let lease = self.sessions.lease(path.len());
        let (tree, news) = (lease.coordinator().tree(), self.news.clone());
        let (watched, path) = (path.to_owned(), path.to_owned());
        let read = {
            let path = path.clone();
            move |_| {
                let (tree, path) = (tree.clone(), path.clone());
                async move { read(&tree, path, kind).await }
            }
        };
        let publish = move |update| {
            let Update::Read(_, event) = update else { return };
            news.with(|news| news.insert(watched.clone(), event));
            news.0.1.notify_one();
        };
        let following = lease.coordinator().follow(format!("watching {path}"), read, publish);
        self.watches.insert(path, (following, lease));
    }

    /// Keeps only the watches of the paths that `wanted` accepts.
    pub(super) fn retain(&mut self, wanted: impl Fn(&str) -> bool) {
        self.watches.retain(|path, _| wanted(path));
    }

    /// Stops watching a path.
    pub(super) fn forget(&mut self, path: &str) {
        self.watches.remove(path);
    }
}

async fn read(tree: &Tree, path: String, kind: Kind) -> Result<(WatchEvent, Changed), Error> {
    let (names, changed) = match kind {
        Kind::Directory => match tree.watch(&path).await {
            Err(Error::NoNode(_)) => {
                return Ok((WatchEvent::Missing { dir: path }, Box::pin(sleep(MISSING_INTERVAL))));
            }
            watched => watched?,
        },
        Kind::Alloc => {
            let (node, changed) = tree.watch_node(&path).await?;
            return Ok((WatchEvent::AllocChanged { alloc: path, node }, changed));
        }
        Kind::Notify => {
            let (node, changed) = tree.watch_node(&path).await?;
            return Ok((WatchEvent::Notified(node), changed));
        }
    };
    let own = names.into_iter().filter(|name| paths::instance_of(name).is_none()).collect();
    let mut nodes = BTreeMap::new();
    for (name, node) in tree.get_many_readable(&path, own).await? {
        match node {
            Ok(node) => drop(nodes.insert(name, node)),
            // An instance whose node the leader may not read takes no part.
            Err(error) => warn!(dir = path, name, %error, "ignoring a node that may not be read"),
        }
    }
    Ok((WatchEvent::Instances { dir: path, nodes }, changed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use allot_coordination::in_process::InProcess;
    use allot_coordination::{Kind as NodeKind, Version};

    #[tokio::test(start_paused = true)]
    async fn busy_leader_finds_only_the_newest_event_of_each_watch() {
        let tree = InProcess::new(Duration::from_secs(2));
        let coordinator = Coordinator::start(Arc::new(tree));
        coordinator.up().await.unwrap();
        let nodes = coordinator.tree();
        nodes.ensure("/r/d/m").await.unwrap();
        let mut watcher = Watcher::new(&coordinator);
        watcher.watch("/r/d/m", Kind::Directory);
        watcher.watch("/r/d/none", Kind::Directory);
        for number in 0..100 {
            nodes.create(&format!("/r/d/m/a:{number}"), b"", NodeKind::Ephemeral).await.unwrap();
            sleep(Duration::from_millis(100)).await;
        }
        watcher.has_events().await;
        let events: Vec<WatchEvent> = watcher.events().collect();
        match &events[..] {
            [WatchEvent::Instances { nodes, .. }, WatchEvent::Missing { dir }] => {
                assert_eq!((nodes.len(), dir.as_str()), (100, "/r/d/none"));
            }
            events => panic!("{events:?}"),
        }
        assert_eq!(watcher.events().count(), 0);
        nodes.delete("/r/d/m/a:7", Version::FIRST).await.unwrap();
        watcher.forget("/r/d/none");
        watcher.has_events().await;
        assert_eq!(watcher.events().count(), 1);
    }
}
