//! Redis with the module, within this process: a master and a replica that lags behind it, with the real state machines
//! of `allot-core`. Programs connect through [`Network`](super::network::Network).
//!
//! Replication is computed when it matters: a write has reached the replica once the lag has passed, unless the
//! replica was cut off. A failover makes the replica the master with what had reached it; the rest is lost.

mod account_commands;
mod arguments;
mod command;
mod database;
mod realm_commands;
mod reply;
pub(super) mod serve;
mod stream;
mod stream_commands;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use allot_core::account::Book;
use allot_core::conf::Realm;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use self::command::{Command, Word};
use self::database::{Database, Kind, Write};
use self::reply::Reply;
use self::stream_commands::Done;
use super::clock;
use super::invariants::Observer;

/// How many servers there are.
pub(super) const SERVERS: usize = 2;

/// The servers. Clones share them.
#[derive(Clone)]
pub(super) struct Redis {
    state: Arc<Mutex<State>>,
    /// Changes when the replica is connected or cut off.
    replication: watch::Sender<u64>,
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("simulated Redis")
    }
}

struct State {
    realm: Word,
    book: Word,
    servers: [Server; SERVERS],
    /// Which server is the master.
    master: usize,
    /// How many failovers there were, which is also the number of the last one.
    failovers: u64,
    /// Transactions of the master that the replica may not have yet, and when they were written.
    log: VecDeque<(Instant, Vec<Write>)>,
    /// How long a write takes to the replica.
    lag: Duration,
    /// Whether the replica is connected to its master; since when.
    connected: Option<Instant>,
    /// What an operator sends to the master just before the first command of a name arrives there.
    before: HashMap<String, Command>,
    traffic: Traffic,
    observer: Observer,
}

/// What programs sent: equal runs have equal traffic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Traffic {
    /// How many commands.
    pub(super) commands: u64,
    /// A hash of all commands and of the times at which they arrived.
    hash: u64,
}

impl Traffic {
    fn note(&mut self, server: usize, elapsed_ms: u64, command: &Command) {
        let begun = [self.hash, elapsed_ms, server as u64];
        let begun = begun.into_iter().fold(0, |hash, number| xxh3_64_with_seed(&number.to_le_bytes(), hash));
        let hash = command.words().fold(begun, |hash, word| xxh3_64_with_seed(word, hash));
        *self = Self { commands: self.commands + 1, hash };
    }
}

struct Server {
    database: Database,
    /// Programs wait here for entries of a stream.
    readers: HashMap<Word, Readers>,
    /// The timer of the values waits here for an earlier deadline, and until when it sleeps.
    timer: Arc<Notify>,
    wake_at: i64,
    /// How often the server's connections were closed, by a stop or a change of role.
    closed: watch::Sender<u64>,
    /// Whether programs can connect.
    is_up: bool,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            database: Database::default(),
            readers: HashMap::new(),
            timer: Arc::default(),
            wake_at: i64::MAX,
            closed: watch::Sender::new(0),
            is_up: true,
        }
    }
}

/// The data of a server at some time.
pub(super) struct Saved(Database);

/// The programs that wait for entries of one stream.
#[derive(Default)]
struct Readers {
    /// Those that read the stream without a group: an entry is for all of them.
    all: Arc<Notify>,
    /// Those of each group: an entry is for the one that has waited longest.
    groups: BTreeMap<Word, Arc<Notify>>,
}

impl Readers {
    /// Where a program of this group, or of none, waits.
    fn of(&mut self, group: Option<Word>) -> Arc<Notify> {
        group.map_or(&mut self.all, |group| self.groups.entry(group).or_default()).clone()
    }
}

/// What the server does with a command.
enum Answer {
    Reply(Reply),
    /// Nothing to read yet: wait for an entry of this stream.
    Wait(Arc<Notify>),
}

