//! `SEAT.ZMPOP`: `ZMPOP` to the byte where nothing else is asked for, and neighbours where they are: as the
//! Functions library in `lua/`, and as a model of a few lines.

use allot_tests::module::repository;
use allot_tests::raw::RawClient;
use allot_tests::shows::{create, no_internal_errors, sample_venue};
use allot_tests::stream::readable;
use allot_tests::{Random, RedisServer, ReplicationStream, Reply, soak};

/// Words that are wrong in most places.
const BAD: &[&str] = &[
    "0",
    "-1",
    "3",
    "99999999999999999999",
    "9223372036854775807",
    "4611686018427387904",
    "+1",
    "1.0",
    "x",
    "",
    " 1",
    "01",
    "COUNT",
    "MIN",
    "MINUTE",
    "MIN\0x",
    "COUNT\0",
];

const SCORES: &[&str] = &[
    "0.1",
    "1e300",
    "-1e300",
    "inf",
    "-inf",
    "-0",
    "0",
    "1",
    "2",
    "3",
    "3.5",
    "-1",
    "-2",
    "100000",
    "99999",
    "100001",
    "9007199254740991",
    "9007199254740992",
    "9007199254740993",
    "-9007199254740991",
    "1.7976931348623157e308",
    "5e-324",
    "0.30000000000000004",
    "123456789.125",
];

/// Fills a sorted set at random, in either of the server's encodings; `dense` makes runs.
fn fill(client: &mut RawClient, random: &mut Random, key: &str, dense: bool) {
    client.call(&["DEL", key]);
    let members = if random.once_in(8) { 200 } else { random.below(14) };
    for number in 0..members {
        let score = if dense && !random.once_in(6) {
            (random.below(3) * 10 + random.below(9)).to_string()
        } else {
            (*random.of(SCORES)).to_owned()
        };
        let name =
            if random.once_in(9) { vec![0, 13, 10, number as u8] } else { format!("m{number}").into() };
        client.call(&[&b"ZADD"[..], key.as_bytes(), score.as_bytes(), &name]);
    }
}

fn copy(client: &mut RawClient, from: &str, to: &str) {
    client.call(&["DEL", to]);
    client.call(&["COPY", from, to, "REPLACE"]);
}

/// What is read off the wire for a command, byte by byte as far as [`Reply`] tells it.
fn both(client: &mut RawClient, words: &[String], keys: &[&str]) -> (Reply, Reply) {
    let command = |name: &str| -> Vec<String> {
        std::iter::once(name.to_owned()).chain(words.iter().cloned()).collect()
    };
    for key in keys {
        copy(client, key, &format!("saved:{key}"));
    }
    let first = client.call(&command("ZMPOP"));
    for key in keys {
        copy(client, key, &format!("zmpop:{key}"));
        copy(client, &format!("saved:{key}"), key);
    }
    let second = client.call(&command("SEAT.ZMPOP"));
    for key in keys {
        let digests = client.call(&["DEBUG", "DIGEST-VALUE", key, &format!("zmpop:{key}")]);
        assert_eq!(digests.array()[0], digests.array()[1], "what is left after {words:?}");
        assert_eq!(client.call(&["EXISTS", key]), client.call(&["EXISTS", &format!("zmpop:{key}")]));
    }
    (first, second)
}

