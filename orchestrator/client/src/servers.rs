//! Where the master is, and a session with it: found by its address, by Sentinels or by the nodes of a cluster,
//! over TCP or TLS, as an ACL user.
//!
//! A session is one server, looked at and found to be the master. It is never repaired: at the first fault it is
//! over and another is made, which looks again. So what was read in a session can only be acted upon in the same
//! one, on the same server, and no decision crosses a failover.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use rand::Rng as _;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion,
    RedisConnectionInfo, TlsCertificates, Value, cmd,
};

use tokio::net::{UdpSocket, lookup_host};
use tokio::sync::watch;
use tokio::time::sleep;

use super::{Error, query};

/// How often Sentinels are asked whether another is the master by now.
const ASK: Duration = Duration::from_secs(4);
/// How long a master whose last replica went is taken for one that may have been cut off, and another put in its place.
const BEREFT: Duration = Duration::from_secs(30);

/// A secret, which nothing prints.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps it.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The secret itself, for the one that asks for it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// How the master is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// It is at this address.
    Address(Node),
    /// Sentinels know, by the master's name.
    Sentinels {
        /// Their addresses, `host:port`.
        sentinels: Vec<String>,
        /// The name.
        master: String,
        /// Whether they and the master speak TLS.
        tls: bool,
    },
    /// The nodes of a cluster know, by the realm's slot.
    Cluster {
        /// Some addresses, `host:port`.
        nodes: Vec<String>,
        /// Whether they speak TLS.
        tls: bool,
    },
}

/// A server's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    host: String,
    port: u16,
    tls: bool,
    database: i64,
    protocol: ProtocolVersion,
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "rediss" } else { "redis" };
        write!(f, "{scheme}://{}:{}", self.host, self.port)?;
        if self.database == 0 { Ok(()) } else { write!(f, "/{}", self.database) }
    }
}

impl Endpoint {
    /// The server at `redis://host:port[/database]` or `rediss://...`, and the user that the address names, if any.
    ///
    /// # Errors
    /// If `url` is no such address, or has a password in it: others could read the password in a list of processes.
    pub fn url(url: &str) -> Result<(Self, Option<String>)> {
        let (endpoint, user, password) = Self::url_with_password(url)?;
        if password.is_some() {
            bail!(
                "'{}' has a password in it, which others could see; name a file by redis.password-file, or set \
                 ALLOT_REDIS_PASSWORD",
                super::without_password(url)
            );
        }
        Ok((endpoint, user))
    }

    /// The same of an address that only its owner can read: the server, its user, and its password.
    ///
    /// # Errors
    /// If `url` is no such address.
    pub fn url_with_password(url: &str) -> Result<(Self, Option<String>, Option<Secret>)> {
        let info = match url.into_connection_info() {
            Ok(info) => info,
            Err(error) => bail!("'{}': {error}", super::without_password(url)),
        };
        let (host, port, tls) = match info.addr() {
            ConnectionAddr::Tcp(host, port) => (host.clone(), *port, false),
            ConnectionAddr::TcpTls { host, port, .. } => (host.clone(), *port, true),
            _ => bail!(
                "'{}' is no address of the form redis://HOST:PORT or rediss://HOST:PORT; a password can be named by \
                 redis.password-file",
                super::without_password(url)
            ),
        };
        let settings = info.redis_settings();
        let (database, protocol) = (settings.db(), settings.protocol());
        let user = settings.username().map(str::to_owned);
        let password = settings.password().map(|password| Secret::new(password.to_owned()));
        Ok((Self::Address(Node { host, port, tls, database, protocol }), user, password))
    }
}

