//! The line of one process to the tree, for simulations. Requests and answers take time, the process may be cut off, with
//! or without loss of its session, and it may stall: it sends and hears nothing, and goes on where it was. At any request
//! the process may die or be cut off, before or after the request is carried out.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until};

use allot_coordination::in_process::InProcess;
use allot_coordination::session::{Answer, Changed, Children, Connector, Link, LinkState, Session};
use allot_coordination::{Error, Kind, Node, Op, random};

/// What happens to a request.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// It is carried out, and answered after this time.
    Answered(Duration),
    /// The service refuses it, as it refuses a request without permission.
    Refused,
    /// The process never sees an answer.
    Hit {
        /// Whether the request is carried out.
        carried_out: bool,
        /// What happens to the process.
        accident: Accident,
    },
}

/// An accident of a process.
#[derive(Debug, Clone, Copy)]
pub enum Accident {
    /// The process dies. Its sessions live until [`Line::expire_all`].
    Death,
    /// The process is cut off for this long. If that exceeds the session timeout, the session is lost.
    Cut(Duration),
}

/// Decides what happens to the requests of a process.
pub trait Steps: Send + Sync + 'static {
    /// What happens to the next request, which does this with the node at this path.
    fn next(&self, what: &str, path: &str) -> Step;

    /// How long a session outlives its connection, in session timeouts: its last heartbeat may be some time ago, and the
    /// server checks only at intervals.
    fn lifetime(&self) -> f64 {
        random::within(0.875..1.3)
    }
}

/// The state of a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Condition {
    dead: bool,
    cut: bool,
    stalled: bool,
    /// How often the process was cut off, and how often it stalled.
    cuts: u64,
    stalls: u64,
}

impl Condition {
    fn hears(self) -> bool {
        !self.dead && !self.cut && !self.stalled
    }

    /// How often the line was restored.
    fn restored(self) -> u64 {
        self.cuts - u64::from(self.cut)
    }
}

/// The line of one process to the tree. Clones share it.
#[derive(Clone)]
pub struct Line(Arc<Shared>);

struct Shared {
    tree: InProcess,
    steps: Arc<dyn Steps>,
    condition: watch::Sender<Condition>,
    /// All sessions of the process. They outlive the process.
    sessions: Mutex<Vec<Arc<dyn Session>>>,
}

impl Line {
    /// A line without accidents so far.
    pub fn new(tree: InProcess, steps: Arc<dyn Steps>) -> Self {
        Self(Arc::new(Shared {
            tree,
            steps,
            condition: watch::Sender::default(),
            sessions: Mutex::default(),
        }))
    }

    /// Returns when the process has died.
    pub async fn died(&self) {
        let mut condition = self.0.condition.subscribe();
        let _ = condition.wait_for(|condition| condition.dead).await;
    }

    /// The process dies. Its sessions live on until they expire.
    pub fn die(&self) {
        self.kill();
        let (line, lifetime) = (self.clone(), self.lifetime());
        tokio::spawn(async move {
            sleep(lifetime).await;
            line.expire_all();
        });
    }

    /// Ends all sessions of the process at the tree.
    pub fn expire_all(&self) {
        let sessions: Vec<_> = self.sessions().drain(..).collect();
        sessions.iter().for_each(|session| self.0.tree.expire(session.id()));
    }

    fn kill(&self) {
        self.0.condition.send_modify(|condition| condition.dead = true);
    }

    /// Cuts the process off for this long. Its sessions end if that is longer than they live.
    pub fn cut(&self, span: Duration) {
        self.0.condition.send_modify(|condition| {
            condition.cut = true;
            condition.cuts += 1;
        });
        let (line, lifetime, end) = (self.clone(), self.lifetime(), Instant::now() + span);
        let cuts = self.0.condition.borrow().cuts;
        tokio::spawn(async move {
            if span >= lifetime {
                sleep(lifetime).await;
                line.expire_all();
            }
            sleep_until(end).await;
            line.0.condition.send_if_modified(|condition| {
                let last = condition.cuts == cuts;
                condition.cut &= !last;
                last
            });
        });
    }

