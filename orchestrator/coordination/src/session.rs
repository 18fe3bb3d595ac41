//! The traits that an implementation of the service provides: a session, and a connector that opens sessions. The rest
//! (limits, time, election, membership) is built on these two traits and is the same for every implementation.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::watch;

use super::error::Error;
use super::node::{Kind, Node, Op};

/// A future answer. The request is sent even if nobody waits for the answer.
pub type Answer<T> = BoxFuture<'static, Result<T, Error>>;

/// Completes when the node that was read may have changed, or the session has ended. It carries no data: read again.
pub type Changed = BoxFuture<'static, ()>;

/// The children of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Children {
    /// Their names, in no order.
    pub names: Vec<String>,
    /// The number of children that were ever created or deleted (ZooKeeper's cversion). It shows that a child was replaced
    /// by another of the same name.
    pub changes: i32,
}

/// The connection of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// Connected to a server that is part of the ensemble.
    Up,
    /// Not connected; the session may still live.
    Down,
    /// The session has ended, and its ephemeral nodes are gone.
    Ended,
}

/// A session's connection, and the number of times that it came up, which shows an interruption that nobody observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkState {
    /// The current state.
    pub link: Link,
    /// Number of times that the connection has come up.
    pub attached: u64,
}

/// One session. The error `Offline` means that nothing was sent, and `Unanswered` that the outcome is unknown; every
/// other error means that nothing was changed.
pub trait Session: Send + Sync + 'static {
    /// The session's id, which is the owner of its ephemeral nodes.
    fn id(&self) -> i64;
    /// The session timeout as the service granted it.
    fn timeout(&self) -> Duration;
    /// The session's connection.
    fn link(&self) -> watch::Receiver<LinkState>;
    /// Creates a node whose path ends in a number of ten digits, and returns its path.
    fn create_sequential(&self, path: &str, data: &[u8], kind: Kind) -> Answer<String>;
    /// Reads a node, if it exists.
    fn get(&self, path: &str) -> Answer<Option<Node>>;
    /// The names of a node's children, in no order.
    fn children(&self, path: &str) -> Answer<Vec<String>>;
    /// The names of the children of each of these nodes, in the same order, in one request. A node that does not exist, or
    /// that this process may not read, has an error of its own.
    fn children_of_each(&self, paths: &[String]) -> Answer<Vec<Result<Vec<String>, Error>>>;
    /// Each of these nodes, in the same order, in one request, with errors as above.
    fn get_each(&self, paths: &[String]) -> Answer<Vec<Result<Node, Error>>>;
    /// The children of a node, and a watch of changes of them and of the node's deletion.
    fn watch_children(&self, path: &str) -> Answer<(Children, Changed)>;
    /// The node, and a watch of changes of its data and of its deletion.
    fn watch_node(&self, path: &str) -> Answer<(Node, Changed)>;
    /// Carries out all operations or none. A write of one node is a multi of one operation.
    fn multi(&self, ops: &[Op]) -> Answer<()>;
    /// Completes when all earlier requests of this session have been carried out by the whole service, not only by the
    /// connected server.
    fn sync(&self) -> Answer<()>;
    /// Ends the session at once, with its ephemeral nodes.
    fn close(&self) -> BoxFuture<'static, ()>;
}

/// Opens sessions.
pub trait Connector: Send + Sync + 'static {
    /// A new session, connected.
    fn connect(&self) -> Answer<Arc<dyn Session>>;
    /// The servers, for people.
    fn describe(&self) -> String;
    /// The session timeout to request.
    fn session_timeout(&self) -> Duration;
}

impl fmt::Debug for dyn Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}
