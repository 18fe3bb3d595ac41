//! Finds a master and opens a session with it: by its address, by Sentinels or by the nodes of a cluster, over TCP or TLS,
//! as an ACL user.
//!
//! A session is a connection to one server that has confirmed that it is the master. A session is never repaired: it
//! ends at the first fault, and the next session finds the master again. A decision is therefore always carried out on
//! the server from which its facts were read, and no decision crosses a failover.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use rand::Rng as _;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, FromRedisValue, IntoConnectionInfo,
    ProtocolVersion, RedisConnectionInfo, TlsCertificates, Value,
};

use tokio::net::{UdpSocket, lookup_host};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::connection::{command, query, query_all};
use crate::dial::{self, Dial};
use crate::endpoint::{Endpoint, Node, Secret};
use crate::error::Error;

/// Interval at which Sentinels are asked whether they made another server the master.
const SENTINEL_POLL_INTERVAL: Duration = Duration::from_secs(4);
/// For this long after a master lost its last replica, that replica may have replaced the master.
const REPLICAS_LOST: Duration = Duration::from_secs(30);

/// The way to a master.
#[derive(Debug, Clone)]
pub struct Servers {
    /// The way in which the master is found.
    pub endpoint: Endpoint,
    /// ACL user.
    pub user: Option<String>,
    /// Password of the user.
    pub password: Option<Secret>,
    /// The password of Sentinels.
    pub sentinel_password: Option<Secret>,
    /// Certificates (PEM), one of which must have signed the server's certificate; `None` for the system's.
    pub ca: Option<Vec<u8>>,
    /// Time limit for an answer.
    pub timeout: Duration,
    /// The key whose master is wanted; only a cluster has more than one master.
    pub key: String,
    /// What opens connections; TCP if `None`.
    pub dial: Option<Arc<dyn Dial>>,
}

impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.endpoint {
            Endpoint::Address(node) => node.fmt(f)?,
            Endpoint::Sentinels { sentinels, master, .. } => {
                write!(f, "master '{master}' by Sentinels {}", sentinels.join(", "))?;
            }
            Endpoint::Cluster { nodes, .. } => write!(f, "cluster at {}", nodes.join(", "))?,
        }
        self.user.as_ref().map_or(Ok(()), |user| write!(f, " as {user}"))
    }
}

/// A session with one master. Clones share the connection.
#[derive(Debug, Clone)]
pub struct Session {
    /// The connection, for commands that do not block.
    pub connection: MultiplexedConnection,
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
    /// The default time limit for an answer.
    pub const TIMEOUT: Duration = Duration::from_millis(1500);

    /// The way to the master of `key`, without a user, a password or certificates of its own.
    pub fn new(endpoint: Endpoint, key: &str) -> Self {
        Self {
            endpoint,
            user: None,
            password: None,
            sentinel_password: None,
            ca: None,
            timeout: Self::TIMEOUT,
            key: key.to_owned(),
            dial: None,
        }
    }

