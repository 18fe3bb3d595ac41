//! The state of the in-process server: the tree and its sessions, as far as Allot uses those of ZooKeeper. A path that
//! does not start with a slash, or has an empty component, names no node.

use std::collections::{BTreeMap, BTreeSet};

use tokio::sync::{oneshot, watch};

use super::super::error::Error;
use super::super::node::{Kind, Node, Op, Version};
use super::super::session::{Children, Link, LinkState};

#[derive(Clone, Default)]
struct Entry {
    node: Option<Node>,
    children: BTreeSet<String>,
    /// Number of children that were ever created, as in ZooKeeper; numbers sequential nodes.
    born: u32,
}

/// The part of a node that a watch observes. Changes of data do not fire watches of children, and vice versa.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    Data,
    Children,
}

struct Watch {
    session: i64,
    of: Of,
    fire: oneshot::Sender<()>,
}

/// The state that all sessions share.
pub(super) struct Server {
    entries: BTreeMap<String, Entry>,
    changes: i64,
    last_session: i64,
    sessions: BTreeMap<i64, watch::Sender<LinkState>>,
    watches: BTreeMap<String, Vec<Watch>>,
    /// Requests that arrived while frozen, in order.
    frozen: Option<Vec<Job>>,
}

/// A request that waits for the end of a freeze.
pub(super) type Job = Box<dyn FnOnce(&mut Server) + Send>;

impl Default for Server {
    fn default() -> Self {
        Self {
            // The root is the empty path here: every parent path ends before the last slash.
            entries: BTreeMap::from([(String::new(), Entry::default())]),
            changes: 0,
            last_session: 0,
            sessions: BTreeMap::new(),
            watches: BTreeMap::new(),
            frozen: None,
        }
    }
}

/// The undo of one step of a multi that fails.
type Undo = Vec<(String, Option<Entry>)>;

impl Server {
    pub(super) fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    pub(super) fn freeze(&mut self) {
        self.frozen.get_or_insert_default();
    }

    pub(super) fn later(&mut self, job: Job) {
        self.frozen.get_or_insert_default().push(job);
    }

    /// Ends a freeze: carries out the waiting requests.
    pub(super) fn thaw(&mut self) {
        for job in self.frozen.take().unwrap_or_default() {
            job(self);
        }
    }

    /// All nodes whose paths begin with `prefix`, and their data.
    #[cfg(feature = "simulation")]
    pub(super) fn nodes(&self, prefix: &str) -> Vec<(String, Vec<u8>)> {
        let below = self.entries.range(prefix.to_owned()..).take_while(|(path, _)| path.starts_with(prefix));
        below.filter_map(|(path, entry)| Some((path.clone(), entry.node.as_ref()?.data.clone()))).collect()
    }

    /// Opens a session.
    pub(super) fn begin(&mut self) -> (i64, watch::Receiver<LinkState>) {
        self.last_session += 1;
        let (sender, link) = watch::channel(LinkState { link: Link::Up, attached: 1 });
        self.sessions.insert(self.last_session, sender);
        (self.last_session, link)
    }

    /// Ends a session: its ephemeral nodes are deleted, its watches fire.
    pub(super) fn end(&mut self, session: i64) {
        let Some(link) = self.sessions.remove(&session) else { return };
        let owned = |entry: &Entry| entry.node.as_ref().is_some_and(|node| node.owner == Some(session));
        let gone: Vec<String> =
            self.entries.iter().filter(|(_, entry)| owned(entry)).map(|(path, _)| path.clone()).collect();
        for path in gone {
            let mut undo = Undo::new();
            if self.remove(&path, None, &mut undo).is_ok() {
                self.fire(&undo);
            }
        }
        for watches in self.watches.values_mut() {
            // Dropping the sender fires the watch.
            watches.retain(|watch| watch.session != session);
        }
        link.send_modify(|state| state.link = Link::Ended);
    }

    pub(super) fn end_all(&mut self) {
        let all: Vec<i64> = self.sessions.keys().copied().collect();
        all.into_iter().for_each(|session| self.end(session));
    }

    pub(super) fn link_all(&mut self, link: Link) {
        for session in self.sessions.values() {
            session.send_if_modified(|state| {
                let news = state.link != link;
                state.attached += u64::from(news && link == Link::Up);
                state.link = link;
                news
            });
        }
    }

    /// Carries out a request of a session, if the session lives.
    pub(super) fn ask<T>(
        &mut self,
        session: i64,
        act: impl FnOnce(&mut Self, i64) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.sessions.contains_key(&session) {
            act(self, session)
        } else {
            Err(Error::Unanswered("the session is over".to_owned()))
        }
    }

    pub(super) fn create_sequential(
        &mut self,
        session: i64,
        path: &str,
        data: Vec<u8>,
        kind: Kind,
    ) -> Result<String, Error> {
        let mut undo = Undo::new();
        let path = self.add(session, path, data, kind, true, &mut undo)?;
        self.fire(&undo);
        Ok(path)
    }

    pub(super) fn get(&self, path: &str) -> Option<Node> {
        self.entries.get(key(path)).map(|entry| entry.node.clone().unwrap_or_else(root))
    }

    pub(super) fn children(&self, path: &str) -> Result<Children, Error> {
        let entry = self.entries.get(key(path)).ok_or_else(|| Error::NoNode(path.to_owned()))?;
        let names: Vec<String> = entry.children.iter().cloned().collect();
        // Each child was created, and those that are missing were deleted.
        let changes = entry.born.wrapping_mul(2).wrapping_sub(names.len() as u32).cast_signed();
        Ok(Children { names, changes })
    }

