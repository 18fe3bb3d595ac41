//! A Redis Cluster of real servers on loopback, put together with the cluster's own commands.

use redis::Value;

use crate::redis_server::{Builder, RedisServer};
use crate::wait::{GENEROUS, eventually};

/// The number of hash slots of a cluster.
const SLOTS: u32 = 16_384;

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
            eventually("the replica to know its master", GENEROUS, || {
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
        eventually("cluster_state:ok on every node", GENEROUS, || {
            self.nodes().filter(|node| node.is_running()).all(|node| {
                let info: String = redis::cmd("CLUSTER")
                    .arg("INFO")
                    .query(&mut node.connection())
                    .expect("CLUSTER INFO is answered");
                info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384")
            })
        });
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
        for node in self.nodes().skip(1) {
            let bus = node.bus_port().expect("a node of a cluster has a bus");
            first.command(&format!("CLUSTER MEET 127.0.0.1 {} {bus}", node.port()));
        }
        eventually("every node to know every other", GENEROUS, || {
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

/// The name a node has in its cluster.
pub fn node_id(node: &RedisServer) -> String {
    redis::cmd("CLUSTER").arg("MYID").query(&mut node.connection()).expect("CLUSTER MYID is answered")
}
