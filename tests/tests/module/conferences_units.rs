//! Units on a real server: two machines with one host, and conferences of units that are silent.

use allot_tests::realms::Realm;
use allot_tests::shows::{allot_info, no_internal_errors};
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, eventually};

#[test]
fn second_machine_with_the_same_host_is_refused_and_stops_nothing() {
    let server = RedisServer::builder().arg("appendonly", "yes").start();
    let mut realm = Realm::create(&server, &[]);
    let join = "CAPACITY 10 LEASE 3600000 MACHINE";
    realm.ok(&format!("CMU.JOIN a:1:1 {join} m1"));
    realm.open("7");
    for _ in 0..3 {
        let refused = realm.call(&format!("CMU.JOIN a:1:2 {join} m2"));
        for part in ["EXISTS host 'a' belongs to unit 'a:1:1' on machine 'm1'", "media-unit.host"] {
            assert!(refused.error().contains(part), "{refused:?}");
        }
    }
    assert_eq!(realm.entries("evt").last().unwrap(), "conflict  a:1:1 0 up m2");
    assert_eq!((allot_info(&server, "cmu_conflicts"), allot_info(&server, "conf_refused")), (1, 3));
    // The unit that runs hears of it with its heartbeat, and goes on, also when the server was restarted.
    server.restart();
    let mut realm = Realm::of(&server);
    let unit = realm.ok("CMU.BEAT a:1:1");
    assert_eq!((unit.field("machine").text(), unit.field("conflict").text()), ("m1".into(), "m2".into()));
    assert_eq!(realm.place("7").2, "open");
    // A restart on its own machine is no conflict.
    assert!(realm.ok(&format!("CMU.JOIN a:1:3 {join} m1")).field("conflict").is_null());
    realm.ok("CMU.DOWN a:1:3");
    realm.ok(&format!("CMU.JOIN a:1:2 {join} m2"));
    no_internal_errors(&server);
}

#[test]
fn open_conferences_of_a_silent_unit_are_listed_as_lost() {
    let server = RedisServer::start();
    let mut realm = Realm::create(&server, &[]);
    realm.ok("CMU.JOIN a:1:1 CAPACITY 10 LEASE 100");
    realm.open("7");
    eventually("its lease to expire", TIMEOUT, || realm.stat("lost") == 1);
    assert_eq!(realm.place("7").2, "lost");
    let listed = |realm: &mut Realm, state: &str| {
        let page = realm.ok(&format!("CONF.LIST STATE {state}")).array()[1].clone();
        page.array().iter().map(|one| one.field("state").text()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!((listed(&mut realm, "lost").as_str(), listed(&mut realm, "OPEN").as_str()), ("lost", ""));
    realm.ok("CMU.DOWN a:1:1");
    assert_eq!((realm.place("7").2.as_str(), listed(&mut realm, "lost").as_str()), ("pending", ""));
    no_internal_errors(&server);
}
