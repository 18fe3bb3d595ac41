//! The protocol of worker, manager and monitor under faults at every step: units in this process on one tree, whose
//! runners are tasks. Each unit dies at some of its calls to the tree, before or after the call is carried out, and comes
//! back; what is drawn follows from the seed. At no time are two runners at one partition, and in the end every subtask
//! has ended and is counted, and nothing of it is left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use super::board::Board;
use super::guard::{Report, Spec, Why};
use super::ids::TaskId;
use super::runner::{Attention, Launch};
use super::task::{MainTask, RepeatInfo, State};
use super::{play, runner};
use crate::config::Config;
use crate::coordination::in_process::InProcess;
use crate::coordination::session::{Answer, Changed, Connector, LinkState, Session};
use crate::coordination::{Coordinator, Kind, Node, Op, Settings, Version};
use crate::daemon::{Context, Health};

const SESSION: Duration = Duration::from_millis(400);
/// Far more than any run needs.
const LIMIT: Duration = Duration::from_secs(60);

/// When a unit dies, and how long answers take it.
struct Fate {
    random: Mutex<StdRng>,
    calls: AtomicU64,
    /// At which call, and whether that is still carried out.
    fatal: Option<(u64, bool)>,
    dead: AtomicBool,
    died: Notify,
}

enum Step {
    Live(Duration),
    /// The last one; whether it is carried out.
    Last(bool),
    Dead,
}

impl Fate {
    fn new(seed: u64, fatal: Option<(u64, bool)>) -> Self {
        let random = Mutex::new(StdRng::seed_from_u64(seed));
        Self { random, calls: AtomicU64::new(0), fatal, dead: AtomicBool::new(false), died: Notify::new() }
    }

    fn step(&self) -> Step {
        if self.dead.load(Ordering::SeqCst) {
            return Step::Dead;
        }
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        match self.fatal {
            Some((fatal, carried_out)) if call == fatal => {
                self.dead.store(true, Ordering::SeqCst);
                self.died.notify_one();
                Step::Last(carried_out)
            }
            _ => {
                let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
                Step::Live(Duration::from_micros(random.random_range(0..1500)))
            }
        }
    }
}

/// A unit's way to the tree.
struct Wire {
    tree: InProcess,
    fate: Arc<Fate>,
    /// All its sessions: they outlive it.
    sessions: Arc<Mutex<Vec<Arc<dyn Session>>>>,
}

