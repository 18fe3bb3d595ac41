//! Switches that crash and a server that crashes: at no time two live calls on one number, and at the end every
//! number that nobody holds can be called again.
//!
//! Each switch is a process of its own: this very program, started again with `ALLOT_SWITCH` set. What it holds it
//! proves by a file that it makes while it has the call and nobody else may have made; so the proof is in the file
//! system, and no part of what is tested.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use allot_tests::pools::{number, pool_info};
use allot_tests::shows::{clock, no_internal_errors};
use allot_tests::wait::TIMEOUT;
use allot_tests::{ChildProcess, Random, RedisServer, Reply, eventually, soak};

const NUMBERS: usize = 40;
const SWITCHES: usize = 4;
const POOL: &str = "pool";

/// A call that a switch has.
struct Live {
    number: String,
    token: String,
}

/// A switch, as its process sees itself.
struct Switch {
    name: String,
    folder: PathBuf,
    url: String,
    connection: Option<redis::Connection>,
    random: Random,
    live: Vec<Live>,
    /// Calls that are over.
    old: Vec<Live>,
    journal: File,
}

/// What a switch's process does, until it is killed.
#[test]
fn switch_process() {
    let Ok(name) = std::env::var("ALLOT_SWITCH") else { return };
    let folder = PathBuf::from(std::env::var("ALLOT_SWITCH_FOLDER").unwrap());
    let journal = OpenOptions::new().create(true).append(true).open(folder.join(&name)).unwrap();
    let mut switch = Switch {
        url: std::env::var("ALLOT_SWITCH_REDIS").unwrap(),
        random: Random::new(u64::from(std::process::id())),
        connection: None,
        live: Vec::new(),
        old: Vec::new(),
        name,
        folder,
        journal,
    };
    fs::write(switch.folder.join(format!("{}.name", switch.name)), &switch.name).unwrap();
    let mut next = 0;
    loop {
        next += 1;
        switch.step(next);
    }
}

