//! The accounts role: assigns the accounts of one book to instances of client systems that speak only ZooKeeper. Of
//! all processes with this role one is elected leader. The leader watches which instances are present, updates the
//! book (`ACCOUNT.*` commands in Redis), and makes the ZooKeeper tree equal to the book. All state is in Redis and
//! ZooKeeper, so the next leader continues after a crash at any instruction.
//!
//! `reconcile` decides without clock or I/O. `watcher` reports what client systems do, `tree_writer` reads and writes
//! the tree, `book_reader` reads the book, and `leader_session` is the loop of a leader. `reads` answers questions by HTTP,
//! also in a process that does not lead.

mod actions;
mod billing_cycles;
mod book_reader;
mod fault_injection;
mod leader_session;
mod node_reader;
mod notifications;
mod observed_tree;
pub mod paths;
mod periodic_tasks;
mod protocol;
mod reads;
mod reconcile;
#[cfg(test)]
mod tests;
mod tree_audit;
mod tree_writer;
mod watch_events;
mod watcher;
mod write_backoff;

use std::sync::Arc;

use anyhow::Result;
use tracing::info;

use crate::roles::context::RoleContext as Context;
use allot_coordination::Leadership;
use allot_runtime::{Candidate, LeaderSession, campaign};

use leader_session::AccountsLeader;
use paths::own_dir;

/// The name of this role in logs and health checks.
const ROLE: &str = "accounts";

/// Takes part in the election, and leads when elected, until the process shuts down.
pub(crate) async fn run(mut context: Context) -> Result<()> {
    // In a Redis Cluster the book may be on another master than the realm.
    context.config = Arc::new(context.config.for_book());
    context.process.servers = context.config.servers.clone();
    context.health.ready(ROLE);
    let dir = format!("{}/election", own_dir(&context.config));
    if context.config.accounts.reads {
        context.pages.set(reads::PATH, reads::pages(&context, dir.clone()));
    }
    campaign(&context.coordinator, &context.shutdown, &dir, &context.name, &mut Accounts(&context)).await?;
    Ok(())
}

struct Accounts<'a>(&'a Context);

impl Candidate for Accounts<'_> {
    async fn lead(&mut self, leadership: Leadership) {
        let (context, term) = (self.0, leadership.term().0);
        info!(term, "this process assigns accounts");
        metrics::gauge!("allot_accounts_term").set(term as f64);
        if let Some(mut leader) = AccountsLeader::new(context, &leadership) {
            LeaderSession::new(context, ROLE, leadership, context.config.media_unit.lease)
                .run(&mut leader)
                .await;
        }
        info!(term, "this process stopped assigning accounts");
        context.health.ready(ROLE);
    }
}