impl Redis {
    /// A master and its replica, for the realm and the book at these keys.
    pub(super) fn start((realm, book): (&str, &str), lag: Duration, observer: Observer) -> Self {
        let state = State {
            realm: Word::copy_from_slice(realm.as_bytes()),
            book: Word::copy_from_slice(book.as_bytes()),
            servers: Default::default(),
            master: 0,
            failovers: 0,
            log: VecDeque::new(),
            lag,
            connected: Some(Instant::now()),
            before: HashMap::new(),
            traffic: Traffic::default(),
            observer,
        };
        let redis = Self { state: Arc::new(Mutex::new(state)), replication: watch::Sender::new(0) };
        for server in 0..SERVERS {
            tokio::spawn(redis.clone().run_timer(server));
        }
        redis
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks at the master's realm, if it exists.
    pub(super) fn realm<T>(&self, look: impl FnOnce(&Realm) -> T) -> Option<T> {
        self.with(|state| state.servers[state.master].database.realms.get(&state.realm).map(look))
    }

    /// Looks at the master's realm, if it exists and the master is up, with the time of the master.
    pub(super) fn realm_at_its_time<T>(&self, look: impl FnOnce(&Realm, i64) -> T) -> Option<T> {
        self.with(|state| {
            let server = Some(&state.servers[state.master]).filter(|server| server.is_up)?;
            let realm = server.database.realms.get(&state.realm)?;
            Some(look(realm, clock::server_ms(state.master)))
        })
    }

    /// Looks at the master's book, if it exists.
    pub(super) fn book<T>(&self, look: impl FnOnce(&Book) -> T) -> Option<T> {
        self.with(|state| state.servers[state.master].database.books.get(&state.book).map(look))
    }

    /// How many entries consumers of the master's streams took and did not acknowledge.
    pub(super) fn unacknowledged(&self) -> usize {
        self.with(|state| {
            let streams = state.servers[state.master].database.streams.values();
            streams.flat_map(|stream| stream.groups.values()).map(|group| group.pending.len()).sum()
        })
    }

    /// Looks at the realm as the replica has it now.
    pub(super) fn replica<T>(&self, look: impl FnOnce(&Realm) -> T) -> Option<T> {
        self.with(|state| {
            state.replicate();
            state.servers[state.replica()].database.realms.get(&state.realm).map(look)
        })
    }

    /// Sends a command to the master, as an operator would.
    pub(super) fn run(&self, command: &[&str]) -> redis::RedisResult<Reply> {
        let command = Command::new(command);
        let master = self.with(|state| state.master);
        self.answer_at_once(master, &command).extract_error()
    }

    /// Sends a command to the master, as an operator would, just before the next command of this name arrives there.
    pub(super) fn run_before(&self, name: &str, command: &[&str]) {
        self.with(|state| state.before.insert(name.to_owned(), Command::new(command)));
    }

    /// Whether no command of this name has arrived since [`run_before`](Self::run_before).
    pub(super) fn awaits(&self, name: &str) -> bool {
        self.with(|state| state.before.contains_key(name))
    }

    /// What programs have sent.
    pub(super) fn traffic(&self) -> Traffic {
        self.with(|state| state.traffic)
    }

    /// Cuts the replica off from its master, or connects it again.
    pub(super) fn connect_replica(&self, connected: bool) {
        self.with(|state| {
            state.replicate();
            state.connected = connected.then(Instant::now);
        });
        self.replication.send_modify(|changes| *changes += 1);
    }

    /// The replica becomes the master, with the writes that have reached it. The old master comes back as its replica.
    pub(super) fn fail_over(&self) {
        self.with(|state| {
            state.replicate();
            let old = state.master;
            state.master = state.replica();
            state.failovers += 1;
            state.log.clear();
            state.servers[old].database = state.servers[state.master].database.clone();
            state.connected = Some(Instant::now());
            for server in &mut state.servers {
                server.closed.send_modify(|closed| *closed += 1);
                server.timer.notify_one();
            }
            if let Some(realm) = state.servers[state.master].database.realms.get(&state.realm) {
                state.observer.failed_over(realm);
            }
        });
        self.replication.send_modify(|changes| *changes += 1);
    }

    /// The data of the master, as a file would keep them.
    pub(super) fn save(&self) -> Saved {
        self.with(|state| Saved(state.servers[state.master].database.clone()))
    }

    /// The master starts again with older data. Without any, its data are deleted while it runs.
    pub(super) fn lose_data(&self, saved: Option<Saved>) {
        self.with(|state| {
            let restarts = saved.is_some();
            let database = saved.map_or_else(Database::default, |saved| saved.0);
            state.log.clear();
            state.observer.lost_data();
            for server in &mut state.servers {
                server.database = database.clone();
                if restarts {
                    server.closed.send_modify(|closed| *closed += 1);
                }
                server.timer.notify_one();
            }
        });
        self.replication.send_modify(|changes| *changes += 1);
    }

    /// Starts or stops the master. It keeps its data.
    pub(super) fn set_master_up(&self, is_up: bool) {
        self.with(|state| {
            let server = &mut state.servers[state.master];
            server.is_up = is_up;
            server.closed.send_modify(|closed| *closed += 1);
            server.timer.notify_one();
        });
    }

    /// Carries out a command that does not wait.
    fn answer_at_once(&self, server: usize, command: &Command) -> Reply {
        match self.with(|state| state.answer(server, command)) {
            Answer::Reply(reply) => reply,
            Answer::Wait(_) => unreachable!("only reads of streams wait"),
        }
    }

    /// Whether a server accepts connections, and the count of their closings.
    fn accept(&self, server: usize) -> Option<watch::Receiver<u64>> {
        self.with(|state| {
            let server = &state.servers[server];
            server.is_up.then(|| server.closed.subscribe())
        })
    }

    /// Waits until the replica has all that was written by now, for at most `limit`; how many replicas have.
    async fn wait(&self, limit: Duration) -> usize {
        let deadline = Instant::now() + limit;
        let written = Instant::now();
        let mut replication = self.replication.subscribe();
        loop {
            replication.borrow_and_update();
            let confirmed = self.with(|state| state.connected.map(|since| since.max(written) + state.lag));
            let is_confirmed = confirmed.is_some_and(|at| at <= Instant::now());
            if is_confirmed || Instant::now() >= deadline {
                return is_confirmed.into();
            }
            let until = confirmed.unwrap_or(deadline).min(deadline);
            tokio::select! {
                () = tokio::time::sleep_until(until) => {}
                _ = replication.changed() => {}
            }
        }
    }

    /// The module's timer, which carries out the deadlines of all values while its server is the master.
    async fn run_timer(self, server: usize) {
        loop {
            let (wake_at, earlier) = self.with(|state| {
                let is_master = state.master == server && state.servers[server].is_up;
                let mut log = Vec::new();
                let now = clock::server_ms(server);
                let wake_at = state.servers[server].database.wake_at().filter(|_| is_master);
                if wake_at.is_some_and(|at| at <= now) {
                    state.servers[server].database.tick(now, &mut log);
                    state.written(server, log);
                }
                let wake_at = state.servers[server].database.wake_at().filter(|_| is_master);
                state.servers[server].wake_at = wake_at.unwrap_or(i64::MAX);
                (wake_at, state.servers[server].timer.clone())
            });
            let pause = wake_at.map_or(Duration::from_secs(3600), |at| {
                Duration::from_millis((at - clock::server_ms(server)).max(1) as u64)
            });
            tokio::select! {
                () = sleep(pause) => {}
                () = earlier.notified() => {}
            }
        }
    }
}

impl State {
    fn replica(&self) -> usize {
        1 - self.master
    }

