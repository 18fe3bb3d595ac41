//! Thousands of calls that wait while leases expire, processes of callers are killed and the master fails over: no call
//! is served before an earlier call of the same or a higher priority, and no number is lost.
//!
//! Each process of callers is this program, started again with `ALLOT_CALLERS` set. The order of arrival is what
//! `MONITOR` shows, and the order of service is what the master replicates. Both are orders of the server.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::sync::Mutex;
use std::time::Duration;

use allot_client::{CallRequest, Endpoint, NumberStore, Servers};
use allot_core::numpool::event::{Cause, Event, Numbers};
use allot_tests::pools::{fill, number, pool_info};
use allot_tests::shows::no_internal_errors;
use allot_tests::stream::events_of;
use allot_tests::wait::TIMEOUT;
use allot_tests::{ChildProcess, Random, RawClient, RedisServer, ReplicationStream, eventually, soak};
use tokio::time::sleep;

const POOL: &str = "{p}";
const NUMBERS: usize = 100;
const PRIORITIES: usize = 3;
/// The longest life of a lease, in milliseconds.
const LONGEST_TTL: usize = 300;

/// What the callers of a process share.
struct Callers {
    name: String,
    folder: PathBuf,
    random: Mutex<Random>,
    journal: Mutex<File>,
}

/// What a process of callers does, until it is killed.
#[test]
fn callers_process() {
    let Ok(name) = std::env::var("ALLOT_CALLERS") else { return };
    let folder = PathBuf::from(std::env::var("ALLOT_CALLERS_FOLDER").unwrap());
    let count: usize = std::env::var("ALLOT_CALLERS_COUNT").unwrap().parse().unwrap();
    let journal = OpenOptions::new().create(true).append(true).open(folder.join(&name)).unwrap();
    let random = Mutex::new(Random::new(u64::from(std::process::id())));
    let name = format!("{name}-{}", std::process::id());
    let callers = Rc::new(Callers { name, folder, random, journal: Mutex::new(journal) });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let tasks = tokio::task::LocalSet::new();
    for caller in 0..count {
        let callers = callers.clone();
        tasks.spawn_local(async move { callers.call_forever(caller).await });
    }
    runtime.block_on(tasks);
}

impl Callers {
    fn within(&self, low: usize, high: usize) -> usize {
        self.random.lock().unwrap().within(low, high)
    }

    /// A connection to the present master, and the address of the master.
    async fn connect(&self) -> (String, NumberStore) {
        loop {
            // Another process may be writing the file.
            let url = fs::read_to_string(self.folder.join("master")).unwrap_or_default();
            if let Ok((endpoint, _)) = Endpoint::url(&url) {
                let servers = Servers { timeout: Duration::from_secs(60), ..Servers::new(endpoint, POOL) };
                if let Ok(connection) = servers.connection(Duration::from_secs(3600)).await {
                    return (url, NumberStore::new(connection, POOL));
                }
            }
            sleep(Duration::from_millis(self.within(1, 50) as u64)).await;
        }
    }

    /// Calls again and again. A call whose answer is lost is sent again with the same lease.
    async fn call_forever(&self, caller: usize) {
        let (mut url, mut pool) = self.connect().await;
        for call in 0.. {
            let token = format!("{}-{caller}-{call}", self.name);
            let ttl = self.within(20, LONGEST_TTL) as u64;
            let wait = if self.within(1, 20) == 1 { self.within(1, 2000) as u64 } else { 0 };
            let priority = self.within(0, PRIORITIES - 1) as i32;
            let request = CallRequest {
                lease: Some(&token),
                ttl: Some(ttl),
                wait: Some(wait),
                priority,
                ..CallRequest::default()
            };
            let lease = loop {
                if let Ok(lease) = pool.call(request).await {
                    break lease;
                }
                (url, pool) = self.connect().await;
            };
            let number = lease.map_or_else(|| "null".to_owned(), |lease| lease.number);
            if number == "null" && wait > 0 {
                continue;
            }
            writeln!(self.journal.lock().unwrap(), "{url} {token} {number}").unwrap();
            // Some calls end by the deadline of their lease, and their hangups are late.
            sleep(Duration::from_millis(self.within(0, LONGEST_TTL) as u64)).await;
            let _ = pool.hang_up(&number, &token, None).await;
        }
    }
}

fn start_callers(name: &str, folder: &Path, count: usize) -> ChildProcess {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "numbers_waiting_soak::callers_process", "--nocapture"])
        .env("ALLOT_CALLERS", name)
        .env("ALLOT_CALLERS_COUNT", count.to_string())
        .env("ALLOT_CALLERS_FOLDER", folder);
    let process = ChildProcess::new(name, folder.join(format!("{name}.log")));
    process.spawn(&mut command);
    process
}

