//! What no client should send: payloads damaged on purpose under a right checksum, and commands of random words. The
//! server stays up, nothing is answered `ERR internal`, the sums are right, and no memory is lost.

use allot_tests::damage::{Dump, crc64, mutate, sealed};
use allot_tests::raw::{RawClient, Reply};
use allot_tests::shows::no_internal_errors;
use allot_tests::usage::{quiet, used};
use allot_tests::wait::TIMEOUT;
use allot_tests::{Random, RedisServer, eventually, soak};

use crate::family::{Family, KEY, State};

for_each_family! {
    damaged_payload_is_refused_or_works,
    payload_of_another_version_is_refused,
    random_commands_do_no_harm,
}

#[test]
fn checksum_is_that_of_redis() {
    assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
}

/// A value's payload, and the payload of the value restored from it. In one step, because the timer may change one of
/// the two first.
const DUMP_TWICE: &[u8] = b"local payload = redis.call('DUMP', KEYS[1]) \
    redis.call('RESTORE', KEYS[2], 0, payload, 'REPLACE') return {payload, redis.call('DUMP', KEYS[2])}";

/// A value that was let in must work like any other. It is gone afterwards.
fn must_work<F: Family>(client: &mut RawClient, key: &str) {
    F::use_value(client, key);
    let dumps = client.call(&[b"EVAL", DUMP_TWICE, b"2", key.as_bytes(), b"again"]);
    if let Reply::Error(text) = &dumps {
        let value = Dump::of(client, key).value;
        panic!("{text}: {:?} of {}", F::State::decode_error(&value), value.escape_ascii());
    }
    assert_eq!(dumps.array()[0], dumps.array()[1]);
    client.words(&format!("DEL {key} again"));
}

/// A payload with some bytes changed: mostly of the value from this place, sometimes of all.
fn damaged(random: &mut Random, dump: &Dump, from: usize) -> Vec<u8> {
    let mut value = dump.value.clone();
    match random.below(10) {
        0 => {
            let mut whole = dump.with(&value);
            whole.truncate(whole.len() - 10);
            mutate(random, &mut whole);
            whole.extend(&dump.version);
            sealed(whole)
        }
        1..=3 => {
            mutate(random, &mut value);
            dump.with(&value)
        }
        _ => {
            let mut tail = value.split_off(from);
            mutate(random, &mut tail);
            value.extend(tail);
            dump.with(&value)
        }
    }
}

fn damaged_payload_is_refused_or_works<F: Family>() {
    let server = RedisServer::builder().arg("rdbcompression", "no").start();
    let mut client = server.raw();
    let dumps = F::dumps(&server);
    client.words("FLUSHALL");
    for dump in &dumps {
        let restored = client.call(&[&b"RESTORE"[..], b"x", b"0", &dump.with(&dump.value)]);
        assert_eq!(restored, Reply::Simple("OK".into()));
        must_work::<F>(&mut client, "x");
    }
    let damaged_from: Vec<(&Dump, usize)> =
        dumps.iter().map(|dump| (dump, F::damage_from(&dump.value))).collect();
    let (mut random, mut let_in, mut refused) = (Random::new(31), 0, 0);
    let keys: Vec<String> = (0..50).map(|number| format!("x{number}")).collect();
    for _ in 0..soak(F::DAMAGED, 1_000_000) / keys.len() {
        let calls: Vec<Vec<Vec<u8>>> = keys
            .iter()
            .flat_map(|key| {
                let (dump, from) = random.of(&damaged_from);
                let payload = damaged(&mut random, dump, *from);
                let key = key.clone().into_bytes();
                [vec![b"RESTORE".to_vec(), key.clone(), b"0".to_vec(), payload], vec![b"TYPE".to_vec(), key]]
            })
            .collect();
        let replies = client.pipeline(&calls);
        for (key, replies) in keys.iter().zip(replies.chunks(2)) {
            match replies {
                [Reply::Simple(_), Reply::Simple(name)] if name == F::TYPE => {
                    let_in += 1;
                    must_work::<F>(&mut client, key);
                }
                // The payload says that it is of another type.
                [Reply::Simple(_), _] => drop(client.words(&format!("DEL {key}"))),
                [Reply::Error(text), _] => {
                    refused += 1;
                    assert!(text.starts_with("ERR Bad data format"), "{text}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(let_in > 100 && refused > 100, "{let_in} let in, {refused} refused");
    no_internal_errors(&server);
}

fn payload_of_another_version_is_refused<F: Family>() {
    let server = RedisServer::builder().arg("rdbcompression", "no").start();
    let mut client = server.raw();
    F::create(&mut client, KEY);
    crate::family::settled(&server);
    let dump = Dump::of(&mut client, KEY);
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

fn random_commands_do_no_harm<F: Family>() {
    let server = quiet();
    let mut clients = [server.raw(), server.raw()];
    clients[1].hello3();
    // What the server keeps after its first load and flush is its own.
    F::begin_garbage(&mut clients[0]);
    clients[0].words("FLUSHALL SYNC");
    let before = used(&server);
    F::GARBAGE.pour(&mut clients, 32, soak(F::GARBAGE.steps, 1_000_000), |client| {
        for key in ["k", "k2", "k3"] {
            if client.words(&format!("TYPE {key}")) == Reply::Simple(F::TYPE.into()) {
                F::check_sums(client, key);
            }
        }
        client.words("DEL k");
        F::begin_garbage(client);
    });
    clients[0].words("DEL k");
    F::begin_garbage(&mut clients[0]);
    must_work::<F>(&mut clients[0], "k");
    no_internal_errors(&server);
    clients[0].words("FLUSHALL SYNC");
    eventually("the memory to be given back", TIMEOUT, || used(&server) - before < 128 * 1024);
}
