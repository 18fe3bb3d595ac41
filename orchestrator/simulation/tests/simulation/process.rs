//! A process: a role with its own connections to Redis and ZooKeeper, or an instance that uses accounts.

use std::sync::Arc;
use std::time::Duration;

use allot_client::Endpoint;
use allot_compaction::simulated;
use allot_coordination::Coordinator;
use allot_coordination::in_process::InProcess;
use allot_runtime::{Health, Shutdown, shutdown_channel};
use allot_simulation::line::Line;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use super::accounts::{self, Accounts};
use super::link::Link;
use super::network::{Network, SENTINEL};
use super::redis::Redis;
use super::tables::Tables;
use super::{BOOK, REALM, account_client, clock};
use allotd::config::{Config, Role};
use allotd::coordination::coordinator;
use allotd::roles::context::RoleContext;
use allotd::run_role;

/// The longest time that a shutdown may take.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(60);

/// What a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    Role(Role),
    /// An instance of a module, which uses accounts.
    Instance,
}

/// What all processes connect to.
pub(super) struct Servers {
    pub(super) redis: Redis,
    pub(super) tree: InProcess,
    pub(super) accounts: Accounts,
    pub(super) tables: Tables,
}

/// A process that runs a program. Dropping it kills the process.
pub(super) struct Process {
    pub(super) name: String,
    pub(super) program: Program,
    /// The way to Redis.
    pub(super) link: Link,
    /// The way to ZooKeeper.
    pub(super) line: Line,
    /// What the readiness probe of a role says.
    pub(super) health: Health,
    task: AbortHandle,
    /// Sends the request to shut down.
    shutdown: watch::Sender<bool>,
}

impl Process {
    /// Starts a process with this name on a host of the same name.
    pub(super) fn start(name: &str, program: Program, settings: &str, servers: &Servers) -> Self {
        clock::start_process(|| Self::start_tasks(name, program, settings, servers))
    }

    fn start_tasks(name: &str, program: Program, settings: &str, servers: &Servers) -> Self {
        let link = Link::new();
        let line = Line::new(servers.tree.clone(), Arc::new(link.clone()));
        let (shutdown, requested) = shutdown_channel();
        let health = Health::default();
        let running = match program {
            Program::Instance => {
                let dir = accounts::dir(accounts::module_of(name));
                let accounts = servers.accounts.clone();
                tokio::spawn(account_client::run(name.to_owned(), dir, line.clone(), accounts))
            }
            // Runners are not processes here.
            Program::Role(Role::Compaction) => {
                let coordinator = Coordinator::start(Arc::new(line.clone()));
                let (settings, runners) = (Tables::settings(name), servers.tables.runners.clone());
                let unit = simulated::run(coordinator.clone(), health.clone(), requested, settings, runners);
                tokio::spawn(followed(health.clone(), coordinator, async move { unit.await.unwrap() }))
            }
            Program::Role(role) => {
                let network = Network { redis: servers.redis.clone(), link: link.clone() };
                let context = context(name, settings, network, &line, health.clone(), requested);
                let coordinator = context.coordinator.clone();
                let role = async move { run_role(role, context).await.unwrap() };
                tokio::spawn(followed(health.clone(), coordinator, role))
            }
        };
        let task = running.abort_handle();
        Self { name: name.to_owned(), program, link, line, health, task, shutdown }
    }
}

/// Runs this, and lets the readiness probe follow the session with ZooKeeper meanwhile.
async fn followed(health: Health, coordinator: Coordinator, run: impl Future<Output = ()>) {
    tokio::select! { () = run => {}, () = health.follow(&coordinator) => {} }
}

/// The context of a role in this process.
fn context(
    name: &str,
    settings: &str,
    network: Network,
    line: &Line,
    health: Health,
    shutdown: Shutdown,
) -> RoleContext {
    let endpoint = Endpoint::Sentinels {
        sentinels: vec![format!("{SENTINEL}:26379")],
        master: "mymaster".to_owned(),
        tls: false,
    };
    let mut config = Config::of(settings).unwrap();
    config.servers = allot_client::Servers {
        dial: Some(Arc::new(network)),
        ..allot_client::Servers::new(endpoint, REALM)
    };
    config.connector = Some(Arc::new(line.clone()));
    BOOK.clone_into(&mut config.accounts.book);
    accounts::ROOT.clone_into(&mut config.accounts.root);
    let process = allot_runtime::Context {
        name: name.to_owned(),
        servers: config.servers.clone(),
        host: Some(name.to_owned()),
        coordinator: coordinator(&config, true),
        standalone: false,
        health,
        pages: allot_runtime::http::RolePages::default(),
        shutdown,
    };
    RoleContext { process, config: Arc::new(config) }
}

impl Process {
    /// Stops all requests and replies of the process, or lets them arrive again.
    pub(super) fn stall(&self, stalls: bool) {
        self.link.stall(stalls);
        self.line.stall(stalls);
    }

    /// Asks the process to shut down, and waits until it is over.
    pub(super) async fn shut_down(&self) {
        self.shutdown.send_replace(true);
        let limit = Instant::now() + SHUTDOWN_LIMIT;
        while !self.task.is_finished() {
            assert!(Instant::now() < limit, "{} hangs in its shutdown", self.name);
            sleep(Duration::from_millis(1)).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.task.abort();
        self.line.die();
        self.link.break_all();
    }
}
