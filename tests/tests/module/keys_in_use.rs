//! A key that is deleted with seats, leases, conferences or logins in use leaves an entry in its event stream, and is
//! counted.

use std::thread;
use std::time::Duration;

use allot_tests::raw::RawClient;
use allot_tests::shows::{allot_info, no_internal_errors};
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, Reply, eventually};

const PLAN: &str =
    r#"{"events":100,"areas":[{"id":"a","rows":[{"label":"1","rank":1,"tier":"t","seats":"1-9"}]}]}"#;

/// For each family: what creates a key `{k}` with a stream, and what then gives something out.
const FAMILIES: [(&[&str], &str); 4] = [
    (&[], "SEAT.HOLD {k} ann 2 TTL 600000 TOKEN t"),
    (
        &["NUMPOOL.CONFIG {k} EVENTS 9", "NUMPOOL.ADD {k} 1001 1002", "NUMPOOL.REG {k} 1001 1002"],
        "NUMPOOL.CALL {k} LEASE c",
    ),
    (&["CONF.REALM {k}", "CMU.JOIN {k} u:1:1 CAPACITY 100 LEASE 3600000"], "CONF.CREATE {k} 7"),
    (
        &[
            "ACCOUNT.BOOK {k} EVENTS 9",
            "ACCOUNT.MODULE {k} m DEPARTMENT d INSTANCES 1",
            "ACCOUNT.ADD {k} m QUOTA 100 ACCOUNTS 1 a1",
            "ACCOUNT.ATTACH {k} m i:1",
        ],
        "ACCOUNT.LOGIN {k} a1 i:1 t TTL 600000",
    ),
];

fn prepare(client: &mut RawClient, setup: &[&str]) {
    client.words("FLUSHALL");
    if setup.is_empty() {
        assert_eq!(client.call(&["SEAT.CREATE", "{k}", PLAN]), Reply::Simple("OK".into()));
    }
    for line in setup {
        let reply = client.words(line);
        assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
    }
}

/// The last entry of a stream: its event, and how much was in use.
fn last(client: &mut RawClient) -> Option<(String, String)> {
    let entries = client.words("XREVRANGE {k}:evt + - COUNT 1");
    let fields = entries.array().first()?.array()[1].array().to_vec();
    let field = |name: &str| fields.chunks(2).find(|pair| pair[0].text() == name).map(|pair| pair[1].text());
    Some((field("event")?, field("in-use").unwrap_or_default()))
}

fn lost(server: &RedisServer) -> (i64, i64) {
    (allot_info(server, "keys_deleted_in_use"), allot_info(server, "keys_dropped_in_use"))
}

#[test]
fn keys_that_are_deleted_in_use_leave_an_entry_and_are_counted() {
    let master = RedisServer::start();
    let replica = RedisServer::strict().start();
    replica.replica_of(&master);
    let mut client = master.raw();
    let mut expected = (0, 0);
    for (setup, gives) in FAMILIES {
        for (act, event) in [
            ("UNLINK {k}", "key-deleted"),
            ("SET {k} x", "key-overwritten"),
            ("PEXPIRE {k} 5", "key-expired"),
        ] {
            prepare(&mut client, setup);
            let given = client.words(gives);
            assert!(!matches!(given, Reply::Error(_)), "{gives}: {given:?}");
            client.words(act);
            let in_use = if gives.starts_with("SEAT") { "2" } else { "1" };
            let entry = Some((event.to_owned(), in_use.to_owned()));
            eventually(&format!("the entry {event} after {gives}"), TIMEOUT, || last(&mut client) == entry);
            if event == "key-expired" {
                expected.1 += 1;
            } else {
                expected.0 += 1;
            }
            assert_eq!(lost(&master), expected, "{act} after {gives}");
        }
        // Nothing is in use.
        prepare(&mut client, setup);
        client.words("UNLINK {k}");
        // The key has another name, and another place.
        prepare(&mut client, setup);
        client.words(gives);
        client.words("RENAME {k} {k}2");
        client.words("MOVE {k}2 1");
    }
    thread::sleep(Duration::from_millis(500));
    assert_eq!(lost(&master), expected);
    master.wait_offset_equal(&replica);
    assert_eq!(master.digest(), replica.digest());
    // A replica is told to delete a key that has expired.
    let all = |(deleted, dropped): (i64, i64)| deleted + dropped;
    assert_eq!(all(lost(&replica)), all(expected));
    no_internal_errors(&master);
    no_internal_errors(&replica);
}

#[test]
fn keys_that_are_evicted_in_use_are_counted() {
    let server = RedisServer::builder().arg("maxmemory-policy", "volatile-lru").expect_errors().start();
    let mut client = server.raw();
    let (setup, gives) = FAMILIES[0];
    prepare(&mut client, setup);
    client.words(gives);
    client.words("PEXPIRE {k} 600000");
    client.words("CONFIG SET maxmemory 1");
    client.words("SET other x");
    eventually("the entry", TIMEOUT, || last(&mut client) == Some(("key-evicted".into(), "2".into())));
    assert_eq!(lost(&server), (0, 1));
}

#[test]
fn a_restart_counts_no_key_again() {
    let server = RedisServer::builder().arg("appendonly", "yes").start();
    let mut client = server.raw();
    let (setup, gives) = FAMILIES[0];
    prepare(&mut client, setup);
    client.words(gives);
    client.words("UNLINK {k}");
    eventually("the entry", TIMEOUT, || last(&mut client).is_some_and(|entry| entry.0 == "key-deleted"));
    let entries = client.words("XLEN {k}:evt");
    server.shutdown();
    server.restart();
    let mut client = server.raw();
    thread::sleep(Duration::from_millis(500));
    assert_eq!(client.words("XLEN {k}:evt"), entries);
    assert_eq!(lost(&server), (0, 0));
}
