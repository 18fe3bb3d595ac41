//! A process: one role with its own connections to Redis and ZooKeeper.

use std::sync::Arc;

use allot_client::{Endpoint, Servers};
use allot_coordination::in_process::InProcess;
use allot_coordination::in_process::line::Line;
use allot_coordination::{Coordinator, Settings};
use allot_runtime::{Health, shutdown_channel};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::network::{Link, Network, SENTINEL};
use super::redis::Redis;
use super::{REALM, clock};
use crate::config::{Config, Role};
use crate::roles::context::RoleContext;
use crate::roles::{data_proxy, media_unit, scheduler};

/// A process that runs a role. Dropping it kills the process.
pub(super) struct Process {
    pub(super) name: String,
    pub(super) role: Role,
    /// The way to Redis.
    pub(super) link: Link,
    /// The way to ZooKeeper.
    pub(super) line: Line,
    task: AbortHandle,
    /// Sends the request to shut down.
    _shutdown: watch::Sender<bool>,
}

impl Process {
    /// Starts a process with this name on a host of the same name.
    pub(super) fn start(name: &str, role: Role, settings: &str, redis: &Redis, tree: &InProcess) -> Self {
        clock::start_process(|| Self::start_tasks(name, role, settings, redis, tree))
    }

    fn start_tasks(name: &str, role: Role, settings: &str, redis: &Redis, tree: &InProcess) -> Self {
        let link = Link::new();
        let endpoint = Endpoint::Sentinels {
            sentinels: vec![format!("{SENTINEL}:26379")],
            master: "mymaster".to_owned(),
            tls: false,
        };
        let network = Network { redis: redis.clone(), link: link.clone() };
        let mut config = Config::of(settings);
        config.servers = Servers { dial: Some(Arc::new(network)), ..Servers::new(endpoint, REALM) };
        let line = Line::new(tree.clone(), Arc::new(link.clone()));
        let coordinator = Coordinator::start(Arc::new(line.clone()), &Settings::default());
        let (shutdown, requested) = shutdown_channel();
        let process = allot_runtime::Context {
            name: name.to_owned(),
            servers: config.servers.clone(),
            host: Some(name.to_owned()),
            coordinator,
            standalone: false,
            health: Health::default(),
            shutdown: requested,
        };
        let context = RoleContext { process, config: Arc::new(config) };
        let running = tokio::spawn(async move {
            let ended = match role {
                Role::Scheduler => scheduler::run(context).await,
                Role::DataProxy => data_proxy::run(context).await,
                Role::MediaUnit => media_unit::run(context).await,
                Role::Compaction | Role::Accounts | Role::Console => {
                    unreachable!("this role is not simulated yet")
                }
            };
            ended.unwrap();
        });
        Self { name: name.to_owned(), role, link, line, task: running.abort_handle(), _shutdown: shutdown }
    }
}

impl Process {
    /// Stops all bytes of the process, or lets them move again.
    pub(super) fn stall(&self, stalls: bool) {
        self.link.stall(stalls);
        self.line.stall(stalls);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.task.abort();
        self.line.die();
        self.link.break_all();
    }
}
