//! A realm is a key like any other: copied, renamed, swapped, dumped and restored, read on replicas, watched, measured,
//! and each of its changes told.

use allot_tests::raw::RawClient;
use allot_tests::realms::{REALM, Realm, UNITS};
use allot_tests::shows::{allot_info, no_internal_errors};
use allot_tests::usage::{quiet, usage_is_true, used};
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, Reply, eventually};

/// A copy, beside the realm.
const TWIN: &str = "{r}:twin";

/// The events of a stream, each as its first four values.
fn events(client: &mut RawClient, stream: &str) -> Vec<String> {
    let reply = client.call(&["XRANGE", stream, "-", "+"]);
    let first = |entry: &Reply| {
        let values = entry.array()[1].array().chunks(2).take(4).map(|pair| pair[1].text());
        values.collect::<Vec<_>>().join(" ")
    };
    reply.array().iter().map(first).collect()
}

#[test]
fn a_copy_and_a_restored_realm_carry_no_streams_and_their_units_report_anew() {
    let server = RedisServer::start();
    let mut realm = Realm::create(&server, &UNITS[..2]);
    let (a, first) = realm.open("7");
    let (b, other) = realm.open("8");
    realm.ok(&format!("CONF.SET 7 {a} {first} 1 members 3"));
    realm.ok(&format!("CMU.DOWN {b}"));
    let mut client = server.raw();
    let dump = client.call(&["DUMP", REALM]);
    let Reply::Bulk(dump) = dump else { panic!("{dump:?}") };
    let before = server.digest_value(REALM);
    let streams = |client: &mut RawClient, key: &str| client.words(&format!("KEYS {key}:*")).array().len();
    assert_eq!(streams(&mut client, REALM), 3);
    for way in ["COPY", "RESTORE"] {
        for key in client.words(&format!("KEYS {TWIN}*")).array() {
            client.words(&format!("DEL {}", key.text()));
        }
        if way == "COPY" {
            assert_eq!(client.words(&format!("COPY {REALM} {TWIN}")), Reply::Int(1));
        } else {
            let restored = client.call(&[&b"RESTORE"[..], TWIN.as_bytes(), b"0", &dump]);
            assert_eq!(restored, Reply::Simple("OK".into()));
        }
        assert_eq!(server.digest_value(TWIN), before, "{way}");
        assert_eq!(streams(&mut client, TWIN), 0, "{way}");
        assert_eq!(client.words(&format!("CONF.GET {TWIN} 7 members")).array()[0], Reply::bulk("3"));
        // Asked, a unit hears it from the copy, and is taken up there with what it has.
        client.words(&format!("CMU.ASK {TWIN} {a} LIST"));
        assert_eq!(events(&mut client, &format!("{TWIN}:cmd:{a}")), [format!("REPORT  {a} 0")]);
        client.words(&format!("CMU.JOIN {TWIN} {a} CAPACITY 10 LEASE 3600000"));
        let report = client.words(&format!("CMU.REPORT {TWIN} {a} HIGHEST {first} 7 {first}"));
        assert_eq!(report.field("kept"), Reply::Int(1), "{way}");
        assert_eq!(client.words(&format!("CONF.SET {TWIN} 7 {a} {first} 2 members 4")), Reply::Int(1));
        // So is one that was down.
        client.words(&format!("CMU.JOIN {TWIN} {b} CAPACITY 10 LEASE 3600000"));
        let report = client.words(&format!("CMU.REPORT {TWIN} {b} HIGHEST {other} 8 {other}"));
        let adopted = report.field("adopted").array()[0].array().to_vec();
        let epoch = adopted[2].int();
        assert_eq!((adopted[0].text(), adopted[1].int()), ("8".into(), other));
        let record = client.words(&format!("CONF.INFO {TWIN} 8"));
        assert_eq!((record.field("state").text(), record.field("epoch").int()), ("open".into(), epoch));
        assert_eq!(events(&mut client, &format!("{TWIN}:cmd:{b}")), [format!("EPOCH 8 {b} {epoch}")]);
        // A unit that the original never saw.
        client.words(&format!("CMU.JOIN {TWIN} new:1:1 CAPACITY 1000 LEASE 3600000"));
        let created = client.words(&format!("CONF.CREATE {TWIN} 9"));
        let (cmu, epoch) = (created.field("cmu").text(), created.field("epoch").int());
        assert_eq!(cmu, "new:1:1");
        assert_eq!(events(&mut client, &format!("{TWIN}:cmd:{cmu}")), [format!("CREATE 9 {cmu} {epoch}")]);
        let told = events(&mut client, &format!("{TWIN}:evt"));
        let names: Vec<&str> = told.iter().map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(names, ["joined", "adopted", "joined", "created"], "{way}");
    }
    // Each is its own.
    assert_eq!(server.digest_value(REALM), before);
    assert_eq!(realm.code("CONF.INFO 9"), "NOTFOUND");
    no_internal_errors(&server);
}