#[test]
fn without_adjacent_every_reply_is_that_of_zmpop() {
    let server = RedisServer::start();
    let (mut random, mut clients) = (Random::new(40), [server.raw(), server.raw()]);
    clients[1].hello3();
    clients[0].words("SET text 1");
    create(&server, "show", &sample_venue(1, 3));
    let mut odd = 0;
    for step in 0..soak(1500, 20_000) {
        let client = &mut clients[step % 2];
        for key in ["a", "b"] {
            fill(client, &mut random, key, false);
        }
        let keys = *random.of(&[
            &["a"][..],
            &["a", "b"],
            &["none", "b"],
            &["b", "a", "text"],
            &["none", "show"],
            &["none"],
        ]);
        let mut words: Vec<String> = vec![keys.len().to_string()];
        words.extend(keys.iter().map(|&key| key.to_owned()));
        words.push((*random.of(&["MIN", "MAX", "min", "Max"])).to_owned());
        if random.once_in(2) {
            words.extend(["COUNT".to_owned(), random.within(1, 6).to_string()]);
        }
        if random.once_in(2) {
            odd += 1;
            let at = random.below(words.len());
            match random.below(4) {
                0 => words[at] = (*random.of(BAD)).to_owned(),
                1 => words.insert(at, (*random.of(BAD)).to_owned()),
                2 => words.push((*random.of(BAD)).to_owned()),
                _ => drop(words.remove(at)),
            }
        }
        let (expected, reply) = both(client, &words, &["a", "b"]);
        if let (Reply::Error(expected), Reply::Error(reply)) = (&expected, &reply)
            && expected.contains("wrong number of arguments")
        {
            assert!(reply.contains("wrong number of arguments"), "{reply}");
            continue;
        }
        assert_eq!(reply, expected, "{words:?}");
    }
    assert!(odd > 100);
    no_internal_errors(&server);
}

/// The run that is wanted, by trying every one: scores of members by their lowest names.
fn model(
    client: &mut RawClient,
    key: &str,
    max: bool,
    count: usize,
    stride: i64,
) -> Option<Vec<(Vec<u8>, i64)>> {
    let all = client.call(&["ZRANGE", key, "0", "-1", "WITHSCORES"]);
    let flat: Vec<Reply> = match all.array() {
        [Reply::Array(_), ..] => all.array().iter().flat_map(|pair| pair.array().to_vec()).collect(),
        flat => flat.to_vec(),
    };
    let mut lowest: std::collections::BTreeMap<i64, Vec<u8>> = std::collections::BTreeMap::new();
    for pair in flat.chunks(2) {
        let score: f64 = match &pair[1] {
            Reply::Double(text) => text.parse().unwrap(),
            other => other.text().parse().unwrap(),
        };
        let Reply::Bulk(name) = &pair[0] else { panic!("{pair:?}") };
        if score.fract() == 0.0 && score.abs() < 2f64.powi(53) {
            lowest.entry(score as i64).or_insert_with(|| name.clone());
        }
    }
    let run = |first: i64| -> Option<Vec<(Vec<u8>, i64)>> {
        (first..first + count as i64)
            .map(|score| {
                let breaks = score > first && score.rem_euclid(stride) == 0;
                lowest.get(&score).filter(|_| !breaks).map(|name| (name.clone(), score))
            })
            .collect()
    };
    if max {
        // From the top: the run with the highest end, its members downwards.
        lowest.keys().rev().find_map(|&last| run(last - count as i64 + 1)).map(|mut run| {
            run.reverse();
            run
        })
    } else {
        lowest.keys().find_map(|&first| run(first))
    }
}

/// Name and whole score of each popped member, in both protocols.
fn popped(reply: &Reply) -> Option<Vec<(Vec<u8>, i64)>> {
    if reply.is_null() {
        return None;
    }
    let members = reply.array()[1].array().iter().map(|pair| {
        let Reply::Bulk(name) = &pair.array()[0] else { panic!("{pair:?}") };
        let score = match &pair.array()[1] {
            Reply::Double(text) => text.parse::<f64>().unwrap(),
            other => other.text().parse().unwrap(),
        };
        (name.clone(), score as i64)
    });
    Some(members.collect())
}

