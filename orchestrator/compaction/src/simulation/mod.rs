//! Simulation of worker, manager and monitor with a fault at any step. The units run in this process on one
//! in-process tree, and their runners are async tasks. Before or after any call to the tree, a unit dies and
//! restarts, or is disconnected, with or without loss of its session. The whole tree hangs at times, and operators
//! stop, pause and reassign tasks. At no time do two runners work on one partition, or more on a table than its limit
//! allows. In the end every task has ended, every subtask has ended and is counted, and no node is left.
//!
//! The simulation uses one thread, a clock that advances only when all tasks are idle, and random numbers from a
//! seed. A seed makes the same run, call for call, on any machine. `ALLOT_SEED=17` starts with that seed.

mod stage;
mod wire;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use tokio::time::{Instant, sleep};

use self::wire::{Due, Fate};
use super::ids::TaskId;
use super::node_context::NodeContext;
use super::paths;
use super::runner::{Launch, RunSignals};
use super::simulated::{Behaviour, Runners};
use super::supervisor::{Report, Spec};
use super::task::{MainTask, RepeatInfo, RetryInfo, State};
use super::task_store::{Fault, TaskStore};
use super::unit::run_unit;
use crate::Settings;
use allot_coordination::in_process::InProcess;
use allot_coordination::random;
use allot_coordination::{Coordinator, Retry, Retryable as _, Sessions};
use allot_runtime::Health;
use allot_simulation::line::{Accident, Line};

const SESSION: Duration = Duration::from_millis(400);
/// A time limit far above what any run needs.
const LIMIT: Duration = Duration::from_secs(60);
const UNITS: u64 = 4;
const PARTITIONS: usize = 30;
/// More retries than any subtask can lose its worker.
const MANY: u32 = 100;
/// Times that the runner fails at each partition of the first task whose number is below `FAILING`.
const FAILS: usize = 2;
const FAILING: &str = "t0/p05";
/// The limit of the second task.
const AT_ONCE: usize = 3;

/// Records the events of a run line by line, if a test asks for them.
#[derive(Clone, Default)]
struct Trace(Option<Arc<Mutex<Vec<String>>>>);

impl Trace {
    fn note(&self, line: impl FnOnce() -> String) {
        if let Some(lines) = &self.0 {
            lines.lock().unwrap_or_else(PoisonError::into_inner).push(line());
        }
    }
}

/// Starts simulated runners, and notes at which partition.
struct Traced {
    runners: Runners,
    trace: Trace,
    name: String,
}

impl Launch for Traced {
    fn launch(&self, spec: Spec, signals: RunSignals) -> BoxFuture<'static, Result<Report, String>> {
        let partition = spec.environment.iter().find(|(name, _)| name == "ALLOT_PARTITION");
        self.trace.note(|| format!("{}: runs {partition:?}", self.name));
        self.runners.launch(spec, signals)
    }
}

/// How the runners behave. At the first table they fail at some partitions, and the second one has a limit.
const BEHAVIOUR: Behaviour = Behaviour {
    session: SESSION,
    longest_ms: 60,
    fails: |partition, failed| partition < FAILING && failed < FAILS,
    limit: ("t1/", AT_ONCE),
};

/// The state that all actors of a run share.
#[derive(Clone)]
struct Simulation {
    tree: InProcess,
    runners: Runners,
    trace: Trace,
}

impl Simulation {
    /// Runs one lifetime of a unit, until it dies.
    async fn live(&self, name: String, seed: u64, accidents: Vec<Due>) {
        let fate = Fate::new(&name, seed, accidents, self.trace.clone());
        let line = Line::new(self.tree.clone(), Arc::new(fate));
        let (_asked, stop) = allot_runtime::shutdown_channel();
        let (runners, trace) = (self.runners.clone(), self.trace.clone());
        let coordinator = Coordinator::start(Arc::new(line.clone()));
        let playing = run_unit(NodeContext {
            watch_sessions: Sessions::new(&coordinator, "sessions"),
            coordinator,
            health: Health::default(),
            stop,
            config: Settings {
                node: Some(name.clone()),
                runner: vec!["r".into()],
                wave: 12,
                every: Duration::from_secs(1),
                root: "/c".into(),
                ..Settings::default()
            },
            name: name.clone(),
            launch: Arc::new(Traced { runners, trace, name }),
        });
        tokio::select! {
            ended = playing => panic!("a unit ended: {ended:?}"),
            () = line.died() => {}
        }
        // The tree notices the death later.
        sleep(SESSION).await;
        // A task of the dead unit may wait for an answer for ever and hold the context.
        line.expire_all();
    }