    /// Stalls the process, or lets it go on. Its sessions end when it has stalled for longer than they live.
    pub fn stall(&self, stalled: bool) {
        self.0.condition.send_modify(|condition| {
            condition.stalled = stalled;
            condition.stalls += u64::from(stalled);
        });
        if !stalled {
            return;
        }
        let (line, lifetime, stalls) = (self.clone(), self.lifetime(), self.0.condition.borrow().stalls);
        tokio::spawn(async move {
            sleep(lifetime).await;
            let now = *line.0.condition.borrow();
            if now.stalled && now.stalls == stalls {
                line.expire_all();
            }
        });
    }

    fn sessions(&self) -> MutexGuard<'_, Vec<Arc<dyn Session>>> {
        self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lifetime(&self) -> Duration {
        self.0.tree.session_timeout().mul_f64(self.0.steps.lifetime())
    }

    async fn hears(&self) {
        let mut condition = self.0.condition.subscribe();
        let _ = condition.wait_for(|condition| condition.hears()).await;
    }

    async fn goes_on(&self) {
        let goes_on = |condition: &Condition| !condition.stalled && !condition.dead;
        // Without the cost of a subscription, as nearly always.
        if goes_on(&self.0.condition.borrow()) {
            return;
        }
        let _ = self.0.condition.subscribe().wait_for(goes_on).await;
    }
}

impl Connector for Line {
    fn connect(&self) -> Answer<Arc<dyn Session>> {
        let line = self.clone();
        async move {
            line.hears().await;
            let inner = line.0.tree.connect().await?;
            line.sessions().push(inner.clone());
            let (sender, link) = watch::channel(*inner.link().borrow());
            tokio::spawn(forward(inner.link(), line.0.condition.subscribe(), sender));
            Ok(Arc::new(LineSession { inner, link, line }) as Arc<dyn Session>)
        }
        .boxed()
    }

    fn describe(&self) -> String {
        self.0.tree.describe()
    }

    fn session_timeout(&self) -> Duration {
        self.0.tree.session_timeout()
    }
}

/// Forwards the state of the link to the process. A process that is cut off or stalls sees no change.
async fn forward(
    mut inner: watch::Receiver<LinkState>,
    mut condition: watch::Receiver<Condition>,
    sender: watch::Sender<LinkState>,
) {
    let before = condition.borrow().restored();
    let mut over = false;
    loop {
        let (mut now, line) = (*inner.borrow_and_update(), *condition.borrow_and_update());
        if line.cut {
            now.link = Link::Down;
        }
        now.attached += line.restored() - before;
        if !line.stalled {
            sender.send_if_modified(|state| std::mem::replace(state, now) != now);
        }
        tokio::select! {
            changed = inner.changed(), if !over => over = changed.is_err(),
            changed = condition.changed() => if changed.is_err() { return },
            () = sender.closed() => return,
        }
    }
}

/// A session on a line.
struct LineSession {
    inner: Arc<dyn Session>,
    link: watch::Receiver<LinkState>,
    line: Line,
}

impl LineSession {
    fn call<T: Send + 'static>(
        &self,
        what: &'static str,
        path: &str,
        call: impl FnOnce(&dyn Session, &str) -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        if !self.line.0.condition.borrow().stalled {
            return request(&self.inner, &self.line, what, path, call);
        }
        // The process wrote the request before it stalled: it is sent even if nobody waits for the answer.
        let (inner, line, path) = (self.inner.clone(), self.line.clone(), path.to_owned());
        let (sender, answer) = oneshot::channel();
        let lost = path.clone();
        tokio::spawn(async move {
            line.goes_on().await;
            let _ = sender.send(request(&inner, &line, what, &path, call).await);
        });
        async move { answer.await.unwrap_or_else(|_| Err(Error::Unanswered(lost))) }.boxed()
    }

    /// Delivers a watch event when the process hears.
    fn watched<T: Send + 'static>(&self, answer: Answer<(T, Changed)>) -> Answer<(T, Changed)> {
        let line = self.line.clone();
        async move {
            let (seen, changed) = answer.await?;
            let told = async move {
                changed.await;
                line.hears().await;
            };
            Ok((seen, told.boxed()))
        }
        .boxed()
    }
}

