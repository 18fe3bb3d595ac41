//! Accounts assigned while everything happens at once: clients that come, go and die, an inventory that changes, leaders that
//! are killed at any step; and how long a take-over takes.

use std::time::{Duration, Instant};

use allot_coordination::{Error, Kind};
use allot_tests::accounts_system::Looking;
use allot_tests::clients::Clients;
use allot_tests::wait::TIMEOUT;
use allot_tests::zookeeper::patient;
use allot_tests::{AccountsSystem, Ensemble, Random, eventually, soak};

/// How large a workload is.
#[derive(Debug, Clone, Copy)]
struct Scale {
    departments: usize,
    modules: usize,
    processes: usize,
    accounts: usize,
    steps: usize,
}

/// Instances of one process.
const EACH: usize = 5;

struct RandomWorkload {
    system: AccountsSystem,
    scale: Scale,
    random: Random,
    /// Paths of each process's instances, and which of them are there.
    hosts: Vec<Vec<(String, bool)>>,
    next: usize,
}

impl RandomWorkload {
    fn module(&self, number: usize) -> (String, String) {
        (format!("d{}", number % self.scale.departments), format!("m{number}"))
    }

    fn begin(scale: Scale, seed: u64) -> Self {
        let (system, random) = (AccountsSystem::start_on(Ensemble::start(), 2), Random::new(seed));
        let mut workload = Self { system, scale, random, hosts: Vec::new(), next: scale.accounts };
        let mut book = workload.system.book();
        let each = scale.accounts / scale.modules;
        for number in 0..scale.modules {
            let (department, module) = workload.module(number);
            let places = 2 + number % 2;
            book.ok(&format!(
                "MODULE {module} DEPARTMENT {department} INSTANCES {places} SHARE PRESENT RESERVE {}",
                number % 3
            ));
            book.add(&module, number * each..(number + 1) * each);
        }
        for host in 0..scale.processes {
            let paths = (0..EACH).map(|one| {
                let (department, module) = workload.module((host + one * scale.processes) % scale.modules);
                (format!("{department}/{module}/host{host}:{one}"), true)
            });
            workload.hosts.push(paths.collect());
            let host = workload.start(host);
            workload.system.clients.push(host);
        }
        workload
    }

    fn start(&self, host: usize) -> Clients {
        let there = self.hosts[host].iter().filter(|(_, there)| *there);
        let paths: Vec<&str> = there.map(|(path, _)| path.as_str()).collect();
        // Every other one also logs in by the book.
        let url = self.system.redis.url();
        let logs_in: &[&str] = if host.is_multiple_of(2) { &["--redis", &url] } else { &[] };
        self.system.clients_of(&[&["--replace", "--slow", "0.3"], logs_in].concat(), &paths)
    }

