//! The reader of the overview: health of Redis and ZooKeeper, leaders, and the rates of the module over fifteen minutes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use allot_client::{Error, query};
use allot_runtime::time::now_ms;
use redis::{Value, cmd};
use serde::Serialize;
use serde_json::Value as Json;

use super::channel::{Feed, Message, Reader};
use super::denied::Denied;
use super::events::{Event, newest_events};
use super::mass_failure_guard::read_guard;
use crate::problem::Problem;
use crate::sources::Sources;
use crate::values::{Key, keys};

/// Interval of reads.
const PAUSE: Duration = Duration::from_secs(1);
/// Points of the charts: fifteen minutes.
const POINTS: usize = 900;
/// Reads after which keys are looked for again; the first read looks, too.
const KEYS_EVERY: u32 = 10;

/// Keys whose event streams the feed of events shows.
const STREAMS: usize = 20;
/// Newest events of each stream, and of all of them together.
const EVENTS: usize = 30;

/// Counters of the module whose rates the charts draw, by the name of the line.
const GRANTS: [&str; 4] =
    ["allot_seat_held", "allot_numpool_called", "allot_conf_granted", "allot_account_logins"];
const REFUSALS: [&str; 6] = [
    "allot_seat_refused",
    "allot_seat_sold_out",
    "allot_numpool_refused",
    "allot_numpool_none_free",
    "allot_conf_refused",
    "allot_account_refused",
];
const EXPIRIES: [&str; 4] =
    ["allot_seat_expired", "allot_numpool_expired", "allot_numpool_lapsed", "allot_account_lapsed"];

/// Events per second at one instant.
#[derive(Serialize, Clone)]
struct Point {
    /// Milliseconds since 1970.
    at: u64,
    grants: f64,
    refusals: f64,
    expiries: f64,
}

/// An event, and the key whose stream has it.
#[derive(Serialize)]
struct KeyEvent {
    key: String,
    #[serde(flatten)]
    event: Event,
}

/// The leader of an election.
#[derive(Serialize)]
struct Leader {
    name: String,
    /// Its term; absent if it cannot be read.
    term: Option<u64>,
}

/// The overview, as its page shows it.
#[derive(Serialize)]
struct State<'a> {
    now: u64,
    /// The address of the Redis server.
    server: String,
    /// Fields of `INFO` that the page shows, among them all of the module's.
    info: BTreeMap<String, String>,
    /// `true` if ZooKeeper is connected; absent without a ZooKeeper.
    zookeeper: Option<bool>,
    /// The leader of each election that has one.
    leaders: BTreeMap<&'static str, Leader>,
    keys: &'a [Key],
    /// The state of the mass-failure guard of the realm; absent if it does not hold, or is not known.
    guard: Option<Json>,
    /// Whether the state of the guard is known: the user of Redis may have no right to read it.
    guard_known: bool,
    /// The newest events of the first [`STREAMS`] keys, the newest first.
    events: Vec<KeyEvent>,
    points: &'a VecDeque<Point>,
}

pub(super) struct Overview {
    sources: Arc<Sources>,
    points: VecDeque<Point>,
    /// The sums of the counters at the last read.
    last: Option<(u64, [u64; 3])>,
    keys: Vec<Key>,
    reads: u32,
    denied: Denied,
}

impl Overview {
    pub(super) fn new(sources: Arc<Sources>) -> Self {
        let (points, keys, denied) = (VecDeque::new(), Vec::new(), Denied::default());
        Self { sources, points, last: None, keys, reads: 0, denied }
    }

    fn add_point(&mut self, now: u64, info: &BTreeMap<String, String>) {
        let sum = |names: &[&str]| -> u64 {
            names.iter().filter_map(|name| info.get(*name)?.parse::<u64>().ok()).sum()
        };
        let sums = [sum(&GRANTS), sum(&REFUSALS), sum(&EXPIRIES)];
        if let Some((at, last)) = self.last.filter(|(at, _)| *at < now) {
            let seconds = (now - at) as f64 / 1000.0;
            // Counters begin at zero when the server restarts.
            let [grants, refusals, expiries] =
                [0, 1, 2].map(|line: usize| match (sums.get(line), last.get(line)) {
                    (Some(sum), Some(last)) => sum.saturating_sub(*last) as f64 / seconds,
                    _ => 0.0,
                });
            if self.points.len() >= POINTS {
                self.points.pop_front();
            }
            self.points.push_back(Point { at: now, grants, refusals, expiries });
        }
        self.last = Some((now, sums));
    }

