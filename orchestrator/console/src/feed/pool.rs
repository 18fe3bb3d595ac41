//! The reader of a pool of numbers: its totals, and how they moved while somebody looked.

use std::sync::Arc;
use std::time::Duration;

use allot_client::{Error, NumberStore, Record};
use redis::Value;
use serde::Serialize;
use serde_json::Value as Json;
use tokio::time::Instant;

use super::points::Points;
use super::reader::Reader;
use crate::channel::{Feed, Message};
use crate::problem::Problem;
use crate::state::Console;

/// Interval of reads.
const PAUSE: Duration = Duration::from_secs(1);
/// Interval at which the lists of free and resting numbers are read: each read sends a command for each number.
const LISTS_PAUSE: Duration = Duration::from_secs(5);
/// Live calls that are listed.
const LEASES: u32 = 1000;
/// Switches that are listed.
const SWITCHES: u32 = 1000;

/// Numbers that are examined for the lists of free and resting numbers.
const EXAMINED: u32 = 1000;
/// Most entries of each of these lists.
const LISTED: usize = 200;

/// Numbers without a call, as the page lists them.
#[derive(Serialize)]
struct Idle {
    /// Numbers that can be called, the one that has been without a call longest first. The queue of the pool can have
    /// another order: a number joins it when it registers, or when its rest ends.
    free: Vec<FreeNumber>,
    /// Numbers that cannot be called before some time, the earliest first.
    resting: Vec<RestingNumber>,
    /// Whether the lists are cut, or the pool has numbers that were not examined.
    more: bool,
    /// How many entries each list has at most.
    listed: usize,
    /// How many numbers are examined at most.
    examined: u32,
}

/// The switches of a pool.
#[derive(Serialize)]
struct Switches {
    /// `NUMPOOL.SWITCHES`, at most [`SWITCHES`].
    items: Vec<Json>,
    /// Whether there are further switches.
    more: bool,
}

/// A number that can be called.
#[derive(Serialize)]
struct FreeNumber {
    number: Json,
    /// Since when it has had no call, in milliseconds since 1970.
    since: i64,
    uses: u64,
    /// The switch that registered it.
    switch: Json,
}

/// A number that rests.
#[derive(Serialize)]
struct RestingNumber {
    number: Json,
    /// When it can be called again, in milliseconds since 1970; `None` if somebody must resume it.
    until: Option<i64>,
    why: Why,
    /// The cause of its suspension, or the last cause with which a call of it ended.
    cause: Json,
}

/// Why a number rests.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
enum Why {
    CoolDown,
    /// Suspended for a cause.
    Quarantine,
    /// Suspended without a cause.
    OutOfService,
    Cap,
}

impl Idle {
    fn of(records: &[Record], more: bool) -> Result<Self, Error> {
        let (free, resting) = (Vec::new(), Vec::new());
        let mut idle = Self { free, resting, more, listed: LISTED, examined: EXAMINED };
        for record in records {
            let state: String = record.get("state")?;
            if !state.starts_with("idle") {
                continue;
            }
            // Names in a store may be any bytes; as JSON they are text.
            let shown = record.json();
            let text = |name: &str| shown.get(name).cloned().unwrap_or_default();
            let number = text("number");
            let ends: [(Option<i64>, Why); 2] =
                [(record.get("cool_until")?, Why::CoolDown), (record.get("limit_until")?, Why::Cap)];
            let rest = ends.into_iter().filter_map(|(until, why)| Some((until?, why)));
            let rest = rest.reduce(|last, next| if next.0 > last.0 { next } else { last });
            if record.get::<i64>("suspended")? != 0 {
                let cause = text("suspend_cause");
                let why = if cause.is_null() { Why::OutOfService } else { Why::Quarantine };
                idle.resting.push(RestingNumber { number, until: record.get("suspend_until")?, why, cause });
            } else if let Some((until, why)) = rest {
                idle.resting.push(RestingNumber { number, until: Some(until), why, cause: text("cause") });
            } else if state == "idle+up" {
                let (since, uses) = (record.get("idle_since")?, record.get("uses")?);
                idle.free.push(FreeNumber { number, since, uses, switch: text("reg_switch") });
            }
        }
        idle.free.sort_by_key(|entry| entry.since);
        idle.resting.sort_by_key(|entry| entry.until.unwrap_or(i64::MAX));
        idle.more |= idle.free.len().max(idle.resting.len()) > LISTED;
        idle.free.truncate(LISTED);
        idle.resting.truncate(LISTED);
        Ok(idle)
    }
}