    fn step(&mut self) -> String {
        let mut book = self.system.book();
        let host = self.random.below(self.scale.processes);
        let one = self.random.below(EACH);
        let some = self.random.below(self.scale.modules);
        let (department, module) = self.module(some);
        let account = format!("p{}", self.random.below(self.next));
        match self.random.below(13) {
            0 | 1 => {
                self.system.clients[host].kill9();
                self.system.clients[host] = self.start(host);
                format!("process {host} dies and is started again")
            }
            2..=4 => {
                let (path, there) = &mut self.hosts[host][one];
                let word = if *there { "go" } else { "come" };
                self.system.clients[host].say(&format!("{word} {path}"));
                *there = !*there;
                format!("{path}: {word}")
            }
            5 => {
                let places = 1 + self.random.below(4);
                book.ok(&format!("MODULE {module} DEPARTMENT {department} INSTANCES {places} SHARE PRESENT"));
                format!("{module} has {places} places")
            }
            6 => {
                book.add(&module, self.next..self.next + 5);
                self.next += 5;
                format!("{module} gets 5 accounts more")
            }
            7 => {
                book.call(&format!("MOVE {module} 1 {account}"));
                format!("{account} goes to {module}")
            }
            8 => {
                book.call(&format!("DEL 1 {account}"));
                format!("{account} is deleted")
            }
            9 => {
                book.call(&format!("FREEZE {account}"));
                book.call(&format!("FREEZE p{} OFF", self.random.below(self.next)));
                format!("{account} is frozen")
            }
            10 => {
                let Some(leader) = self.system.leader() else { return "nobody leads".to_owned() };
                self.system.daemons[leader].kill9();
                self.system.daemons[leader].start();
                format!("the leader {leader} is killed")
            }
            11 => {
                let zookeeper = &self.system.zookeeper;
                zookeeper.restore();
                let server =
                    if self.random.below(2) == 0 { zookeeper.leader() } else { zookeeper.follower() };
                server.kill9();
                "a ZooKeeper server is killed".to_owned()
            }
            _ => {
                let points = [
                    "claimed",
                    "read",
                    "changed",
                    "half-taken",
                    "taken",
                    "barrier",
                    "half-introduced",
                    "introduced",
                    "half-shown",
                    "shown",
                    "settled",
                ];
                let fault = format!("accounts:{}", self.random.of(&points));
                let dies = self.system.add_daemon(&[("ALLOT_FAULT_POINT", &fault)]);
                let dies = self.system.daemons.remove(dies);
                eventually("the faulty one to stand for election", TIMEOUT, || {
                    dies.is_ready() || !dies.is_running()
                });
                // Those who begin again stand behind it.
                for daemon in &self.system.daemons {
                    daemon.terminate();
                    daemon.start();
                }
                // It may not come to its point.
                let limit = Instant::now() + Duration::from_millis(1500);
                eventually("the faulty leader to have had its chance", TIMEOUT, || {
                    !dies.is_running() || Instant::now() > limit
                });
                format!(
                    "a leader that dies at {fault}: {}",
                    if dies.is_running() { "it did not" } else { "it did" }
                )
            }
        }
    }
}

#[test]
fn no_account_is_ever_at_two_instances_under_random_faults() {
    let scale = match soak(0, 1) {
        0 => Scale { departments: 2, modules: 6, processes: 4, accounts: 300, steps: 25 },
        _ => Scale { departments: 4, modules: 20, processes: 12, accounts: 1000, steps: 150 },
    };
    let mut workload = RandomWorkload::begin(scale, 7);
    println!("begun: well after {:.1?}", workload.system.healthy("the beginning"));
    for number in 0..scale.steps {
        let what = workload.step();
        println!("{number}: {what}");
        let pause = workload.random.below(400);
        std::thread::sleep(Duration::from_millis(pause as u64));
        workload.system.check_tree();
        assert_eq!(workload.system.violations(), "", "after {what}");
    }
    workload.system.zookeeper.restore();
    println!("the end: well after {:.1?}", workload.system.healthy("the end"));

    // What is even stays as it is: another leader writes nothing.
    // Unless a client's session ended meanwhile, which a machine that stands still may bring about once.
    for last in [false, false, true] {
        let before = workload.system.versions();
        let leader = workload.system.until_led();
        workload.system.daemons[leader].terminate();
        workload.system.daemons[leader].start();
        let next = workload.system.until_led();
        let mut took = None;
        eventually("the next leader to be done", TIMEOUT, || {
            took = workload.system.daemons[next].metric("allot_accounts_takeover_seconds");
            took.is_some()
        });
        workload.system.healthy("all to be as it was");
        let after = workload.system.versions();
        assert!(!last || after == before, "a second look moved something: {before:?} {after:?}");
        if after == before {
            println!("a take-over of {} accounts, nothing to do: {:.3} s", before.len(), took.unwrap());
            break;
        }
    }
}

