//! Sentinels: which servers they name as the master, and whether they name another one later.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use rand::Rng as _;
use redis::aio::MultiplexedConnection;
use redis::{ProtocolVersion, Value};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::connection::{command, query, query_all};
use crate::endpoint::Node;
use crate::error::Error;
use crate::servers::{Servers, read};

/// Interval at which Sentinels are asked whether they made another server the master.
const POLL_INTERVAL: Duration = Duration::from_secs(4);
/// What asks a Sentinel for the master's address.
const ADDRESS: &str = "GET-MASTER-ADDR-BY-NAME";

/// The server that a Sentinel names as the master.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) node: Node,
    /// The number of the failover that made it the master.
    failover: u64,
}

/// The Sentinels of one master.
pub(crate) struct Sentinels {
    of: Master,
    each: Vec<Sentinel>,
}

/// What Sentinels are asked for.
struct Master {
    servers: Servers,
    name: String,
    tls: bool,
}

/// One Sentinel.
struct Sentinel {
    address: String,
    /// The connection on which it was last asked, if it answered.
    link: Option<MultiplexedConnection>,
}

impl Sentinels {
    /// The Sentinels at these addresses, which know the master by this name. Connects to none of them.
    pub(crate) fn new(servers: &Servers, addresses: &[String], name: &str, tls: bool) -> Self {
        let sentinel = |address: &String| Sentinel { address: address.clone(), link: None };
        Self {
            of: Master { servers: servers.clone(), name: name.to_owned(), tls },
            each: addresses.iter().map(sentinel).collect(),
        }
    }

    /// The masters that Sentinels name, in descending order of failovers: a Sentinel that was cut off from the others
    /// still names the old master, which may still act as one. All Sentinels are asked at once, and the answers of a
    /// majority are enough. Answers that agree with `current` cost the least.
    pub(crate) async fn masters(&mut self, current: Option<&Named>) -> Result<Vec<Named>, Error> {
        let majority = self.each.len() / 2 + 1;
        let asked = self.each.iter_mut().map(|sentinel| sentinel.master(&self.of, current));
        let mut asked: FuturesUnordered<_> = asked.collect();
        let (mut found, mut last) = (Vec::new(), None);
        while let Some(answer) = asked.next().await {
            match answer {
                Ok(answer) => found.push(answer),
                Err(error) => last = Some(error),
            }
            if found.len() >= majority {
                break;
            }
        }
        if let (Some(error), true) = (last, found.is_empty()) {
            return Err(error);
        }
        Ok(latest_first(found))
    }

    /// Asks Sentinels, as long as somebody listens to `deposed`, whether they have made another server the master: the
    /// current one may be cut off from Sentinels and replicas, but not from this process, and still act as a master.
    pub(crate) async fn watch(mut self, current: Named, deposed: watch::Sender<bool>) {
        loop {
            let poll = async {
                let jitter = match &self.of.servers.dial {
                    Some(dial) => dial.jitter(),
                    None => rand::rng().random_range(0.8..1.2),
                };
                sleep(POLL_INTERVAL.mul_f64(jitter)).await;
                // If no Sentinel answers, the session goes on.
                self.masters(Some(&current)).await.unwrap_or_default()
            };
            let found = tokio::select! { found = poll => found, () = deposed.closed() => return };
            if found.iter().any(|named| named.failover > current.failover && named.node != current.node) {
                deposed.send_replace(true);
                return;
            }
        }
    }
}

impl Sentinel {
    /// The master by this Sentinel. Asks on the connection that was kept, if it still works, and otherwise on a new one,
    /// which is kept.
    async fn master(&mut self, of: &Master, current: Option<&Named>) -> Result<Named, Error> {
        if let Some(kept) = &mut self.link {
            match of.ask(kept, current).await {
                Ok(named) => return Ok(named),
                Err(_) => self.link = None,
            }
        }
        let login = (None, of.servers.sentinel_password.as_ref());
        let node = Node::at(&self.address, of.tls)?;
        let mut connection = of.servers.connect_as(&node, of.servers.timeout, login).await?;
        let named = of.ask(&mut connection, current).await?;
        self.link = Some(connection);
        Ok(named)
    }
}

impl Master {
    /// Asks the Sentinel at the other end of a connection. As long as it names the `current` master, nearly always, the
    /// address is all that is asked. The number of the failover is in a record of forty fields.
    async fn ask(
        &self,
        sentinel: &mut MultiplexedConnection,
        current: Option<&Named>,
    ) -> Result<Named, Error> {
        let about = |what| command("SENTINEL").arg(what).arg(&self.name).clone();
        if let Some(current) = current
            && self.node(query(sentinel, &about(ADDRESS)).await?)? == current.node
        {
            return Ok(current.clone());
        }
        // In one round trip, so that both are of the same failover.
        let mut answers = query_all(sentinel, vec![about(ADDRESS), about("MASTER")]).await?.into_iter();
        let mut next = || answers.next().unwrap_or_else(|| Err(self.unknown()));
        let (address, record) = (next()?, next());
        let node = self.node(address)?;
        let record: HashMap<String, String> = read(record?)?;
        let failover = record.get("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or_default();
        Ok(Named { node, failover })
    }

    /// The master at the address in a reply.
    fn node(&self, address: Value) -> Result<Node, Error> {
        let found: Option<(String, u16)> = read(address)?;
        let (host, port) = found.ok_or_else(|| self.unknown())?;
        Ok(Node { host, port, tls: self.tls, database: 0, protocol: ProtocolVersion::default() })
    }

    fn unknown(&self) -> Error {
        Error::NoMaster(self.servers.to_string())
    }
}

/// The distinct nodes, each with its latest failover, in descending order of failovers.
fn latest_first(mut found: Vec<Named>) -> Vec<Named> {
    found.sort_by_key(|named| Reverse(named.failover));
    let mut nodes: Vec<Named> = Vec::new();
    for named in found {
        if !nodes.iter().any(|known| known.node == named.node) {
            nodes.push(named);
        }
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentinel_of_the_latest_failover_is_believed_first() {
        let named =
            |failover, host: &str| Named { node: Node::at(&format!("{host}:1"), false).unwrap(), failover };
        let found = vec![named(3, "old"), named(5, "new"), named(4, "old"), named(5, "new")];
        assert_eq!(latest_first(found), [named(5, "new"), named(4, "old")]);
    }
}
