//! Plans of a realm, and its mass-failure guard.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use allot_client::{RealmStore, Record};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;
use utoipa::{IntoParams, ToSchema};

use super::declaration::Action;
use crate::problem::Problem;
use crate::state::Console;

/// Records of one page.
const PAGE: usize = 500;
/// Time for which a plan is shared: the server takes tens of milliseconds to make one, in which it serves nobody else.
const SHARED: Duration = Duration::from_secs(5);

/// Which plan.
#[derive(Deserialize, IntoParams)]
pub(super) struct Which {
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
#[derive(Debug, Clone, Serialize, ToSchema)]
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

pub(super) async fn plan(console: Arc<Console>, which: Which) -> Result<Plan, Problem> {
    let Which { key, down, cursor } = which;
    let mut made = console.plans.lock().await;
    made.retain(|_, (at, _)| at.elapsed() < SHARED);
    let of = (key, down);
    let all = if let Some((_, records)) = made.get(&of) {
        Arc::clone(records)
    } else {
        let ask = async |realm: RealmStore| realm.plan(of.1.as_deref()).await;
        let records = console.viewer.ask(RealmStore::new, &of.0, ask).await?;
        let records: Arc<[Value]> = records.iter().map(Record::json).collect();
        made.insert(of, (Instant::now(), Arc::clone(&records)));
        records
    };
    drop(made);
    let end = cursor.saturating_add(PAGE);
    let items = all.iter().skip(cursor).take(PAGE).cloned().collect();
    Ok(Plan { next: if end < all.len() { end } else { 0 }, totals: totals(&all), items })
}

/// A realm.
#[derive(Deserialize, ToSchema)]
pub(super) struct Realm {
    key: String,
}

impl Action for Realm {
    fn target(&self) -> String {
        self.key.clone()
    }
}

pub(super) async fn lift_guard(console: Arc<Console>, Realm { key }: Realm) -> Result<bool, Problem> {
    let lift = async |realm: RealmStore| realm.lift_guard().await;
    if console.operator.ask(RealmStore::new, &key, lift).await? {
        return Ok(true);
    }
    Err(Problem::new(StatusCode::CONFLICT, "BADSTATE", "the mass-failure guard does not hold"))
}
