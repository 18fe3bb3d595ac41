//! `allotd`: the daemon and command line of Allot. This file is the only one that knows all roles.
#![warn(missing_docs, clippy::disallowed_types)]

mod cli;
mod config;
mod coordination;
mod daemon;
mod roles;
#[cfg(test)]
mod simulation;

use std::process::ExitCode;
use std::sync::Arc;

use allot_compaction::OpenSession;
use anyhow::Result;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use config::Role;
use roles::context::RoleContext;
use roles::{accounts, data_proxy, media_unit, scheduler};

fn main() -> ExitCode {
    if let Some(code) = allot_runtime::child::program::exec_if_child() {
        return code;
    }
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("allotd: the threads of the process cannot be started: {error}");
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(cli::main(run_role));
    // A thread that waits for storage which does not answer must not keep the process.
    runtime.shutdown_background();
    code
}

/// Runs a role until the process shuts down.
fn run_role(role: Role, context: RoleContext) -> BoxFuture<'static, Result<()>> {
    match role {
        Role::Scheduler => scheduler::run(context).boxed(),
        Role::DataProxy => data_proxy::run(context).boxed(),
        Role::MediaUnit => media_unit::run(context).boxed(),
        Role::Compaction => compaction(context).boxed(),
        Role::Accounts => accounts::run(context).boxed(),
        Role::Console => console(context).boxed(),
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

async fn console(context: RoleContext) -> Result<()> {
    let config = &context.config;
    let places = allot_console::Places {
        realm: config.realm.clone(),
        realm_dir: context.dir(),
        book: config.accounts.book.clone(),
        accounts_dir: accounts::paths::own_dir(config),
        compaction: config.compaction.root.clone(),
        wait_replicas: config.conference.wait_replicas,
        wait: config.conference.wait,
    };
    let operations = cli::console_operations::ConsoleOperations {
        config: config.as_ref().clone(),
        coordinator: context.process.coordinator.clone(),
    };
    allot_console::run(context.process.clone(), config.console.clone(), places, Box::new(operations)).await
}
