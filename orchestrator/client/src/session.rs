//! Finds the master and opens a session with it.
//!
//! A session is a connection to one server that has confirmed that it is the master. A session is never repaired: it
//! ends at the first fault, and the next session finds the master again. A decision is therefore always carried out on
//! the server from which its facts were read, and no decision crosses a failover.

use std::time::Duration;

use rand::Rng as _;
use redis::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::connection::{Connection, command, query};
use crate::endpoint::{Endpoint, Node};
use crate::error::Error;
use crate::sentinels::Sentinels;
use crate::servers::Servers;

/// For this long after a master lost its last replica, that replica may have replaced the master.
const REPLICAS_LOST: Duration = Duration::from_secs(30);

/// A session with one master. Clones share the connection.
#[derive(Debug, Clone)]
pub struct Session {
    /// The connection, for commands that do not block.
    pub connection: Connection,
    /// The address of the master.
    pub node: Node,
    /// Number of replicas of the master when they were last counted.
    pub replicas: usize,
    /// The time at which the last replica was found to be gone.
    replicas_lost_at: Option<Instant>,
    /// Whether Sentinels have named another master since.
    deposed: watch::Receiver<bool>,
    servers: Servers,
}

impl Servers {
    /// Finds the master and connects to it. A server that does not confirm that it is the master is refused.
    pub async fn session(&self) -> Result<Session, Error> {
        let mut last = Error::NoMaster(self.to_string());
        match &self.endpoint {
            Endpoint::Address(node) => return self.open_session(node.clone(), never_deposed()).await,
            Endpoint::Sentinels { sentinels, master, tls } => {
                let mut sentinels = Sentinels::new(self, sentinels, master, *tls);
                for named in sentinels.masters(None).await? {
                    let (sender, deposed) = watch::channel(false);
                    match self.open_session(named.node.clone(), deposed).await {
                        Ok(session) => {
                            tokio::spawn(sentinels.watch_failover(named, sender));
                            return Ok(session);
                        }
                        Err(error) => last = error,
                    }
                }
            }
            Endpoint::Cluster { nodes, tls } => {
                // A node's view of the cluster may be old, so the next node is asked if the first one's answer is of no
                // use. The first node is chosen at random, so that not all clients wait for the same dead node.
                let first = rand::rng().random_range(0..nodes.len().max(1));
                for guide in nodes.iter().cycle().skip(first).take(nodes.len()) {
                    let found = match self.ask_node(guide, *tls).await {
                        Ok(node) => self.open_session(node, never_deposed()).await,
                        Err(error) => Err(error),
                    };
                    match found {
                        Ok(session) => return Ok(session),
                        Err(error) => last = error,
                    }
                }
            }
        }
        Err(last)
    }

    /// A connection for single requests, whose answers may take `longer` than [`timeout`](Self::timeout): to the server
    /// at an address, whether it is a master or not; otherwise to the master.
    ///
    /// # Errors
    /// [`Error::Link`] if no server can be reached, [`Error::NoMaster`] if no master is known.
    pub async fn connection(&self, longer: Duration) -> Result<Connection, Error> {
        match &self.endpoint {
            Endpoint::Address(node) => self.connect(node, self.timeout + longer).await,
            Endpoint::Sentinels { .. } | Endpoint::Cluster { .. } => {
                self.session().await?.another(longer).await
            }
        }
    }

    /// Opens a session with this server, until it is `deposed`.
    async fn open_session(&self, node: Node, deposed: watch::Receiver<bool>) -> Result<Session, Error> {
        let mut connection = self.connect(&node, self.timeout).await?;
        let replicas = role(&mut connection).await?.ok_or_else(|| Error::NoMaster(node.to_string()))?;
        Ok(Session { connection, node, replicas, replicas_lost_at: None, deposed, servers: self.clone() })
    }
}

impl Session {
    /// Another connection to the same server, whose answers may take `longer` than the timeout.
    pub async fn another(&self, longer: Duration) -> Result<Connection, Error> {
        self.servers.connect(&self.node, self.servers.timeout + longer).await
    }

    /// Checks that Sentinels named this server as the master when they last answered. Sends nothing.
    ///
    /// # Errors
    /// [`Error::NoMaster`] if Sentinels have named another master.
    pub fn is_named(&self) -> Result<(), Error> {
        if *self.deposed.borrow() { Err(Error::NoMaster(self.node.to_string())) } else { Ok(()) }
    }

    /// Waits until Sentinels name another master; for ever if the master was not found through Sentinels.
    pub async fn until_deposed(&mut self) {
        if self.deposed.wait_for(|deposed| *deposed).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Asks the server again whether it is the master, and counts its replicas again.
    pub async fn check_master(&mut self) -> Result<(), Error> {
        self.is_named()?;
        let replicas = role(&mut self.connection).await?;
        let replicas = replicas.ok_or_else(|| Error::NoMaster(self.node.to_string()))?;
        if replicas > 0 {
            self.replicas_lost_at = None;
        } else if self.replicas > 0 {
            self.replicas_lost_at = Some(Instant::now());
        }
        self.replicas = replicas;
        Ok(())
    }

    /// Waits until `count` replicas confirm all writes of this session, for at most `limit`. Returns whether they did.
    /// Without replicas the result is `true` at once, unless the last replica was lost less than 30 s ago.
    pub async fn wait(&mut self, count: u32, limit: Duration) -> Result<bool, Error> {
        let lost_lately = self.replicas_lost_at.is_some_and(|since| since.elapsed() < REPLICAS_LOST);
        if count == 0 || self.replicas == 0 && !lost_lately {
            return Ok(true);
        }
        let confirmed: u32 =
            query(&mut self.connection, command("WAIT").arg(count).arg(limit.as_millis() as u64)).await?;
        Ok(confirmed >= count)
    }
}

/// Of a master that was not found through Sentinels.
fn never_deposed() -> watch::Receiver<bool> {
    watch::channel(false).1
}

/// Number of a master's replicas; `None` if the server is no master.
async fn role(connection: &mut Connection) -> Result<Option<usize>, Error> {
    let role: Vec<Value> = query(connection, &command("ROLE")).await?;
    let is_master = matches!(role.first(), Some(Value::BulkString(word)) if word == b"master");
    let replicas = match role.get(2) {
        Some(Value::Array(replicas)) => replicas.len(),
        _ => 0,
    };
    Ok(is_master.then_some(replicas))
}
