//! A system of schedulers, data proxies and media units, of account leaders and instances that use accounts, and of
//! compaction nodes, and what must always hold in it.

use std::collections::BTreeSet;
use std::time::Duration;

use allot_coordination::in_process::InProcess;
use allot_coordination::random;
use allot_core::account::Book;
use allot_core::conf::Realm;
use allot_core::conf::conference::{Conference, State};
use tokio::time::{Instant, sleep_until};

use super::accounts::{self, Accounts};
use super::invariants::{Observer, describe, live};
use super::process::{Process, Program, Servers};
use super::redis::Redis;
use super::tables::Tables;
use super::{BOOK, REALM, SESSION, clock};
use allotd::config::Role;
use allotd::roles::media_unit::simulated;

/// How long a write takes to the replica.
const LAG: Duration = Duration::from_millis(5);
/// How often the replica applies what has reached it, if nothing else makes it do so.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How often all indexes of the realm are checked against each other. What a step changes is checked at each step.
const INDEX_CHECK_INTERVAL: Duration = Duration::from_secs(20);
/// How late a conference may start or end while the master is up, in milliseconds.
const LATE_MS: i64 = 3000;
/// The settings of all processes.
const SETTINGS: &str = "[accounts]\ngrace = \"10s\"\nmax-ttl = \"60s\"";

/// How many processes of each role there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) units: usize,
    pub(super) schedulers: usize,
    pub(super) proxies: usize,
    /// Processes with the accounts role.
    pub(super) account_leaders: usize,
    /// Instances of each module that use accounts.
    pub(super) instances: usize,
    /// Processes with the compaction role.
    pub(super) workers: usize,
}

pub(super) struct World {
    pub(super) servers: Servers,
    pub(super) processes: Vec<Process>,
    pub(super) observer: Observer,
    /// How many conferences were created.
    created: usize,
    /// When all indexes were last checked.
    indexes_checked: Instant,
}

impl World {
    /// Starts all processes of a system.
    pub(super) fn start(size: Size) -> Self {
        clock::begin();
        simulated::begin();
        let observer = Observer::default();
        let redis = Redis::start((REALM, BOOK), LAG, observer.clone());
        let tree = InProcess::new(SESSION);
        let accounts = Accounts::new(tree.clone(), observer.clone());
        let tables = Tables::new(tree.clone(), observer.clone());
        let servers = Servers { redis, tree, accounts, tables };
        let mut world =
            Self { servers, processes: Vec::new(), observer, created: 0, indexes_checked: Instant::now() };
        let roles = [
            (size.schedulers, "scheduler", Role::Scheduler),
            (size.proxies, "proxy", Role::DataProxy),
            (size.units, "unit", Role::MediaUnit),
            (size.account_leaders, "accounts", Role::Accounts),
            (size.workers, "worker", Role::Compaction),
        ];
        for (count, name, role) in roles {
            (0..count).for_each(|number| world.begin(&format!("{name}-{number}"), Program::Role(role)));
        }
        if size.instances > 0 {
            world.create_book(size.instances);
        }
        for module in accounts::MODULES {
            (0..size.instances)
                .for_each(|number| world.begin(&format!("{module}-{number}"), Program::Instance));
        }
        world
    }

    /// Starts a system, and returns when this many conferences are open in it.
    pub(super) async fn start_open(size: Size, conferences: usize) -> Self {
        let mut world = Self::start(size);
        world.pass(Duration::from_secs(5)).await;
        world.create(conferences);
        world.pass(Duration::from_secs(5)).await;
        assert_eq!(world.open(), conferences, "{}", world.report());
        world
    }

    /// Creates a book whose modules have these many places each.
    fn create_book(&mut self, places: usize) {
        let places = places.to_string();
        self.servers.redis.run(&["ACCOUNT.BOOK", BOOK]).unwrap();
        for module in accounts::MODULES {
            let settings = ["DEPARTMENT", "finance", "INSTANCES", &places];
            let module = ["ACCOUNT.MODULE", BOOK, module];
            self.servers.redis.run(&[&module[..], &settings].concat()).unwrap();
        }
        for number in 0..accounts::ACCOUNTS {
            let (module, account) = (accounts::MODULES[number % 2], format!("p{number}"));
            let add = ["ACCOUNT.ADD", BOOK, module, "QUOTA", "100", "ACCOUNTS", "1", &account];
            self.servers.redis.run(&add).unwrap();
        }
    }

    /// Moves an account to another module, as operators do.
    pub(super) fn move_account(&mut self, account: usize, module: usize) {
        let (account, module) = (format!("p{account}"), accounts::MODULES[module]);
        self.note(&format!("{account} moves to module {module}"));
        let _ = self.servers.redis.run(&["ACCOUNT.MOVE", BOOK, module, "1", &account]);
    }

