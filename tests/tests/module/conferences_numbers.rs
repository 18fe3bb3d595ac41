//! Conferences whose numbers come from a pool: one step takes both, and the end of the conference hangs up, on the
//! master, on replicas, over restarts, with a pool that is gone and with one whose slot is on its way.

use allot_tests::cluster::SlotMove;
use allot_tests::pools::{fill, number, pool_info, state_of};
use allot_tests::realms::{REALM, Realm};
use allot_tests::shows::{allot_info, no_internal_errors};
use allot_tests::wait::TIMEOUT;
use allot_tests::{Cluster, RedisServer, Reply, eventually};

/// The pool, of the realm's hash tag.
const POOL: &str = "{r}:numbers";

/// A server with a realm of one unit and a pool of so many numbers.
fn start(server: &RedisServer, numbers: usize) -> Realm {
    let mut realm = Realm::create(server, &["a:1:1"]);
    // Numbers are hung up by what a test does, and by no timeout.
    realm.ok("CONF.REALM CREATETIMEOUT 3600000 RELEASETIMEOUT 3600000");
    fill(&mut realm.client, POOL, numbers);
    realm
}

/// Creates a conference on a called number; number and epoch.
#[track_caller]
fn call(realm: &mut Realm, options: &str) -> (String, i64) {
    let record = realm.ok(&format!("CONF.CREATE * FROM {POOL} {options}"));
    assert_eq!(record.field("pool"), Reply::bulk(POOL));
    (record.field("e164").text(), record.field("epoch").int())
}

#[test]
fn a_number_is_called_with_its_conference_and_hung_up_at_its_end() {
    let server = RedisServer::start();
    let mut realm = start(&server, 3);
    let (first, epoch) = call(&mut realm, "");
    assert_eq!(first, number(0), "who waits longest");
    assert_eq!(state_of(&mut realm.client, POOL, &first), "busy+up");
    let record = realm.client.call(&["NUMPOOL.GET", POOL, &first]);
    assert!(record.field("until").is_null(), "the lease has no end of its own: {record:?}");
    realm.ok(&format!("CONF.ACK {first} a:1:1 {epoch}"));
    realm.ok(&format!("CONF.ENDED {first} a:1:1 {epoch}"));
    assert_eq!(state_of(&mut realm.client, POOL, &first), "idle+up", "in the same step");
    // A manager's release, and a unit that refuses.
    let (second, epoch) = call(&mut realm, "");
    assert_eq!(second, number(1));
    realm.ok(&format!("CONF.RELEASE {second}"));
    assert_eq!(state_of(&mut realm.client, POOL, &second), "busy+up", "its unit has not said that it ended");
    realm.ok(&format!("CONF.ENDED {second} a:1:1 {epoch}"));
    assert_eq!(state_of(&mut realm.client, POOL, &second), "idle+up");
    let (third, epoch) = call(&mut realm, "NORECOVER");
    realm.ok(&format!("CONF.NACK {third} a:1:1 {epoch}"));
    assert_eq!(state_of(&mut realm.client, POOL, &third), "idle+up");
    // A unit that goes down ends what may not be recovered, and keeps the number of what may.
    let (lost, _) = call(&mut realm, "NORECOVER");
    let (kept, _) = call(&mut realm, "");
    realm.ok("CMU.DOWN a:1:1");
    assert_eq!(state_of(&mut realm.client, POOL, &lost), "idle+up");
    assert_eq!(state_of(&mut realm.client, POOL, &kept), "busy+up");
    realm.ok(&format!("CONF.RELEASE {kept}"));
    assert_eq!(pool_info(&mut realm.client, POOL, "idle_up"), 3);
    assert_eq!(allot_info(&server, "conf_pools_gone"), 0);
    no_internal_errors(&server);
}

