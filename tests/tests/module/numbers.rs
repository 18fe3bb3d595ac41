//! Number pools on live servers: what is published, deadlines that the timer keeps, and large pools.

use allot_tests::pools::{fill, number, pool_info, state_of};
use allot_tests::raw::RawClient;
use allot_tests::shows::{allot_info, clock, no_internal_errors};
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, Reply, eventually};

#[test]
fn a_refused_batch_makes_no_pool() {
    let server = RedisServer::start();
    let mut client = server.raw();
    for line in ["NUMPOOL.ADD pool 138 x", "NUMPOOL.ADD pool 138 13x", "NUMPOOL.CONFIG pool LEASE -1"] {
        assert!(client.words(line).error().starts_with("ERR "), "{line}");
    }
    assert_eq!(client.words("EXISTS pool"), Reply::Int(0));
    for line in ["NUMPOOL.CALL pool", "NUMPOOL.REG pool 138", "NUMPOOL.HANGUP pool 138", "NUMPOOL.INFO pool"]
    {
        assert!(client.words(line).error().starts_with("NOKEY "), "{line}");
    }
    client.words("SET text 1");
    for line in ["NUMPOOL.ADD text 138", "NUMPOOL.CONFIG text", "NUMPOOL.CALL text", "NUMPOOL.SCAN text 0"] {
        assert!(client.words(line).error().starts_with("WRONGTYPE "), "{line}");
    }
}

#[test]
fn scan_accepts_states_as_info_names_them() {
    let server = RedisServer::start();
    let mut client = server.raw();
    fill(&mut client, "pool", 2);
    client.words("NUMPOOL.CALL pool");
    for (state, expected) in [("idle+up", 1), ("IDLE_UP", 1), ("busy_up", 1), ("idle_down", 0)] {
        let scan = client.call(&["NUMPOOL.SCAN", "pool", "0", "STATE", state]);
        assert_eq!(scan.array()[1].array().len(), expected, "{state}");
    }
    let error = client.words("NUMPOOL.SCAN pool 0 STATE idle-up").error().to_owned();
    assert!(error.starts_with("ERR 'STATE'") && error.contains("idle+up"), "{error}");
}

/// What of the three kinds of deadline is late, in milliseconds; the machine may be busy, so it is enough that one
/// of many is on time: a timer that is late never is.
#[test]
fn leases_rests_and_registrations_end_on_time_without_any_call() {
    let server = RedisServer::start();
    let mut client = server.raw();
    fill(&mut client, "pool", 2);
    let mut late = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..20 {
        let call = client.words("NUMPOOL.CALL pool 13800000000 TTL 30");
        let until = call.field("until").int();
        eventually("the lease to end", TIMEOUT, || allot_info(&server, "numpool_expired") == round + 1);
        late[0].push(clock(&mut client) - until);

        client.words("NUMPOOL.CALL pool 13800000000");
        let now = clock(&mut client);
        client.words("NUMPOOL.HANGUP pool 13800000000 COOLDOWN 30");
        // Totals are changed by the timer alone. The record says when the rest ends, but no longer when it has ended.
        eventually("the rest to end", TIMEOUT, || pool_info(&mut client, "pool", "cooling") == 0);
        late[1].push(clock(&mut client) - now - 30);

        let now = clock(&mut client);
        client.words("NUMPOOL.REG pool 13800000001 TTL 30");
        eventually("the registration to lapse", TIMEOUT, || {
            allot_info(&server, "numpool_lapsed") == round + 1
        });
        late[2].push(clock(&mut client) - now - 30);
    }
    for late in &late {
        assert!(late.iter().any(|&late| late <= 100), "all were late: {late:?}");
        assert!(late.iter().all(|&late| late >= 0), "one was early: {late:?}");
    }
    no_internal_errors(&server);
}

#[test]
fn nothing_ends_by_itself_on_a_replica_but_reads_know_the_time() {
    let (master, replica) = (RedisServer::start(), RedisServer::strict().start());
    replica.replica_of(&master);
    fill(&mut master.raw(), "pool", 3);
    let mut client = replica.raw();
    // On a slow machine the lease may end before its master stands still; then a longer one is tried.
    let mut ttl = 400;
    let until = loop {
        master.raw().words("NUMPOOL.HANGUP pool 13800000000");
        let call = master.raw().words(&format!("NUMPOOL.CALL pool 13800000000 TTL {ttl}"));
        master.wait_offset_equal(&replica);
        master.pause();
        // With this answer all is heard that the master said before.
        client.words("PING");
        if state_of(&mut client, "pool", "13800000000") == "busy+up" {
            break call.field("until").int();
        }
        master.resume();
        ttl *= 2;
    };
    eventually("the deadline to pass", TIMEOUT, || clock(&mut client) > until + 300);
    assert_eq!(state_of(&mut client, "pool", "13800000000"), "busy+up", "before its master says so");
    assert_eq!(replica.command("REPLICAOF NO ONE"), redis::Value::Okay);
    eventually("the promoted replica to end it", TIMEOUT, || pool_info(&mut client, "pool", "leases") == 0);
    assert_eq!(state_of(&mut client, "pool", "13800000000"), "idle+up");
    master.resume();
}

