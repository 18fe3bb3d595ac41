//! `NUMPOOL.RECONCILE` of many leases and `NUMPOOL.UNREG` of many numbers, on live servers: they go on in slices, and the
//! client waits for the outcome.

use allot_tests::pools::{fill, number, pool_info, state_of};
use allot_tests::raw::RawClient;
use allot_tests::shows::no_internal_errors;
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, Reply, eventually};

/// More leases than one step ends.
const LEASES: usize = 30_000;

/// A server whose timer ends few calls at once, with a pool whose numbers all carry calls of the switch `sw`.
fn server_with_calls(key: &str) -> RedisServer {
    let server = RedisServer::builder().module_arg("timer-slice 1").start();
    let mut client = server.raw();
    calls(&mut client, key);
    server
}

fn calls(client: &mut RawClient, key: &str) {
    fill(client, key, LEASES);
    let call = ["NUMPOOL.CALL", key, "SWITCH", "sw"];
    for _ in 0..LEASES / 1000 {
        (0..1000).for_each(|_| client.send(&call));
        (0..1000).for_each(|_| assert!(!client.read().is_null()));
    }
}

fn outcome(reply: &Reply) -> (i64, i64) {
    (reply.field("kept").int(), reply.field("freed").int())
}

#[test]
fn other_clients_are_served_between_the_slices() {
    let (server, replica) = (server_with_calls("pool"), RedisServer::strict().start());
    replica.replica_of(&server);
    let (mut client, mut other) = (server.raw(), server.raw());
    let listed = other.words("NUMPOOL.LEASES pool COUNT 1").array()[1].array()[0].field("token").text();
    client.send(&["NUMPOOL.RECONCILE", "pool", "SWITCH", "sw", "LEASE", &listed, "x"]);
    eventually("the first calls to end", TIMEOUT, || pool_info(&mut other, "pool", "leases") < LEASES as i64);
    assert!(pool_info(&mut other, "pool", "leases") > 1, "it was done at once");
    // A call that begins meanwhile goes on, although the switch did not name it.
    assert!(!other.words("NUMPOOL.CALL pool SWITCH sw LEASE young").is_null());
    let reply = client.read();
    assert_eq!(outcome(&reply), (1, LEASES as i64 - 1));
    assert_eq!(reply.field("unknown").array(), [Reply::Bulk(b"x".to_vec())]);
    assert_eq!(pool_info(&mut other, "pool", "leases"), 2);
    assert_eq!(client.words("PING"), Reply::Simple("PONG".into()));
    server.wait_offset_equal(&replica);
    assert_eq!(replica.digest(), server.digest());
    no_internal_errors(&server);
}

#[test]
fn transactions_and_scripts_are_refused_what_takes_more_than_one_step() {
    let server = server_with_calls("pool");
    let mut client = server.raw();
    fill(&mut client, "idle", LEASES);
    client.words("NUMPOOL.ADD short 1");
    client.words("NUMPOOL.REG short 1 SWITCH sw");
    client.words("NUMPOOL.CALL short");
    client.words("MULTI");
    client.words("NUMPOOL.RECONCILE pool SWITCH sw");
    client.words("NUMPOOL.UNREG idle SWITCH sw0");
    client.words("NUMPOOL.RECONCILE short SWITCH sw");
    client.words("NUMPOOL.UNREG short SWITCH sw");
    let replies = client.words("EXEC");
    let script = "return redis.call('NUMPOOL.RECONCILE', 'pool', 'SWITCH', 'sw')";
    let in_script = client.call(&["EVAL", script, "1", "pool"]);
    for refused in [&replies.array()[0], &replies.array()[1], &in_script] {
        let line = refused.error();
        assert!(line.contains("LIMIT the switch has more than 10000 numbers or calls"), "{line}");
    }
    assert_eq!((outcome(&replies.array()[2]), &replies.array()[3]), ((0, 1), &Reply::Int(1)));
    assert_eq!(pool_info(&mut client, "pool", "leases"), LEASES as i64);
    assert_eq!(pool_info(&mut client, "idle", "idle_up"), LEASES as i64);
    no_internal_errors(&server);
}

#[test]
fn client_is_told_when_its_key_goes_or_its_wait_is_ended() {
    let server = server_with_calls("pool");
    let (mut client, mut control) = (server.raw(), server.raw());
    let id = client.words("CLIENT ID").int();
    client.send(&["NUMPOOL.RECONCILE", "pool", "SWITCH", "sw"]);
    eventually("the first calls to end", TIMEOUT, || {
        pool_info(&mut control, "pool", "leases") < LEASES as i64
    });
    assert_eq!(control.words(&format!("CLIENT UNBLOCK {id}")), Reply::Int(1));
    assert!(client.read().is_null());
    // The work goes on without its client.
    eventually("all calls to end", TIMEOUT, || pool_info(&mut control, "pool", "leases") == 0);

    calls(&mut control, "other");
    client.send(&["NUMPOOL.RECONCILE", "other", "SWITCH", "sw"]);
    eventually("the first calls to end", TIMEOUT, || {
        pool_info(&mut control, "other", "leases") < LEASES as i64
    });
    control.words("DEL other");
    assert!(client.read().error().starts_with("UNBLOCKED "));
    assert_eq!(client.words("PING"), Reply::Simple("PONG".into()));
    no_internal_errors(&server);
}

