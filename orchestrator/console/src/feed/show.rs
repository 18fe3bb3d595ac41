//! The reader of a show: the whole map once, then only the seats that have changed.
//!
//! The state of seats always comes from `SEAT.MAP`, read in one step for all areas, and never from single events. The
//! map of the browsers is therefore equal to `SEAT.MAP` after any rush, and ten thousand changes a second cost Redis no
//! more than a few maps a second. The event stream, if the show has one, tells whether anything has changed at all.

use std::sync::Arc;
use std::time::Duration;

use allot_client::{Error, ListFilter, Listed, Record, SeatStore};
use redis::Value;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::events::newest_events;
use super::reader::Reader;
use crate::channel::{Feed, Message, ShowSnapshot};
use crate::problem::Problem;
use crate::state::Console;

/// Shortest time between two reads of a show.
const PAUSE: Duration = Duration::from_millis(200);
/// A read takes at most this share of the reader's time: a large show is read less often.
const SHARE: u32 = 5;
/// Interval at which the plan is read again, if no event says that it was altered.
const PLAN_INTERVAL: Duration = Duration::from_secs(30);
/// Latest events that the page lists.
const EVENTS: usize = 40;
/// Users of the waiting list that the page lists.
const WAITING: u32 = 200;
/// Interval at which the waiting list is read.
const WAITING_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which listeners are told that the show is still read.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// The part of a plan that the reader needs; browsers read the rest.
#[derive(Deserialize)]
struct Plan {
    areas: Vec<Area>,
    #[serde(default)]
    events: u64,
}

#[derive(Deserialize)]
struct Area {
    id: String,
    /// Number of standing places; `None` for an area with rows.
    standing: Option<u32>,
}

/// Seats that have changed, by their new state. A seat is the number of its position: all areas in the order of the plan,
/// in it all rows as `SEAT.PLAN` lists them, breaks counted. Standing places have no numbers.
#[derive(Serialize, Default)]
struct Changes {
    seq: u64,
    now: u64,
    free: Vec<u32>,
    held: Vec<u32>,
    sold: Vec<u32>,
    blocked: Vec<u32>,
    /// Standing areas, by their number in the plan, with their free, held, sold and blocked places.
    standing: Vec<(usize, Vec<String>)>,
}

/// The users who wait for seats.
#[derive(Serialize)]
struct Waiting {
    /// `SEAT.LIST ... WAITING`, at most [`WAITING`].
    items: Vec<serde_json::Value>,
    /// Whether there are further users.
    more: bool,
}

#[derive(Default)]
pub(super) struct Show {
    key: String,
    plan: Option<(Arc<RawValue>, Plan, Instant)>,
    /// Id of the newest event when the map was read.
    newest: Option<String>,
    last: Option<Arc<ShowSnapshot>>,
    seq: u64,
    /// When the waiting list was read.
    waiting_read: Option<Instant>,
    /// When listeners were told the number of the state.
    told: Option<(u64, Instant)>,
}

impl Show {
    /// Reads the plan. Returns whether it differs from the one that the browsers have.
    async fn read_plan(&mut self, show: &SeatStore) -> Result<bool, Error> {
        let text: String = show.ask(&show.begin("SEAT.PLAN")).await?;
        let odd = |error: serde_json::Error| Error::Shape(format!("SEAT.PLAN: {error}"));
        let differs = self.plan.as_ref().is_none_or(|(plan, ..)| plan.get() != text);
        if differs {
            let plan: Plan = serde_json::from_str(&text).map_err(odd)?;
            let raw = RawValue::from_string(text).map_err(odd)?;
            self.plan = Some((raw.into(), plan, Instant::now()));
        } else if let Some((.., read)) = &mut self.plan {
            *read = Instant::now();
        }
        Ok(differs)
    }

