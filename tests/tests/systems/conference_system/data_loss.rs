//! Redis comes back empty or older while programs of conferences run.

use std::fs;

use allot_tests::daemon::{alone, media_program};
use allot_tests::module::{python, repository};
use allot_tests::realms::{REALM, Realm};
use allot_tests::shows::no_internal_errors;
use allot_tests::wait::TIMEOUT;
use allot_tests::{Ensemble, Process, RedisServer, Reply, eventually};

/// A scheduler and two units whose conferences have programs.
fn system(server: &RedisServer) -> Vec<Process> {
    let media = media_program(server);
    let mut all = vec![alone(server, "scheduler", "scheduler", &[])];
    all.extend(
        ["one", "two"].map(|name| alone(server, name, "media-unit", &["--media-unit-program", &media])),
    );
    all
}

/// The process of a conference's program, when it was last started.
fn pid(server: &RedisServer, e164: &str) -> String {
    fs::read_to_string(server.dir().join(format!("{e164}.pid"))).unwrap_or_default()
}

/// Whether the program of a conference was asked to end.
fn was_stopped(server: &RedisServer, e164: &str) -> bool {
    server.dir().join(format!("media.{e164}.bye")).exists()
}

#[track_caller]
fn open(server: &RedisServer, client: &mut Realm, e164: &str, options: &str) {
    client.begin(e164, options);
    eventually("the conference to be open", TIMEOUT, || {
        client.place(e164).2 == "open" && pid(server, e164).ends_with('\n')
    });
}

/// The state of a conference, or none without a record.
fn state(client: &mut Realm, e164: &str) -> String {
    let list = client.call(&format!("CONF.INFO {e164}"));
    if matches!(list, Reply::Error(_)) { "none".into() } else { list.field("state").text() }
}

#[test]
fn programs_go_on_when_all_keys_are_deleted() {
    let server = RedisServer::start();
    let _system = system(&server);
    let mut client = Realm::of(&server);
    eventually("both units to be up", TIMEOUT, || client.stat("up") == 2);
    let all = ["1", "2", "3", "4", "5", "6"];
    for e164 in all {
        open(&server, &mut client, e164, "SIZE 3 END 4000000000000 PRIORITY -1 REQUEST r");
    }
    client.ok("CONF.RELEASE 6");
    eventually("the last to have ended", TIMEOUT, || client.place("6").2 == "ended");
    let before = all.map(|e164| pid(&server, e164));
    client.client.words("FLUSHALL");
    eventually("all that run to be open", TIMEOUT, || {
        all[..5].iter().all(|e164| state(&mut client, e164) == "open")
    });
    let info = client.ok("CONF.INFO 1");
    assert_eq!((info.field("size").int(), info.field("end").int()), (3, 4_000_000_000_000));
    assert_eq!((info.field("priority").int(), info.field("request").text()), (-1, "r".into()));
    // The details are sent again, at the new epoch.
    open(&server, &mut client, "7", "");
    assert_eq!(all.map(|e164| pid(&server, e164)), before, "a program was started again");
    assert!(!all[..5].iter().any(|e164| was_stopped(&server, e164)), "a program was stopped");
    assert_eq!(state(&mut client, "6"), "ended");
    // A realm that is dropped on purpose ends its copies.
    client.ok("CONF.REALM DROP");
    eventually("all programs to be stopped", TIMEOUT, || {
        all[..5].iter().all(|e164| was_stopped(&server, e164) && state(&mut client, e164) == "ended")
    });
    no_internal_errors(&server);
}

#[test]
fn programs_go_on_and_ended_ones_stay_ended_when_an_older_file_is_loaded() {
    let server = RedisServer::start();
    let _system = system(&server);
    let mut client = Realm::of(&server);
    eventually("both units to be up", TIMEOUT, || client.stat("up") == 2);
    for e164 in ["1", "2", "3", "4"] {
        open(&server, &mut client, e164, "");
    }
    client.client.words("SAVE");
    open(&server, &mut client, "5", "");
    client.ok("CONF.MOVE 4");
    let first = pid(&server, "4");
    eventually("the conference to have moved", TIMEOUT, || {
        client.ok("CONF.INFO 4").field("moving_to").is_null() && pid(&server, "4") != first
    });
    client.ok("CONF.RELEASE 1");
    fs::write(server.dir().join("2.over"), "0\n").unwrap();
    eventually("two to have ended", TIMEOUT, || {
        ["1", "2"].map(|e164| client.place(e164).2) == ["ended", "ended"]
    });
    let all = ["1", "2", "3", "4", "5"];
    let before = all.map(|e164| pid(&server, e164));
    server.kill9();
    server.restart();
    let mut client = Realm::of(&server);
    let states = |client: &mut Realm| all.map(|e164| state(client, e164));
    let expected = ["ended", "ended", "open", "open", "open"];
    eventually("the units to have said what runs", TIMEOUT, || {
        states(&mut client) == expected && client.stat("up") == 2
    });
    // What the units did not say in their first reports would be recovered by now.
    open(&server, &mut client, "6", "");
    assert_eq!(states(&mut client), expected);
    assert_eq!(all.map(|e164| pid(&server, e164)), before, "a program was started again");
    assert!(!["3", "5"].iter().any(|e164| was_stopped(&server, e164)), "a program was stopped");
    assert_eq!(client.ok("CONF.LIST").array()[1].array().len(), 4);
    no_internal_errors(&server);
}

#[test]
fn unit_in_another_language_keeps_its_copies_and_ends_when_all_keys_are_deleted() {
    let server = RedisServer::start();
    let zookeeper = Ensemble::start();
    let _scheduler = alone(&server, "scheduler", "scheduler", &[]);
    let script = repository().join("tests/python/unit.py");
    let (redis, addresses) = (server.url(), zookeeper.address());
    let servers = ["--redis", &redis, "--zookeeper", &addresses, "--realm", REALM];
    let words = [&[script.to_str().unwrap(), "--host", "127.0.0.1/python"][..], &servers].concat();
    let unit = Process::other("python", python(), &words);
    unit.start();
    let mut client = Realm::of(&server);
    eventually("the unit to be up", TIMEOUT, || client.stat("up") == 1);
    client.begin("1", "SIZE 3 END 4000000000000 PRIORITY -1 REQUEST r");
    client.begin("2", "");
    eventually("both to be open", TIMEOUT, || client.stat("open") == 2);
    client.ok("CONF.EXTEND 1 END 4100000000000");
    client.ok("CONF.RELEASE 2");
    eventually("the second to have ended", TIMEOUT, || state(&mut client, "2") == "ended");
    client.client.words("FLUSHALL");
    eventually("the first to be open again", TIMEOUT, || state(&mut client, "1") == "open");
    let info = client.ok("CONF.INFO 1");
    assert_eq!((info.field("size").int(), info.field("end").int()), (3, 4_100_000_000_000));
    assert_eq!((info.field("priority").int(), info.field("request").text()), (-1, "r".into()));
    assert_eq!(state(&mut client, "2"), "ended");
    no_internal_errors(&server);
}
