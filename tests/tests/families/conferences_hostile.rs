//! What nobody should send, for realms: payloads damaged on purpose under a right checksum, and commands of random
//! words. The server stays up, nothing is answered `ERR internal`, and a value that was let in works.

use allot_tests::damage::{Dump, mutate};
use allot_tests::garbage::Garbage;
use allot_tests::raw::RawClient;
use allot_tests::realms::{REALM, Realm, RealmWorkload, UNITS};
use allot_tests::shows::no_internal_errors;
use allot_tests::{Random, RedisServer, Reply, soak};

/// A realm's payload, and that of the realm restored from it.
const DUMP_TWICE: &[u8] = b"local payload = redis.call('DUMP', KEYS[1]) \
    redis.call('RESTORE', KEYS[2], 0, payload, 'REPLACE') return {payload, redis.call('DUMP', KEYS[2])}";

/// A value that was let in must work like any other.
fn must_work(client: &mut RawClient, key: &str) {
    let fine = |reply: Reply| {
        let text = match &reply {
            Reply::Error(text) => text.clone(),
            _ => return reply,
        };
        let code = text.split(' ').next().unwrap_or_default();
        assert!(["LIMIT", "EXISTS", "STALE", "NOTFOUND", "BADSTATE", "ERR"].contains(&code), "{text}");
        assert!(!text.contains("internal"), "{text}");
        reply
    };
    for line in [
        "CONF.STAT",
        "CMU.LIST",
        "CONF.LIST COUNT 1000",
        "CONF.PLAN",
        "CMU.JOIN new:1:1 CAPACITY 5",
        "CONF.CREATE mine REQUEST m",
        "CONF.RECOVER",
        "CONF.RESTART LIVE 1 h1:1:1",
        "CMU.DRAIN new:1:1 MOVE",
        "CONF.REALM RETRY 50",
        "CMU.DOWN h0:1:1",
        "CMU.DOWN h1:1:1",
        "CONF.RECOVER",
        "CMU.JOIN h0:1:2 CAPACITY 3",
        "CONF.RELEASE 491",
        "CMU.REPORT new:1:1 HIGHEST 9000000000000000",
        "CONF.LIST STATE ended",
        "CONF.PLAN",
    ] {
        let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
        fine(client.words(&format!("{command} {key} {rest}")));
    }
    // In one step: else the timer may change one of the two first.
    let again: [&[u8]; 5] = [b"EVAL", DUMP_TWICE, b"2", key.as_bytes(), b"again"];
    let dumps = client.call(&again);
    if let Reply::Error(text) = &dumps {
        let value = Dump::of(client, key).value;
        panic!("{text}: {:?} of {}", allot_core::conf::Realm::decode(&value).err(), value.escape_ascii());
    }
    assert_eq!(dumps.array()[0], dumps.array()[1]);
    client.words(&format!("DEL {key} again"));
}

