//! What an implementation must bring: one session with the service, and the making of the next. All else
//! (limits, time, election, membership) stands on these two traits and is the same for every implementation.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::watch;

use super::error::Error;
use super::node::{Kind, Node, Op, Version};

/// An answer to come. The request is on its way even where nobody waits for the answer.
pub type Answer<T> = BoxFuture<'static, Result<T, Error>>;

/// Ends when what was looked at may have changed, or when the session is over. It carries no truth: look again.
pub type Changed = BoxFuture<'static, ()>;

/// How a session is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// Connected to a server that follows the others.
    Up,
    /// Cut off; the session may live on.
    Down,
    /// The session is over for good, and its ephemeral nodes with it.
    Ended,
}

/// A session's link, and how often it came up: a cut that was over before anybody looked still counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkState {
    /// How it is now.
    pub link: Link,
    /// How often it has come up.
    pub attached: u64,
}

/// One session. Its answers say `Offline` where nothing was sent, and `Unanswered` where the outcome is
/// unknown; every other error means that nothing was changed.
pub trait Session: Send + Sync + 'static {
    /// Its number, the owner of its ephemeral nodes.
    fn id(&self) -> i64;
    /// How long it outlives its last sign of life, as agreed with the service.
    fn timeout(&self) -> Duration;
    /// How it is connected.
    fn link(&self) -> watch::Receiver<LinkState>;
    /// Creates a node; the answer is its path, which with `sequential` ends in a number of ten digits.
    fn create(&self, path: &str, data: &[u8], kind: Kind, sequential: bool) -> Answer<String>;
    /// Reads a node, if it exists.
    fn get(&self, path: &str) -> Answer<Option<Node>>;
    /// Writes a node that has this version.
    fn set(&self, path: &str, data: &[u8], version: Version) -> Answer<Version>;
    /// Removes a node that has this version and no children.
    fn delete(&self, path: &str, version: Version) -> Answer<()>;
    /// The names of a node's children, in no order.
    fn children(&self, path: &str) -> Answer<Vec<String>>;
    /// The names, and a word when they may have changed or the node is gone.
    fn watch_children(&self, path: &str) -> Answer<(Vec<String>, Changed)>;
    /// The node, and a word when its data may have changed or it is gone.
    fn watch_node(&self, path: &str) -> Answer<(Node, Changed)>;
    /// Carries out all of it or nothing.
    fn multi(&self, ops: &[Op]) -> Answer<()>;
    /// Ends when all that was asked before it on this session has been carried out, by word of the whole
    /// service and not only of the server we are connected to.
    fn sync(&self) -> Answer<()>;
    /// Ends the session at once, and its ephemeral nodes with it.
    fn close(&self) -> BoxFuture<'static, ()>;
}

/// Makes sessions.
pub trait Connector: Send + Sync + 'static {
    /// A new session, connected.
    fn connect(&self) -> Answer<Arc<dyn Session>>;
    /// Where it connects to, for people.
    fn describe(&self) -> String;
    /// The session timeout that it asks for.
    fn session_timeout(&self) -> Duration;
}
