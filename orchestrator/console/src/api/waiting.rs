//! The waiting list of a show: who waits, and what an operator does with waits. The server itself makes the offers, in the
//! step in which seats become free.

use allot_client::{HoldRequest, ListFilter, Listed, Record, SeatChoice, SeatStore, WaitRequest};
use axum::extract::{Query, State};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::action::{Answer, Done, act};
use crate::problem::Problem;
use crate::security::Caller;
use crate::state::Console;

/// Waits of one page.
const PAGE: u32 = 200;

/// Which waits.
#[derive(Deserialize, IntoParams)]
pub(super) struct Which {
    /// The key of the show.
    key: String,
    /// Only waits of this user.
    user: Option<String>,
    /// The cursor of the page before; 0, the default, for the first page.
    #[serde(default)]
    cursor: u64,
}

/// A page of waits.
#[derive(Serialize, ToSchema)]
pub(super) struct Waits {
    /// Cursor of the next page; 0 at the end.
    next: u64,
    #[schema(value_type = [Object])]
    items: Vec<Value>,
}

/// Users who wait for seats, as `SEAT.LIST ... WAITING` gives them.
#[utoipa::path(get, path = "/api/v1/show/waiting", params(Which),
    responses((status = 200, body = Waits), (status = 404, body = Problem)))]
pub(super) async fn waiting(
    State(console): State<Console>,
    Query(Which { key, user, cursor }): Query<Which>,
) -> Result<Json<Waits>, Problem> {
    let filter = ListFilter { user: user.as_deref(), ..ListFilter::default() };
    let list = async |show: SeatStore| show.list(Listed::Waiting, &filter, cursor, PAGE).await;
    let (items, next) = console.sources.viewer.show(&key, list).await?;
    Ok(Json(Waits { next, items: items.iter().map(Record::json).collect() }))
}

/// A user who is to get seats, now or when they become free.
#[derive(Deserialize, ToSchema)]
pub(super) struct NewWait {
    key: String,
    user: String,
    /// Seats, 1 to 100.
    count: u32,
    /// Only seats of this tier.
    tier: Option<String>,
    /// How long the user waits, in milliseconds.
    ttl: u64,
    /// Lifetime of the hold that the user gets, in milliseconds.
    offer: u64,
    /// The highest priority is served first.
    #[serde(default)]
    priority: i32,
}

/// A wait.
#[derive(Deserialize, ToSchema)]
pub(super) struct Wait {
    key: String,
    token: String,
}

/// Holds the best free seats for a user, or puts the user on the waiting list.
#[utoipa::path(post, path = "/api/v1/show/wait", request_body = NewWait,
    responses((status = 200, body = Done), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn wait(
    State(console): State<Console>,
    Extension(caller): Extension<Caller>,
    Json(wanted): Json<NewWait>,
) -> Answer {
    let NewWait { key, user, count, tier, ttl, offer, priority } = &wanted;
    act(&caller, "SEAT.WAIT", format!("{key} {user} {count}"), async {
        let choice = SeatChoice { tier: tier.as_deref(), ..SeatChoice::default() };
        let hold = HoldRequest { user, count: *count, ttl_ms: *ttl, choice, token: None };
        let request = WaitRequest { hold, offer_ms: *offer, priority: *priority };
        let ask = async |show: SeatStore| Ok(show.wait(&request).await?.json());
        Ok(console.operator.show(key, ask).await?)
    })
    .await
}

/// Takes a user off the waiting list.
#[utoipa::path(post, path = "/api/v1/show/unwait", request_body = Wait,
    responses((status = 200, body = Done), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn unwait(
    State(console): State<Console>,
    Extension(caller): Extension<Caller>,
    Json(Wait { key, token }): Json<Wait>,
) -> Answer {
    act(&caller, "SEAT.UNWAIT", format!("{key} {token}"), async {
        console.operator.show(&key, async |show| show.unwait(&token).await).await?;
        Ok(true)
    })
    .await
}
