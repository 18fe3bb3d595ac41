//! The tree within this process, for a single machine and for development: the same versions, epochs, sequences and
//! ephemeral nodes as in ZooKeeper, but nothing survives the process. Tests can freeze the tree and end sessions.

mod server;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::{oneshot, watch};

use self::server::{Of, Server};
use super::error::Error;
use super::node::{Kind, Node, Op};
use super::session::{Answer, Changed, Children, Connector, Link, LinkState, Session};

/// A tree within this process, shared by all clones and by all coordinators that use it.
#[derive(Clone)]
pub struct InProcess {
    server: Arc<Mutex<Server>>,
    /// Whether the tree answers; `false` while it is frozen.
    open: Arc<watch::Sender<bool>>,
    session_timeout: Duration,
}

impl InProcess {
    /// An empty tree. A freeze that outlasts the session timeout ends sessions.
    pub fn new(session_timeout: Duration) -> Self {
        let server = Arc::new(Mutex::new(Server::default()));
        Self { server, open: Arc::new(watch::Sender::new(true)), session_timeout }
    }

    /// Stops answering, like an ensemble that hangs. Sessions lose their connection after 0.4 session timeouts and end
    /// after 1.4, as with ZooKeeper. Requests wait meanwhile.
    pub fn freeze(&self) {
        self.with(Server::freeze);
        if !self.open.send_replace(false) {
            return;
        }
        let (mut open, frozen) = (self.open.subscribe(), self.clone());
        tokio::spawn(async move {
            let short = frozen.session_timeout * 2 / 5;
            if tokio::time::timeout(short, open.wait_for(|open| *open)).await.is_ok() {
                return;
            }
            frozen.with(|server| server.link_all(Link::Down));
            if tokio::time::timeout(frozen.session_timeout, open.wait_for(|open| *open)).await.is_err() {
                frozen.with(Server::end_all);
            }
        });
    }

    /// Answers again, waiting requests first.
    pub fn thaw(&self) {
        self.with(|server| {
            server.thaw();
            server.link_all(Link::Up);
        });
        self.open.send_replace(true);
    }

    /// Ends a session, like a service at which the session has expired.
    pub fn expire(&self, session: i64) {
        self.with(|server| server.end(session));
    }

    /// All nodes whose paths begin with `prefix`, and their data.
    #[cfg(feature = "simulation")]
    pub fn nodes(&self, prefix: &str) -> Vec<(String, Vec<u8>)> {
        self.with(|server| server.nodes(prefix))
    }

    fn with<T>(&self, act: impl FnOnce(&mut Server) -> T) -> T {
        act(&mut self.server.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Connector for InProcess {
    fn connect(&self) -> Answer<Arc<dyn Session>> {
        let this = self.clone();
        let mut open = self.open.subscribe();
        async move {
            open.wait_for(|open| *open).await.map_err(|_| Error::Closed)?;
            let (id, link) = this.with(Server::begin);
            Ok(Arc::new(InProcessSession { id, link, tree: this }) as Arc<dyn Session>)
        }
        .boxed()
    }

    fn describe(&self) -> String {
        "this process".to_owned()
    }

    fn session_timeout(&self) -> Duration {
        self.session_timeout
    }
}

struct InProcessSession {
    id: i64,
    link: watch::Receiver<LinkState>,
    tree: InProcess,
}

impl InProcessSession {
    /// Has the server carry out a request: now or, while frozen, in order after the freeze. The request is carried out
    /// even if nobody waits for the answer; an answer after the connection was lost is lost as well.
    fn ask<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Server, i64) -> Result<T, Error> + Send + 'static,
    ) -> Answer<T> {
        let id = self.id;
        let asked = self.tree.with(|server| {
            if !server.is_frozen() {
                return Asked::Answered(server.ask(id, act));
            }
            let (sender, answer) = oneshot::channel();
            let link = self.link.clone();
            server.later(Box::new(move |server| {
                let answer = server.ask(id, act);
                let is_up = link.borrow().link == Link::Up;
                let lost = || Err(Error::Unanswered("cut off meanwhile".to_owned()));
                // The caller may have been cancelled.
                let _ = sender.send(if is_up { answer } else { lost() });
            }));
            Asked::Waiting(answer)
        });
        match asked {
            Asked::Answered(answer) => std::future::ready(answer).boxed(),
            Asked::Waiting(answer) => async move {
                answer.await.unwrap_or_else(|_| Err(Error::Unanswered("it was ended".to_owned())))
            }
            .boxed(),
        }
    }
}

enum Asked<T> {
    Answered(Result<T, Error>),
    Waiting(oneshot::Receiver<Result<T, Error>>),
}

impl Drop for InProcessSession {
    fn drop(&mut self) {
        self.tree.expire(self.id);
    }
}

impl Session for InProcessSession {
    fn id(&self) -> i64 {
        self.id
    }

    fn timeout(&self) -> Duration {
        self.tree.session_timeout
    }

    fn link(&self) -> watch::Receiver<LinkState> {
        self.link.clone()
    }

    fn create_sequential(&self, path: &str, data: &[u8], kind: Kind) -> Answer<String> {
        let (path, data) = (path.to_owned(), data.to_vec());
        self.ask(move |server, session| server.create_sequential(session, &path, data, kind))
    }

    fn get(&self, path: &str) -> Answer<Option<Node>> {
        let path = path.to_owned();
        self.ask(move |server, _| Ok(server.get(&path)))
    }

    fn children(&self, path: &str) -> Answer<Vec<String>> {
        let path = path.to_owned();
        self.ask(move |server, _| Ok(server.children(&path)?.names))
    }

    fn children_of_each(&self, paths: &[String]) -> Answer<Vec<Result<Vec<String>, Error>>> {
        let paths = paths.to_vec();
        let names = |server: &Server, path: &String| Ok(server.children(path)?.names);
        self.ask(move |server, _| Ok(paths.iter().map(|path| names(server, path)).collect()))
    }

    fn get_each(&self, paths: &[String]) -> Answer<Vec<Result<Node, Error>>> {
        let paths = paths.to_vec();
        self.ask(move |server, _| {
            let read = |path: &String| server.get(path).ok_or_else(|| Error::NoNode(path.clone()));
            Ok(paths.iter().map(read).collect())
        })
    }

    fn watch_children(&self, path: &str) -> Answer<(Children, Changed)> {
        let path = path.to_owned();
        self.ask(move |server, session| {
            let children = server.children(&path)?;
            let fired = server.watch(session, &path, Of::Children);
            Ok((children, fired.map(drop).boxed()))
        })
    }

    fn watch_node(&self, path: &str) -> Answer<(Node, Changed)> {
        let path = path.to_owned();
        self.ask(move |server, session| {
            let node = server.get(&path).ok_or_else(|| Error::NoNode(path.clone()))?;
            let fired = server.watch(session, &path, Of::Data);
            Ok((node, fired.map(drop).boxed()))
        })
    }

    fn multi(&self, ops: &[Op]) -> Answer<()> {
        let ops = ops.to_vec();
        self.ask(move |server, session| server.multi(session, ops))
    }

    fn sync(&self) -> Answer<()> {
        self.ask(|_, _| Ok(()))
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        self.tree.expire(self.id);
        std::future::ready(()).boxed()
    }
}
