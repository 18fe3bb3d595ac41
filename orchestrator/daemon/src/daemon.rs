//! A process that serves: starts its parts, and shuts them down. At SIGTERM or SIGINT each part hands its work over; a
//! second signal ends the process at once. This file does not know the parts: `allotd run` passes roles in, and `allot
//! console` the console.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use futures_util::future::BoxFuture;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{error, info, warn};

use crate::config::Config;
use crate::coordination::coordinator;
use crate::roles::context::RoleContext;
use allot_runtime::http;
use allot_runtime::time::now_ms;
use allot_runtime::{COORDINATION, Health, shutdown_channel};

/// A part of a process: a role of the daemon, or the console.
pub struct Part {
    /// Its name in logs and probes.
    pub name: &'static str,
    /// Runs it until the process shuts down.
    pub run: Box<dyn FnOnce(RoleContext) -> BoxFuture<'static, Result<()>> + Send>,
}

/// Time limit for finding the address that is part of this process's name.
const NAME_TIMEOUT: Duration = Duration::from_secs(1);
/// Time limit for roles to hand their work over, in addition to the time limits of their settings.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(10);

/// Aborts the process when any task panics: other parts would wait for the failed part for ever. A process may die at
/// any moment, and its service manager restarts it.
fn abort_on_panic() {
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        default_hook(panic);
        let message = panic.payload().downcast_ref::<String>().map(String::as_str);
        if panic.location().is_some_and(|location| is_known_panic(location.file(), message)) {
            return;
        }
        eprintln!("this is a bug, please report it");
        std::process::abort();
    }));
}

/// Whether this is the known panic of the ZooKeeper client, in a watch whose session ended before the watch could
/// report that. This panic is caught where it can happen.
fn is_known_panic(file: &str, message: Option<&str>) -> bool {
    file.contains("zookeeper-client")
        && file.ends_with("session/watch.rs")
        && message.is_some_and(|message| message.contains("Canceled"))
}

/// Runs the parts of a process until a signal or an error ends one of them.
///
/// # Errors
/// A part failed, or the process could not be set up.
pub async fn run(config: Config, parts: Vec<Part>) -> Result<()> {
    abort_on_panic();
    // Signals are handled before any role starts: a role that has taken work must hand it over, however early the
    // signal comes.
    let mut signals = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let health = Health::default();
    for name in parts.iter().map(|part| part.name).chain([COORDINATION]) {
        health.not_ready(name, "starting");
    }
    let pages = http::RolePages::default();
    if let Some(address) = config.http {
        http::serve(address, health.clone(), config.servers.clone(), pages.clone()).await?;
    }
    let (request_shutdown, shutdown) = shutdown_channel();
    let coordinator = coordinator(&config, !config.roles.is_empty());
    let name = match &config.name {
        Some(name) => name.clone(),
        None => format!("{}:{}:{}", host_for_people(&config).await, std::process::id(), now_ms()),
    };
    let process = allot_runtime::Context {
        name,
        servers: config.servers.clone(),
        host: config.media_unit.host.clone(),
        coordinator: coordinator.clone(),
        standalone: config.zookeeper.is_none(),
        health,
        pages,
        shutdown,
    };
    let context = RoleContext { process, config: Arc::new(config) };
    let process = context.process.clone();
    let watching = tokio::spawn(async move { process.health.follow(&process.coordinator).await });
    let mut running = JoinSet::new();
    for Part { name, run } in parts {
        let context = context.clone();
        running.spawn(async move {
            info!(part = name, name = context.name, "part starts");
            (name, run(context).await.with_context(|| name))
        });
    }
    let ended = tokio::select! {
        ended = running.join_next() => Some(ended),
        _ = signals.0.recv() => None,
        _ = signals.1.recv() => None,
    };
    let result = match ended {
        None => {
            info!("signal received; handing over");
            Ok(())
        }
        Some(ended) => part_ended(ended),
    };
    request_shutdown.send_replace(true);
    let limit = HANDOVER_TIMEOUT + context.config.hand_over();
    tokio::select! {
        done = timeout(limit, async { while running.join_next().await.is_some() {} }) => if done.is_err() {
            warn!(?limit, "not all parts have handed over in time; ending");
        },
        _ = signals.0.recv() => warn!("asked again by a second signal; ending at once"),
        _ = signals.1.recv() => warn!("asked again by a second signal; ending at once"),
    }
    running.abort_all();
    watching.abort();
    let _ = timeout(Duration::from_secs(2), coordinator.close()).await;
    info!("ended");
    result
}

/// The result of the process when a part has ended without a signal.
fn part_ended(ended: Option<Result<(&str, Result<()>), tokio::task::JoinError>>) -> Result<()> {
    match ended {
        Some(Ok((part, Err(fault)))) => {
            error!(part, error = format!("{fault:#}"), "a part failed; shutting down");
            Err(fault)
        }
        Some(Ok((part, Ok(())))) => {
            warn!(part, "a part has ended; shutting down");
            Ok(())
        }
        Some(Err(fault)) => {
            error!(%fault, "a part panicked: this is a bug, please report it");
            Err(fault.into())
        }
        // A process has at least one part.
        None => bail!("no part runs: this is a bug, please report it"),
    }
}

/// The host part of the process's name, which only people read.
async fn host_for_people(config: &Config) -> String {
    match &config.media_unit.host {
        Some(host) => host.clone(),
        None => match timeout(NAME_TIMEOUT, config.servers.own_address()).await {
            Ok(Ok(address)) => address.to_string(),
            _ => "unknown".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_panic_of_the_zookeeper_client_is_known() {
        let of = |file: &str, message| {
            is_known_panic(&format!("/registry/zookeeper-client-0.11.2/src/{file}"), message)
        };
        let canceled = Some("called `Result::unwrap()` on an `Err` value: Canceled");
        assert!(of("session/watch.rs", canceled));
        assert!(!of("session/mod.rs", canceled));
        assert!(!of("session/watch.rs", Some("called `Option::unwrap()` on a `None` value")));
        assert!(!is_known_panic("src/session/watch.rs", canceled));
    }
}