    /// Submits a task to a random compaction node, if there are any.
    pub(super) fn submit(&mut self) {
        let workers: Vec<String> = self.running(Program::Role(Role::Compaction)).into_iter().collect();
        if let Some(worker) = workers.get(random::within(0..workers.len().max(1))) {
            self.note(&format!("a task is submitted to {worker}"));
            self.servers.tables.submit(worker);
        }
    }

    /// Starts a process.
    pub(super) fn begin(&mut self, name: &str, program: Program) {
        let process = Process::start(name, program, SETTINGS, &self.servers);
        self.processes.push(process);
    }

    /// Kills a process; its name and program.
    pub(super) fn kill(&mut self, process: usize) -> (String, Program) {
        let killed = self.processes.swap_remove(process);
        (killed.name.clone(), killed.program)
    }

    /// The process of that name.
    pub(super) fn process(&self, name: &str) -> usize {
        self.processes.iter().position(|process| process.name == name).unwrap()
    }

    /// Adds a line to the history of the run.
    pub(super) fn note(&mut self, line: &str) {
        self.observer.note(line.to_owned());
    }

    /// The history of the run, and what is wrong.
    pub(super) fn report(&self) -> String {
        self.observer.report()
    }

    /// Creates conferences, as far as the master takes them.
    pub(super) fn create(&mut self, count: usize) {
        for _ in 0..count {
            let e164 = format!("49{:05}", self.created);
            if self.servers.redis.run(&["CONF.CREATE", REALM, &e164]).is_ok() {
                self.created += 1;
            }
        }
    }

    /// Creates a conference, with these options of `CONF.CREATE`.
    pub(super) fn create_with(&mut self, options: &[&str]) {
        let e164 = format!("49{:05}", self.created);
        if self.servers.redis.run(&[&["CONF.CREATE", REALM, &e164][..], options].concat()).is_ok() {
            self.created += 1;
            self.note(&format!("{e164} is created: {}", options.join(" ")));
            self.keeps(e164.as_bytes());
        }
    }

    /// Changes a conference with this command and its last words, as its manager does, if the realm permits it.
    pub(super) fn change(&mut self, command: &str, e164: &[u8], words: &[&str]) {
        let e164 = String::from_utf8_lossy(e164).into_owned();
        let kept = self.observer.may_change(e164.as_bytes());
        if self.servers.redis.run(&[&[command, REALM, &e164][..], words].concat()).is_ok() {
            self.note(&format!("{command} {e164} {}", words.join(" ")));
            self.keeps(e164.as_bytes());
        } else {
            self.observer.has_not_changed(e164.as_bytes(), kept);
        }
    }

    /// The end and the size of this conference were changed, and must not change by themselves.
    fn keeps(&self, e164: &[u8]) {
        self.servers.redis.realm(|realm| {
            if let Some(conference) = realm.conference_called(e164).filter(|one| one.is_live()) {
                self.observer.keeps(conference);
            }
        });
    }

    /// Ends the live conference behind this number, as an operator does.
    pub(super) fn release(&mut self, e164: &[u8]) {
        let e164 = String::from_utf8_lossy(e164).into_owned();
        self.note(&format!("{e164} is released"));
        // Even a release that is lost with its master may have reached the unit.
        self.observer.may_end(e164.as_bytes());
        let _ = self.servers.redis.run(&["CONF.RELEASE", REALM, &e164]);
    }

    /// People end this conference, if it runs.
    pub(super) fn hang_up(&mut self, e164: &[u8]) {
        let e164 = String::from_utf8_lossy(e164).into_owned();
        if simulated::hang_up(&e164) {
            self.note(&format!("people end {e164}"));
            self.observer.may_end(e164.as_bytes());
        }
    }

    /// The program of this conference fails for good, if it runs.
    pub(super) fn fail_program(&mut self, e164: &[u8]) {
        let e164 = String::from_utf8_lossy(e164).into_owned();
        if simulated::fail(&e164) {
            self.note(&format!("the program of {e164} fails"));
        }
    }

    /// The names of all units that are not down.
    pub(super) fn units(&self) -> Vec<String> {
        let present = |realm: &Realm| {
            let units = realm.units().filter(|unit| unit.word() != "down");
            units.map(|unit| String::from_utf8_lossy(&unit.cmu).into_owned()).collect()
        };
        self.servers.redis.realm(present).unwrap_or_default()
    }

    /// How many conferences are open.
    pub(super) fn open(&self) -> usize {
        self.servers.redis.realm(|realm| realm.count(State::Open)).unwrap_or_default()
    }

