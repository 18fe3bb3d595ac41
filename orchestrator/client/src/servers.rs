//! How a master is reached: at an address, through Sentinels or through the nodes of a cluster; over TCP or TLS, as an ACL
//! user.

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion,
    RedisConnectionInfo, TlsCertificates, Value,
};
use tokio::net::{UdpSocket, lookup_host};

use crate::connection::{Connection, command, query};
use crate::dial::{Dial, Dialed};
use crate::endpoint::{Endpoint, Node, Secret};
use crate::error::Error;

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
    /// What opens connections, without a login; the network if `None`.
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

    /// Asks a node of a cluster for the master of the key's slot.
    pub(crate) async fn ask_node(&self, node: &str, tls: bool) -> Result<Node, Error> {
        let asked = Node::at(node, tls)?;
        let mut connection = self.connect(&asked, self.timeout).await?;
        let slot: i64 = query(&mut connection, command("CLUSTER").arg("KEYSLOT").arg(&self.key)).await?;
        let masters = masters_of(&mut connection, &asked).await?;
        let found = masters.into_iter().find(|(slots, _)| slots.contains(&slot));
        found.map(|(_, node)| node).ok_or_else(|| Error::NoMaster(self.to_string()))
    }

    /// The addresses of all masters: of one, or of all of a cluster. An address that was configured is not checked.
    ///
    /// # Errors
    /// Those of [`session`](Self::session).
    pub async fn masters(&self) -> Result<Vec<Node>, Error> {
        if let Endpoint::Address(node) = &self.endpoint {
            return Ok(vec![node.clone()]);
        }
        let mut session = self.session().await?;
        if let Endpoint::Sentinels { .. } = &self.endpoint {
            return Ok(vec![session.node]);
        }
        let mut masters: Vec<Node> = Vec::new();
        for (_, node) in masters_of(&mut session.connection, &session.node).await? {
            if !masters.contains(&node) {
                masters.push(node);
            }
        }
        Ok(masters)
    }

    /// The way to the server at this address, with the same user, password and certificates.
    #[must_use]
    pub fn at(&self, node: Node) -> Self {
        Self { endpoint: Endpoint::Address(node), ..self.clone() }
    }

    pub(crate) async fn connect(&self, node: &Node, timeout: Duration) -> Result<Connection, Error> {
        self.connect_as(node, timeout, (self.user.as_ref(), self.password.as_ref())).await
    }

    pub(crate) async fn connect_as(
        &self,
        node: &Node,
        timeout: Duration,
        (user, password): (Option<&String>, Option<&Secret>),
    ) -> Result<Connection, Error> {
        let link = |source| Error::Link { what: format!("cannot connect to {node}"), source };
        if let Some(dial) = &self.dial {
            let dialed = Dialed::connect(dial.as_ref(), (&node.host, node.port), (self.timeout, timeout));
            return dialed.await.map(Connection::from).map_err(|error| link(error.into()));
        }
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
        let client = self.client(node, login).map_err(link)?;
        let connected = client.get_multiplexed_async_connection_with_config(&config).await;
        connected.map(Connection::from).map_err(link)
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

/// This machine's address on the route to a server.
async fn address_towards(server: &str) -> std::io::Result<IpAddr> {
    let server = lookup_host(server).await?.next().ok_or(std::io::ErrorKind::NotFound)?;
    let socket = UdpSocket::bind(if server.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" }).await?;
    socket.connect(server).await?;
    Ok(socket.local_addr()?.ip())
}

/// The ranges of slots of a cluster and their masters, as the node `asked` knows them.
async fn masters_of(
    connection: &mut Connection,
    asked: &Node,
) -> Result<Vec<(RangeInclusive<i64>, Node)>, Error> {
    let slots: Value = query(connection, command("CLUSTER").arg("SLOTS")).await?;
    Ok(masters_in(&slots, asked))
}

/// The masters in the reply of `CLUSTER SLOTS`.
fn masters_in(slots: &Value, asked: &Node) -> Vec<(RangeInclusive<i64>, Node)> {
    let Value::Array(ranges) = slots else { return Vec::new() };
    let masters = ranges.iter().filter_map(|range| {
        let Value::Array(range) = range else { return None };
        let [Value::Int(from), Value::Int(to), Value::Array(master), ..] = range.as_slice() else {
            return None;
        };
        let [host, Value::Int(port), ..] = master.as_slice() else { return None };
        let host = match host {
            Value::BulkString(host) if !host.is_empty() => String::from_utf8_lossy(host).into_owned(),
            // An empty address means the address at which the node was asked.
            _ => asked.host.clone(),
        };
        let protocol = ProtocolVersion::default();
        let node = Node { host, port: u16::try_from(*port).ok()?, tls: asked.tls, database: 0, protocol };
        Some((*from..=*to, node))
    });
    masters.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masters_of_slots_are_found() {
        let node = |host: &str, port| Value::Array(vec![Value::BulkString(host.into()), Value::Int(port)]);
        let slots = Value::Array(vec![
            Value::Array(vec![Value::Int(0), Value::Int(99), node("a", 1), node("replica", 2)]),
            Value::Array(vec![Value::Int(100), Value::Int(16383), node("b", 3)]),
            Value::Array(vec![Value::Int(16384), Value::Int(20000), node("", 4)]),
        ]);
        let masters = masters_in(&slots, &Node::at("asked:9", false).unwrap());
        let found: Vec<_> =
            masters.iter().map(|(slots, node)| (*slots.end(), node.host.as_str(), node.port)).collect();
        assert_eq!(found, [(99, "a", 1), (16383, "b", 3), (20000, "asked", 4)]);
        assert!(masters_in(&Value::Nil, &masters[0].1).is_empty());
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
