//! The roles of the daemon, and the settings of a process, which `allot` reads as well. Only `run_role` knows all roles.
#![warn(missing_docs, clippy::disallowed_types)]

pub mod arguments;
pub mod config;
pub mod coordination;
pub mod daemon;
pub mod roles;

use anyhow::{Result, ensure};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use config::{Config, Role};
use daemon::Part;
use roles::context::RoleContext;
use roles::{accounts, data_proxy, media_unit, scheduler};

/// Runs the configured roles until a signal or an error ends one of them.
///
/// # Errors
/// A role failed, or none is configured.
pub async fn run(config: Config) -> Result<()> {
    ensure!(
        !config.roles.is_empty(),
        "no role: name some in allotd.roles of the file, or by --roles scheduler,data-proxy,media-unit,compaction,accounts"
    );
    let part = |role: Role| Part { name: role.name(), run: Box::new(move |context| run_role(role, context)) };
    let parts = config.roles.iter().copied().map(part).collect();
    daemon::run(config, parts).await
}

/// Runs a role until the process shuts down.
pub fn run_role(role: Role, context: RoleContext) -> BoxFuture<'static, Result<()>> {
    match role {
        Role::Scheduler => scheduler::run(context).boxed(),
        Role::DataProxy => data_proxy::run(context).boxed(),
        Role::MediaUnit => media_unit::run(context).boxed(),
        Role::Compaction => compaction(context).boxed(),
        Role::Accounts => accounts::run(context).boxed(),
    }
}

async fn compaction(context: RoleContext) -> Result<()> {
    let settings = context.config.compaction.clone();
    let allot_runtime::Context { coordinator, health, shutdown, .. } = context.process;
    allot_compaction::run(coordinator, health, shutdown, settings).await
}
