//! Units that refuse conferences, programs that fail, hosts that are drained, and racks that are lost: what real processes
//! make of it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use allot_tests::daemon::alone;
use allot_tests::realms::Realm;
use allot_tests::wait::TIMEOUT;
use allot_tests::{Process, RedisServer, eventually};

/// A shell script in the folder of the server.
fn script(server: &RedisServer, name: &str, text: &str) -> String {
    let path = server.dir().join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

/// A unit, alone in its process, with this program.
fn unit(server: &RedisServer, name: &str, program: &str, more: &[&str]) -> Process {
    alone(server, name, "media-unit", &[&["--media-unit-program", program][..], more].concat())
}

/// A program that is ready at once and runs until it is stopped.
const STEADY: &str = "echo READY; while :; do sleep 0.05; done";

#[test]
fn unit_whose_program_is_missing_does_not_get_every_conference() {
    let server = RedisServer::start();
    let steady = script(&server, "steady", STEADY);
    let mut client = Realm::create(&server, &[]);
    client.ok("CONF.REALM LICENCES 20 FAILURES 2");
    let scheduler = alone(&server, "scheduler", "scheduler", &[]);
    let units = [
        unit(&server, "a", "/nowhere/media", &["--media-unit-capacity", "30"]),
        unit(&server, "b", &steady, &["--media-unit-capacity", "30"]),
        unit(&server, "c", &steady, &["--media-unit-capacity", "30"]),
    ];
    eventually("the units to be up", TIMEOUT, || client.stat("up") == 3);
    for number in 0..8 {
        client.begin(&number.to_string(), "");
        eventually("it to be open", TIMEOUT, || client.place(&number.to_string()).2 == "open");
    }
    assert_eq!((client.stat("open"), client.stat("ended")), (8, 0));
    // The metrics say so: of the unit that fails, of those that work, and of the realm.
    let is = |process: &Process, name: &str, value: f64| process.metric(name) == Some(value);
    eventually("the metrics", TIMEOUT, || {
        let of_units = |name: &str| units.iter().map(|unit| unit.metric(name).unwrap_or(-1.0)).sum::<f64>();
        units[0].metric("allot_unit_creation_failures") >= Some(2.0)
            && is(&units[1], "allot_unit_creation_failures", 0.0)
            && (of_units("allot_unit_capacity"), of_units("allot_unit_used")) == (90.0, 8.0)
            && is(&scheduler, "allot_scheduler_capacity", 90.0)
            && is(&scheduler, "allot_scheduler_used", 8.0)
            && is(&scheduler, "allot_scheduler_licences", 20.0)
            && is(&scheduler, "allot_scheduler_licences_used", 8.0)
    });
}

#[test]
fn program_that_ends_at_once_is_refused_and_not_called_open() {
    let server = RedisServer::start();
    let failing = script(&server, "failing", "echo run >> \"$0.runs\"; exit 1");
    let mut client = Realm::create(&server, &[]);
    let _unit = unit(&server, "a", &failing, &[]);
    eventually("the unit to be up", TIMEOUT, || client.stat("up") == 1);
    client.begin("1", "");
    eventually("the creation to have failed", TIMEOUT, || client.place("1").2 == "ended");
    let refused = |line: &String| line.starts_with("refused 1") && line.contains("before it was ready");
    assert!(client.entries("evt").iter().any(refused), "{:?}", client.entries("evt"));
    let opened = |line: &String| line.starts_with("opened 1");
    assert!(!client.entries("evt").iter().any(opened), "it was never open");
    let runs = fs::read_to_string(server.dir().join("failing.runs")).unwrap();
    assert_eq!(runs.lines().count(), 1);
}

#[test]
fn conference_whose_program_fails_again_and_again_goes_to_another_unit() {
    let server = RedisServer::start();
    let failing = script(&server, "failing", "echo READY; echo run >> \"$0.runs\"; sleep 0.2; exit 1");
    let steady = script(&server, "steady", STEADY);
    let mut client = Realm::create(&server, &[]);
    let _scheduler = alone(&server, "scheduler", "scheduler", &[]);
    let _failing = unit(&server, "a", &failing, &["--media-unit-restarts", "1"]);
    eventually("the unit to be up", TIMEOUT, || client.stat("up") == 1);
    let (first, _) = client.begin("1", "");
    eventually("it to be open", TIMEOUT, || client.place("1").2 == "open");
    let _steady = unit(&server, "b", &steady, &[]);
    eventually("it to be open on the other unit", TIMEOUT, || {
        let (cmu, _, state) = client.place("1");
        cmu != first && state == "open"
    });
    let runs = fs::read_to_string(server.dir().join("failing.runs")).unwrap();
    assert_eq!(runs.lines().count(), 2, "one restart");
    assert!(client.entries("evt").iter().any(|line| line.starts_with("lost 1") && line.ends_with("failed")));
}

#[test]
fn move_ends_the_earlier_program_only_when_the_new_one_is_ready() {
    let server = RedisServer::start();
    let program = "trap 'echo bye > \"$1.bye\"; exit 0' TERM; echo run > \"$1.run\"\n\
                   while [ ! -e \"$1.go\" ]; do sleep 0.05; done; echo READY; while :; do sleep 0.05; done";
    let program = script(&server, "program", program);
    let file = |name: &str| server.dir().join(name);
    let mut client = Realm::create(&server, &[]);
    let program_of = |name: &str| format!("{program} {}", file(name).display());
    let _a = unit(&server, "a", &program_of("a"), &[]);
    eventually("the unit to be up", TIMEOUT, || client.stat("up") == 1);
    fs::write(file("a.go"), "").unwrap();
    client.begin("1", "");
    eventually("it to be open", TIMEOUT, || client.place("1").2 == "open");
    let _b = unit(&server, "b", &program_of("b"), &[]);
    eventually("the other unit to be up", TIMEOUT, || client.stat("up") == 2);
    client.ok("CONF.MOVE 1");
    eventually("the new program to run", TIMEOUT, || file("b.run").exists());
    std::thread::sleep(Duration::from_millis(500));
    assert!(!file("a.bye").exists(), "people are still on the first unit");
    assert!(!client.ok("CONF.INFO 1").field("moving_to").is_null());
    fs::write(file("b.go"), "").unwrap();
    eventually("the first program to end", TIMEOUT, || file("a.bye").exists());
    assert!(client.place("1").0.contains("/b:"));
}

#[test]
fn drained_host_gets_nothing_back_when_its_unit_restarts() {
    let server = RedisServer::start();
    let steady = script(&server, "steady", STEADY);
    let mut client = Realm::create(&server, &[]);
    let _scheduler = alone(&server, "scheduler", "scheduler", &[]);
    let lease = ["--media-unit-lease", "3s", "--redis-timeout", "1s"];
    let a = unit(&server, "a", &steady, &lease);
    eventually("the unit to be up", TIMEOUT, || client.stat("up") == 1);
    for number in 0..8 {
        client.begin(&number.to_string(), "");
    }
    eventually("all to be open", TIMEOUT, || client.stat("open") == 8);
    let _b = unit(&server, "b", &steady, &lease);
    eventually("the other unit to be up", TIMEOUT, || client.stat("up") == 2);
    client.ok("CMU.DRAIN HOST 127.0.0.1/a");
    a.kill9();
    a.start();
    eventually("all to be open on the other unit", TIMEOUT, || {
        (0..8).all(|number| {
            let (cmu, _, state) = client.place(&number.to_string());
            cmu.contains("/b:") && state == "open"
        })
    });
    eventually("the unit to be back", TIMEOUT, || client.stat("up") == 2 && client.stat("draining") == 1);
    for number in 8..14 {
        assert!(client.begin(&number.to_string(), "").0.contains("/b:"));
    }
}

#[test]
fn two_units_of_three_are_recovered_in_seconds_and_their_conferences_are_lost_meanwhile() {
    let server = RedisServer::start();
    let steady = script(&server, "steady", STEADY);
    let mut client = Realm::create(&server, &[]);
    let scheduler = alone(&server, "scheduler", "scheduler", &[]);
    let lease = ["--media-unit-lease", "3s", "--redis-timeout", "1s"];
    let [a, b, _c] = ["a", "b", "c"].map(|name| unit(&server, name, &steady, &lease));
    eventually("the units to be up", TIMEOUT, || client.stat("up") == 3);
    for number in 0..12 {
        client.begin(&number.to_string(), "");
    }
    eventually("all to be open", TIMEOUT, || client.stat("open") == 12);
    // The scheduler hangs until the leases have expired.
    scheduler.pause();
    a.kill9();
    b.kill9();
    eventually("the conferences to be lost", TIMEOUT, || {
        (client.stat("open"), client.stat("lost")) == (4, 8)
    });
    scheduler.resume();
    let begun = std::time::Instant::now();
    eventually("all to be open again", TIMEOUT, || client.stat("open") == 12);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!((client.stat("lost"), scheduler.metric("allot_scheduler_guard")), (0, Some(0.0)));
}

#[test]
fn two_units_of_three_are_back_at_default_settings() {
    let server = RedisServer::start();
    let steady = script(&server, "steady", STEADY);
    let mut client = Realm::create(&server, &[]);
    let _scheduler = alone(&server, "scheduler", "scheduler", &[]);
    let [a, b, _c] = ["a", "b", "c"].map(|name| unit(&server, name, &steady, &[]));
    eventually("the units to be up", TIMEOUT, || client.stat("up") == 3);
    for number in 0..12 {
        client.begin(&number.to_string(), "");
    }
    eventually("all to be open", TIMEOUT, || client.stat("open") == 12);
    let begun = std::time::Instant::now();
    a.kill9();
    b.kill9();
    eventually("some to be lost", TIMEOUT, || client.stat("open") < 12);
    eventually("all to be open again", TIMEOUT, || client.stat("open") == 12);
    println!("two units of three were killed: all is open again after {:.1?}", begun.elapsed());
}