#[test]
fn both_happen_or_neither_does() {
    let server = RedisServer::start();
    let mut realm = start(&server, 1);
    let dumps = |realm: &mut Realm| [REALM, POOL].map(|key| realm.client.call(&["DUMP", key]));
    let before = dumps(&mut realm);
    // No room: no number is called.
    assert_eq!(realm.code(&format!("CONF.CREATE * FROM {POOL} SIZE 900000")), "LIMIT");
    assert_eq!(dumps(&mut realm), before);
    // The number has a conference already, that somebody named.
    realm.open(&number(0));
    let before = dumps(&mut realm);
    assert_eq!(realm.code(&format!("CONF.CREATE * FROM {POOL}")), "EXISTS");
    assert_eq!(dumps(&mut realm), before);
    let (cmu, epoch, _) = realm.place(&number(0));
    realm.ok(&format!("CONF.ENDED {} {cmu} {epoch}", number(0)));
    // No number: nothing is created.
    call(&mut realm, "");
    assert_eq!(realm.code(&format!("CONF.CREATE * FROM {POOL}")), "LIMIT");
    assert_eq!(realm.ok("CONF.STAT").field("creating"), Reply::Int(1));
    for (line, code) in [
        ("CONF.CREATE *", "ERR"),
        (&format!("CONF.CREATE 7 FROM {POOL}"), "ERR"),
        ("CONF.CREATE * FROM", "ERR"),
        (&format!("CONF.CREATE * FROM {POOL} FROM {POOL}"), "ERR"),
        ("CONF.CREATE * FROM {r}:nothing", "NOKEY"),
        (&format!("CONF.CREATE * FROM {REALM}"), "WRONGTYPE"),
    ] {
        assert_eq!(realm.code(line), code, "{line}");
    }
    no_internal_errors(&server);
}

#[test]
fn a_number_that_has_a_conference_already_is_passed_over() {
    let server = RedisServer::start();
    let mut realm = start(&server, 3);
    realm.open(&number(0));
    let other = number(1);
    let (first, _) = call(&mut realm, "");
    assert_eq!((first, state_of(&mut realm.client, POOL, &number(0))), (other, "idle+up".to_owned()));
    assert_eq!(call(&mut realm, "").0, number(2));
    assert_eq!(realm.code(&format!("CONF.CREATE * FROM {POOL}")), "EXISTS", "no other waits");
    no_internal_errors(&server);
}

#[test]
fn a_repeated_request_gets_its_record_and_no_second_number() {
    let server = RedisServer::start();
    let mut realm = start(&server, 3);
    let (first, epoch) = call(&mut realm, "REQUEST r1");
    assert_eq!(call(&mut realm, "REQUEST r1"), (first.clone(), epoch));
    assert_eq!(pool_info(&mut realm.client, POOL, "idle_up"), 2);
    realm.ok(&format!("CONF.ENDED {first} a:1:1 {epoch}"));
    assert_eq!(call(&mut realm, "REQUEST r1"), (first.clone(), epoch), "its tombstone answers");
    assert_eq!(pool_info(&mut realm.client, POOL, "idle_up"), 3);
    assert_ne!(call(&mut realm, "REQUEST r2").0, first);
    // Over a restart as well.
    realm.client.words("DEBUG RELOAD");
    assert_eq!(call(&mut realm, "REQUEST r1"), (first, epoch));
    no_internal_errors(&server);
}

#[test]
fn replicas_and_append_only_files_hold_the_same_of_both() {
    let master = RedisServer::builder().arg("appendonly", "yes").arg("appendfsync", "always").start();
    let replica = RedisServer::start();
    replica.replica_of(&master);
    let mut realm = start(&master, 20);
    let mut live = Vec::new();
    for round in 0..60 {
        if live.len() < 15 {
            live.push(call(&mut realm, &format!("REQUEST r{round}")));
        }
        if round % 3 == 0 {
            let (e164, epoch) = live.remove(round % live.len());
            realm.ok(&format!("CONF.ENDED {e164} a:1:1 {epoch}"));
        }
    }
    assert_eq!(pool_info(&mut realm.client, POOL, "idle_up"), 20 - live.len() as i64);
    let dumps = |server: &RedisServer| {
        let mut client = server.raw();
        [REALM, POOL].map(|key| client.call(&["DUMP", key]))
    };
    eventually("the replica holds what its master holds", TIMEOUT, || dumps(&replica) == dumps(&master));
    let before = dumps(&master);
    realm.client.words("DEBUG LOADAOF");
    assert_eq!(dumps(&master), before);
    no_internal_errors(&master);
    no_internal_errors(&replica);
}

