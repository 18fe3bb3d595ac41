//! Random faults: processes die, hang, are cut off and come back, connections break, the replica is cut off, servers fail
//! over, and ZooKeeper hangs or refuses requests. Meanwhile conferences are created and scheduled, ended, and get another
//! end or size. Only conferences that were released, or whose end has come, may end; after the last fault all others must
//! be open again.
//! No two instances use an account, and after the last fault all accounts are with the instances that the book names.
//! No two runners work at one partition, and after the last fault all tasks of compaction are done.
//!
//! A run that fails is made smaller: fewer and shorter faults, fewer conferences and processes, as long as it fails.

use std::future::poll_fn;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::accounts;
use super::link::Refusal;
use super::process::{Process, Program};
use super::redis::Traffic;
use super::world::{Size, World};
use super::{REALM, clock, is_soak, run_paused};
use allotd::config::Role;
use allotd::roles::media_unit::simulated;

const SIZE: Size = Size { units: 5, schedulers: 2, proxies: 1, account_leaders: 2, instances: 2, workers: 3 };
const CONFERENCES: usize = 40;
/// After the last fault the system must be whole again within this time. A unit that failed a conference is not tried
/// again for 300 s (`RETRY`).
const HEALED: Duration = Duration::from_secs(400);
/// How far the clocks of programs and of the second server differ from the first server's, in milliseconds.
const CLOCKS_DIFFER_MS: i64 = 2000;
/// For how long refused requests are counted; longer than all pauses between them.
const REFUSALS_COUNTED: Duration = Duration::from_secs(15);
/// How many requests of a process may be refused in that time. A compaction unit has a loop for each subtask.
const MAX_REFUSALS: u64 = 150;
/// How many runs may be spent to make a run smaller.
const SMALLER_RUNS: usize = 200;

/// A run: with what it begins, and its faults. Everything else follows from the seed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Plan {
    seed: u64,
    size: Size,
    conferences: usize,
    /// The seed of each fault.
    faults: Vec<u64>,
    /// The seed of each time that ZooKeeper refuses requests of a process, after these faults.
    refusals: Vec<u64>,
    /// How long the pauses of faults are, in percent.
    length: u32,
}

impl Plan {
    fn of(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let faults = (0..random.random_range(1..6)).map(|_| random.random()).collect();
        let refusals = (0..random.random_range(0..2)).map(|_| random.random()).collect();
        Self { seed, size: SIZE, conferences: CONFERENCES, faults, refusals, length: 100 }
    }

    /// Plans with one thing less, the greatest steps first.
    fn smaller(&self) -> Vec<Self> {
        let mut plans = Vec::new();
        let mut add = |change: &dyn Fn(&mut Self)| {
            let mut plan = self.clone();
            change(&mut plan);
            if plan != *self {
                plans.push(plan);
            }
        };
        for fault in (0..self.faults.len()).rev() {
            add(&|plan| {
                plan.faults.remove(fault);
            });
        }
        add(&|plan| plan.refusals.clear());
        add(&|plan| plan.size.units = (plan.size.units / 2).max(2));
        add(&|plan| plan.size.units = (plan.size.units - 1).max(2));
        add(&|plan| plan.size.schedulers = 1);
        add(&|plan| (plan.size.account_leaders, plan.size.instances) = (0, 0));
        add(&|plan| plan.size.workers = 0);
        add(&|plan| plan.size.workers = plan.size.workers.min(2));
        add(&|plan| plan.size.account_leaders = plan.size.account_leaders.min(1));
        add(&|plan| plan.size.instances = plan.size.instances.min(1));
        add(&|plan| plan.conferences = plan.conferences.div_ceil(8));
        add(&|plan| plan.conferences = plan.conferences.div_ceil(2));
        if self.length > 25 {
            add(&|plan| plan.length /= 2);
        }
        plans
    }
}

/// The random choices of one fault.
struct Dice {
    random: StdRng,
    length: f64,
}

impl Dice {
    fn below(&mut self, count: usize) -> usize {
        self.random.random_range(0..count.max(1))
    }

    fn coin(&mut self) -> bool {
        self.random.random()
    }

    fn seconds(&mut self, range: Range<f64>) -> Duration {
        Duration::from_secs_f64(self.random.random_range(range) * self.length)
    }
}

impl World {
    fn note_process(&mut self, process: usize, what: &str) {
        let line = format!("{} {what}", self.processes[process].name);
        self.note(&line);
    }