    /// Finds the master and connects to it. A server that does not confirm that it is the master is refused.
    pub async fn session(&self) -> Result<Session, Error> {
        let mut last = Error::NoMaster(self.to_string());
        match &self.endpoint {
            Endpoint::Address(node) => return self.open_session(node.clone(), None).await,
            Endpoint::Sentinels { sentinels, master, tls } => {
                let mut links = vec![None; sentinels.len()];
                for (failover, node) in self.ask_sentinels(sentinels, &mut links, master, *tls).await? {
                    match self.open_session(node, Some(failover)).await {
                        Ok(session) => return Ok(session),
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
                        Ok(node) => self.open_session(node, None).await,
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
    pub async fn connection(&self, longer: Duration) -> Result<MultiplexedConnection, Error> {
        match &self.endpoint {
            Endpoint::Address(node) => self.connect(node, self.timeout + longer).await,
            Endpoint::Sentinels { .. } | Endpoint::Cluster { .. } => {
                self.session().await?.another(longer).await
            }
        }
    }

    /// Opens a session with this server. `failover` is the number of the failover by which Sentinels made it the
    /// master.
    async fn open_session(&self, node: Node, failover: Option<u64>) -> Result<Session, Error> {
        let mut connection = self.connect(&node, self.timeout).await?;
        let replicas = role(&mut connection).await?.ok_or_else(|| Error::NoMaster(node.to_string()))?;
        let (sender, deposed) = watch::channel(false);
        if let Some(failover) = failover {
            tokio::spawn(self.clone().watch_failover(node.clone(), failover, sender));
        }
        Ok(Session { connection, node, replicas, replicas_lost_at: None, deposed, servers: self.clone() })
    }

    /// Asks Sentinels, as long as the session exists, whether they have made another server the master: the session's
    /// server may be cut off from Sentinels and replicas, but not from this process, and still act as a master.
    async fn watch_failover(self, node: Node, failover: u64, deposed: watch::Sender<bool>) {
        let Endpoint::Sentinels { sentinels, master, tls } = &self.endpoint else { return };
        let mut links = vec![None; sentinels.len()];
        loop {
            let poll = async {
                let jitter = match &self.dial {
                    Some(dial) => dial.jitter(),
                    None => rand::rng().random_range(0.8..1.2),
                };
                sleep(SENTINEL_POLL_INTERVAL.mul_f64(jitter)).await;
                // If no Sentinel answers, the session goes on.
                self.ask_sentinels(sentinels, &mut links, master, *tls).await.unwrap_or_default()
            };
            let found = tokio::select! { found = poll => found, () = deposed.closed() => return };
            if found.iter().any(|(later, other)| *later > failover && *other != node) {
                deposed.send_replace(true);
                return;
            }
        }
    }

    /// This machine's address on the route to the first server for which a route is found. Sends nothing to the server.
    ///
    /// # Errors
    /// No server's name can be resolved, or there is no route.
    pub async fn own_address(&self) -> std::io::Result<IpAddr> {
        let servers = match &self.endpoint {
            Endpoint::Address(node) if node.host.contains(':') => {
                vec![format!("[{}]:{}", node.host, node.port)]
            }
            Endpoint::Address(node) => vec![format!("{}:{}", node.host, node.port)],
            Endpoint::Sentinels { sentinels: some, .. } | Endpoint::Cluster { nodes: some, .. } => {
                some.clone()
            }
        };
        let mut found = Err(std::io::ErrorKind::NotFound.into());
        for server in servers {
            found = address_towards(&server).await;
            if found.is_ok() {
                break;
            }
        }
        found
    }

    /// The masters that Sentinels name, in descending order of failovers: a Sentinel that was cut off from the others
    /// still names the old master, which may still act as one. All Sentinels are asked at once, and the answers of a
    /// majority are enough. `links` has a connection for each Sentinel that has answered before, and keeps it.
    async fn ask_sentinels(
        &self,
        sentinels: &[String],
        links: &mut [Option<MultiplexedConnection>],
        master: &str,
        tls: bool,
    ) -> Result<Vec<(u64, Node)>, Error> {
        let asked = sentinels.iter().zip(links);
        let asked = asked.map(|(sentinel, link)| self.ask_sentinel(sentinel, link, master, tls));
        let mut asked: FuturesUnordered<_> = asked.collect();
        let (mut found, mut last) = (Vec::new(), None);
        while let Some(answer) = asked.next().await {
            match answer {
                Ok(answer) => found.push(answer),
                Err(error) => last = Some(error),
            }
            if found.len() > sentinels.len() / 2 {
                break;
            }
        }
        if let (Some(error), true) = (last, found.is_empty()) {
            return Err(error);
        }
        Ok(latest_first(found))
    }

    /// The number of the last failover that one Sentinel knows, and the master since then. Asks on the connection that
    /// was kept, if it still works, and otherwise on a new one, which is kept.
    async fn ask_sentinel(
        &self,
        sentinel: &str,
        link: &mut Option<MultiplexedConnection>,
        master: &str,
        tls: bool,
    ) -> Result<(u64, Node), Error> {
        if let Some(kept) = link {
            match self.ask_for_master(kept, master, tls).await {
                Ok(answer) => return Ok(answer),
                Err(_) => *link = None,
            }
        }
        let login = (None, self.sentinel_password.as_ref());
        let connection = self.connect_as(&Node::at(sentinel, tls)?, self.timeout, login).await?;
        let answer = self.ask_for_master(&connection, master, tls).await?;
        *link = Some(connection);
        Ok(answer)
    }

    /// Asks the Sentinel at the other end of a connection, in one round trip.
    async fn ask_for_master(
        &self,
        sentinel: &MultiplexedConnection,
        master: &str,
        tls: bool,
    ) -> Result<(u64, Node), Error> {
        let ask = |what| {
            let mut command = command("SENTINEL");
            command.arg(what).arg(master);
            command
        };
        let asked = vec![ask("GET-MASTER-ADDR-BY-NAME"), ask("MASTER")];
        let mut answers = query_all(&mut sentinel.clone(), asked).await?.into_iter();
        let mut next = || answers.next().unwrap_or_else(|| Err(Error::NoMaster(self.to_string())));
        let (found, record) = (next()?, next());
        let found: Option<(String, u16)> = read(found)?;
        let (host, port) = found.ok_or_else(|| Error::NoMaster(self.to_string()))?;
        let record: HashMap<String, String> = read(record?)?;
        let epoch = record.get("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or_default();
        Ok((epoch, Node { host, port, tls, database: 0, protocol: ProtocolVersion::default() }))
    }

    /// Asks a node of a cluster for the master of the key's slot.
    async fn ask_node(&self, node: &str, tls: bool) -> Result<Node, Error> {
        let asked = Node::at(node, tls)?;
        let mut connection = self.connect(&asked, self.timeout).await?;
        let slot: i64 = query(&mut connection, command("CLUSTER").arg("KEYSLOT").arg(&self.key)).await?;
        let slots: Value = query(&mut connection, command("CLUSTER").arg("SLOTS")).await?;
        let (host, port) = master_of(&slots, slot).ok_or_else(|| Error::NoMaster(self.to_string()))?;
        let host = if host.is_empty() { asked.host } else { host };
        Ok(Node { host, port, tls, database: 0, protocol: ProtocolVersion::default() })
    }

    async fn connect(&self, node: &Node, timeout: Duration) -> Result<MultiplexedConnection, Error> {
        self.connect_as(node, timeout, (self.user.as_ref(), self.password.as_ref())).await
    }

    async fn connect_as(
        &self,
        node: &Node,
        timeout: Duration,
        (user, password): (Option<&String>, Option<&Secret>),
    ) -> Result<MultiplexedConnection, Error> {
        let link = |source| Error::Link { what: format!("cannot connect to {node}"), source };
        let mut login = RedisConnectionInfo::default().set_db(node.database).set_protocol(node.protocol);
        if let Some(user) = user {
            login = login.set_username(user);
        }
        if let Some(password) = password {
            login = login.set_password(password.reveal());
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.timeout))
            .set_response_timeout(Some(timeout));
        if let Some(dialed) = &self.dial {
            return dial::connect(dialed.as_ref(), (&node.host, node.port), &login, config, self.timeout)
                .await
                .map_err(link);
        }
        let client = self.client(node, login).map_err(link)?;
        client.get_multiplexed_async_connection_with_config(&config).await.map_err(link)
    }

    fn client(&self, node: &Node, login: RedisConnectionInfo) -> redis::RedisResult<Client> {
        let (host, port) = (node.host.clone(), node.port);
        if !node.tls {
            let info = ConnectionAddr::Tcp(host, port).into_connection_info()?;
            return Client::open(info.set_redis_settings(login));
        }
        // A provider may be installed already, which is no error.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let address = ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None };
        let info: ConnectionInfo = address.into_connection_info()?.set_redis_settings(login);
        Client::build_with_tls(info, TlsCertificates { client_tls: None, root_cert: self.ca.clone() })
    }
}

impl Session {
    /// Another connection to the same server, whose answers may take `longer` than the timeout.
    pub async fn another(&self, longer: Duration) -> Result<MultiplexedConnection, Error> {
        self.servers.connect(&self.node, self.servers.timeout + longer).await
    }

    /// Checks that Sentinels named this server as the master when they last answered. Sends nothing.
    ///
    /// # Errors
    /// [`Error::NoMaster`] if Sentinels have named another master.
    pub fn is_named(&self) -> Result<(), Error> {
        if *self.deposed.borrow() { Err(Error::NoMaster(self.node.to_string())) } else { Ok(()) }
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

/// This machine's address on the route to a server.
async fn address_towards(server: &str) -> std::io::Result<IpAddr> {
    let server = lookup_host(server).await?.next().ok_or(std::io::ErrorKind::NotFound)?;
    let socket = UdpSocket::bind(if server.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" }).await?;
    socket.connect(server).await?;
    Ok(socket.local_addr()?.ip())
}

fn read<T: FromRedisValue>(reply: Value) -> Result<T, Error> {
    redis::from_redis_value(reply).map_err(|error| Error::Shape(error.to_string()))
}

/// The distinct nodes, each with its latest failover, in descending order of failovers.
fn latest_first(mut found: Vec<(u64, Node)>) -> Vec<(u64, Node)> {
    found.sort_by_key(|(epoch, _)| Reverse(*epoch));
    let mut nodes: Vec<(u64, Node)> = Vec::new();
    for (epoch, node) in found {
        if !nodes.iter().any(|(_, known)| *known == node) {
            nodes.push((epoch, node));
        }
    }
    nodes
}

/// Number of a master's replicas; `None` if the server is no master.
async fn role(connection: &mut MultiplexedConnection) -> Result<Option<usize>, Error> {
    let role: Vec<Value> = query(connection, &command("ROLE")).await?;
    let is_master = matches!(role.first(), Some(Value::BulkString(word)) if word == b"master");
    let replicas = match role.get(2) {
        Some(Value::Array(replicas)) => replicas.len(),
        _ => 0,
    };
    Ok(is_master.then_some(replicas))
}

/// The master of a slot by `CLUSTER SLOTS`.
fn master_of(slots: &Value, slot: i64) -> Option<(String, u16)> {
    let Value::Array(ranges) = slots else { return None };
    ranges.iter().find_map(|range| {
        let Value::Array(range) = range else { return None };
        let [Value::Int(from), Value::Int(to), Value::Array(master), ..] = range.as_slice() else {
            return None;
        };
        let [host, Value::Int(port), ..] = master.as_slice() else { return None };
        let host = match host {
            Value::BulkString(host) => String::from_utf8_lossy(host).into_owned(),
            // An empty address means the address at which the node was asked.
            _ => String::new(),
        };
        (*from..=*to).contains(&slot).then_some((host, u16::try_from(*port).ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_master_of_a_slot_is_found() {
        let node = |host: &str, port| Value::Array(vec![Value::BulkString(host.into()), Value::Int(port)]);
        let slots = Value::Array(vec![
            Value::Array(vec![Value::Int(0), Value::Int(99), node("a", 1), node("replica", 2)]),
            Value::Array(vec![Value::Int(100), Value::Int(16383), node("b", 3)]),
        ]);
        assert_eq!(master_of(&slots, 99), Some(("a".into(), 1)));
        assert_eq!(master_of(&slots, 100), Some(("b".into(), 3)));
        assert_eq!(master_of(&slots, 16384), None);
        assert_eq!(master_of(&Value::Nil, 0), None);
    }

    #[test]
    fn sentinel_of_the_latest_failover_is_believed_first() {
        let node = |host: &str| Node::at(&format!("{host}:1"), false).unwrap();
        let found = vec![(3, node("old")), (5, node("new")), (4, node("old")), (5, node("new"))];
        assert_eq!(latest_first(found), [(5, node("new")), (4, node("old"))]);
    }

    #[tokio::test]
    async fn own_address_is_known_once_one_server_can_be_resolved() {
        let servers = |nodes: &[&str]| {
            let nodes = nodes.iter().map(|&node| node.to_owned()).collect();
            Servers::new(Endpoint::Cluster { nodes, tls: false }, "{allot}:conf")
        };
        assert!(servers(&["nowhere.invalid:6379"]).own_address().await.is_err());
        let found = servers(&["nowhere.invalid:6379", "127.0.0.1:6379"]).own_address().await.unwrap();
        assert!(found.is_loopback());
    }
}
