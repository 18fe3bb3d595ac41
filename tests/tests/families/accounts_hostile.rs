//! Books of accounts under payloads damaged on purpose and commands of random words.

use allot_tests::books::{BOOK, Book, BookWorkload};
use allot_tests::damage::{Dump, mutate};
use allot_tests::garbage::Garbage;
use allot_tests::shows::no_internal_errors;
use allot_tests::{Random, RawClient, RedisServer, Reply, soak};

/// A value's payload, and that of the value restored from it.
const DUMP_TWICE: &[u8] = b"local payload = redis.call('DUMP', KEYS[1]) \
    redis.call('RESTORE', KEYS[2], 0, payload, 'REPLACE') return {payload, redis.call('DUMP', KEYS[2])}";

/// A value that was let in must work like any other.
fn must_work(client: &mut RawClient, key: &str) {
    for line in [
        "INFO",
        "LIST COUNT 1000",
        "USAGE BY module",
        "USAGE BY account",
        "MODULE new DEPARTMENT d INSTANCES 2",
        "ADD new QUOTA 5 ACCOUNTS 2 q1 q2",
        "ATTACH new i",
        "ATTACH m a",
        "LOGIN q1 i t TTL 1000",
        "PICK m a COUNT 5",
        "FREEZE p1",
        "REBALANCE",
        "MODULE m DEPARTMENT d INSTANCES 1",
        "MOVE new 1 p2",
        "DETACH m b",
        "DEL 2 p3 q1",
        "INFO m",
    ] {
        let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
        if let Reply::Error(text) = client.words(&format!("ACCOUNT.{command} {key} {rest}")) {
            let code = text.split(' ').next().unwrap_or_default();
            let codes = ["LIMIT", "EXISTS", "STALE", "NOTFOUND", "BADSTATE", "NOTOWNER", "ERR"];
            assert!(codes.contains(&code) && !text.contains("internal"), "{line}: {text}");
        }
    }
    // In one step: else the timer may change one of the two first.
    let again: [&[u8]; 5] = [b"EVAL", DUMP_TWICE, b"2", key.as_bytes(), b"again"];
    let dumps = client.call(&again);
    if let Reply::Error(text) = &dumps {
        let value = Dump::of(client, key).value;
        panic!("{text}: {:?} of {}", allot_core::account::Book::decode(&value).err(), value.escape_ascii());
    }
    assert_eq!(dumps.array()[0], dumps.array()[1]);
    client.words(&format!("DEL {key} again"));
}

#[test]
fn a_damaged_payload_under_a_right_checksum_is_refused_or_works() {
    let server = RedisServer::builder().arg("rdbcompression", "no").start();
    let mut client = server.raw();
    let mut small = Book::create(&server, 2);
    small.add("m", 0..6);
    small.ok("ATTACH m a");
    small.ok("ATTACH m b");
    let holder = small.account("p1", "instance").text();
    small.ok(&format!("LOGIN p1 {holder} t TTL 3600000"));
    let epoch = small.account("p1", "login_epoch").int();
    small.ok(&format!("USE p1 {epoch} COUNT 20"));
    let mut dumps = vec![Dump::of(&mut client, BOOK)];
    BookWorkload::new(&server, 81).run(400);
    dumps.push(Dump::of(&mut client, BOOK));
    client.words(&format!("DEL {BOOK}"));
    for dump in &dumps {
        let restored = client.call(&[&b"RESTORE"[..], b"x", b"0", &dump.with(&dump.value)]);
        assert_eq!(restored, Reply::Simple("OK".into()));
        must_work(&mut client, "x");
    }
    let (mut random, mut let_in, mut refused) = (Random::new(83), 0, 0);
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
    "ACCOUNT.BOOK",
    "ACCOUNT.TERM",
    "ACCOUNT.MODULE",
    "ACCOUNT.ADD",
    "ACCOUNT.DEL",
    "ACCOUNT.MOVE",
    "ACCOUNT.FREEZE",
    "ACCOUNT.ATTACH",
    "ACCOUNT.DETACH",
    "ACCOUNT.LOGIN",
    "ACCOUNT.RENEW",
    "ACCOUNT.LOGOUT",
    "ACCOUNT.USE",
    "ACCOUNT.PICK",
    "ACCOUNT.REBALANCE",
    "ACCOUNT.INFO",
    "ACCOUNT.LIST",
    "ACCOUNT.USAGE",
    "ACCOUNT.HISTORY",
    "ACCOUNT.APPLY",
];

