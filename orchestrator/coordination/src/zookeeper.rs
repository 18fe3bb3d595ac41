//! The tree in ZooKeeper.
//!
//! The client library has faults, which are corrected here or limit what is used of it:
//!
//! - A persistent watch silently misses events after a reconnect, so all watches here are one-shot.
//! - The client cannot reconnect with more than 128 KiB of watched paths, so only directories and a process's own nodes are
//!   watched.
//! - It spins without end if connecting to an address fails at once ([`ConnectString`]).
//! - It says "timeout" for nearly every reason that a session cannot be opened (`diagnosis`).

mod connect_string;
mod diagnosis;

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

pub use self::connect_string::ConnectString;
use self::diagnosis::diagnose;
use super::error::Error;
use super::node::{Kind, Node, Op, Version};
use super::session::{Answer, Changed, Children, Connector, Link, LinkState, Session};

/// Time limit for closing a session; after that, the service lets the session expire.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A ZooKeeper ensemble.
#[derive(Clone)]
pub struct ZooKeeper {
    servers: ConnectString,
    session_timeout: Duration,
    user: Option<User>,
    tls: Option<zk::TlsOptions>,
    creates_directory: bool,
}

/// A user of ZooKeeper.
#[derive(Clone)]
struct User {
    name: String,
    password: String,
    /// Whether the server checks the password (SASL, DIGEST-MD5), or it only distinguishes users (the scheme `digest`).
    sasl: bool,
}

impl ZooKeeper {
    /// The ensemble with these servers, and the session timeout to request.
    pub fn new(servers: ConnectString, session_timeout: Duration) -> Self {
        Self { servers, session_timeout, user: None, tls: None, creates_directory: false }
    }

    /// Authenticates as this user, by SASL (DIGEST-MD5) or else by the scheme `digest`. Only this user has access to
    /// the nodes that are created.
    #[must_use]
    pub fn with_user(self, name: &str, password: &str, sasl: bool) -> Self {
        let user = User { name: name.to_owned(), password: password.to_owned(), sasl };
        Self { user: Some(user), ..self }
    }

