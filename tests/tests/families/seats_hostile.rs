//! What nobody should send: payloads damaged on purpose under a right checksum, and commands of random words. The
//! server stays up, nothing is answered `ERR internal`, the books balance, no memory is lost.

use allot_tests::damage::{Dump, crc64, mutate, sealed};
use allot_tests::raw::RawClient;
use allot_tests::seat_workload::LONG_TTL_MS;
use allot_tests::shows::{THEATRE, books, create, hold, no_internal_errors, sample_venue};
use allot_tests::wait::TIMEOUT;
use allot_tests::{Random, RedisServer, Reply, SeatWorkload, eventually, soak};

#[test]
fn the_checksum_is_that_of_redis() {
    assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
}

/// A value's payload, and that of the value restored from it.
const DUMP_TWICE: &[u8] = b"local payload = redis.call('DUMP', KEYS[1]) \
    redis.call('RESTORE', KEYS[2], 0, payload, 'REPLACE') return {payload, redis.call('DUMP', KEYS[2])}";

/// A value that was let in must work like any other.
fn must_work(client: &mut RawClient, key: &[u8]) {
    let all = books(client, key).all();
    let Reply::Bulk(plan) = client.call(&[b"SEAT.PLAN", key]) else { panic!("no plan") };
    assert_eq!(client.call(&[&b"SEAT.CREATE"[..], b"empty", &plan]), Reply::Simple("OK".into()));
    assert_eq!(books(client, b"empty").all(), all);
    let hold: [&[u8]; 8] = [b"SEAT.HOLD", key, b"me", b"1", b"TTL", b"60000", b"TOKEN", b"mine"];
    let reply = client.call(&hold);
    match &reply {
        Reply::Array(_) => assert_eq!(client.call(&[b"SEAT.CONFIRM", key, b"mine"]), Reply::Int(1)),
        Reply::NullArray => {}
        Reply::Error(text) => assert!(text.starts_with("LIMIT ") || text.starts_with("EXISTS "), "{text}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(books(client, key).all(), all);
    // In one step: else the timer may free what is overdue in one of the two first, and at another time.
    let again: [&[u8]; 5] = [b"EVAL", DUMP_TWICE, b"2", key, b"again"];
    let dumps = client.call(&again);
    if let Reply::Error(text) = &dumps {
        let value = Dump::of(client, std::str::from_utf8(key).unwrap()).value;
        panic!("{text}: {:?} of {}", allot_core::seat::Show::decode(&value).err(), value.escape_ascii());
    }
    assert_eq!(dumps.array()[0], dumps.array()[1]);
    client.call(&[b"DEL", key, b"again", b"empty"]);
}

#[test]
fn a_damaged_payload_under_a_right_checksum_is_refused_or_works() {
    let server = RedisServer::builder().arg("rdbcompression", "no").start();
    let mut client = server.raw();
    create(&server, "busy", &THEATRE.replacen("{\"areas\"", "{\"events\":9,\"areas\"", 1));
    // Messages that could not be sent stay in the value.
    client.words("SET busy:evt 1");
    SeatWorkload::new(server.raw(), "busy", 30).run(60);
    create(&server, "small", &sample_venue(2, 5));
    for number in 0..3 {
        hold(&mut client, "small", &format!("u{number}"), 2, LONG_TTL_MS, &format!("t{number}"));
    }
    client.words("SEAT.CONFIRM small t1 ORDER o");
    client.words("SEAT.BLOCK small 1 a-2-5");
    let dumps =
        [Dump::of(&mut client, "busy"), Dump::of(&mut client, "small"), Dump::of(&mut client, "small")];
    for dump in &dumps {
        assert_eq!(
            client.call(&[&b"RESTORE"[..], b"x", b"0", &dump.with(&dump.value)]),
            Reply::Simple("OK".into())
        );
        must_work(&mut client, b"x");
    }
    let (mut random, mut let_in, mut refused) = (Random::new(31), 0, 0);
    for _ in 0..soak(100_000, 1_000_000) {
        let dump = random.of(&dumps);
        let mut value = dump.value.clone();
        // The plan takes most of the room; what follows it is what deserves most of the damage.
        let plan_ends =
            value.windows(2).rposition(|pair| pair == b"}}" || pair == b"0}").map_or(0, |at| at + 2);
        let payload = match random.below(10) {
            0 => {
                let mut whole = dump.with(&value);
                whole.truncate(whole.len() - 10);
                mutate(&mut random, &mut whole);
                whole.extend(&dump.version);
                sealed(whole)
            }
            1..=3 => {
                mutate(&mut random, &mut value);
                dump.with(&value)
            }
            _ => {
                let mut tail = value.split_off(plan_ends);
                mutate(&mut random, &mut tail);
                value.extend(tail);
                dump.with(&value)
            }
        };
        match client.call(&[&b"RESTORE"[..], b"x", b"0", &payload]) {
            Reply::Simple(_) if client.words("TYPE x") == Reply::Simple("allotseat".into()) => {
                let_in += 1;
                must_work(&mut client, b"x");
            }
            Reply::Simple(_) => drop(client.words("DEL x")),
            Reply::Error(text) => {
                refused += 1;
                assert!(text.starts_with("ERR Bad data format") || text.starts_with("BUSYKEY"), "{text}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(let_in > 100 && refused > 100, "{let_in} let in, {refused} refused");
    no_internal_errors(&server);
}

#[test]
fn a_payload_of_another_version_is_refused() {
    let server = RedisServer::builder().arg("rdbcompression", "no").start();
    let mut client = server.raw();
    create(&server, "show", &sample_venue(2, 5));
    let dump = Dump::of(&mut client, "show");
    let mut value = dump.value.clone();
    value[0] += 1;
    let refused = client.call(&[&b"RESTORE"[..], b"x", b"0", &dump.with(&value)]);
    assert_eq!(refused.error(), "ERR Bad data format");
    let mut payload = dump.with(&dump.value);
    payload.truncate(payload.len() - 8);
    // The low bits of the module's id are the version of the encoding.
    payload[9] = payload[9] & !3 | 2;
    assert_eq!(client.call(&[&b"RESTORE"[..], b"x", b"0", &sealed(payload)]).error(), "ERR Bad data format");
    let log = server.log();
    assert!(log.contains("the version of the encoding is unknown"), "{log}");
    assert!(log.contains("written by a version that this one does not know"), "{log}");
    no_internal_errors(&server);
}

const COMMANDS: &[&str] = &[
    "SEAT.CREATE",
    "SEAT.ALTER",
    "SEAT.HOLD",
    "SEAT.PICK",
    "SEAT.EXTEND",
    "SEAT.CONFIRM",
    "SEAT.RELEASE",
    "SEAT.REFUND",
    "SEAT.ORDER",
    "SEAT.BLOCK",
    "SEAT.UNBLOCK",
    "SEAT.GET",
    "SEAT.HOLDS",
    "SEAT.STAT",
    "SEAT.MAP",
    "SEAT.PLAN",
    "SEAT.ZMPOP",
    "SEAT.APPLY",
    "NUMPOOL.ADD",
    "NUMPOOL.DEL",
    "NUMPOOL.REG",
    "NUMPOOL.UNREG",
    "NUMPOOL.CALL",
    "NUMPOOL.HANGUP",
    "NUMPOOL.RENEW",
    "NUMPOOL.RECONCILE",
    "NUMPOOL.LEASES",
    "NUMPOOL.GET",
    "NUMPOOL.INFO",
    "NUMPOOL.SCAN",
    "NUMPOOL.CONFIG",
    "NUMPOOL.APPLY",
];

/// Calls that make sense, from which those that make none are made.
const TEMPLATES: &[&str] = &[
    "SEAT.HOLD k u 2 TTL 5000 TOKEN t",
    "SEAT.HOLD k u 3 TTL 50 TIER gold AREAS 2 left right ADJACENT AREA ORPHANS ALLOW FLAGS 1 wheelchair",
    "SEAT.HOLD k u 1 TTL 100000 ADJACENT IGNORE REPLACE t OTHER TOKEN t2",
    "SEAT.HOLD k v 6 TTL 3153600000 ADJACENT REQUIRE ORPHANS FORBID",
    "SEAT.PICK k u TTL 5000 TOKEN t SEATS 2 back-1-1 back-1-2",
    "SEAT.EXTEND k t TTL 5000",
    "SEAT.CONFIRM k t USER u ORDER o",
    "SEAT.RELEASE k t SEATS 1 back-1-1",
    "SEAT.RELEASE k t2",
    "SEAT.REFUND k ORDER o 1 back-1-1",
    "SEAT.REFUND k 1 left-A-1",
    "SEAT.ORDER k o",
    "SEAT.BLOCK k 2 left-A-1 left-A-2",
    "SEAT.UNBLOCK k 1 left-A-1",
    "SEAT.GET k left-A-1",
    "SEAT.HOLDS k u",
    "SEAT.STAT k TIER gold AREA left",
    "SEAT.MAP k left",
    "SEAT.PLAN k",
    "SEAT.ZMPOP 1 z MIN COUNT 2 ADJACENT STRIDE 100",
    "SEAT.ZMPOP 2 z k MAX COUNT 1",
    r#"SEAT.ALTER k {"events":3,"limits":{"holds_per_user":2}}"#,
    r#"SEAT.ALTER k {"areas":[{"id":"back","rows":[{"label":"1","tier":"gold"}]}]}"#,
    "SEAT.APPLY k payload",
    "NUMPOOL.ADD p 138 139 +49170",
    "NUMPOOL.DEL p 138 139 DRAIN",
    "NUMPOOL.REG p 138 +49170 TTL 5000 SWITCH sw",
    "NUMPOOL.UNREG p 138",
    "NUMPOOL.UNREG p SWITCH sw",
    "NUMPOOL.CALL p TTL 50 LEASE t SWITCH sw PEER bob PREFIX 13 PICK STICKY",
    "NUMPOOL.CALL p 138 LEASE t2",
    "NUMPOOL.CALL p PICK RANDOM",
    "NUMPOOL.HANGUP p 138 LEASE t COOLDOWN 20",
    "NUMPOOL.HANGUP p 139",
    "NUMPOOL.RENEW p 138 LEASE t TTL 100",
    "NUMPOOL.RECONCILE p SWITCH sw BEFORE 1700000000000 LEASE t t2",
    "NUMPOOL.LEASES p SWITCH sw CURSOR 0 COUNT 5",
    "NUMPOOL.GET p 138",
    "NUMPOOL.INFO p",
    "NUMPOOL.SCAN p 0 STATE idle+up COUNT 3",
    "NUMPOOL.CONFIG p LEASE 100 COOLDOWN 10 REGTTL 1000 PICK LEASTUSED EVENTS 2",
    "NUMPOOL.APPLY p payload",
    "ZADD z 1 a 2 b 3 c 100 d 101 e",
    "COPY k k2 REPLACE",
    "RENAME k2 k3",
];

fn random_word(random: &mut Random) -> Vec<u8> {
    const NUMBERS: &[&str] = &[
        "0",
        "1",
        "-1",
        "2",
        "100",
        "101",
        "4096",
        "2147483647",
        "2147483648",
        "-2147483649",
        "4294967296",
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "1e3",
        "1.5",
        "007",
        "+1",
        " 1",
        "",
        "nan",
        "inf",
    ];
    const WORDS: &[&str] = &[
        "k",
        "k2",
        "s",
        "z",
        "none",
        "t",
        "t2",
        "u",
        "o",
        "left",
        "left-A-1",
        "back-2-20",
        "left-B-2",
        "gold",
        "TTL",
        "TIER",
        "AREAS",
        "SEATS",
        "TOKEN",
        "ADJACENT",
        "PREFER",
        "ORPHANS",
        "FORBID",
        "FLAGS",
        "REPLACE",
        "OTHER",
        "ORDER",
        "USER",
        "AREA",
        "MIN",
        "MAX",
        "COUNT",
        "STRIDE",
        "--",
        "-",
        "a--",
        "left-",
        "\u{100}",
        "\0",
        "%s%n",
        "\r\n",
        "{}",
        "[]",
        "null",
    ];
    match random.below(10) {
        0..=2 => random.of(NUMBERS).as_bytes().to_vec(),
        3..=6 => random.of(WORDS).as_bytes().to_vec(),
        7 => {
            let len = *random.of(&[0, 1, 255, 256, 257, 1000]);
            vec![*random.of(&[b'a', b'-', 0, 0xff]); len]
        }
        8 => {
            let len = random.below(40);
            random.bytes(len)
        }
        _ => {
            let mut plan = THEATRE.as_bytes().to_vec();
            mutate(random, &mut plan);
            plan
        }
    }
}

fn random_call(random: &mut Random) -> Vec<Vec<u8>> {
    if random.once_in(6) {
        let command = random.of(COMMANDS).as_bytes().to_vec();
        let words = random.below(8);
        return std::iter::once(command).chain((0..words).map(|_| random_word(random))).collect();
    }
    let mut call: Vec<Vec<u8>> =
        random.of(TEMPLATES).split(' ').map(|word| word.as_bytes().to_vec()).collect();
    let changes = *random.of(&[0, 0, 0, 1, 1, 2]);
    for _ in 0..changes {
        let at = random.within(1, call.len() - 1);
        match random.below(6) {
            0 => drop(call.remove(at)),
            1 => call.insert(at, random_word(random)),
            2 => {
                let again = call[at].clone();
                call.push(again);
            }
            _ => call[at] = random_word(random),
        }
        if call.len() < 2 {
            break;
        }
    }
    call
}

#[test]
fn random_commands_of_random_words_do_no_harm() {
    // Redis keeps 20 KB for the latencies of each command once called, and slow ones in a log.
    let server = RedisServer::builder().arg("latency-tracking", "no").arg("slowlog-max-len", "0").start();
    let mut clients = [server.raw(), server.raw()];
    clients[1].hello3();
    let prepare = |client: &mut RawClient| {
        client.words("SET s text");
        client.call(&["SEAT.CREATE", "k", THEATRE]);
    };
    // What the server keeps after its first load and flush is its own.
    prepare(&mut clients[0]);
    clients[0].words("FLUSHALL SYNC");
    let used = || server.info_field("memory", "used_memory").parse::<i64>().unwrap();
    let (before, mut random) = (used(), Random::new(32));
    let codes = [
        "ERR",
        "WRONGTYPE",
        "NOKEY",
        "EXISTS",
        "NOTFOUND",
        "BADSTATE",
        "NOTOWNER",
        "LIMIT",
        "NOADJACENT",
        // Redis' own, of the ordinary commands above.
        "INVALIDOBJ",
    ];
    let (mut fine, mut refused) = (0, 0);
    for step in 0..soak(100_000, 1_000_000) {
        let client = &mut clients[step % 2];
        if step % 500 == 0 {
            client.words("DEL k");
            prepare(client);
        }
        let call = random_call(&mut random);
        if let Reply::Error(text) = client.call(&call) {
            refused += 1;
            let code = text.split(' ').next().unwrap();
            assert!(codes.contains(&code) && !text.contains("internal"), "{call:?} was answered {text:?}");
            assert!(text.is_ascii() && text.len() < 1000, "{text:?}");
        } else {
            fine += 1;
        }
        if step % 250 == 0 {
            for key in ["k", "k2", "k3"] {
                if client.words(&format!("TYPE {key}")) == Reply::Simple("allotseat".into()) {
                    let all = books(client, key.as_bytes());
                    assert!(all.all() > 0, "{all:?}");
                    if client.words(&format!("EXISTS {key}")) == Reply::Int(1) && all.all() != 75 {
                        // A mutated plan made this one.
                        client.words(&format!("DEL {key}"));
                    }
                }
            }
        }
    }
    assert!(fine > 2000 && refused > 2000, "{fine} went well, {refused} were refused");
    no_internal_errors(&server);
    clients[0].words("FLUSHALL SYNC");
    eventually("the memory to be given back", TIMEOUT, || used() - before < 128 * 1024);
}
