//! `allotd run`: the process around the roles. It starts them with what they share. At SIGTERM or SIGINT each role hands
//! over; a second signal ends the process at once.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use futures_util::future::BoxFuture;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{error, info, warn};

use allot_runtime::http;
use allot_runtime::time::now_ms;

use crate::config::{Config, Role, describe};
use crate::roles::{accounts, data_proxy, media_unit, scheduler};
use allot_coordination::in_process::InProcess;
use allot_coordination::session::Connector;
use allot_coordination::zookeeper::ZooKeeper;
use allot_coordination::{Coordinator, Settings, node_name};

use allot_runtime::{Health, stop};

/// The name of the session with the coordination service in probes.
const COORDINATION: &str = "coordination";
/// Limit for finding a name for people.
const NAMING: Duration = Duration::from_secs(1);
/// How long roles may take to hand over, in addition to the time for draining a unit.
const HAND_OVER: Duration = Duration::from_secs(10);

/// What every role gets: the process, and all settings.
#[derive(Clone)]
pub(crate) struct RoleContext {
    pub(crate) process: allot_runtime::Context,
    pub(crate) config: Arc<Config>,
}

impl std::ops::Deref for RoleContext {
    type Target = allot_runtime::Context;

    fn deref(&self) -> &Self::Target {
        &self.process
    }
}

impl RoleContext {
    /// The realm's directory in the coordination service.
    pub(crate) fn dir(&self) -> String {
        format!("{}/{}", self.config.root, node_name(&self.config.realm))
    }

    /// The directory of units.
    pub(crate) fn units_dir(&self) -> String {
        format!("{}/units", self.dir())
    }
}

/// Makes every panic end the process, also one in a background task: the other tasks would wait for it without end. A
/// process may die at any moment, and a supervisor starts it again; a process that hangs is worse.
fn abort_on_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        before(panic);
        let what = panic.payload().downcast_ref::<String>().map(String::as_str);
        if panic.location().is_some_and(|at| is_known(at.file(), what)) {
            return;
        }
        eprintln!("allotd: this is a bug, please report it");
        std::process::abort();
    }));
}

/// Whether a panic is the one known panic of the ZooKeeper client, which is caught where it happens: of a watch whose
/// session ended first. After any other panic of the client, the session would never answer.
fn is_known(file: &str, what: Option<&str>) -> bool {
    file.contains("zookeeper-client")
        && file.ends_with("session/watch.rs")
        && what.is_some_and(|what| what.contains("Canceled"))
}

/// Runs the roles until a signal or a fault ends them.
pub(crate) async fn run(config: Config) -> Result<()> {
    if config.roles.is_empty() {
        bail!(
            "no role: name some in allotd.roles of the file, or by --roles scheduler,data-proxy,media-unit,compaction,accounts"
        );
    }
    abort_on_panic();
    let health = Health::default();
    for part in config.roles.iter().map(|role| role.part()).chain([COORDINATION]) {
        health.lacks(part, "starting");
    }
    if let Some(address) = config.http {
        http::serve(address, health.clone()).await?;
    }
    for line in describe(&config).lines() {
        info!("{line}");
    }
    let (asked, stop) = stop();
    let coordinator = coordinator(&config);
    let name = match &config.name {
        Some(name) => name.clone(),
        None => format!("{}:{}:{}", host_for_people(&config).await, std::process::id(), now_ms()),
    };
    let process = allot_runtime::Context {
        name,
        servers: config.servers.clone(),
        host: config.cmu.host.clone(),
        coordinator: coordinator.clone(),
        alone: config.zookeeper.is_none(),
        health: health.clone(),
        stop,
    };
    let context = RoleContext { process, config: Arc::new(config) };
    let watching = tokio::spawn(watch_coordination(context.clone()));
    let mut roles = JoinSet::new();
    for role in context.config.roles.clone() {
        roles.spawn(play(role, context.clone()));
    }
    let mut signals = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let ended = tokio::select! {
        ended = roles.join_next() => Some(ended),
        _ = signals.0.recv() => None,
        _ = signals.1.recv() => None,
    };
    let mut result = Ok(());
    match ended {
        None => info!("signal received; handing over"),
        Some(Some(Ok((role, Err(fault))))) => {
            error!(role = role.name(), error = format!("{fault:#}"), "a role has ended");
            result = Err(fault);
        }
        Some(Some(Ok((role, Ok(()))))) => warn!(role = role.name(), "a role has ended"),
        Some(Some(Err(fault))) => {
            error!(%fault, "a role has failed: this is a bug, please report it");
            result = Err(fault.into());
        }
        Some(None) => {}
    }
    asked.send_replace(true);
    let limit = HAND_OVER + context.config.hand_over();
    tokio::select! {
        done = timeout(limit, async { while roles.join_next().await.is_some() {} }) => if done.is_err() {
            warn!("hand-over did not finish in time");
        },
        _ = signals.0.recv() => warn!("asked again by a second signal; ending at once"),
        _ = signals.1.recv() => warn!("asked again by a second signal; ending at once"),
    }
    roles.abort_all();
    watching.abort();
    let _ = timeout(Duration::from_secs(2), coordinator.close()).await;
    info!("ended");
    result
}

