//! Group membership: a directory with an ephemeral node for each member. [`Membership`] keeps a process's own node
//! there, over reconnects and sessions; [`Members`] follows all members.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::warn;

use super::coordinator::Coordinator;
use super::error::Error;
use super::follower::{Following, Retries, Update};
use super::node::{Kind, Version};
use super::session::Changed;
use super::shared::{Shared, lock};
use super::tree::Tree;

/// Whether the own node is in the directory, as far as is known now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// The node is not there, or the connection is lost and the node may be gone.
    Away,
    /// Another process has a node with the same name.
    Taken,
    /// The node is there, and belongs to this session.
    Present(i64),
}

/// A process's own membership in a directory. Dropping it leaves in the background.
pub struct Membership {
    present: watch::Receiver<Presence>,
    stop: watch::Sender<()>,
    task: JoinHandle<()>,
    /// The session timeout.
    session: Duration,
}

/// A member as it was read. If this process may not read a member, only the member's name is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Member {
    /// The data of the member's node.
    pub data: Vec<u8>,
    /// The member's session.
    pub owner: Option<i64>,
    /// Distinguishes the member from an earlier one of the same name; 0 if the node may not be read.
    pub created: i64,
}

impl Member {
    /// Whether only the member's name is known.
    pub fn is_hidden(&self) -> bool {
        self.created == 0
    }
}

/// All members at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Whether the directory was read on the current connection. If not, no member may be taken for dead: this process
    /// may be the one that is cut off.
    pub current: bool,
    /// The `Status::attachment` at which the directory was read.
    pub attachment: u64,
    /// The members by name.
    pub members: Arc<BTreeMap<String, Member>>,
}

/// The members of a directory, followed by watches.
pub struct Members {
    snapshot: watch::Receiver<Snapshot>,
    _following: Following,
}

impl Coordinator {
    /// Joins `dir` with a node of this name and data, until left. While another process has a node of this name, waits
    /// until that node is gone. A node with the same data is taken for the node of an earlier session of this process
    /// and replaced, so `data` should be unique to the process.
    pub fn join(&self, dir: &str, name: &str, data: &[u8]) -> Membership {
        let (sender, present) = watch::channel(Presence::Away);
        let (stop, mut stopped) = watch::channel(());
        let joining = Arc::new(Joining {
            shared: self.shared.clone(),
            tree: self.tree(),
            dir: dir.to_owned(),
            path: format!("{dir}/{name}"),
            data: data.to_vec(),
        });
        let publish = move |update: Update<Presence>| {
            let presence = match update {
                Update::Read(_, presence) => presence,
                Update::Outdated => Presence::Away,
            };
            sender.send_if_modified(|now| std::mem::replace(now, presence) != presence);
        };
        let reconciling = joining.clone();
        let reconcile = move |_| {
            let joining = reconciling.clone();
            async move { joining.reconcile().await }
        };
        let following = self.follow(format!("own node {}", joining.path), reconcile, publish);
        let task = tokio::spawn(async move {
            // Nothing is ever sent; the sender is dropped.
            let _ = stopped.changed().await;
            following.stop().await;
            let mut retries = Retries::new(&joining.shared, format!("deleting own node {}", joining.path));
            // The coordinator may be closed: then the node goes with the session.
            let _ = retries.repeat(|| joining.remove()).await;
        });
        Membership { present, stop, task, session: self.session_timeout() }
    }

    /// Follows the members of `dir`.
    pub fn members(&self, dir: &str) -> Members {
        let (sender, snapshot) = watch::channel(Snapshot::default());
        let publish = move |update: Update<BTreeMap<String, Member>>| {
            sender.send_if_modified(|before| match update {
                Update::Read(attachment, members) => {
                    let now = Snapshot { current: true, attachment, members: Arc::new(members) };
                    let changed = *before != now;
                    *before = now;
                    changed
                }
                Update::Outdated => std::mem::replace(&mut before.current, false),
            });
        };
        let (tree, dir, known) = (self.tree(), dir.to_owned(), Arc::<Mutex<Known>>::default());
        let what = format!("members of {dir}");
        let read = move |attachment| {
            let (tree, dir, known) = (tree.clone(), dir.clone(), known.clone());
            async move { read(&tree, &dir, attachment, &known).await }
        };
        Members { snapshot, _following: self.follow(what, read, publish) }
    }
}

impl Membership {
    /// Whether the own node is in the directory.
    pub fn presence(&self) -> Presence {
        *self.present.borrow()
    }

    /// The same, with notification of changes.
    pub fn subscribe(&self) -> watch::Receiver<Presence> {
        self.present.clone()
    }

    /// Waits until the own node is in the directory.
    pub async fn present(&mut self) -> Result<(), Error> {
        let is_present = |now: &Presence| matches!(now, Presence::Present(_));
        self.present.wait_for(is_present).await.map(drop).map_err(|_| Error::Closed)
    }

