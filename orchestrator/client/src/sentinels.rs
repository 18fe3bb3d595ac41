//! Sentinels: which servers they name as the master, and whether they name another one later.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use rand::Rng as _;
use redis::{ProtocolVersion, Value};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::connection::{Connection, command, query, query_all, read};
use crate::endpoint::Node;
use crate::error::Error;
use crate::servers::Servers;

/// Interval at which Sentinels are asked whether they made another server the master.
const POLL_INTERVAL: Duration = Duration::from_secs(4);
/// The subcommand of `SENTINEL` that returns the master's address.
const ADDRESS: &str = "GET-MASTER-ADDR-BY-NAME";

/// The server that a Sentinel names as the master.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedMaster {
    pub(crate) node: Node,
    /// The number of the failover that made it the master.
    failover: u64,
}

/// The Sentinels of one master.
pub(crate) struct Sentinels {
    query: MasterQuery,
    sentinels: Vec<Sentinel>,
}

/// What Sentinels are asked for.
struct MasterQuery {
    servers: Servers,
    name: String,
    tls: bool,
}

/// One Sentinel.
struct Sentinel {
    address: String,
    /// The connection on which it was last asked, if it answered.
    link: Option<Connection>,
}

impl Sentinels {
    /// The Sentinels at these addresses, which know the master by this name. Connects to none of them.
    pub(crate) fn new(servers: &Servers, addresses: &[String], name: &str, tls: bool) -> Self {
        let sentinel = |address: &String| Sentinel { address: address.clone(), link: None };
        Self {
            query: MasterQuery { servers: servers.clone(), name: name.to_owned(), tls },
            sentinels: addresses.iter().map(sentinel).collect(),
        }
    }

    /// The masters that Sentinels name, in descending order of failovers: a Sentinel that was cut off from the others
    /// still names the old master, which may still act as one. The answers of a majority are enough. Sentinels without a
    /// connection are asked only if the others are too few, or too few of them answer: a connection costs more than the
    /// question. A Sentinel that names the `current` master is not asked for the number of the failover, so `current` is
    /// its answer.
    pub(crate) async fn masters(&mut self, current: Option<&NamedMaster>) -> Result<Vec<NamedMaster>, Error> {
        let majority = self.sentinels.len() / 2 + 1;
        let (mut found, mut last) = (Vec::new(), None);
        let (linked, others): (Vec<_>, Vec<_>) =
            self.sentinels.iter_mut().partition(|sentinel| sentinel.link.is_some());
        for some in [linked, others] {
            let asked = some.into_iter().map(|sentinel| sentinel.master(&self.query, current));
            let mut asked: FuturesUnordered<_> = asked.collect();
            while found.len() < majority
                && let Some(answer) = asked.next().await
            {
                match answer {
                    Ok(answer) => found.push(answer),
                    Err(error) => last = Some(error),
                }
            }
        }
        if let (Some(error), true) = (last, found.is_empty()) {
            return Err(error);
        }
        Ok(latest_first(found))
    }

    /// Asks Sentinels, as long as somebody listens to `deposed`, whether they have made another server the master: the
    /// current one may be cut off from Sentinels and replicas, but not from this process, and still act as a master.
    pub(crate) async fn watch_failover(mut self, current: NamedMaster, deposed: watch::Sender<bool>) {
        loop {
            let poll = async {
                let jitter = match &self.query.servers.dial {
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
    async fn master(
        &mut self,
        query: &MasterQuery,
        current: Option<&NamedMaster>,
    ) -> Result<NamedMaster, Error> {
        if let Some(kept) = &mut self.link {
            match query.ask(kept, current).await {
                Ok(named) => return Ok(named),
                Err(_) => self.link = None,
            }
        }
        let login = (None, query.servers.sentinel_password.as_ref());
        let node = Node::at(&self.address, query.tls)?;
        let mut connection = query.servers.connect_as(&node, query.servers.timeout, login).await?;
        let named = query.ask(&mut connection, current).await?;
        self.link = Some(connection);
        Ok(named)
    }
}

impl MasterQuery {
    /// Asks the Sentinel at the other end of a connection. As long as it names the `current` master, which is nearly
    /// always, it is asked for the address alone: the number of the failover is in a record of forty fields.
    async fn ask(
        &self,
        sentinel: &mut Connection,
        current: Option<&NamedMaster>,
    ) -> Result<NamedMaster, Error> {
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
        Ok(NamedMaster { node, failover })
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
fn latest_first(mut found: Vec<NamedMaster>) -> Vec<NamedMaster> {
    found.sort_by_key(|named| Reverse(named.failover));
    let mut nodes: Vec<NamedMaster> = Vec::new();
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
        let named = |failover, host: &str| NamedMaster {
            node: Node::at(&format!("{host}:1"), false).unwrap(),
            failover,
        };
        let found = vec![named(3, "old"), named(5, "new"), named(4, "old"), named(5, "new")];
        assert_eq!(latest_first(found), [named(5, "new"), named(4, "old")]);
    }
}