#[test]
fn what_is_copied_renamed_or_swapped_keeps_its_conferences_and_their_deadlines() {
    let server = RedisServer::start();
    let mut realm = Realm::create(&server, &["a:1:1"]);
    realm.ok("CONF.REALM CREATETIMEOUT 4000");
    let (a, epoch) = realm.begin("7", "");
    realm.begin("8", "");
    realm.open("9");
    let mut client = server.raw();
    for copy in [TWIN, "{r}:still"] {
        assert_eq!(client.words(&format!("COPY {REALM} {copy}")), Reply::Int(1));
    }
    // Each is its own from now on; to one of them nobody says anything.
    assert_eq!(client.words(&format!("CONF.ACK {TWIN} 7 {a} {epoch}")), Reply::Simple("OK".into()));
    let state = |client: &mut RawClient, key: &str, e164: &str| {
        client.words(&format!("CONF.INFO {key} {e164}")).field("state").text()
    };
    assert_eq!(realm.place("7").2, "creating");
    client.words(&format!("RENAME {REALM} {{r}}:other"));
    assert_eq!(state(&mut client, "{r}:other", "9"), "open");
    client.words("SWAPDB 0 5");
    client.words("SELECT 5");
    assert_eq!(state(&mut client, "{r}:other", "9"), "open");
    assert_eq!(state(&mut client, TWIN, "7"), "open");
    // Nobody calls: the timer finds all under their other names, in the other database. What it says is there, too.
    eventually("the creations to be given up", TIMEOUT, || allot_info(&server, "conf_ended") == 5);
    for (key, given_up) in [("{r}:other", &["7", "8"][..]), (TWIN, &["8"]), ("{r}:still", &["7", "8"])] {
        let told = events(&mut client, &format!("{key}:evt"));
        let ended: Vec<String> = told
            .iter()
            .filter_map(|line| line.strip_prefix("ended "))
            .map(|rest| rest.split(' ').next().unwrap().to_owned())
            .collect();
        assert_eq!(ended, given_up, "{key}");
        let told = events(&mut client, &format!("{key}:cmd:{a}"));
        let released = told.iter().filter(|line| line.starts_with("RELEASE ")).count();
        assert_eq!(released, given_up.len(), "{key}");
    }
    client.words(&format!("CMU.DOWN {TWIN} {a}"));
    assert_eq!(allot_info(&server, "conf_pending"), 2);
    client.words(&format!("PEXPIRE {TWIN} 1"));
    eventually("the key to expire, and its conferences with it", TIMEOUT, || {
        client.words(&format!("EXISTS {TWIN}")) == Reply::Int(0) && allot_info(&server, "conf_pending") == 0
    });
    assert!(client.words(&format!("CONF.STAT {TWIN}")).error().starts_with("NOKEY "));
    client.words("FLUSHALL");
    assert_eq!(allot_info(&server, "keys_waiting_for_timer"), 0);
    no_internal_errors(&server);
}

