//! Plans of a realm, and its mass-failure guard.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use allot_client::{RealmStore, Record};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::declaration::Action;
use crate::problem::Problem;
use crate::shared::PlanTotal;
use crate::state::Console;

/// Which plan.
#[derive(Deserialize, IntoParams)]
pub(super) struct Which {
    /// The key of the realm.
    key: String,
    /// Plan for the case that this unit died now.
    down: Option<String>,
}

/// How many conferences of a plan go where, or nowhere; the most first.
fn totals(items: impl Iterator<Item = Value>) -> Vec<PlanTotal> {
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

pub(super) async fn plan(
    console: Arc<Console>,
    Which { key, down }: Which,
) -> Result<Vec<PlanTotal>, Problem> {
    let make = async {
        let ask = async |realm: RealmStore| realm.plan(down.as_deref()).await;
        let records = console.viewer.ask(RealmStore::new, &key, ask).await?;
        Ok(totals(records.iter().map(Record::json)))
    };
    console.plans.answer((key.clone(), down.clone()), make).await
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