    /// Carries out a command at a server.
    fn answer(&mut self, server: usize, command: &Command) -> Answer {
        let elapsed_ms = clock::elapsed_ms();
        let now = clock::server_ms_at(elapsed_ms, server);
        let mut log = Vec::new();
        self.traffic.note(server, elapsed_ms, command);
        if let Some(reply) = self.about_server(server, command) {
            return Answer::Reply(reply);
        }
        if server != self.master {
            return Answer::Reply(reply::error("READONLY You can't write against a read only replica."));
        }
        if !self.before.is_empty()
            && let Some(before) = self.before.remove(&*String::from_utf8_lossy(command.name()))
        {
            self.answer(server, &before);
        }
        let database = &mut self.servers[server].database;
        let done = if command.name() == b"CONF.SET" {
            let reply = realm_commands::set(database, now, command, &mut log);
            if let Some(wrong) = realm_commands::stale_write(database, command, &reply) {
                self.observer.violated(wrong);
            }
            Some(Done::Reply(reply))
        } else {
            let realm = realm_commands::run(database, now, command, &mut log);
            let value = realm.or_else(|| account_commands::run(database, now, command, &mut log));
            value.map(Done::Reply).or_else(|| stream_commands::run(database, now, command, &mut log))
        };
        self.written(server, log);
        match done {
            Some(Done::Reply(reply)) => Answer::Reply(reply),
            Some(Done::Nothing { stream, group }) => {
                Answer::Wait(self.servers[server].readers.entry(stream).or_default().of(group))
            }
            None => {
                let text = format!("ERR unknown command '{}'", command.name().escape_ascii());
                Answer::Reply(reply::error(&text))
            }
        }
    }