#[test]
fn the_event_stream_tells_whose_call_it_was() {
    let server = RedisServer::start();
    let mut client = server.raw();
    for line in [
        "NUMPOOL.CONFIG {p} EVENTS 100 COOLDOWN 60000",
        "NUMPOOL.ADD {p} 1 2",
        "NUMPOOL.REG {p} 1 2 SWITCH sw",
        "NUMPOOL.CALL {p} LEASE a PEER bob",
        "NUMPOOL.DEL {p} 2",
        "NUMPOOL.HANGUP {p} 1 LEASE a",
        "NUMPOOL.UNREG {p} SWITCH sw",
    ] {
        assert!(!matches!(client.words(line), Reply::Error(_)), "{line}");
    }
    let entries = client.words("XRANGE {p}:evt - +");
    let told: Vec<String> = entries
        .array()
        .iter()
        .map(|entry| entry.array()[1].array().iter().map(Reply::text).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(told[0], "event created");
    assert_eq!(told[1], r#"event added numbers ["1","2"]"#);
    assert_eq!(told[2], r#"event registered numbers ["1","2"] switch sw"#);
    assert_eq!(told[3], "event called number 1 lease a switch sw peer bob");
    assert_eq!(told[4], r#"event deleted numbers ["2"]"#);
    assert!(
        told[5].starts_with("event hungup number 1 lease a switch sw peer bob cool_until "),
        "{}",
        told[5]
    );
    assert_eq!(told[6], r#"event unregistered numbers ["1"] switch sw"#);
    assert_eq!(told.len(), 7);
}

#[test]
fn a_step_of_thousands_of_messages_loses_none_of_them() {
    let (server, replica) = (RedisServer::start(), RedisServer::strict().start());
    replica.replica_of(&server);
    let mut client = server.raw();
    fill(&mut client, "{p}", 2000);
    for _ in 0..2000 {
        assert!(!client.words("NUMPOOL.CALL {p} SWITCH sw").is_null());
    }
    client.words("NUMPOOL.CONFIG {p} EVENTS 10000");
    client.words("DEL {p}:evt");
    assert_eq!(client.words("NUMPOOL.RECONCILE {p} SWITCH sw").field("freed"), Reply::Int(2000));
    eventually("all messages to be sent", TIMEOUT, || client.words("XLEN {p}:evt") == Reply::Int(2000));
    // In any order, and with a stream that cannot be written.
    client.words("SET {p}:evt in-the-way");
    client.words("NUMPOOL.REG {p} 13800000007 SWITCH other");
    client.words("NUMPOOL.REG {p} 13800000003 SWITCH other");
    assert_eq!(client.words("NUMPOOL.UNREG {p} SWITCH other"), Reply::Int(2));
    server.wait_offset_equal(&replica);
    assert_eq!(replica.digest(), server.digest());
    assert_eq!(server.command("DEBUG RELOAD"), redis::Value::Okay);
    assert_eq!(client.words("NUMPOOL.UNREG {p} SWITCH sw0"), Reply::Int(1998));
    server.wait_offset_equal(&replica);
    assert_eq!(replica.digest(), server.digest());
    no_internal_errors(&server);
}

#[test]
fn peers_see_their_last_number_again_after_a_reload_and_a_failover() {
    let (server, replica) = (RedisServer::start(), RedisServer::strict().start());
    replica.replica_of(&server);
    let mut client = server.raw();
    fill(&mut client, "pool", 3);
    client.words("NUMPOOL.CONFIG pool PICK STICKY PEERS 3");
    let call = |client: &mut RawClient, peer: &str| {
        let number = client.words(&format!("NUMPOOL.CALL pool PEER {peer}")).field("number").text();
        assert_eq!(client.words(&format!("NUMPOOL.HANGUP pool {number}")), Reply::Int(1));
        number
    };
    let first = ["ann", "bob", "cid"].map(|peer| call(&mut client, peer));
    assert_eq!(first, [number(0), number(1), number(2)]);
    // The call of eve, who takes the longest waiting number, has the pool forget ann.
    assert_eq!(["cid", "bob", "eve"].map(|peer| call(&mut client, peer)), [number(2), number(1), number(0)]);
    assert_eq!(pool_info(&mut client, "pool", "known_peers"), 3);
    let digest = server.digest_value("pool");
    assert_eq!(server.command("DEBUG RELOAD"), redis::Value::Okay);
    assert_eq!(server.digest_value("pool"), digest);
    server.wait_offset_equal(&replica);
    assert_eq!(replica.digest(), server.digest());
    assert_eq!(replica.command("REPLICAOF NO ONE"), redis::Value::Okay);
    for server in [&server, &replica] {
        let mut client = server.raw();
        let again = ["eve", "bob", "cid", "bob"].map(|peer| call(&mut client, peer));
        assert_eq!(again, [number(0), number(1), number(2), number(1)]);
        assert_eq!(client.words("NUMPOOL.CONFIG pool PEERS 0"), Reply::Simple("OK".into()));
        assert_eq!(pool_info(&mut client, "pool", "known_peers"), 0);
        for line in ["NUMPOOL.CONFIG pool PEERS 10000001", "NUMPOOL.CONFIG pool PEERS -1"] {
            assert!(
                client.words(line).error().starts_with("ERR PEERS must be 0 to 10000000, not "),
                "{line}"
            );
        }
        no_internal_errors(server);
    }
}

#[test]
fn a_million_numbers_load_and_reload_in_seconds_at_64_bytes_each() {
    let server = RedisServer::builder().arg("save", "").start();
    let mut client = server.raw();
    let count = 1_000_000;
    client.words("NUMPOOL.CONFIG pool REGTTL 36000000");
    fill(&mut client, "pool", count);
    let usage = client.words("MEMORY USAGE pool").int();
    assert!(usage <= 64 * count as i64, "{} bytes a number", usage as f64 / count as f64);
    let digest = server.digest();
    assert_eq!(server.command("DEBUG RELOAD"), redis::Value::Okay);
    assert_eq!(server.digest(), digest);
    assert_eq!(pool_info(&mut client, "pool", "idle_up"), count as i64);
}
