//! allotd finds the master by itself: by Sentinels, and by the nodes of a cluster; also after a failover.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test reports what is wrong by failing"
)]

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use allot_tests::realms::REALM;
use allot_tests::redis_server::{free_port, redis_server_binary};
use allot_tests::wait::GENEROUS;
use allot_tests::{Cluster, Process, RawClient, RedisServer, Reply, eventually};

/// A Sentinel of the server's own program, killed when it is dropped.
struct Sentinel {
    child: Child,
    port: u16,
    _dir: tempfile::TempDir,
}

impl Sentinel {
    fn of(master: &RedisServer) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (port, config) = (free_port(), dir.path().join("sentinel.conf"));
        let text = format!(
            "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor main 127.0.0.1 {} 1\n\
             sentinel down-after-milliseconds main 1000\nsentinel failover-timeout main 5000\n",
            dir.path().display(),
            master.port()
        );
        fs::write(&config, text).unwrap();
        let child = Command::new(redis_server_binary())
            .arg(&config)
            .arg("--sentinel")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let sentinel = Self { child, port, _dir: dir };
        eventually("the Sentinel to know the replica", GENEROUS, || {
            let Some(mut client) = RawClient::try_connect(port) else { return false };
            let reply = client.try_call(&["SENTINEL", "REPLICAS", "main"]);
            matches!(reply, Some(Reply::Array(replicas)) if !replicas.is_empty())
        });
        sentinel
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn daemon(name: &str, more: &[&str]) -> Process {
    let host = format!("127.0.0.1/{name}");
    let arguments = [
        "--roles",
        "conference,data-proxy,cmu",
        "--realm",
        REALM,
        "--cmu-host",
        &host,
        "--cmu-chatter",
        "100ms",
        "--cmu-lease",
        "3s",
        "--redis-timeout",
        "1s",
    ];
    let process = Process::new(name, &[&arguments[..], more].concat());
    process.start();
    eventually("the daemon to be ready", GENEROUS, || process.is_ready());
    process
}

/// Whether the conference is open, and tells more than it told before.
fn goes_on(port: u16, told: &mut String) -> bool {
    let Some(mut client) = RawClient::try_connect(port) else { return false };
    let mut ask = |words: &[&str]| client.try_call(words);
    let Some(record @ (Reply::Array(_) | Reply::Map(_))) = ask(&["CONF.INFO", REALM, "49"]) else {
        return false;
    };
    let Some(Reply::Array(values)) = ask(&["CONF.GET", REALM, "49", "chatter"]) else { return false };
    if values[0].is_null() || record.field("state").text() != "open" {
        return false;
    }
    let (before, now) = (std::mem::take(told), values[0].text());
    told.clone_from(&now);
    !before.is_empty() && before != now
}

#[test]
fn after_a_failover_by_sentinel_all_roles_go_on_with_the_new_master() {
    let (master, replica) = (RedisServer::start(), RedisServer::start());
    replica.replica_of(&master);
    let sentinel = Sentinel::of(&master);
    let sentinels = format!("127.0.0.1:{}", sentinel.port);
    let all = daemon("all", &["--redis-sentinels", &sentinels, "--redis-master", "main"]);
    master.raw().words(&format!("CONF.CREATE {REALM} 49"));
    let mut told = String::new();
    eventually("the conference to tell", GENEROUS, || goes_on(master.port(), &mut told));
    master.wait_offset_equal(&replica);
    master.kill9();
    eventually("the conference to tell the new master", GENEROUS, || {
        replica.info_field("replication", "role") == "master" && goes_on(replica.port(), &mut told)
    });
    eventually("the daemon to be ready again", GENEROUS, || all.is_ready());
    let history = replica.raw().words(&format!("CONF.HISTORY {REALM} 49"));
    assert_eq!(history.array().len(), 1, "{history:?}");
    // The old master comes back, and is made a replica; nobody falls for it.
    master.restart();
    eventually("the old master to follow", GENEROUS, || master.info_field("replication", "role") == "slave");
    eventually("the conference to go on", GENEROUS, || goes_on(replica.port(), &mut told));
}

/// The place of the master that has the realm's slot; makes the realm.
#[track_caller]
fn owner(cluster: &Cluster) -> usize {
    let takes =
        |node: &RedisServer| !matches!(node.raw().words(&format!("CONF.REALM {REALM}")), Reply::Error(_));
    cluster.masters().iter().position(takes).expect("some master has the slot")
}

#[test]
fn in_a_cluster_the_slots_master_is_found_and_found_again() {
    let cluster = Cluster::start(3, 1);
    let owner = owner(&cluster);
    // Any nodes will do; these do not have the slot.
    let nodes: Vec<String> = (0..3)
        .filter(|&node| node != owner)
        .map(|node| format!("127.0.0.1:{}", cluster.masters()[node].port()))
        .collect();
    let all = daemon("all", &["--redis-cluster", &nodes.join(",")]);
    let (master, replica) = (&cluster.masters()[owner], &cluster.replicas()[owner]);
    master.raw().words(&format!("CONF.CREATE {REALM} 49"));
    let mut told = String::new();
    eventually("the conference to tell", GENEROUS, || goes_on(master.port(), &mut told));
    master.wait_offset_equal(replica);
    master.kill9();
    eventually("the conference to tell the new master", GENEROUS, || goes_on(replica.port(), &mut told));
    eventually("the daemon to be ready again", GENEROUS, || all.is_ready());
    let history = replica.raw().words(&format!("CONF.HISTORY {REALM} 49"));
    assert_eq!(history.array().len(), 1, "{history:?}");
}

#[test]
fn in_a_cluster_an_operator_moves_the_master_while_all_roles_are_at_work() {
    let cluster = Cluster::start(3, 1);
    let owner = owner(&cluster);
    let (master, replica) = (&cluster.masters()[owner], &cluster.replicas()[owner]);
    let _all = daemon("all", &["--redis-cluster", &format!("127.0.0.1:{}", master.port())]);
    master.raw().words(&format!("CONF.CREATE {REALM} 49"));
    let mut told = String::new();
    eventually("the conference to tell", GENEROUS, || goes_on(master.port(), &mut told));
    // Masters that have not heard yet whose replica this is do not vote for it; after five seconds it may ask again.
    let mut asked = None::<Instant>;
    eventually("the replica to be the master", GENEROUS, || {
        if asked.is_none_or(|at| at.elapsed() > Duration::from_secs(6)) {
            asked = Some(Instant::now());
            assert_eq!(replica.raw().words("CLUSTER FAILOVER"), Reply::Simple("OK".into()));
        }
        replica.info_field("replication", "role") == "master"
    });
    eventually("the conference to tell the new master", GENEROUS, || goes_on(replica.port(), &mut told));
}