    async fn leaders(&self) -> BTreeMap<&'static str, Leader> {
        let sources = &self.sources;
        let mut leaders = BTreeMap::new();
        let Some(store) = &sources.tasks else { return leaders };
        let elections = [
            ("scheduler", format!("{}/election", sources.places.realm_dir)),
            ("accounts", format!("{}/election", sources.places.accounts_dir)),
            ("compaction", store.paths.election()),
        ];
        let coordinator = &sources.process.coordinator;
        for (name, election) in elections {
            // An election that nobody has joined yet has no leader, like one whose candidates are gone.
            if let Ok(Some(leader)) = coordinator.leader(&election).await {
                let term = coordinator.term(&election).await.ok().flatten();
                leaders.insert(name, Leader { name: leader, term: term.map(|term| term.0) });
            }
        }
        leaders
    }
}

impl Overview {
    /// The newest events of all streams. A stream that this user of Redis may not read is left out.
    async fn events(&mut self) -> Result<Vec<KeyEvent>, Error> {
        let store = &self.sources.viewer;
        let mut all = Vec::new();
        for Key { key, .. } in self.keys.iter().take(STREAMS) {
            // The request is the same for the streams of all families.
            let read = store.realm(key, async |stream| newest_events(&stream, key, EVENTS).await);
            match self.denied.ask(&format!("events of {key}"), read).await {
                Ok(events) => {
                    let events = events.into_iter().flatten();
                    all.extend(events.map(|event| KeyEvent { key: key.clone(), event }));
                }
                Err(Error::Refused { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        all.sort_by_key(|entry| Reverse(entry.event.place()));
        all.truncate(EVENTS);
        Ok(all)
    }

    /// Whether the state of the mass-failure guard is known, and the state, as the scheduler writes it.
    async fn guard(&mut self) -> Result<(bool, Option<Json>), Error> {
        let key = &self.sources.places.realm;
        let read = self.sources.viewer.realm(key, async |realm| read_guard(&realm).await);
        match self.denied.ask("guard", read).await {
            Ok(Some(guard)) => Ok((true, guard)),
            Ok(None) | Err(Error::Refused { .. }) => Ok((false, None)),
            Err(error) => Err(error),
        }
    }
}

impl Reader for Overview {
    async fn read(&mut self, feed: &Feed) -> Result<Duration, Problem> {
        let sources = Arc::clone(&self.sources);
        let key = &sources.places.realm;
        let mut session = sources.viewer.session(key).await?;
        let asked = query::<Value>(&mut session.connection, cmd("INFO").arg("everything")).await;
        let info = parse_info(sources.viewer.checked(key, asked)?);
        let now = now_ms();
        self.add_point(now, &info);
        if self.reads.is_multiple_of(KEYS_EVERY) {
            self.keys = sources.viewer.checked(key, keys(&mut session.connection).await)?;
        }
        self.reads = self.reads.wrapping_add(1);
        let status = sources.process.coordinator.status();
        let (guard_known, guard) = self.guard().await?;
        let events = self.events().await?;
        let state = State {
            now,
            server: session.node.to_string(),
            info: info.into_iter().filter(|(name, _)| is_shown(name)).collect(),
            zookeeper: (!sources.process.standalone).then(|| status.is_up()),
            leaders: self.leaders().await,
            keys: &self.keys,
            guard,
            guard_known,
            events,
            points: &self.points,
        };
        feed.send_state(Message::new("state", &state));
        Ok(PAUSE)
    }
}

/// The fields of `INFO`, without headings.
fn parse_info(reply: Value) -> BTreeMap<String, String> {
    let text = match reply {
        Value::BulkString(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Value::VerbatimString { text, .. } => text,
        _ => return BTreeMap::new(),
    };
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Whether the page shows this field of `INFO`.
fn is_shown(name: &str) -> bool {
    const SHOWN: [&str; 14] = [
        "redis_version",
        "valkey_version",
        "uptime_in_seconds",
        "role",
        "connected_slaves",
        "connected_clients",
        "used_memory",
        "used_memory_human",
        "maxmemory",
        "maxmemory_human",
        "instantaneous_ops_per_sec",
        "used_cpu_sys",
        "loading",
        "rdb_last_bgsave_status",
    ];
    SHOWN.contains(&name) || name.starts_with("allot_")
}