    /// Commands about the server itself.
    fn about_server(&self, server: usize, command: &Command) -> Option<Reply> {
        match command.name() {
            b"PING" => Some(Reply::Okay),
            b"ROLE" if server == self.master => {
                let replica = reply::texts([host(self.replica()).as_str(), "6379", "0"]);
                let replicas = if self.connected.is_some() { vec![replica] } else { Vec::new() };
                Some(Reply::Array(vec![reply::text("master"), Reply::Int(0), Reply::Array(replicas)]))
            }
            b"ROLE" => Some(reply::texts(["slave", &host(self.master), "6379", "connected", "0"])),
            _ => None,
        }
    }

    /// A transaction was written: the replica gets it, and readers and timer are woken.
    fn written(&mut self, server: usize, writes: Vec<Write>) {
        if writes.is_empty() {
            return;
        }
        let Server { database, readers, timer, wake_at, .. } = &mut self.servers[server];
        for write in &writes {
            match write {
                Write::Add { key, .. } => {
                    if let Some(readers) = readers.get(key) {
                        readers.all.notify_waiters();
                        readers.groups.values().for_each(|group| group.notify_one());
                    }
                }
                Write::Deliver { key, group, .. } => {
                    if database.streams.get(key).is_some_and(|stream| stream.has_unread(group))
                        && let Some(next) = readers.get(key).and_then(|readers| readers.groups.get(group))
                    {
                        next.notify_one();
                    }
                }
                Write::Events { key, touched, .. } => {
                    if database.wake_at().is_some_and(|at| at < *wake_at) {
                        timer.notify_one();
                    }
                    if let Some(realm) = database.realms.get(key) {
                        self.observer.changed(realm, touched);
                    }
                    if let Some(book) = database.books.get(key) {
                        self.observer.book_changed(book);
                    }
                }
                _ => {}
            }
        }
        self.log.push_back((Instant::now(), writes));
        if self.log.len().is_multiple_of(1024) {
            self.replicate();
        }
    }

    /// Carries out at the replica what has reached it.
    fn replicate(&mut self) {
        let Some(since) = self.connected else { return };
        let now = Instant::now();
        let replica = self.replica();
        while let Some((written, writes)) = self.log.front() {
            if since.max(*written) + self.lag > now {
                return;
            }
            let database = &mut self.servers[replica].database;
            for write in writes {
                database.apply(write);
                if let Write::Events { key, kind: Kind::Realm, touched, .. } = write
                    && let Some(realm) = database.realms.get(key)
                {
                    self.observer.replicated(realm, touched);
                }
            }
            self.log.pop_front();
        }
    }
}

/// The host name of a server.
pub(super) fn host(server: usize) -> String {
    format!("redis-{server}")
}
