//! A unit's connection to the tree, with accidents: before or after a call is carried out, the unit dies, or is
//! disconnected for a while, with or without loss of its session. A call in flight is then carried out but never
//! answered.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::{SESSION, Trace};
use allot_coordination::in_process::InProcess;
use allot_coordination::session::{Answer, Changed, Connector, Link, LinkState, Session};
use allot_coordination::{Error, Kind, Node, Op, Version};

/// An accident of a unit.
#[derive(Debug, Clone, Copy)]
pub(super) enum Accident {
    /// The unit dies, and its session expires.
    Death,
    /// The unit is disconnected for this long; if that exceeds the session timeout, the session is lost.
    Cut(Duration),
}

/// At which of a unit's calls an accident happens, and whether that call is still carried out.
pub(super) type Due = (u64, bool, Accident);

/// The state of a unit's connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Condition {
    dead: bool,
    cut: bool,
    /// Number of times that the unit was disconnected.
    cuts: u64,
}

/// The planned accidents of a unit, and the delay of its answers.
pub(super) struct Fate {
    name: String,
    random: Mutex<(StdRng, u64, VecDeque<Due>)>,
    condition: watch::Sender<Condition>,
    trace: Trace,
}

enum Step {
    Live(Duration),
    Hit(bool, Accident),
}

impl Fate {
    /// A connection with these accidents, in the order of their calls.
    pub(super) fn new(name: &str, seed: u64, accidents: Vec<Due>, trace: Trace) -> Self {
        let random = Mutex::new((StdRng::seed_from_u64(seed), 0, accidents.into()));
        Self { name: name.to_owned(), random, condition: watch::Sender::default(), trace }
    }

    /// Returns when the unit has died.
    pub(super) async fn died(&self) {
        let mut condition = self.condition.subscribe();
        let _ = condition.wait_for(|condition| condition.dead).await;
    }

    fn step(&self, what: &str, path: &str) -> Step {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        let (random, calls, accidents) = &mut *random;
        *calls += 1;
        self.trace.note(|| format!("{} {calls}: {what} {path}", self.name));
        match accidents.front() {
            Some(&(at, carried_out, accident)) if at <= *calls => {
                accidents.pop_front();
                self.trace
                    .note(|| format!("{} {calls}: {accident:?}, carried out: {carried_out}", self.name));
                Step::Hit(carried_out, accident)
            }
            _ => Step::Live(Duration::from_micros(random.random_range(0..1500))),
        }
    }

    /// Time for which a session outlives a disconnection: its last heartbeat may be some time ago, and the server
    /// checks only at intervals.
    fn lifetime(&self) -> Duration {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        SESSION.mul_f64(random.0.random_range(0.875..1.3))
    }
}

/// A unit's connector.
pub(super) struct Wire {
    pub(super) tree: InProcess,
    pub(super) fate: Arc<Fate>,
    /// All sessions of the unit; they outlive the unit.
    pub(super) sessions: Arc<Mutex<Vec<Arc<dyn Session>>>>,
}

impl Connector for Wire {
    fn connect(&self) -> Answer<Arc<dyn Session>> {
        let (tree, fate, sessions) = (self.tree.clone(), self.fate.clone(), self.sessions.clone());
        async move {
            let mut condition = fate.condition.subscribe();
            let _ = condition.wait_for(|condition| !condition.cut && !condition.dead).await;
            let inner = tree.connect().await?;
            sessions.lock().unwrap_or_else(PoisonError::into_inner).push(inner.clone());
            let (sender, link) = watch::channel(*inner.link().borrow());
            tokio::spawn(forward(inner.link(), fate.condition.subscribe(), sender));
            Ok(Arc::new(Mortal { inner, link, fate, tree }) as Arc<dyn Session>)
        }
        .boxed()
    }

    fn describe(&self) -> String {
        self.tree.describe()
    }

    fn session_timeout(&self) -> Duration {
        SESSION
    }
}

/// Forwards the link state to the unit; a disconnected unit sees no change.
async fn forward(
    mut inner: watch::Receiver<LinkState>,
    mut condition: watch::Receiver<Condition>,
    sender: watch::Sender<LinkState>,
) {
    let healed = |how: Condition| how.cuts - u64::from(how.cut);
    let before = healed(*condition.borrow());
    let mut over = false;
    loop {
        let (mut now, how) = (*inner.borrow_and_update(), *condition.borrow_and_update());
        if how.cut {
            now.link = Link::Down;
        }
        now.attached += healed(how) - before;
        sender.send_if_modified(|state| std::mem::replace(state, now) != now);
        tokio::select! {
            changed = inner.changed(), if !over => over = changed.is_err(),
            changed = condition.changed() => if changed.is_err() { return },
            () = sender.closed() => return,
        }
    }
}

/// A session with accidents.
struct Mortal {
    inner: Arc<dyn Session>,
    link: watch::Receiver<LinkState>,
    fate: Arc<Fate>,
    tree: InProcess,
}

