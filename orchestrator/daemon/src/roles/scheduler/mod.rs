//! The scheduler of conferences. At most one scheduler of a realm leads, by election. The leader declares units down,
//! has their conferences recovered at a rate that the other units can bear, and stops declaring units down when too many
//! seem to fail at once. All its state is in Redis and the coordination service: a scheduler may be killed at any
//! moment, and the next leader continues.
//!
//! `failure_detector`, `mass_failure_guard` and `rate_limiter` decide, without clock or I/O; `active` is the leader that
//! observes and acts.

mod active;
mod failure_detector;
mod loss_survey;
mod mass_failure_guard;
mod rate_limiter;
mod units;

use anyhow::{Context as _, Result};
use tokio::time::Instant;
use tracing::info;

use crate::roles::context::RoleContext as Context;
use allot_client::RealmStore;
use allot_coordination::{Error, Kind, Leadership};
use allot_runtime::{Candidate, LeaderSession, campaign};

use active::{ActiveScheduler, ROLE};

use units::UnitNodes;

/// Takes part in the election, and leads when elected, until the process shuts down.
pub(crate) async fn run(context: Context) -> Result<()> {
    let dir = format!("{}/election", context.dir());
    if context.standalone && continue_terms_of_redis(&context, &dir).await?.is_none() {
        return Ok(());
    }
    context.health.ready(ROLE);
    let nodes = UnitNodes::follow(&context.coordinator, &context.units_dir());
    let mut scheduler = Scheduler { context: &context, nodes };
    campaign(&context.coordinator, &context.shutdown, &dir, &context.name, &mut scheduler).await?;
    Ok(())
}

struct Scheduler<'a> {
    context: &'a Context,
    nodes: UnitNodes,
}

impl Candidate for Scheduler<'_> {
    async fn lead(&mut self, leadership: Leadership) {
        let term = leadership.term().0;
        info!(term, "this scheduler leads");
        metrics::gauge!("allot_scheduler_term").set(term as f64);
        let lease = self.context.config.media_unit.lease;
        let session = LeaderSession::new(self.context, ROLE, leadership.clone(), lease);
        session.run(&mut ActiveScheduler::new(self.context, &mut self.nodes, leadership)).await;
        metrics::gauge!("allot_scheduler_guard").set(0.0);
        info!(term, "this scheduler stopped leading");
        self.context.health.ready(ROLE);
    }
}

/// Without ZooKeeper, terms of each process would start at 1, and the realm would refuse them as older than those of
/// the process before. So the epoch node is created with the term that the realm knows. `None` when the process shuts
/// down.
async fn continue_terms_of_redis(context: &Context, dir: &str) -> Result<Option<()>> {
    let term: u64 = loop {
        let Some(session) = context.connect(ROLE).await else { return Ok(None) };
        let began = Instant::now();
        match RealmStore::new(session.connection, &context.config.realm).realm().await {
            Ok(realm) => break realm.get("term")?,
            // For instance, the server loads its data or is out of memory.
            Err(error) if error.ends_session() => context.session_failed(ROLE, &error, began).await,
            Err(error) => return Err(error).context("reading the realm's term"),
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
