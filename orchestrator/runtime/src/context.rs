//! The process context: connections to Redis, health, and the request to shut down.

use std::time::Duration;

use allot_client::{Servers, Session};
use allot_coordination::{Coordinator, random};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tracing::{debug, warn};

use super::Health;
use super::http::RolePages;

/// The connections and the state that all roles of a process share.
#[derive(Clone)]
pub struct Context {
    /// Name of this process, unique within the realm.
    pub name: String,
    /// The way to the Redis master.
    pub servers: Servers,
    /// Host part of the unit identity, if it is configured.
    pub host: Option<String>,
    /// The session with the coordination service.
    pub coordinator: Coordinator,
    /// Whether coordination runs within this process, without ZooKeeper.
    pub standalone: bool,
    /// State that the readiness probe reports.
    pub health: Health,
    /// The pages of a role at the HTTP port.
    pub pages: RolePages,
    /// The request to shut down.
    pub shutdown: Shutdown,
}

/// The longest pause before a server that refused immediately is asked again.
const REFUSED_PAUSE: Duration = Duration::from_millis(500);

/// The request that the process shuts down. Clones observe the same request.
#[derive(Debug, Clone)]
pub struct Shutdown(watch::Receiver<bool>);

impl Shutdown {
    /// Whether shutdown was requested.
    pub fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until shutdown is requested.
    pub async fn requested(&mut self) {
        let _ = self.0.wait_for(|requested| *requested).await;
    }
}

/// A shutdown request that was not made yet, and the sender that makes it by sending `true`.
pub fn shutdown_channel() -> (watch::Sender<bool>, Shutdown) {
    let (request, shutdown) = watch::channel(false);
    (request, Shutdown(shutdown))
}

impl Context {
    /// A session with the realm's master. Retries until there is one; `None` when the process shuts down.
    pub async fn connect(&self, part: &'static str) -> Option<Session> {
        let mut shutdown = self.shutdown.clone();
        tokio::select! {
            biased;
            () = shutdown.requested() => None,
            session = self.reconnect(part) => Some(session),
        }
    }

    /// Like [`connect`](Self::connect), but goes on during shutdown: for roles that still have work to finish.
    pub async fn reconnect(&self, part: &'static str) -> Session {
        const FIRST_PAUSE: Duration = Duration::from_millis(25);
        const LONGEST_PAUSE: Duration = Duration::from_millis(500);
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match self.servers.session().await {
                Ok(session) => {
                    debug!(part, server = %session.node, replicas = session.replicas, "connected to Redis");
                    return session;
                }
                Err(error) => error,
            };
            if pause == FIRST_PAUSE {
                warn!(part, %error, "no session with Redis; retrying");
            }
            self.health.not_ready(part, format!("no session with Redis: {error}"));
            // Jitter: all clients of a server that restarts would otherwise reconnect in the same instant.
            let jitter = random::within(0.5..1.0);
            sleep(pause.mul_f64(jitter)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Counts and logs that a session, which began at `began`, ended with this error. If the session was short, waits
    /// a short time: a server may accept connections and refuse every command (it loads its data, its disk is full, its
    /// replicas are away), and must not be asked as fast as it can refuse.
    pub async fn session_failed(&self, part: &'static str, error: &allot_client::Error, began: Instant) {
        const SHORT: Duration = Duration::from_secs(1);
        metrics::counter!("allot_store_faults_total", "part" => part).increment(1);
        warn!(part, %error, "the session with Redis ended; reconnecting");
        self.health.not_ready(part, format!("the session with Redis ended: {error}"));
        if began.elapsed() < SHORT {
            let mut shutdown = self.shutdown.clone();
            let jitter = random::within(0.5..1.0);
            tokio::select! { () = sleep(REFUSED_PAUSE.mul_f64(jitter)) => {}, () = shutdown.requested() => {} }
        }
    }

    /// The host part of the unit identity: the configured one, or this process's address as Redis sees it. Waits until
    /// that address is known instead of guessing: two units with the same host would replace each other. `None` when
    /// the process shuts down.
    pub async fn host(&self, part: &'static str) -> Option<String> {
        if let Some(host) = &self.host {
            return Some(host.clone());
        }
        let (mut shutdown, mut warned) = (self.shutdown.clone(), false);
        loop {
            let found = tokio::select! {
                found = self.servers.own_address() => found,
                () = shutdown.requested() => return None,
            };
            let error = match found {
                Ok(address) => return Some(address.to_string()),
                Err(error) => error,
            };
            if !warned {
                warn!(part, %error, "own address towards Redis is unknown; retrying. Set media-unit.host to name it");
                warned = true;
            }
            self.health.not_ready(
                part,
                format!("own address towards Redis is unknown, and media-unit.host is not set: {error}"),
            );
            tokio::select! { () = sleep(REFUSED_PAUSE) => {}, () = shutdown.requested() => return None }
        }
    }
}
