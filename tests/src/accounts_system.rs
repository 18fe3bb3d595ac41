//! A whole system that assigns accounts: Redis, ZooKeeper, daemons with the `accounts` role, client systems, and looks at
//! all of them: what the book says, what the tree shows, what clients use, and what the platform noticed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use allot_coordination::session::Connector;
use allot_coordination::zookeeper::ZooKeeper;
use allot_coordination::{Coordinator, Op, Tree};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::books::Book;
use crate::clients::Clients;
use crate::process::Process;
use crate::raw::Reply;
use crate::redis_server::RedisServer;
use crate::wait::{TIMEOUT, eventually};
use crate::zookeeper::{Ensemble, patient};

/// What an instance is shown: accounts with what their nodes say.
pub type Shown = BTreeMap<String, Value>;

/// An account as the book has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// `module/instance`; nothing where nobody has it.
    pub place: Option<String>,
    /// `free`, `assigned`, `revoking` or `frozen`.
    pub state: String,
    /// Of its assignment.
    pub epoch: i64,
    /// The instructions at its flat price.
    pub quota: i64,
}

/// The largest quota of an account in a book of these tests.
const LARGEST: i64 = 100;

/// The system.
#[derive(Debug)]
pub struct AccountsSystem {
    /// Where client systems come.
    pub zookeeper: Ensemble,
    /// Where the book is.
    pub redis: RedisServer,
    /// Daemons.
    pub daemons: Vec<Process>,
    /// Client systems.
    pub clients: Vec<Clients>,
    platform: TempDir,
    looking: Option<Looking>,
}

/// A session of a test's own with ZooKeeper. It ends when this is dropped.
pub struct Looking {
    runtime: Runtime,
    coordinator: Coordinator,
}

impl std::fmt::Debug for Looking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Looking")
    }
}

impl Looking {
    /// A session.
    pub fn at(address: &str) -> Self {
        Self::over(ZooKeeper::new(address.parse().unwrap(), Duration::from_secs(30)))
    }

    /// A session of a user: what it makes is its alone.
    pub fn alone_at(address: &str, user: &str) -> Self {
        Self::over(
            ZooKeeper::new(address.parse().unwrap(), Duration::from_secs(30))
                .with_user(user, "secret", false),
        )
    }

    fn over(connector: ZooKeeper) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let connector: Arc<dyn Connector> = Arc::new(connector);
        let coordinator = runtime.block_on(async { Coordinator::start(connector) });
        Self { runtime, coordinator }
    }

    /// Does something with the tree.
    pub fn run<T>(&self, act: impl AsyncFnOnce(Tree) -> T) -> T {
        self.runtime.block_on(async {
            self.coordinator.up().await.expect("ZooKeeper is up");
            act(self.coordinator.tree()).await
        })
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        self.runtime.block_on(self.coordinator.close());
    }
}

impl AccountsSystem {
    /// So many daemons, and a book without modules.
    #[track_caller]
    pub fn start(daemons: usize) -> Self {
        Self::start_on(Ensemble::alone(), daemons)
    }

    /// The same with this ZooKeeper.
    #[track_caller]
    pub fn start_on(zookeeper: Ensemble, daemons: usize) -> Self {
        let redis = RedisServer::start();
        Book::of(&redis).ok("BOOK");
        let platform = tempfile::Builder::new().prefix("allot-platform-").tempdir().expect("a folder");
        let (none, clients) = (Vec::new(), Vec::new());
        let mut system = Self { zookeeper, redis, daemons: none, clients, platform, looking: None };
        for _ in 0..daemons {
            system.add_daemon(&[]);
        }
        eventually("a daemon to lead", TIMEOUT, || system.daemons.is_empty() || system.leader().is_some());
        system
    }

    /// One more daemon, with these variables.
    pub fn add_daemon(&mut self, variables: &[(&str, &str)]) -> usize {
        let name = format!("accounts-{}", self.daemons.len());
        let process = Process::new(&name, &["--roles", "accounts", "--name", &name]);
        let process = process.behind_redis(self.redis.port()).behind_zookeeper(&self.zookeeper.address());
        let process = [
            ("ALLOT_ZOOKEEPER_SESSION", "2s"),
            ("ALLOT_ACCOUNTS_GRACE", "1s"),
            ("ALLOT_ACCOUNTS_BARRIER", "3s"),
            // As long as clients log in for.
            ("ALLOT_ACCOUNTS_MAX_TTL", "12s"),
            ("ALLOT_ACCOUNTS_TICK", "100ms"),
        ]
        .iter()
        .chain(variables)
        .fold(process, |process, (name, value)| process.with(name, value));
        process.start();
        self.daemons.push(process);
        self.daemons.len() - 1
    }

    /// The daemon that leads, by its own word.
    pub fn leader(&self) -> Option<usize> {
        let leads = |process: &Process| process.metric("allot_accounts_leading") == Some(1.0);
        self.daemons.iter().position(|process| process.is_running() && leads(process))
    }

