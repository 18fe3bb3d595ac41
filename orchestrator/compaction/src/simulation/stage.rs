//! A cluster whose runners take a known time, for scenarios: units of different speed, units that are broken, listings that
//! fail, clocks that are wrong, and ZooKeeper that is away. The clock of the runtime advances only when all tasks are idle.

mod outages;
mod rounds;
mod scenarios;
mod taking;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::Settings;
use crate::history;
use crate::ids::TaskId;
use crate::node_context::NodeContext;
use crate::operations::{HistoryQuery, Submission, TaskClient};
use crate::runner::{Launch, RunSignals};
use crate::supervisor::{EndCause, Report, Spec};
use crate::task::{MainTask, RepeatInfo, RetryInfo, State};
use crate::task_store::TaskStore;
use crate::unit::run_unit;
use crate::window::Window;
use allot_coordination::in_process::InProcess;
use allot_coordination::{Coordinator, Sessions, random};
use allot_runtime::Health;
use allot_simulation::line::{Line, Step, Steps};

const SESSION: Duration = Duration::from_secs(4);
/// A time far above what any task here needs.
const LONG: Duration = Duration::from_secs(3600);

/// A run of a runner.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Ran {
    unit: String,
    partition: String,
    began: Instant,
    takes: Duration,
}

/// What the runners of all units have done.
#[derive(Debug, Clone, Default)]
struct Runs(Arc<Mutex<Vec<Ran>>>);

impl Runs {
    fn all(&self) -> Vec<Ran> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds a run. Returns how many runs its partition has had.
    fn add(&self, ran: Ran) -> usize {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = all.iter().filter(|other| other.partition == ran.partition).count();
        all.push(ran);
        before + 1
    }

    /// How many runs each unit has begun.
    fn by_unit(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        self.all().into_iter().for_each(|ran| *counts.entry(ran.unit).or_default() += 1);
        counts
    }
}

/// Runners that take a fixed time.
#[derive(Clone)]
struct Fixed {
    unit: String,
    takes: Duration,
    /// The length of a partition, by its name. Its runner takes so many times `takes`.
    length: fn(&str) -> f64,
    /// Why this unit cannot start a runner.
    problem: Option<&'static str>,
    /// The exit code of the first, second, ... run of a partition, over all units.
    exit: fn(usize) -> i32,
    runs: Runs,
    /// The notifications of all units.
    told: Arc<Mutex<Vec<Value>>>,
    /// The unit's disk.
    disk: Arc<Mutex<BTreeMap<TaskId, Vec<u8>>>>,
}

impl Launch for Fixed {
    fn launch(&self, spec: Spec, signals: RunSignals) -> BoxFuture<'static, Result<Report, String>> {
        let partition = spec.environment.iter().find(|(name, _)| name == "ALLOT_PARTITION");
        let partition = partition.map(|(_, value)| value.clone()).unwrap_or_default();
        let (unit, fixed) = (self.unit.clone(), self.clone());
        async move {
            let takes = fixed.takes.mul_f64((fixed.length)(&partition));
            let number = fixed.runs.add(Ran { unit, partition, began: Instant::now(), takes });
            let RunSignals { coordinator, mut stop, mut lost, .. } = signals;
            let cut_off = async {
                while crate::runner::trust(&coordinator).is_some() {
                    sleep(SESSION / 20).await;
                }
            };
            let why = tokio::select! {
                () = sleep(takes) => EndCause::Itself,
                _ = stop.wait_for(|stop| *stop) => EndCause::Stopped,
                _ = lost.wait_for(|lost| *lost) => EndCause::CutOff,
                () = cut_off => EndCause::CutOff,
            };
            let exit = (why == EndCause::Itself).then(|| (fixed.exit)(number));
            let result = serde_json::json!({"before": 10, "after": 4}).as_object().cloned();
            Ok(Report { exit, result, ..Report::of(why) })
        }
        .boxed()
    }

    fn problem(&self, _: &Settings) -> BoxFuture<'static, Option<String>> {
        std::future::ready(self.problem.map(str::to_owned)).boxed()
    }

    fn notify(&self, _: &Settings, notification: Vec<u8>) {
        let notification = serde_json::from_slice(&notification).unwrap();
        self.told.lock().unwrap_or_else(PoisonError::into_inner).push(notification);
    }

    fn keep(&self, _: &Settings, id: TaskId, data: Option<Vec<u8>>) -> BoxFuture<'static, ()> {
        let mut disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
        match data {
            Some(data) => disk.insert(id, data),
            None => disk.remove(&id),
        };
        std::future::ready(()).boxed()
    }

    fn kept(&self, _: &Settings) -> BoxFuture<'static, Vec<(TaskId, Vec<u8>)>> {
        let disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner).clone();
        std::future::ready(disk.into_iter().collect()).boxed()
    }
}

