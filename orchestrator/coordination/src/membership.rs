//! Group membership: a directory with an ephemeral node for each member. [`Membership`] keeps a process's own node
//! there, over reconnects and sessions; [`Members`] follows all members. Both are reconcile loops that read again after
//! each event.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::sleep;
use tracing::{debug, warn};

use super::coordinator::Coordinator;
use super::error::Error;
use super::node::{Kind, Version};
use super::session::Changed;
use super::shared::{Shared, Status};
use super::tree::Tree;

/// Pause of a loop after a transient error.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// Pause of a loop after a refusal, which does not pass by itself.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);

/// Whether the own node is in the directory, as far as is known now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// The node is not there, or the connection is lost and the node may be gone.
    Away,
    /// Another process has a node with the same name.
    Taken,
    /// The node is there.
    Present,
}

/// A process's own membership in a directory. Dropping it leaves in the background.
pub struct Membership {
    present: watch::Receiver<Presence>,
    stop: Option<watch::Sender<bool>>,
    task: Option<JoinHandle<()>>,
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
    /// The [`Status::attachment`] at which the directory was read.
    pub attachment: u64,
    /// The members by name.
    pub members: Arc<BTreeMap<String, Member>>,
}

/// The members of a directory, followed by watches.
pub struct Members {
    snapshot: watch::Receiver<Snapshot>,
    task: AbortHandle,
}

impl Coordinator {
    /// Joins `dir` with a node of this name and data, until left. While another process has a node of this name, waits
    /// until that node is gone. A node with the same data is taken for the node of an earlier session of this process
    /// and replaced, so `data` should be unique to the process.
    pub fn join(&self, dir: &str, name: &str, data: &[u8]) -> Membership {
        let (present_sender, present) = watch::channel(Presence::Away);
        let (stop, stopped) = watch::channel(false);
        let joining = Joining {
            shared: self.shared.clone(),
            tree: self.tree(),
            dir: dir.to_owned(),
            path: format!("{dir}/{name}"),
            data: data.to_vec(),
            present: present_sender,
            stop: stopped,
        };
        Membership { present, stop: Some(stop), task: Some(tokio::spawn(joining.run())) }
    }

    /// Follows the members of `dir`.
    pub fn members(&self, dir: &str) -> Members {
        let (sender, snapshot) = watch::channel(Snapshot::default());
        let task = tokio::spawn(follow(self.shared.clone(), self.tree(), dir.to_owned(), sender));
        Members { snapshot, task: task.abort_handle() }
    }
}

impl Membership {
    /// Whether the own node is in the directory.
    pub fn presence(&self) -> Presence {
        *self.present.borrow()
    }

    /// Waits until the own node is in the directory.
    pub async fn present(&mut self) -> Result<(), Error> {
        self.present.wait_for(|now| *now == Presence::Present).await.map(drop).map_err(|_| Error::Closed)
    }

