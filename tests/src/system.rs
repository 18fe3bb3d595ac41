//! A whole conference system: Redis master and replica, a ZooKeeper ensemble, schedulers, data proxies and units as
//! processes of their own, each behind wires of its own, with conferences that write all the time; and an auditor who
//! looks all the time whether a write was accepted that must not be.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::audit::{Auditor, audit};
use crate::process::Process;
use crate::raw::{RawClient, Reply};
use crate::realms::{REALM, Realm};
use crate::redis_server::RedisServer;
use crate::wait::{TIMEOUT, eventually};
use crate::writes::Writes;
use crate::zookeeper::Ensemble;

/// How many more systems may run: with many, none would be on time.
static FREE: Mutex<usize> = Mutex::new(3);
/// Woken when a system has ended.
static ENDED: Condvar = Condvar::new();

/// A system's place among those that may run.
#[derive(Debug)]
struct Place;

impl Place {
    /// Waits for one.
    fn take() -> Self {
        let free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        *ENDED.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner) -= 1;
        Self
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *FREE.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        ENDED.notify_one();
    }
}

/// How large a system is, and what its processes are told in addition.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Schedulers.
    pub schedulers: usize,
    /// Data proxies.
    pub proxies: usize,
    /// Units.
    pub units: usize,
    /// Room of each unit.
    pub capacity: usize,
    /// Settings of all processes, as variables.
    pub settings: Vec<(String, String)>,
    /// Lines of the ZooKeeper servers' configuration.
    pub zookeeper: String,
}

impl Default for Plan {
    /// Two schedulers, two proxies and five units that keep time faster than the defaults.
    fn default() -> Self {
        let settings = [
            ("ALLOT_ZOOKEEPER_SESSION", "2s"),
            ("ALLOT_MEDIA_UNIT_LEASE", "3s"),
            ("ALLOT_MEDIA_UNIT_BEAT", "500ms"),
            ("ALLOT_REDIS_TIMEOUT", "1s"),
            ("ALLOT_SCHEDULER_GRACE", "4s"),
            ("ALLOT_SCHEDULER_GUARD_WINDOW", "3s"),
            ("ALLOT_SCHEDULER_GUARD_LIFT", "6s"),
            ("ALLOT_DATA_PROXY_CLAIM_AFTER", "2s"),
            ("ALLOT_MEDIA_UNIT_CHATTER", "400ms"),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Self { schedulers: 2, proxies: 2, units: 5, capacity: 1000, settings, zookeeper: String::new() }
    }
}

impl Plan {
    /// With this setting, in the place of another of that name.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.settings.retain(|(other, _)| other != name);
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }
}

impl Plan {
    /// Starts a process of this role.
    fn process(&self, role: &str, number: usize, (redis, zookeeper): &(u16, String)) -> Process {
        let name = format!("{role}-{number}");
        let (host, capacity) = (format!("127.0.0.1/{name}"), self.capacity.to_string());
        let who = ["--roles", role, "--name", &name, "--realm", REALM];
        let room = ["--media-unit-host", &host, "--media-unit-capacity", &capacity];
        let process = Process::new(&name, &[&who[..], &room[..]].concat());
        let process = process.behind_redis(*redis).behind_zookeeper(zookeeper);
        let process = self.settings.iter().fold(process, |process, (name, value)| process.with(name, value));
        process.start();
        process
    }
}

/// A system at work.
#[derive(Debug)]
pub struct System {
    /// The ensemble.
    pub zookeeper: Ensemble,
    /// Both Redis servers.
    pub redis: [RedisServer; 2],
    /// Schedulers.
    pub schedulers: Vec<Process>,
    /// Data proxies.
    pub proxies: Vec<Process>,
    /// Units.
    pub units: Vec<Process>,
    master: usize,
    /// Numbers, and whether each should live.
    roster: BTreeMap<String, bool>,
    auditor: Auditor,
    writes: Writes,
    _place: Place,
}

impl System {
    /// Started, joined and led.
    #[track_caller]
    pub fn start(plan: &Plan) -> Self {
        let place = Place::take();
        let zookeeper = Ensemble::start_with(&plan.zookeeper);
        let redis = [RedisServer::start(), RedisServer::start()];
        Realm::create(&redis[0], &[]);
        redis[1].replica_of(&redis[0]);
        let ports = (redis[0].port(), zookeeper.address());
        let all = |role: &str, count: usize| {
            (0..count).map(|number| plan.process(role, number, &ports)).collect::<Vec<_>>()
        };
        let (schedulers, proxies, units) = (
            all("scheduler", plan.schedulers),
            all("data-proxy", plan.proxies),
            all("media-unit", plan.units),
        );
        let auditor = Auditor::begin(redis[0].port());
        let writes = Writes::begin(redis[0].port());
        let system = Self {
            zookeeper,
            redis,
            schedulers,
            proxies,
            units,
            master: 0,
            roster: BTreeMap::new(),
            auditor,
            writes,
            _place: place,
        };
        eventually("all processes to be ready", TIMEOUT, || system.processes().all(Process::is_ready));
        eventually("all units to be up", TIMEOUT, || system.realm().stat("up") == plan.units as i64);
        system
    }

