//! Scenarios of a cluster whose runners take a known time: units of different speed, units that are broken, listings that
//! fail, clocks that are wrong, and ZooKeeper that is away. The clock of the runtime advances only when all tasks are idle.

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
            let number = fixed.runs.add(Ran { unit, partition, began: Instant::now(), takes: fixed.takes });
            let RunSignals { coordinator, mut stop, mut lost, .. } = signals;
            let cut_off = async {
                while crate::runner::trust(&coordinator).is_some() {
                    sleep(SESSION / 20).await;
                }
            };
            let why = tokio::select! {
                () = sleep(fixed.takes) => EndCause::Itself,
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

/// Counts the requests of all units.
#[derive(Default)]
struct Counted(AtomicU64);

impl Steps for Counted {
    fn next(&self, _: &str, _: &str) -> Step {
        self.0.fetch_add(1, Ordering::Relaxed);
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
        let coordinator =
            Coordinator::start(Arc::new(tree.clone()), &allot_coordination::Settings::default());
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
        Fixed { unit, takes, exit: |_| 0, runs, told: self.told.clone(), disk }
    }

    /// Starts a unit with so many slots.
    async fn unit(&self, slots: u32, launch: Fixed) -> Unit {
        self.unit_with(launch, |settings| settings.slots = slots).await
    }

    /// Starts a unit with these settings.
    async fn unit_with(&self, launch: Fixed, change: impl FnOnce(&mut Settings)) -> Unit {
        let line = Line::new(self.tree.clone(), self.requests.clone());
        let (ask, stop) = allot_runtime::shutdown_channel();
        let coordinator =
            Coordinator::start(Arc::new(line.clone()), &allot_coordination::Settings::default());
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

#[test]
fn idle_units_take_what_waits_at_a_slow_one() {
    play(1, || async {
        let stage = Stage::new().await;
        let mut units = Vec::new();
        for (name, takes) in [("u1", 300), ("u2", 300), ("u3", 6000)] {
            units.push(stage.unit(2, stage.runners(name, ms(takes))).await);
        }
        let id = stage.submit("u1", 30, |_| {}).await;
        let task = stage.end(id).await;
        assert_eq!((task.state, task.result.success_count), (State::Done, 30));
        println!("{:?} after {:?}", stage.runs.by_unit(), stage.makespan());
        // The slow unit begins two at once, and no others.
        assert!(stage.makespan() < ms(6500), "{:?}", stage.makespan());
        assert_eq!(stage.runs.all().len(), 30);
    });
}

#[test]
fn unit_that_joins_takes_part_in_the_round() {
    play(2, || async {
        let stage = Stage::new().await;
        let _first = stage.unit(2, stage.runners("u1", ms(2000))).await;
        let id = stage.submit("u1", 16, |_| {}).await;
        sleep(ms(1000)).await;
        let _second = stage.unit(2, stage.runners("u2", ms(2000))).await;
        stage.end(id).await;
        println!("{:?} after {:?}", stage.runs.by_unit(), stage.makespan());
        assert!(stage.makespan() < ms(10_500), "{:?}", stage.makespan());
    });
}

/// The shortest time in which units, given as slots and time of a run, finish so many partitions: all splits are tried.
fn best(units: &[(u32, u64)], count: u64) -> u64 {
    let alone = |&(slots, takes): &(u32, u64), count: u64| count.div_ceil(u64::from(slots)) * takes;
    match units {
        [] => {
            if count == 0 {
                0
            } else {
                u64::MAX
            }
        }
        [unit, rest @ ..] => {
            let splits = (0..=count).map(|own| alone(unit, own).max(best(rest, count - own)));
            splits.min().unwrap_or(u64::MAX)
        }
    }
}

#[test]
fn round_takes_at_most_a_fifth_longer_than_the_best_split() {
    let mut worst: f64 = 0.0;
    for seed in 0..40 {
        let mut random = StdRng::seed_from_u64(seed);
        let units: Vec<(u32, u64)> =
            (0..3).map(|_| (random.random_range(1..=3), random.random_range(500..5000))).collect();
        let slowest = units.iter().map(|(_, takes)| *takes).max().unwrap();
        // As many partitions as make the slowest unit run several in a row.
        let rate: f64 = units.iter().map(|&(slots, takes)| f64::from(slots) / takes as f64).sum();
        let count = (6.0 * slowest as f64 * rate).ceil() as u64;
        let best = best(&units, count);
        play(seed, || async {
            let stage = Stage::new().await;
            let mut running = Vec::new();
            for (number, &(slots, takes)) in units.iter().enumerate() {
                running.push(stage.unit(slots, stage.runners(&format!("u{number}"), ms(takes))).await);
            }
            let id = stage.submit("u0", count as usize, |_| {}).await;
            stage.end(id).await;
            let ratio = stage.makespan().as_millis() as f64 / best as f64;
            worst = worst.max(ratio);
            assert!(ratio < 1.2, "seed {seed}: {units:?}, {count} partitions: {ratio} of {best} ms");
            assert_eq!(stage.runs.all().len() as u64, count);
        });
    }
    println!("at worst {worst:.3} of the best time");
}

#[test]
fn subtask_takes_few_requests() {
    play(3, || async {
        const COUNT: usize = 1500;
        let stage = Stage::new().await;
        let mut units = Vec::new();
        for name in ["u1", "u2", "u3"] {
            units.push(stage.unit(4, stage.runners(name, ms(400))).await);
        }
        sleep(SESSION).await;
        let before = stage.requests.0.load(Ordering::Relaxed);
        let id = stage.submit("u1", COUNT, |_| {}).await;
        stage.end(id).await;
        let made = (stage.requests.0.load(Ordering::Relaxed) - before) as f64 / COUNT as f64;
        println!("{made:.2} requests for each subtask, after {:?}", stage.makespan());
        assert!(made < 14.0, "{made} requests for each subtask");
    });
}

#[test]
fn higher_priority_and_older_subtasks_are_taken_first() {
    play(4, || async {
        let stage = Stage::new().await;
        let _slow = stage.unit(1, stage.runners("u1", ms(5000))).await;
        let low = stage.submit("u1", 8, |_| {}).await;
        let high = TaskId::main("u1", 2_000_000);
        let names = ["d", "s", "t2"].map(str::to_owned);
        let task = MainTask {
            named: (0..4).map(|number| format!("high{number}")).collect(),
            priority: 5,
            ..MainTask::new(high, names, "u1".into(), "default".into())
        };
        sleep(ms(500)).await;
        stage.store.submit(high, &task, false).await.unwrap();
        sleep(ms(500)).await;
        let _free = stage.unit(1, stage.runners("u2", ms(400))).await;
        stage.end(high).await;
        stage.end(low).await;
        let taken: Vec<String> =
            stage.runs.all().into_iter().filter(|ran| ran.unit == "u2").map(|ran| ran.partition).collect();
        let first: BTreeSet<&str> = taken.iter().take(4).map(String::as_str).collect();
        assert_eq!(first, BTreeSet::from(["high0", "high1", "high2", "high3"]), "{taken:?}");
    });
}

#[test]
fn broken_unit_swallows_no_work() {
    play(5, || async {
        let stage = Stage::new().await;
        let broken = Fixed { exit: |_| 127, ..stage.runners("u1", ms(10)) };
        let broken = stage.unit(2, broken).await;
        let _well = stage.unit(2, stage.runners("u2", ms(1000))).await;
        let id = stage.submit("u1", 10, |task| task.retries = 0).await;
        stage
            .until("the unit to say that it is broken", async || {
                broken.health.problems().iter().any(|problem| problem.contains("exit code 127"))
            })
            .await;
        let task = stage.end(id).await;
        assert_eq!((task.state, task.result.success_count), (State::Done, 10), "{task:?}");
        let starts = stage.runs.by_unit()["u1"];
        assert!(starts <= 6, "{starts} starts at the broken unit");
    });
}

#[test]
fn partition_that_no_unit_can_run_fails_in_the_end() {
    play(6, || async {
        let stage = Stage::new().await;
        let _unit = stage.unit(1, Fixed { exit: |_| 126, ..stage.runners("u1", ms(10)) }).await;
        let id = stage.submit("u1", 1, |_| {}).await;
        let task = stage.end(id).await;
        assert_eq!((task.state, task.result.failed_count), (State::Done, 1), "{task:?}");
        assert!(task.failures[0].message.contains("exit code 126"), "{task:?}");
    });
}

#[test]
fn partition_that_failed_runs_again_at_another_unit() {
    play(7, || async {
        let stage = Stage::new().await;
        let mut units = Vec::new();
        for name in ["u1", "u2", "u3"] {
            let runners = Fixed { exit: |number| i32::from(number == 1), ..stage.runners(name, ms(100)) };
            units.push(stage.unit(2, runners).await);
        }
        let retry = RetryInfo { limit: 1, delay: 1, ..RetryInfo::default() };
        let id = stage.submit("u1", 15, |task| task.retry = retry).await;
        let task = stage.end(id).await;
        assert_eq!((task.result.success_count, task.result.failed_count), (15, 0));
        let runs = stage.runs.all();
        for number in 0..15 {
            let partition = format!("p{number:05}");
            let at: Vec<&str> =
                runs.iter().filter(|ran| ran.partition == partition).map(|ran| ran.unit.as_str()).collect();
            assert!(at.len() == 2 && at[0] != at[1], "{partition} ran at {at:?}");
        }
    });
}

/// A task whose listing fails: it names no partitions, and no unit can list any.
fn unlisted(task: &mut MainTask) {
    task.named.clear();
}

#[test]
fn failed_listing_fails_a_round_and_not_the_schedule() {
    play(8, || async {
        let stage = Stage::new().await;
        let _unit = stage.unit(1, stage.runners("u1", ms(100))).await;
        let repeat = RepeatInfo { repeat_count: 0, repeat_interval: 7200 };
        let id = stage
            .submit("u1", 0, |task| {
                unlisted(task);
                task.repeat = repeat;
            })
            .await;
        let began = Instant::now();
        stage.until("the round to fail", async || stage.task(id).await.failed_rounds == 1).await;
        assert!((ms(540_000)..ms(700_000)).contains(&began.elapsed()), "{:?}", began.elapsed());
        assert_eq!(stage.told(), ["round-failed"]);
        let task = stage.task(id).await;
        assert_eq!((task.state, task.round), (State::Init, 1));
        assert!(task.error.contains("to list them by") && task.next_at > 0, "{task:?}");
        // The next round is well.
        stage.store.set(id, |task| (task.named, task.next_at) = (vec!["p".into()], 0)).await.unwrap();
        stage.until("the next round", async || stage.task(id).await.result.success_count == 1).await;
        let task = stage.task(id).await;
        assert_eq!((task.round, task.failed_rounds, task.error.as_str()), (2, 1, ""));
    });
}

#[test]
fn listing_that_succeeds_when_repeated_fails_nothing() {
    play(9, || async {
        let stage = Stage::new().await;
        let _unit = stage.unit(1, stage.runners("u1", ms(100))).await;
        let id = stage.submit("u1", 0, unlisted).await;
        stage.until("a failed listing", async || stage.task(id).await.list_failed == 3).await;
        stage.store.set(id, |task| task.named = vec!["p".into()]).await.unwrap();
        let task = stage.end(id).await;
        assert_eq!((task.state, task.round, task.failed_rounds), (State::Done, 1, 0));
    });
}

#[test]
fn retry_brings_a_cancelled_task_back() {
    play(10, || async {
        let stage = Stage::new().await;
        let _unit = stage.unit(1, stage.runners("u1", ms(100))).await;
        let id = stage
            .submit("u1", 0, |task| {
                unlisted(task);
                task.list_retries = 0;
            })
            .await;
        let task = stage.end(id).await;
        assert_eq!((task.state, task.round, task.failed_rounds), (State::Cancel, 1, 1));
        stage.store.retry(id, "u1").await.unwrap();
        stage.until("the listing to fail again", async || stage.task(id).await.state == State::Cancel).await;
        let task = stage.task(id).await;
        assert_eq!((task.round, task.failed_rounds), (1, 1));
    });
}

#[test]
fn stopped_task_begins_its_round_again() {
    play(11, || async {
        let stage = Stage::new().await;
        let _unit = stage.unit(1, stage.runners("u1", ms(1000))).await;
        let id = stage.submit("u1", 5, |_| {}).await;
        stage.until("a subtask to end", async || stage.task(id).await.result.success_count == 1).await;
        stage.store.stop(id).await.unwrap();
        assert_eq!(stage.end(id).await.state, State::Cancel);
        stage.store.retry(id, "u1").await.unwrap();
        let task = stage.end(id).await;
        assert_eq!((task.state, task.round, task.result.success_count), (State::Done, 1, 5), "{task:?}");
        assert_eq!(task.grand_total().all(), 5);
    });
}

#[test]
fn corrected_clock_delays_a_round_and_a_window_by_a_minute_at_most() {
    play(12, || async {
        const HOUR: i64 = 3_600_000;
        CLOCK.set((CLOCK.get().0, -HOUR));
        let stage = Stage::new().await;
        let _unit = stage.unit(1, stage.runners("u1", ms(100))).await;
        let began = Instant::now();
        // Due two minutes from now, by a clock that is right.
        let due = clock() + HOUR as u64 + 120_000;
        let id = stage.submit("u1", 1, |task| task.next_at = due).await;
        sleep(ms(10_000)).await;
        CLOCK.set((CLOCK.get().0, 0));
        let task = stage.end(id).await;
        assert_eq!(task.state, State::Done);
        assert!((ms(119_000)..ms(181_000)).contains(&began.elapsed()), "{:?}", began.elapsed());

        // A window that opens two minutes from now, by a clock that is right.
        CLOCK.set((CLOCK.get().0, -HOUR));
        let minute = |ms: u64| (ms / 60_000) % 1440;
        let opens = minute(clock() + HOUR as u64) + 2;
        let time = |minute: u64| format!("{:02}:{:02}", minute / 60 % 24, minute % 60);
        let window = Window::new(&format!("{}-{}", time(opens), time(opens + 5)), "UTC").unwrap();
        let began = Instant::now();
        let id = TaskId::main("u1", 2_000_000);
        let task = MainTask {
            named: vec!["p".into()],
            window: Some(window),
            ..MainTask::new(id, ["d", "s", "t2"].map(str::to_owned), "u1".into(), "default".into())
        };
        stage.store.submit(id, &task, false).await.unwrap();
        sleep(ms(10_000)).await;
        CLOCK.set((CLOCK.get().0, 0));
        stage.end(id).await;
        assert!(began.elapsed() < ms(181_000), "{:?}", began.elapsed());
    });
}

#[test]
fn outage_of_zookeeper_uses_up_no_retry() {
    play(13, || async {
        let stage = Stage::new().await;
        let mut units = Vec::new();
        for name in ["u1", "u2"] {
            units.push(stage.unit(2, stage.runners(name, ms(25_000))).await);
        }
        let id = stage.submit("u1", 4, |task| task.retries = 0).await;
        stage.until("all to run", async || stage.runs.all().len() == 4).await;
        for away in [ms(3500), SESSION * 2] {
            sleep(ms(5000)).await;
            stage.tree.freeze();
            sleep(away).await;
            stage.tree.thaw();
        }
        let task = stage.end(id).await;
        assert_eq!((task.result.success_count, task.result.failed_count), (4, 0), "{task:?}");
    });
}

#[test]
fn result_outlives_the_process_while_zookeeper_is_away() {
    play(14, || async {
        let stage = Stage::new().await;
        let runners = stage.runners("u1", ms(1000));
        let unit = stage.unit(1, runners.clone()).await;
        let id = stage.submit("u1", 1, |task| task.retries = 0).await;
        stage.until("the runner to run", async || stage.runs.all().len() == 1).await;
        sleep(ms(200)).await;
        stage.tree.freeze();
        // The session of the runner is still trusted when the runner ends.
        sleep(SESSION).await;
        assert_eq!(runners.disk.lock().unwrap().len(), 1, "the result is on the disk");
        unit.kill();
        stage.tree.thaw();
        let _again = stage.unit(1, runners.clone()).await;
        let task = stage.end(id).await;
        assert_eq!((task.state, task.result.success_count), (State::Done, 1), "{task:?}");
        assert_eq!(stage.runs.all().len(), 1, "it ran once");
        assert!(runners.disk.lock().unwrap().is_empty());
    });
}

#[test]
fn result_counts_while_the_subtask_waits_at_another_unit() {
    play(15, || async {
        let stage = Stage::new().await;
        let runners = stage.runners("u1", ms(1000));
        let unit = stage.unit(1, runners.clone()).await;
        let id = stage.submit("u1", 1, |_| {}).await;
        stage.until("the runner to run", async || stage.runs.all().len() == 1).await;
        sleep(ms(200)).await;
        stage.tree.freeze();
        sleep(SESSION).await;
        unit.kill();
        stage.tree.thaw();
        // Another unit manages the task and is given the subtask, which it may not start while the task is paused.
        stage.task(id).await;
        stage.store.pause(id, true).await.unwrap();
        let _other = stage.unit(1, stage.runners("u2", ms(1000))).await;
        stage
            .until("the subtask to be reassigned", async || {
                !stage.store.at("u2", Some(id)).await.unwrap().is_empty()
            })
            .await;
        let _again = stage.unit(1, runners.clone()).await;
        stage.until("the result to be written", async || runners.disk.lock().unwrap().is_empty()).await;
        stage.store.pause(id, false).await.unwrap();
        let task = stage.end(id).await;
        assert_eq!((task.state, task.result.success_count), (State::Done, 1), "{task:?}");
        assert_eq!(stage.runs.all().len(), 1, "it ran once");
    });
}

#[test]
fn drained_unit_finishes_what_runs_and_hands_on_what_waits() {
    play(16, || async {
        let stage = Stage::new().await;
        let client = stage.client();
        let first = stage.unit(2, stage.runners("u1", ms(10_000))).await;
        let id = stage.submit("u1", 12, |_| {}).await;
        stage.until("two to run", async || stage.runs.all().len() == 2).await;
        let _second = stage.unit(2, stage.runners("u2", ms(60_000))).await;
        // A slow unit takes what a drained one does not start. The drained one is no manager any more, either.
        assert_eq!(client.drain("u1", None).await.unwrap(), 12);
        stage.until("the others to begin", async || stage.runs.by_unit().get("u2") == Some(&2)).await;
        sleep(ms(15_000)).await;
        assert_eq!(stage.runs.by_unit()["u1"], 2, "it begins no more");
        assert_eq!(first.health.problems(), Vec::<String>::new(), "it is well");
        assert_eq!(stage.task(id).await.manager, "u2");
        assert_eq!(stage.task(id).await.result.success_count, 2, "what ran has ended well");
        let why = client.explain(id).await.unwrap().join("; ");
        assert!(why.contains("it is drained"), "{why}");
        // A restart changes nothing.
        first.kill();
        let _first = stage.unit(2, stage.runners("u1", ms(10_000))).await;
        sleep(ms(15_000)).await;
        assert_eq!(stage.runs.by_unit()["u1"], 2, "it begins no more");
        assert!(client.undrain("u1").await.unwrap() && !client.undrain("u1").await.unwrap());
        let task = stage.end(id).await;
        assert_eq!((task.state, task.result.success_count), (State::Done, 12));
        assert!(stage.runs.by_unit()["u1"] > 2, "it works again");
        assert!(client.drain("nobody", None).await.is_err());
    });
}

#[test]
fn deadline_of_a_drain_ends_what_runs_and_uses_up_no_retry() {
    play(17, || async {
        let stage = Stage::new().await;
        let client = stage.client();
        let _first = stage.unit(2, stage.runners("u1", ms(100_000))).await;
        let id = stage.submit("u1", 2, |task| task.retries = 0).await;
        stage.until("both to run", async || stage.runs.all().len() == 2).await;
        let _second = stage.unit(2, stage.runners("u2", ms(1000))).await;
        client.drain("u1", Some(ms(20_000))).await.unwrap();
        sleep(ms(10_000)).await;
        assert_eq!(stage.runs.all().len(), 2, "nothing is ended before the deadline");
        let task = stage.end(id).await;
        assert_eq!((task.state, task.result.success_count), (State::Done, 2), "{task:?}");
        assert_eq!(stage.runs.by_unit(), BTreeMap::from([("u1".into(), 2), ("u2".into(), 2)]));
    });
}

#[test]
fn drained_cluster_waits() {
    play(18, || async {
        let stage = Stage::new().await;
        let client = stage.client();
        let _unit =
            stage.unit_with(stage.runners("u1", ms(1000)), |settings| settings.every = ms(60_000)).await;
        client.drain("u1", None).await.unwrap();
        let id = stage.submit("u1", 2, |_| {}).await;
        sleep(ms(300_000)).await;
        let task = stage.task(id).await;
        assert!(!task.state.is_over() && stage.runs.all().is_empty(), "{task:?}");
        let why = client.explain(id).await.unwrap().join("; ");
        assert!(why.contains("all are drained"), "{why}");
        client.undrain("u1").await.unwrap();
        assert_eq!(stage.end(id).await.state, State::Done);
    });
}

#[test]
fn unit_that_drains_before_it_leaves_finishes_what_runs() {
    play(19, || async {
        let stage = Stage::new().await;
        let first = stage
            .unit_with(stage.runners("u1", ms(30_000)), |settings| {
                (settings.slots, settings.drain) = (2, true);
            })
            .await;
        let id = stage.submit("u1", 6, |task| task.retries = 0).await;
        stage.until("two to run", async || stage.runs.all().len() == 2).await;
        let _second = stage.unit(1, stage.runners("u2", ms(1000))).await;
        first.ask.send_replace(true);
        let task = stage.end(id).await;
        assert_eq!((task.state, task.result.success_count), (State::Done, 6), "{task:?}");
        assert_eq!(stage.runs.by_unit(), BTreeMap::from([("u1".into(), 2), ("u2".into(), 4)]));
        stage.until("the unit to leave", async || first.process.is_finished()).await;
        // The process closes its session.
        first.line.expire_all();
        let drained = stage.store.paths.drained();
        stage
            .until("its drain to end with its session", async || {
                stage.store.children(&drained).await.unwrap().is_empty()
            })
            .await;
    });
}

#[test]
fn people_hear_of_ends_failures_and_delays() {
    play(20, || async {
        let stage = Stage::new().await;
        // Each partition fails once.
        let runners = Fixed { exit: |number| i32::from(number == 1), ..stage.runners("u1", ms(100)) };
        let unit = stage.unit(2, runners.clone()).await;
        let repeat = RepeatInfo { repeat_count: 3, repeat_interval: 3600 };
        let id = stage.submit("u1", 2, |task| task.repeat = repeat).await;
        stage.until("the first round", async || stage.task(id).await.next_at > 0).await;
        // The message follows the record of the round.
        stage.until("the message", async || !stage.told().is_empty()).await;
        assert_eq!(stage.told(), ["round-failed"]);
        let told = stage.told.lock().unwrap()[0].clone();
        assert_eq!((&told["task"], &told["failed"]), (&id.to_string().into(), &2.into()), "{told}");
        assert_eq!((&told["table"], &told["node"]), (&"t".into(), &"u1".into()), "{told}");
        // Nobody is there when the second round is due.
        unit.kill();
        sleep(ms(2 * 3_600_000)).await;
        let _unit = stage.unit(2, runners).await;
        stage.until("the second round", async || stage.task(id).await.round == 2).await;
        let task = stage.end(id).await;
        assert_eq!(task.state, State::Done);
        stage.until("the last message", async || stage.told().len() >= 3).await;
        assert_eq!(stage.told(), ["round-failed", "round-late", "task-ended"]);
        let late = stage.told.lock().unwrap()[1]["late_ms"].as_u64().unwrap();
        assert!((3_000_000..4_200_000).contains(&late), "{late}");
    });
}

#[test]
fn each_round_of_a_repeated_task_is_in_the_history() {
    play(21, || async {
        let stage = Stage::new().await;
        let client = stage.client();
        // Each partition fails in the second round.
        let runners =
            Fixed { exit: |number| if number == 2 { 3 } else { 0 }, ..stage.runners("u1", ms(1000)) };
        let _unit = stage.unit(9, runners).await;
        let repeat = RepeatInfo { repeat_count: 3, repeat_interval: 60 };
        let id = stage.submit("u1", 9, |task| task.repeat = repeat).await;
        stage.until("the third round", async || stage.task(id).await.round == 3).await;
        // While the task goes on, the rounds before are there with all of their failures.
        let all = async || client.history(&HistoryQuery::default()).await.unwrap();
        assert_eq!(all().await.len(), 2);
        let kept = async |round| {
            let failures = client.failures(id, Some(round)).await.unwrap();
            failures.map(|failures| (failures.kept.len(), failures.all))
        };
        assert_eq!((kept(1).await, kept(2).await, kept(4).await), (Some((0, 0)), Some((9, 9)), None));
        let task = stage.end(id).await;
        let check = async || {
            let all = all().await;
            let told: Vec<_> = all.iter().map(|one| (one.is_round(), one.round, one.state)).collect();
            let expected = [(true, 1), (true, 2), (true, 3), (false, 3)].map(|(a, b)| (a, b, State::Done));
            assert_eq!(told, expected);
            for (number, round) in all.iter().filter(|one| one.is_round()).enumerate() {
                let result = (round.result.success_count, round.result.failed_count);
                assert_eq!(result, if number == 1 { (0, 9) } else { (9, 0) });
                let took = round.finished - round.started;
                assert!((1000..3000).contains(&took), "{took} ms");
                // The results of runners that failed do not count.
                let expected = if number == 1 { ["0", "0"] } else { ["90", "36"] };
                let sums = ["before", "after"].map(|name| round.sums[name].to_string());
                assert_eq!(sums, expected, "of this round alone");
            }
            assert_eq!(all[3].sums["before"].to_string(), "180");
            assert_eq!(all[2].finished, task.finished);
        };
        check().await;
        assert_eq!(kept(2).await, Some((9, 9)));
        // Packed, they are still there, with the last failures.
        assert_eq!(history::pack(&stage.store, Duration::ZERO).await.unwrap(), 4);
        assert!(stage.store.mains().await.unwrap().is_empty());
        check().await;
        assert_eq!(kept(2).await, Some((5, 9)));
    });
}

#[test]
fn rounds_are_packed_while_their_task_goes_on() {
    play(22, || async {
        let stage = Stage::new().await;
        let client = stage.client();
        let runners = Fixed { exit: |_| 3, ..stage.runners("u1", ms(1000)) };
        let _unit = stage.unit(9, runners).await;
        let repeat = RepeatInfo { repeat_count: 0, repeat_interval: 60 };
        let id = stage.submit("u1", 9, |task| task.repeat = repeat).await;
        stage.until("four rounds", async || stage.task(id).await.ended_rounds() == 4).await;
        let (failures, rounds) = (stage.store.paths.failures(id), stage.store.paths.rounds(id));
        let count = async |dir: &str| stage.store.children(dir).await.unwrap().len();
        assert_eq!((count(&failures).await, count(&rounds).await), (4, 4));
        // Of the last round, the task itself keeps the failures.
        assert_eq!(history::pack(&stage.store, Duration::ZERO).await.unwrap(), 4);
        assert_eq!((count(&failures).await, count(&rounds).await), (1, 0));
        assert_eq!(client.failures(id, None).await.unwrap().unwrap().kept.len(), 9);
        assert_eq!(client.failures(id, Some(2)).await.unwrap().unwrap().kept.len(), 5);
        stage.until("a fifth round", async || stage.task(id).await.ended_rounds() == 5).await;

        // Page by page, each is there once, and filters leave out others.
        let pages = async |wanted: HistoryQuery| {
            let (mut wanted, mut found) = (wanted, Vec::new());
            loop {
                let (page, next) = client.history_page(&wanted, 1).await.unwrap();
                found.extend(page.iter().map(|one| one.round));
                let Some(next) = next else { return found };
                wanted.cursor = Some(next.to_string());
            }
        };
        assert_eq!(pages(HistoryQuery::default()).await, [5, 4, 3, 2, 1]);
        let text = |text: &str| Some(text.to_owned());
        let none = Vec::<u64>::new();
        assert_eq!(pages(HistoryQuery { table: text("other"), ..HistoryQuery::default() }).await, none);
        assert_eq!(pages(HistoryQuery { state: text("cancel"), ..HistoryQuery::default() }).await, none);
        assert_eq!(pages(HistoryQuery { from: text("30s"), ..HistoryQuery::default() }).await, [5]);
        assert_eq!(pages(HistoryQuery { to: text("30s"), ..HistoryQuery::default() }).await, [4, 3, 2, 1]);
        // A round that is broken off is a round too.
        stage.until("a sixth round", async || stage.task(id).await.round == 6).await;
        stage.store.stop(id).await.unwrap();
        stage.end(id).await;
        let wanted = HistoryQuery { state: text("cancel"), ..HistoryQuery::default() };
        let broken = client.history(&wanted).await.unwrap();
        let told: Vec<_> = broken.iter().map(|one| (one.is_round(), one.round)).collect();
        assert_eq!(told, [(true, 6), (false, 6)]);
    });
}

#[test]
fn task_begins_when_the_round_that_it_follows_has_ended_well() {
    play(23, || async {
        let stage = Stage::new().await;
        let client = stage.client();
        // The first run of each partition fails.
        let runners = Fixed { exit: |number| i32::from(number == 1), ..stage.runners("u1", ms(5000)) };
        let _unit = stage.unit(4, runners).await;
        let repeat = RepeatInfo { repeat_count: 2, repeat_interval: 600 };
        let first = stage.submit("u1", 1, |task| task.repeat = repeat).await;
        let submission = |after: &str| {
            let options = serde_json::json!({"db": "d", "schema": "s", "table": "later", "partitions": ["later"],
                "after": after, "queue": true});
            serde_json::from_value::<Submission>(options).unwrap()
        };
        for (wrong, why) in
            [("d.s.nothing", "d.s.nothing"), ("what", "neither"), ("aaaaffff.16176931.56000000.0", "exist")]
        {
            let refused = client.submit(&submission(wrong)).await.unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
        let (later, _) = client.submit(&submission("d.s.t")).await.unwrap();
        let (other, _) = client.submit(&submission(&first.to_string())).await.unwrap();
        assert_eq!(stage.task(later).await.follows, Some(first.to_string()));
        let why = client.explain(later).await.unwrap().join("; ");
        assert!(why.contains(&format!("round 1 of task {first} has not ended")), "{why}");
        stage.until("the first round", async || stage.task(first).await.ended_rounds() == 1).await;
        sleep(ms(100_000)).await;
        let why = client.explain(later).await.unwrap().join("; ");
        assert!(why.contains("ended with 1 failed"), "{why}");
        assert_eq!(stage.task(later).await.round, 0);
        let done = stage.end(first).await.finished;
        let began = stage.end(later).await.started;
        assert!(began >= done && began < done + 1000, "{} ms", began - done);
        // A round that has ended well lets others begin later, too.
        stage.end(other).await;
        // The one partition of `later` failed. A task that waits for its success keeps it from being packed.
        let (third, _) = client.submit(&submission(&later.to_string())).await.unwrap();
        history::pack(&stage.store, Duration::ZERO).await.unwrap();
        let is_there = async |id| stage.store.main(id).await.unwrap().is_some();
        assert!(is_there(later).await && !is_there(other).await);
        sleep(ms(100_000)).await;
        assert_eq!(stage.task(third).await.round, 0);
        stage.store.stop(third).await.unwrap();
        stage.end(third).await;
    });
}

#[test]
fn pause_of_all_tasks_holds_for_later_ones_and_over_restarts() {
    play(24, || async {
        let stage = Stage::new().await;
        let client = stage.client();
        let unit = stage.unit(2, stage.runners("u1", ms(10_000))).await;
        let id = stage.submit("u1", 6, |_| {}).await;
        stage.until("two to run", async || stage.runs.all().len() == 2).await;
        assert!(client.pause_all().await.unwrap() && !client.pause_all().await.unwrap());
        sleep(ms(60_000)).await;
        assert_eq!(
            (stage.runs.all().len(), stage.task(id).await.result.success_count),
            (2, 2),
            "what ran has ended"
        );
        let later = TaskId::main("u1", 2_000_000);
        let names = ["d", "s", "t2"].map(str::to_owned);
        let task = MainTask {
            named: vec!["q".to_owned()],
            ..MainTask::new(later, names, "u1".into(), "default".into())
        };
        stage.store.submit(later, &task, false).await.unwrap();
        let why = client.explain(later).await.unwrap().join("; ");
        assert!(why.contains("all tasks are paused"), "{why}");
        unit.kill();
        let _unit = stage.unit(2, stage.runners("u1", ms(10_000))).await;
        sleep(ms(60_000)).await;
        assert_eq!(stage.runs.all().len(), 2);
        stage.store.pause(later, true).await.unwrap();
        assert!(client.resume_all().await.unwrap() && !client.resume_all().await.unwrap());
        assert_eq!(stage.end(id).await.result.success_count, 6);
        assert_eq!(stage.task(later).await.round, 0, "it was paused by itself");
        stage.store.pause(later, false).await.unwrap();
        assert_eq!(stage.end(later).await.result.success_count, 1);
    });
}