    /// Leaves: the own node is gone when this returns.
    pub async fn leave(mut self) {
        drop(self.stop.take());
        if let Some(task) = self.task.take() {
            let _ = task.await;
        }
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

impl Drop for Members {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Joining {
    shared: Arc<Shared>,
    tree: Tree,
    dir: String,
    path: String,
    data: Vec<u8>,
    present: watch::Sender<Presence>,
    stop: watch::Receiver<bool>,
}

impl Joining {
    async fn run(self) {
        let mut stop = self.stop.clone();
        tokio::select! {
            // Nothing is ever sent; the sender is dropped.
            _ = stop.changed() => {}
            () = self.keep_node() => return,
        }
        self.publish(Presence::Away);
        while let Err(error) = self.remove().await {
            debug!(path = self.path, %error, "own node is not deleted yet; retrying");
            sleep(RETRY_PAUSE).await;
            if self.shared.up().await.is_err() {
                break;
            }
        }
    }

    /// Keeps the own node in the directory until the coordinator is closed.
    async fn keep_node(&self) {
        let mut status_changes = self.shared.subscribe();
        loop {
            let Ok(status) = self.shared.up().await else {
                self.publish(Presence::Away);
                return;
            };
            status_changes.borrow_and_update();
            let reconciled = self.reconcile().await;
            self.publish(match &reconciled {
                Ok(OwnNode { ours: true, .. }) => Presence::Present,
                Ok(OwnNode { ours: false, .. }) => Presence::Taken,
                Err(_) => Presence::Away,
            });
            match reconciled {
                Ok(node) => {
                    tokio::select! {
                        () = node.changed => {}
                        () = until_changed(&mut status_changes, status) => {}
                    }
                    if !status_changes.borrow().is_up() {
                        self.publish(Presence::Away);
                    }
                }
                Err(error) => {
                    if !error.is_transient() {
                        warn!(path = self.path, %error, "the own node cannot be created; retrying");
                    }
                    sleep(pause(&error)).await;
                }
            }
        }
    }

    fn publish(&self, presence: Presence) {
        self.present.send_if_modified(|now| std::mem::replace(now, presence) != presence);
    }

    /// Reads the own node, and creates or replaces it if necessary.
    async fn reconcile(&self) -> Result<OwnNode, Error> {
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
                    let ours = node.owner == Some(session);
                    if !ours {
                        warn!(
                            path = self.path,
                            "another process has a node with our name; waiting until it is gone"
                        );
                    }
                    // An ephemeral node has no children, so this watch fires only when the node is gone. A watch on the
                    // directory would wake every member whenever any member joins or leaves.
                    match self.tree.watch(&self.path).await {
                        Ok((_, changed)) => return Ok(OwnNode { ours, changed }),
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

/// The node with this process's name.
struct OwnNode {
    /// Whether the node belongs to the current session.
    ours: bool,
    changed: Changed,
}

fn pause(error: &Error) -> Duration {
    if matches!(error, Error::Refused { .. }) { REFUSED_PAUSE } else { RETRY_PAUSE }
}

/// Waits until the session's state differs.
async fn until_changed(status_changes: &mut watch::Receiver<Status>, seen: Status) {
    let _ = status_changes.wait_for(|status| *status != seen).await;
}

/// Follows a directory until the coordinator is closed.
async fn follow(shared: Arc<Shared>, tree: Tree, dir: String, snapshot: watch::Sender<Snapshot>) {
    let mut status_changes = shared.subscribe();
    loop {
        let status = *status_changes.borrow_and_update();
        if !status.is_up() {
            snapshot.send_if_modified(|snapshot| std::mem::replace(&mut snapshot.current, false));
            if shared.up().await.is_err() {
                return;
            }
            continue;
        }
        match read(&tree, &dir).await {
            Ok((members, changed)) => {
                snapshot.send_if_modified(|before| {
                    let now =
                        Snapshot { current: true, attachment: status.attachment, members: Arc::new(members) };
                    let changed = *before != now;
                    *before = now;
                    changed
                });
                tokio::select! {
                    () = changed => {}
                    () = until_changed(&mut status_changes, status) => {}
                }
            }
            Err(error) => {
                // Members may have changed since they were last read.
                snapshot.send_if_modified(|snapshot| std::mem::replace(&mut snapshot.current, false));
                if !error.is_transient() {
                    warn!(dir, %error, "members cannot be read; retrying");
                }
                sleep(pause(&error)).await;
            }
        }
    }
}

/// All members. Each is read again each time: a member that left and another that joined in its place have the same
/// name. A member whose node may not be read must not hide the others.
async fn read(tree: &Tree, dir: &str) -> Result<(BTreeMap<String, Member>, Changed), Error> {
    let (names, changed) = match tree.watch(dir).await {
        Err(Error::NoNode(_)) => {
            tree.ensure(dir).await?;
            tree.watch(dir).await?
        }
        answer => answer?,
    };
    let mut members = BTreeMap::new();
    let mut reads = tree.reads(dir, names);
    while let Some((name, node)) = reads.next().await {
        let member = match node {
            Ok(Some(node)) => Member { data: node.data, owner: node.owner, created: node.created },
            Ok(None) => continue,
            Err(error @ Error::Refused { .. }) => {
                warn!(dir, name, %error, "no permission to read a member; only its name is known");
                Member::default()
            }
            Err(error) => return Err(error),
        };
        members.insert(name, member);
    }
    Ok((members, changed))
}