    /// Leaves: the own node is gone when this returns. If the service does not answer for one session timeout, the node ends
    /// with the session.
    pub async fn leave(self) {
        drop(self.stop);
        let _ = timeout(self.session, self.task).await;
    }
}

impl Members {
    /// The members as they were last read.
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot.borrow().clone()
    }

    /// Waits for the next change, and returns the members.
    pub async fn changed(&mut self) -> Result<Snapshot, Error> {
        self.snapshot.changed().await.map_err(|_| Error::Closed)?;
        Ok(self.snapshot.borrow_and_update().clone())
    }

    /// Waits for members that satisfy the condition, and returns them.
    pub async fn wait_for(&mut self, what: impl FnMut(&Snapshot) -> bool) -> Result<Snapshot, Error> {
        self.snapshot.wait_for(what).await.map(|snapshot| snapshot.clone()).map_err(|_| Error::Closed)
    }
}

struct Joining {
    shared: Arc<Shared>,
    tree: Tree,
    dir: String,
    path: String,
    data: Vec<u8>,
}

impl Joining {
    /// Reads the own node, and creates or replaces it if necessary.
    async fn reconcile(&self) -> Result<(Presence, Changed), Error> {
        loop {
            let session = self.shared.connected()?.id();
            match self.tree.get(&self.path).await? {
                None => {
                    self.tree.ensure(&self.dir).await?;
                    match self.tree.create(&self.path, &self.data, Kind::Ephemeral).await {
                        Ok(()) | Err(Error::Exists(_)) => {}
                        Err(error) => return Err(error),
                    }
                }
                Some(node) if node.owner != Some(session) && node.data == self.data => {
                    // The node of an earlier session of this process: it would disappear with that session.
                    match self.tree.delete(&self.path, node.version).await {
                        Ok(()) | Err(Error::NoNode(_) | Error::BadVersion(_)) => {}
                        Err(error) => return Err(error),
                    }
                }
                Some(node) => {
                    let is_own = node.owner == Some(session);
                    if !is_own {
                        warn!(
                            path = self.path,
                            "another process has this name; waiting until its node is gone"
                        );
                    }
                    let presence = if is_own { Presence::Present(session) } else { Presence::Taken };
                    // An ephemeral node has no children, so this watch fires only when the node is gone. A watch on the
                    // directory would wake every member whenever any member joins or leaves.
                    match self.tree.watch(&self.path).await {
                        Ok((_, changed)) => return Ok((presence, changed)),
                        Err(Error::NoNode(_)) => {}
                        Err(error) => return Err(error),
                    }
                }
            }
        }
    }

    async fn remove(&self) -> Result<(), Error> {
        // Makes a create visible whose answer nobody waited for.
        self.tree.sync().await?;
        let Some(node) = self.tree.get(&self.path).await? else { return Ok(()) };
        if node.data != self.data {
            return Ok(());
        }
        match self.tree.delete(&self.path, Version::FIRST).await {
            Ok(()) | Err(Error::NoNode(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// The members as they were read last.
#[derive(Default)]
struct Known {
    attachment: u64,
    /// The number of changes of the directory's children.
    changes: i32,
    members: BTreeMap<String, Member>,
}

/// All members. On the same connection only the new ones are read, unless the number of changes shows that a member left
/// and another of the same name joined. A member whose node may not be read must not hide the others.
async fn read(
    tree: &Tree,
    dir: &str,
    attachment: u64,
    known: &Mutex<Known>,
) -> Result<(BTreeMap<String, Member>, Changed), Error> {
    let (children, changed) = match tree.watch_children(dir).await {
        Err(Error::NoNode(_)) => {
            tree.ensure(dir).await?;
            tree.watch_children(dir).await?
        }
        answer => answer?,
    };
    let (seen, changes, mut members) = {
        let known = lock(known);
        (known.attachment, known.changes, known.members.clone())
    };
    let present: BTreeSet<String> = children.names.into_iter().collect();
    let gone = members.keys().filter(|name| !present.contains(*name)).count();
    let new = present.iter().filter(|name| !members.contains_key(*name)).count();
    let is_explained = changes.checked_add_unsigned((gone + new) as u32) == Some(children.changes);
    if seen == attachment && is_explained {
        members.retain(|name, _| present.contains(name));
    } else {
        members.clear();
    }
    let unread = present.into_iter().filter(|name| !members.contains_key(name)).collect();
    let mut reads = tree.reads(dir, unread);
    while let Some((name, node)) = reads.next().await {
        let member = match node {
            Ok(Some(node)) => Member { data: node.data, owner: node.owner, created: node.created },
            // It has left since, which is one of the next changes.
            Ok(None) => continue,
            Err(error @ Error::Refused { .. }) => {
                warn!(dir, name, %error, "no permission to read a member; only its name is known");
                Member::default()
            }
            Err(error) => return Err(error),
        };
        members.insert(name, member);
    }
    *lock(known) = Known { attachment, changes: children.changes, members: members.clone() };
    Ok((members, changed))
}