/// The way to the realm's master.
#[derive(Debug, Clone)]
pub struct Servers {
    /// How it is found.
    pub endpoint: Endpoint,
    /// ACL user.
    pub user: Option<String>,
    /// Its password.
    pub password: Option<Secret>,
    /// The password of Sentinels.
    pub sentinel_password: Option<Secret>,
    /// Certificates (PEM) that a server's must be signed by, where not the system's.
    pub ca: Option<Vec<u8>>,
    /// How long an answer may take.
    pub timeout: Duration,
    /// Key of the realm, which decides on the slot in a cluster.
    pub realm: String,
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

/// A master at work. Clones share the connection.
#[derive(Debug, Clone)]
pub struct Session {
    /// For commands that are answered at once.
    pub connection: MultiplexedConnection,
    /// Which server it is.
    pub node: Node,
    /// How many replicas were attached to it.
    pub replicas: usize,
    /// When it was seen that none is attached any more.
    bereft: Option<Instant>,
    /// Whether Sentinels have another master since.
    deposed: watch::Receiver<bool>,
    servers: Servers,
}

impl Servers {
    /// Finds the master and connects to it; a server that is not, or does not say so, is refused.
    pub async fn session(&self) -> Result<Session, Error> {
        let mut last = Error::NoMaster(self.to_string());
        match &self.endpoint {
            Endpoint::Address(node) => return self.attach(node.clone(), None).await,
            Endpoint::Sentinels { sentinels, master, tls } => {
                for (failover, node) in self.ask_sentinels(sentinels, master, *tls).await? {
                    match self.attach(node, Some(failover)).await {
                        Ok(session) => return Ok(session),
                        Err(error) => last = error,
                    }
                }
            }
            Endpoint::Cluster { nodes, tls } => {
                // Who is asked may be behind, so that the next one is asked then; beginning with another one each
                // time, lest all wait for the same one that is dead.
                let first = rand::rng().random_range(0..nodes.len().max(1));
                for guide in nodes.iter().cycle().skip(first).take(nodes.len()) {
                    let found = match self.ask_node(guide, *tls).await {
                        Ok(node) => self.attach(node, None).await,
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

    /// A session with this server, which Sentinels made the master by that failover.
    async fn attach(&self, node: Node, failover: Option<u64>) -> Result<Session, Error> {
        let mut connection = self.connect(&node, self.timeout).await?;
        let replicas = role(&mut connection).await?.ok_or_else(|| Error::NoMaster(node.to_string()))?;
        let (sender, deposed) = watch::channel(false);
        if let Some(failover) = failover {
            tokio::spawn(self.clone().heed(node.clone(), failover, sender));
        }
        Ok(Session { connection, node, replicas, bereft: None, deposed, servers: self.clone() })
    }

    /// Asks Sentinels, as long as the session is there, whether they made another the master since: this one may be cut
    /// off from them and its replicas, and not from us, and take itself for a master all the time.
    async fn heed(self, node: Node, failover: u64, deposed: watch::Sender<bool>) {
        let Endpoint::Sentinels { sentinels, master, tls } = &self.endpoint else { return };
        loop {
            let look = async {
                let jitter = rand::rng().random_range(0.8..1.2);
                sleep(ASK.mul_f64(jitter)).await;
                // Where nobody answers nothing is known.
                self.ask_sentinels(sentinels, master, *tls).await.unwrap_or_default()
            };
            let found = tokio::select! { found = look => found, () = deposed.closed() => return };
            if found.iter().any(|(later, other)| *later > failover && *other != node) {
                deposed.send_replace(true);
                return;
            }
        }
    }

    /// Our own address as the first server sees it of which that can be found out; nothing is sent for it. Not so where
    /// names are not resolved yet, or there is no route.
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

    /// Who the Sentinels say is the master, beginning with whom those say that know of the latest failover: one that
    /// was cut off the others still names the old master, which may still take itself for one. All are asked at once,
    /// and nobody waits for more than a majority of them.
    async fn ask_sentinels(
        &self,
        sentinels: &[String],
        master: &str,
        tls: bool,
    ) -> Result<Vec<(u64, Node)>, Error> {
        let asked = sentinels.iter().map(|sentinel| self.ask_sentinel(sentinel, master, tls));
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

    /// The master as one Sentinel has it, and the number of the failover that made it that.
    async fn ask_sentinel(&self, sentinel: &str, master: &str, tls: bool) -> Result<(u64, Node), Error> {
        let login = (None, self.sentinel_password.as_ref());
        let mut connection = self.connect_as(&node_at(sentinel, tls)?, self.timeout, login).await?;
        let command = cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(master).clone();
        let found: Option<(String, u16)> = query(&mut connection, &command).await?;
        let (host, port) = found.ok_or_else(|| Error::NoMaster(self.to_string()))?;
        let command = cmd("SENTINEL").arg("MASTER").arg(master).clone();
        let record: HashMap<String, String> = query(&mut connection, &command).await?;
        let epoch = record.get("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or_default();
        Ok((epoch, Node { host, port, tls, database: 0, protocol: ProtocolVersion::default() }))
    }

    /// Asks a node of a cluster who has the realm's slot.
    async fn ask_node(&self, node: &str, tls: bool) -> Result<Node, Error> {
        let asked = node_at(node, tls)?;
        let mut connection = self.connect(&asked, self.timeout).await?;
        let slot: i64 = query(&mut connection, cmd("CLUSTER").arg("KEYSLOT").arg(&self.realm)).await?;
        let slots: Value = query(&mut connection, cmd("CLUSTER").arg("SLOTS")).await?;
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
        let client = self.client(node, login).map_err(link)?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.timeout))
            .set_response_timeout(Some(timeout));
        client.get_multiplexed_async_connection_with_config(&config).await.map_err(link)
    }

    fn client(&self, node: &Node, login: RedisConnectionInfo) -> redis::RedisResult<Client> {
        let (host, port) = (node.host.clone(), node.port);
        if !node.tls {
            let info = ConnectionAddr::Tcp(host, port).into_connection_info()?;
            return Client::open(info.set_redis_settings(login));
        }
        // The second time it is there already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let address = ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None };
        let info: ConnectionInfo = address.into_connection_info()?.set_redis_settings(login);
        Client::build_with_tls(info, TlsCertificates { client_tls: None, root_cert: self.ca.clone() })
    }
}

impl Session {
    /// Another connection to the same server, whose answers may take this much longer.
    pub async fn another(&self, longer: Duration) -> Result<MultiplexedConnection, Error> {
        self.servers.connect(&self.node, self.servers.timeout + longer).await
    }

    /// Whether it is still the master by the word of Sentinels, if they are asked. Asks nobody.
    pub fn is_named(&self) -> Result<(), Error> {
        if *self.deposed.borrow() { Err(Error::NoMaster(self.node.to_string())) } else { Ok(()) }
    }

    /// Looks again whether it is the master, and how many replicas it has.
    pub async fn look(&mut self) -> Result<(), Error> {
        self.is_named()?;
        let replicas = role(&mut self.connection).await?;
        let replicas = replicas.ok_or_else(|| Error::NoMaster(self.node.to_string()))?;
        if replicas > 0 {
            self.bereft = None;
        } else if self.replicas > 0 {
            self.bereft = Some(Instant::now());
        }
        self.replicas = replicas;
        Ok(())
    }

    /// Has replicas confirm what was written in this session; whether `count` did in time. Where no replica was
    /// attached nobody is asked, unless one was a moment ago.
    pub async fn wait(&mut self, count: u32, limit: Duration) -> Result<bool, Error> {
        let is_bereft = self.bereft.is_some_and(|since| since.elapsed() < BEREFT);
        if count == 0 || self.replicas == 0 && !is_bereft {
            return Ok(true);
        }
        let confirmed: u32 =
            query(&mut self.connection, cmd("WAIT").arg(count).arg(limit.as_millis() as u64)).await?;
        Ok(confirmed >= count)
    }
}

/// The address from which a server would be spoken to.
async fn address_towards(server: &str) -> std::io::Result<IpAddr> {
    let server = lookup_host(server).await?.next().ok_or(std::io::ErrorKind::NotFound)?;
    let socket = UdpSocket::bind(if server.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" }).await?;
    socket.connect(server).await?;
    Ok(socket.local_addr()?.ip())
}

/// Distinct nodes, those of later failovers first, each with its latest.
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

/// How many replicas a master has; nothing of a server that is none.
async fn role(connection: &mut MultiplexedConnection) -> Result<Option<usize>, Error> {
    let role: Vec<Value> = query(connection, &cmd("ROLE")).await?;
    let is_master = matches!(role.first(), Some(Value::BulkString(word)) if word == b"master");
    let replicas = match role.get(2) {
        Some(Value::Array(replicas)) => replicas.len(),
        _ => 0,
    };
    Ok(is_master.then_some(replicas))
}

fn node_at(address: &str, tls: bool) -> Result<Node, Error> {
    let parts = address.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let (host, port) = parts
        .filter(|(host, _)| !host.is_empty())
        .ok_or_else(|| Error::Shape(format!("'{address}' is no address of the form HOST:PORT")))?;
    Ok(Node {
        host: host.trim_matches(['[', ']']).to_owned(),
        port,
        tls,
        database: 0,
        protocol: ProtocolVersion::default(),
    })
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
            // The node's own address is the one that it was asked at.
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
    fn whoever_knows_of_the_latest_failover_is_believed_first() {
        let node = |host: &str| node_at(&format!("{host}:1"), false).unwrap();
        let found = vec![(3, node("old")), (5, node("new")), (4, node("old")), (5, node("new"))];
        assert_eq!(latest_first(found), [(5, node("new")), (4, node("old"))]);
    }

    #[tokio::test]
    async fn our_own_address_is_known_as_soon_as_there_is_a_way_to_one_server() {
        let servers = |nodes: &[&str]| {
            let nodes = nodes.iter().map(|&node| node.to_owned()).collect();
            Servers {
                endpoint: Endpoint::Cluster { nodes, tls: false },
                user: None,
                password: None,
                sentinel_password: None,
                ca: None,
                timeout: Duration::from_millis(1500),
                realm: "{allot}:conf".to_owned(),
            }
        };
        assert!(servers(&["nowhere.invalid:6379"]).own_address().await.is_err());
        let found = servers(&["nowhere.invalid:6379", "127.0.0.1:6379"]).own_address().await.unwrap();
        assert!(found.is_loopback());
    }

    #[test]
    fn addresses_are_of_a_host_and_a_port() {
        assert_eq!(node_at("h:26379", true).unwrap().to_string(), "rediss://h:26379");
        assert_eq!(node_at("[::1]:1", false).unwrap().host, "::1");
        for odd in ["h", "h:x", ":1"] {
            assert!(node_at(odd, false).is_err(), "{odd}");
        }
        let Ok((Endpoint::Address(node), None)) = Endpoint::url("redis://h:7/3") else {
            panic!("an address")
        };
        assert_eq!(node.to_string(), "redis://h:7/3");
        for url in ["redis://:secret@h", "unix:///s?pass=secret"] {
            let refused = Endpoint::url(url).unwrap_err().to_string();
            assert!(!refused.contains("secret") && refused.contains("password-file"), "{refused}");
        }
        let (_, user, password) = Endpoint::url_with_password("redis://me:secret@h:7").unwrap();
        assert_eq!((user.as_deref(), password), (Some("me"), Some(Secret::new("secret".to_owned()))));
        let refused = Endpoint::url("user:secret@host:6379").unwrap_err().to_string();
        assert!(!refused.contains("secret"), "{refused}");
    }
}
