//! Deals accounts to client systems that know nothing but ZooKeeper. Of any number of these processes one leads, by
//! election; it watches who is there, tells the book (`ACCOUNT.*`), and makes the tree what the book says. What it knows
//! is in Redis and ZooKeeper; it may die at any moment, and the next one goes on.
//!
//! `plan` decides, and knows neither clock nor wire; `ears` hear what client systems do, `hands` read and write the tree,
//! `stint` is the loop of a leader. `operator` has what people type.

mod chores;
mod ears;
mod fault;
mod hands;
mod hearing;
mod orders;
pub(crate) mod paths;
mod plan;
#[cfg(test)]
mod plan_tests;
#[cfg(test)]
mod plan_world;
mod stint;
mod stuck;
mod turns;
mod view;
mod words;

use std::sync::Arc;

use anyhow::Result;
use tracing::info;

use crate::config::Config;
use crate::roles::context::RoleContext as Context;
use allot_coordination::node_name;

pub(crate) use turns::zone;

/// The name of this part in logs and probes.
const PART: &str = "accounts";

/// The directory of our own nodes: the election, and what was dealt with.
fn own_dir(config: &Config) -> String {
    format!("{}/{}", config.root, node_name(&config.accounts.book))
}

/// Stands for election, and leads when elected, until the process shall end.
pub(crate) async fn run(mut context: Context) -> Result<()> {
    // In a cluster the book may be with another master than the realm.
    context.config = Arc::new(context.config.for_book());
    context.process.servers = context.config.servers.clone();
    let mut shutdown = context.shutdown.clone();
    let mut election =
        context.coordinator.campaign(&format!("{}/election", own_dir(&context.config)), &context.name);
    context.health.ready(PART);
    while !context.shutdown.is_requested() {
        let lead = tokio::select! {
            lead = election.elected() => lead?,
            () = shutdown.requested() => break,
        };
        info!(term = lead.term().0, "this process deals accounts");
        metrics::gauge!("allot_accounts_leading").set(1.0);
        metrics::gauge!("allot_accounts_term").set(lead.term().0 as f64);
        if let Some(stint) = stint::Stint::new(&context, &lead) {
            stint.run().await;
        }
        metrics::gauge!("allot_accounts_leading").set(0.0);
        info!(term = lead.term().0, "this process deals accounts no more");
        context.health.ready(PART);
    }
    election.withdraw().await;
    Ok(())
}
