//! Deals accounts to client systems that know nothing but ZooKeeper. Of any number of these processes one leads, by
//! election; it watches who is there, tells the book (`ACCOUNT.*`), and makes the tree what the book says. What it knows
//! is in Redis and ZooKeeper; it may die at any input, and the next one goes on.
//!
//! `plan` decides, and knows neither clock nor wire; `watcher` hear what client systems do, `tree_writer` read and write the tree,
//! `session` is the loop of a leader. `operator` has what people type.

mod actions;
mod billing_cycles;
mod fault_injection;
mod leader_session;
mod observed_tree;
pub(crate) mod paths;
mod periodic_tasks;
mod protocol;
mod reconcile;
#[cfg(test)]
mod reconcile_simulation;
#[cfg(test)]
mod reconcile_tests;
mod tree_writer;
mod watch_events;
mod watcher;
mod write_backoff;

use std::sync::Arc;

use anyhow::Result;
use tracing::info;

use crate::config::Config;
use crate::roles::context::RoleContext as Context;
use allot_coordination::node_name;

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
        if let Some(session) = leader_session::LeaderSession::new(&context, &lead) {
            session.run().await;
        }
        metrics::gauge!("allot_accounts_leading").set(0.0);
        info!(term = lead.term().0, "this process deals accounts no more");
        context.health.ready(PART);
    }
    election.withdraw().await;
    Ok(())
}
