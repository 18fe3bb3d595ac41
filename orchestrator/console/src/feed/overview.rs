//! The reader of the overview: health of Redis and ZooKeeper, leaders, and the rates of the module over fifteen minutes.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use allot_client::{Error, RealmStore};
use allot_runtime::time::now_ms;
use redis::{Value, cmd};
use serde::Serialize;
use serde_json::Value as Json;

use super::events::{Event, newest_events};
use super::points::Points;
use super::reader::Reader;
use super::realm::mass_failure_guard;
use crate::channel::{Feed, Message};
use crate::problem::Problem;
use crate::state::Console;

/// Interval of reads.
const PAUSE: Duration = Duration::from_secs(1);
/// Keys whose event streams the feed of events shows.
const STREAMS: usize = 20;
/// Newest events of each stream, and of all of them together.
const EVENTS: usize = 30;

/// Counters of the module whose rates the charts draw, by the name of the line.
const GRANTS: [&str; 4] =
    ["allot_seat_held", "allot_numpool_called", "allot_conf_granted", "allot_account_logins"];
pub(crate) const REFUSALS: [&str; 6] = [
    "allot_seat_refused",
    "allot_seat_sold_out",
    "allot_numpool_refused",
    "allot_numpool_none_free",
    "allot_conf_refused",
    "allot_account_refused",
];
const EXPIRIES: [&str; 4] =
    ["allot_seat_expired", "allot_numpool_expired", "allot_numpool_lapsed", "allot_account_lapsed"];

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
    /// The state of the mass-failure guard of the realm; absent if it does not hold, or is not known.
    guard: Option<Json>,
    /// Whether the state of the guard is known: the user of Redis may have no right to read it.
    guard_known: bool,
    /// The newest events of the first [`STREAMS`] keys, the newest first.
    events: Vec<KeyEvent>,
    /// Grants, refusals and expiries a second.
    points: &'a Points<[f64; 3]>,
}

#[derive(Default)]
pub(super) struct Overview {
    points: Points<[f64; 3]>,
    /// The sums of the counters at the last read.
    last: Option<[u64; 3]>,
}

impl Overview {
    fn add_point(&mut self, now: u64, info: &BTreeMap<String, String>) {
        let sum = |names: &[&str]| -> u64 {
            names.iter().filter_map(|name| info.get(*name)?.parse::<u64>().ok()).sum()
        };
        let [grants, refusals, expiries] = [sum(&GRANTS), sum(&REFUSALS), sum(&EXPIRIES)];
        let last = self.last.replace([grants, refusals, expiries]).unwrap_or([grants, refusals, expiries]);
        // Counters begin at zero when the server restarts.
        let since = [
            grants.saturating_sub(last[0]),
            refusals.saturating_sub(last[1]),
            expiries.saturating_sub(last[2]),
        ];
        self.points.add_rates(now, since.map(|count| count as f64));
    }
}

/// The leader of each election that has one.
async fn leaders(console: &Console) -> BTreeMap<&'static str, Leader> {
    let mut leaders = BTreeMap::new();
    let Some(tasks) = &console.tasks else { return leaders };
    let compaction = ("compaction", tasks.store.paths.election());
    for (name, election) in console.keys.elections.iter().chain([&compaction]) {
        // An election that nobody has joined yet has no leader, like one whose candidates are gone.
        if let Ok(Some(leader)) = tasks.coordinator.leader(election).await {
            let term = tasks.coordinator.term(election).await.ok().flatten();
            leaders.insert(*name, Leader { name: leader, term: term.map(|term| term.0) });
        }
    }
    leaders
}

/// The newest events of all streams. A stream that this user of Redis may not read is left out.
async fn events(console: &Console) -> Result<Vec<KeyEvent>, Error> {
    let mut all = Vec::new();
    let list = console.key_list().await?;
    for found in list.keys.iter().filter(|found| found.is_text).take(STREAMS) {
        let key = &found.key;
        // The request is the same for the streams of all families.
        let read = async |stream: RealmStore| newest_events(&stream, key, EVENTS).await;
        let read = console.viewer.ask(RealmStore::new, key, read);
        match console.viewer.ask_if_permitted(format!("events of {key}"), read).await {
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

/// Whether the state of the mass-failure guard is known, and the state.
async fn guard(console: &Console) -> Result<(bool, Option<Json>), Error> {
    let read = async |realm: RealmStore| mass_failure_guard(&realm).await;
    let read = console.viewer.ask(RealmStore::new, &console.keys.realm, read);
    match console.viewer.ask_if_permitted("guard".to_owned(), read).await {
        Ok(Some(guard)) => Ok((true, guard)),
        Ok(None) | Err(Error::Refused { .. }) => Ok((false, None)),
        Err(error) => Err(error),
    }
}

impl Reader for Overview {
    async fn read(&mut self, console: &Arc<Console>, _: &str, feed: &Feed) -> Result<Duration, Problem> {
        let (info, session) = console.viewer.send(&console.keys.realm, cmd("INFO").arg("everything")).await?;
        let info = parse_info(info);
        let now = now_ms();
        self.add_point(now, &info);
        let (guard_known, guard) = guard(console).await?;
        let state = State {
            now,
            server: session.node.to_string(),
            info: info.into_iter().filter(|(name, _)| is_shown(name)).collect(),
            zookeeper: console.tasks.as_ref().map(|tasks| tasks.coordinator.status().is_up()),
            leaders: leaders(console).await,
            guard,
            guard_known,
            events: events(console).await?,
            points: &self.points,
        };
        feed.send_state(Message::new("state", &state));
        Ok(PAUSE)
    }
}

/// The fields of `INFO`, without headings.
pub(crate) fn parse_info(reply: Value) -> BTreeMap<String, String> {
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