    /// The same, waited for.
    #[track_caller]
    pub fn until_led(&self) -> usize {
        let mut found = None;
        eventually("a daemon to lead", TIMEOUT, || {
            found = self.leader();
            found.is_some()
        });
        found.expect("it was waited for")
    }

    /// A client of the book.
    pub fn book(&self) -> Book {
        Book::of(&self.redis)
    }

    /// A process with these instances (`department/module/host:port`).
    pub fn add_clients(&mut self, more: &[&str], instances: &[&str]) -> usize {
        let clients = self.clients_of(more, instances);
        self.clients.push(clients);
        self.clients.len() - 1
    }

    /// The same, to be kept by the caller.
    pub fn clients_of(&self, more: &[&str], instances: &[&str]) -> Clients {
        let more = [&["--session", "4"], more].concat();
        Clients::start(&self.zookeeper.address(), self.platform.path(), &more, instances)
    }

    /// What the platform noticed: each line is an account that two were logged in with.
    pub fn violations(&self) -> String {
        fs::read_to_string(self.platform.path().join("violations")).unwrap_or_default()
    }

    /// Does something with the tree.
    pub fn with_tree<T>(&mut self, act: impl AsyncFnOnce(Tree) -> T) -> T {
        let address = self.zookeeper.address();
        self.looking.get_or_insert_with(|| Looking::at(&address)).run(act)
    }

    /// What each instance is shown, by `department/module/instance`.
    pub fn shown(&mut self) -> BTreeMap<String, Shown> {
        self.with_tree(async |tree| {
            let mut all = BTreeMap::new();
            let list =
                async |path: &str| patient(async || tree.children(path).await).await.unwrap_or_default();
            for department in list("/resource").await.iter().filter(|name| *name != "notify") {
                for module in list(&format!("/resource/{department}")).await {
                    let dir = format!("/resource/{department}/{module}");
                    for name in list(&dir).await {
                        let Some(instance) = name.strip_suffix("-alloc") else { continue };
                        let alloc = format!("{dir}/{name}");
                        let names = list(&alloc).await;
                        let nodes = patient(async || tree.get_many(&alloc, names.clone()).await).await;
                        let nodes = nodes.unwrap_or_default();
                        let read = |data: &[u8]| serde_json::from_slice(data).unwrap_or(Value::Null);
                        let shown: Shown =
                            nodes.into_iter().map(|(name, node)| (name, read(&node.data))).collect();
                        all.insert(format!("{department}/{module}/{instance}"), shown);
                    }
                }
            }
            all
        })
    }

    /// Fails if an account is shown to two instances in one and the same instant.
    #[track_caller]
    pub fn check_tree(&mut self) {
        let mut at: BTreeMap<String, String> = BTreeMap::new();
        for (instance, accounts) in self.shown() {
            for account in accounts.into_keys() {
                let path = format!("/resource/{instance}-alloc/{account}");
                let Some(other) = at.insert(account.clone(), path.clone()) else { continue };
                // They were read one after the other; a multi looks at both at once.
                let check = |path: &str| Op::Check { path: path.to_owned(), version: None };
                let both = [check(&path), check(&other)];
                let both = self.with_tree(async |tree| tree.multi(both.to_vec()).await);
                assert!(both.is_err(), "{account} is shown at {path} and at {other}");
            }
        }
    }

    /// The names of the accounts that an instance, `<module>/<instance>`, has by the book.
    pub fn has(&self, place: &str) -> Vec<String> {
        let held = self.held().unwrap_or_default().into_iter();
        held.filter(|(_, one)| one.place.as_deref() == Some(place)).map(|(account, _)| account).collect()
    }

    /// All accounts, as the book has them.
    pub fn held(&self) -> Option<BTreeMap<String, Held>> {
        let mut client = crate::raw::RawClient::try_connect(self.redis.port())?;
        let key = crate::books::BOOK;
        let reply = client.try_call(&["ACCOUNT.LIST", key, "COUNT", "10000"])?;
        let Reply::Array(parts) = reply else { return None };
        let text = |reply: Reply| if reply.is_null() { None } else { Some(reply.text()) };
        let row = |record: &Reply| {
            let instance = text(record.field("instance"));
            let place = instance.map(|instance| format!("{}/{instance}", record.field("module").text()));
            let (state, epoch) = (record.field("state").text(), record.field("epoch").int());
            (record.field("account").text(), Held { place, state, epoch, quota: record.field("quota").int() })
        };
        Some(parts.get(1)?.array().iter().map(row).collect())
    }

    /// Waits until all is as it should be: the book assigns accounts evenly to exactly those who are there, the tree shows what the
    /// book says, clients use what the tree shows, and the platform noticed nothing.
    #[track_caller]
    pub fn healthy(&mut self, what: &str) -> Duration {
        let start = Instant::now();
        loop {
            let looked = self.look();
            let violations = self.violations();
            assert!(violations.is_empty(), "{what}: {violations}");
            let Err(why) = looked else { break };
            assert!(start.elapsed() < TIMEOUT, "waited in vain for {what}: {why}");
            std::thread::sleep(Duration::from_millis(50));
        }
        self.check_tree();
        start.elapsed()
    }