#[test]
fn a_pool_that_is_gone_is_counted_and_no_error() {
    let server = RedisServer::start();
    let mut realm = start(&server, 4);
    let calls: Vec<(String, i64)> = (0..4).map(|_| call(&mut realm, "")).collect();
    let end = |realm: &mut Realm, (e164, epoch): &(String, i64)| {
        realm.ok(&format!("CONF.ENDED {e164} a:1:1 {epoch}"));
        assert_eq!(realm.place(e164).2, "ended");
    };
    realm.client.words(&format!("RENAME {POOL} kept"));
    end(&mut realm, &calls[0]);
    realm.client.words(&format!("SET {POOL} 1"));
    end(&mut realm, &calls[1]);
    assert_eq!(allot_info(&server, "conf_pools_gone"), 2);
    // Another pool under the name: its numbers are not this conference's, in any state.
    realm.client.words(&format!("DEL {POOL}"));
    fill(&mut realm.client, POOL, 4);
    realm.client.words(&format!("NUMPOOL.CALL {POOL} {}", calls[2].0));
    end(&mut realm, &calls[2]);
    assert_eq!(state_of(&mut realm.client, POOL, &calls[2].0), "busy+up");
    // Who hung up before has nothing more to do.
    realm.client.words(&format!("RENAME kept {POOL}"));
    realm.client.words(&format!("NUMPOOL.HANGUP {POOL} {}", calls[3].0));
    end(&mut realm, &calls[3]);
    assert_eq!(state_of(&mut realm.client, POOL, &calls[3].0), "idle+up");
    assert_eq!(allot_info(&server, "conf_pools_gone"), 2);
    no_internal_errors(&server);
}

/// The slot has moved, and a number of its pool is hung up.
#[track_caller]
fn is_hung_up_after(cluster: &Cluster, moving: SlotMove<'_>, e164: &str) {
    let (from, to) = (moving.from, moving.to);
    moving.finish();
    let mut client = to.raw();
    eventually("the number to be hung up on the new node", TIMEOUT, || {
        state_of(&mut client, POOL, e164) == "idle+up"
    });
    assert_eq!(allot_info(from, "conf_pools_gone") + allot_info(to, "conf_pools_gone"), 0);
    cluster.nodes().for_each(no_internal_errors);
}

#[test]
fn a_hang_up_waits_for_a_pool_whose_slot_is_on_its_way() {
    let cluster = Cluster::start(3, 0);
    let mut realm = start(cluster.master_for(REALM), 2);
    let (e164, epoch) = call(&mut realm, "");
    let moving = cluster.begin_move(REALM);
    moving.key(POOL);
    // The realm is here still, its pool is there already.
    realm.ok(&format!("CONF.ENDED {e164} a:1:1 {epoch}"));
    assert_eq!(realm.ok("CONF.STAT").field("unsent"), Reply::Int(1), "the hang-up waits");
    is_hung_up_after(&cluster, moving, &e164);
}

#[test]
fn a_hang_up_waits_for_a_pool_that_comes_after_its_realm() {
    let cluster = Cluster::start(3, 0);
    let mut realm = start(cluster.master_for(REALM), 2);
    let (e164, epoch) = call(&mut realm, "");
    let moving = cluster.begin_move(REALM);
    moving.key(REALM);
    // The realm is there already, and its clients are asked over; its pool is here still.
    let mut there = Realm::of(moving.to);
    there.client.words("ASKING");
    there.ok(&format!("CONF.ENDED {e164} a:1:1 {epoch}"));
    is_hung_up_after(&cluster, moving, &e164);
}

#[test]
fn the_pool_is_a_key_of_the_command() {
    let server = RedisServer::start();
    let mut client = server.raw();
    let line = format!("COMMAND GETKEYS CONF.CREATE {REALM} * END 99 FROM {POOL} REQUEST r");
    let keys = client.words(&line);
    assert_eq!(keys.array(), [Reply::bulk(REALM), Reply::bulk(POOL)]);
    let keys = client.words(&format!("COMMAND GETKEYS CONF.CREATE {REALM} 7 END 99"));
    assert_eq!(keys.array(), [Reply::bulk(REALM)]);
}