#[test]
fn request_is_sent_again_after_a_failover() {
    let (master, replica) = (server_with_calls("pool"), RedisServer::strict().start());
    replica.replica_of(&master);
    let (mut client, mut control) = (master.raw(), master.raw());
    client.send(&["NUMPOOL.RECONCILE", "pool", "SWITCH", "sw"]);
    eventually("the first calls to end", TIMEOUT, || {
        pool_info(&mut control, "pool", "leases") < LEASES as i64
    });
    assert_eq!(replica.command("REPLICAOF NO ONE"), redis::Value::Okay);
    master.replica_of(&replica);
    assert!(client.read().error().starts_with("UNBLOCKED "));
    let mut client = replica.raw();
    let left = pool_info(&mut client, "pool", "leases");
    assert!(left > 0);
    assert_eq!(outcome(&client.words("NUMPOOL.RECONCILE pool SWITCH sw")), (0, left));
    replica.wait_offset_equal(&master);
    assert_eq!(master.digest(), replica.digest());
    no_internal_errors(&replica);
}

/// Changes the roles of the two servers. The old master becomes a replica without a transfer of all data.
fn fail_over(old: &RedisServer, new: &RedisServer) {
    assert_eq!(old.command("FAILOVER"), redis::Value::Okay);
    eventually("the roles to change", TIMEOUT, || {
        old.role().as_deref() == Some("slave") && new.role().as_deref() == Some("master")
    });
    old.wait_replica_synced();
    assert_eq!(new.info_field("stats", "sync_full"), "0", "the old master lost its value");
}

#[test]
fn master_forgets_its_requests_when_it_becomes_a_replica() {
    let (first, second) = (server_with_calls("pool"), RedisServer::strict().start());
    second.replica_of(&first);
    first.command("CONFIG RESETSTAT");
    let (mut client, mut control) = (first.raw(), first.raw());
    client.send(&["NUMPOOL.RECONCILE", "pool", "SWITCH", "sw"]);
    eventually("the first calls to end", TIMEOUT, || {
        pool_info(&mut control, "pool", "leases") < LEASES as i64
    });
    fail_over(&first, &second);
    assert!(client.read().error().starts_with("UNBLOCKED "));
    fail_over(&second, &first);

    let mut client = first.raw();
    let left = pool_info(&mut client, "pool", "leases");
    assert!(left > 0, "the request was done before the first failover");
    // The timer looks at the pool each time that a call expires.
    for _ in 0..3 {
        assert!(!client.words("NUMPOOL.CALL pool SWITCH other TTL 20 WAIT 60000").is_null());
        eventually("the short call to expire", TIMEOUT, || pool_info(&mut client, "pool", "leases") <= left);
    }
    assert_eq!(pool_info(&mut client, "pool", "leases"), left, "an old request goes on");
    first.wait_offset_equal(&second);
    assert_eq!(second.digest(), first.digest());
    no_internal_errors(&first);
    no_internal_errors(&second);
}

#[test]
fn switch_unregisters_its_numbers_in_slices() {
    let (server, replica) =
        (RedisServer::builder().module_arg("timer-slice 1").start(), RedisServer::strict().start());
    replica.replica_of(&server);
    let (mut client, mut other) = (server.raw(), server.raw());
    fill(&mut client, "pool", LEASES);
    assert!(!client.words("NUMPOOL.CALL pool LEASE a").is_null());
    client.send(&["NUMPOOL.UNREG", "pool", "SWITCH", "sw0"]);
    let is_up =
        |client: &mut RawClient, place: usize| state_of(client, "pool", &number(place)) != "idle+down";
    eventually("the first registrations to end", TIMEOUT, || !is_up(&mut other, 1));
    assert!(is_up(&mut other, LEASES - 1), "it was done at once");
    // Registered meanwhile in the same way, a number stays registered.
    let last = number(LEASES - 1);
    other.call(&["NUMPOOL.REG", "pool", &last, "SWITCH", "sw0"]);
    assert_eq!(client.read(), Reply::Int(LEASES as i64 - 1));
    assert_eq!(state_of(&mut other, "pool", &number(0)), "busy+down");
    assert_eq!(other.words("NUMPOOL.CALL pool").field("number").text(), last);
    assert!(other.words("NUMPOOL.CALL pool").is_null());
    server.wait_offset_equal(&replica);
    assert_eq!(replica.digest(), server.digest());
    no_internal_errors(&server);
}