#[test]
fn transactions_and_scripts_can_do_all_that_clients_can() {
    let (server, replica) = (RedisServer::start(), RedisServer::start());
    replica.replica_of(&server);
    let mut realm = Realm::create(&server, &UNITS[..2]);
    let mut client = server.raw();
    for line in [
        "MULTI",
        "CONF.CREATE {r}:conf 7 SIZE 2",
        "CONF.INFO {r}:conf 7",
        "CMU.DOWN {r}:conf a:1:1",
        "CONF.PLAN {r}:conf",
        "CONF.RECOVER {r}:conf",
        "CONF.RELEASE {r}:conf none",
        "XLEN {r}:conf:evt",
    ] {
        client.words(line);
    }
    let replies = client.words("EXEC");
    let replies = replies.array();
    assert_eq!(replies[0].field("cmu"), Reply::bulk("a:1:1"));
    assert_eq!(replies[0].record(), replies[1].record());
    assert_eq!(replies[3].array()[0].field("why"), Reply::bulk("due"));
    let granted = replies[4].array()[0].array();
    assert_eq!(granted[..2], [Reply::bulk("7"), Reply::bulk("b:1:1")]);
    assert!(replies[5].error().starts_with("NOTFOUND "));
    assert_eq!(replies[6], Reply::Int(6), "what was said is in the stream before the transaction ends");
    let script = "local c = redis.call('CONF.INFO', KEYS[1], ARGV[1])
        redis.call('CONF.ACK', KEYS[1], ARGV[1], c[6], c[8])
        redis.call('CONF.SET', KEYS[1], ARGV[1], c[6], c[8], 1, 'members', '3')
        local refused = redis.pcall('CONF.SET', KEYS[1], ARGV[1], c[6], c[8], 1, 'members', '4')
        local lost = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)
        return {redis.call('CONF.GET', KEYS[1], ARGV[1], 'members')[1], refused.err, lost[1][2][2]}";
    let reply = client.call(&["EVAL", script, "2", REALM, "{r}:conf:evt", "7"]);
    assert_eq!(reply.array()[0], Reply::bulk("3"));
    assert!(reply.array()[1].text().starts_with("STALE "), "{reply:?}");
    assert_eq!(reply.array()[2], Reply::bulk("opened"));
    let write = "return redis.call('CONF.CREATE', KEYS[1], '8')";
    assert!(client.call(&["EVAL_RO", write, "1", REALM]).error().contains("Write commands are not allowed"));
    let read = "return redis.call('CONF.STAT', KEYS[1])[6]";
    assert_eq!(client.call(&["EVAL_RO", read, "1", REALM]), Reply::Int(1));
    assert_eq!(realm.place("7").2, "open");
    server.wait_offset_equal(&replica);
    assert_eq!(server.digest(), replica.digest());
    no_internal_errors(&server);
}

#[test]
fn watch_is_broken_by_a_change_and_by_nothing_else() {
    let server = RedisServer::start();
    let mut realm = Realm::create(&server, &UNITS[..2]);
    realm.ok("CONF.REALM CREATETIMEOUT 3600000");
    let (a, epoch) = realm.open("7");
    realm.begin("8", "REQUEST r");
    realm.ok(&format!("CONF.SET 7 {a} {epoch} 5 members 3"));
    let mut watcher = server.raw();
    let mut broken_by = |line: &str| {
        watcher.words(&format!("WATCH {REALM}"));
        realm.call(line);
        watcher.words("MULTI");
        watcher.words(&format!("CONF.STAT {REALM}"));
        watcher.words("EXEC").is_null()
    };
    for line in [
        "CONF.CREATE 7",
        "CONF.CREATE 8 REQUEST r",
        "CONF.CREATE 9 SIZE 1000000",
        &format!("CONF.ACK 7 {a} {epoch}"),
        &format!("CONF.NACK 7 {a} {epoch}"),
        &format!("CONF.SET 7 {a} {epoch} 5 members 4"),
        &format!("CONF.SET 7 b:1:1 {epoch} 6 members 4"),
        "CONF.RELEASE nothing",
        "CONF.RECOVER",
        "CONF.RECOVER TERM 5",
        "CMU.DOWN nobody",
        "CONF.REALM",
        "CONF.LIST",
        "CONF.PLAN DOWN a:1:1",
        "CMU.LIST",
    ] {
        assert!(!broken_by(line), "{line} changed nothing");
    }
    for line in [
        "CONF.CREATE 9",
        &format!("CONF.SET 7 {a} {epoch} 6 members 4"),
        "CMU.BEAT a:1:1",
        "CMU.ASK a:1:1 LIST",
        "CONF.MOVE 7",
        "CONF.RELEASE 7",
        "CMU.DOWN b:1:1",
        "CONF.REALM CREATETIMEOUT 4000",
    ] {
        assert!(broken_by(line), "{line} changed the realm");
    }
    // So does what the timer does.
    let mut watcher = server.raw();
    realm.begin("10", "");
    watcher.words(&format!("WATCH {REALM}"));
    eventually("the creation to be given up", TIMEOUT, || realm.place("10").2 == "ended");
    watcher.words("MULTI");
    assert!(watcher.words("EXEC").is_null());
}

