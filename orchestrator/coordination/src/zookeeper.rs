//! The tree in ZooKeeper.
//!
//! Two faults of the client library limit what is used of it. A persistent watch silently misses events after a
//! reconnect, so all watches here are one-shot. The client cannot reconnect with more than 128 KiB of watched paths, so
//! only directories and a process's own nodes are watched.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use zookeeper_client as zk;

use super::error::Error;
use super::node::{Kind, Node, Op, Version};
use super::session::{Answer, Changed, Children, Connector, Link, LinkState, Session};

/// Time limit for closing a session; after that, the service lets the session expire.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A ZooKeeper ensemble.
#[derive(Clone)]
pub struct ZooKeeper {
    servers: String,
    session_timeout: Duration,
    /// `user:password` of digest authentication.
    digest: Option<String>,
}

impl ZooKeeper {
    /// The ensemble at these addresses, `host:port` separated by commas, and the session timeout to request.
    pub fn new(servers: &str, session_timeout: Duration) -> Self {
        Self { servers: servers.to_owned(), session_timeout, digest: None }
    }

    /// Authenticates as this user by digest; only this user has access to the nodes that are created.
    #[must_use]
    pub fn with_digest(mut self, user: &str, password: &str) -> Self {
        self.digest = Some(format!("{user}:{password}"));
        self
    }
}

impl Connector for ZooKeeper {
    fn connect(&self) -> Answer<Arc<dyn Session>> {
        let mut connector = zk::Client::connector().with_session_timeout(self.session_timeout);
        if let Some(digest) = &self.digest {
            connector = connector.with_auth("digest", digest.as_bytes());
        }
        let access = if self.digest.is_some() { zk::Acls::creator_all() } else { zk::Acls::anyone_all() };
        let connecting = connector.connect_owned(self.servers.clone());
        async move {
            let client = connecting.await.map_err(|error| match error {
                zk::Error::AuthFailed => {
                    Error::Refused { what: "a session".to_owned(), why: error.to_string() }
                }
                error => translate("a session", &error),
            })?;
            Ok(Arc::new(ZooKeeperSession::new(client, access)) as Arc<dyn Session>)
        }
        .boxed()
    }

    fn describe(&self) -> String {
        self.servers.clone()
    }

    fn session_timeout(&self) -> Duration {
        self.session_timeout
    }
}

/// Opens a connection; owns everything that the future borrows.
trait ConnectOwned {
    fn connect_owned(self, servers: String) -> BoxFuture<'static, Result<zk::Client, zk::Error>>;
}

impl ConnectOwned for zk::Connector {
    fn connect_owned(self, servers: String) -> BoxFuture<'static, Result<zk::Client, zk::Error>> {
        async move { self.connect(&servers).await }.boxed()
    }
}

struct ZooKeeperSession {
    id: i64,
    timeout: Duration,
    /// The session ends when the last clone of its client is dropped.
    client: Mutex<Option<zk::Client>>,
    link: watch::Receiver<LinkState>,
    translator: AbortHandle,
    /// The access control list of the nodes that this process creates.
    access: zk::Acls<'static>,
}

impl ZooKeeperSession {
    fn new(client: zk::Client, access: zk::Acls<'static>) -> Self {
        let mut states = client.state_watcher();
        let (sender, link) = watch::channel(LinkState { link: Link::Up, attached: 1 });
        let translator = tokio::spawn(async move {
            let mut state = states.state();
            loop {
                sender.send_modify(|link| {
                    link.link = match state {
                        zk::SessionState::SyncConnected => Link::Up,
                        // A read-only server is cut off from the ensemble.
                        zk::SessionState::Disconnected | zk::SessionState::ConnectedReadOnly => Link::Down,
                        _ => Link::Ended,
                    };
                });
                if state.is_terminated() {
                    return;
                }
                state = states.changed().await;
                if state == zk::SessionState::SyncConnected {
                    // Also if the interruption itself was too short to be observed.
                    sender.send_modify(|link| link.attached += 1);
                }
            }
        })
        .abort_handle();
        let (id, timeout) = (client.session_id().0, client.session_timeout());
        Self { id, timeout, client: Mutex::new(Some(client)), link, translator, access }
    }

