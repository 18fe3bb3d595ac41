//! Shows: the map, seats, and what an operator does with seats.

use std::sync::Arc;
use std::time::Duration;

use allot_client::{PickRequest, Record, SeatStore};
use axum::extract::{Query, State};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::action::{Answer, Done, act};
use super::events::subject;
use crate::feed::{ShowSnapshot, Subject};
use crate::problem::Problem;
use crate::security::Caller;
use crate::state::Console;

/// Longest wait for the first map of a show.
const FIRST_MAP: Duration = Duration::from_secs(10);
/// Most seats of one request for records.
const SEATS: usize = 500;

/// A show.
#[derive(Deserialize, IntoParams)]
pub(super) struct Key {
    /// The key of the show.
    key: String,
}

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

/// The map of a show. Changes that follow it come by the event stream.
#[utoipa::path(get, path = "/api/v1/show/map", params(Key),
    responses((status = 200, body = Map), (status = 404, body = Problem), (status = 503, body = Problem)))]
pub(super) async fn map(
    State(console): State<Console>,
    Query(Key { key }): Query<Key>,
) -> Result<Json<Map>, Problem> {
    // Refuses keys that hold no show, before a reader is started for them.
    let subject = subject(&console, &format!("key:{key}")).await?;
    if !matches!(subject, Subject::Show(_)) {
        return Err(Problem::bad(format!("the key '{key}' holds no show")));
    }
    let feed = console.feed(&subject);
    let mut shows = feed.show.subscribe();
    let waited = tokio::time::timeout(FIRST_MAP, shows.wait_for(Option::is_some)).await;
    let snapshot: Option<Arc<ShowSnapshot>> = match waited {
        Ok(Ok(snapshot)) => snapshot.clone(),
        _ => None,
    };
    let Some(snapshot) = snapshot else {
        return Err(Problem::new(
            axum::http::StatusCode::SERVICE_UNAVAILABLE,
            "redis-away",
            "the show could not be read in time",
        ));
    };
    let (plan, areas) = ((*snapshot.plan).to_owned(), snapshot.areas.clone());
    Ok(Json(Map { seq: snapshot.seq, now: snapshot.now, plan, areas }))
}

/// Seats of a show.
#[derive(Deserialize, IntoParams)]
pub(super) struct Seats {
    /// The key of the show.
    key: String,
    /// Ids of seats, as a JSON list; at most 500.
    seats: String,
}

/// The records of seats, as `SEAT.GET` gives them.
#[utoipa::path(get, path = "/api/v1/show/seats", params(Seats),
    responses((status = 200, body = [Object]), (status = 400, body = Problem), (status = 404, body = Problem)))]
pub(super) async fn seats(
    State(console): State<Console>,
    Query(Seats { key, seats }): Query<Seats>,
) -> Result<Json<Vec<Value>>, Problem> {
    let seats: Vec<String> = serde_json::from_str(&seats)
        .map_err(|error| Problem::bad(format!("seats is no list of ids: {error}")))?;
    if seats.len() > SEATS {
        return Err(Problem::bad(format!("{} seats; at most {SEATS} are read at once", seats.len())));
    }
    let records = console.sources.viewer.show(&key, async |show| show.seats(&seats).await).await?;
    Ok(Json(records.iter().map(Record::json).collect()))
}

/// What to look for.
#[derive(Deserialize, IntoParams)]
pub(super) struct Wanted {
    /// The key of the show.
    key: String,
    /// A user or an order.
    name: String,
}

/// What is known of a name.
#[derive(Serialize, ToSchema)]
pub(super) struct Found {
    /// Live holds of the user of this name.
    #[schema(value_type = [Object])]
    holds: Vec<Value>,
    /// Ids of the seats of the order of this name.
    order: Vec<String>,
}

/// Finds the holds of a user, and the seats of an order.
#[utoipa::path(get, path = "/api/v1/show/find", params(Wanted),
    responses((status = 200, body = Found), (status = 404, body = Problem)))]
pub(super) async fn find(
    State(console): State<Console>,
    Query(Wanted { key, name }): Query<Wanted>,
) -> Result<Json<Found>, Problem> {
    let find = async |show: SeatStore| {
        let holds = show.holds(&name).await?.iter().map(Record::json).collect();
        let order = match show.order(&name).await {
            Err(error) if error.code() == Some("NOTFOUND") => Vec::new(),
            seats => seats?,
        };
        Ok(Found { holds, order })
    };
    Ok(Json(console.sources.viewer.show(&key, find).await?))
}

