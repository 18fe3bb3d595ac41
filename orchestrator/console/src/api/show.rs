//! The map of a show, and the records of many seats.

use std::sync::Arc;
use std::time::Duration;

use allot_client::{Bucket, Error, ListFilter, Listed, Record, SeatStore};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::declaration::AtKey;
use crate::channel::Subject;
use crate::problem::Problem;
use crate::shared::Holds;
use crate::state::Console;

/// Longest wait for the first map of a show.
const FIRST_MAP: Duration = Duration::from_secs(10);
/// Most seats of one request for records.
const SEATS: usize = 500;
/// Most seats that a search finds: as many as a page can select.
const FOUND: usize = 20_000;
/// Places that one step of a listing examines.
const STEP: u32 = 4000;
/// Holds that the page lists.
const HOLDS: usize = 20;
/// Most shows of one request for totals.
const SHOWS: usize = 200;

/// A show as a map.
#[derive(Serialize, ToSchema)]
pub(super) struct Map {
    /// Number of this state. Messages of the event stream with greater numbers follow it.
    seq: u64,
    /// The server's clock in milliseconds since 1970.
    now: u64,
    /// The plan of the show.
    #[schema(value_type = Object)]
    plan: Box<RawValue>,
    /// For each area of the plan its rows in the order of the plan; for each position `.` free, `h` held, `s` sold, `x` blocked, or
    /// a space for a break. For a standing area the numbers of free, held, sold and blocked places.
    areas: Vec<Vec<String>>,
}

pub(super) async fn map(console: Arc<Console>, AtKey { key }: AtKey) -> Result<Map, Problem> {
    // Refuses keys that hold no show, before a reader is started for them.
    let subject = console.subject(&format!("key:{key}")).await?;
    if !matches!(subject, Subject::Show(_)) {
        return Err(Problem::bad(format!("the key '{key}' holds no show")));
    }
    let feed = console.feed(&subject);
    let mut shows = feed.show.subscribe();
    let waited = tokio::time::timeout(FIRST_MAP, shows.wait_for(Option::is_some)).await;
    let Ok(Ok(Some(snapshot))) = waited.map(|shows| shows.map(|snapshot| snapshot.clone())) else {
        let why = "the show could not be read in time";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "redis-away", why));
    };
    let (plan, areas) = ((*snapshot.plan).to_owned(), snapshot.areas.clone());
    Ok(Map { seq: snapshot.seq, now: snapshot.now, plan, areas })
}

/// Seats of a show.
#[derive(Deserialize, IntoParams)]
pub(super) struct Seats {
    /// The key of the show.
    key: String,
    /// Ids of seats, as a JSON list; at most 500.
    seats: String,
}

/// Records, as a command gives them.
#[derive(Serialize, ToSchema)]
#[schema(value_type = [Object])]
pub(super) struct Records(Vec<Value>);

pub(super) async fn seats(console: Arc<Console>, Seats { key, seats }: Seats) -> Result<Records, Problem> {
    let seats: Vec<String> = serde_json::from_str(&seats)
        .map_err(|error| Problem::bad(format!("seats is no list of ids: {error}")))?;
    if seats.len() > SEATS {
        return Err(Problem::bad(format!("{} seats; at most {SEATS} are read at once", seats.len())));
    }
    let ask = async |show: SeatStore| show.seats(&seats).await;
    let records = console.viewer.ask(SeatStore::new, &key, ask).await?;
    Ok(Records(records.iter().map(Record::json).collect()))
}

/// The live holds of a show, as of some seconds ago at most.
pub(super) async fn holds(console: Arc<Console>, AtKey { key }: AtKey) -> Result<Holds, Problem> {
    Ok(live_holds(&console, &key).await?)
}

async fn live_holds(console: &Console, key: &str) -> Result<Holds, Error> {
    let ask = async |show: SeatStore| {
        let (mut count, mut ends) = (0, Vec::new());
        examine(&show, Listed::Holds, |hold| {
            count += 1;
            ends.push((hold.get::<u64>("until")?, hold.json()));
            if ends.len() >= 1000 {
                ends.sort_by_key(|(until, _)| *until);
                ends.truncate(HOLDS);
            }
            Ok(true)
        })
        .await?;
        ends.sort_by_key(|(until, _)| *until);
        let next_end = ends.first().map(|(until, _)| *until);
        Ok(Holds { count, next_end, first: ends.into_iter().take(HOLDS).map(|(_, hold)| hold).collect() })
    };
    let read = console.viewer.ask(SeatStore::new, key, ask);
    console.holds.answer(key.to_owned(), read).await
}