#[test]
fn a_read_only_replica_answers_reads_and_refuses_the_rest() {
    let (server, replica) = (RedisServer::start(), RedisServer::start());
    let mut realm = Realm::create(&server, &UNITS);
    realm.ok("CONF.REALM CREATETIMEOUT 3600000");
    replica.replica_of(&server);
    let (a, epoch) = realm.open("7");
    realm.open("8");
    realm.begin("9", "NORECOVER");
    realm.ok(&format!("CONF.SET 7 {a} {epoch} 1 members 3"));
    realm.ok("CMU.DOWN b:1:1");
    server.wait_offset_equal(&replica);
    let mut there = Realm::of(&replica);
    for line in [
        "CONF.INFO 7",
        "CONF.HISTORY 8",
        "CONF.GET 7",
        "CONF.LIST",
        "CONF.LIST STATE pending",
        "CONF.STAT",
        "CONF.PLAN",
        "CONF.PLAN DOWN a:1:1",
        "CMU.LIST",
    ] {
        assert_eq!(there.ok(line), realm.ok(line), "{line}");
    }
    for stream in ["evt", "cmd:a:1:1"] {
        assert_eq!(there.whole(stream), realm.whole(stream), "{stream}");
    }
    for line in [
        "CONF.REALM",
        "CONF.TERM 1 l",
        "CONF.CREATE 10",
        &format!("CONF.ACK 7 {a} {epoch}"),
        &format!("CONF.NACK 7 {a} {epoch}"),
        &format!("CONF.ENDED 7 {a} {epoch}"),
        &format!("CONF.SET 7 {a} {epoch} 2 members 4"),
        "CONF.RELEASE 7",
        "CONF.EXTEND 7 END 4000000000000",
        "CONF.RECOVER",
        "CONF.RESTART LIVE 0",
        "CONF.MOVE 7",
        "CMU.JOIN d:1:1 CAPACITY 1",
        "CMU.BEAT a:1:1",
        "CMU.REPORT a:1:1 HIGHEST 0",
        "CMU.ASK LIST",
        "CMU.DRAIN a:1:1",
        "CMU.DOWN a:1:1",
    ] {
        assert_eq!(there.code(line), "READONLY", "{line}");
    }
    assert_eq!(server.digest(), replica.digest());
}

