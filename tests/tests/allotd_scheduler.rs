//! The scheduler when Redis alone is out of reach.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test reports what is wrong by failing"
)]

use std::thread::sleep;
use std::time::Duration;

use allot_tests::daemon::alone;
use allot_tests::realms::Realm;
use allot_tests::wait::GENEROUS;
use allot_tests::{Plan, RedisServer, System, eventually};

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
    assert_ne!(system.leader(), leader);
    system.schedulers[leader].heal();
    system.units[0].start();
    system.until("all units to be up", |realm| realm.stat("up") == 5);
    system.release_one();
    system.healthy("all back");
}

#[test]
fn a_lone_scheduler_that_gave_its_lead_up_goes_on() {
    let server = RedisServer::start();
    let times = ["--cmu-lease", "3s", "--cmu-beat", "500ms", "--redis-timeout", "1s"];
    let scheduler = alone(&server, "scheduler", "conference", &times);
    let mut client = Realm::of(&server);
    client.join("a:1:1");
    client.open("1");
    let term = |client: &mut Realm| client.ok("CONF.REALM").field("term").int();
    let before = term(&mut client);
    server.pause();
    eventually("it to give its lead up", GENEROUS, || scheduler.log().contains("giving the lead up"));
    server.resume();
    eventually("it to lead again, in a later term", GENEROUS, || term(&mut client) > before);
    client.join("b:1:1");
    client.ok("CMU.DOWN a:1:1");
    eventually("it to place what is lost", GENEROUS, || client.place("1").0 == "b:1:1");
}
