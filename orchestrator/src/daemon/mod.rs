//! `allotd run`: the process around the roles. It knows how to begin, what all roles share, and how to end: at
//! SIGTERM or SIGINT each role hands over, and a second signal ends it at once.

mod health;
mod http;
mod leader;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use futures_util::future::BoxFuture;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{debug, error, info, warn};

use crate::cli::Outcome;
use crate::config::{Config, Role, describe};
use crate::coordination::in_process::InProcess;
use crate::coordination::session::Connector;
use crate::coordination::zookeeper::ZooKeeper;
use crate::coordination::{Coordinator, Settings};
use crate::store::{self, Session};
use crate::{accounts, chance, cmu, compaction, conference, data_proxy};

pub(crate) use health::Health;
pub(crate) use leader::{End, Leader};

/// The name of the session with the coordination service in probes.
const COORDINATION: &str = "coordination";
/// How long a name for people is looked for.
const NAMING: Duration = Duration::from_secs(1);
/// How long roles are given to hand over, besides what a unit needs to be drained.
const FAREWELL: Duration = Duration::from_secs(10);

/// What all roles of a process share.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) config: Arc<Config>,
    /// The process among its like.
    pub(crate) name: String,
    pub(crate) coordinator: Coordinator,
    /// Whether coordination is within the process.
    pub(crate) alone: bool,
    pub(crate) health: Health,
    pub(crate) stop: Stop,
}

/// The longest pause before a server is asked again that refused us at once.
const REFUSED: Duration = Duration::from_millis(500);

/// The word that the process shall end.
#[derive(Debug, Clone)]
pub(crate) struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Whether it was said.
    pub(crate) fn is_asked(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is said.
    pub(crate) async fn asked(&mut self) {
        let _ = self.0.wait_for(|asked| *asked).await;
    }
}

/// A process that is not asked to end yet, and the word that asks it.
#[cfg(test)]
pub(crate) fn stop() -> (watch::Sender<bool>, Stop) {
    let (asked, stop) = watch::channel(false);
    (asked, Stop(stop))
}

impl Context {
    /// A session with the realm's master; tries until there is one. `None` when the process shall end.
    pub(crate) async fn connect(&self, part: &'static str) -> Option<Session> {
        let mut stop = self.stop.clone();
        tokio::select! {
            biased;
            () = stop.asked() => None,
            session = self.reconnect(part) => Some(session),
        }
    }

    /// The same for those who have something to do before the process ends.
    pub(crate) async fn reconnect(&self, part: &'static str) -> Session {
        const SHORTEST: Duration = Duration::from_millis(25);
        const LONGEST: Duration = Duration::from_millis(500);
        let mut pause = SHORTEST;
        loop {
            let error = match self.config.servers.session().await {
                Ok(session) => {
                    debug!(part, server = %session.node, replicas = session.replicas, "connected to Redis");
                    return session;
                }
                Err(error) => error,
            };
            if pause == SHORTEST {
                warn!(part, %error, "no session with Redis; trying on");
            }
            self.health.lacks(part, format!("no session with Redis: {error}"));
            // Spread, lest all come in the same instant.
            let share = chance::within(0.5..1.0);
            sleep(pause.mul_f64(share)).await;
            pause = (pause * 2).min(LONGEST);
        }
    }

    /// A session that began then ended by a fault; says so. A server may take connections and refuse all that is asked
    /// of it (it loads its data, its disk is full, its replicas are away); it is not asked as fast as it can refuse.
    pub(crate) async fn lost(&self, part: &'static str, error: &store::Error, began: Instant) {
        const SHORT: Duration = Duration::from_secs(1);
        metrics::counter!("allot_store_faults_total", "part" => part).increment(1);
        warn!(part, %error, "the session with Redis is over");
        self.health.lacks(part, format!("the session with Redis is over: {error}"));
        if began.elapsed() < SHORT {
            let mut stop = self.stop.clone();
            let share = chance::within(0.5..1.0);
            tokio::select! { () = sleep(REFUSED.mul_f64(share)) => {}, () = stop.asked() => {} }
        }
    }

    /// The host of our identity: as set, or our address towards Redis, as soon as that is known. A guess would do harm:
    /// of two units that take themselves for one host each replaces the other. `None` when the process shall end.
    pub(crate) async fn host(&self, part: &'static str) -> Option<String> {
        if let Some(host) = &self.config.cmu.host {
            return Some(host.clone());
        }
        let (mut stop, mut said) = (self.stop.clone(), false);
        loop {
            let found = tokio::select! {
                found = self.config.servers.own_address() => found,
                () = stop.asked() => return None,
            };
            let error = match found {
                Ok(address) => return Some(address.to_string()),
                Err(error) => error,
            };
            if !said {
                warn!(part, %error, "our address towards Redis is not known yet; trying on. cmu.host would name it");
                said = true;
            }
            self.health.lacks(
                part,
                format!("our address towards Redis is not known, and cmu.host not set: {error}"),
            );
            tokio::select! { () = sleep(REFUSED) => {}, () = stop.asked() => return None }
        }
    }