/// How long the answer to a slow request takes: less than a session lasts.
const SLOW: Duration = Duration::from_secs(2);

/// Counts the requests of all units.
#[derive(Default)]
struct Counted {
    count: AtomicU64,
    /// What the slow request does, and the start of its path. The next such request is answered after [`SLOW`].
    slow: Mutex<Option<(&'static str, String)>>,
}

impl Counted {
    fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Lets the next request of this kind be answered late.
    fn slow_down(&self, what: &'static str, path: String) {
        *self.slow.lock().unwrap_or_else(PoisonError::into_inner) = Some((what, path));
    }
}

impl Steps for Counted {
    fn next(&self, what: &str, path: &str) -> Step {
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut slow = self.slow.lock().unwrap_or_else(PoisonError::into_inner);
        if slow.take_if(|(kind, start)| *kind == what && path.starts_with(start.as_str())).is_some() {
            return Step::Answered(SLOW);
        }
        Step::Answered(Duration::from_micros(random::within(0..1500)))
    }
}

/// A running unit.
struct Unit {
    health: Health,
    line: Line,
    process: tokio::task::JoinHandle<()>,
    ask: watch::Sender<bool>,
}

impl Unit {
    /// Kills the process; its sessions live on.
    fn kill(self) {
        self.process.abort();
        self.line.expire_all();
    }
}

/// A cluster.
struct Stage {
    tree: InProcess,
    store: TaskStore,
    runs: Runs,
    told: Arc<Mutex<Vec<Value>>>,
    requests: Arc<Counted>,
    coordinator: Coordinator,
}

impl Stage {
    async fn new() -> Self {
        let tree = InProcess::new(SESSION);
        let coordinator = Coordinator::start(Arc::new(tree.clone()));
        coordinator.up().await.unwrap();
        let store = TaskStore::new(coordinator.tree(), "/c");
        store.prepare().await.unwrap();
        Self {
            tree,
            store,
            runs: Runs::default(),
            told: Arc::default(),
            requests: Arc::default(),
            coordinator,
        }
    }

    fn runners(&self, unit: &str, takes: Duration) -> Fixed {
        let (unit, runs, disk) = (unit.to_owned(), self.runs.clone(), Arc::default());
        let told = self.told.clone();
        Fixed { unit, takes, length: |_| 1.0, problem: None, exit: |_| 0, runs, told, disk }
    }

    /// Access to the tasks through a line whose requests are counted, and slow if that is asked for.
    async fn counted_store(&self) -> (Coordinator, TaskStore) {
        let line = Line::new(self.tree.clone(), self.requests.clone());
        let coordinator = Coordinator::start(Arc::new(line));
        coordinator.up().await.unwrap();
        let store = TaskStore::new(coordinator.tree(), "/c");
        (coordinator, store)
    }

    /// Starts a unit with so many slots.
    async fn unit(&self, slots: u32, launch: Fixed) -> Unit {
        self.unit_with(launch, |settings| settings.slots = slots).await
    }