/// One request on a line that does not stall.
fn request<T: Send + 'static>(
    inner: &Arc<dyn Session>,
    line: &Line,
    what: &str,
    path: &str,
    call: impl FnOnce(&dyn Session, &str) -> Answer<T>,
) -> Answer<T> {
    let condition = *line.0.condition.borrow();
    if condition.dead {
        return std::future::pending().boxed();
    }
    if condition.cut {
        return std::future::ready(Err(Error::Offline)).boxed();
    }
    match line.0.steps.next(what, path) {
        Step::Answered(pause) => {
            let (answer, line, path) = (call(&**inner, path), line.clone(), path.to_owned());
            async move {
                sleep(pause).await;
                let answer = answer.await;
                line.goes_on().await;
                let now = *line.0.condition.borrow();
                if now.dead {
                    return std::future::pending().await;
                }
                if now.cuts == condition.cuts { answer } else { Err(Error::Unanswered(path)) }
            }
            .boxed()
        }
        Step::Refused => {
            let why = "the simulation refuses it".to_owned();
            std::future::ready(Err(Error::Refused { what: path.to_owned(), why })).boxed()
        }
        Step::Hit { carried_out, accident } => {
            if carried_out {
                drop(call(&**inner, path));
            }
            match accident {
                Accident::Death => {
                    line.kill();
                    std::future::pending().boxed()
                }
                Accident::Cut(span) => {
                    line.cut(span);
                    std::future::ready(Err(Error::Unanswered(path.to_owned()))).boxed()
                }
            }
        }
    }
}

impl Session for LineSession {
    fn id(&self) -> i64 {
        self.inner.id()
    }

    fn timeout(&self) -> Duration {
        self.inner.timeout()
    }

    fn link(&self) -> watch::Receiver<LinkState> {
        self.link.clone()
    }

    fn create_sequential(&self, path: &str, data: &[u8], kind: Kind) -> Answer<String> {
        let data = data.to_vec();
        self.call("create", path, move |session, path| session.create_sequential(path, &data, kind))
    }

    fn get(&self, path: &str) -> Answer<Option<Node>> {
        self.call("get", path, |session, path| session.get(path))
    }

    fn children(&self, path: &str) -> Answer<Vec<String>> {
        self.call("children", path, |session, path| session.children(path))
    }

    fn children_of_each(&self, paths: &[String]) -> Answer<Vec<Result<Vec<String>, Error>>> {
        let (first, paths) = (paths.first().cloned().unwrap_or_default(), paths.to_vec());
        self.call("children of each", &first, move |session, _| session.children_of_each(&paths))
    }

    fn get_each(&self, paths: &[String]) -> Answer<Vec<Result<Node, Error>>> {
        let (first, paths) = (paths.first().cloned().unwrap_or_default(), paths.to_vec());
        self.call("get each", &first, move |session, _| session.get_each(&paths))
    }

    fn watch_children(&self, path: &str) -> Answer<(Children, Changed)> {
        self.watched(self.call("watch children of", path, |session, path| session.watch_children(path)))
    }

    fn watch_node(&self, path: &str) -> Answer<(Node, Changed)> {
        self.watched(self.call("watch", path, |session, path| session.watch_node(path)))
    }

    fn multi(&self, ops: &[Op]) -> Answer<()> {
        let (first, ops) = (ops.first().map_or("", Op::path).to_owned(), ops.to_vec());
        self.call("multi", &first, move |session, _| session.multi(&ops))
    }

    fn sync(&self) -> Answer<()> {
        // A heartbeat is sent all the time and changes nothing, so it is no step.
        let before = *self.line.0.condition.borrow();
        if before.dead {
            return std::future::pending().boxed();
        }
        if before.cut {
            return std::future::ready(Err(Error::Offline)).boxed();
        }
        let (answer, line) = (self.inner.sync(), self.line.clone());
        async move {
            line.goes_on().await;
            answer.await?;
            let same = line.0.condition.borrow().cuts == before.cuts;
            if same { Ok(()) } else { Err(Error::Unanswered("sync".to_owned())) }
        }
        .boxed()
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        if self.line.0.condition.borrow().hears() {
            self.inner.close()
        } else {
            std::future::ready(()).boxed()
        }
    }
}