const TEMPLATES: &[&str] = &[
    "ACCOUNT.BOOK k CAP 1000 DWELL 0 MAXMOVES 3 TURNS 4000000000000 4100000000000",
    "ACCOUNT.TERM k 3 css",
    "ACCOUNT.MODULE k m DEPARTMENT d INSTANCES 2 WEIGHT 2 RESERVE 1",
    "ACCOUNT.MODULE k n DEPARTMENT d INSTANCES 1",
    "ACCOUNT.ADD k m QUOTA 100 TIERS 2 150 0.1 1000 0.5 ACCOUNTS 3 p1 p2 p3",
    "ACCOUNT.ADD k * QUOTA 7 ACCOUNTS 2 q1 q2",
    "ACCOUNT.DEL k 1 p3",
    "ACCOUNT.MOVE k n 2 p1 p2",
    "ACCOUNT.FREEZE k p2",
    "ACCOUNT.FREEZE k p2 OFF",
    "ACCOUNT.ATTACH k m a",
    "ACCOUNT.ATTACH k n b",
    "ACCOUNT.DETACH k m a GRACE 5",
    "ACCOUNT.LOGIN k p1 a t TTL 1000",
    "ACCOUNT.RENEW k p1 5 TTL 1000",
    "ACCOUNT.LOGOUT k p1 5",
    "ACCOUNT.USE k p1 5 COUNT 3",
    "ACCOUNT.PICK k m a COUNT 2",
    "ACCOUNT.REBALANCE k DRYRUN MAXMOVES 5",
    "ACCOUNT.INFO k m",
    "ACCOUNT.LIST k MODULE m INSTANCE a STATE dealt COUNT 5",
    "ACCOUNT.USAGE k BY account AGO 0",
    "ACCOUNT.HISTORY k p1",
    "COPY k k2 REPLACE",
    "RENAME k2 k3",
];

/// Names and keywords of the family.
const WORDS: &[&str] = &[
    "m",
    "n",
    "a",
    "b",
    "p1",
    "p2",
    "p3",
    "q1",
    "t",
    "d",
    "*",
    "CAP",
    "DWELL",
    "MAXMOVES",
    "TURNS",
    "DEPARTMENT",
    "INSTANCES",
    "WEIGHT",
    "RESERVE",
    "QUOTA",
    "TIERS",
    "ACCOUNTS",
    "0.5",
    "1.",
    "GRACE",
    "TTL",
    "COUNT",
    "TERM",
    "FORCE",
    "OFF",
    "BY",
    "AGO",
    "CURSOR",
    "STATE",
    "dealt",
    "MODULE",
    "INSTANCE",
    "DRYRUN",
];

#[test]
fn random_commands_of_random_words_do_no_harm() {
    let server = RedisServer::builder().arg("latency-tracking", "no").arg("slowlog-max-len", "0").start();
    let mut clients = [server.raw(), server.raw()];
    clients[1].hello3();
    let garbage = Garbage { commands: COMMANDS, templates: TEMPLATES, words: WORDS };
    garbage.pour(&mut clients, 82, soak(60_000, 1_000_000), |client| {
        client.words("ACCOUNT.BOOK k");
        client.words("ACCOUNT.MODULE k m DEPARTMENT d INSTANCES 2");
        client.words("ACCOUNT.MODULE k n DEPARTMENT d INSTANCES 2");
    });
    must_work(&mut clients[0], "k");
    no_internal_errors(&server);
}