    /// A request of the client, sent at the first poll.
    fn ask<T, F>(&self, ask: impl FnOnce(zk::Client) -> F) -> Answer<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let client = self.client.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match client {
            Some(client) => ask(client).boxed(),
            None => std::future::ready(Err(Error::Closed)).boxed(),
        }
    }

    /// Reads from each of these nodes in one request. `read` takes the answer for one node.
    fn read_each<T: Send + 'static>(
        &self,
        paths: &[String],
        add: impl Fn(&mut zk::MultiReader<'_>, &str) -> Result<(), zk::Error> + Send + 'static,
        read: impl Fn(zk::MultiReadResult) -> Option<T> + Send + 'static,
    ) -> Answer<Vec<Result<T, Error>>> {
        let paths = paths.to_vec();
        self.ask(|client| async move {
            let mut reader = client.new_multi_reader();
            for path in &paths {
                add(&mut reader, path).map_err(|error| translate(path, &error))?;
            }
            let results = reader.commit().await.map_err(|error| translate("a read of many nodes", &error))?;
            if results.len() != paths.len() {
                return Err(Error::Unanswered("an answer has another number of nodes".to_owned()));
            }
            let answers = paths.iter().zip(results).map(|(path, result)| match result {
                zk::MultiReadResult::Error { err } => Ok(Err(translate(path, &err))),
                result => read(result).map(Ok).ok_or_else(|| Error::Unanswered(path.clone())),
            });
            answers.collect()
        })
    }
}

impl Drop for ZooKeeperSession {
    fn drop(&mut self) {
        self.translator.abort();
    }
}