    /// Starts a unit with these settings.
    async fn unit_with(&self, launch: Fixed, change: impl FnOnce(&mut Settings)) -> Unit {
        let line = Line::new(self.tree.clone(), self.requests.clone());
        let (ask, stop) = allot_runtime::shutdown_channel();
        let coordinator = Coordinator::start(Arc::new(line.clone()));
        let (health, name) = (Health::default(), launch.unit.clone());
        let mut config = Settings {
            node: Some(name.clone()),
            runner: vec!["r".into()],
            root: "/c".into(),
            ..Settings::default()
        };
        change(&mut config);
        let context = NodeContext {
            watch_sessions: Sessions::new(&coordinator, "sessions"),
            coordinator,
            health: health.clone(),
            stop,
            config,
            name: name.clone(),
            launch: Arc::new(launch),
        };
        let process = tokio::spawn(async move {
            run_unit(context).await.unwrap();
        });
        let nodes = self.store.paths.nodes();
        self.until("the unit to be present", async || {
            self.store.children(&nodes).await.unwrap_or_default().contains(&name)
        })
        .await;
        Unit { health, line, process, ask }
    }

    /// The events of the notifications so far.
    fn told(&self) -> Vec<String> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.iter().map(|one| one["event"].as_str().unwrap().to_owned()).collect()
    }

    fn client(&self) -> TaskClient {
        TaskClient::new(self.coordinator.clone(), Settings { root: "/c".into(), ..Settings::default() })
    }

    async fn until(&self, what: &str, mut is_so: impl AsyncFnMut() -> bool) {
        let began = Instant::now();
        while !is_so().await {
            assert!(began.elapsed() < LONG, "no end of waiting for {what}");
            sleep((began.elapsed() / 20).clamp(ms(5), ms(1000))).await;
        }
    }

    /// Submits a task of so many partitions, changed by `change`, to this manager.
    async fn submit(&self, manager: &str, count: usize, change: impl FnOnce(&mut MainTask)) -> TaskId {
        let id = TaskId::main(manager, 1_000_000);
        let names = ["d", "s", "t"].map(str::to_owned);
        let mut task = MainTask::new(id, names, manager.into(), "default".into());
        task.named = (0..count).map(|number| format!("p{number:05}")).collect();
        change(&mut task);
        self.store.submit(id, &task, false).await.unwrap();
        id
    }

    /// Submits a further task, on another table, with so many partitions whose names begin with `q`.
    async fn submit_other(&self, manager: &str, count: usize) -> TaskId {
        let id = TaskId::main(manager, 2_000_000);
        let names = ["d", "s", "other"].map(str::to_owned);
        let mut task = MainTask::new(id, names, manager.into(), "default".into());
        task.named = (0..count).map(|number| format!("q{number:05}")).collect();
        self.store.submit(id, &task, false).await.unwrap();
        id
    }

    /// A task, as soon as ZooKeeper answers.
    async fn task(&self, id: TaskId) -> MainTask {
        loop {
            match self.store.main(id).await {
                Ok(main) => return main.unwrap().task,
                Err(_) => sleep(ms(50)).await,
            }
        }
    }

    /// Waits for the end of a task.
    async fn end(&self, id: TaskId) -> MainTask {
        self.until("the end of the task", async || self.task(id).await.state.is_over()).await;
        self.task(id).await
    }

    /// The time from the first start of a runner to the last end.
    fn makespan(&self) -> Duration {
        let runs = self.runs.all();
        let last = runs.iter().map(|ran| ran.began + ran.takes).max();
        runs.first().zip(last).map(|(first, last)| last - first.began).unwrap_or_default()
    }
}

thread_local! {
    static CLOCK: Cell<(Option<Instant>, i64)> = const { Cell::new((None, 0)) };
}

/// A clock that is wrong by as many milliseconds as [`CLOCK`] says.
fn clock() -> u64 {
    let (began, wrong) = CLOCK.get();
    let passed = began.map_or(0, |began| began.elapsed().as_millis() as i64);
    (1_800_000_000_000 + passed + wrong) as u64
}

/// Runs a scenario with this seed.
fn play<F: Future<Output = ()>>(seed: u64, scenario: impl FnOnce() -> F) {
    random::seed(Some(seed));
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true);
    builder.build().unwrap().block_on(async {
        CLOCK.set((Some(Instant::now()), 0));
        allot_runtime::time::simulate(Some(clock));
        scenario().await;
    });
    allot_runtime::time::simulate(None);
    random::seed(None);
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
