//! Number pools on live servers: what is replicated, kept and published, deadlines with nobody calling, and what
//! becomes of damaged payloads.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test reports what is wrong by failing"
)]

use allot_core::numpool::{Event, Pool};
use allot_core::shared::codec::Reader;
use allot_core::shared::machine::MachineEvent;
use allot_tests::pools::{PoolStorm, fill, number, pool_info, state_of};
use allot_tests::raw::RawClient;
use allot_tests::shows::{allot_info, clock, no_internal_errors};
use allot_tests::stream::readable;
use allot_tests::wait::GENEROUS;
use allot_tests::{RedisServer, ReplicationStream, Reply, eventually, soak};

fn ok() -> Reply {
    Reply::Simple("OK".into())
}

/// Waits until nothing more happens by itself: long leases are left, and registrations that never lapse.
fn settled(server: &RedisServer) {
    eventually("short deadlines to pass", GENEROUS, || {
        let digest = || {
            std::thread::sleep(std::time::Duration::from_millis(100));
            server.digest()
        };
        // A server that was kept waiting answers once more before its timer comes.
        let first = digest();
        first == digest() && first == digest()
    });
}

#[test]
fn the_events_alone_make_the_very_pool_that_the_master_has() {
    let server = RedisServer::builder().arg("rdbcompression", "no").start();
    let mut stream = ReplicationStream::attach(&server);
    PoolStorm::new(server.raw(), "pool", 41).run(soak(3000, 50_000));
    server.raw().words("NUMPOOL.CONFIG pool COOLDOWN 3");
    settled(&server);
    let commands = stream.drain();
    let (mut pool, mut last, mut events) = (None::<Pool>, 0, 0);
    for command in &commands {
        if matches!(&command[0][..], b"MULTI" | b"EXEC") {
            continue;
        }
        let line = readable(std::slice::from_ref(command));
        assert_eq!((&command[0][..], &command[1][..]), (&b"NUMPOOL.APPLY"[..], &b"pool"[..]), "{line}");
        let mut reader = Reader::new(&command[2]);
        assert_eq!(reader.unsigned(), Ok(1));
        let at = reader.time().unwrap();
        assert!(at >= last, "time went back");
        last = at;
        for event in Event::decode_all(reader.rest()).unwrap() {
            events += 1;
            match &mut pool {
                None => pool = Some(Pool::open(&event, at).expect("the first event makes the pool")),
                Some(pool) => {
                    pool.admits(&event).unwrap_or_else(|damaged| panic!("{damaged}: {event:?}"));
                    pool.apply(at, &event);
                }
            }
        }
    }
    assert!(events > 500, "little happened: {events} events");
    let Reply::Bulk(dump) = server.raw().words("DUMP pool") else { panic!("no dump") };
    let bytes = pool.unwrap().encode();
    assert!(dump.windows(bytes.len()).any(|part| part == bytes), "the events make another pool");
    no_internal_errors(&server);
}