    /// Runs several lifetimes of a unit; each but the last ends at a random call. In all of them the unit is
    /// disconnected at times.
    async fn lives(self, name: String, seed: u64, deaths: usize) {
        let mut random = StdRng::seed_from_u64(seed);
        for life in 0..=deaths {
            let mut accidents = Vec::new();
            for _ in 0..random.random_range(0..3) {
                let short = random.random_bool(0.5);
                let span =
                    SESSION.mul_f64(if short { random.random() } else { random.random_range(1.0..3.0) });
                accidents.push((random.random_range(0..250), random.random(), Accident::Cut(span)));
            }
            if life < deaths {
                accidents.push((random.random_range(0..250), random.random(), Accident::Death));
            }
            accidents.sort_by_key(|(at, ..)| *at);
            self.live(name.clone(), random.random(), accidents).await;
            sleep(Duration::from_millis(random.random_range(0..600))).await;
        }
    }

    /// Lets the whole tree hang at times, for less or more than a session timeout.
    async fn hang(self, seed: u64) {
        let mut random = StdRng::seed_from_u64(seed);
        for _ in 0..random.random_range(0..3) {
            sleep(Duration::from_millis(random.random_range(0..1500))).await;
            self.trace.note(|| "the tree hangs".to_owned());
            self.tree.freeze();
            sleep(SESSION.mul_f64(random.random_range(0.0..2.0))).await;
            self.trace.note(|| "the tree goes on".to_owned());
            self.tree.thaw();
        }
    }

    /// Stops, pauses, resumes and reassigns a task, as operators do.
    async fn meddle(self, store: TaskStore, id: TaskId, seed: u64) {
        let mut random = StdRng::seed_from_u64(seed);
        for _ in 0..random.random_range(0..3) {
            sleep(Duration::from_millis(random.random_range(0..1000))).await;
            match random.random_range(0..8) {
                0 => {
                    insist(|| store.stop(id).boxed()).await;
                    self.trace.note(|| format!("{id} is to stop"));
                }
                1 | 2 => {
                    insist(|| store.pause(id, true).boxed()).await;
                    self.trace.note(|| format!("{id} rests"));
                    sleep(Duration::from_millis(random.random_range(0..1000))).await;
                    insist(|| store.pause(id, false).boxed()).await;
                    self.trace.note(|| format!("{id} goes on"));
                }
                3 | 4 => {
                    let (sub, to) =
                        (random.random_range(1..=PARTITIONS as u64), random.random_range(0..UNITS));
                    let (sub, to) = (id.subtask(sub), unit(to));
                    // The subtask may be running, finished, or absent.
                    let _ = store.move_subtask(sub, &to).await;
                    self.trace.note(|| format!("{sub} is given to {to}"));
                }
                _ => {
                    let to = unit(random.random_range(0..UNITS));
                    // The unit may be absent.
                    let _ = store.reassign(id, None, &to).await;
                    self.trace.note(|| format!("{id} is given to {to}"));
                }
            }
        }
    }
}

fn unit(number: u64) -> String {
    format!("u{number}_1")
}

/// Repeats a request until it is answered; a finished task is an answer.
async fn insist<'a>(mut ask: impl FnMut() -> BoxFuture<'a, Result<MainTask, Fault>>) {
    while let Err(fault) = ask().await {
        match fault {
            Fault::Absent(_) | Fault::Refused(_) | Fault::Busy(_) => return,
            fault if matches!(fault.retry(), Retry::Pause | Retry::Reread) => {
                sleep(Duration::from_millis(20)).await;
            }
            fault => panic!("{fault}"),
        }
    }
}