    /// One fault, which has passed when this returns.
    async fn fault(&mut self, dice: &mut Dice) {
        let process = dice.below(self.processes.len());
        self.submit();
        match dice.below(18) {
            0 => {
                self.note_process(process, "dies");
                let (name, program) = self.kill(process);
                self.pass(dice.seconds(0.0..12.0)).await;
                self.note(&format!("{name} starts again"));
                self.begin(&name, program);
            }
            1 | 2 => self.hang(process, dice).await,
            3 | 4 => self.break_connections(process, dice).await,
            5 | 6 => self.replica_fault(process, dice).await,
            7 => self.fail_over(dice),
            8 => {
                self.note("the master stops");
                self.servers.redis.set_master_up(false);
                self.pass(dice.seconds(0.0..8.0)).await;
                self.note("the master starts");
                self.servers.redis.set_master_up(true);
            }
            9 => {
                self.note("ZooKeeper hangs");
                self.servers.tree.freeze();
                self.pass(dice.seconds(0.0..8.0)).await;
                self.note("ZooKeeper answers again");
                self.servers.tree.thaw();
            }
            11 => {
                self.note_process(process, "is cut off from Redis");
                self.processes[process].link.stall(true);
                self.pass(dice.seconds(0.0..12.0)).await;
                self.note_process(process, "reaches Redis again");
                self.processes[process].link.stall(false);
            }
            // ZooKeeper ends no session before its timeout. Permits of runners that have not heard of it would be free.
            12 if self.processes[process].program != Program::Role(Role::Compaction) => {
                self.note_process(process, "loses its session with ZooKeeper");
                self.processes[process].line.expire_all();
            }
            10 | 12 => {
                let span = dice.seconds(0.0..12.0);
                self.note_process(process, &format!("is cut off from ZooKeeper for {span:?}"));
                self.processes[process].line.cut(span);
                self.pass(span).await;
            }
            15 => {
                for _ in 0..=dice.below(3) {
                    let live: Vec<Vec<u8>> = self.observer.epochs().into_keys().collect();
                    if let Some(e164) = live.get(dice.below(live.len())) {
                        self.fail_program(e164);
                    }
                    self.pass(dice.seconds(0.0..4.0)).await;
                }
            }
            16 | 17 => self.refuse_starts(dice).await,
            13 => {
                for _ in 0..=dice.below(3) {
                    let (account, module) =
                        (dice.below(accounts::ACCOUNTS), dice.below(accounts::MODULES.len()));
                    self.move_account(account, module);
                }
            }
            _ => self.drain(dice).await,
        }
        self.pass(dice.seconds(0.0..4.0)).await;
    }

    /// ZooKeeper refuses requests of a process, as without permission or over a quota, and another fault happens meanwhile.
    /// The process says that, tries seldom, and is ready again afterwards.
    async fn refuse(&mut self, dice: &mut Dice) {
        let process = dice.below(self.processes.len());
        let refusal = if dice.coin() { Refusal::All } else { Refusal::Creates };
        if self.processes[process].program == Program::Instance {
            return;
        }
        let (name, link) = (self.processes[process].name.clone(), self.processes[process].link.clone());
        self.note(&format!("ZooKeeper refuses requests of {name}: {refusal:?}"));
        link.refuse(Some(refusal));
        self.fault(dice).await;
        // Until all pauses are long.
        self.pass(2 * REFUSALS_COUNTED).await;
        let before = link.refusals();
        self.pass(REFUSALS_COUNTED).await;
        let refused = link.refusals().1 - before.1;
        self.note(&format!("{refused} requests of {name} were refused in {REFUSALS_COUNTED:?}"));
        // The fault may have been the death of the process; another has its name then.
        let lives = self.processes.iter().find(|process| process.name == name && process.link.refusals().0);
        let says = |process: &Process| process.health.problems().join(" ").contains("refuses");
        if refused > MAX_REFUSALS {
            self.observer.violated(format!("{name} made {refused} refused requests in {REFUSALS_COUNTED:?}"));
        }
        if refused > 0 && lives.is_some_and(|process| !says(process)) {
            self.observer.violated(format!("{name} is refused, and does not say so"));
        }
        self.note(&format!("ZooKeeper refuses {name} nothing any more"));
        link.refuse(None);
        self.pass(REFUSALS_COUNTED).await;
        if let Some(process) = self.processes.iter().find(|process| process.name == name && says(process)) {
            let problems = process.health.problems().join("; ");
            self.observer.violated(format!("{name} is not refused any more, and says: {problems}"));
        }
    }

