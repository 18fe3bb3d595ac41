//! Slots move between the masters of a cluster by `redis-cli --cluster reshard`, while programs hold seats, call numbers,
//! log in and create conferences: nothing is granted twice, nothing is lost, and `allotd` follows its realm.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Output, Stdio};

use allot_tests::cluster::node_id;
use allot_tests::module::{python, repository};
use allot_tests::realms::REALM;
use allot_tests::wait::TIMEOUT;
use allot_tests::{Cluster, Process, RedisServer, Reply, eventually};

/// How many slots a master has.
#[track_caller]
fn slots(master: &RedisServer) -> usize {
    let nodes = master.raw().words("CLUSTER NODES").text();
    let own = nodes.lines().find(|line| line.contains("myself")).expect("a node is among the nodes");
    let ranges = own.split(' ').skip(8).map(|range| range.split_once('-').unwrap_or((range, range)));
    ranges.map(|(first, last)| last.parse::<usize>().unwrap() - first.parse::<usize>().unwrap() + 1).sum()
}

/// Runs `redis-cli --cluster`.
fn cluster_command(subcommand: &str, node: &RedisServer, more: &[&str]) -> Output {
    Command::new("redis-cli")
        .args(["--cluster", subcommand, &format!("127.0.0.1:{}", node.port())])
        .args(more)
        .stdin(Stdio::null())
        .output()
        .expect("redis-cli runs")
}

/// Moves slots as an operator does.
#[track_caller]
fn reshard(from: &RedisServer, to: &RedisServer, count: usize) {
    eventually("the nodes to agree about the slots", TIMEOUT, || {
        cluster_command("check", from, &[]).status.success()
    });
    let (source, target, count) = (node_id(from), node_id(to), count.to_string());
    let more =
        ["--cluster-from", &source, "--cluster-to", &target, "--cluster-slots", &count, "--cluster-yes"];
    let output = cluster_command("reshard", from, &more);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

fn daemon(name: &str, roles: &str, url: &str) -> Process {
    let host = format!("127.0.0.1/{name}");
    let arguments = ["--roles", roles, "--name", name, "--realm", REALM, "--redis-url", url];
    let process = Process::new(
        name,
        &[&arguments[..], &["--media-unit-host", &host, "--media-unit-capacity", "100000"]].concat(),
    );
    process.start();
    eventually("the daemon to be ready", TIMEOUT, || process.is_ready());
    process
}

#[test]
fn nothing_is_granted_twice_or_lost_while_slots_move() {
    let cluster = Cluster::start(3, 0);
    let takes = |node: &&RedisServer| {
        !matches!(node.raw().words(&format!("CONF.REALM {REALM} LICENCES 100000")), Reply::Error(_))
    };
    let from = cluster.masters().iter().find(takes).expect("some master has the slot of the realm");
    let to = cluster.other_than_for(REALM);
    let url = format!("redis+cluster://127.0.0.1:{}", to.port());
    let _all = [
        daemon("scheduler", "scheduler,data-proxy", &url),
        daemon("unit-a", "media-unit", &url),
        daemon("unit-b", "media-unit", &url),
    ];
    let mut load = Command::new(python())
        .arg(repository().join("tests/python/cluster_load.py"))
        .args(["--port", &to.port().to_string(), "--realm", REALM])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("python runs");
    let input = load.stdin.take();
    let mut output = BufReader::new(load.stdout.take().expect("it was asked for"));
    let mut line = String::new();
    output.read_line(&mut line).expect("the load writes text");
    assert_eq!(line, "working\n");

    // A master without slots would become a replica of the one that took the last slot.
    let before = slots(from);
    reshard(from, to, before - 1);
    assert_eq!(slots(from), 1);
    assert_eq!(cluster.master_for(REALM).port(), to.port());
    reshard(to, from, before - 1);
    drop(input);

    let (mut done, mut errors) = (String::new(), String::new());
    output.read_to_string(&mut done).expect("the load writes text");
    load.stderr.take().expect("it was asked for").read_to_string(&mut errors).expect("the load writes text");
    let status = load.wait().expect("the load ends");
    assert!(status.success(), "{errors}");
    println!("granted while {} slots moved: {done}", 2 * (before - 1));
    for family in ["hold", "call", "login", "conference"] {
        assert!(done.contains(&format!("\"{family}\":")), "{done}");
    }
}
