//! Realms: conferences, the recovery plan, and what an operator does with units and conferences.

use std::cmp::Reverse;
use std::collections::HashMap;

use allot_client::{RealmStore, Record, Session};
use axum::extract::{Query, State};
use axum::{Extension, Json};
use redis::Cmd;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::warn;
use utoipa::{IntoParams, ToSchema};

use super::action::{Answer, Done, act};
use super::paging::page;
use crate::problem::Problem;
use crate::security::Caller;
use crate::state::Console;

/// Conferences of one page.
const PAGE: u32 = 200;

/// Which conferences.
#[derive(Deserialize, IntoParams)]
pub(super) struct Which {
    /// The key of the realm.
    key: String,
    /// Only conferences in this state.
    state: Option<String>,
    /// Only conferences of this unit.
    cmu: Option<String>,
    /// The cursor of the page before; 0, the default, for the first page.
    #[serde(default)]
    cursor: u64,
}

/// A page of records.
#[derive(Serialize, ToSchema)]
pub(super) struct Page {
    /// Cursor of the next page; 0 at the end.
    next: u64,
    #[schema(value_type = [Object])]
    items: Vec<Value>,
}

/// A page of conferences.
#[utoipa::path(get, path = "/api/v1/realm/conferences", params(Which),
    responses((status = 200, body = Page), (status = 404, body = Problem)))]
pub(super) async fn conferences(
    State(console): State<Console>,
    Query(which): Query<Which>,
) -> Result<Json<Page>, Problem> {
    let (state, cmu) = (which.state.as_deref(), which.cmu.as_deref());
    let ask = async |realm: RealmStore| realm.conference_page(which.cursor, PAGE, state, cmu).await;
    let (next, items) = console.sources.viewer.realm(&which.key, ask).await?;
    Ok(Json(Page { next, items: items.iter().map(Record::json).collect() }))
}

/// A conference.
#[derive(Deserialize, IntoParams)]
pub(super) struct One {
    /// The key of the realm.
    key: String,
    /// The number of the conference.
    e164: String,
}

/// A conference with its details and assignments.
#[derive(Serialize, ToSchema)]
pub(super) struct OneConference {
    #[schema(value_type = Object)]
    conference: Value,
    #[schema(value_type = Object)]
    details: Value,
    /// Its assignments, the first one first.
    #[schema(value_type = [Object])]
    history: Vec<Value>,
}

/// One conference with its details and assignments.
#[utoipa::path(get, path = "/api/v1/realm/conference", params(One),
    responses((status = 200, body = OneConference), (status = 404, body = Problem)))]
pub(super) async fn conference(
    State(console): State<Console>,
    Query(One { key, e164 }): Query<One>,
) -> Result<Json<OneConference>, Problem> {
    let ask = async |realm: RealmStore| {
        let conference = Record::read(realm.ask(realm.begin("CONF.INFO").arg(&e164)).await?)?.json();
        let details = Record::read(realm.ask(realm.begin("CONF.GET").arg(&e164)).await?)?.json();
        let history = realm.history(&e164).await?.iter().map(Record::json).collect();
        Ok(OneConference { conference, details, history })
    };
    Ok(Json(console.sources.viewer.realm(&key, ask).await?))
}

/// A plan.
#[derive(Deserialize, IntoParams)]
pub(super) struct Planned {
    /// The key of the realm.
    key: String,
    /// Plan for the case that this unit died now.
    down: Option<String>,
    /// The cursor of the page before; 0, the default, for the first page.
    #[serde(default)]
    cursor: usize,
}

/// A page of a plan, with the counts of the whole plan.
#[derive(Serialize, ToSchema)]
pub(super) struct Plan {
    /// Cursor of the next page; 0 at the end.
    next: usize,
    /// How many conferences go where, or nowhere; the most first.
    totals: Vec<PlanTotal>,
    /// `CONF.PLAN`.
    #[schema(value_type = [Object])]
    items: Vec<Value>,
}

/// Conferences of a plan with the same outcome.
#[derive(Serialize, ToSchema)]
pub(super) struct PlanTotal {
    /// The unit to which they go; null if they go nowhere.
    #[schema(value_type = Option<String>)]
    cmu: Value,
    /// Why they wait, or go nowhere.
    #[schema(value_type = Option<String>)]
    why: Value,
    count: u64,
}

fn totals(items: &[Value]) -> Vec<PlanTotal> {
    let mut counts: HashMap<[String; 2], PlanTotal> = HashMap::new();
    for item in items {
        let [cmu, why] = ["cmu", "why"].map(|name| item.get(name).cloned().unwrap_or_default());
        let outcome = [&cmu, &why].map(Value::to_string);
        counts.entry(outcome).or_insert(PlanTotal { cmu, why, count: 0 }).count += 1;
    }
    let mut totals: Vec<PlanTotal> = counts.into_values().collect();
    totals.sort_by_key(|total| (Reverse(total.count), total.cmu.to_string(), total.why.to_string()));
    totals
}

/// Which conferences wait for recovery and why, or where those of a unit would go if it died now.
#[utoipa::path(get, path = "/api/v1/realm/plan", params(Planned),
    responses((status = 200, body = Plan), (status = 404, body = Problem)))]
pub(super) async fn plan(
    State(console): State<Console>,
    Query(Planned { key, down, cursor }): Query<Planned>,
) -> Result<Json<Plan>, Problem> {
    let records = console.sources.viewer.realm(&key, async |realm| realm.plan(down.as_deref()).await).await?;
    let all: Vec<Value> = records.iter().map(Record::json).collect();
    let totals = totals(&all);
    let (next, items) = page(all, cursor);
    Ok(Json(Plan { next, totals, items }))
}