    /// What is not as it should be.
    pub fn look(&mut self) -> Result<(), String> {
        let held = self.held().ok_or("no book")?;
        let mut used: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for clients in &mut self.clients {
            used.extend(clients.uses());
        }
        let shown = self.shown();
        let mut book: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (account, one) in held.iter().filter(|(_, one)| one.state != "free" && one.state != "frozen") {
            let Some(place) = &one.place else { return Err(format!("{account} is {} nowhere", one.state)) };
            if one.state != "assigned" {
                return Err(format!("{account} is {} at {place}", one.state));
            }
            book.entry(place.clone()).or_default().insert(account.clone());
        }
        let without_department = |path: &str| path.split_once('/').map_or("", |(_, rest)| rest).to_owned();
        let mut problems = String::new();
        for (instance, accounts) in &shown {
            let place = without_department(instance);
            let empty = BTreeSet::new();
            let expected = book.get(&place).unwrap_or(&empty);
            if !accounts.keys().eq(expected.iter()) {
                let _ = write!(problems, "{instance} is shown {accounts:?} and has {expected:?}; ");
            }
            for (account, word) in accounts {
                let epoch = held.get(account).map(|one| one.epoch);
                if word["state"] != "assigned" || word["epoch"].as_i64() != epoch {
                    let _ = write!(problems, "{account} at {instance} is {word}, assigned at {epoch:?}; ");
                }
            }
            if !used.contains_key(instance) {
                let _ = write!(problems, "{instance} is not there; ");
            }
        }
        for (instance, accounts) in &used {
            let ours: BTreeSet<&String> = accounts.iter().collect();
            let there: BTreeSet<&String> =
                shown.get(instance).map(|all| all.keys().collect()).unwrap_or_default();
            if !shown.contains_key(instance) || ours != there {
                let _ = write!(problems, "{instance} uses {ours:?} of {there:?}; ");
            }
        }
        self.look_at_shares(&mut problems, &used);
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    /// Whether the book assigns accounts to exactly those who are there, evenly.
    fn look_at_shares(&self, problems: &mut String, used: &BTreeMap<String, Vec<String>>) {
        let mut modules: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for path in used.keys() {
            let mut parts = path.splitn(3, '/').skip(1);
            if let (Some(module), Some(instance)) = (parts.next(), parts.next()) {
                modules.entry(module).or_default().insert(instance);
            }
        }
        let (mut book, held) = (self.book(), self.held().unwrap_or_default());
        for (module, instances) in modules {
            let record = book.ok(&format!("INFO MODULE {module}"));
            let attached = record.field("attached");
            let names: BTreeSet<String> =
                attached.array().iter().map(|one| one.field("instance").text()).collect();
            if !names.iter().map(String::as_str).eq(instances.iter().copied()) {
                let _ = write!(problems, "{module} has {names:?}, there are {instances:?}; ");
            }
            let active = attached.array().iter().filter(|one| one.field("state").text() == "active");
            let level = |one: &Reply| {
                let place = format!("{module}/{}", one.field("instance").text());
                let own = held.values().filter(|held| held.place.as_ref() == Some(&place));
                own.map(|held| held.quota).sum::<i64>() - one.field("target").int()
            };
            let levels: Vec<i64> = active.map(level).collect();
            let spread = levels.iter().max().unwrap_or(&0) - levels.iter().min().unwrap_or(&0);
            if spread > LARGEST {
                let _ = write!(problems, "{module} is assigned {levels:?} instructions; ");
            }
            if record.field("free").int() > record.field("reserve").int() && !levels.is_empty() {
                let _ = write!(problems, "{module} has free accounts; ");
            }
        }
    }

    /// Versions of all that is in the tree, of instances and of their accounts: nothing was written between two that are
    /// equal.
    pub fn versions(&mut self) -> Vec<(String, i32, i64)> {
        let shown = self.shown();
        self.with_tree(async |tree| {
            let mut all = Vec::new();
            for (instance, accounts) in shown {
                let alloc = format!("/resource/{instance}-alloc");
                for path in [format!("/resource/{instance}"), alloc.clone()] {
                    if let Ok(Some(node)) = patient(async || tree.get(&path).await).await {
                        all.push((path, node.version.0, node.created));
                    }
                }
                let names: Vec<String> = accounts.into_keys().collect();
                let nodes = patient(async || tree.get_many(&alloc, names.clone()).await).await;
                for (name, node) in nodes.unwrap_or_default() {
                    all.push((format!("{alloc}/{name}"), node.version.0, node.created));
                }
            }
            all.sort();
            all
        })
    }
}

impl Drop for AccountsSystem {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = fs::read_to_string(self.platform.path().join(".log")).unwrap_or_default();
            // What a cut looks like says nothing here.
            let lines: Vec<&str> =
                log.lines().filter(|line| !line.starts_with("Connection dropped")).collect();
            let tail = lines.get(lines.len().saturating_sub(40)..).unwrap_or(&lines);
            eprintln!("---- the last of what clients said\n{}", tail.join("\n"));
        }
    }
}
