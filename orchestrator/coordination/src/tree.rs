//! The tree as roles use it. Every call has limits of size, time and concurrency. Writes name the expected version. A write
//! whose answer was lost is read back. A fenced tree refuses the writes of a deposed leader.

use std::sync::Arc;
use std::task::Poll;
use tokio::time::Instant;

use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};
use tokio::time::timeout;

use super::error::Error;
use super::leadership::Leadership;
use super::node::{Kind, Node, Op, Version, admit_multi, admit_node};
use super::session::{Answer, Changed, Children, Session};
use super::settle;
use super::shared::Shared;

/// The most reads of [`Tree::get_many`] in flight at once.
const PARALLEL_READS: usize = 64;

/// A child, and the result of reading it.
type Read = (String, Result<Option<Node>, Error>);

/// A handle of the tree.
#[derive(Clone)]
pub struct Tree {
    pub(super) shared: Arc<Shared>,
    fence: Option<Leadership>,
}

impl settle::ReadBack for Tree {
    async fn node(&self, path: &str) -> Result<Option<Node>, Error> {
        self.shared.up().await?;
        self.sync().await?;
        self.get(path).await
    }

    async fn names(&self, dir: &str) -> Result<Vec<String>, Error> {
        self.shared.up().await?;
        self.sync().await?;
        self.children(dir).await
    }
}

impl Leadership {
    /// The tree behind the fence: the service refuses its writes as soon as the lock is lost or another candidate has
    /// led, even if this process still believes that it leads.
    pub fn tree(&self) -> Result<Tree, Error> {
        let shared = self.0.shared.upgrade().ok_or(Error::NotLeading)?;
        Ok(Tree { shared, fence: Some(self.clone()) })
    }
}

