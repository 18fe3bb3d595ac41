//! A bug of the module, at each place where it may strike: no half of a change stays, master and replica do not differ in
//! silence, and no file claims to be whole that is not.

use std::fs;
use std::time::Duration;

use allot_tests::pools::fill;
use allot_tests::redis_server::Builder;
use allot_tests::shows::{allot_info, create, hold, sample_venue, state_of, with_events};
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, Reply, eventually};

fn panicking() -> Builder {
    RedisServer::builder().panics().arg("appendonly", "yes").arg("appendfsync", "always")
}

/// A server with a show of ten seats and an event stream.
fn with_show(builder: Builder) -> RedisServer {
    let server = builder.start();
    create(&server, "show", &with_events(&sample_venue(2, 5), 50));
    server
}

/// Sends a command at which the server ends.
fn ends_at(server: &RedisServer, line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    server.raw().send(&words);
    server.wait_for_end();
    assert!(server.log().contains("a test asked for a panic"), "{}", server.log());
}

fn is_free(server: &RedisServer, seat: &str) -> bool {
    state_of(&mut server.raw(), "show", seat) == "free"
}

#[test]
fn panic_in_a_decision_is_an_error_and_changes_nothing() {
    let server = with_show(panicking());
    let before = server.digest();
    server.panic_at("decide");
    assert!(server.raw().words("SEAT.HOLD show ann 2 TTL 60000").error().starts_with("ERR internal error"));
    assert_eq!((server.digest(), allot_info(&server, "internal_errors")), (before, 1));
    server.panic_at("");
    hold(&mut server.raw(), "show", "ann", 2, 60_000, "t");
}

#[test]
fn panic_while_an_event_is_applied_ends_the_master_without_a_trace() {
    let server = with_show(panicking());
    let replica = RedisServer::strict().start();
    replica.replica_of(&server);
    for place in ["apply", "send"] {
        let before = server.digest();
        server.panic_at(place);
        ends_at(&server, "SEAT.HOLD show ann 2 TTL 60000 TOKEN t");
        server.panic_at("");
        assert!(is_free(&replica, "a-1-1"), "{place}");
        server.restart();
        assert_eq!(server.digest(), before, "{place}");
        replica.wait_replica_synced();
    }
}

#[test]
fn panic_while_the_clock_of_a_value_is_set_back_ends_the_master() {
    let server = with_show(panicking().own_clock());
    server.shift_clock(3600);
    hold(&mut server.raw(), "show", "ann", 2, 60_000, "t");
    server.shift_clock(0);
    server.panic_at("clock");
    ends_at(&server, "ALLOT.CLOCK show RESET");
    server.panic_at("");
    server.restart();
    assert!(server.raw().words("ALLOT.CLOCK show").field("ahead").int() > 3_000_000);
}

#[test]
fn panic_on_a_replica_ends_it_and_a_restart_brings_it_into_step() {
    let master = RedisServer::start();
    create(&master, "show", &sample_venue(2, 5));
    let replica = RedisServer::builder().panics().start();
    replica.replica_of(&master);
    for place in ["replicated", "store"] {
        replica.panic_at(place);
        match place {
            "store" => create(&master, "second", &sample_venue(1, 5)),
            _ => _ = hold(&mut master.raw(), "show", "ann", 2, 60_000, "t"),
        }
        replica.wait_for_end();
        replica.panic_at("");
        replica.restart();
        replica.replica_of(&master);
        assert_eq!(replica.digest(), master.digest(), "{place}");
    }
}

#[test]
fn panic_while_a_file_is_loaded_keeps_the_server_from_starting() {
    let server = with_show(panicking());
    hold(&mut server.raw(), "show", "ann", 2, 60_000, "t");
    let before = server.digest();
    server.kill9();
    server.panic_at("replicated");
    assert!(server.try_restart().is_err(), "a server has started with half of a file");
    server.panic_at("");
    server.restart();
    assert_eq!(server.digest(), before);
    let server = with_show(RedisServer::builder().panics());
    let before = server.digest();
    server.command("SAVE");
    server.kill9();
    server.panic_at("load");
    assert!(server.try_restart().is_err(), "a server has started with half of a file");
    server.panic_at("");
    server.restart();
    assert_eq!(server.digest(), before);
}

