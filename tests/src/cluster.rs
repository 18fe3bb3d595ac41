//! A Redis Cluster of real servers on loopback, put together with the cluster's own commands.

use std::time::{Duration, Instant};

use redis::Value;

use crate::raw::Reply;
use crate::redis_server::{Builder, RedisServer};
use crate::wait::{TIMEOUT, eventually};

/// The number of hash slots of a cluster.
const SLOTS: u32 = 16_384;

/// The node timeout of the rig's nodes. A handshake that takes longer is given up, and no node begins it again.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// Masters, which share the slots evenly, and their replicas.
#[derive(Debug)]
pub struct Cluster {
    masters: Vec<RedisServer>,
    replicas: Vec<RedisServer>,
}

impl Cluster {
    /// Starts a cluster of nodes with the module, and waits until every node calls it sound. `replicas` is
    /// the number of replicas of each master.
    #[track_caller]
    pub fn start(masters: usize, replicas: usize) -> Self {
        Self::start_with(masters, replicas, &RedisServer::builder())
    }

    /// As [`start`](Self::start), of nodes with these settings.
    #[track_caller]
    pub fn start_with(masters: usize, replicas: usize, settings: &Builder) -> Self {
        let node = |_| settings.clone().cluster_node().start();
        let cluster = Self {
            masters: (0..masters).map(node).collect(),
            replicas: (0..masters * replicas).map(node).collect(),
        };
        cluster.share_slots();
        cluster.introduce();
        for (index, replica) in cluster.replicas.iter().enumerate() {
            let master = &cluster.masters[index % masters];
            let id = node_id(master);
            eventually("the replica to know its master", TIMEOUT, || {
                redis::cmd("CLUSTER").arg("REPLICATE").arg(&id).exec(&mut replica.connection()).is_ok()
            });
            replica.wait_replica_synced();
        }
        cluster.wait_ok();
        cluster
    }

    /// The servers started as masters.
    pub fn masters(&self) -> &[RedisServer] {
        &self.masters
    }

    /// The servers started as replicas; the one at `i` follows the master at `i % masters`.
    pub fn replicas(&self) -> &[RedisServer] {
        &self.replicas
    }

    /// All nodes.
    pub fn nodes(&self) -> impl Iterator<Item = &RedisServer> {
        self.masters.iter().chain(&self.replicas)
    }

    /// The node that serves a key at present, by the view of the first node alive.
    #[track_caller]
    pub fn master_for(&self, key: &str) -> &RedisServer {
        let witness = self.nodes().find(|node| node.is_running()).expect("a node is alive");
        let mut connection = witness.connection();
        let slot: i64 = redis::cmd("CLUSTER").arg("KEYSLOT").arg(key).query(&mut connection).expect("a slot");
        let ranges: Vec<Vec<Value>> =
            redis::cmd("CLUSTER").arg("SLOTS").query(&mut connection).expect("the slots");
        let port = ranges.iter().find_map(|range| match range.as_slice() {
            [Value::Int(first), Value::Int(last), Value::Array(master), ..]
                if (*first..=*last).contains(&slot) =>
            {
                match master.get(1) {
                    Some(Value::Int(port)) => Some(*port),
                    _ => None,
                }
            }
            _ => None,
        });
        self.nodes()
            .find(|node| Some(i64::from(node.port())) == port)
            .unwrap_or_else(|| panic!("no node of this cluster serves slot {slot}"))
    }

    /// Waits until every living node knows of every other and calls the cluster sound.
    #[track_caller]
    pub fn wait_ok(&self) {
        eventually("cluster_state:ok on every node", TIMEOUT, || {
            self.nodes().filter(|node| node.is_running()).all(|node| {
                let info: String = redis::cmd("CLUSTER")
                    .arg("INFO")
                    .query(&mut node.connection())
                    .expect("CLUSTER INFO is answered");
                info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384")
            })
        });
    }

    /// A master that does not serve the key.
    #[track_caller]
    pub fn other_than_for(&self, key: &str) -> &RedisServer {
        let home = self.master_for(key).port();
        self.masters.iter().find(|node| node.port() != home).expect("a cluster has two masters")
    }