    /// The realm's directory in the coordination service.
    pub(crate) fn dir(&self) -> String {
        format!("{}/{}", self.config.root, node_name(&self.config.realm))
    }

    /// The directory of units.
    pub(crate) fn units_dir(&self) -> String {
        format!("{}/units", self.dir())
    }
}

/// A name as it may stand in a path of the coordination service: `%` and `/` are written as their codes.
pub(crate) fn node_name(name: &str) -> String {
    name.replace('%', "%25").replace('/', "%2F")
}

/// The name that a node was made of.
pub(crate) fn name_of_node(node: &str) -> String {
    node.replace("%2F", "/").replace("%25", "%")
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// A part that panicked, be it in the background, leaves the others waiting for it. Any process may die at any moment,
/// and a supervisor starts it again; one that hangs is worse.
fn end_at_panic() {
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

/// Whether it is the one panic of the ZooKeeper client that is known, and caught where it may happen: of a watch whose
/// session went before it could say so. Any other would leave us waiting for a session that nobody serves.
fn is_known(file: &str, what: Option<&str>) -> bool {
    file.contains("zookeeper-client")
        && file.ends_with("session/watch.rs")
        && what.is_some_and(|what| what.contains("Canceled"))
}

/// Plays the roles until a signal or a fault ends it.
pub(crate) async fn run(config: Config) -> Result<Outcome> {
    if config.roles.is_empty() {
        bail!(
            "no role: name some in allotd.roles of the file, or by --roles conference,data-proxy,cmu,compaction,accounts"
        );
    }
    end_at_panic();
    let health = Health::default();
    for part in config.roles.iter().map(|role| role.word()).chain([COORDINATION]) {
        health.lacks(part, "beginning");
    }
    if let Some(address) = config.http {
        http::serve(address, health.clone()).await?;
    }
    for line in describe(&config).lines() {
        info!("{line}");
    }
    let (asked, stop) = watch::channel(false);
    let coordinator = coordinator(&config);
    let name = match &config.name {
        Some(name) => name.clone(),
        None => format!("{}:{}:{}", host_for_people(&config).await, std::process::id(), now_ms()),
    };
    let context = Context {
        name,
        coordinator: coordinator.clone(),
        alone: config.zookeeper.is_none(),
        health: health.clone(),
        stop: Stop(stop),
        config: Arc::new(config),
    };
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
    let mut result = Ok(Outcome::Done);
    match ended {
        None => info!("asked to end; handing over"),
        Some(Some(Ok((role, Err(fault))))) => {
            error!(role = role.word(), error = format!("{fault:#}"), "a role has ended");
            result = Err(fault);
        }
        Some(Some(Ok((role, Ok(()))))) => warn!(role = role.word(), "a role has ended"),
        Some(Some(Err(fault))) => {
            error!(%fault, "a role has failed: this is a bug, please report it");
            result = Err(fault.into());
        }
        Some(None) => {}
    }
    asked.send_replace(true);
    let limit = FAREWELL + context.config.farewell();
    tokio::select! {
        done = timeout(limit, async { while roles.join_next().await.is_some() {} }) => if done.is_err() {
            warn!("not all was handed over in time");
        },
        _ = signals.0.recv() => warn!("asked again; ending at once"),
        _ = signals.1.recv() => warn!("asked again; ending at once"),
    }
    roles.abort_all();
    watching.abort();
    let _ = timeout(Duration::from_secs(2), coordinator.close()).await;
    info!("ended");
    result
}

/// The host in a name that people read, and nobody goes by.
async fn host_for_people(config: &Config) -> String {
    match &config.cmu.host {
        Some(host) => host.clone(),
        None => match tokio::time::timeout(NAMING, config.servers.own_address()).await {
            Ok(Ok(address)) => address.to_string(),
            _ => "unknown".to_owned(),
        },
    }
}

fn play(role: Role, context: Context) -> BoxFuture<'static, (Role, Result<()>)> {
    Box::pin(async move {
        info!(role = role.word(), name = context.name, "role begins");
        let result = match role {
            Role::Conference => conference::run(context).await,
            Role::DataProxy => data_proxy::run(context).await,
            Role::Cmu => cmu::run(context).await,
            Role::Compaction => compaction::run(context).await,
            Role::Accounts => accounts::run(context).await,
        };
        (role, result.with_context(|| format!("role {}", role.word())))
    })
}

/// The way to the coordination service that these settings name.
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

/// Tells the probes of the session with the coordination service.
async fn watch_coordination(context: Context) {
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

    #[test]
    fn any_name_stands_in_a_path_and_comes_back() {
        for name in ["10.0.0.1/b:1:2", "100%", "%2F", "a/%25/b", "{r}:conf"] {
            assert!(!node_name(name).contains('/'), "{name}");
            assert_eq!(name_of_node(&node_name(name)), name);
        }
    }
}
