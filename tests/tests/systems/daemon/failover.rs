//! `allot` finds the master by itself: by Sentinels, and by the nodes of a cluster; also after a failover.

use std::time::{Duration, Instant};

use allot_tests::daemon::media_program;
use allot_tests::launch::free_port;
use allot_tests::proxy::Proxy;
use allot_tests::realms::{REALM, Realm};
use allot_tests::wait::TIMEOUT;
use allot_tests::{Certificates, Cluster, Process, RawClient, RedisServer, Reply, Sentinel, eventually};

fn daemon(name: &str, more: &[&str]) -> Process {
    let host = format!("127.0.0.1/{name}");
    let arguments = [
        "--roles",
        "scheduler,data-proxy,media-unit",
        "--realm",
        REALM,
        "--media-unit-host",
        &host,
        "--media-unit-chatter",
        "100ms",
        "--media-unit-lease",
        "3s",
        "--redis-timeout",
        "1s",
    ];
    let process = Process::new(name, &[&arguments[..], more].concat());
    process.start();
    eventually("the daemon to be ready", TIMEOUT, || process.is_ready());
    process
}

/// What the conference has told a server last, if it is open there.
fn told(port: u16) -> Option<String> {
    let mut client = RawClient::try_connect(port)?;
    let mut ask = |words: &[&str]| client.try_call(words);
    let record @ (Reply::Array(_) | Reply::Map(_)) = ask(&["CONF.INFO", REALM, "49"])? else { return None };
    let Reply::Array(values) = ask(&["CONF.GET", REALM, "49", "chatter"])? else { return None };
    (!values[0].is_null() && record.field("state").text() == "open").then(|| values[0].text())
}

/// Waits until the server is the master and the conference has told it something new. What it knows first may have come
/// from the old master.
#[track_caller]
fn wait_until_told(server: &RedisServer) {
    eventually("the server to be the master", TIMEOUT, || server.role().as_deref() == Some("master"));
    let mut known = None;
    eventually("the conference to tell the master more", TIMEOUT, || {
        let now = told(server.port());
        let before = std::mem::replace(&mut known, now.clone());
        before.is_some() && now.is_some() && before != now
    });
}

#[test]
fn after_a_failover_by_sentinel_all_roles_go_on_with_the_new_master() {
    let (master, replica) = (RedisServer::start(), RedisServer::start());
    replica.replica_of(&master);
    let sentinel = Sentinel::of(&master);
    sentinel.knows_replicas(1);
    let all = daemon("all", &["--redis-url", &format!("redis+sentinel://{}/main", sentinel.address())]);
    master.raw().words(&format!("CONF.CREATE {REALM} 49"));
    wait_until_told(&master);
    master.wait_offset_equal(&replica);
    master.kill9();
    wait_until_told(&replica);
    eventually("the daemon to be ready again", TIMEOUT, || all.is_ready());
    let history = replica.raw().words(&format!("CONF.HISTORY {REALM} 49"));
    assert_eq!(history.array().len(), 1, "{history:?}");
    // The old master comes back, and is made a replica; nobody falls for it.
    master.restart();
    eventually("the old master to follow", TIMEOUT, || master.role().as_deref() == Some("slave"));
    wait_until_told(&replica);
}

#[test]
fn old_master_is_left_for_the_one_that_sentinels_name() {
    // As if it were cut off from Sentinel and replica, and not from us: it never hears that it is none any more.
    let master = RedisServer::builder().arg("rename-command", "SLAVEOF \"\"").start();
    let replica = RedisServer::start();
    replica.replica_of(&master);
    let sentinel = Sentinel::of(&master);
    sentinel.knows_replicas(1);
    let all = daemon("all", &["--redis-url", &format!("redis+sentinel://{}/main", sentinel.address())]);
    master.raw().words(&format!("CONF.CREATE {REALM} 49"));
    wait_until_told(&master);
    master.wait_offset_equal(&replica);
    eventually("the failover to begin", TIMEOUT, || {
        sentinel.ask("FAILOVER") == Some(Reply::Simple("OK".into()))
    });
    wait_until_told(&replica);
    assert_eq!(master.info_field("replication", "role"), "master", "the old one was told");
    eventually("the daemon to be ready again", TIMEOUT, || all.is_ready());
}

