//! What keeps the numbers and calls of a switch right, on live servers.

use std::time::Duration;

use allot_tests::pools::{fill, pool_info};
use allot_tests::raw::RawClient;
use allot_tests::realms::{REALM, Realm};
use allot_tests::shows::no_internal_errors;
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, Reply, eventually};

/// A client and a pool of these numbers, registered by `sw1`.
fn pool(server: &RedisServer, numbers: &str) -> RawClient {
    let mut client = server.raw();
    client.words(&format!("NUMPOOL.ADD {{p}} {numbers}"));
    client.words(&format!("NUMPOOL.REG {{p}} {numbers} SWITCH sw1"));
    client
}

#[test]
fn deleted_number_does_not_take_its_switch_down() {
    let server = RedisServer::start();
    let mut client = pool(&server, "1001 1002 1003");
    client.words("NUMPOOL.CONFIG {p} REGTTL 3600000");
    client.words("NUMPOOL.DEL {p} 1002");
    let all = "NUMPOOL.REG {p} 1001 1002 1003 SWITCH sw1";
    assert_eq!(client.words(all), Reply::Int(0));
    let listed = client.words(&format!("{all} MISSING"));
    assert_eq!(
        (listed.field("done"), listed.field("missing").array()),
        (Reply::Int(0), &[Reply::bulk("1002")][..])
    );
    assert_eq!(pool_info(&mut client, "{p}", "idle_up"), 2);
    assert_eq!(client.words("NUMPOOL.UNREG {p} 1001 1002 9"), Reply::Int(1));
    assert_eq!(
        client.words("NUMPOOL.REG {p} 7 8").error(),
        "NOTFOUND none of the numbers 7 to 8 is in the pool"
    );
    let text = "ERR MISSING is for numbers that are named; it cannot go with SWITCH";
    assert_eq!(client.words("NUMPOOL.UNREG {p} SWITCH sw1 MISSING").error(), text);
    no_internal_errors(&server);
}

/// The server's clock, in milliseconds.
fn clock(client: &mut RawClient) -> i64 {
    let time = client.words("TIME");
    let [seconds, microseconds] = [0, 1].map(|place| time.array()[place].text().parse::<i64>().unwrap());
    seconds * 1000 + microseconds / 1000
}

#[test]
fn one_heartbeat_keeps_ten_thousand_calls_until_their_switch_dies() {
    let (master, replica) = (RedisServer::start(), RedisServer::strict().start());
    replica.replica_of(&master);
    let mut client = master.raw();
    let calls = 10_000;
    fill(&mut client, "{p}", calls);
    client.words("NUMPOOL.CONFIG {p} LEASE 50");
    client.words("NUMPOOL.BEAT {p} dialler TTL 60000");
    for _ in 0..calls {
        client.send(&["NUMPOOL.CALL", "{p}", "SWITCH", "dialler"]);
    }
    for _ in 0..calls {
        assert!(client.read().field("until").is_null(), "a lease lives as long as its switch");
    }
    let mut until = 0;
    for _ in 0..10 {
        let beat = client.words("NUMPOOL.BEAT {p} dialler TTL 2000");
        (until, ()) = (beat.field("until").int(), std::thread::sleep(Duration::from_millis(50)));
        assert_eq!(beat.field("calls"), Reply::Int(calls as i64));
    }
    // The switch dies: no call ends before its deadline, and all of them soon after it.
    let mut ended = None;
    eventually("the calls of a dead switch to end", TIMEOUT, || {
        let leases = pool_info(&mut client, "{p}", "leases");
        let now = clock(&mut client);
        assert!(leases == calls as i64 || now >= until, "a call has ended {} ms too early", until - now);
        ended = (leases == 0).then_some(now);
        ended.is_some()
    });
    let late = ended.unwrap() - until;
    assert!(late < 1000, "the last call ended {late} ms after the deadline of its switch");
    master.wait_offset_equal(&replica);
    assert_eq!(replica.digest(), master.digest());
    assert_eq!(master.command("DEBUG RELOAD"), redis::Value::Okay);
    assert_eq!(replica.digest(), master.digest());
    no_internal_errors(&master);
}

