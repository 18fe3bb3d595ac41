//! The scheduler of conferences. Of any number of them one leads, by election; it declares units down, has their
//! conferences placed anew at a pace that the others can bear, and holds back when too much seems to be lost at once.
//! What it knows is in Redis and the coordination service; it may die at any moment, and the next one goes on.
//!
//! `verdicts`, `brake` and `pace` decide, and know neither clock nor wire; `stint` does what they say.

mod brake;
mod nodes;
mod pace;
mod stint;
mod verdicts;

use std::time::Instant;

use anyhow::{Context as _, Result};
use tracing::info;

use crate::daemon::RoleContext as Context;
use allot_client::RealmStore;
use allot_coordination::{Error, Kind};

use nodes::Nodes;
use stint::Stint;

/// The name of this part in logs and probes.
const PART: &str = "conference";

/// The field of the realm's `brake` that the operator sets.
pub(crate) const LIFT: &str = "lift";

/// Stands for election, and leads when elected, until the process shall end.
pub(crate) async fn run(context: Context) -> Result<()> {
    let mut shutdown = context.shutdown.clone();
    let dir = format!("{}/election", context.dir());
    if context.standalone && begin_behind(&context, &dir).await?.is_none() {
        return Ok(());
    }
    let mut nodes = Nodes::follow(&context.coordinator, &context.units_dir());
    let mut election = context.coordinator.campaign(&dir, &context.name);
    context.health.ready(PART);
    while !context.shutdown.is_requested() {
        let lead = tokio::select! {
            lead = election.elected() => lead?,
            () = shutdown.requested() => break,
        };
        info!(term = lead.term().0, "this scheduler leads");
        metrics::gauge!("allot_scheduler_leading").set(1.0);
        metrics::gauge!("allot_scheduler_term").set(lead.term().0 as f64);
        Stint::new(&context, &mut nodes, lead.clone()).run().await;
        metrics::gauge!("allot_scheduler_leading").set(0.0);
        metrics::gauge!("allot_scheduler_brake").set(0.0);
        info!(term = lead.term().0, "this scheduler leads no more");
        context.health.ready(PART);
    }
    election.withdraw().await;
    Ok(())
}

/// Coordination within the process begins at term 1 each time. So that the realm takes the next term for a later one
/// than that of the process before, the count goes on from what the realm has.
async fn begin_behind(context: &Context, dir: &str) -> Result<Option<()>> {
    let term: u64 = loop {
        let Some(session) = context.connect(PART).await else { return Ok(None) };
        let began = Instant::now();
        match RealmStore::new(session.connection, &context.config.realm).realm().await {
            Ok(realm) => break realm.get("term")?,
            // It loads its data, or has no memory.
            Err(error) if error.ends_session() => context.session_failed(PART, &error, began).await,
            Err(error) => return Err(error).context("the realm's term"),
        }
    };
    context.coordinator.up().await?;
    let tree = context.coordinator.tree();
    tree.ensure(dir).await?;
    match tree.create(&format!("{dir}/epoch"), term.to_string().as_bytes(), Kind::Persistent).await {
        Ok(()) | Err(Error::Exists(_)) => Ok(Some(())),
        Err(error) => Err(error.into()),
    }
}