impl Tree {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, fence: None }
    }

    /// Creates a node. After a lost answer, an existing node with the same data counts as created; so if two processes may
    /// create the same node, their data must differ. An ephemeral node is recognised by its session instead.
    pub async fn create(&self, path: &str, data: &[u8], kind: Kind) -> Result<(), Error> {
        self.multi(vec![Op::Create { path: path.to_owned(), data: data.to_vec(), kind }]).await
    }

    /// Creates a node in `dir` whose name ends in an increasing number, and returns the name. `prefix` must be unique to
    /// the caller: the node is found by it if the answer is lost.
    pub async fn create_sequential(
        &self,
        dir: &str,
        prefix: &str,
        data: &[u8],
        kind: Kind,
    ) -> Result<String, Error> {
        let path = format!("{dir}/{prefix}");
        admit_node(&path, data)?;
        self.check_fence()?;
        let send = |session: &dyn Session| session.create_sequential(&path, data, kind);
        match self.call(&format!("create {path}"), send).await {
            (Err(Error::Unanswered(_)), _) => {
                settle::settle_sequential(self, self.shared.limits.settle, dir, prefix).await
            }
            (answer, _) => {
                let path = answer?;
                Ok(path.rsplit('/').next().unwrap_or_default().to_owned())
            }
        }
    }

    /// Creates this node and all its parents that do not exist.
    pub async fn ensure(&self, path: &str) -> Result<(), Error> {
        if self.get(path).await?.is_some() {
            return Ok(());
        }
        let ends = path.match_indices('/').map(|(at, _)| at).skip(1).chain([path.len()]);
        for end in ends {
            let part = path.get(..end).unwrap_or(path);
            match self.create(part, b"", Kind::Persistent).await {
                Ok(()) | Err(Error::Exists(_)) => {}
                Err(Error::NoNode(_)) if part.rfind('/') == Some(0) => {
                    let why =
                        "the directory after the servers' addresses does not exist: create it".to_owned();
                    return Err(Error::Refused { what: format!("create {part}"), why });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads a node, if it exists.
    pub async fn get(&self, path: &str) -> Result<Option<Node>, Error> {
        self.call(&format!("get {path}"), |session| session.get(path)).await.0
    }

    /// Reads these nodes in one request: each node in this order, or why it cannot be read. The answer has all of their data,
    /// so the caller limits their number.
    pub async fn get_each(&self, paths: &[String]) -> Result<Vec<Result<Node, Error>>, Error> {
        self.call("get many nodes", |session| session.get_each(paths)).await.0
    }

    /// The names of the children of these nodes in one request: those of each node in this order, or why they cannot be
    /// read.
    pub async fn children_of_each(&self, paths: &[String]) -> Result<Vec<Result<Vec<String>, Error>>, Error> {
        self.call("list many nodes", |session| session.children_of_each(paths)).await.0
    }

    /// Reads these children of a node in parallel. Children that were deleted meanwhile are left out.
    pub async fn get_many(&self, dir: &str, names: Vec<String>) -> Result<Vec<(String, Node)>, Error> {
        let found = self.get_many_readable(dir, names).await?.into_iter();
        found.map(|(name, node)| node.map(|node| (name, node))).collect()
    }

    /// Like [`get_many`](Self::get_many), but returns the refusal of each child that this process may not read.
    pub async fn get_many_readable(
        &self,
        dir: &str,
        names: Vec<String>,
    ) -> Result<Vec<(String, Result<Node, Error>)>, Error> {
        let mut found = Vec::with_capacity(names.len());
        let mut reads = self.reads(dir, names);
        while let Some((name, node)) = reads.next().await {
            match node {
                Ok(Some(node)) => found.push((name, Ok(node))),
                Ok(None) => {}
                Err(refusal @ Error::Refused { .. }) => found.push((name, Err(refusal))),
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Reads these children in parallel, each with its result.
    pub(super) fn reads(&self, dir: &str, names: Vec<String>) -> BoxStream<'static, Read> {
        let (tree, dir) = (self.clone(), dir.to_owned());
        let reads = names.into_iter().map(move |name| {
            let (tree, path) = (tree.clone(), format!("{dir}/{name}"));
            async move { (name, tree.get(&path).await) }.boxed()
        });
        futures_util::stream::iter(reads).buffer_unordered(PARALLEL_READS).boxed()
    }

    /// Writes a node that has this version, and returns the new version.
    pub async fn set(&self, path: &str, data: &[u8], version: Version) -> Result<Version, Error> {
        self.multi(vec![Op::Set { path: path.to_owned(), data: data.to_vec(), version }]).await?;
        Ok(version.next())
    }

    /// Deletes a node that has this version.
    pub async fn delete(&self, path: &str, version: Version) -> Result<(), Error> {
        self.multi(vec![Op::Delete { path: path.to_owned(), version: Some(version) }]).await
    }

    /// The names of a node's children, in no order.
    pub async fn children(&self, path: &str) -> Result<Vec<String>, Error> {
        self.call(&format!("list {path}"), |session| session.children(path)).await.0
    }

    /// The names of a node's children, and a watch that fires when they may have changed, the node may be gone, or the
    /// session has ended. Read again when the watch fires *and* at each new [`Status::attachment`](super::Status).
    pub async fn watch(&self, path: &str) -> Result<(Vec<String>, Changed), Error> {
        let (children, changed) = self.watch_children(path).await?;
        Ok((children.names, changed))
    }

    /// Like [`watch`](Self::watch), with the number of changes of the children.
    pub(super) async fn watch_children(&self, path: &str) -> Result<(Children, Changed), Error> {
        self.call(&format!("watch {path}"), |session| session.watch_children(path)).await.0
    }

    /// A node, and a watch that fires when its data may have changed, the node may be gone, or the session has ended. As
    /// with [`watch`](Self::watch), read again when the watch fires *and* at each new attachment.
    pub async fn watch_node(&self, path: &str) -> Result<(Node, Changed), Error> {
        self.call(&format!("watch {path}"), |session| session.watch_node(path)).await.0
    }

    /// Carries out all operations or none. After a lost answer, the nodes of its `Set`s are read back first, then those of
    /// the other operations. If the outcome remains unknown, the error is [`Error::Unanswered`].
    pub async fn multi(&self, ops: Vec<Op>) -> Result<(), Error> {
        self.send_multi(ops, None).await
    }

    /// Like [`multi`](Self::multi), but only on this session: for nodes that disappear with the session, and may belong to
    /// another process when there is a new session. [`Error::Offline`] if the session has ended.
    pub async fn multi_on(&self, session: i64, ops: Vec<Op>) -> Result<(), Error> {
        self.send_multi(ops, Some(session)).await
    }

    async fn send_multi(&self, mut ops: Vec<Op>, only: Option<i64>) -> Result<(), Error> {
        for op in &ops {
            if let Op::Create { path, data, .. } | Op::Set { path, data, .. } = op {
                admit_node(path, data)?;
            }
        }
        self.check_fence()?;
        if let Some(leadership) = &self.fence {
            ops.splice(0..0, leadership.checks());
        }
        admit_multi(&ops)?;
        let send = |session: &dyn Session| {
            if only.is_some_and(|only| only != session.id()) {
                return std::future::ready(Err(Error::Offline)).boxed();
            }
            session.multi(&ops)
        };
        let answer = match self.call(&settle::describe(&ops), send).await {
            (Err(Error::Unanswered(_)), session) => {
                settle::settle(self, self.shared.limits.settle, &ops, session).await
            }
            (answer, _) => answer,
        };
        match (answer, &self.fence) {
            (Err(Error::NoNode(path) | Error::BadVersion(path)), Some(leadership))
                if leadership.is_fence(&path) =>
            {
                // The service has refused the fence's checks: leadership is lost, even if this process did not know.
                leadership.end();
                Err(Error::NotLeading)
            }
            (answer, _) => answer,
        }
    }

    /// Completes when all earlier requests of this session have been carried out.
    pub async fn sync(&self) -> Result<(), Error> {
        self.call("sync", |session| session.sync()).await.0
    }

    /// A [`sync`](Self::sync) whose answer extends the time for which the session is trusted.
    pub(super) async fn sync_extending_trust(&self) -> Result<(), Error> {
        let sent = Instant::now();
        let (answer, id) = self.call("sync", |session| session.sync()).await;
        answer?;
        let session = self.shared.connected()?;
        if id == Some(session.id()) {
            self.shared.note_answer(session.as_ref(), sent);
        }
        Ok(())
    }

    fn check_fence(&self) -> Result<(), Error> {
        self.fence.as_ref().map_or(Ok(()), |leadership| leadership.check().map(drop))
    }

    /// Sends one request, and returns on which session. The request continues if the caller is cancelled, and counts as
    /// in flight until it is answered.
    async fn call<T: Send + 'static>(
        &self,
        what: &str,
        send: impl FnOnce(&dyn Session) -> Answer<T>,
    ) -> (Result<T, Error>, Option<i64>) {
        let permit = match timeout(self.shared.limits.call, self.shared.permits.clone().acquire_owned()).await
        {
            Ok(Ok(permit)) => permit,
            Ok(Err(_)) => return (Err(Error::Closed), None),
            Err(_) => return (Err(Error::Busy), None),
        };
        let session = match self.shared.connected() {
            Ok(session) => session,
            Err(error) => return (Err(error), None),
        };
        let id = Some(session.id());
        let mut answer = send(session.as_ref());
        drop(session);
        // The first poll sends the request now, so that later requests come later.
        let task = match futures_util::poll!(&mut answer) {
            Poll::Ready(answer) => return (answer, id),
            Poll::Pending => tokio::spawn(async move {
                let answer = answer.await;
                drop(permit);
                answer
            }),
        };
        match timeout(self.shared.limits.call, task).await {
            Ok(Ok(Err(Error::Unanswered(why)))) => (Err(Error::Unanswered(format!("{what}: {why}"))), id),
            Ok(Ok(answer)) => (answer, id),
            Ok(Err(_)) | Err(_) => (Err(Error::Unanswered(what.to_owned())), id),
        }
    }
}