impl Switch {
    /// Asks until there is an answer: a server that was killed comes back, and every request here may be repeated.
    fn ask(&mut self, words: &[&str]) -> redis::Value {
        loop {
            if self.connection.is_none() {
                let client = redis::Client::open(&*self.url).unwrap();
                self.connection = client.get_connection_with_timeout(Duration::from_secs(5)).ok();
            }
            if let Some(connection) = &mut self.connection {
                let mut command = redis::cmd(words[0]);
                command.arg(&words[1..]);
                match command.query::<redis::Value>(connection) {
                    Ok(value) => return value,
                    // A refusal is an answer, but for one: it is still loading.
                    Err(error)
                        if error.code().is_some_and(|code| !matches!(code, "LOADING" | "BUSYLOADING")) =>
                    {
                        return redis::Value::SimpleString(error.to_string());
                    }
                    Err(_) => self.connection = None,
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn call_file(&self, number: &str) -> PathBuf {
        self.folder.join("calls").join(number)
    }

    fn step(&mut self, step: usize) {
        match self.random.below(20) {
            0..=2 => {
                let (a, b) = (number(self.random.below(NUMBERS)), number(self.random.below(NUMBERS)));
                self.ask(&["NUMPOOL.REG", POOL, &a, &b, "SWITCH", &self.name.clone()]);
            }
            3 => {
                let number = number(self.random.below(NUMBERS));
                self.ask(&["NUMPOOL.UNREG", POOL, &number]);
            }
            4..=11 => self.call(step),
            12..=16 if !self.live.is_empty() => {
                let at = self.random.below(self.live.len());
                let call = self.live.swap_remove(at);
                self.hang_up(&call);
                self.old.push(call);
            }
            // A hangup that comes twice, or late, when the number may carry another's call.
            _ if !self.old.is_empty() => {
                let at = self.random.below(self.old.len());
                let (number, token) = (self.old[at].number.clone(), self.old[at].token.clone());
                let reply = self.ask(&["NUMPOOL.HANGUP", POOL, &number, "LEASE", &token]);
                if reply != redis::Value::Int(0) {
                    self.report(&format!("VIOLATION a late hangup of {number} did something: {reply:?}"));
                }
                if self.old.len() > 50 {
                    self.old.remove(0);
                }
            }
            _ => {}
        }
    }

    fn call(&mut self, step: usize) {
        let token = format!("{}-{}-{step}", self.name, std::process::id());
        let reply = self.ask(&[
            "NUMPOOL.CALL",
            POOL,
            "LEASE",
            &token,
            "SWITCH",
            &self.name.clone(),
            "TTL",
            "3600000",
        ]);
        let redis::Value::Array(record) = reply else { return };
        let number: String = redis::from_redis_value(record[1].clone()).unwrap();
        // A link to a file that says who we are appears whole or not at all, and only where there is none.
        let identity = self.folder.join(format!("{}.name", self.name));
        if let Err(error) = fs::hard_link(identity, self.call_file(&number)) {
            self.report(&format!("VIOLATION two calls on {number}: {error}"));
        }
        self.report("call");
        self.live.push(Live { number, token });
    }

    fn hang_up(&mut self, call: &Live) {
        fs::remove_file(self.call_file(&call.number)).unwrap();
        let reply = self.ask(&["NUMPOOL.HANGUP", POOL, &call.number, "LEASE", &call.token]);
        // 0 where an answer was lost and this is the second time.
        if !matches!(reply, redis::Value::Int(0 | 1)) {
            self.report(&format!("VIOLATION a hangup of {} was refused: {reply:?}", call.number));
        }
    }

    fn report(&mut self, line: &str) {
        writeln!(self.journal, "{line}").unwrap();
    }
}

/// Starts a switch's process.
fn start_switch(name: &str, server: &RedisServer, folder: &Path) -> ChildProcess {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "numbers_soak::switch_process", "--nocapture"])
        .env("ALLOT_SWITCH", name)
        .env("ALLOT_SWITCH_FOLDER", folder)
        .env("ALLOT_SWITCH_REDIS", server.url());
    let process = ChildProcess::new(name, folder.join(format!("{name}.log")));
    process.spawn(&mut command);
    process
}

fn calls(folder: &Path) -> usize {
    let text = |n: usize| fs::read_to_string(folder.join(format!("switch{n}"))).unwrap_or_default();
    (0..SWITCHES)
        .map(|n| {
            let text = text(n);
            let violations: Vec<&str> = text.lines().filter(|line| line.starts_with("VIOLATION")).collect();
            assert!(violations.is_empty(), "switch{n}: {violations:?}");
            text.lines().filter(|line| *line == "call").count()
        })
        .sum()
}

/// Waits until so many more calls were made.
fn go_on(folder: &Path, more: usize) {
    let start = calls(folder);
    eventually("the switches to make calls", TIMEOUT, || calls(folder) >= start + more);
}

/// The files of a switch that is no more: they are what proves that a call lives, and its calls are over.
fn forget_calls_of(folder: &Path, name: &str) {
    for entry in fs::read_dir(folder.join("calls")).unwrap() {
        let path = entry.unwrap().path();
        // Another switch may take its own away meanwhile.
        if fs::read_to_string(&path).is_ok_and(|owner| owner == name) {
            fs::remove_file(path).unwrap();
        }
    }
}

#[test]
fn crashes_give_no_number_two_calls_and_lose_none() {
    if std::env::var_os("ALLOT_SWITCH").is_some() {
        return;
    }
    let server = RedisServer::builder().arg("appendonly", "yes").arg("appendfsync", "always").start();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::create_dir(folder.join("calls")).unwrap();
    let all: Vec<String> = (0..NUMBERS).map(number).collect();
    let words = |command: &'static str| {
        [command, POOL].into_iter().chain(all.iter().map(String::as_str)).collect::<Vec<_>>()
    };
    assert_eq!(server.raw().call(&words("NUMPOOL.ADD")), Reply::Int(NUMBERS as i64));
    let start = |n: usize| start_switch(&format!("switch{n}"), &server, folder);
    let mut switches: Vec<ChildProcess> = (0..SWITCHES).map(start).collect();
    let mut random = Random::new(61);
    for round in 0..soak(9, 120) {
        go_on(folder, 150);
        if round % 3 == 0 {
            server.kill9();
            server.restart();
        } else {
            let at = random.below(SWITCHES);
            switches[at].kill9();
            let dead = switches[at].name().to_owned();
            forget_calls_of(folder, &dead);
            let reconciled = server.raw().call(&["NUMPOOL.RECONCILE", POOL, "SWITCH", &dead]);
            assert_eq!(reconciled.field("kept"), Reply::Int(0));
            switches[at] = start(at);
        }
    }
    go_on(folder, 150);
    for switch in &switches {
        switch.kill9();
    }
    calls(folder);
    let mut client = server.raw();
    let now = clock(&mut client);
    for switch in &switches {
        forget_calls_of(folder, switch.name());
        let before = (now + 1000).to_string();
        client.call(&["NUMPOOL.RECONCILE", POOL, "SWITCH", switch.name(), "BEFORE", &before]);
    }
    assert_eq!(pool_info(&mut client, POOL, "leases"), 0, "a call is left that nobody has");
    client.call(&words("NUMPOOL.REG"));
    let mut called: Vec<String> =
        (0..NUMBERS).map(|_| client.words("NUMPOOL.CALL pool").field("number").text()).collect();
    called.sort();
    assert_eq!(called, all, "each number is called, and once");
    assert!(client.words("NUMPOOL.CALL pool").is_null());
    no_internal_errors(&server);
}