/// The counts of a pool at one instant. Each number is in one of them.
#[derive(Serialize, Default)]
struct Counts {
    /// Numbers that can be called.
    free: u64,
    busy: u64,
    cooling: u64,
    /// Numbers out of service or at their cap.
    barred: u64,
    /// Numbers that are not registered.
    absent: u64,
    /// Calls that wait for a number.
    waiting: u64,
}

/// A pool, as its page shows it.
#[derive(Serialize)]
struct State<'a> {
    now: i64,
    /// `NUMPOOL.INFO`.
    info: Json,
    /// Live calls, the longest first; at most [`LEASES`].
    leases: Vec<Json>,
    /// Whether there are further live calls.
    more: bool,
    points: &'a Points<Counts>,
}

#[derive(Default)]
pub(super) struct Pool {
    points: Points<Counts>,
    /// When the lists of free and resting numbers were read last.
    listed: Option<Instant>,
}

impl Reader for Pool {
    async fn read(&mut self, console: &Arc<Console>, key: &str, feed: &Feed) -> Result<Duration, Problem> {
        let read = async |pool: NumberStore| {
            let info = Record::read(pool.ask(&pool.begin("NUMPOOL.INFO")).await?)?;
            let (next, leases) = pool.lease_records(0, LEASES).await?;
            Ok((info, pool.info().await?, next, leases, pool.clock().await?))
        };
        let (info, totals, next, leases, now) = console.viewer.ask(NumberStore::new, key, read).await?;
        let (busy, barred) = (totals.busy_up + totals.busy_down, totals.limited + totals.suspended);
        // Resting numbers are among the idle; those that are not registered are counted as resting.
        let free = totals.idle_up.saturating_sub(totals.cooling + barred);
        let counts = Counts {
            free,
            busy,
            cooling: totals.cooling,
            barred,
            absent: totals.total.saturating_sub(busy + totals.cooling + barred + free),
            waiting: totals.waiting,
        };
        self.points.add(now as u64, counts);
        let leases = leases.iter().map(Record::json).collect();
        let state = State { now, info: info.json(), leases, more: next != 0, points: &self.points };
        feed.send_state(Message::new("state", &state));
        if self.listed.is_some_and(|listed| listed.elapsed() < LISTS_PAUSE) {
            return Ok(PAUSE);
        }
        self.listed = Some(Instant::now());
        let read = async |pool: NumberStore| examine(&pool).await;
        let read = console.viewer.ask(NumberStore::new, key, read);
        let read = console.viewer.ask_if_permitted(format!("numbers of {key}"), read);
        if let Some((records, more)) = read.await? {
            feed.send_kept(Message::new("numbers", &Idle::of(&records, more)?));
        }
        let read = async |pool: NumberStore| {
            let (next, switches): (u32, Value) =
                pool.ask(pool.begin("NUMPOOL.SWITCHES").arg("COUNT").arg(SWITCHES)).await?;
            Ok((next, Record::read_list(switches)?))
        };
        let read = console.viewer.ask(NumberStore::new, key, read);
        let read = console.viewer.ask_if_permitted(format!("switches of {key}"), read);
        if let Some((next, switches)) = read.await? {
            let items = switches.iter().map(Record::json).collect();
            feed.send_kept(Message::new("switches", &Switches { items, more: next != 0 }));
        }
        Ok(PAUSE)
    }
}

/// The records of the first [`EXAMINED`] numbers of a pool, and whether it has more.
async fn examine(pool: &NumberStore) -> Result<(Vec<Record>, bool), Error> {
    let mut scan = pool.begin("NUMPOOL.SCAN");
    let (next, numbers): (u32, Vec<Vec<u8>>) = pool.ask(scan.arg(0).arg("COUNT").arg(EXAMINED)).await?;
    let request = |number: Vec<u8>| pool.begin("NUMPOOL.GET").arg(number).clone();
    let mut records = Vec::new();
    for reply in pool.ask_all(numbers.into_iter().map(request).collect()).await? {
        match reply {
            Ok(record) => records.push(Record::read(record)?),
            // The number was deleted after the scan.
            Err(error) if error.code() == Some("NOTFOUND") => {}
            Err(error) => return Err(error),
        }
    }
    Ok((records, next != 0))
}