#[test]
fn outage_of_the_server_ends_no_call_of_a_switch_that_is_alive() {
    let (master, replica) = (RedisServer::start(), RedisServer::strict().start());
    replica.replica_of(&master);
    let mut client = pool(&master, "1001 1002");
    let calls = |beat: Reply| beat.field("calls").int();
    for token in ["a", "b"] {
        client.words(&format!("NUMPOOL.CALL {{p}} LEASE {token}"));
    }
    // The server stands still for longer than the deadline of the switch. Its next heartbeat is on its way meanwhile.
    let beat = ["NUMPOOL.BEAT", "{p}", "sw1", "TTL", "1000"];
    client.send(&beat);
    client.send(&["DEBUG", "SLEEP", "2"]);
    client.send(&beat);
    let replies = [(); 3].map(|()| client.read());
    assert_eq!(calls(replies[2].clone()), 2);
    // A replica takes over when the deadline has passed.
    client.words("NUMPOOL.BEAT {p} sw1 TTL 5000");
    let until = client.words("NUMPOOL.SWITCHES {p}").array()[1].array()[0].field("until").int();
    master.wait_offset_equal(&replica);
    master.kill9();
    let mut client = replica.raw();
    eventually("the deadline to pass", TIMEOUT, || clock(&mut client) > until);
    client.words("REPLICAOF NO ONE");
    assert_eq!(calls(client.words("NUMPOOL.BEAT {p} sw1 TTL 60000")), 2);
    // A server that loads the pool, and hears no more of the switch.
    client.words("NUMPOOL.BEAT {p} sw1 TTL 500");
    assert_eq!(replica.command("DEBUG RELOAD"), redis::Value::Okay);
    eventually("the calls to end", TIMEOUT, || pool_info(&mut client, "{p}", "leases") == 0);
    no_internal_errors(&replica);
}

