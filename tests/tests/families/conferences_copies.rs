//! Copies of a realm are realms of their own: with other streams, other epochs and their own deadlines.

use allot_tests::raw::RawClient;
use allot_tests::realms::{REALM, Realm, UNITS};
use allot_tests::shows::{allot_info, no_internal_errors};
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
fn copied_and_restored_realms_have_no_streams_and_take_units_up() {
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
fn restored_realm_counts_and_recovers_its_pending_conferences() {
    let (server, other) = (RedisServer::start(), RedisServer::start());
    let mut realm = Realm::create(&server, &UNITS);
    realm.ok("CONF.REALM CREATETIMEOUT 3600000");
    realm.open("7");
    realm.begin("8", "SIZE 3 REQUEST r");
    realm.ok("CMU.DOWN a:1:1");
    let Reply::Bulk(dump) = server.raw().call(&["DUMP", REALM]) else { panic!("no dump") };
    let restored = other.raw().call(&[&b"RESTORE"[..], REALM.as_bytes(), b"0", &dump]);
    assert_eq!(restored, Reply::Simple("OK".into()));
    assert_eq!(other.digest_value(REALM), server.digest_value(REALM));
    assert_eq!(allot_info(&other, "conf_pending"), 1);
    assert_eq!(Realm::of(&other).ok("CONF.RECOVER").array().len(), 1);
    assert_eq!(allot_info(&other, "conf_pending"), 0);
    for server in [&server, &other] {
        no_internal_errors(server);
    }
}

#[test]
fn moved_and_copied_realms_tell_of_their_own_timeouts() {
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
fn realm_works_in_transactions_and_scripts() {
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
    let (created, shown) = (replies[0].record(), replies[1].record());
    let (evt, record) = created.split_last().unwrap();
    assert_eq!((evt.0.as_str(), record), ("evt", &shown[..]));
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