/// Submits the tasks of a run: one whose subtasks have few retries and whose failed partitions run again, and one that
/// is repeated and has a limit.
async fn submit(store: &TaskStore, random: &mut StdRng) -> Vec<TaskId> {
    let mut ids = Vec::new();
    for number in 0..2u64 {
        let (manager, time) = (unit(number), 1_000_000 + number);
        let id = TaskId::main(&manager, time);
        let table = ["d".to_owned(), "s".to_owned(), format!("t{number}")];
        let task = MainTask {
            named: (0..PARTITIONS).map(|n| format!("t{number}/p{n:02}")).collect(),
            retries: if number == 0 { [0, 1, MANY][random.random_range(0..3)] } else { MANY },
            repeat: RepeatInfo { repeat_count: 1 + number, repeat_interval: 0 },
            limit: if number == 1 { AT_ONCE as u32 } else { 0 },
            retry: RetryInfo { limit: if number == 0 { 3 } else { 0 }, ..RetryInfo::default() },
            ..MainTask::new(id, table, manager, "default".to_owned())
        };
        // The manager must be present, and may just have died.
        while store.submit(id, &task, false).await.is_err() {
            sleep(Duration::from_millis(10)).await;
        }
        ids.push(id);
    }
    ids
}

/// A description of the error if a task is wrong at the end of a run.
async fn wrong(store: &TaskStore, id: TaskId, runners: &Runners) -> Result<Option<String>, Fault> {
    let Some(main) = store.main(id).await? else { return Ok(Some(format!("{id} is not there"))) };
    let failures = store.failures(&main).await?;
    let chunks = store.children(&store.paths.failures(id)).await?.len() as u64;
    let is_logged = failures.len() as u64 == main.task.result.failed_count;
    let is_logged = is_logged && (chunks == main.task.failure_log.chunks || !main.task.state.is_over());
    let rounds = store.round_names(&main, None).await?.len() as u64;
    let task = main.task;
    let is_recorded = !task.repeats() || rounds == task.round;
    if !task.state.is_over() {
        let mut left = Vec::new();
        for number in 0..UNITS {
            left.extend(store.subs(&unit(number), &store.at(&unit(number), None).await?).await?);
        }
        return Ok(Some(format!("{id} does not end: {task:?}\nleft: {left:?}")));
    }
    let (total, rounds) = (task.grand_total(), task.repeat.repeat_count as usize);
    let ended = runners.record().ended;
    let runs = |name: &String| ended.get(name).copied().unwrap_or_default();
    let well = task.named.iter().filter(|name| runs(name) >= rounds).count();
    // No subtask counts as a success that did not run, and none fails that had retries left.
    let ran: usize = task.named.iter().map(runs).sum();
    // A stopped task does not run its failed partitions again.
    let may_fail = task.retries < MANY || task.state == State::Cancel;
    let is_right = total.success_count <= ran as u64 && (total.failed_count == 0 || may_fail);
    let is_whole = match task.state {
        State::Done => {
            let all = total.success_count + total.failed_count == (PARTITIONS * rounds) as u64;
            let well = well == PARTITIONS || total.failed_count > 0;
            all && well && total.stopped_count == 0
        }
        State::Cancel => task.cancelling,
        _ => false,
    };
    let names = store.children(&store.paths.main(id)).await?.into_iter();
    let states: Vec<String> = names.filter(|name| name.starts_with("Status.")).collect();
    let as_it_should_be =
        is_right && is_whole && is_logged && is_recorded && states == [paths::status(task.state)];
    Ok((!as_it_should_be)
        .then(|| format!("{id}: {task:?}, {well} ran as often as they should, {states:?}, {failures:?}")))
}

/// Nodes that should not exist after all tasks have ended.
async fn left(store: &TaskStore, ids: &[TaskId]) -> Result<Vec<String>, Fault> {
    let mut dirs = vec![store.paths.locks(), store.paths.permits()];
    dirs.extend(ids.iter().flat_map(|id| [store.paths.finished(*id), store.paths.partitions(*id)]));
    dirs.extend((0..UNITS).map(|number| store.paths.inbox(&unit(number))));
    let mut left = Vec::new();
    for dir in dirs {
        left.extend(store.children(&dir).await?.into_iter().map(|name| format!("{dir}/{name}")));
    }
    Ok(left)
}

