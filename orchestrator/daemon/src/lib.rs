//! The roles of Allot's daemon, and the settings of a process. `run_role` is the only code that knows all roles.
#![warn(missing_docs, clippy::disallowed_types)]

pub mod config;
pub mod coordination;
pub mod daemon;
pub mod roles;

use std::sync::Arc;

use allot_compaction::OpenSession;
use anyhow::Result;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use config::Role;
use roles::context::RoleContext;
use roles::{accounts, data_proxy, media_unit, scheduler};

/// Runs a role until the process shuts down.
pub fn run_role(role: Role, context: RoleContext) -> BoxFuture<'static, Result<()>> {
    match role {
        Role::Scheduler => scheduler::run(context).boxed(),
        Role::DataProxy => data_proxy::run(context).boxed(),
        Role::MediaUnit => media_unit::run(context).boxed(),
        Role::Compaction => compaction(context).boxed(),
        Role::Accounts => accounts::run(context).boxed(),
        Role::Console => {
            async { anyhow::bail!("the console is a process of its own: allot console") }.boxed()
        }
    }
}

async fn compaction(context: RoleContext) -> Result<()> {
    let (settings, config) = (context.config.compaction.clone(), context.config.clone());
    // Without ZooKeeper, another session would be with another tree.
    let open = config
        .zookeeper
        .is_some()
        .then(|| -> OpenSession { Arc::new(move || coordination::coordinator(&config)) });
    let allot_runtime::Context { coordinator, health, shutdown, .. } = context.process;
    allot_compaction::run(coordinator, open, health, shutdown, settings).await
}
