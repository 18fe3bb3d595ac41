//! Pools of numbers: live calls, and what an operator does with them.

use allot_client::{NumberStore, Record};
use axum::extract::{Query, State};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::action::{Answer, Done, act};
use crate::numbers::number_page;
use crate::problem::Problem;
use crate::security::Caller;
use crate::state::Console;

/// Calls of one page, and numbers that one page examines.
const PAGE: u32 = 200;

/// Which calls.
#[derive(Deserialize, IntoParams)]
pub(super) struct Which {
    /// The key of the pool.
    key: String,
    /// The cursor of the page before; 0, the default, for the first page.
    #[serde(default)]
    cursor: u32,
}

/// A page of calls.
#[derive(Serialize, ToSchema)]
pub(super) struct Leases {
    /// Cursor of the next page; 0 at the end.
    next: u32,
    #[schema(value_type = [Object])]
    items: Vec<Value>,
}

/// A page of live calls, as `NUMPOOL.LEASES` gives them.
#[utoipa::path(get, path = "/api/v1/pool/leases", params(Which),
    responses((status = 200, body = Leases), (status = 404, body = Problem)))]
pub(super) async fn leases(
    State(console): State<Console>,
    Query(Which { key, cursor }): Query<Which>,
) -> Result<Json<Leases>, Problem> {
    let ask = async |pool: NumberStore| pool.lease_records(cursor, PAGE).await;
    let (next, items) = console.sources.viewer.pool(&key, ask).await?;
    Ok(Json(Leases { next, items: items.iter().map(Record::json).collect() }))
}

/// Which numbers.
#[derive(Deserialize, IntoParams)]
pub(super) struct WhichNumbers {
    /// The key of the pool.
    key: String,
    /// Only numbers in this state: `idle+up`, `idle+down`, `busy+up`, `busy+down` or `quarantined`.
    state: Option<String>,
    /// The cursor of the page before; 0, the default, for the first page.
    #[serde(default)]
    cursor: u32,
}

/// A page of numbers.
#[derive(Serialize, ToSchema)]
pub(super) struct Numbers {
    /// Cursor of the next page; 0 at the end.
    next: u32,
    #[schema(value_type = [Object])]
    items: Vec<Value>,
}

/// A page of numbers, as `NUMPOOL.GET` gives them. With `state`, a page may be empty before the end.
#[utoipa::path(get, path = "/api/v1/pool/numbers", params(WhichNumbers),
    responses((status = 200, body = Numbers), (status = 404, body = Problem)))]
pub(super) async fn numbers(
    State(console): State<Console>,
    Query(WhichNumbers { key, state, cursor }): Query<WhichNumbers>,
) -> Result<Json<Numbers>, Problem> {
    let ask = async |pool: NumberStore| number_page(&pool, cursor, PAGE, state.as_deref()).await;
    let (next, items) = console.sources.viewer.pool(&key, ask).await?;
    Ok(Json(Numbers { next, items: items.iter().map(Record::json).collect() }))
}

/// A call.
#[derive(Deserialize, ToSchema)]
pub(super) struct Call {
    key: String,
    number: String,
    /// The lease of the call, so that a later call of the number is not ended.
    lease: String,
}

/// A switch.
#[derive(Deserialize, ToSchema)]
pub(super) struct OneSwitch {
    key: String,
    switch: String,
    /// For reconcile: the leases that go on.
    #[serde(default)]
    leases: Vec<String>,
}

/// Ends a call.
#[utoipa::path(post, path = "/api/v1/pool/hang-up", request_body = Call,
    responses((status = 200, body = Done), (status = 404, body = Problem)))]
pub(super) async fn hang_up(
    State(console): State<Console>,
    Extension(caller): Extension<Caller>,
    Json(Call { key, number, lease }): Json<Call>,
) -> Answer {
    act(&caller, "NUMPOOL.HANGUP", format!("{key} {number} {lease}"), async {
        let ask = async |pool: NumberStore| {
            pool.ask::<u64>(pool.begin("NUMPOOL.HANGUP").arg(&number).arg("LEASE").arg(&lease)).await
        };
        Ok(console.operator.pool(&key, ask).await?)
    })
    .await
}

/// Ends the registrations of a switch.
#[utoipa::path(post, path = "/api/v1/pool/unregister", request_body = OneSwitch,
    responses((status = 200, body = Done), (status = 404, body = Problem)))]
pub(super) async fn unregister(
    State(console): State<Console>,
    Extension(caller): Extension<Caller>,
    Json(OneSwitch { key, switch, .. }): Json<OneSwitch>,
) -> Answer {
    act(&caller, "NUMPOOL.UNREG", format!("{key} SWITCH {switch}"), async {
        let ask = async |pool: NumberStore| {
            pool.ask::<u64>(pool.begin("NUMPOOL.UNREG").arg("SWITCH").arg(&switch)).await
        };
        Ok(console.operator.pool(&key, ask).await?)
    })
    .await
}

/// Ends the calls of a switch, except the listed ones.
#[utoipa::path(post, path = "/api/v1/pool/reconcile", request_body = OneSwitch,
    responses((status = 200, body = Done), (status = 404, body = Problem)))]
pub(super) async fn reconcile(
    State(console): State<Console>,
    Extension(caller): Extension<Caller>,
    Json(OneSwitch { key, switch, leases }): Json<OneSwitch>,
) -> Answer {
    act(&caller, "NUMPOOL.RECONCILE", format!("{key} SWITCH {switch}"), async {
        let ask = async |pool: NumberStore| {
            let mut command = pool.begin("NUMPOOL.RECONCILE");
            command.arg("SWITCH").arg(&switch);
            if !leases.is_empty() {
                command.arg("LEASE").arg(&leases);
            }
            Ok(Record::read(pool.ask(&command).await?)?.json())
        };
        Ok(console.operator.pool(&key, ask).await?)
    })
    .await
}
