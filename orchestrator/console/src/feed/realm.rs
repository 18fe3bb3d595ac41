//! The reader of a realm: units, conferences, totals, the mass-failure guard, and the newest events.

use std::sync::Arc;
use std::time::{Duration, Instant};

use allot_client::{Error, RealmStore, Record};
use redis::cmd;
use serde::Serialize;
use serde_json::Value as Json;

use super::channel::{Feed, Message, Reader};
use super::events::{Event, newest_events};
use super::guard::read_brake;
use crate::problem::Problem;
use crate::sources::Sources;

/// Interval at which the event stream is asked for news.
const PAUSE: Duration = Duration::from_millis(200);
/// Longest time between two reads of the realm: heartbeats, which renew leases, are no events.
const INTERVAL: Duration = Duration::from_secs(1);
/// A realm with more conferences sends no list of them: pages ask for what they show.
const LISTED: u32 = 1000;
/// Newest events that the page lists.
const EVENTS: usize = 60;

/// A realm, as its page shows it. Records have the fields of the commands that gave them.
#[derive(Serialize)]
struct State {
    /// The server's clock in milliseconds since 1970.
    now: u64,
    /// `CMU.LIST`.
    units: Vec<Json>,
    /// `CONF.STAT`.
    stat: Json,
    /// `CONF.LIST`, at most [`LISTED`].
    conferences: Vec<Json>,
    /// Whether there are further conferences.
    more: bool,
    /// The state of the mass-failure guard; absent if it does not hold.
    brake: Option<Json>,
    events: Vec<Event>,
}

pub(super) struct Realm {
    sources: Arc<Sources>,
    key: String,
    newest: Option<String>,
    read: Option<Instant>,
}

impl Realm {
    pub(super) fn new(sources: Arc<Sources>, key: String) -> Self {
        Self { sources, key, newest: None, read: None }
    }

    async fn read_once(&mut self, realm: &RealmStore) -> Result<Option<State>, Error> {
        let events = newest_events(realm, &self.key, EVENTS).await?;
        let newest = events.first().map(|event| event.id.clone());
        let is_new = newest != self.newest;
        if !is_new && self.read.is_some_and(|read| read.elapsed() < INTERVAL) {
            return Ok(None);
        }
        let (seconds, microseconds): (u64, u64) = realm.ask(&cmd("TIME")).await?;
        let units = realm.unit_records().await?;
        let (next, conferences) = realm.conference_page(0, LISTED, None, None).await?;
        let state = State {
            now: seconds * 1000 + microseconds / 1000,
            units: units.iter().map(Record::json).collect(),
            stat: realm.stat().await?.json(),
            conferences: conferences.iter().map(Record::json).collect(),
            more: next != 0,
            brake: read_brake(realm).await?,
            events,
        };
        (self.newest, self.read) = (newest, Some(Instant::now()));
        Ok(Some(state))
    }
}

impl Reader for Realm {
    async fn read(&mut self, feed: &Feed) -> Result<Duration, Problem> {
        let (sources, key) = (Arc::clone(&self.sources), self.key.clone());
        let read = sources.viewer.realm(&key, async |realm| self.read_once(&realm).await).await;
        if read.is_err() {
            (self.newest, self.read) = (None, None);
        }
        if let Some(state) = read? {
            feed.send_state(Message::new("state", &state));
        }
        Ok(PAUSE)
    }
}