#[test]
fn copy_ends_only_after_a_replica_has_the_reason() {
    let (master, replica) = (RedisServer::start(), RedisServer::start());
    let wire = Proxy::to(master.port());
    replica.command(&format!("REPLICAOF 127.0.0.1 {}", wire.port()));
    replica.wait_replica_synced();
    let unit = Process::new(
        "unit",
        &["--roles", "media-unit", "--realm", REALM, "--media-unit-host", "127.0.0.1/unit"],
    )
    .behind_redis(master.port())
    .with("ALLOT_MEDIA_UNIT_PROGRAM", &media_program(&master))
    .with("ALLOT_MEDIA_UNIT_LEASE", "1min");
    unit.start();
    eventually("the unit to be ready", TIMEOUT, || unit.is_ready());
    let mut client = Realm::of(&master);
    let (cmu, epoch) = client.begin("1", "");
    eventually("the conference to be open", TIMEOUT, || {
        client.place("1").2 == "open" && master.dir().join("1.pid").exists()
    });
    master.wait_offset_equal(&replica);

    // It is moved away; the master is lost before a replica heard of that, and the unit was told already.
    wire.cut();
    client.join("b:1:1");
    let moving = client.ok("CONF.MOVE 1 TO b:1:1").field("moving_epoch").int();
    client.ok(&format!("CONF.ACK 1 b:1:1 {moving}"));
    assert_eq!(client.place("1").0, "b:1:1");
    let told = || unit.metric("allot_unit_commands_total{event=\"RELEASE\"}").unwrap_or_default();
    eventually("the unit to be told", TIMEOUT, || told() >= 1.0);
    let reports = || unit.metric("allot_unit_reports_total").unwrap_or_default();
    let before = reports();
    master.kill9();
    replica.command("REPLICAOF NO ONE");
    unit.redis.iter().for_each(|wire| wire.lead_to(replica.port()));
    eventually("the unit to have reported", TIMEOUT, || reports() > before);
    let mut client = Realm::of(&replica);
    assert_eq!(client.place("1"), (cmu, epoch, "open".to_owned()));
    assert!(!master.dir().join("media.1.bye").exists(), "its media was ended");
    // The metric is set with the next heartbeat.
    eventually("the unit to count it", TIMEOUT, || unit.metric("allot_unit_conferences") == Some(1.0));

    // Where no replica is there nobody is waited for.
    client.ok("CONF.RELEASE 1");
    eventually("its media to be ended", TIMEOUT, || master.dir().join("media.1.bye").exists());
    eventually("it to be over", TIMEOUT, || client.place("1").2 == "ended");
}

#[test]
fn sentinel_that_knows_the_latest_failover_is_believed() {
    let (master, replica, other) = (RedisServer::start(), RedisServer::start(), RedisServer::start());
    replica.replica_of(&master);
    // One is not there, and one, as if cut off the rest, names a master that the others gave up.
    let (behind, ahead) = (Sentinel::of(&other), Sentinel::of(&master));
    ahead.knows_replicas(1);
    eventually("the failover to begin", TIMEOUT, || {
        ahead.ask("FAILOVER") == Some(Reply::Simple("OK".into()))
    });
    eventually("the failover to be over", TIMEOUT, || {
        let port = ahead.ask("MASTER").map(|record| record.field("port").text());
        port == Some(replica.port().to_string()) && replica.role().as_deref() == Some("master")
    });
    let (behind, ahead) = (behind.address(), ahead.address());
    let url = format!("redis+sentinel://127.0.0.1:{},{behind},{ahead}/main", free_port());
    let arguments = ["--redis-url", &url, "--roles", "data-proxy", "--realm", REALM];
    for _ in 0..5 {
        let proxy = Process::new("proxy", &arguments);
        proxy.start();
        eventually("the proxy to be ready", TIMEOUT, || proxy.is_ready());
        assert!(
            proxy.log().contains(&format!("server=redis://127.0.0.1:{} ", replica.port())),
            "{}",
            proxy.log()
        );
    }
    assert_eq!(other.raw().words(&format!("EXISTS {REALM}:info")).int(), 0);
}