    /// The Redis server that is the master.
    pub fn master(&self) -> &RedisServer {
        &self.redis[self.master]
    }

    /// The one that is not.
    pub fn replica(&self) -> &RedisServer {
        &self.redis[1 - self.master]
    }

    /// A client of the realm at its master.
    pub fn realm(&self) -> Realm {
        Realm::of(self.master())
    }

    /// All daemons.
    pub fn processes(&self) -> impl Iterator<Item = &Process> {
        self.schedulers.iter().chain(&self.proxies).chain(&self.units)
    }

    /// The scheduler that leads, by its own word.
    #[track_caller]
    pub fn leader(&self) -> usize {
        let mut found = None;
        eventually("a scheduler to lead", TIMEOUT, || {
            let leading = |process: &Process| process.metric("allot_scheduler_leading") == Some(1.0);
            found = self.schedulers.iter().position(|process| process.is_running() && leading(process));
            found.is_some()
        });
        found.expect("it was waited for")
    }

    /// Creates so many conferences more, and waits until all are open.
    #[track_caller]
    pub fn create(&mut self, count: usize) {
        let (mut realm, first) = (self.realm(), self.roster.len());
        for number in first..first + count {
            let e164 = format!("49{number:05}");
            realm.ok(&format!("CONF.CREATE {e164} REQUEST {e164}"));
            self.roster.insert(e164, true);
        }
        self.until_confirmed();
        self.auditor.watch(self.roster.keys().cloned().collect());
        self.healthy("all conferences to be open at the beginning");
    }

    /// Ends one that lives.
    #[track_caller]
    pub fn release_one(&mut self) {
        let Some((e164, lives)) = self.roster.iter_mut().find(|(_, lives)| **lives) else { return };
        *lives = false;
        let e164 = e164.clone();
        // Where the master is away the manager tries again.
        let (limit, mut last) = (Instant::now() + TIMEOUT, None);
        while !matches!(&last, Some(Reply::Array(_))) {
            assert!(
                Instant::now() < limit,
                "{e164} could not be ended: {last:?}; {:?}\n{}",
                self.realm().call("CONF.STAT"),
                self.master().log()
            );
            let client = RawClient::try_connect(self.master().port());
            last = client.and_then(|mut client| client.try_call(&["CONF.RELEASE", REALM, &e164]));
        }
    }

    /// Kills the master and makes the replica one, with what it has not heard of yet lost; all wires lead to it then. The old
    /// one comes back as its replica. What the rig itself asked for must have been confirmed; daemons see to theirs.
    #[track_caller]
    pub fn fail_over(&mut self, kill: bool) {
        let (old, new) = (self.master, 1 - self.master);
        if kill {
            self.redis[old].kill9();
        } else {
            self.redis[old].pause();
        }
        self.redis[new].command("REPLICAOF NO ONE");
        self.master = new;
        let port = self.redis[new].port();
        self.auditor.port.store(port, Ordering::SeqCst);
        self.writes.lead_to(port);
        for process in self.processes() {
            process.redis.iter().for_each(|wire| wire.lead_to(port));
        }
    }

    /// Whether the replica is not in step, so that a failover would lose more than it should.
    pub fn is_replica_behind(&self) -> bool {
        let info = self.redis[1 - self.master].info("replication");
        info.get("master_link_status").is_none_or(|status| status != "up")
    }

    /// The server that is not the master comes back, and follows the one that is.
    #[track_caller]
    pub fn restore_replica(&mut self) {
        let old = &self.redis[1 - self.master];
        if old.is_running() {
            old.resume();
        } else {
            old.restart();
        }
        old.replica_of(self.master());
        self.until_confirmed();
    }

    /// Waits until the replica has confirmed all that was written. One that has just attached is sent nothing before
    /// its first word, up to a second later; what it has not heard of by then a failover takes away.
    #[track_caller]
    pub fn until_confirmed(&self) {
        let mut client = self.master().raw();
        eventually("the replica to confirm", TIMEOUT, || {
            client.words("SET {r}:rig 1");
            client.words("WAIT 1 1000").int() > 0
        });
    }