/// A unit.
#[derive(Deserialize, ToSchema)]
pub(super) struct Unit {
    key: String,
    cmu: String,
    /// Whether its conferences are moved away, too.
    #[serde(default)]
    r#move: bool,
}

/// A conference to change.
#[derive(Deserialize, ToSchema)]
pub(super) struct Target {
    key: String,
    e164: String,
    /// The unit to which it moves; without it the best one.
    to: Option<String>,
}

/// A realm.
#[derive(Deserialize, ToSchema)]
pub(super) struct Realm {
    key: String,
}

/// Sends a command whose reply is a record, as the operator. If it changes an owner, waits for replicas, as the command
/// line does.
async fn change(
    console: &Console,
    key: &str,
    command: impl FnOnce(&RealmStore) -> Cmd,
) -> Result<Value, Problem> {
    let mut session: Session = console.operator.session(key).await?;
    let realm = RealmStore::new(session.connection.clone(), key);
    let reply = realm.ask(&command(&realm)).await.and_then(Record::read);
    let record = console.operator.checked(key, reply)?;
    match session.wait(console.sources.places.wait_replicas, console.sources.places.wait).await {
        Ok(true) => {}
        Ok(false) => {
            warn!(key, "not enough replicas confirmed an operator's action; a failover now may undo it");
        }
        Err(error) => warn!(key, %error, "whether replicas confirmed an operator's action is unknown"),
    }
    Ok(record.json())
}

/// Places nothing new on a unit, and moves its conferences away if wanted.
#[utoipa::path(post, path = "/api/v1/realm/drain", request_body = Unit,
    responses((status = 200, body = Done), (status = 404, body = Problem)))]
pub(super) async fn drain(
    State(console): State<Console>,
    Extension(caller): Extension<Caller>,
    Json(unit): Json<Unit>,
) -> Answer {
    let target = format!("{} {}{}", unit.key, unit.cmu, if unit.r#move { " MOVE" } else { "" });
    act(&caller, "CMU.DRAIN", target, async {
        let command = |realm: &RealmStore| {
            let mut command = realm.begin("CMU.DRAIN");
            command.arg(&unit.cmu);
            if unit.r#move {
                command.arg("MOVE");
            }
            command
        };
        change(&console, &unit.key, command).await
    })
    .await
}

/// Places conferences on a drained unit again.
#[utoipa::path(post, path = "/api/v1/realm/undrain", request_body = Unit,
    responses((status = 200, body = Done), (status = 404, body = Problem)))]
pub(super) async fn undrain(
    State(console): State<Console>,
    Extension(caller): Extension<Caller>,
    Json(unit): Json<Unit>,
) -> Answer {
    act(&caller, "CMU.DRAIN OFF", format!("{} {}", unit.key, unit.cmu), async {
        let command = |realm: &RealmStore| realm.begin("CMU.DRAIN").arg(&unit.cmu).arg("OFF").clone();
        change(&console, &unit.key, command).await
    })
    .await
}

/// Moves a conference to another unit.
#[utoipa::path(post, path = "/api/v1/realm/move", request_body = Target,
    responses((status = 200, body = Done), (status = 404, body = Problem), (status = 409, body = Problem)))]
pub(super) async fn move_conference(
    State(console): State<Console>,
    Extension(caller): Extension<Caller>,
    Json(wanted): Json<Target>,
) -> Answer {
    let target = format!("{} {} {}", wanted.key, wanted.e164, wanted.to.as_deref().unwrap_or("-"));
    act(&caller, "CONF.MOVE", target, async {
        let command = |realm: &RealmStore| {
            let mut command = realm.begin("CONF.MOVE");
            command.arg(&wanted.e164);
            if let Some(to) = &wanted.to {
                command.arg("TO").arg(to);
            }
            command
        };
        change(&console, &wanted.key, command).await
    })
    .await
}

/// Ends a conference.
#[utoipa::path(post, path = "/api/v1/realm/release", request_body = Target,
    responses((status = 200, body = Done), (status = 404, body = Problem)))]
pub(super) async fn release(
    State(console): State<Console>,
    Extension(caller): Extension<Caller>,
    Json(wanted): Json<Target>,
) -> Answer {
    act(&caller, "CONF.RELEASE", format!("{} {}", wanted.key, wanted.e164), async {
        let command = |realm: &RealmStore| realm.begin("CONF.RELEASE").arg(&wanted.e164).clone();
        change(&console, &wanted.key, command).await
    })
    .await
}

/// Lifts the mass-failure guard.
#[utoipa::path(post, path = "/api/v1/realm/lift-guard", request_body = Realm,
    responses((status = 200, body = Done), (status = 409, body = Problem)))]
pub(super) async fn lift_guard(
    State(console): State<Console>,
    Extension(caller): Extension<Caller>,
    Json(Realm { key }): Json<Realm>,
) -> Answer {
    act(&caller, "lift-guard", key.clone(), async {
        let lifted = console.operator.realm(&key, async |realm| realm.lift_guard().await).await?;
        let refusal = || {
            let status = axum::http::StatusCode::CONFLICT;
            Problem::new(status, "BADSTATE", "the mass-failure guard does not hold")
        };
        if lifted { Ok(true) } else { Err(refusal()) }
    })
    .await
}
