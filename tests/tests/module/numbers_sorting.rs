//! Calls whose number cannot be chosen in one step, on live servers: they wait until the timer has done the work, or are
//! to be sent again, and other clients are served meanwhile.

use allot_tests::pools::{fill, number, pool_info, state_of};
use allot_tests::raw::RawClient;
use allot_tests::shows::no_internal_errors;
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, Reply, eventually};

/// So many numbers that the timer works on their order for a while.
const NUMBERS: usize = 400_000;
/// More lapsed registrations than one step ends.
const LAPSED: usize = 50_000;

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
    let options =
        ["PREFIX", "1", "1380000000", "PICK", "STICKY", "PEER", "bob", "WAIT", "60000", "LEASE", "w"];
    waiting.send(&[&["NUMPOOL.CALL", "pool"][..], &options[..]].concat());
    client.send(&["NUMPOOL.CALL", "pool", "PICK", "LEASTUSED", "LEASE", "a"]);
    eventually("both calls to wait for the order", TIMEOUT, || pool_info(&mut other, "pool", "waiting") == 2);
    let plain = other.words("NUMPOOL.CALL pool LEASE plain").field("number").text();
    let first = client.read();
    let [second, again] = ["b", "a"].map(|token| {
        client.words(&format!("NUMPOOL.CALL pool PICK LEASTUSED LEASE {token}")).field("number").text()
    });
    assert!(client.words("NUMPOOL.CALL pool PREFIX 1 139").is_null(), "no number begins with 139");
    let (first, sticky) = (first.field("number").text(), waiting.read().field("number").text());
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

/// A call in a transaction, when the work is done that its choice needs; until then it is to be sent again.
fn called_in_transaction(client: &mut RawClient, call: &str) -> Reply {
    let mut refused = 0;
    let mut reply = Reply::Int(0);
    eventually("a call in a transaction to get a number", TIMEOUT, || {
        client.words("MULTI");
        client.words(call);
        reply = client.words("EXEC").array()[0].clone();
        let is_refused = matches!(reply, Reply::Error(_));
        if is_refused {
            let line = reply.error();
            assert!(line.starts_with("TRYAGAIN the index of the pool's free numbers"), "{line}");
            refused += 1;
        }
        !is_refused
    });
    assert!(refused > 0, "{call}");
    reply
}

#[test]
fn call_in_a_transaction_or_a_script_is_to_be_sent_again_until_the_order_is_made() {
    let server = server_with_pool();
    let mut client = server.raw();
    let used = called_in_transaction(&mut client, "NUMPOOL.CALL pool PICK LEASTUSED WAIT 1000 LEASE a");
    assert_eq!(used.field("number").text(), number(3));
    let sticky =
        called_in_transaction(&mut client, "NUMPOOL.CALL pool PREFIX 1 1380000000 PICK STICKY PEER bob");
    assert_eq!(sticky.field("number").text(), number(4));
    assert_eq!(pool_info(&mut client, "pool", "leases"), 2);
    client.words("DEL pool");
    fill(&mut client, "pool", 9000);
    let script = "return redis.call('NUMPOOL.CALL', 'pool', 'PICK', 'LEASTUSED')[2]";
    assert_eq!(
        client.call(&["EVAL", script, "1", "pool"]).text(),
        number(0),
        "a short order is made at once"
    );
    no_internal_errors(&server);
}