    /// Reads the newest events. Returns whether the map may have changed since it was read.
    async fn read_events(&mut self, show: &SeatStore, feed: &Feed) -> Result<bool, Error> {
        let entries = newest_events(show, &self.key, EVENTS).await?;
        let newest = entries.first().map(|entry| entry.id.clone());
        let changed = newest.is_none() || newest != self.newest;
        if changed {
            // A plan that was altered is sent again.
            if entries
                .iter()
                .take_while(|entry| Some(&entry.id) != self.newest.as_ref())
                .any(|entry| matches!(entry.event(), "altered" | "created"))
            {
                self.plan = None;
            }
            feed.send_kept(Message::new("events", &entries));
            self.newest = newest;
        }
        Ok(changed)
    }

    /// Reads the waiting list, and sends it if it has changed. A user of Redis that may not list waits sends none.
    async fn read_waiting(&mut self, console: &Console, show: &SeatStore, feed: &Feed) -> Result<(), Error> {
        if self.waiting_read.is_some_and(|read| read.elapsed() < WAITING_INTERVAL) {
            return Ok(());
        }
        let filter = ListFilter::default();
        let request = show.list(Listed::Waiting, &filter, 0, WAITING);
        let request = console.viewer.ask_if_permitted(format!("waiting list of {}", self.key), request);
        if let Some((items, next)) = request.await? {
            let items = items.iter().map(Record::json).collect();
            feed.send_kept(Message::new("waiting", &Waiting { items, more: next != 0 }));
        }
        self.waiting_read = Some(Instant::now());
        Ok(())
    }

    async fn read_map(&self, show: &SeatStore) -> Result<(Vec<Vec<String>>, u64), Error> {
        let areas = self.plan.as_ref().map_or(&[][..], |(_, plan, _)| &plan.areas);
        let mut pipe = redis::pipe();
        // One step: a seat that moves between areas is seen in one of them.
        pipe.atomic().cmd("TIME");
        for area in areas {
            pipe.cmd("SEAT.MAP").arg(&self.key).arg(&area.id);
        }
        let mut replies = show.ask_pipe::<Vec<Value>>(&pipe).await?.into_iter();
        let now = replies.next().map_or(Ok(0), clock)?;
        let rows = |value: Value| -> Result<Vec<String>, Error> {
            let rows: Vec<(String, String)> =
                redis::from_redis_value(value).map_err(|error| Error::Shape(format!("SEAT.MAP: {error}")))?;
            // Queued seats are drawn as free: no event of the stream says when they are.
            Ok(rows.into_iter().map(|(_, seats)| seats.replace('q', ".")).collect())
        };
        Ok((replies.map(rows).collect::<Result<_, _>>()?, now))
    }

    /// Whether the area of that number in the plan is a standing area. Its map is the counts of its places.
    fn is_standing(&self, number: usize) -> bool {
        self.plan
            .as_ref()
            .and_then(|(_, plan, _)| plan.areas.get(number))
            .is_some_and(|area| area.standing.is_some())
    }

    /// Whether two maps have the same areas, rows and positions.
    fn same_shape(&self, old: &[Vec<String>], new: &[Vec<String>]) -> bool {
        let shape = |areas: &[Vec<String>]| -> Vec<Vec<usize>> {
            let shape = |(number, rows): (usize, &Vec<String>)| {
                rows.iter().filter(|_| !self.is_standing(number)).map(String::len).collect()
            };
            areas.iter().enumerate().map(shape).collect()
        };
        shape(old) == shape(new)
    }

    /// The message that leads from the last snapshot to this one; `None` if nothing has changed.
    fn changes(&self, areas: &[Vec<String>]) -> Option<Changes> {
        let last = self.last.as_ref()?;
        let mut changes = Changes::default();
        let mut position = 0_u32;
        for (number, (old, new)) in last.areas.iter().zip(areas).enumerate() {
            if self.is_standing(number) {
                if old != new {
                    changes.standing.push((number, new.clone()));
                }
                continue;
            }
            for (old, new) in old.iter().zip(new) {
                if old != new {
                    for (at, (before, after)) in old.bytes().zip(new.bytes()).enumerate() {
                        if before != after {
                            changes.add(position + at as u32, after);
                        }
                    }
                }
                position += new.len() as u32;
            }
        }
        changes.is_some().then_some(changes)
    }
}