    /// Lets time pass, and checks what must always hold.
    pub(super) async fn pass(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            sleep_until(end.min(Instant::now() + CHECK_INTERVAL)).await;
            self.check();
        }
    }

    /// Lets time pass until nothing is left to be done, at most this long; whether nothing is wrong then.
    pub(super) async fn heals_within(&mut self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        while !self.is_violated() {
            let unsettled = self.unsettled();
            if unsettled.is_empty() {
                self.check_indexes();
                return !self.is_violated();
            }
            if Instant::now() >= end {
                self.note(&format!("not healed within {limit:?}"));
                unsettled.into_iter().for_each(|what| self.observer.violated(what));
            } else {
                self.pass(CHECK_INTERVAL).await;
            }
        }
        false
    }

    /// Whether something was wrong so far.
    pub(super) fn is_violated(&self) -> bool {
        !self.observer.violations().is_empty()
    }

    /// What is still to be done: live conferences that are not open, and units that are not up.
    fn unsettled(&self) -> Vec<String> {
        let unsettled = |realm: &Realm| {
            let waiting = live(realm).filter(|conference| conference.state != State::Open);
            let waiting = waiting.map(describe);
            let up = realm.units().filter(|unit| unit.word() == "up").count();
            let wanted = self.running(Program::Role(Role::MediaUnit)).len();
            let units = (up != wanted).then(|| format!("{up} units are up, and {wanted} run"));
            // Each open conference runs on its owner, and nowhere else.
            let owned = live(realm).filter_map(|conference| {
                let owner = realm.unit(conference.owner?)?;
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                Some((text(&conference.e164), text(&owner.cmu)))
            });
            let (mut owned, mut running) = (owned.collect::<Vec<_>>(), simulated::running());
            owned.sort_unstable();
            running.sort_unstable();
            let details = live(realm).filter(|conference| conference.state == State::Open);
            let details = details.filter_map(missing_detail);
            let open = live(realm).filter(|conference| conference.state == State::Open);
            let details = details.chain(open.filter_map(missed_update));
            let media = (owned != running).then(|| format!("{running:?} run, and not {owned:?}"));
            waiting.chain(units).chain(media).chain(details).collect()
        };
        let mut all: Vec<String> = self.servers.redis.realm(unsettled).unwrap_or_default();
        let instances = self.running(Program::Instance);
        if !instances.is_empty() {
            let accounts = |book: &Book| self.servers.accounts.unsettled(book, &instances);
            all.extend(self.servers.redis.book(accounts).unwrap_or_else(|| vec!["there is no book".into()]));
        }
        all.extend(self.servers.tables.unsettled());
        all
    }

    /// The names of the processes with this program.
    fn running(&self, program: Program) -> BTreeSet<String> {
        let running = self.processes.iter().filter(|process| process.program == program);
        running.map(|process| process.name.clone()).collect()
    }

    fn check(&mut self) {
        // The replica applies what has reached it by now.
        self.servers.redis.replica(|_| ());
        self.servers.accounts.check_tree();
        self.servers.tables.check();
        self.servers.redis.book(|book| self.servers.accounts.check_use(book));
        self.servers.redis.realm_at_its_time(|realm, now| {
            let late = live(realm).filter(|conference| is_late(conference, now - LATE_MS));
            late.for_each(|conference| self.observer.violated(format!("{}, too late", describe(conference))));
        });
        if self.indexes_checked.elapsed() >= INDEX_CHECK_INTERVAL {
            self.check_indexes();
        }
    }

    fn check_indexes(&mut self) {
        self.indexes_checked = Instant::now();
        self.servers.redis.realm(|realm| self.observer.check_indexes(realm));
    }
}

/// Whether a conference should have started or ended by this time.
fn is_late(conference: &Conference, now: i64) -> bool {
    let is_over = conference.ending.is_none() && conference.end.is_some_and(|end| end < now);
    is_over || conference.state == State::Scheduled && conference.start.is_some_and(|start| start < now)
}

/// What the program of an open conference was told last about its end and size, if Redis has others.
fn missed_update(conference: &Conference) -> Option<String> {
    let e164 = String::from_utf8_lossy(&conference.e164).into_owned();
    let told = simulated::told(&e164)?;
    let end = conference.end.map_or_else(String::new, |end| end.to_string());
    let known = (end, conference.size.to_string());
    (told != known).then(|| format!("the program of {e164} was told {told:?}, and Redis has {known:?}"))
}

/// What the last details of the conference's program are, if Redis has others.
fn missing_detail(conference: &Conference) -> Option<String> {
    let e164 = String::from_utf8_lossy(&conference.e164).into_owned();
    let stored = |field: &str| {
        let details = conference.details.iter();
        details
            .into_iter()
            .find(|detail| detail.field[..] == *field.as_bytes())
            .map(|detail| &detail.value.0[..])
    };
    let mut last = simulated::details(&e164).into_iter();
    last.find(|(field, value)| stored(field) != Some(value.as_bytes())).map(|(field, value)| {
        format!(
            "{e164} has {field} = {value}, and Redis has {:?}",
            stored(field).map(String::from_utf8_lossy)
        )
    })
}
