//! The scheduler when Redis alone is out of reach, and what the guard and the grace hold back.

use std::thread::sleep;
use std::time::Duration;

use allot_tests::daemon::{alone, run};
use allot_tests::realms::{REALM, Realm};
use allot_tests::wait::TIMEOUT;
use allot_tests::{Plan, Process, RedisServer, System, ZooKeeperServer, eventually};

#[test]
fn a_leader_that_loses_redis_alone_lets_another_lead() {
    let mut system = System::start(&Plan::default());
    system.create(20);
    let leader = system.leader();
    // ZooKeeper hears it all the time, so nobody takes its lead away.
    system.schedulers[leader].cut_redis();
    system.units[0].kill9();
    system.release_one();
    let took = system.healthy_in(Duration::from_secs(40), "a unit killed while the leader is cut off Redis");
    println!("well again after {took:.1?}");
    assert!(system.schedulers[leader].log().contains("giving leadership up"));
    system.schedulers[leader].heal();
    system.units[0].start();
    system.until("all units to be up", |realm| realm.stat("up") == 5);
    system.release_one();
    system.healthy("all back");
}

#[test]
fn lone_scheduler_leads_again_after_giving_up_its_leadership() {
    let server = RedisServer::start();
    let mut client = Realm::create(&server, &[]);
    let times = ["--media-unit-lease", "3s", "--media-unit-beat", "500ms", "--redis-timeout", "1s"];
    let scheduler = alone(&server, "scheduler", "scheduler", &times);
    let term = |client: &mut Realm| client.ok("CONF.REALM").field("term").int();
    eventually("it to have claimed the realm", TIMEOUT, || term(&mut client) > 0);
    client.join("a:1:1");
    client.open("1");
    let before = term(&mut client);
    server.pause();
    eventually("it to give its lead up", TIMEOUT, || scheduler.log().contains("giving leadership up"));
    server.resume();
    eventually("it to lead again, in a later term", TIMEOUT, || term(&mut client) > before);
    client.join("b:1:1");
    client.ok("CMU.DOWN a:1:1");
    eventually("it to place what is lost", TIMEOUT, || client.place("1").0 == "b:1:1");
}

#[test]
fn the_guard_holds_what_waits_as_well_until_it_is_lifted() {
    let server = RedisServer::start();
    let mut client = Realm::create(&server, &[]);
    let scheduler = alone(
        &server,
        "scheduler",
        "scheduler",
        &["--scheduler-guard-lift", "1h", "--scheduler-guard-units", "2"],
    );
    eventually("it to have claimed the realm", TIMEOUT, || client.ok("CONF.REALM").field("term").int() > 0);
    client.ok("CMU.JOIN x:1:1 CAPACITY 3 LEASE 3600000000");
    let (cmu, epoch) = client.begin("1", "SIZE 3");
    client.ok(&format!("CONF.ACK 1 {cmu} {epoch}"));
    client.ok("CMU.DOWN x:1:1");
    assert_eq!(client.place("1").2, "pending");
    // Two that have no room for it, and are never heard again.
    for cmu in ["a:1:1", "b:1:1"] {
        client.ok(&format!("CMU.JOIN {cmu} CAPACITY 1 LEASE 1000"));
    }
    eventually("the guard to hold", TIMEOUT, || scheduler.metric("allot_scheduler_guard") == Some(1.0));
    client.ok("CMU.JOIN y:1:1 CAPACITY 10 LEASE 3600000000");
    sleep(Duration::from_secs(3));
    assert_eq!(client.place("1").2, "pending", "it was placed although the guard held");
    run(&server, &["realm", "lift-guard", REALM, "--yes"]).ok();
    eventually("it to be placed", TIMEOUT, || client.place("1").0 == "y:1:1");
}

