//! Who is there: a directory with an ephemeral node for each member. [`Membership`] keeps one's own node there,
//! over reconnects and sessions; [`Members`] follows all of them. Both are loops that compare what should be
//! with what is, woken by events that carry no truth.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::sleep;
use tracing::{debug, warn};

use super::coordinator::{Coordinator, Shared, Status};
use super::error::Error;
use super::node::{Kind, Version};
use super::session::Changed;
use super::tree::Tree;

/// How long a loop rests after a fault before it looks again.
const PAUSE: Duration = Duration::from_millis(50);
/// The same after a refusal, which will not pass by itself.
const REFUSED: Duration = Duration::from_secs(1);

/// Whether one's own node stands in the directory, by what is known now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It does not, or we are cut off and cannot know.
    Away,
    /// Another stands there by our name.
    Taken,
    /// It does.
    Present,
}

/// One's own presence in a directory. Dropping it leaves in the background.
pub struct Membership {
    present: watch::Receiver<Presence>,
    stop: Option<watch::Sender<bool>>,
    task: Option<JoinHandle<()>>,
}

/// A member as it was read. Of one that may not be read only its name is known: it is there all the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Member {
    /// What it says of itself.
    pub data: Vec<u8>,
    /// Its session.
    pub owner: Option<i64>,
    /// Tells it from an earlier member of the same name; 0 where it may not be read.
    pub created: i64,
}

impl Member {
    /// Whether nothing but its name is known.
    pub fn is_hidden(&self) -> bool {
        self.created == 0
    }
}

/// All members at one look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Whether we were connected since, and it was read on this connection. Where it is false nobody may be
    /// taken for dead: it is we who may be cut off.
    pub current: bool,
    /// The [`Status::attachment`] at which it was read.
    pub attachment: u64,
    /// Who is there, by name.
    pub members: Arc<BTreeMap<String, Member>>,
}

/// A directory's members, followed.
pub struct Members {
    snapshot: watch::Receiver<Snapshot>,
    task: AbortHandle,
}

impl Coordinator {
    /// Joins `dir` under this name, with this word of oneself, until left. Joined under a name that another
    /// still holds, it waits until that one is gone; a node with the very same data is taken for what an
    /// earlier session of this process left, and replaced, so `data` should be unique to the process.
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
    /// Whether our node stands in the directory.
    pub fn presence(&self) -> Presence {
        *self.present.borrow()
    }

    /// Waits until our node stands there.
    pub async fn present(&mut self) -> Result<(), Error> {
        self.present.wait_for(|now| *now == Presence::Present).await.map(drop).map_err(|_| Error::Closed)
    }

    /// Leaves: our node is gone when this returns.
    pub async fn leave(mut self) {
        drop(self.stop.take());
        if let Some(task) = self.task.take() {
            let _ = task.await;
        }
    }
}

impl Members {
    /// Who is there by the last look.
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot.borrow().clone()
    }

    /// Waits for the next look that differs, and returns it.
    pub async fn changed(&mut self) -> Result<Snapshot, Error> {
        self.snapshot.changed().await.map_err(|_| Error::Closed)?;
        Ok(self.snapshot.borrow_and_update().clone())
    }

    /// Waits for a look of which this holds, and returns it.
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
            // The sender is dropped, never used.
            _ = stop.changed() => {}
            () = self.stay() => return,
        }
        self.tell(Presence::Away);
        while let Err(error) = self.remove().await {
            debug!(path = self.path, %error, "our node is still there");
            sleep(PAUSE).await;
            if self.shared.up().await.is_err() {
                break;
            }
        }
    }

    /// Keeps the node there; ends when the coordinator is closed.
    async fn stay(&self) {
        let mut news = self.shared.subscribe();
        loop {
            let Ok(status) = self.shared.up().await else {
                self.tell(Presence::Away);
                return;
            };
            news.borrow_and_update();
            let looked = self.look().await;
            self.tell(match &looked {
                Ok(Look { ours: true, .. }) => Presence::Present,
                Ok(Look { ours: false, .. }) => Presence::Taken,
                Err(_) => Presence::Away,
            });
            match looked {
                Ok(look) => {
                    tokio::select! {
                        () = look.changed => {}
                        () = until_moved(&mut news, status) => {}
                    }
                    if !news.borrow().is_up() {
                        self.tell(Presence::Away);
                    }
                }
                Err(error) => {
                    if !error.is_transient() {
                        warn!(path = self.path, %error, "joining is held up");
                    }
                    sleep(pause(&error)).await;
                }
            }
        }
    }

    fn tell(&self, presence: Presence) {
        self.present.send_if_modified(|now| std::mem::replace(now, presence) != presence);
    }

    /// One look, and what follows from it.
    async fn look(&self) -> Result<Look, Error> {
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
                    // Of an earlier session of this process. It would go with that session and leave a hole.
                    match self.tree.delete(&self.path, node.version).await {
                        Ok(()) | Err(Error::NoNode(_) | Error::BadVersion(_)) => {}
                        Err(error) => return Err(error),
                    }
                }
                Some(node) => {
                    let ours = node.owner == Some(session);
                    if !ours {
                        warn!(path = self.path, "another is there by our name; waiting until it is gone");
                    }
                    // It can have no children, so what comes is word of its end, to us alone: a watch on the
                    // directory would wake every member at each one's coming and going.
                    match self.tree.watch(&self.path).await {
                        Ok((_, changed)) => return Ok(Look { ours, changed }),
                        Err(Error::NoNode(_)) => {}
                        Err(error) => return Err(error),
                    }
                }
            }
        }
    }

    async fn remove(&self) -> Result<(), Error> {
        // Lets a create come through whose answer nobody waited for.
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

struct Look {
    ours: bool,
    changed: Changed,
}

fn pause(error: &Error) -> Duration {
    if matches!(error, Error::Refused { .. }) { REFUSED } else { PAUSE }
}

/// Ends when the link is not as it was.
async fn until_moved(news: &mut watch::Receiver<Status>, seen: Status) {
    let _ = news.wait_for(|status| *status != seen).await;
}

/// Follows a directory; ends when the coordinator is closed.
async fn follow(shared: Arc<Shared>, tree: Tree, dir: String, snapshot: watch::Sender<Snapshot>) {
    let mut news = shared.subscribe();
    loop {
        let status = *news.borrow_and_update();
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
                    let news = *before != now;
                    *before = now;
                    news
                });
                tokio::select! {
                    () = changed => {}
                    () = until_moved(&mut news, status) => {}
                }
            }
            Err(error) => {
                // What has changed since the last look nobody knows.
                snapshot.send_if_modified(|snapshot| std::mem::replace(&mut snapshot.current, false));
                if !error.is_transient() {
                    warn!(dir, %error, "the members cannot be read");
                }
                sleep(pause(&error)).await;
            }
        }
    }
}

/// All members. Each is read anew each time: one that went and came again between two looks has the same name
/// and is another. One that keeps its node from us must not keep us from seeing the others.
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
                warn!(dir, name, %error, "a member may not be read; only its name is known");
                Member::default()
            }
            Err(error) => return Err(error),
        };
        members.insert(name, member);
    }
    Ok((members, changed))
}