/// Runs a compaction unit.
async fn compact(context: RoleContext) -> Result<()> {
    let settings = context.config.compaction.clone();
    let allot_runtime::Context { coordinator, health, stop, .. } = context.process;
    allot_compaction::run(coordinator, health, stop, settings).await
}

/// The host in the process name, which is for people only.
async fn host_for_people(config: &Config) -> String {
    match &config.cmu.host {
        Some(host) => host.clone(),
        None => match tokio::time::timeout(NAMING, config.servers.own_address()).await {
            Ok(Ok(address)) => address.to_string(),
            _ => "unknown".to_owned(),
        },
    }
}

fn play(role: Role, context: RoleContext) -> BoxFuture<'static, (Role, Result<()>)> {
    Box::pin(async move {
        info!(role = role.name(), name = context.name, "role begins");
        let result = match role {
            Role::Scheduler => scheduler::run(context).await,
            Role::DataProxy => data_proxy::run(context).await,
            Role::MediaUnit => media_unit::run(context).await,
            Role::Compaction => compact(context).await,
            Role::Accounts => accounts::run(context).await,
        };
        (role, result.with_context(|| format!("role {}", role.name())))
    })
}

/// A session manager for the coordination service of these settings.
pub(crate) fn coordinator(config: &Config) -> Coordinator {
    let connector: Arc<dyn Connector> = if let Some(zookeeper) = &config.zookeeper {
        let ensemble = ZooKeeper::new(&zookeeper.servers, zookeeper.session);
        Arc::new(match &zookeeper.digest {
            Some((user, password)) => ensemble.with_digest(user, password.reveal()),
            None => ensemble,
        })
    } else {
        warn!(
            "no ZooKeeper is configured: coordination is within this process, and units of other processes are \
             judged by their leases alone. Set zookeeper.servers for more than one machine"
        );
        Arc::new(InProcess::new(config.session()))
    };
    Coordinator::start(connector, &Settings::default())
}

/// Reports the state of the session with the coordination service to the probes.
async fn watch_coordination(context: RoleContext) {
    let mut status = context.coordinator.subscribe();
    loop {
        if status.borrow_and_update().is_up() {
            context.health.ready(COORDINATION);
        } else {
            context.health.lacks(COORDINATION, "no session with ZooKeeper");
        }
        if status.changed().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_panic_of_the_zookeeper_client_is_known_and_no_other() {
        let of = |file: &str, what| is_known(&format!("/registry/zookeeper-client-0.11.2/src/{file}"), what);
        let canceled = Some("called `Result::unwrap()` on an `Err` value: Canceled");
        assert!(of("session/watch.rs", canceled));
        assert!(!of("session/mod.rs", canceled));
        assert!(!of("session/watch.rs", Some("called `Option::unwrap()` on a `None` value")));
        assert!(!is_known("src/session/watch.rs", canceled));
    }
}