    async fn break_connections(&mut self, process: usize, dice: &mut Dice) {
        if dice.coin() {
            self.note_process(process, "loses its connections to Redis");
            self.processes[process].link.break_all();
            return;
        }
        self.note_process(process, "has unreliable connections");
        self.processes[process].link.set_unreliable(0.1);
        self.create_some(dice);
        self.pass(dice.seconds(0.0..10.0)).await;
        self.change_some(dice);
        self.pass(dice.seconds(0.0..10.0)).await;
        self.note_process(process, "has reliable connections");
        self.processes[process].link.set_unreliable(0.0);
    }

    fn fail_over(&mut self, dice: &mut Dice) {
        self.note("failover");
        clock::set_server_ahead_ms(dice.random.random_range(-CLOCKS_DIFFER_MS..CLOCKS_DIFFER_MS));
        self.servers.redis.fail_over();
    }

    /// The replica is cut off for a while, in which a process may hang. The replica may become the master then.
    async fn replica_fault(&mut self, process: usize, dice: &mut Dice) {
        self.note("the replica is cut off");
        self.servers.redis.connect_replica(false);
        self.change_some(dice);
        self.pass(dice.seconds(0.0..6.0)).await;
        if dice.coin() {
            self.hang(process, dice).await;
        }
        self.pass(dice.seconds(0.0..12.0)).await;
        if dice.coin() {
            self.fail_over(dice);
        } else {
            self.note("the replica is connected again");
            self.servers.redis.connect_replica(true);
        }
    }

    /// A process hangs, for less or more than its session with ZooKeeper and its lease. Conferences are created and
    /// released meanwhile. The process may hang again at once, with messages unread.
    async fn hang(&mut self, process: usize, dice: &mut Dice) {
        loop {
            self.note_process(process, "hangs");
            self.processes[process].stall(true);
            self.create_some(dice);
            self.pass(dice.seconds(0.0..6.0)).await;
            if dice.coin() {
                self.create_some(dice);
                self.change_some(dice);
                self.pass(dice.seconds(0.0..16.0)).await;
            }
            self.note_process(process, "goes on");
            self.processes[process].stall(false);
            if dice.below(3) > 0 {
                return;
            }
            self.pass(dice.seconds(0.0..1.0)).await;
        }
    }

    /// An operator moves all conferences away from a unit.
    async fn drain(&mut self, dice: &mut Dice) {
        let units: Vec<String> = self.units();
        let Some(cmu) = units.get(dice.below(units.len())) else { return };
        self.note(&format!("{cmu} is drained"));
        let _ = self.servers.redis.run(&["CMU.DRAIN", REALM, cmu, "MOVE"]);
        self.create_some(dice);
        self.pass(dice.seconds(0.0..8.0)).await;
        // Another unit may run on the host from now on, or none.
        let host = cmu.rsplitn(3, ':').last().unwrap_or_default();
        if dice.coin() && self.processes.iter().any(|process| process.name == host) {
            self.note(&format!("{host} starts again"));
            let (name, program) = self.kill(self.process(host));
            self.begin(&name, program);
            self.pass(dice.seconds(2.0..8.0)).await;
            self.create_some(dice);
            self.pass(dice.seconds(0.0..8.0)).await;
        }
        self.note(&format!("{host} is no longer drained"));
        let _ = self.servers.redis.run(&["CMU.DRAIN", REALM, "HOST", host, "OFF"]);
    }

    /// A unit cannot start programs for a while, and conferences are created.
    async fn refuse_starts(&mut self, dice: &mut Dice) {
        let units: Vec<String> = self.units();
        let Some(cmu) = units.get(dice.below(units.len())) else { return };
        let host = cmu.rsplitn(3, ':').last().unwrap_or_default();
        self.note(&format!("{host} cannot start programs"));
        simulated::refuse(host, true);
        for _ in 0..=dice.below(3) {
            self.create_some(dice);
            self.pass(dice.seconds(0.0..8.0)).await;
        }
        self.note(&format!("{host} can start programs"));
        simulated::refuse(host, false);
    }