impl Mortal {
    fn call<T: Send + 'static>(
        &self,
        what: &str,
        path: &str,
        call: impl FnOnce(&dyn Session) -> Answer<T>,
    ) -> Answer<T> {
        let condition = *self.fate.condition.borrow();
        if condition.dead {
            return std::future::pending().boxed();
        }
        if condition.cut {
            return std::future::ready(Err(Error::Offline)).boxed();
        }
        match self.fate.step(what, path) {
            Step::Live(pause) => {
                let (answer, fate, path) = (call(&*self.inner), self.fate.clone(), path.to_owned());
                async move {
                    sleep(pause).await;
                    let answer = answer.await;
                    let now = *fate.condition.borrow();
                    if now.dead {
                        return std::future::pending().await;
                    }
                    if now.cuts == condition.cuts { answer } else { Err(Error::Unanswered(path)) }
                }
                .boxed()
            }
            Step::Hit(carried_out, accident) => {
                if carried_out {
                    drop(call(&*self.inner));
                }
                match accident {
                    Accident::Death => {
                        self.fate.condition.send_modify(|condition| condition.dead = true);
                        std::future::pending().boxed()
                    }
                    Accident::Cut(span) => {
                        self.cut(span);
                        std::future::ready(Err(Error::Unanswered(path.to_owned()))).boxed()
                    }
                }
            }
        }
    }

    fn cut(&self, span: Duration) {
        self.fate.condition.send_modify(|condition| {
            condition.cut = true;
            condition.cuts += 1;
        });
        let (tree, fate, id, lifetime) =
            (self.tree.clone(), self.fate.clone(), self.inner.id(), self.fate.lifetime());
        tokio::spawn(async move {
            let end = Instant::now() + span;
            if span >= lifetime {
                sleep(lifetime).await;
                tree.expire(id);
            }
            tokio::time::sleep_until(end).await;
            fate.condition.send_modify(|condition| condition.cut = false);
        });
    }

    /// Delivers a watch event when the unit is connected.
    fn watched<T: Send + 'static>(&self, answer: Answer<(T, Changed)>) -> Answer<(T, Changed)> {
        let mut condition = self.fate.condition.subscribe();
        async move {
            let (seen, changed) = answer.await?;
            let told = async move {
                changed.await;
                let _ = condition.wait_for(|condition| !condition.cut && !condition.dead).await;
            };
            Ok((seen, told.boxed()))
        }
        .boxed()
    }

    fn is_gone(&self) -> bool {
        let condition = *self.fate.condition.borrow();
        condition.dead || condition.cut
    }
}

impl Session for Mortal {
    fn id(&self) -> i64 {
        self.inner.id()
    }

    fn timeout(&self) -> Duration {
        self.inner.timeout()
    }

    fn link(&self) -> watch::Receiver<LinkState> {
        self.link.clone()
    }

    fn create(&self, path: &str, data: &[u8], kind: Kind, sequential: bool) -> Answer<String> {
        self.call("create", path, |session| session.create(path, data, kind, sequential))
    }

    fn get(&self, path: &str) -> Answer<Option<Node>> {
        self.call("get", path, |session| session.get(path))
    }

    fn set(&self, path: &str, data: &[u8], version: Version) -> Answer<Version> {
        self.call("set", path, |session| session.set(path, data, version))
    }

    fn delete(&self, path: &str, version: Version) -> Answer<()> {
        self.call("delete", path, |session| session.delete(path, version))
    }

    fn children(&self, path: &str) -> Answer<Vec<String>> {
        self.call("children", path, |session| session.children(path))
    }

    fn watch_children(&self, path: &str) -> Answer<(Vec<String>, Changed)> {
        let answer = self.call("watch children of", path, |session| session.watch_children(path));
        self.watched(answer)
    }

    fn watch_node(&self, path: &str) -> Answer<(Node, Changed)> {
        let answer = self.call("watch", path, |session| session.watch_node(path));
        self.watched(answer)
    }

    fn multi(&self, ops: &[Op]) -> Answer<()> {
        let first = ops.first().map_or("", Op::path);
        self.call("multi", first, |session| session.multi(ops))
    }

    fn sync(&self) -> Answer<()> {
        // A heartbeat is sent all the time and changes nothing, so it is no step.
        let condition = *self.fate.condition.borrow();
        match condition {
            Condition { dead: true, .. } => std::future::pending().boxed(),
            Condition { cut: true, .. } => std::future::ready(Err(Error::Offline)).boxed(),
            _ => {
                let (answer, fate) = (self.inner.sync(), self.fate.clone());
                async move {
                    answer.await?;
                    let same = fate.condition.borrow().cuts == condition.cuts;
                    if same { Ok(()) } else { Err(Error::Unanswered("sync".to_owned())) }
                }
                .boxed()
            }
        }
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        if self.is_gone() { std::future::ready(()).boxed() } else { self.inner.close() }
    }
}
