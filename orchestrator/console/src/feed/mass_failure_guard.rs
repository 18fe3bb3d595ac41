//! The state of the mass-failure guard of a realm.

use allot_client::{Error, RealmStore};
use redis::cmd;
use serde_json::Value as Json;

/// The state of the guard, as the scheduler writes it; `None` if it does not hold.
pub(super) async fn read_guard(realm: &RealmStore) -> Result<Option<Json>, Error> {
    let guard: Vec<(String, String)> = realm.ask(cmd("HGETALL").arg(realm.stream("guard"))).await?;
    let guard: serde_json::Map<String, Json> =
        guard.into_iter().map(|(name, value)| (name, value.into())).collect();
    Ok(guard.contains_key("since").then(|| guard.into()))
}