impl Session for ZooKeeperSession {
    fn id(&self) -> i64 {
        self.id
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn link(&self) -> watch::Receiver<LinkState> {
        self.link.clone()
    }

    fn create(&self, path: &str, data: &[u8], kind: Kind, sequential: bool) -> Answer<String> {
        let (path, data, access) = (path.to_owned(), data.to_vec(), self.access);
        self.ask(|client| async move {
            let (_, number) = client
                .create(&path, &data, &mode(kind, sequential).with_acls(access))
                .await
                .map_err(|error| translate(&path, &error))?;
            Ok(if sequential { format!("{path}{number}") } else { path })
        })
    }

    fn get(&self, path: &str) -> Answer<Option<Node>> {
        let path = path.to_owned();
        self.ask(|client| async move {
            match client.get_data(&path).await {
                Ok((data, stat)) => Ok(Some(node(data, &stat))),
                Err(zk::Error::NoNode) => Ok(None),
                Err(error) => Err(translate(&path, &error)),
            }
        })
    }

    fn set(&self, path: &str, data: &[u8], version: Version) -> Answer<Version> {
        let (path, data) = (path.to_owned(), data.to_vec());
        self.ask(|client| async move {
            let stat = client
                .set_data(&path, &data, Some(version.0))
                .await
                .map_err(|error| translate(&path, &error))?;
            Ok(Version(stat.version))
        })
    }

    fn delete(&self, path: &str, version: Version) -> Answer<()> {
        let path = path.to_owned();
        self.ask(|client| async move {
            client.delete(&path, Some(version.0)).await.map_err(|error| translate(&path, &error))
        })
    }

    fn children(&self, path: &str) -> Answer<Vec<String>> {
        let path = path.to_owned();
        self.ask(|client| async move {
            client.list_children(&path).await.map_err(|error| translate(&path, &error))
        })
    }

    fn children_of_each(&self, paths: &[String]) -> Answer<Vec<Result<Vec<String>, Error>>> {
        self.read_each(paths, add_children, |result| match result {
            zk::MultiReadResult::Children { children } => Some(children),
            _ => None,
        })
    }

    fn get_each(&self, paths: &[String]) -> Answer<Vec<Result<Node, Error>>> {
        self.read_each(paths, add_data, |result| match result {
            zk::MultiReadResult::Data { data, stat } => Some(node(data, &stat)),
            _ => None,
        })
    }

    fn watch_children(&self, path: &str) -> Answer<(Children, Changed)> {
        let path = path.to_owned();
        self.ask(|client| async move {
            let (names, stat, watcher) =
                client.get_and_watch_children(&path).await.map_err(|error| translate(&path, &error))?;
            Ok((Children { names, changes: stat.cversion }, changed(watcher)))
        })
    }

    fn watch_node(&self, path: &str) -> Answer<(Node, Changed)> {
        let path = path.to_owned();
        self.ask(|client| async move {
            let (data, stat, watcher) =
                client.get_and_watch_data(&path).await.map_err(|error| translate(&path, &error))?;
            Ok((node(data, &stat), changed(watcher)))
        })
    }

    fn multi(&self, ops: &[Op]) -> Answer<()> {
        let (ops, access) = (ops.to_vec(), self.access);
        self.ask(|client| async move {
            let mut writer = client.new_multi_writer();
            for op in &ops {
                add(&mut writer, op, access).map_err(|error| translate(op.path(), &error))?;
            }
            match writer.commit().await {
                Ok(_) => Ok(()),
                Err(zk::MultiWriteError::OperationFailed { index, source }) => {
                    Err(translate(ops.get(index).map_or("multi", Op::path), &source))
                }
                Err(zk::MultiWriteError::RequestFailed { source }) => Err(translate("multi", &source)),
            }
        })
    }

    fn sync(&self) -> Answer<()> {
        self.ask(|client| async move { client.sync("/").await.map_err(|error| translate("/", &error)) })
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        drop(self.client.lock().unwrap_or_else(PoisonError::into_inner).take());
        let mut link = self.link.clone();
        async move {
            let _ = timeout(CLOSE_TIMEOUT, link.wait_for(|state| state.link == Link::Ended)).await;
        }
        .boxed()
    }
}

fn node(data: Vec<u8>, stat: &zk::Stat) -> Node {
    let owner = (stat.ephemeral_owner != 0).then_some(stat.ephemeral_owner);
    Node { data, version: Version(stat.version), owner, created: stat.czxid }
}

/// The client library panics here when it is dropped before it could report the end of the session. The panic counts as
/// a fired watch, after which the caller reads again; uncaught, it would end the caller's task silently.
fn changed(watcher: zk::OneshotWatcher) -> Changed {
    AssertUnwindSafe(watcher.changed()).catch_unwind().map(drop).boxed()
}

fn mode(kind: Kind, sequential: bool) -> zk::CreateMode {
    match (kind, sequential) {
        (Kind::Persistent, false) => zk::CreateMode::Persistent,
        (Kind::Persistent, true) => zk::CreateMode::PersistentSequential,
        (Kind::Ephemeral, false) => zk::CreateMode::Ephemeral,
        (Kind::Ephemeral, true) => zk::CreateMode::EphemeralSequential,
    }
}

fn add(writer: &mut zk::MultiWriter<'_>, op: &Op, access: zk::Acls<'static>) -> Result<(), zk::Error> {
    match op {
        Op::Check { path, version } => {
            writer.add_check_version(path, version.map_or(-1, |version| version.0))
        }
        Op::Create { path, data, kind } => {
            writer.add_create(path, data, &mode(*kind, false).with_acls(access))
        }
        Op::Set { path, data, version } => writer.add_set_data(path, data, Some(version.0)),
        Op::Delete { path, version } => writer.add_delete(path, version.map(|version| version.0)),
    }
}

fn add_children(reader: &mut zk::MultiReader<'_>, path: &str) -> Result<(), zk::Error> {
    reader.add_get_children(path)
}

fn add_data(reader: &mut zk::MultiReader<'_>, path: &str) -> Result<(), zk::Error> {
    reader.add_get_data(path)
}

/// Translates an error of the client library. An error that does not prove that nothing was changed counts as
/// unanswered: many I/O errors are `Custom`, and a request may have been carried out even if its session is reported as
/// ended.
fn translate(path: &str, error: &zk::Error) -> Error {
    let path = path.to_owned();
    match error {
        zk::Error::NoNode => Error::NoNode(path),
        zk::Error::NodeExists => Error::Exists(path),
        zk::Error::BadVersion => Error::BadVersion(path),
        zk::Error::NotEmpty => Error::NotEmpty(path),
        zk::Error::Throttled => Error::Busy,
        zk::Error::NoChildrenForEphemerals
        | zk::Error::NoAuth
        | zk::Error::InvalidAcl
        | zk::Error::BadArguments(_)
        | zk::Error::NotReadOnly
        | zk::Error::QuotaExceeded
        | zk::Error::Unimplemented => Error::Refused { what: path, why: error.to_string() },
        _ => Error::Unanswered(error.to_string()),
    }
}