#[test]
fn panic_of_the_timer_is_tried_again() {
    let server = with_show(panicking());
    server.panic_at("tick");
    hold(&mut server.raw(), "show", "ann", 2, 50, "t");
    eventually("the timer to panic twice", TIMEOUT, || allot_info(&server, "internal_errors") >= 2);
    assert_eq!(allot_info(&server, "seat_expired"), 0);
    server.panic_at("");
    eventually("the hold to expire", TIMEOUT, || allot_info(&server, "seat_expired") == 1);
    // After the first event the process must end.
    hold(&mut server.raw(), "show", "ann", 2, 500, "t");
    server.panic_at("apply");
    server.wait_for_end();
}

#[test]
fn panic_in_a_save_leaves_no_file_that_claims_to_be_whole() {
    let server = with_show(RedisServer::builder().panics());
    let file = server.dir().join("dump.rdb");
    server.panic_at("save");
    server.command("BGSAVE");
    let is_failed = || server.info_field("persistence", "rdb_last_bgsave_status") == "err";
    eventually("the save to fail", TIMEOUT, is_failed);
    assert!(!file.exists());
    let Reply::Bulk(dump) = server.raw().call(&["DUMP", "show"]) else { panic!("no dump") };
    server.panic_at("");
    let refused = server.raw().call(&[&b"RESTORE"[..], b"copy", b"0", &dump]);
    assert!(refused.error().contains("Bad data"), "{refused:?}");
    server.command("SAVE");
    let whole = fs::read(&file).expect("the file was saved");
    hold(&mut server.raw(), "show", "ann", 2, 60_000, "t");
    server.panic_at("save");
    ends_at(&server, "SAVE");
    assert_eq!(fs::read(&file).expect("the file is still there"), whole);
    server.panic_at("");
    server.restart();
    assert!(is_free(&server, "a-1-1"));
}

#[test]
fn panic_in_a_transfer_gives_the_replica_no_half_of_the_data() {
    let server = with_show(RedisServer::builder().panics());
    let replica = RedisServer::start();
    server.panic_at("save");
    replica.command(&format!("REPLICAOF 127.0.0.1 {}", server.port()));
    eventually("the transfer to fail", TIMEOUT, || server.log().contains("the file is given up"));
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(replica.info_field("replication", "master_link_status"), "down");
    server.panic_at("");
    replica.wait_replica_synced();
    assert_eq!(server.digest(), replica.digest());
}

#[test]
fn panic_in_a_rewrite_keeps_the_file_before_it() {
    let server = with_show(panicking().arg("aof-use-rdb-preamble", "no"));
    hold(&mut server.raw(), "show", "ann", 2, 60_000, "t");
    let before = server.digest();
    server.panic_at("rewrite");
    server.command("BGREWRITEAOF");
    let is_failed = || server.info_field("persistence", "aof_last_bgrewrite_status") == "err";
    eventually("the rewrite to fail", TIMEOUT, is_failed);
    server.kill9();
    server.panic_at("");
    server.restart();
    assert_eq!(server.digest(), before);
}

#[test]
fn panic_in_a_creation_leaves_no_key() {
    let server = panicking().start();
    let replica = RedisServer::strict().start();
    replica.replica_of(&server);
    server.panic_at("create");
    let plan = sample_venue(2, 5);
    assert!(server.raw().call(&["SEAT.CREATE", "show", &plan]).error().starts_with("ERR internal error"));
    assert_eq!(server.raw().words("EXISTS show").int(), 0);
    server.panic_at("store");
    let mut client = server.raw();
    client.send(&["SEAT.CREATE", "show", &plan]);
    server.wait_for_end();
    server.panic_at("");
    server.restart();
    replica.wait_replica_synced();
    assert_eq!(server.digest(), replica.digest());
    fill(&mut server.raw(), "pool", 3);
}