#[test]
fn suspended_number_is_out_of_service_whatever_registers_it() {
    let server = RedisServer::start();
    let mut client = pool(&server, "1001 1002");
    client.words("NUMPOOL.CONFIG {p} EVENTS 100 CAPS 1 3600000 2");
    client.words("NUMPOOL.CALL {p} 1001 LEASE a PEER bob");
    assert_eq!(client.words("NUMPOOL.SUSPEND {p} CAUSE complaint FOR 3600000 1001 1002"), Reply::Int(2));
    let get = |client: &mut RawClient, field: &str| client.words("NUMPOOL.GET {p} 1001").field(field);
    assert_eq!(get(&mut client, "lease"), Reply::bulk("a"), "its call goes on");
    client.words("NUMPOOL.HANGUP {p} 1001 LEASE a");
    client.words("NUMPOOL.REG {p} 1001 1002 SWITCH sw2");
    assert!(client.words("NUMPOOL.CALL {p}").is_null());
    assert_eq!(get(&mut client, "suspend_cause"), Reply::bulk("complaint"));
    let totals =
        |client: &mut RawClient| ["suspended", "quarantined"].map(|field| pool_info(client, "{p}", field));
    assert_eq!(totals(&mut client), [2, 2]);
    // A call that waits gets the number that comes back, which has kept its caps, its uses and its peer.
    let mut waiting = server.raw();
    waiting.send(&["NUMPOOL.CALL", "{p}", "WAIT", "0", "LEASE", "b"]);
    eventually("a call to wait", TIMEOUT, || pool_info(&mut client, "{p}", "waiting") == 1);
    assert_eq!(client.words("NUMPOOL.RESUME {p} 1001"), Reply::Int(1));
    assert_eq!(waiting.read().field("number"), Reply::bulk("1001"));
    assert_eq!((get(&mut client, "uses"), get(&mut client, "peer")), (Reply::Int(2), Reply::bulk("bob")));
    client.words("NUMPOOL.HANGUP {p} 1001");
    assert!(client.words("NUMPOOL.CALL {p} 1001").error().starts_with("LIMIT "), "its caps are kept");
    // The end of a suspension.
    client.words("NUMPOOL.SUSPEND {p} FOR 20 1002");
    eventually("a suspension to end", TIMEOUT, || totals(&mut client) == [0, 0]);
    assert_eq!(client.words("NUMPOOL.CALL {p}").field("number"), Reply::bulk("1002"));
    let entries = client.words("XREVRANGE {p}:evt + - COUNT 2");
    let resumed = entries.array()[1].array()[1].array().iter().map(Reply::text).collect::<Vec<_>>().join(" ");
    assert_eq!(resumed, r#"event resumed numbers ["1002"]"#);
    let digest = server.digest();
    assert_eq!(server.command("DEBUG RELOAD"), redis::Value::Okay);
    assert_eq!(server.digest(), digest);
    no_internal_errors(&server);
}

#[test]
fn reconcile_leaves_the_number_of_a_live_conference_alone() {
    let server = RedisServer::start();
    let mut realm = Realm::create(&server, &["a:1:1"]);
    realm.client.words("NUMPOOL.ADD {r}:numbers 4930");
    realm.client.words("NUMPOOL.REG {r}:numbers 4930 SWITCH sw1");
    let record = realm.ok("CONF.CREATE * FROM {r}:numbers");
    assert_eq!(record.field("e164").text(), "4930");
    let leases = realm.client.words("NUMPOOL.LEASES {r}:numbers");
    let lease = &leases.array()[1].array()[0];
    assert_eq!((lease.field("holder"), lease.field("call_switch").is_null()), (Reply::bulk(REALM), true));
    for whose in ["SWITCH sw1", "NOSWITCH"] {
        let outcome = realm.client.words(&format!("NUMPOOL.RECONCILE {{r}}:numbers {whose}"));
        assert_eq!(outcome.field("freed"), Reply::Int(0));
    }
    let epoch = record.field("epoch").int();
    realm.ok(&format!("CONF.ENDED 4930 a:1:1 {epoch}"));
    assert_eq!(pool_info(&mut realm.client, "{r}:numbers", "leases"), 0);
    // A lease that is nobody's can be reconciled.
    realm.client.words("NUMPOOL.REG {r}:numbers 4930");
    realm.client.words("NUMPOOL.CALL {r}:numbers LEASE z1");
    let outcome = realm.client.words("NUMPOOL.RECONCILE {r}:numbers NOSWITCH LEASE z9");
    assert_eq!(
        (outcome.field("freed"), outcome.field("unknown").array()),
        (Reply::Int(1), &[Reply::bulk("z9")][..])
    );
    for words in ["", "SWITCH sw1 NOSWITCH"] {
        let reply = realm.client.words(&format!("NUMPOOL.RECONCILE {{r}}:numbers {words}"));
        assert_eq!(reply.error(), "ERR say whose leases to look at: SWITCH and its name, or NOSWITCH");
    }
    no_internal_errors(&server);
}

#[test]
fn numbers_of_lost_conferences_are_free_again_and_those_of_adopted_ones_are_not() {
    let (master, replica) = (RedisServer::start(), RedisServer::strict().start());
    replica.replica_of(&master);
    let mut realm = Realm::create(&master, &["a:1:1"]);
    fill(&mut realm.client, "{r}:numbers", 9);
    // Realms that will be deleted, overwritten, and made again.
    let realms = ["{r}:deleted", "{r}:overwritten", REALM];
    for name in &realms[..2] {
        realm.client.words(&format!("CONF.REALM {name}"));
        realm.client.words(&format!("CMU.JOIN {name} a:1:1 CAPACITY 100 LEASE 3600000"));
    }
    let mut create = |name: &str| {
        let record = realm.client.words(&format!("CONF.CREATE {name} * FROM {{r}}:numbers"));
        (record.field("e164").text(), record.field("epoch").int())
    };
    for name in &realms[..2] {
        create(name);
    }
    let (adopted, epoch) = create(REALM);
    create(REALM);
    assert_eq!(master.command("DEBUG RELOAD"), redis::Value::Okay);
    assert_eq!(pool_info(&mut realm.client, "{r}:numbers", "leases"), 4);
    // The last realm is never missing when somebody looks, and its unit still has one of the two conferences.
    let transaction = format!("DEL {REALM}|CONF.REALM {REALM}|DEL {}|SET {} hello", realms[0], realms[1]);
    realm.client.words("MULTI");
    transaction.split('|').for_each(|line| drop(realm.client.words(line)));
    realm.client.words("EXEC");
    realm.join("a:1:1");
    let report = realm.ok(&format!("CMU.REPORT a:1:1 HIGHEST {epoch} {adopted} {epoch}"));
    assert_eq!(report.field("adopted").array().len(), 1);
    eventually("the numbers to be free", TIMEOUT, || {
        pool_info(&mut realm.client, "{r}:numbers", "leases") == 1
    });
    let leases = realm.client.words("NUMPOOL.LEASES {r}:numbers");
    assert_eq!(leases.array()[1].array()[0].field("number").text(), adopted);
    master.wait_offset_equal(&replica);
    assert_eq!(replica.digest(), master.digest());
    no_internal_errors(&master);
}
