//! Calls whose number cannot be chosen in one step, on live servers: they are answered when the timer has done the work,
//! and other clients are served meanwhile.

use allot_tests::pools::{fill, number, pool_info};
use allot_tests::shows::no_internal_errors;
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, Reply, eventually};

/// So many numbers that the timer works on their order for a while.
const NUMBERS: usize = 400_000;

/// A pool whose first numbers were called once.
fn server_with_pool() -> RedisServer {
    let server = RedisServer::strict().start();
    let mut client = server.raw();
    fill(&mut client, "pool", NUMBERS);
    // They join the queue again, behind all others.
    for place in 0..3 {
        assert!(!client.call(&["NUMPOOL.CALL", "pool", &number(place)]).is_null());
        assert_eq!(client.call(&["NUMPOOL.HANGUP", "pool", &number(place)]).int(), 1);
    }
    server
}

#[test]
fn call_gets_its_number_when_the_order_is_made() {
    let (server, replica) = (server_with_pool(), RedisServer::strict().start());
    replica.replica_of(&server);
    let (mut client, mut waiting, mut other) = (server.raw(), server.raw(), server.raw());
    for token in ["a", "b", "a"] {
        client.send(&["NUMPOOL.CALL", "pool", "PICK", "LEASTUSED", "LEASE", token]);
    }
    client.send(&["NUMPOOL.CALL", "pool", "PREFIX", "139"]);
    let options = ["PREFIX", "1380000000", "PICK", "STICKY", "PEER", "bob", "WAIT", "60000", "LEASE", "w"];
    waiting.send(&[&["NUMPOOL.CALL", "pool"][..], &options[..]].concat());
    let plain = other.words("NUMPOOL.CALL pool LEASE plain").field("number").text();
    let [first, second, again] = std::array::from_fn(|_| client.read().field("number").text());
    assert!(client.read().is_null(), "no number begins with 139");
    let sticky = waiting.read().field("number").text();
    assert_eq!(again, first);
    let mut called = [plain, first, second, sticky];
    called.sort();
    assert_eq!(called.as_slice(), &(3..7).map(number).collect::<Vec<_>>()[..], "the longest waiting");
    assert_eq!(pool_info(&mut other, "pool", "leases"), 4);
    server.wait_offset_equal(&replica);
    assert_eq!(replica.digest(), server.digest());
    assert_eq!(server.command("ALLOT.CHECK pool"), redis::Value::Okay);
    no_internal_errors(&server);
}

#[test]
fn transactions_and_scripts_are_answered_at_once() {
    let server = server_with_pool();
    let mut client = server.raw();
    client.words("MULTI");
    client.words("NUMPOOL.CALL pool PICK LEASTUSED WAIT 1000");
    client.words("NUMPOOL.CALL pool PREFIX 1380000000 PICK STICKY");
    let replies = client.words("EXEC");
    let numbers: Vec<String> = replies.array().iter().map(|reply| reply.field("number").text()).collect();
    assert_eq!(numbers, [number(3), number(4)]);
    client.words("DEL pool");
    fill(&mut client, "pool", 20_000);
    let script = "return redis.call('NUMPOOL.CALL', 'pool', 'PICK', 'LEASTUSED')[2]";
    assert_eq!(client.call(&["EVAL", script, "1", "pool"]).text(), number(0));
    no_internal_errors(&server);
}

#[test]
fn client_that_leaves_leaves_no_lease_and_one_whose_key_goes_is_told() {
    let server = server_with_pool();
    let (mut gone, mut control) = (server.raw(), server.raw());
    gone.send(&["NUMPOOL.CALL", "pool", "PICK", "LEASTUSED", "LEASE", "gone"]);
    drop(gone);
    let last = control.words("NUMPOOL.CALL pool PICK LEASTUSED LEASE last").field("number").text();
    assert!(last == number(3) || last == number(4), "{last}");
    eventually("the lease of the client that left to be taken back", TIMEOUT, || {
        pool_info(&mut control, "pool", "leases") == 1
    });

    // The key goes before the order is made, unless the machine is too slow to ask for it in time.
    eventually("a client to be told that its key is gone", TIMEOUT, || {
        control.words("DEL pool");
        fill(&mut control, "pool", NUMBERS);
        let mut client = server.raw();
        client.send(&["NUMPOOL.CALL", "pool", "PREFIX", "138"]);
        control.words("RENAME pool other");
        let reply = client.read();
        assert_eq!(client.words("PING"), Reply::Simple("PONG".into()));
        let told = matches!(&reply, Reply::Error(line) if line.starts_with("UNBLOCKED "));
        // The order is still made, for the next call.
        assert!(!control.words("NUMPOOL.CALL other PREFIX 138").is_null());
        told
    });
    no_internal_errors(&server);
}