/// Which calls arrived at one master, and what happened there, each in the order of the server.
struct Record {
    monitor: RawClient,
    control: RawClient,
    stream: ReplicationStream,
    /// Token and priority of each call, at its first arrival.
    arrivals: Vec<(String, usize)>,
    arrived: HashSet<String>,
    /// Number and token of each call that was granted.
    called: Vec<(String, String)>,
    /// Live calls by number. A call that began before the record is not in it.
    live: BTreeMap<String, String>,
    ended: BTreeMap<&'static str, usize>,
    markers: usize,
}

impl Record {
    /// Records everything that the server does from now on.
    fn begin(server: &RedisServer) -> Self {
        let mut monitor = server.raw();
        monitor.words("MONITOR");
        Self {
            monitor,
            control: server.raw(),
            stream: ReplicationStream::attach(server),
            arrivals: Vec::new(),
            arrived: HashSet::new(),
            called: Vec::new(),
            live: BTreeMap::new(),
            ended: BTreeMap::new(),
            markers: 0,
        }
    }

    /// Reads what the server has done since the last time.
    fn read(&mut self) {
        const APPLY: &str = "NUMPOOL.APPLY";
        // Steps of the same turn of the server are in one transaction.
        for command in self.stream.drain().iter().filter(|command| command[0] == APPLY.as_bytes()) {
            events_of::<Event>(APPLY, command).1.into_iter().for_each(|event| self.note(event));
        }
        self.markers += 1;
        let marker = format!("marker {}", self.markers);
        self.control.call(&["ECHO", &marker]);
        loop {
            let line = self.monitor.read().text();
            let words: Vec<&str> = line.split('"').skip(1).step_by(2).collect();
            match words.as_slice() {
                ["ECHO", text] if *text == marker => return,
                ["NUMPOOL.CALL", _, options @ ..] => self.note_arrival(options),
                _ => {}
            }
        }
    }

    fn note_arrival(&mut self, options: &[&str]) {
        let value =
            |name| options.iter().skip_while(|word| **word != name).nth(1).map(|word| (*word).to_owned());
        let (Some(token), Some(priority)) = (value("LEASE"), value("PRIORITY")) else { return };
        if self.arrived.insert(token.clone()) {
            self.arrivals.push((token, priority.parse().unwrap()));
        }
    }

    fn note(&mut self, event: Event) {
        match event {
            Event::Called(called) => {
                let token = String::from_utf8_lossy(&called.token).into_owned();
                let number = called.number.to_string();
                let other = self.live.insert(number.clone(), token.clone());
                assert_eq!(other, None, "{number} has two calls");
                self.called.push((number, token));
            }
            Event::Ended { numbers, cause, .. } => self.note_end(&numbers, cause),
            _ => {}
        }
    }

    fn note_end(&mut self, numbers: &Numbers, cause: Cause) {
        *self.ended.entry(cause.word()).or_default() += numbers.len();
        for number in numbers {
            self.live.remove(&number.to_string());
        }
    }

    /// No call was granted while another one waited that had arrived before it and had the same or a higher priority.
    /// `survivors` are the calls that still waited when the record ended.
    fn check_order(&self, survivors: &HashSet<String>) {
        let mut granted: HashMap<&str, usize> = HashMap::new();
        for (place, (_, token)) in self.called.iter().enumerate() {
            granted.entry(token).or_insert(place);
        }
        // The call that was granted last, of each priority, among the calls that have arrived so far.
        let mut latest: [Option<(usize, &str)>; PRIORITIES] = [None; PRIORITIES];
        let mut compared = 0;
        for (token, priority) in &self.arrivals {
            // A call that was never granted has given up, or its process was killed, unless it is a survivor.
            let at = granted.get(token.as_str()).copied();
            let Some(at) = at.or_else(|| survivors.contains(token).then_some(usize::MAX)) else { continue };
            for (before, earlier) in latest[*priority..].iter().flatten() {
                assert!(
                    at == usize::MAX || *before < at,
                    "{token} of priority {priority} passed {earlier} over"
                );
                compared += 1;
            }
            let last = &mut latest[*priority];
            *last = (*last).max(Some((at, token)));
        }
        assert!(compared > self.called.len() / 2, "{compared} comparisons for {} calls", self.called.len());
    }
}