#[test]
fn sentinels_may_have_a_password_of_their_own() {
    let master = RedisServer::start();
    let sentinel = Sentinel::with_password(&master, "watchword");
    let file = master.dir().join("password");
    std::fs::write(&file, "watchword\n").unwrap();
    let (url, file) = (format!("redis+sentinel://{}/main", sentinel.address()), file.display().to_string());
    let way = ["--redis-url", &url];
    let all = daemon("all", &[&way[..], &["--redis-sentinel-password-file", &file]].concat());
    master.raw().words(&format!("CONF.CREATE {REALM} 49"));
    wait_until_told(&master);
    assert!(!all.log().contains("watchword"), "{}", all.log());
    // Who does not have it is not told where the master is, and says so.
    let other = Process::new("other", &[&["--roles", "data-proxy", "--realm", REALM], &way[..]].concat());
    other.start();
    eventually("it to be refused", TIMEOUT, || {
        other.http("/readyz").is_some_and(|(status, body)| status == 503 && body.contains("NOAUTH"))
    });
}

#[test]
fn sentinels_and_the_nodes_of_a_cluster_are_spoken_to_by_tls() {
    let certificates = Certificates::new();
    let tls = ["--redis-ca-file", &certificates.file("ca.pem")];
    let builder = RedisServer::builder().tls(&certificates);
    let (master, cluster) = (builder.clone().start(), Cluster::start_with(1, 0, &builder));
    let sentinel = Sentinel::of_tls(&master, &certificates);
    let node = &cluster.masters()[0];
    let ways = [
        (&master, format!("+sentinel://{}/main", sentinel.address())),
        (node, format!("+cluster://127.0.0.1:{}", node.tls_port())),
    ];
    for (server, way) in ways {
        let url = format!("rediss{way}");
        let all = daemon("all", &[&["--redis-url", url.as_str()], &tls[..]].concat());
        assert!(
            all.log().contains(&format!("server=rediss://127.0.0.1:{} ", server.tls_port())),
            "{}",
            all.log()
        );
        server.raw().words(&format!("CONF.CREATE {REALM} 49"));
        wait_until_told(server);
        // Without TLS nothing answers there.
        let url = format!("redis{way}");
        let plain = Process::new("plain", &["--roles", "data-proxy", "--realm", REALM, "--redis-url", &url]);
        plain.start();
        eventually("it to find no master", TIMEOUT, || {
            plain
                .http("/readyz")
                .is_some_and(|(status, body)| status == 503 && body.contains("session with Redis"))
        });
    }
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
    let all = daemon("all", &["--redis-url", &format!("redis+cluster://{}", nodes.join(","))]);
    let (master, replica) = (&cluster.masters()[owner], &cluster.replicas()[owner]);
    master.raw().words(&format!("CONF.CREATE {REALM} 49"));
    wait_until_told(master);
    master.wait_offset_equal(replica);
    master.kill9();
    wait_until_told(replica);
    eventually("the daemon to be ready again", TIMEOUT, || all.is_ready());
    let history = replica.raw().words(&format!("CONF.HISTORY {REALM} 49"));
    assert_eq!(history.array().len(), 1, "{history:?}");
}

#[test]
fn in_a_cluster_an_operator_moves_the_master_while_all_roles_are_at_work() {
    let cluster = Cluster::start(3, 1);
    let owner = owner(&cluster);
    let (master, replica) = (&cluster.masters()[owner], &cluster.replicas()[owner]);
    let _all = daemon("all", &["--redis-url", &format!("redis+cluster://127.0.0.1:{}", master.port())]);
    master.raw().words(&format!("CONF.CREATE {REALM} 49"));
    wait_until_told(master);
    // Masters that have not heard yet whose replica this is do not vote for it; after five seconds it may ask again.
    let mut asked = None::<Instant>;
    eventually("the replica to be the master", TIMEOUT, || {
        if replica.role().as_deref() == Some("master") {
            return true;
        }
        if asked.is_none_or(|at| at.elapsed() > Duration::from_secs(6)) {
            asked = Some(Instant::now());
            replica.raw().words("CLUSTER FAILOVER");
        }
        false
    });
    wait_until_told(replica);
}