impl Changes {
    fn add(&mut self, position: u32, state: u8) {
        match state {
            b'.' => self.free.push(position),
            b'h' => self.held.push(position),
            b's' => self.sold.push(position),
            _ => self.blocked.push(position),
        }
    }

    fn is_some(&self) -> bool {
        let lists = [&self.free, &self.held, &self.sold, &self.blocked];
        lists.iter().any(|list| !list.is_empty()) || !self.standing.is_empty()
    }
}

impl Reader for Show {
    async fn read(&mut self, console: &Arc<Console>, key: &str, feed: &Feed) -> Result<Duration, Problem> {
        let began = Instant::now();
        key.clone_into(&mut self.key);
        let read = async |show: SeatStore| self.read_once(console, &show, feed).await;
        let read = console.viewer.ask(SeatStore::new, key, read).await;
        if read.is_err() {
            // What was read before may be of another server. The next read that succeeds ends the trouble.
            (self.newest, self.plan, self.told) = (None, None, None);
        }
        read?;
        Ok(PAUSE.max(began.elapsed() * SHARE))
    }
}

impl Show {
    async fn read_once(&mut self, console: &Console, show: &SeatStore, feed: &Feed) -> Result<(), Error> {
        let mut replanned = self.plan.is_none() && self.read_plan(show).await?;
        // Events are read before the map: what changes in between is in the map, or in the events of the next read.
        let has_events = self.plan.as_ref().is_some_and(|(_, plan, _)| plan.events > 0);
        self.read_waiting(console, show, feed).await?;
        if has_events && !self.read_events(show, feed).await? && self.last.is_some() && !replanned {
            return Ok(());
        }
        if self.plan.as_ref().is_none_or(|(.., read)| read.elapsed() > PLAN_INTERVAL) {
            replanned |= self.read_plan(show).await?;
        }
        let (mut areas, mut now) = self.read_map(show).await?;
        // Without events, only its map says that a plan was altered.
        if !replanned && self.last.as_ref().is_some_and(|last| !self.same_shape(&last.areas, &areas)) {
            replanned = self.read_plan(show).await?;
            (areas, now) = self.read_map(show).await?;
        }
        let Some((plan, ..)) = &self.plan else { return Ok(()) };
        let begins = self.last.is_none();
        let reshaped =
            replanned || self.last.as_ref().is_none_or(|last| !self.same_shape(&last.areas, &areas));
        let changes = if reshaped { None } else { self.changes(&areas) };
        if reshaped || changes.is_some() {
            self.seq += 1;
            let snapshot = Arc::new(ShowSnapshot { seq: self.seq, plan: Arc::clone(plan), areas, now });
            self.last = Some(Arc::clone(&snapshot));
            feed.show.send_replace(Some(snapshot));
        }
        match changes {
            Some(changes) => feed.send(Message::new("changes", &Changes { seq: self.seq, now, ..changes })),
            None if reshaped && !begins => feed.send(Message::new("resync", &self.seq)),
            None => {}
        }
        self.tell_sync(feed, now);
        Ok(())
    }

    /// Tells new listeners the number of the state, and all listeners that the show is read.
    fn tell_sync(&mut self, feed: &Feed, now: u64) {
        if self.told.is_some_and(|(seq, at)| seq == self.seq && at.elapsed() < SYNC_INTERVAL) {
            return;
        }
        self.told = Some((self.seq, Instant::now()));
        feed.send_state(Message::new("sync", &serde_json::json!({"seq": self.seq, "now": now})));
    }
}

/// The reply of `TIME` in milliseconds since 1970.
fn clock(value: Value) -> Result<u64, Error> {
    let (seconds, microseconds): (u64, u64) =
        redis::from_redis_value(value).map_err(|error| Error::Shape(format!("TIME: {error}")))?;
    Ok(seconds * 1000 + microseconds / 1000)
}