#[test]
fn a_request_that_changes_nothing_replicates_nothing_and_breaks_no_watch() {
    let server = RedisServer::start();
    let mut client = server.raw();
    fill(&mut client, "pool", 3);
    client.words("NUMPOOL.CALL pool 13800000000 LEASE mine TTL 60000");
    let mut stream = ReplicationStream::attach(&server);
    let lines = [
        "NUMPOOL.ADD pool 13800000000",
        "NUMPOOL.DEL pool 999",
        "NUMPOOL.REG pool 13800000001 SWITCH sw0",
        "NUMPOOL.REG pool 13800000001 999",
        "NUMPOOL.UNREG pool SWITCH nobody",
        "NUMPOOL.UNREG pool 999",
        "NUMPOOL.CALL pool LEASE mine",
        "NUMPOOL.CALL pool 13800000000",
        "NUMPOOL.CALL pool PREFIX 999",
        "NUMPOOL.HANGUP pool 13800000001",
        "NUMPOOL.HANGUP pool 13800000000 LEASE other",
        "NUMPOOL.RENEW pool 13800000000 LEASE other TTL 10",
        "NUMPOOL.RECONCILE pool SWITCH sw0 LEASE mine",
        "NUMPOOL.CONFIG pool",
        "NUMPOOL.GET pool 13800000000",
        "NUMPOOL.INFO pool",
        "NUMPOOL.SCAN pool 0",
        "NUMPOOL.LEASES pool",
        "NUMPOOL.ADD pool 13800000000 x",
        "NUMPOOL.CALL pool TTL 0",
    ];
    for line in lines {
        let mut watcher = server.raw();
        assert_eq!(watcher.words("WATCH pool"), ok());
        client.words(line);
        watcher.words("MULTI");
        watcher.words("PING");
        assert!(matches!(watcher.words("EXEC"), Reply::Array(_)), "{line} broke a WATCH");
    }
    assert_eq!(readable(&stream.drain()), "");
    let mut watcher = server.raw();
    watcher.words("WATCH pool");
    assert_eq!(client.words("NUMPOOL.HANGUP pool 13800000000"), Reply::Int(1));
    watcher.words("MULTI");
    watcher.words("PING");
    assert!(watcher.words("EXEC").is_null());
}

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
fn replicas_and_restarted_servers_hold_what_their_master_holds() {
    let aof = |rdb| RedisServer::builder().arg("appendonly", "yes").arg("aof-use-rdb-preamble", rdb).start();
    let (master, replica) = (aof("no"), RedisServer::strict().start());
    replica.replica_of(&master);
    let mut storm = PoolStorm::new(master.raw(), "pool", 42);
    for _ in 0..soak(3, 20) {
        storm.run(1000);
        settled(&master);
        master.wait_offset_equal(&replica);
        let digest = master.digest();
        assert_eq!(replica.digest(), digest, "the replica differs");
        assert_eq!(master.command("DEBUG RELOAD"), redis::Value::Okay);
        assert_eq!(master.digest(), digest, "the reloaded server differs");
        assert_eq!(master.command("DEBUG LOADAOF"), redis::Value::Okay);
        assert_eq!(master.digest(), digest, "the append-only file makes another pool");
        master.command("BGREWRITEAOF");
        eventually("the rewrite", GENEROUS, || {
            master.info_field("persistence", "aof_rewrite_in_progress") == "0"
        });
        assert_eq!(master.command("DEBUG LOADAOF"), redis::Value::Okay);
        assert_eq!(master.digest(), digest, "the rewritten file makes another pool");
    }
    assert_eq!(replica.info_field("stats", "unexpected_error_replies"), "0", "{}", replica.log());
    no_internal_errors(&master);
    no_internal_errors(&replica);
}

#[test]
fn a_kill_under_fsync_always_keeps_all_that_was_answered() {
    let server = RedisServer::builder().arg("appendonly", "yes").arg("appendfsync", "always").start();
    let mut client = server.raw();
    fill(&mut client, "quiet", 10);
    let mut tokens = Vec::new();
    for round in 0..soak(5, 50) {
        PoolStorm::new(server.raw(), "pool", round as u64).run(100);
        let token = format!("round-{round}");
        let call = server.raw().call(&["NUMPOOL.CALL", "quiet", "LEASE", &token, "TTL", "600000"]);
        if !call.is_null() {
            tokens.push((token, call));
        }
        server.kill9();
        server.restart();
        for (token, call) in &tokens {
            assert_eq!(server.raw().call(&["NUMPOOL.CALL", "quiet", "LEASE", token]), *call, "asked again");
        }
    }
    no_internal_errors(&server);
}