#[test]
fn call_does_not_end_thousands_of_lapsed_registrations_in_one_step() {
    let server = RedisServer::builder().module_arg("timer-slice 1").start();
    let [mut control, mut client, mut other, mut later] = std::array::from_fn(|_| server.raw());
    fill(&mut control, "pool", LAPSED);
    control.words("NUMPOOL.ADD pool 77");
    control.words("NUMPOOL.REG pool 77");
    // In one transaction, so that none lapses before the pause.
    control.words("MULTI");
    for first in (0..LAPSED).step_by(10_000) {
        let numbers: Vec<String> = (first..first + 10_000).map(number).collect();
        let numbers = numbers.iter().map(String::as_str);
        let register: Vec<&str> =
            ["NUMPOOL.REG", "pool"].into_iter().chain(numbers).chain(["TTL", "1"]).collect();
        control.call(&register);
    }
    control.words("CLIENT PAUSE 60000 WRITE");
    control.words("EXEC");
    let last = number(LAPSED - 1);
    eventually("the registrations to lapse", TIMEOUT, || {
        state_of(&mut control, "pool", &last) == "idle+down"
    });
    for words in ["MULTI", "NUMPOOL.CALL pool LEASE a", "EXEC"] {
        client.send(&words.split(' ').collect::<Vec<_>>());
    }
    other.send(&["NUMPOOL.CALL", "pool", "LEASE", "b", "WAIT", "60000"]);
    // Redis goes on with paused clients in their order.
    eventually("the call to be paused", TIMEOUT, || server.info_field("clients", "blocked_clients") == "2");
    later.send(&["NUMPOOL.CALL", "pool", "LEASE", "c"]);
    eventually("the later call to be paused", TIMEOUT, || {
        server.info_field("clients", "blocked_clients") == "3"
    });
    control.words("CLIENT UNPAUSE");
    assert_eq!(client.read(), Reply::Simple("OK".into()));
    assert_eq!(client.read(), Reply::Simple("QUEUED".into()));
    for refused in [&client.read().array()[0], &later.read()] {
        assert!(refused.error().starts_with("TRYAGAIN more than 1000 due changes are"), "{refused:?}");
    }
    assert!(later.until_decided("NUMPOOL.CALL pool LEASE c").0.is_null(), "a call that waits comes first");
    assert_eq!(other.read().field("number").text(), "77", "when the timer has ended them");
    assert_eq!(pool_info(&mut control, "pool", "leases"), 1);
    no_internal_errors(&server);
}

#[test]
fn client_that_leaves_leaves_no_lease_and_one_whose_key_goes_is_told() {
    let server = server_with_pool();
    let (mut gone, mut control) = (server.raw(), server.raw());
    gone.send(&["NUMPOOL.CALL", "pool", "PICK", "LEASTUSED", "LEASE", "gone", "WAIT", "60000"]);
    drop(gone);
    let (last, _) = control.until_decided("NUMPOOL.CALL pool PICK LEASTUSED LEASE last");
    let last = last.field("number").text();
    assert!(last == number(3) || last == number(4), "{last}");
    eventually("the lease of the client that left to be taken back", TIMEOUT, || {
        pool_info(&mut control, "pool", "leases") == 1
    });

    // The key goes before the order is made, unless the machine is too slow to ask for it in time.
    eventually("a client to be told that its key is gone", TIMEOUT, || {
        control.words("DEL pool");
        fill(&mut control, "pool", NUMBERS);
        let mut client = server.raw();
        client.send(&["NUMPOOL.CALL", "pool", "PREFIX", "1", "138", "WAIT", "60000"]);
        // Soon, unless it was answered before this is seen.
        let _ = (0..100).any(|_| server.info_field("clients", "blocked_clients") == "1");
        control.words("RENAME pool other");
        let reply = client.read();
        assert_eq!(client.words("PING"), Reply::Simple("PONG".into()));
        let told = matches!(&reply, Reply::Error(line) if line.starts_with("UNBLOCKED "));
        // The order is still made, for the next call.
        assert!(!control.until_decided("NUMPOOL.CALL other PREFIX 1 138").0.is_null());
        told
    });
    no_internal_errors(&server);
}

#[test]
fn call_that_came_first_is_answered_first_although_it_does_not_wait() {
    let server = server_with_pool();
    let (mut first, mut second, mut none) = (server.raw(), server.raw(), server.raw());
    let mut control = server.raw();
    control.words("NUMPOOL.ADD pool 99");
    control.words("NUMPOOL.REG pool 99");
    for (place, (client, line)) in [
        (&mut first, "NUMPOOL.CALL pool PREFIX 1 99 LEASE first"),
        (&mut second, "NUMPOOL.CALL pool PREFIX 1 99 LEASE second WAIT 60000"),
        (&mut none, "NUMPOOL.CALL pool PREFIX 1 99 LEASE third"),
    ]
    .into_iter()
    .enumerate()
    {
        client.send(&line.split(' ').collect::<Vec<_>>());
        // The order of so many numbers takes longer than these three calls.
        eventually("a call to wait", TIMEOUT, || pool_info(&mut control, "pool", "waiting") > place as i64);
    }
    assert_eq!(first.read().field("number").text(), "99");
    assert!(none.read().is_null());
    assert_eq!(control.words("NUMPOOL.HANGUP pool 99"), Reply::Int(1));
    assert_eq!(second.read().field("lease").text(), "second");
    no_internal_errors(&server);
}