#[test]
fn a_damaged_payload_under_a_right_checksum_is_refused_or_works() {
    let server = RedisServer::builder().arg("rdbcompression", "no").start();
    let mut client = server.raw();
    let mut small = Realm::create(&server, &UNITS);
    small.open("1");
    small.begin("2", "SIZE 3 END 4000000000000 REQUEST r");
    let (cmu, epoch) = small.open("3");
    small.ok(&format!("CONF.SET 3 {cmu} {epoch} 1 members 3 speaker ann"));
    small.ok("CONF.MOVE 3");
    small.ok("CMU.DOWN a:1:1");
    // Messages that could not be sent stay in the value.
    client.words(&format!("DEL {REALM}:evt"));
    client.words(&format!("SET {REALM}:evt text"));
    small.join("b:1:2");
    let mut dumps = vec![Dump::of(&mut client, REALM)];
    client.words(&format!("DEL {REALM}"));
    small.ok("CONF.REALM");
    RealmWorkload::new(&server, 71).run(300);
    dumps.push(Dump::of(&mut client, REALM));
    client.words(&format!("DEL {REALM}"));
    for dump in &dumps {
        let restored = client.call(&[&b"RESTORE"[..], b"x", b"0", &dump.with(&dump.value)]);
        assert_eq!(restored, Reply::Simple("OK".into()));
        must_work(&mut client, "x");
    }
    let (mut random, mut let_in, mut refused) = (Random::new(73), 0, 0);
    for _ in 0..soak(40_000, 1_000_000) {
        let dump = random.of(&dumps);
        let mut value = dump.value.clone();
        mutate(&mut random, &mut value);
        match client.call(&[&b"RESTORE"[..], b"x", b"0", &dump.with(&value)]) {
            Reply::Simple(_) => {
                let_in += 1;
                must_work(&mut client, "x");
            }
            Reply::Error(text) => {
                refused += 1;
                assert!(text.starts_with("ERR Bad data format"), "{text}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(let_in > 100 && refused > 100, "{let_in} let in, {refused} refused");
    no_internal_errors(&server);
}

const COMMANDS: &[&str] = &[
    "CONF.REALM",
    "CONF.TERM",
    "CONF.CREATE",
    "CONF.ACK",
    "CONF.NACK",
    "CONF.ENDED",
    "CONF.RELEASE",
    "CONF.EXTEND",
    "CONF.SET",
    "CONF.GET",
    "CONF.INFO",
    "CONF.HISTORY",
    "CONF.LIST",
    "CONF.STAT",
    "CONF.RECOVER",
    "CONF.RESTART",
    "CONF.MOVE",
    "CONF.PLAN",
    "CONF.APPLY",
    "CMU.JOIN",
    "CMU.BEAT",
    "CMU.REPORT",
    "CMU.ASK",
    "CMU.DRAIN",
    "CMU.DOWN",
    "CMU.LIST",
];

/// Calls that make sense, from which those that make none are made.
const TEMPLATES: &[&str] = &[
    "CONF.REALM k LICENCES 50 RETRY 100 WINDOW 5000 POLICY KEEP CREATETIMEOUT 50 RELEASETIMEOUT 50 WAITTIMEOUT 50",
    "CONF.REALM k TOMBSTONE 100 POLICY EARLIEST LICENCES 0",
    "CONF.TERM k 1 css FORCE",
    "CONF.CREATE k 7 END 4000000000000 SIZE 2 LICENCES 1 PRIORITY 3 ZONE z NORECOVER REQUEST r",
    "CONF.CREATE k 8",
    "CONF.CREATE k 9 SIZE 1",
    "CONF.ACK k 7 a:1:1 1",
    "CONF.NACK k 7 a:1:1 1 reason",
    "CONF.ENDED k 7 a:1:1 1",
    "CONF.RELEASE k 8",
    "CONF.EXTEND k 7 END 4000000000001",
    "CONF.SET k 8 a:1:1 1 1 members 3 speaker ann",
    "CONF.GET k 8 members",
    "CONF.INFO k 7",
    "CONF.HISTORY k 7",
    "CONF.LIST k STATE open CMU a:1:1 CURSOR 5 COUNT 10",
    "CONF.STAT k",
    "CONF.RECOVER k COUNT 5 TERM 1",
    "CONF.RESTART k LIVE 2 a:1:1 b:1:1 TERM 1",
    "CONF.MOVE k 8 TO b:1:1 TERM 1",
    "CONF.PLAN k DOWN a:1:1",
    "CONF.APPLY k payload",
    "CMU.JOIN k a:1:1 CAPACITY 10 ZONE z LEASE 1000",
    "CMU.JOIN k b:1:1 CAPACITY 10",
    "CMU.JOIN k a:1:2 CAPACITY 10",
    "CMU.BEAT k a:1:1 LOAD 5",
    "CMU.REPORT k a:1:1 HIGHEST 5 7 5 8 6",
    "CMU.ASK k a:1:1 DETAILS",
    "CMU.DRAIN k a:1:1 MOVE TERM 1",
    "CMU.DOWN k b:1:1 TERM 1",
    "CMU.LIST k",
    "COPY k k2 REPLACE",
    "RENAME k2 k3",
];

/// Names and keywords of the family.
const WORDS: &[&str] = &[
    "7",
    "8",
    "9",
    "a:1:1",
    "a:1:2",
    "b:1:1",
    "a:1",
    "::",
    ":",
    "z",
    "END",
    "SIZE",
    "LICENCES",
    "TERM",
    "LIVE",
    "HIGHEST",
    "CAPACITY",
    "ZONE",
    "LEASE",
    "MOVE",
    "OFF",
    "LIST",
    "DETAILS",
    "open",
    "STATE",
    "COUNT",
    "FORCE",
    "REQUEST",
    "NORECOVER",
    "POLICY",
    "KEEP",
];

#[test]
fn random_commands_of_random_words_do_no_harm() {
    let server = RedisServer::builder().arg("latency-tracking", "no").arg("slowlog-max-len", "0").start();
    let mut clients = [server.raw(), server.raw()];
    clients[1].hello3();
    let garbage = Garbage { commands: COMMANDS, templates: TEMPLATES, words: WORDS };
    garbage.pour(&mut clients, 72, soak(60_000, 1_000_000), |client| {
        client.words("CONF.REALM k");
        client.words("CMU.JOIN k a:1:1 CAPACITY 10");
    });
    must_work(&mut clients[0], "k");
    no_internal_errors(&server);
}