    /// Waits until all is as it should be: every conference that lives is open, on a unit that runs and that has it and
    /// writes into it; none that was ended lives.
    #[track_caller]
    pub fn healthy(&self, what: &str) -> Duration {
        self.healthy_in(TIMEOUT, what)
    }

    /// The same within a time that follows from the settings.
    #[track_caller]
    pub fn healthy_in(&self, limit: Duration, what: &str) -> Duration {
        let start = Instant::now();
        let mut last = String::new();
        let limit = Instant::now() + limit;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_millis();
        while let Err(why) = self.look(since) {
            last.clone_from(&why);
            assert!(Instant::now() < limit, "waited in vain for {what}: {last}");
            std::thread::sleep(Duration::from_millis(50));
        }
        let took = start.elapsed();
        self.auditor.check();
        self.writes.check();
        took
    }

    /// What is not as it should be; each must have written since.
    fn look(&self, since: u128) -> Result<(), String> {
        let mut client = RawClient::try_connect(self.master().port()).ok_or("no connection")?;
        let numbers: Vec<&String> = self.roster.keys().collect();
        let mut by_unit: BTreeMap<String, usize> = BTreeMap::new();
        for (row, e164) in audit(&mut client, &numbers).ok_or("no audit")?.iter().zip(&numbers) {
            let lives = self.roster[*e164];
            if lives != (row.state == "open") && (lives || !matches!(row.state.as_str(), "ended" | "none")) {
                return Err(format!("{e164} is {} on {}", row.state, row.cmu));
            }
            if lives {
                if row.written != format!("{} {}", row.cmu, row.epoch) || row.at < since {
                    return Err(format!("{e164} has not written: {row:?}"));
                }
                *by_unit.entry(row.cmu.clone()).or_default() += 1;
            }
        }
        let listed = client.try_call(&["CMU.LIST", REALM]).ok_or("no list of units")?;
        let Reply::Array(listed) = listed else { return Err(format!("no list of units: {listed:?}")) };
        // Each unit has as many as it owns, by its own word, so what is open is on one unit only.
        for unit in self.units.iter().filter(|unit| unit.is_running()) {
            let pid = format!(":{}:", unit.pid());
            let owned: usize =
                by_unit.iter().filter(|(cmu, _)| cmu.contains(&pid)).map(|(_, count)| count).sum();
            let up =
                |row: &&Reply| row.field("cmu").text().contains(&pid) && row.field("state").text() != "down";
            // Who is down says nothing, and owns nothing.
            // The unit in Python reports the number of its conferences as its load; ours report that of the processor.
            let load = listed.iter().find(up).map_or(Reply::Int(0), |row| row.field("load"));
            if !unit.is_ours() && load != Reply::Int(owned as i64) {
                return Err(format!("{} says that it has {load:?} and owns {owned}", unit.name));
            }
            if unit.is_ours() {
                let has = unit
                    .metric("allot_unit_conferences")
                    .ok_or_else(|| format!("{} is silent", unit.name))?;
                if has as usize != owned {
                    return Err(format!("{} has {has} and owns {owned}", unit.name));
                }
            }
            by_unit.retain(|cmu, _| !cmu.contains(&pid));
        }
        if by_unit.is_empty() { Ok(()) } else { Err(format!("open on units that do not run: {by_unit:?}")) }
    }

    /// Unit and epoch of every conference.
    pub fn places(&self) -> Vec<(String, u64)> {
        let numbers: Vec<&String> = self.roster.keys().collect();
        let mut rows = None;
        eventually("the master to answer", TIMEOUT, || {
            rows = RawClient::try_connect(self.master().port())
                .and_then(|mut client| audit(&mut client, &numbers));
            rows.is_some()
        });
        rows.expect("it was waited for").into_iter().map(|row| (row.cmu, row.epoch)).collect()
    }

    /// Starts so many units more, and waits until they are up.
    #[track_caller]
    pub fn add_units(&mut self, plan: &Plan, count: usize) {
        let ports = (self.master().port(), self.zookeeper.address());
        let first = self.units.len();
        self.units.extend((first..first + count).map(|number| plan.process("media-unit", number, &ports)));
        let all = self.units.len() as i64;
        self.until("all units to be up", |realm| realm.stat("up") == all);
    }

    /// Waits until a condition of the realm holds.
    #[track_caller]
    pub fn until(&self, what: &str, mut condition: impl FnMut(&mut Realm) -> bool) {
        let mut realm = self.realm();
        eventually(what, TIMEOUT, || condition(&mut realm));
    }

    /// How many writes were looked at: as events, and where they stand.
    pub fn audited(&self) -> u64 {
        self.auditor.looked.load(Ordering::SeqCst).min(self.writes.seen())
    }
}