/// Seats to hold for a user.
#[derive(Deserialize, ToSchema)]
pub(super) struct HoldSeats {
    key: String,
    user: String,
    /// Lifetime of the hold in milliseconds.
    ttl: u64,
    seats: Vec<String>,
}

/// A hold.
#[derive(Deserialize, ToSchema)]
pub(super) struct HoldToken {
    key: String,
    token: String,
    /// The order under which the seats are sold.
    order: Option<String>,
}

/// Seats, and the order to which they belong, if it matters.
#[derive(Deserialize, ToSchema)]
pub(super) struct SomeSeats {
    key: String,
    seats: Vec<String>,
    order: Option<String>,
}

/// Holds these seats for a user.
#[utoipa::path(post, path = "/api/v1/show/hold", request_body = HoldSeats,
    responses((status = 200, body = Done), (status = 409, body = Problem)))]
pub(super) async fn hold(
    State(console): State<Console>,
    Extension(caller): Extension<Caller>,
    Json(HoldSeats { key, user, ttl, seats }): Json<HoldSeats>,
) -> Answer {
    let target = format!("{key} {user} {}", seats.join(" "));
    act(&caller, "SEAT.PICK", target, async {
        let request = PickRequest { user: &user, ttl_ms: ttl, seats: &seats, ..PickRequest::default() };
        let pick = async |show: SeatStore| show.pick(&request).await;
        Ok(console.operator.show(&key, pick).await?.token)
    })
    .await
}

/// Releases a hold.
#[utoipa::path(post, path = "/api/v1/show/release", request_body = HoldToken,
    responses((status = 200, body = Done), (status = 404, body = Problem)))]
pub(super) async fn release(
    State(console): State<Console>,
    Extension(caller): Extension<Caller>,
    Json(HoldToken { key, token, .. }): Json<HoldToken>,
) -> Answer {
    act(&caller, "SEAT.RELEASE", format!("{key} {token}"), async {
        Ok(console.operator.show(&key, async |show| show.release(&token).await).await?)
    })
    .await
}

/// Sells the seats of a hold.
#[utoipa::path(post, path = "/api/v1/show/confirm", request_body = HoldToken,
    responses((status = 200, body = Done), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn confirm(
    State(console): State<Console>,
    Extension(caller): Extension<Caller>,
    Json(HoldToken { key, token, order }): Json<HoldToken>,
) -> Answer {
    let target = format!("{key} {token} {}", order.as_deref().unwrap_or("-"));
    act(&caller, "SEAT.CONFIRM", target, async {
        let confirm = async |show: SeatStore| show.confirm(&token, order.as_deref()).await;
        Ok(console.operator.show(&key, confirm).await?)
    })
    .await
}

/// Makes sold seats free again.
#[utoipa::path(post, path = "/api/v1/show/refund", request_body = SomeSeats,
    responses((status = 200, body = Done), (status = 409, body = Problem)))]
pub(super) async fn refund(
    State(console): State<Console>,
    Extension(caller): Extension<Caller>,
    Json(SomeSeats { key, seats, order }): Json<SomeSeats>,
) -> Answer {
    act(&caller, "SEAT.REFUND", format!("{key} {}", seats.join(" ")), async {
        let refund = async |show: SeatStore| show.refund(order.as_deref(), &seats).await;
        Ok(console.operator.show(&key, refund).await?)
    })
    .await
}

/// Takes free seats off sale.
#[utoipa::path(post, path = "/api/v1/show/block", request_body = SomeSeats,
    responses((status = 200, body = Done), (status = 409, body = Problem)))]
pub(super) async fn block(
    State(console): State<Console>,
    Extension(caller): Extension<Caller>,
    Json(SomeSeats { key, seats, .. }): Json<SomeSeats>,
) -> Answer {
    act(&caller, "SEAT.BLOCK", format!("{key} {}", seats.join(" ")), async {
        Ok(console.operator.show(&key, async |show| show.block(&seats).await).await?)
    })
    .await
}

/// Puts blocked seats on sale again.
#[utoipa::path(post, path = "/api/v1/show/unblock", request_body = SomeSeats,
    responses((status = 200, body = Done), (status = 409, body = Problem)))]
pub(super) async fn unblock(
    State(console): State<Console>,
    Extension(caller): Extension<Caller>,
    Json(SomeSeats { key, seats, .. }): Json<SomeSeats>,
) -> Answer {
    act(&caller, "SEAT.UNBLOCK", format!("{key} {}", seats.join(" ")), async {
        Ok(console.operator.show(&key, async |show| show.unblock(&seats).await).await?)
    })
    .await
}