#[test]
fn a_unit_whose_node_stands_is_not_down_before_the_grace() {
    let (server, zookeeper) = (RedisServer::start(), ZooKeeperServer::start());
    let (mut client, address) = (Realm::create(&server, &[]), zookeeper.address());
    let with_zookeeper = ["--zookeeper-servers", &address, "--scheduler-grace", "1min"];
    let _scheduler = alone(&server, "scheduler", "scheduler", &with_zookeeper);
    let host = ["--roles", "media-unit", "--realm", REALM, "--media-unit-host", "127.0.0.1/unit"];
    let unit = Process::new("unit", &[&host[..], &["--zookeeper-servers", &address]].concat())
        .behind_redis(server.port());
    unit.start();
    let mut state = || {
        let units = client.ok("CMU.LIST");
        units.array().first().map(|unit| unit.field("state").text()).unwrap_or_default()
    };
    eventually("the unit to be up", TIMEOUT, || state() == "up");
    unit.cut_redis();
    eventually("its lease to be over", TIMEOUT, || state() == "unreachable");
    // Some looks later.
    sleep(Duration::from_secs(2));
    assert_eq!(state(), "unreachable", "the grace is not over");
}

#[test]
fn new_leader_asks_each_unit_for_its_conferences() {
    let server = RedisServer::start();
    let mut client = Realm::create(&server, &["a:1:1"]);
    // Nobody acknowledges what is placed.
    client.ok("CONF.REALM CREATETIMEOUT 3600000");
    let (_, epoch) = client.open("1");
    // It has died, and nobody was there to say so.
    client.ok("CMU.JOIN b:1:1 CAPACITY 200000 LEASE 1000");
    let (cmu, _) = client.open("2");
    assert_eq!(cmu, "b:1:1");
    eventually("its lease to be over", TIMEOUT, || client.stat("unreachable") == 1);
    let mut epoch = epoch;
    for name in ["first", "second"] {
        let _scheduler = alone(&server, name, "scheduler", &[]);
        // Nobody has told it yet that its unit has it.
        eventually("the living unit to be asked", TIMEOUT, || client.place("1").2 == "waiting");
        client.ok(&format!("CMU.REPORT a:1:1 HIGHEST {epoch} 1 {epoch}"));
        eventually("it to be open again", TIMEOUT, || client.place("1").2 == "open");
        eventually("the dead unit's to be placed on the other", TIMEOUT, || client.place("2").0 == "a:1:1");
        epoch = client.place("1").1;
    }
}

#[test]
fn while_zookeeper_is_away_nobody_is_declared_dead() {
    let mut system = System::start(&Plan::default());
    system.create(20);
    let before = system.places();
    system.zookeeper.kill9();
    let is_unready = |process: &Process| {
        process.http("/readyz").is_some_and(|(status, body)| status == 503 && body.contains("ZooKeeper"))
    };
    eventually("all schedulers not to be ready", TIMEOUT, || system.schedulers.iter().all(is_unready));
    system.units[0].kill9();
    system.until("its lease to be over", |realm| realm.stat("unreachable") == 1);
    // Longer than the grace, and than any session.
    sleep(Duration::from_secs(8));
    assert_eq!(system.places(), before, "a conference was moved while ZooKeeper was away");
    let is_alive = |process: &Process| process.http("/healthz").is_some_and(|(status, _)| status == 200);
    assert!(system.schedulers.iter().all(is_alive), "not ready is not dead");
    system.zookeeper.restore();
    system.release_one();
    let took = system.healthy("a unit killed while ZooKeeper was away, and ZooKeeper back");
    println!("well again after {took:.1?}");
}

#[test]
fn metrics_show_how_many_units_cannot_be_lost() {
    let server = RedisServer::start();
    let mut client = Realm::create(&server, &[]);
    for cmu in ["a:1:1", "b:1:1"] {
        client.ok(&format!("CMU.JOIN {cmu} CAPACITY 3 LEASE 3600000"));
    }
    for e164 in ["1", "2", "3", "4"] {
        client.open(e164);
    }
    // Two on each unit, and room for one more.
    let scheduler = alone(&server, "scheduler", "scheduler", &[]);
    let shown = || {
        let names = ["allot_scheduler_units_without_cover", "allot_scheduler_conferences_without_cover"];
        names.map(|name| scheduler.metric(name))
    };
    eventually("the survey", TIMEOUT, || shown() == [Some(2.0), Some(1.0)]);
}