#[test]
#[ignore = "a measurement"]
fn a_take_over_of_a_thousand_accounts_is_timed() {
    let mut system = AccountsSystem::start(1);
    let mut book = system.book();
    for number in 0..20 {
        book.ok(&format!("MODULE m{number} DEPARTMENT d{} INSTANCES 3 SHARE PRESENT", number % 4));
        book.add(&format!("m{number}"), number * 50..number * 50 + 50);
    }
    let paths: Vec<String> =
        (0..60).map(|one| format!("d{}/m{}/host:{one}", one % 20 % 4, one % 20)).collect();
    for some in paths.chunks(10) {
        let some: Vec<&str> = some.iter().map(String::as_str).collect();
        system.add_clients(&[], &some);
    }
    eventually("all to be attached", TIMEOUT, || book.total("instances") == 60);
    println!("1,000 accounts on 60 instances: well after {:.1?}", system.healthy("all to be assigned"));
    // A hundred accounts go elsewhere while nobody leads.
    system.daemons[0].kill9();
    let some: Vec<String> = (0..100).map(|number| format!("p{}", number * 10)).collect();
    book.ok(&format!("MOVE m0 100 {}", some.join(" ")));
    let next = system.add_daemon(&[]);
    let mut took = None;
    eventually("the next leader to be done", TIMEOUT, || {
        took = system.daemons[next].metric("allot_accounts_takeover_seconds");
        took.is_some()
    });
    system.healthy("all to be assigned again");
    let took = took.unwrap();
    println!("a take-over of 1,000 accounts, 100 of them taken from instances: {took:.3} s");
}

#[test]
fn more_instances_than_one_session_may_watch_are_heard_over_several() {
    const INSTANCES: usize = 1100;
    // One session watches paths of 88 KiB in all.
    let path_of = |number: usize| format!("/resource/d/m/{}:{number}", "host-".repeat(16));
    let mut system = AccountsSystem::start(1);
    let mut book = system.book();
    book.ok(&format!("MODULE m DEPARTMENT d INSTANCES {INSTANCES} SHARE PRESENT"));
    // They are no clients, only nodes of one session that the test writes by hand; so they give nothing back, and what they
    // have comes when all are there.
    let others = Looking::at(&system.zookeeper.address());
    others.run(async |tree| {
        while patient(async || tree.get("/resource/d/m").await).await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        for number in 0..INSTANCES {
            let path = path_of(number);
            match patient(async || tree.create(&path, b"", Kind::Ephemeral).await).await {
                // It was made, and the answer was lost.
                Err(Error::Exists(_)) => {}
                made => made.unwrap(),
            }
        }
    });
    let count = |system: &mut AccountsSystem| {
        let shown = system.shown();
        (shown.len(), shown.values().filter(|accounts| accounts.len() == 2).count())
    };
    eventually("all to be told where their accounts are", 3 * TIMEOUT, || count(&mut system).0 == INSTANCES);
    book.add("m", 0..2 * INSTANCES);
    eventually("all to be shown two accounts", 3 * TIMEOUT, || count(&mut system) == (INSTANCES, INSTANCES));
    eventually("two sessions to listen", TIMEOUT, || {
        system.daemons[0].metric("allot_accounts_listening_sessions") == Some(2.0)
    });
    // What each of them says is heard.
    for number in [0, 500, INSTANCES - 1] {
        let alloc = format!("{}-alloc", path_of(number));
        let account = others.run(async |tree| {
            let account = tree.children(&alloc).await.unwrap().remove(0);
            let word = tree.get(&format!("{alloc}/{account}")).await.unwrap().unwrap().data;
            let word: serde_json::Value = serde_json::from_slice(&word).unwrap();
            let said = format!("{{\"unusable\": {{\"{account}\": {}}}}}", word["epoch"]);
            let node = tree.get(&alloc).await.unwrap().unwrap();
            tree.set(&alloc, said.as_bytes(), node.version).await.unwrap();
            account
        });
        eventually("an account to be frozen", TIMEOUT, || book.account(&account, "state").text() == "frozen");
    }
    // All at once they are gone, and so is what they had.
    drop(others);
    eventually("all to be gone", TIMEOUT, || system.shown().is_empty());
    eventually("the book to have none", TIMEOUT, || book.total("instances") == 0);
}