/// What of the three kinds of deadline is late, in milliseconds; the machine may be busy, so it is enough that one
/// of many is on time: a timer that is late never is.
#[test]
fn leases_cool_downs_and_registrations_end_within_a_tenth_of_a_second_with_nobody_calling() {
    let server = RedisServer::start();
    let mut client = server.raw();
    fill(&mut client, "pool", 2);
    let mut late = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..20 {
        let call = client.words("NUMPOOL.CALL pool 13800000000 TTL 30");
        let until = call.field("until").int();
        eventually("the lease to end", GENEROUS, || allot_info(&server, "numpool_expired") == round + 1);
        late[0].push(clock(&mut client) - until);

        client.words("NUMPOOL.CALL pool 13800000000");
        let now = clock(&mut client);
        client.words("NUMPOOL.HANGUP pool 13800000000 COOLDOWN 30");
        // Totals are changed by the timer alone. The record says when the rest ends, but no longer when it has ended.
        eventually("the rest to end", GENEROUS, || pool_info(&mut client, "pool", "cooling") == 0);
        late[1].push(clock(&mut client) - now - 30);

        let now = clock(&mut client);
        client.words("NUMPOOL.REG pool 13800000001 TTL 30");
        eventually("the registration to lapse", GENEROUS, || {
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
    eventually("the deadline to pass", GENEROUS, || clock(&mut client) > until + 300);
    assert_eq!(state_of(&mut client, "pool", "13800000000"), "busy+up", "before its master says so");
    assert_eq!(replica.command("REPLICAOF NO ONE"), redis::Value::Okay);
    eventually("the promoted replica to end it", GENEROUS, || pool_info(&mut client, "pool", "leases") == 0);
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
    assert_eq!(client.words("XLEN {p}:evt"), Reply::Int(2000));
    // In whatever order they came, and with a stream that cannot be written.
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

/// A value that was let in must work like any other.
fn must_work(client: &mut RawClient) {
    let total = pool_info(client, "x", "total");
    let scanned = client.words("NUMPOOL.SCAN x 0 COUNT 100000").array()[1].array().len() as i64;
    assert!(scanned <= total);
    client.words("NUMPOOL.CALL x LEASE mine TTL 60000");
    client.words("NUMPOOL.CALL x PREFIX 138 PICK STICKY PEER bob");
    client.words("NUMPOOL.ADD x 424242");
    assert!(!state_of(client, "x", "424242").is_empty());
    let numbers: Vec<String> =
        client.words("NUMPOOL.SCAN x 0 COUNT 100000").array()[1].array().iter().map(Reply::text).collect();
    let mut del = vec!["NUMPOOL.DEL", "x"];
    del.extend(numbers.iter().map(String::as_str));
    assert_eq!(client.call(&del), Reply::Int(numbers.len() as i64));
    assert_eq!(pool_info(client, "x", "leases"), pool_info(client, "x", "total"));
    client.words("DEL x");
}

#[test]
fn a_damaged_payload_under_a_right_checksum_is_refused_or_works() {
    let server = RedisServer::builder().arg("rdbcompression", "no").start();
    let mut client = server.raw();
    PoolStorm::new(server.raw(), "pool", 43).run(500);
    client.words("NUMPOOL.ADD pool +4912345678901234567890");
    client.words("NUMPOOL.CONFIG pool EVENTS 5 COOLDOWN 100000");
    client.words("SET pool:evt 1");
    client.words("NUMPOOL.CALL pool LEASE long TTL 100000 PEER bob");
    let dump = allot_tests::damage::Dump::of(&mut client, "pool");
    let mut random = allot_tests::Random::new(44);
    let (mut let_in, mut refused) = (0, 0);
    for _ in 0..soak(30_000, 500_000) {
        let mut value = dump.value.clone();
        allot_tests::damage::mutate(&mut random, &mut value);
        match client.call(&[&b"RESTORE"[..], b"x", b"0", &dump.with(&value)]) {
            Reply::Simple(_) => {
                let_in += 1;
                must_work(&mut client);
            }
            Reply::Error(text) => {
                refused += 1;
                assert!(text.starts_with("ERR Bad data format") || text.starts_with("BUSYKEY"), "{text}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(let_in > 100 && refused > 100, "{let_in} let in, {refused} refused");
    assert_eq!(state_of(&mut client, "pool", &number(99)), "nodata");
    no_internal_errors(&server);
}