#[test]
fn with_adjacent_it_equals_the_functions_library_and_the_model() {
    let server = RedisServer::start();
    let library = std::fs::read(repository().join("lua/allot.lua")).unwrap();
    server.raw().call(&[&b"FUNCTION"[..], b"LOAD", &library]);
    let (mut random, mut clients) = (Random::new(41), [server.raw(), server.raw()]);
    clients[1].hello3();
    let (mut found, mut none) = (0, 0);
    for step in 0..soak(1500, 20_000) {
        let client = &mut clients[step % 2];
        fill(client, &mut random, "a", true);
        copy(client, "a", "b");
        let (max, count) = (random.once_in(2), random.within(1, 4));
        let stride = *random.of(&[100_000, 10, 4, 1]);
        let end = if max { "MAX" } else { "MIN" };
        let (count_text, stride_text) = (count.to_string(), stride.to_string());
        let options = ["COUNT", &count_text, "ADJACENT", "STRIDE", &stride_text];
        let expected = model(client, "a", max, count, stride);
        let reply = client.call(&[&["SEAT.ZMPOP", "2", "none", "a", end][..], &options].concat());
        let library = client.call(&[&["FCALL", "seat_zmpop", "2", "none", "b", end][..], &options].concat());
        if let Reply::Array(parts) = &reply {
            found += 1;
            assert_eq!(parts[0], Reply::bulk("a"));
            // The library says 0 for a score of -0; apart from that the two are equal to the byte.
            if !format!("{reply:?}").contains("-0") {
                assert_eq!(parts[1], library.array()[1], "{options:?}");
            }
            assert_eq!(popped(&reply), popped(&library));
        } else {
            none += 1;
            assert_eq!(reply, if step % 2 == 0 { Reply::NullArray } else { Reply::Null });
            assert!(library.is_null(), "{library:?}");
        }
        assert_eq!(popped(&reply), expected, "{end} {options:?}");
        let digests = client.words("DEBUG DIGEST-VALUE a b");
        assert_eq!(digests.array()[0], digests.array()[1], "what is left");
    }
    assert!(found > 200 && none > 200, "{found} runs, {none} times none");
    for bad in [
        "1 a MIN ADJACENT STRIDE 0",
        "1 a MIN STRIDE 5",
        "1 a MIN ADJACENT ADJACENT",
        "0 MIN ADJACENT",
        "1 a UP ADJACENT",
        "1 a MIN ADJACENT STRIDE",
        "1 a MIN COUNT 0 ADJACENT",
    ] {
        let error = clients[0].words(&format!("SEAT.ZMPOP {bad}"));
        assert!(error.error().starts_with("ERR "), "{bad}: {error:?}");
    }
    no_internal_errors(&server);
}

#[test]
fn a_key_of_another_type_is_refused_when_it_is_met() {
    let server = RedisServer::start();
    let mut client = server.raw();
    client.words("SET text 1");
    client.words("ZADD set 1 a 2 b");
    create(&server, "show", &sample_venue(1, 3));
    let wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
    for line in
        ["SEAT.ZMPOP 1 text MIN", "SEAT.ZMPOP 2 none text MIN ADJACENT", "SEAT.ZMPOP 1 show MAX ADJACENT"]
    {
        assert_eq!(client.words(line).error(), wrong, "{line}");
    }
    assert_eq!(client.words("SEAT.ZMPOP 2 set text MIN ADJACENT COUNT 2").array()[0], Reply::bulk("set"));
    assert_eq!(client.words("SEAT.STAT set"), Reply::Error("NOKEY there is no key 'set'".into()));
    client.words("ZADD set 1 a");
    assert_eq!(client.words("SEAT.STAT set").error(), wrong);
}

#[test]
fn popped_members_are_replicated() {
    let (server, replica) = (RedisServer::start(), RedisServer::start());
    replica.replica_of(&server);
    let mut client = server.raw();
    client.words("ZADD set 1 a 2 b 4 c 5 d 7 e");
    let mut stream = ReplicationStream::attach(&server);
    client.words("SEAT.ZMPOP 1 set MAX COUNT 2 ADJACENT");
    client.words("SEAT.ZMPOP 1 set MIN COUNT 2");
    client.words("SEAT.ZMPOP 1 set MIN COUNT 3 ADJACENT");
    client.words("SEAT.ZMPOP 1 set MAX");
    let told = readable(&stream.drain());
    assert_eq!(told, "ZREM set d c\nZPOPMIN set 2\nZPOPMAX set 1");
    server.wait_offset_equal(&replica);
    assert_eq!(server.digest(), replica.digest());
    assert_eq!(client.words("EXISTS set"), Reply::Int(0));
}
