//! The process context: sessions with the stores, health, and the request to end.

use std::time::{Duration, Instant};

use allot_client::{Servers, Session};
use allot_coordination::{Coordinator, random};
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::{debug, warn};

use super::Health;

/// What all roles of a process share.
#[derive(Clone)]
pub struct Context {
    /// The process among its like.
    pub name: String,
    /// Where the master is.
    pub servers: Servers,
    /// Host of our identity, where it is set.
    pub host: Option<String>,
    /// The session with the coordination service.
    pub coordinator: Coordinator,
    /// Whether coordination is within the process.
    pub alone: bool,
    /// What the probes tell.
    pub health: Health,
    /// Whether the process shall end.
    pub stop: Stop,
}

/// The longest pause before a server is asked again that refused us at once.
const REFUSED: Duration = Duration::from_millis(500);

/// The word that the process shall end.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Whether it was said.
    pub fn is_asked(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is said.
    pub async fn asked(&mut self) {
        let _ = self.0.wait_for(|asked| *asked).await;
    }
}

/// A process that is not asked to end yet, and the word that asks it.
pub fn stop() -> (watch::Sender<bool>, Stop) {
    let (asked, stop) = watch::channel(false);
    (asked, Stop(stop))
}

impl Context {
    /// A session with the realm's master; tries until there is one. `None` when the process shall end.
    pub async fn connect(&self, part: &'static str) -> Option<Session> {
        let mut stop = self.stop.clone();
        tokio::select! {
            biased;
            () = stop.asked() => None,
            session = self.reconnect(part) => Some(session),
        }
    }

    /// The same for those who have something to do before the process ends.
    pub async fn reconnect(&self, part: &'static str) -> Session {
        const SHORTEST: Duration = Duration::from_millis(25);
        const LONGEST: Duration = Duration::from_millis(500);
        let mut pause = SHORTEST;
        loop {
            let error = match self.servers.session().await {
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
            let share = random::within(0.5..1.0);
            sleep(pause.mul_f64(share)).await;
            pause = (pause * 2).min(LONGEST);
        }
    }

    /// A session that began then ended by a fault; says so. A server may take connections and refuse all that is asked
    /// of it (it loads its data, its disk is full, its replicas are away); it is not asked as fast as it can refuse.
    pub async fn lost(&self, part: &'static str, error: &allot_client::Error, began: Instant) {
        const SHORT: Duration = Duration::from_secs(1);
        metrics::counter!("allot_store_faults_total", "part" => part).increment(1);
        warn!(part, %error, "the session with Redis is over");
        self.health.lacks(part, format!("the session with Redis is over: {error}"));
        if began.elapsed() < SHORT {
            let mut stop = self.stop.clone();
            let share = random::within(0.5..1.0);
            tokio::select! { () = sleep(REFUSED.mul_f64(share)) => {}, () = stop.asked() => {} }
        }
    }

    /// The host of our identity: as set, or our address towards Redis, as soon as that is known. A guess would do harm:
    /// of two units that take themselves for one host each replaces the other. `None` when the process shall end.
    pub async fn host(&self, part: &'static str) -> Option<String> {
        if let Some(host) = &self.host {
            return Some(host.clone());
        }
        let (mut stop, mut said) = (self.stop.clone(), false);
        loop {
            let found = tokio::select! {
                found = self.servers.own_address() => found,
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
}