/// Runs one seed, and returns the final states of its tasks.
async fn simulate(seed: u64, trace: Trace) -> Vec<State> {
    let simulation = Simulation { tree: InProcess::new(SESSION), runners: Runners::new(BEHAVIOUR), trace };
    let watching = Coordinator::start(Arc::new(simulation.tree.clone()));
    watching.up().await.unwrap();
    let store = TaskStore::new(watching.tree(), "/c");
    store.prepare().await.unwrap();
    let mut random = StdRng::seed_from_u64(seed);
    let mut going_on = tokio::task::JoinSet::new();
    for number in 0..UNITS {
        let deaths = if number == UNITS - 1 { 0 } else { 3 };
        going_on.spawn(simulation.clone().lives(unit(number), random.random(), deaths));
    }
    let began = Instant::now();
    let ids = tokio::time::timeout(LIMIT, submit(&store, &mut random)).await;
    let ids = ids.unwrap_or_else(|_| panic!("seed {seed}: nobody takes a task"));
    going_on.spawn(simulation.clone().hang(random.random()));
    for id in &ids {
        going_on.spawn(simulation.clone().meddle(store.clone(), *id, random.random()));
    }
    // A notice to an absent unit is deleted when the unit is back, or by the monitor.
    loop {
        let mut why = Vec::new();
        for id in &ids {
            why.extend(
                wrong(&store, *id, &simulation.runners).await.unwrap_or_else(|fault| Some(fault.to_string())),
            );
        }
        if why.is_empty() {
            why = left(&store, &ids).await.unwrap_or_else(|fault| vec![fault.to_string()]);
        }
        while let Some(ended) = going_on.try_join_next() {
            ended.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
        if why.is_empty() {
            break;
        }
        assert!(began.elapsed() < LIMIT, "seed {seed}: {}", why.join("\n"));
        // Each look reads the whole tree: every 20 ms, they took two fifths of the processor time.
        sleep(Duration::from_millis(200)).await;
    }
    let record = simulation.runners.record();
    assert_eq!(record.doubled, Vec::<String>::new(), "seed {seed}: two at once at one partition");
    assert_eq!(record.crowded, Vec::<String>::new(), "seed {seed}: more than {AT_ONCE} at once");
    let mut states = Vec::new();
    for id in ids {
        states.push(store.main(id).await.unwrap().unwrap().task.state);
    }
    states
}

fn run(seed: u64, trace: Trace) -> Vec<State> {
    random::seed(Some(seed));
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true);
    #[cfg(tokio_unstable)]
    builder.rng_seed(tokio::runtime::RngSeed::from_bytes(&seed.to_be_bytes()));
    let states = builder.build().unwrap().block_on(simulate(seed, trace));
    random::seed(None);
    states
}

#[test]
fn failing_units_neither_lose_nor_duplicate_work() {
    let set = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let usual = if std::env::var_os("ALLOT_SOAK").is_some() { 10_000 } else { 150 };
    let (first, count) = (set("ALLOT_SEED").unwrap_or(0), set("ALLOT_SEEDS").unwrap_or(usual));
    let mut ends = BTreeMap::new();
    for state in
        allot_simulation::with_each_seed(first..first + count, |seed| run(seed, Trace::default())).concat()
    {
        *ends.entry(state.to_string()).or_insert(0) += 1;
    }
    println!("tasks by how they ended: {ends:?}");
    assert!(ends.len() == 2, "some are stopped, and not all: {ends:?}");
}

#[test]
#[cfg_attr(not(tokio_unstable), ignore = "built without --cfg tokio_unstable, which .cargo/config.toml sets")]
fn same_seed_repeats_the_same_run() {
    allot_simulation::with_each_seed(0..10, |seed| {
        let [first, second] = [(), ()].map(|()| {
            let lines = Arc::new(Mutex::new(Vec::new()));
            run(seed, Trace(Some(lines.clone())));
            std::mem::take(&mut *lines.lock().unwrap())
        });
        assert!(first.len() > 1000, "seed {seed} does little");
        let at = first.iter().zip(&second).position(|(a, b)| a != b);
        assert!(
            at.is_none() && first.len() == second.len(),
            "seed {seed}: step {at:?} is another: {:?} {:?}",
            at.map(|at| &first[at]),
            at.map(|at| &second[at])
        );
    });
}
