//! The state of the mass-failure guard of a realm.

use allot_client::{Error, RealmStore};
use redis::cmd;
use serde_json::Value as Json;

/// The state of the guard, as the scheduler writes it; `None` if it does not hold.
pub(super) async fn read_brake(realm: &RealmStore) -> Result<Option<Json>, Error> {
    let brake: Vec<(String, String)> = realm.ask(cmd("HGETALL").arg(realm.stream("brake"))).await?;
    let brake: serde_json::Map<String, Json> =
        brake.into_iter().map(|(name, value)| (name, value.into())).collect();
    Ok(brake.contains_key("since").then(|| brake.into()))
}
