//! The map of a show, and the records of many seats.

use std::sync::Arc;
use std::time::Duration;

use allot_client::{Record, SeatStore};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::declaration::AtKey;
use crate::channel::Subject;
use crate::problem::Problem;
use crate::state::Console;

/// Longest wait for the first map of a show.
const FIRST_MAP: Duration = Duration::from_secs(10);
/// Most seats of one request for records.
const SEATS: usize = 500;

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
    /// For each area of the plan its rows in rank order; for each position `.` free, `h` held, `s` sold, `x` blocked, or
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