/// All numbers are in the books, once.
fn check_books(control: &mut RawClient) {
    let info = control.call(&["NUMPOOL.INFO", POOL]);
    let count = |field: &str| info.field(field).int();
    let busy = count("busy_up") + count("busy_down");
    assert_eq!(count("total"), NUMBERS as i64, "{info:?}");
    assert_eq!(busy + count("idle_up") + count("idle_down"), NUMBERS as i64, "{info:?}");
    assert_eq!(count("leases"), busy, "a number is busy without a live lease: {info:?}");
}

/// Every answer that callers noted is a call that the server granted, and a call has one number.
fn check_journals(folder: &Path, processes: &[ChildProcess], old: &Record, new: &Record, url: &str) {
    let granted: HashSet<&(String, String)> = new.called.iter().collect();
    let mut answers = HashMap::new();
    let mut checked = 0;
    for process in processes {
        let journal = fs::read_to_string(folder.join(process.name())).unwrap();
        // The last line may be incomplete.
        for line in journal.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            let [server, token, number] = <[String; 3]>::try_from(words).unwrap();
            assert_ne!(number, "null", "{token} waits without a limit");
            assert_eq!(answers.insert(token.clone(), number.clone()), None, "{token} has two answers");
            // What the old master granted at its end is not in its record.
            if server == url && !old.arrived.contains(&token) {
                assert!(
                    granted.contains(&(number.clone(), token.clone())),
                    "{token} was not granted {number}"
                );
                checked += 1;
            }
        }
    }
    assert!(checked > 0);
}

#[test]
fn waiting_calls_keep_their_order_over_kills_and_a_failover() {
    if std::env::var_os("ALLOT_CALLERS").is_some() {
        return;
    }
    let (count, share, rounds) = (soak(5, 20), soak(100, 500), soak(8, 60));
    let server = || RedisServer::strict().arg("maxclients", "20000").start();
    let (master, replica) = (server(), server());
    fill(&mut master.raw(), POOL, NUMBERS);
    replica.replica_of(&master);
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut old = Record::begin(&master);
    fs::write(folder.join("master"), master.url()).unwrap();
    let start = |at: usize| start_callers(&format!("callers{at}"), folder, share);
    let mut processes: Vec<ChildProcess> = (0..count).map(start).collect();
    let mut random = Random::new(62);
    let most_wait = |server: &RedisServer| {
        let mut control = server.raw();
        eventually("most callers to wait", TIMEOUT, || {
            pool_info(&mut control, POOL, "waiting") as usize > count * share - 3 * NUMBERS
        });
    };
    let mut run = |record: &mut Record| {
        for _ in 0..rounds / 2 {
            let goal = record.called.len() + soak(150, 1000);
            eventually("calls to be granted", TIMEOUT, || {
                record.read();
                record.called.len() >= goal
            });
            check_books(&mut record.control);
            let at = random.below(count);
            processes[at].kill9();
            processes[at] = start(at);
        }
        record.read();
    };
    most_wait(&master);
    run(&mut old);
    master.kill9();
    replica.command("REPLICAOF NO ONE");
    let mut new = Record::begin(&replica);
    fs::write(folder.join("master"), replica.url()).unwrap();
    most_wait(&replica);
    run(&mut new);
    for process in &processes {
        process.kill9();
    }
    let mut control = replica.raw();
    eventually("all leases to end", TIMEOUT, || {
        pool_info(&mut control, POOL, "waiting") == 0 && pool_info(&mut control, POOL, "leases") == 0
    });
    new.read();
    eprintln!(
        "granted {} and {}, ended {:?} and {:?}",
        old.called.len(),
        new.called.len(),
        old.ended,
        new.ended
    );
    assert_eq!(new.live, BTreeMap::new(), "calls are left that nobody has");
    assert!(new.ended["expired"] > 0 && new.ended["hungup"] > 0, "{:?}", new.ended);
    old.check_order(&new.arrived);
    new.check_order(&HashSet::new());
    check_journals(folder, &processes, &old, &new, &replica.url());
    check_books(&mut control);
    assert_eq!(pool_info(&mut control, POOL, "idle_up"), NUMBERS as i64);
    let call = |control: &mut RawClient| control.call(&["NUMPOOL.CALL", POOL]);
    let numbers: HashSet<String> = (0..NUMBERS).map(|_| call(&mut control).field("number").text()).collect();
    assert_eq!(numbers, (0..NUMBERS).map(number).collect(), "each number is called, and once");
    assert!(call(&mut control).is_null());
    assert_eq!(control.call(&["ALLOT.CHECK", POOL]).text(), "OK");
    no_internal_errors(&replica);
}
