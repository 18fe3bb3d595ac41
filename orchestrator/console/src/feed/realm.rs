//! The reader of a realm: units, conferences, totals, the mass-failure guard, the newest events, and whether the realm
//! could lose any one unit.

use std::sync::Arc;
use std::time::Duration;

use allot_client::{Error, RealmStore, Record};
use redis::cmd;
use serde::Serialize;
use serde_json::Value as Json;
use tokio::time::Instant;

use super::events::{Event, newest_events, server_clock};
use super::reader::Reader;
use crate::channel::{Feed, Message};
use crate::problem::Problem;
use crate::state::Console;

/// Interval at which the event stream is asked for news.
const PAUSE: Duration = Duration::from_millis(200);
/// Longest time between two reads of the realm: heartbeats, which renew leases, are no events.
const INTERVAL: Duration = Duration::from_secs(1);
/// Time between the end of a survey of losses and the next one.
const SURVEY_PAUSE: Duration = Duration::from_secs(5);
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
    guard: Option<Json>,
    events: Vec<Event>,
}

/// A survey of losses, which is made in parts: how many conferences of each unit would find room elsewhere if the unit
/// died now.
#[derive(Default)]
struct Survey {
    /// Where it continues; 0 at its beginning.
    cursor: u64,
    /// The records of `CONF.PLAN DOWN ANY`, by their units.
    found: serde_json::Map<String, Json>,
    /// The earliest time of the next part.
    due: Option<Instant>,
}

#[derive(Default)]
pub(super) struct Realm {
    newest: Option<String>,
    read: Option<Instant>,
    /// How many conferences waited for recovery at the last read.
    pending: u64,
    survey: Survey,
}

impl Realm {
    async fn read_once(&mut self, realm: &RealmStore, key: &str) -> Result<Option<State>, Error> {
        let events = newest_events(realm, key, EVENTS).await?;
        let newest = events.first().map(|event| event.id.clone());
        let is_new = newest != self.newest;
        if !is_new && self.read.is_some_and(|read| read.elapsed() < INTERVAL) {
            return Ok(None);
        }
        let now = server_clock(realm).await?;
        let units = realm.unit_records().await?;
        let (next, conferences) = realm.conference_page(0, LISTED, None, None).await?;
        let stat = realm.stat().await?;
        self.pending = stat.get("pending")?;
        let state = State {
            now,
            units: units.iter().map(Record::json).collect(),
            stat: stat.json(),
            conferences: conferences.iter().map(Record::json).collect(),
            more: next != 0,
            guard: mass_failure_guard(realm).await?,
            events,
        };
        (self.newest, self.read) = (newest, Some(Instant::now()));
        Ok(Some(state))
    }

    /// Asks for the next part of the survey, if its time has come. Pending conferences would be considered again for each
    /// unit, so there is no survey while some wait.
    async fn survey(&mut self, console: &Console, key: &str, feed: &Feed) -> Result<(), Problem> {
        if self.pending > 0 || self.survey.due.is_some_and(|due| Instant::now() < due) {
            return Ok(());
        }
        let cursor = self.survey.cursor;
        let ask = console.viewer.ask(RealmStore::new, key, async |realm| realm.loss_page(cursor).await);
        let losses = console.viewer.ask_if_permitted(format!("losses of {key}"), ask);
        let (next, units) = losses.await?.unwrap_or_default();
        self.survey.found.extend(units.iter().map(|unit| (unit.text("cmu"), unit.json())));
        self.survey.cursor = next;
        let pause = if next == 0 {
            feed.send_kept(Message::new("losses", &std::mem::take(&mut self.survey.found)));
            SURVEY_PAUSE
        } else {
            INTERVAL
        };
        self.survey.due = Some(Instant::now() + pause);
        Ok(())
    }
}

impl Reader for Realm {
    async fn read(&mut self, console: &Arc<Console>, key: &str, feed: &Feed) -> Result<Duration, Problem> {
        let read = async |realm: RealmStore| self.read_once(&realm, key).await;
        let read = console.viewer.ask(RealmStore::new, key, read).await;
        if read.is_err() {
            (self.newest, self.read) = (None, None);
        }
        if let Some(state) = read? {
            feed.send_state(Message::new("state", &state));
        }
        self.survey(console, key, feed).await?;
        Ok(PAUSE)
    }
}

/// The state of the mass-failure guard, as the scheduler writes it; `None` if the guard does not hold.
pub(super) async fn mass_failure_guard(realm: &RealmStore) -> Result<Option<Json>, Error> {
    let fields: Vec<(String, String)> = realm.ask(cmd("HGETALL").arg(realm.stream("guard"))).await?;
    let guard: serde_json::Map<String, Json> =
        fields.into_iter().map(|(name, value)| (name, value.into())).collect();
    Ok(guard.contains_key("since").then(|| guard.into()))
}