#[test]
fn a_dump_a_type_and_a_scan_know_a_realm_and_reads_leave_its_frequency_alone() {
    let (server, other) = (RedisServer::start(), RedisServer::start());
    let mut realm = Realm::create(&server, &UNITS);
    realm.ok("CONF.REALM CREATETIMEOUT 3600000");
    realm.open("7");
    realm.begin("8", "SIZE 3 REQUEST r");
    realm.ok("CMU.DOWN a:1:1");
    let mut client = server.raw();
    assert_eq!(client.words(&format!("TYPE {REALM}")), Reply::Simple("allotconf".into()));
    client.words("SET beside text");
    let found = client.words("SCAN 0 COUNT 1000 TYPE allotconf");
    assert_eq!(found.array()[1].array(), [Reply::bulk(REALM)]);
    let Reply::Bulk(dump) = client.call(&["DUMP", REALM]) else { panic!("no dump") };
    let restore = |client: &mut RawClient, how: &[u8]| {
        client.call(&[&b"RESTORE"[..], REALM.as_bytes(), b"0", &dump, how])
    };
    assert!(restore(&mut client, b"ABSTTL").error().starts_with("BUSYKEY "));
    let mut there = other.raw();
    there.words(&format!("SET {REALM} text"));
    assert_eq!(restore(&mut there, b"REPLACE"), Reply::Simple("OK".into()));
    assert_eq!(other.digest_value(REALM), server.digest_value(REALM));
    assert_eq!(allot_info(&other, "conf_pending"), 1);
    let mut restored = Realm::of(&other);
    assert_eq!(restored.ok("CONF.RECOVER").array().len(), 1);
    // Reads do not count as use; what changes it does.
    client.words("CONFIG SET maxmemory-policy allkeys-lfu");
    let frequency = |client: &mut RawClient| client.words(&format!("OBJECT FREQ {REALM}")).int();
    realm.ok("CMU.BEAT b:1:1");
    let before = frequency(&mut client);
    for _ in 0..3000 {
        for line in [["CONF.STAT", REALM], ["CONF.LIST", REALM], ["CMU.LIST", REALM], ["CONF.PLAN", REALM]] {
            client.send(&line);
        }
        for _ in 0..4 {
            assert!(matches!(client.read(), Reply::Array(_)));
        }
    }
    assert!(frequency(&mut client) <= before);
    eventually("beats to count as use", TIMEOUT, || {
        realm.ok("CMU.BEAT b:1:1");
        frequency(&mut client) > before
    });
    no_internal_errors(&server);
}

#[test]
fn memory_usage_of_a_realm_is_true_within_a_fifth() {
    const COUNT: usize = 50_000;
    let server = quiet();
    let before = used(&server);
    let mut realm = Realm::create(&server, &UNITS);
    realm.ok("CONF.REALM CREATETIMEOUT 3600000");
    for first in (0..COUNT).step_by(1000) {
        for number in first..first + 1000 {
            let (e164, request) = (format!("4930{number:08}"), format!("r{number:08}"));
            realm.client.send(&["CONF.CREATE", REALM, &e164, "REQUEST", &request]);
        }
        for _ in 0..1000 {
            assert!(matches!(realm.client.read(), Reply::Array(_)));
        }
    }
    eventually("all to be sent", TIMEOUT, || realm.stat("unsent") == 0);
    // Its streams are keys of their own.
    for stream in ["evt", "cmd:a:1:1", "cmd:b:1:1", "cmd:c:1:1"] {
        realm.client.words(&format!("DEL {REALM}:{stream}"));
    }
    usage_is_true(&server, before, &[REALM]);
}