    /// Fires when the node's data or children change, the node is deleted, or the session ends.
    pub(super) fn watch(&mut self, session: i64, path: &str, of: Of) -> oneshot::Receiver<()> {
        let (fire, fired) = oneshot::channel();
        let watches = self.watches.entry(key(path).to_owned()).or_default();
        watches.retain(|watch| !watch.fire.is_closed());
        watches.push(Watch { session, of, fire });
        fired
    }

    pub(super) fn multi(&mut self, session: i64, ops: Vec<Op>) -> Result<(), Error> {
        let mut undo = Undo::new();
        for op in ops {
            let done = match op {
                Op::Check { path, version } => self.check(&path, version),
                Op::Create { path, data, kind } => {
                    self.add(session, &path, data, kind, false, &mut undo).map(drop)
                }
                Op::Set { path, data, version } => self.write(&path, data, version, &mut undo),
                Op::Delete { path, version } => self.remove(&path, version, &mut undo),
            };
            if let Err(error) = done {
                for (path, entry) in undo.into_iter().rev() {
                    match entry {
                        Some(entry) => self.entries.insert(path, entry),
                        None => self.entries.remove(&path),
                    };
                }
                return Err(error);
            }
        }
        self.fire(&undo);
        Ok(())
    }

    fn check(&self, path: &str, version: Option<Version>) -> Result<(), Error> {
        let node = self.get(path).ok_or_else(|| Error::NoNode(path.to_owned()))?;
        if version.is_none_or(|version| version == node.version) {
            Ok(())
        } else {
            Err(Error::BadVersion(path.to_owned()))
        }
    }

    fn add(
        &mut self,
        session: i64,
        path: &str,
        data: Vec<u8>,
        kind: Kind,
        sequential: bool,
        undo: &mut Undo,
    ) -> Result<String, Error> {
        let refused = |why: &str| Error::Refused { what: path.to_owned(), why: why.to_owned() };
        let (parent, name) = path.rsplit_once('/').ok_or_else(|| refused("a path begins with a slash"))?;
        let above = self.entries.get_mut(parent).ok_or_else(|| Error::NoNode(path.to_owned()))?;
        if above.node.as_ref().is_some_and(|node| node.owner.is_some()) {
            return Err(refused("an ephemeral node has no children"));
        }
        let name = if sequential { format!("{name}{:010}", above.born) } else { name.to_owned() };
        if name.is_empty() {
            return Err(refused("a node has a name"));
        }
        let full = format!("{parent}/{name}");
        if above.children.contains(&name) {
            return Err(Error::Exists(full));
        }
        undo.push((parent.to_owned(), Some(above.clone())));
        above.born = above.born.wrapping_add(1);
        above.children.insert(name);
        self.changes += 1;
        let owner = (kind == Kind::Ephemeral).then_some(session);
        let node = Node { data, version: Version::FIRST, owner, created: self.changes };
        undo.push((full.clone(), None));
        self.entries.insert(full.clone(), Entry { node: Some(node), ..Entry::default() });
        Ok(full)
    }

    fn write(&mut self, path: &str, data: Vec<u8>, version: Version, undo: &mut Undo) -> Result<(), Error> {
        self.check(path, Some(version))?;
        let entry = self.entries.get_mut(key(path)).ok_or_else(|| Error::NoNode(path.to_owned()))?;
        undo.push((key(path).to_owned(), Some(entry.clone())));
        let node = entry.node.get_or_insert_with(root);
        node.data = data;
        node.version = version.next();
        self.changes += 1;
        Ok(())
    }

    fn remove(&mut self, path: &str, version: Option<Version>, undo: &mut Undo) -> Result<(), Error> {
        self.check(path, version)?;
        let no_node = || Error::NoNode(path.to_owned());
        let (parent, name) = path.rsplit_once('/').ok_or_else(no_node)?;
        if self.entries.get(path).is_some_and(|entry| !entry.children.is_empty()) {
            return Err(Error::NotEmpty(path.to_owned()));
        }
        let above = self.entries.get_mut(parent).ok_or_else(no_node)?;
        undo.push((parent.to_owned(), Some(above.clone())));
        above.children.remove(name);
        let entry = self.entries.remove(path);
        undo.push((path.to_owned(), entry));
        self.changes += 1;
        Ok(())
    }

    /// Fires the watches of a change.
    fn fire(&mut self, touched: &Undo) {
        for (path, before) in touched {
            let (Some(before), Some(watches)) = (before, self.watches.get_mut(path)) else { continue };
            let version = |entry: &Entry| entry.node.as_ref().map(|node| (node.version, node.created));
            // Dropping the senders fires the watches.
            match self.entries.get(path) {
                None => watches.clear(),
                Some(now) => watches.retain(|watch| match watch.of {
                    Of::Data => version(before) == version(now),
                    Of::Children => before.children == now.children,
                }),
            }
            if watches.is_empty() {
                self.watches.remove(path);
            }
        }
    }
}

/// The path as a key: the root is the empty path.
fn key(path: &str) -> &str {
    if path == "/" { "" } else { path }
}

fn root() -> Node {
    Node { data: Vec::new(), version: Version::FIRST, owner: None, created: 0 }
}