    /// Connects by TLS if `ca` is given. `ca` are the certificates (PEM) that must have signed the server's certificate; `cert` and `key` are
    /// the client's own certificate and its key (PEM).
    ///
    /// # Errors
    /// One of `cert` and `key` is missing, or both are given without `ca`; a text holds no valid certificate or key, or a server is named by its address.
    pub fn with_tls(self, ca: Option<&str>, cert: Option<&str>, key: Option<&str>) -> Result<Self, String> {
        let identity = match (cert, key) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => return Err("cert-file and key-file belong together; one of them is missing".to_owned()),
        };
        let Some(ca) = ca else {
            let why = "cert-file is given without ca-file, which switches TLS on";
            return if identity.is_none() { Ok(self) } else { Err(why.to_owned()) };
        };
        if let Some(address) = self.servers.address() {
            // The form of the address that keeps the library from spinning is not the one in a certificate.
            return Err(format!(
                "with TLS, write the name of the server {address}, which its certificate must have"
            ));
        }
        let wrong = |error: zk::Error| error.to_string();
        let mut tls = zk::TlsOptions::new().with_pem_ca(ca).map_err(wrong)?;
        if let Some((certificate, key)) = identity {
            tls = tls.with_pem_identity(certificate, key).map_err(wrong)?;
        }
        Ok(Self { tls: Some(tls), ..self })
    }

    /// Creates the directory after the servers' addresses if it does not exist.
    #[must_use]
    pub fn creating_directory(self, creates_directory: bool) -> Self {
        Self { creates_directory, ..self }
    }

    fn access(&self) -> zk::Acls<'static> {
        if self.user.is_some() { zk::Acls::creator_all() } else { zk::Acls::anyone_all() }
    }

    async fn open(&self) -> Result<zk::Client, zk::Error> {
        // Tries each server once. The pauses between attempts are those of the supervisor.
        let mut connector =
            zk::Client::connector().with_session_timeout(self.session_timeout).with_fail_eagerly();
        match &self.user {
            Some(User { name, password, sasl: true }) => {
                connector = connector.with_sasl(zk::SaslOptions::digest_md5(name.clone(), password.clone()));
            }
            Some(User { name, password, sasl: false }) => {
                connector = connector.with_auth("digest", format!("{name}:{password}").as_bytes());
            }
            None => {}
        }
        let servers = self.servers.for_library();
        match &self.tls {
            Some(tls) => {
                // The library takes the process's provider, and two are linked. A provider that is installed already is
                // as good.
                let _ = rustls::crypto::ring::default_provider().install_default();
                connector.with_tls(tls.clone()).secure_connect(&servers).await
            }
            None => connector.connect(&servers).await,
        }
    }

    /// Goes into the directory after the servers' addresses.
    async fn enter(&self, client: zk::Client) -> Result<zk::Client, Error> {
        let Some(directory) = &self.servers.directory else { return Ok(client) };
        let what = || format!("the directory {directory} after the addresses of the servers");
        let refused = |why: String| Error::Refused { what: what(), why };
        let exists =
            client.check_stat(directory).await.map_err(|error| translate(&what(), &error))?.is_some();
        if !exists && !self.creates_directory {
            return Err(refused("it does not exist".to_owned()));
        }
        let ends = directory.match_indices('/').map(|(at, _)| at).skip(1).chain([directory.len()]);
        for part in ends.filter(|_| !exists).filter_map(|end| directory.get(..end)) {
            match client.create(part, b"", &mode(Kind::Persistent, false).with_acls(self.access())).await {
                Ok(_) | Err(zk::Error::NodeExists) => {}
                Err(zk::Error::NoAuth) => {
                    let why = "it does not exist, and this user may not create it: create it, with rights for this user";
                    return Err(refused(why.to_owned()));
                }
                Err(error) => return Err(translate(part, &error)),
            }
        }
        client
            .chroot(directory.clone())
            .map_err(|_| refused("the client library does not accept it".to_owned()))
    }

    /// Tells apart why there is no session.
    async fn explain(&self, error: &zk::Error) -> Error {
        if *error == zk::Error::AuthFailed {
            let why = match &self.user {
                None => {
                    "authentication failed: the servers require it; set zookeeper.user, and zookeeper.sasl for SASL"
                }
                Some(User { sasl: true, .. }) => {
                    "authentication failed: check zookeeper.user and its password"
                }
                Some(_) => "authentication failed: if the servers require SASL, set zookeeper.sasl",
            };
            return Error::Refused { what: "a session".to_owned(), why: why.to_owned() };
        }
        let (tls, text) = (self.tls.is_some(), error.to_string());
        Error::NoSession(diagnose(&self.servers.servers, tls, self.session_timeout, &text).await)
    }
}

impl Connector for ZooKeeper {
    fn connect(&self) -> Answer<Arc<dyn Session>> {
        let this = self.clone();
        async move {
            // The library's own deadlines do not hold in every state of the network.
            let limit = this.session_timeout * 2;
            let client = match timeout(limit, this.open()).await {
                Ok(Ok(client)) => client,
                Ok(Err(error)) => return Err(this.explain(&error).await),
                Err(_) => return Err(this.explain(&zk::Error::Timeout).await),
            };
            let unanswered = |_| Err(Error::Unanswered("a session".to_owned()));
            let client = timeout(limit, this.enter(client)).await.unwrap_or_else(unanswered)?;
            Ok(Arc::new(ZooKeeperSession::new(client, this.access())) as Arc<dyn Session>)
        }
        .boxed()
    }

    fn describe(&self) -> String {
        self.servers.to_string()
    }

    fn session_timeout(&self) -> Duration {
        self.session_timeout
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

    fn create_sequential(&self, path: &str, data: &[u8], kind: Kind) -> Answer<String> {
        let (path, data, access) = (path.to_owned(), data.to_vec(), self.access);
        self.ask(|client| async move {
            let (_, number) = client
                .create(&path, &data, &mode(kind, true).with_acls(access))
                .await
                .map_err(|error| translate(&path, &error))?;
            Ok(format!("{path}{number}"))
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