    /// Begins to move the slot of a key to another master, as `redis-cli --cluster reshard` does.
    #[track_caller]
    pub fn begin_move(&self, key: &str) -> SlotMove<'_> {
        let (from, to) = (self.master_for(key), self.other_than_for(key));
        let slot = redis::cmd("CLUSTER").arg("KEYSLOT").arg(key).query(&mut from.connection());
        let slot: i64 = slot.expect("a slot");
        to.command(&format!("CLUSTER SETSLOT {slot} IMPORTING {}", node_id(from)));
        from.command(&format!("CLUSTER SETSLOT {slot} MIGRATING {}", node_id(to)));
        SlotMove { cluster: self, slot, from, to }
    }

    fn share_slots(&self) {
        let count = self.masters.len() as u32;
        for (master, index) in self.masters.iter().zip(0..) {
            let (first, end) = (SLOTS * index / count, SLOTS * (index + 1) / count);
            master.command(&format!("CLUSTER ADDSLOTSRANGE {first} {}", end - 1));
            // Different from the start, so that the nodes need not settle it among themselves.
            master.command(&format!("CLUSTER SET-CONFIG-EPOCH {}", index + 1));
        }
    }

    fn introduce(&self) {
        let (first, all) = (&self.masters[0], self.nodes().count());
        let meet = || {
            for node in self.nodes().skip(1) {
                let bus = node.bus_port().expect("a node of a cluster has a bus");
                first.command(&format!("CLUSTER MEET 127.0.0.1 {} {bus}", node.port()));
            }
            Instant::now()
        };
        let mut met = meet();
        eventually("every node to know every other", TIMEOUT, || {
            // Nodes that have met take no harm from meeting again.
            if met.elapsed() > HANDSHAKE {
                met = meet();
            }
            self.nodes().all(|node| {
                let nodes: String = redis::cmd("CLUSTER")
                    .arg("NODES")
                    .query(&mut node.connection())
                    .expect("CLUSTER NODES is answered");
                nodes.lines().count() == all && !nodes.contains("handshake")
            })
        });
    }
}

/// A slot on its way from one master to another.
#[derive(Debug)]
pub struct SlotMove<'c> {
    cluster: &'c Cluster,
    slot: i64,
    /// Where it was.
    pub from: &'c RedisServer,
    /// Where it will be.
    pub to: &'c RedisServer,
}

impl SlotMove<'_> {
    /// Moves one key of the slot.
    #[track_caller]
    pub fn key(&self, key: &str) {
        let reply = self.from.raw().words(&format!("MIGRATE 127.0.0.1 {} {key} 0 60000", self.to.port()));
        assert_eq!(reply, Reply::Simple("OK".into()));
    }

    /// Calls the move off: the slot stays where it was, without the keys that have gone.
    #[track_caller]
    pub fn call_off(self) {
        let Self { slot, from, to, .. } = self;
        let mut client = to.raw();
        for key in client.words(&format!("CLUSTER GETKEYSINSLOT {slot} 100")).array() {
            client.words("ASKING");
            assert_eq!(client.words(&format!("DEL {}", key.text())), Reply::Int(1));
        }
        for node in [to, from] {
            node.command(&format!("CLUSTER SETSLOT {slot} STABLE"));
        }
    }

    /// Moves the keys that are left, and waits until all nodes know the slot's new home.
    #[track_caller]
    pub fn finish(self) {
        let Self { cluster, slot, from, to } = self;
        let keys = from.raw().words(&format!("CLUSTER GETKEYSINSLOT {slot} 100"));
        for key in keys.array() {
            self.key(&key.text());
        }
        let rest = cluster.masters().iter().filter(|node| node.port() != to.port());
        for node in std::iter::once(to).chain(rest) {
            node.command(&format!("CLUSTER SETSLOT {slot} NODE {}", node_id(to)));
        }
        let home = format!("127.0.0.1:{}@", to.port());
        eventually("all to know the slot's new home", TIMEOUT, || {
            cluster.masters().iter().all(|node| {
                // A node that has not heard of the last move would claim the next one under the same epoch.
                let epoch = |node: &RedisServer| {
                    let info = node.raw().words("CLUSTER INFO").text();
                    info.lines().find(|line| line.starts_with("cluster_current_epoch")).map(str::to_owned)
                };
                let nodes = node.raw().words("CLUSTER NODES").text();
                let owner = nodes.lines().find(|line| line.contains(&home));
                epoch(node) == epoch(to) && owner.is_some_and(|line| has_slot(line, slot))
            })
        });
    }
}

/// Whether a line of `CLUSTER NODES` gives its node a slot.
fn has_slot(line: &str, slot: i64) -> bool {
    line.split(' ').skip(8).any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        matches!((first.parse::<i64>(), last.parse::<i64>()), (Ok(first), Ok(last)) if (first..=last).contains(&slot))
    })
}

/// The name a node has in its cluster.
pub fn node_id(node: &RedisServer) -> String {
    redis::cmd("CLUSTER").arg("MYID").query(&mut node.connection()).expect("CLUSTER MYID is answered")
}