#[test]
fn every_event_is_a_keyspace_notification() {
    let server = RedisServer::start();
    let mut realm = Realm::of(&server);
    realm.client.words("CONFIG SET notify-keyspace-events Ed$");
    let mut listener = server.raw();
    listener.words("PSUBSCRIBE __keyevent@0__:*");
    let mut ender = server.raw();
    let mut next = || {
        let message = listener.read();
        let event = message.array()[2].text();
        let event = event.strip_prefix("__keyevent@0__:allot.").map(str::to_owned);
        assert_eq!(message.array()[3], Reply::bulk(if event.is_some() { REALM } else { "end" }));
        event
    };
    // All up to a change of another kind.
    let mut heard = || {
        ender.words("SET end 1");
        std::iter::from_fn(&mut next).collect::<Vec<String>>()
    };
    let mut tell = |realm: &mut Realm, line: &str, events: &[&str]| {
        let reply = realm.ok(line);
        assert_eq!(heard(), events, "{line}");
        reply
    };
    let epoch_of = |realm: &mut Realm, e164: &str| realm.place(e164).1;
    tell(&mut realm, "CONF.REALM", &["conf.realm-opened"]);
    let settings = "RETRY 1 CREATETIMEOUT 3600000 RELEASETIMEOUT 3600000 WAITTIMEOUT 3600000";
    tell(&mut realm, &format!("CONF.REALM {settings}"), &["conf.realm-configured"]);
    tell(&mut realm, "CONF.TERM 1 css", &["conf.claimed"]);
    for cmu in ["a:1:1", "b:1:1"] {
        tell(&mut realm, &format!("CMU.JOIN {cmu} CAPACITY 9 LEASE 3600000000"), &["cmu.joined"]);
    }
    tell(&mut realm, "CMU.BEAT a:1:1 LOAD 3", &["cmu.beat"]);
    tell(&mut realm, "CMU.ASK LIST", &["cmu.asked"]);
    // A life.
    tell(&mut realm, "CONF.CREATE 7 REQUEST r", &["conf.created"]);
    tell(&mut realm, "CONF.CREATE 7 REQUEST r", &[]);
    let first = epoch_of(&mut realm, "7");
    tell(&mut realm, &format!("CONF.ACK 7 a:1:1 {first}"), &["conf.opened"]);
    tell(&mut realm, &format!("CONF.SET 7 a:1:1 {first} 1 members 3"), &["conf.set"]);
    tell(&mut realm, "CONF.EXTEND 7 END 4000000000000", &["conf.extended"]);
    // A loss, a recovery that fails and one that does not.
    tell(&mut realm, "CMU.DOWN a:1:1", &["cmu.down"]);
    tell(&mut realm, "CONF.RECOVER", &["conf.granted"]);
    let failed = epoch_of(&mut realm, "7");
    tell(&mut realm, &format!("CONF.NACK 7 b:1:1 {failed} full"), &["conf.refused", "conf.failed"]);
    tell(&mut realm, "CMU.JOIN c:1:1 CAPACITY 9 LEASE 3600000000", &["cmu.joined"]);
    eventually("its time to come", TIMEOUT, || {
        realm.ok("CONF.PLAN").array()[0].field("why") == Reply::bulk("due")
    });
    tell(&mut realm, "CONF.RECOVER", &["conf.granted"]);
    let (cmu, second, _) = realm.place("7");
    tell(&mut realm, &format!("CONF.ACK 7 {cmu} {second}"), &["conf.opened"]);
    tell(&mut realm, &format!("CONF.ACK 7 {cmu} {failed}"), &["conf.disowned"]);
    // The first is heard again, and has missed what it was told.
    tell(&mut realm, "CMU.JOIN a:1:1 CAPACITY 9 LEASE 3600000000", &["cmu.joined"]);
    let report = format!("CMU.REPORT a:1:1 HIGHEST {first} 7 {first}");
    tell(&mut realm, &report, &["cmu.reported", "conf.adopted"]);
    tell(&mut realm, &report, &["cmu.reported", "conf.epoch-again"]);
    // Moves.
    tell(&mut realm, "CONF.MOVE 7 TO b:1:1", &["conf.moving"]);
    let moving = |realm: &mut Realm| realm.ok("CONF.INFO 7").field("moving_epoch").int();
    let epoch = moving(&mut realm);
    tell(&mut realm, &format!("CONF.NACK 7 b:1:1 {epoch}"), &["conf.move-failed"]);
    tell(&mut realm, "CONF.MOVE 7 TO c:1:1", &["conf.moving"]);
    let epoch = moving(&mut realm);
    tell(&mut realm, &format!("CONF.ACK 7 c:1:1 {epoch}"), &["conf.moved"]);
    tell(&mut realm, "CMU.DRAIN b:1:1", &["cmu.drained"]);
    // A new scheduler, and the end.
    tell(&mut realm, "CONF.RESTART LIVE 2 a:1:1 c:1:1", &["conf.restarted"]);
    tell(
        &mut realm,
        &format!("CMU.REPORT c:1:1 HIGHEST {epoch} 7 {epoch}"),
        &["cmu.reported", "conf.opened"],
    );
    tell(&mut realm, "CONF.RELEASE 7", &["conf.ending"]);
    tell(&mut realm, &format!("CONF.ENDED 7 c:1:1 {epoch}"), &["conf.ended"]);
    // And what the timer does, which comes when it comes.
    realm.ok("CMU.JOIN d:1:1 CAPACITY 9 LEASE 4000");
    realm.ok("CMU.DOWN a:1:1");
    realm.ok("CONF.REALM TOMBSTONE 50");
    let mut missing = vec!["conf.removed", "cmu.lapsed", "cmu.lapsed", "cmu.forgotten"];
    while !missing.is_empty() {
        let event = next().expect("an event");
        if let Some(at) = missing.iter().position(|name| *name == event) {
            missing.remove(at);
        }
    }
    no_internal_errors(&server);
}