impl Connector for Wire {
    fn connect(&self) -> Answer<Arc<dyn Session>> {
        let (connecting, fate, sessions) = (self.tree.connect(), self.fate.clone(), self.sessions.clone());
        async move {
            let inner = connecting.await?;
            sessions.lock().unwrap_or_else(PoisonError::into_inner).push(inner.clone());
            Ok(Arc::new(Mortal { inner, fate }) as Arc<dyn Session>)
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

/// A session of a unit that may die at any call.
struct Mortal {
    inner: Arc<dyn Session>,
    fate: Arc<Fate>,
}

impl Mortal {
    fn call<T: Send + 'static>(&self, call: impl FnOnce(&dyn Session) -> Answer<T>) -> Answer<T> {
        match self.fate.step() {
            Step::Live(pause) => {
                let answer = call(&*self.inner);
                async move {
                    sleep(pause).await;
                    answer.await
                }
                .boxed()
            }
            Step::Last(true) => {
                drop(call(&*self.inner));
                std::future::pending().boxed()
            }
            Step::Last(false) | Step::Dead => std::future::pending().boxed(),
        }
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
        self.inner.link()
    }

    fn create(&self, path: &str, data: &[u8], kind: Kind, sequential: bool) -> Answer<String> {
        self.call(|session| session.create(path, data, kind, sequential))
    }

    fn get(&self, path: &str) -> Answer<Option<Node>> {
        self.call(|session| session.get(path))
    }

    fn set(&self, path: &str, data: &[u8], version: Version) -> Answer<Version> {
        self.call(|session| session.set(path, data, version))
    }

    fn delete(&self, path: &str, version: Version) -> Answer<()> {
        self.call(|session| session.delete(path, version))
    }

    fn children(&self, path: &str) -> Answer<Vec<String>> {
        self.call(|session| session.children(path))
    }

    fn watch_children(&self, path: &str) -> Answer<(Vec<String>, Changed)> {
        self.call(|session| session.watch_children(path))
    }

    fn watch_node(&self, path: &str) -> Answer<(Node, Changed)> {
        self.call(|session| session.watch_node(path))
    }

    fn multi(&self, ops: &[Op]) -> Answer<()> {
        self.call(|session| session.multi(ops))
    }

    fn sync(&self) -> Answer<()> {
        // Heard all the time, and about nothing: it is no step.
        if self.fate.dead.load(Ordering::SeqCst) { std::future::pending().boxed() } else { self.inner.sync() }
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        if self.fate.dead.load(Ordering::SeqCst) {
            std::future::ready(()).boxed()
        } else {
            self.inner.close()
        }
    }
}

/// What runners do to the data.
#[derive(Default)]
struct Data {
    running: BTreeSet<String>,
    ended: BTreeMap<String, usize>,
    doubled: Vec<String>,
}

type World = Arc<Mutex<Data>>;

fn with<T>(world: &World, act: impl FnOnce(&mut Data) -> T) -> T {
    act(&mut world.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A runner that works, until it is dropped.
struct Working(World, String);

impl Working {
    fn at(world: &World, partition: &str) -> Self {
        with(world, |data| {
            if !data.running.insert(partition.to_owned()) {
                data.doubled.push(partition.to_owned());
            }
        });
        Self(world.clone(), partition.to_owned())
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        with(&self.0, |data| data.running.remove(&self.1));
    }
}

/// Runners that are tasks.
struct Simulated {
    world: World,
    random: Mutex<StdRng>,
}

impl Launch for Simulated {
    fn launch(&self, spec: Spec, attention: Attention) -> BoxFuture<'static, Result<Report, String>> {
        let span = self.random.lock().unwrap_or_else(PoisonError::into_inner).random_range(1..60);
        let partition = spec.environment.iter().find(|(name, _)| name == "ALLOT_PARTITION");
        let (world, partition) =
            (self.world.clone(), partition.map(|(_, value)| value.clone()).unwrap_or_default());
        async move {
            let working = Working::at(&world, &partition);
            let Attention { coordinator, mut stop, mut lost, .. } = attention;
            let cut_off = async {
                while runner::trust(&coordinator).is_some() {
                    sleep(Duration::from_millis(5)).await;
                }
            };
            let why = tokio::select! {
                () = sleep(Duration::from_millis(span)) => Why::Itself,
                _ = stop.wait_for(|stop| *stop) => Why::Stopped,
                _ = lost.wait_for(|lost| *lost) => Why::CutOff,
                () = cut_off => Why::CutOff,
            };
            if why == Why::Itself {
                with(&world, |data| *data.ended.entry(partition.clone()).or_default() += 1);
            }
            drop(working);
            let exit = (why == Why::Itself).then_some(0);
            Ok(Report { why, exit, output: String::new(), result: None })
        }
        .boxed()
    }
}

/// A life of a unit; ends with it.
async fn live(tree: InProcess, world: World, name: String, seed: u64, fatal: Option<(u64, bool)>) {
    let fate = Arc::new(Fate::new(seed, fatal));
    let sessions = Arc::new(Mutex::new(Vec::new()));
    let wire = Wire { tree: tree.clone(), fate: fate.clone(), sessions: sessions.clone() };
    let text = format!(
        "[zookeeper]\nservers = \"a:1\"\n[compaction]\nnode = \"{name}\"\nrunner = [\"r\"]\nwave = 12\nevery = \"1s\"\nroot = \"/c\""
    );
    let config = Config::of(&text);
    let (_asked, stop) = crate::daemon::stop();
    let context = Context {
        config: Arc::new(config),
        name,
        coordinator: Coordinator::start(Arc::new(wire), &Settings::default()),
        alone: false,
        health: Health::default(),
        stop,
    };
    let random = Mutex::new(StdRng::seed_from_u64(seed));
    let playing = play(context, Arc::new(Simulated { world, random }));
    tokio::select! {
        ended = playing => panic!("a unit ended: {ended:?}"),
        () = fate.died.notified() => {}
    }
    // The service does not know it at once.
    sleep(SESSION).await;
    for session in sessions.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        // Some part of the dead may wait for an answer for ever, and hold it.
        tree.expire(session.id());
    }
}

/// Lives, of which each but the last dies at a step.
async fn lives(tree: InProcess, world: World, name: String, seed: u64, deaths: usize) {
    let mut random = StdRng::seed_from_u64(seed);
    for _ in 0..deaths {
        let fatal = (random.random_range(0..250), random.random());
        live(tree.clone(), world.clone(), name.clone(), random.random(), Some(fatal)).await;
        sleep(Duration::from_millis(random.random_range(0..600))).await;
    }
    live(tree, world, name, random.random(), None).await;
}

async fn simulate(seed: u64) {
    const PARTITIONS: usize = 30;
    let (tree, world) = (InProcess::new(SESSION), World::default());
    let watching = Coordinator::start(Arc::new(tree.clone()), &Settings::default());
    watching.up().await.unwrap();
    let board = Board::new(watching.tree(), "/c");
    board.prepare().await.unwrap();
    let mut units = tokio::task::JoinSet::new();
    for unit in 0..4u64 {
        let deaths = if unit == 3 { 0 } else { 3 };
        units.spawn(lives(tree.clone(), world.clone(), format!("u{unit}_1"), seed * 10 + unit, deaths));
    }
    let mut tasks = Vec::new();
    let began = Instant::now();
    for number in 0..2u64 {
        let (manager, time) = (format!("u{number}_1"), 1_000_000 + number);
        let id = TaskId::main(&manager, time);
        let table = ["d".to_owned(), "s".to_owned(), format!("t{number}")];
        let task = MainTask {
            named: (0..PARTITIONS).map(|n| format!("t{number}/p{n:02}")).collect(),
            retries: 100,
            repeat_flag: number == 1,
            repeat: RepeatInfo { repeat_count: 2, repeat_interval: 0 },
            ..MainTask::new(id, table, manager, "default".to_owned())
        };
        // Its manager must be there, and may just be dead.
        while board.submit(id, &task, false).await.is_err() {
            assert!(began.elapsed() < LIMIT, "seed {seed}: nobody takes a task");
            sleep(Duration::from_millis(10)).await;
        }
        tasks.push(id);
    }
    for id in tasks {
        let task = loop {
            let task = board.main(id).await.unwrap().unwrap().task;
            if task.state.is_over() {
                break task;
            }
            if began.elapsed() > LIMIT {
                let mut left = Vec::new();
                for unit in 0..4 {
                    let worker = format!("u{unit}_1");
                    left.extend(board.subs(&worker, &board.at(&worker, None).await.unwrap()).await.unwrap());
                }
                let locks = board.children(&board.paths.locks()).await;
                panic!("seed {seed}: task {id} does not end: {task:?}\nleft: {left:?}\nlocks: {locks:?}");
            }
            if let Some(ended) = units.try_join_next() {
                panic!("seed {seed}: {ended:?}");
            }
            sleep(Duration::from_millis(20)).await;
        };
        let total = task.grand_total();
        let rounds = if task.repeat_flag { 2 } else { 1 };
        assert_eq!(
            (task.state, total.success_count),
            (State::Done, (PARTITIONS * rounds) as u64),
            "seed {seed}: {task:?}"
        );
        assert_eq!((total.failed_count, total.stopped_count), (0, 0), "seed {seed}: {task:?}");
        let counted = with(&world, |data| data.ended.clone());
        for name in &task.named {
            assert!(
                counted.get(name).is_some_and(|count| *count >= rounds),
                "seed {seed}: {name} was not compacted"
            );
        }
        assert_eq!(
            board.children(&board.paths.finished(id)).await.unwrap(),
            Vec::<String>::new(),
            "seed {seed}"
        );
    }
    assert_eq!(with(&world, |data| data.doubled.clone()), Vec::<String>::new(), "seed {seed}");
    for unit in 0..4 {
        let left = board.at(&format!("u{unit}_1"), None).await.unwrap();
        assert_eq!(left, Vec::new(), "seed {seed}: left at unit {unit}");
    }
    assert_eq!(board.children(&board.paths.locks()).await.unwrap(), Vec::<String>::new(), "seed {seed}");
}

/// One thread, and a clock that goes on when nobody has anything to do: a seed makes the same run however busy the machine
/// is, but for the order in which what is ready at one instant goes on.
#[test]
fn units_that_die_at_any_step_lose_nothing_and_double_nothing() {
    let count = std::env::var("ALLOT_SOAK").map_or(300, |_| 10_000);
    let first: u64 = std::env::var("ALLOT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    for seed in first..first + count {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(simulate(seed));
    }
}