/// Looks at all holds or sales of a show, until `see` returns `false`.
async fn examine(
    show: &SeatStore,
    what: Listed,
    mut see: impl FnMut(&Record) -> Result<bool, Error>,
) -> Result<(), Error> {
    let mut cursor = 0;
    loop {
        let (items, next) = show.list(what, &ListFilter::default(), cursor, STEP).await?;
        for item in &items {
            if !see(item)? {
                return Ok(());
            }
        }
        if next == 0 {
            return Ok(());
        }
        cursor = next;
    }
}

/// What to look for in a show.
#[derive(Deserialize, IntoParams)]
pub(super) struct Wanted {
    /// The key of the show.
    key: String,
    /// A user, a token or an order.
    text: String,
}

/// Seats that were found.
#[derive(Default, Serialize, ToSchema)]
pub(super) struct Found {
    /// Their ids, at most 20,000.
    seats: Vec<String>,
    /// Whether there are more.
    more: bool,
}

/// The seats that a user, a token or an order holds or has bought.
pub(super) async fn find(console: Arc<Console>, Wanted { key, text }: Wanted) -> Result<Found, Problem> {
    let ask = async |show: SeatStore| {
        let mut found = Found::default();
        for (what, names) in
            [(Listed::Holds, &["user", "token"][..]), (Listed::Orders, &["user", "token", "order"])]
        {
            examine(&show, what, |item| {
                let shown = item.json();
                if names.iter().any(|name| shown.get(name).and_then(Value::as_str) == Some(&text)) {
                    found.seats.extend(item.get::<Vec<String>>("seats")?);
                }
                Ok(found.seats.len() <= FOUND)
            })
            .await?;
        }
        found.more = found.seats.len() > FOUND;
        found.seats.truncate(FOUND);
        Ok(found)
    };
    Ok(console.viewer.ask(SeatStore::new, &key, ask).await?)
}

/// Shows to count.
#[derive(Deserialize, IntoParams)]
pub(super) struct Shows {
    /// Keys of shows, as a JSON list; at most 200.
    keys: String,
}

/// The places of a show by state.
#[derive(Serialize, ToSchema)]
pub(super) struct Totals {
    key: String,
    free: u64,
    held: u64,
    sold: u64,
    blocked: u64,
    /// When the hold that ends first ends, in milliseconds since 1970, as of some seconds ago at most; null if nothing is
    /// held, or the holds may not be listed.
    next_end: Option<u64>,
}

/// The places of shows by state. A key that holds no show any more is left out.
pub(super) async fn totals(console: Arc<Console>, Shows { keys }: Shows) -> Result<Vec<Totals>, Problem> {
    let keys: Vec<String> = serde_json::from_str(&keys)
        .map_err(|error| Problem::bad(format!("keys is no list of keys: {error}")))?;
    if keys.len() > SHOWS {
        return Err(Problem::bad(format!("{} shows; at most {SHOWS} are counted at once", keys.len())));
    }
    let mut all = Vec::new();
    for key in keys {
        match total(&console, key).await {
            Ok(total) => all.push(total),
            Err(error) if matches!(error.code(), Some("NOKEY" | "WRONGTYPE")) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(all)
}

async fn total(console: &Console, key: String) -> Result<Totals, Error> {
    let ask = async |show: SeatStore| show.stat(None, None).await;
    let buckets = console.viewer.ask(SeatStore::new, &key, ask).await?;
    let sum = |of: fn(&Bucket) -> u64| buckets.iter().map(of).sum();
    let mut total = Totals {
        free: sum(|bucket| bucket.free),
        held: sum(|bucket| bucket.held),
        sold: sum(|bucket| bucket.sold),
        blocked: sum(|bucket| bucket.blocked),
        next_end: None,
        key,
    };
    if total.held > 0 {
        let holds = live_holds(console, &total.key);
        let holds = console.viewer.ask_if_permitted(format!("holds of {}", total.key), holds).await?;
        total.next_end = holds.and_then(|holds| holds.next_end);
    }
    Ok(total)
}