    /// Some conferences are created: some with an end, some for later, some large.
    fn create_some(&mut self, dice: &mut Dice) {
        let in_seconds = |random: &mut StdRng, range: Range<i64>| {
            (clock::server_ms(0) + 1000 * random.random_range(range)).to_string()
        };
        for _ in 0..dice.below(10) {
            let end = in_seconds(&mut dice.random, 60..240);
            let start = in_seconds(&mut dice.random, 5..60);
            let size = dice.random.random_range(2..30).to_string();
            match dice.below(6) {
                0 => self.create_with(&["END", &end]),
                1 => self.create_with(&["START", &start, "END", &end]),
                2 => self.create_with(&["SIZE", &size]),
                3 => self.create_with(&["SIZE", &size, "START", &start, "END", &end]),
                _ => self.create(1),
            }
        }
    }

    /// Some conferences are ended, by their manager or by people, and some get another end or size.
    fn change_some(&mut self, dice: &mut Dice) {
        let live: Vec<Vec<u8>> = self.observer.epochs().into_keys().collect();
        for _ in 0..dice.below(6) {
            let Some(e164) = live.get(dice.below(live.len())) else { continue };
            let end = clock::server_ms(0) + 1000 * dice.random.random_range(20..240);
            let size = dice.random.random_range(1..40).to_string();
            match dice.below(6) {
                0 => self.release(e164),
                1 => self.hang_up(e164),
                2 | 3 => self.change("CONF.EXTEND", e164, &["END", &end.to_string()]),
                _ => self.change("CONF.RESIZE", e164, &[&size]),
            }
        }
    }
}

/// What came of a run: what was sent, and the report of a run that failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) traffic: Traffic,
    failure: Option<String>,
}

async fn simulate(plan: Plan) -> Run {
    let mut world = World::start(plan.size);
    world.pass(Duration::from_secs(5)).await;
    world.create(plan.conferences);
    world.pass(Duration::from_secs(2)).await;
    let dice = |seed| Dice { random: StdRng::seed_from_u64(seed), length: f64::from(plan.length) / 100.0 };
    for &fault in &plan.faults {
        if !world.is_violated() {
            world.fault(&mut dice(fault)).await;
        }
    }
    for &refusal in &plan.refusals {
        if !world.is_violated() {
            world.refuse(&mut dice(refusal)).await;
        }
    }
    world.note("no more faults");
    let is_well = world.heals_within(HEALED).await;
    Run { traffic: world.servers.redis.traffic(), failure: (!is_well).then(|| world.report()) }
}

/// Runs a plan. A panic is a failure.
fn run_plan(plan: &Plan) -> Run {
    let done = catch_unwind(AssertUnwindSafe(|| run_paused(plan.seed, simulate(plan.clone()))));
    done.unwrap_or_else(|_| Run {
        traffic: Traffic::default(),
        failure: Some("a panic, see above".to_owned()),
    })
}

/// Runs a seed.
pub(super) fn run(seed: u64) -> Run {
    run_plan(&Plan::of(seed))
}

/// Runs a seed on a machine that stops for a while in the middle of the run.
pub(super) fn run_with_a_stop(seed: u64) -> Run {
    let mut simulation = pin!(simulate(Plan::of(seed)));
    let mut polls = 0;
    let stopping = poll_fn(|context| {
        polls += 1;
        if polls == 10 {
            std::thread::sleep(Duration::from_secs(2));
        }
        simulation.as_mut().poll(context)
    });
    let done = run_paused(seed, stopping);
    assert!(polls >= 10, "the run has ended before the stop");
    done
}

/// The smallest plan found that still fails, and its report.
fn make_smaller(mut plan: Plan, mut report: String) -> (Plan, String) {
    let mut left = SMALLER_RUNS;
    'smaller: loop {
        for smaller in plan.smaller() {
            if left == 0 {
                return (plan, report);
            }
            left -= 1;
            if let Some(failure) = run_plan(&smaller).failure {
                (plan, report) = (smaller, failure);
                continue 'smaller;
            }
        }
        return (plan, report);
    }
}

/// `ALLOT_SEED` is the first seed, and `ALLOT_SEEDS` says how many.
#[test]
fn nothing_is_lost_or_used_twice() {
    let set = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let usual = if is_soak() { 10_000 } else { 200 };
    let (first, count) = (set("ALLOT_SEED").unwrap_or(0), set("ALLOT_SEEDS").unwrap_or(usual));
    allot_simulation::with_each_seed(first..first + count, |seed| {
        if let Some(report) = run(seed).failure {
            let (plan, report) = make_smaller(Plan::of(seed), report);
            panic!("seed {seed} fails (ALLOT_SEED={seed} repeats it). Made smaller:\n{plan:?}\n{report}");
        }
    });
}
