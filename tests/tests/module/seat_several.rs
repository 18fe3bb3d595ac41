//! The same seats in several shows on live servers: one step for all of them, also in the append-only file and on a
//! replica, in a rush that `kill -9` ends.

use std::fs::{self, OpenOptions};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use allot_tests::raw::RawClient;
use allot_tests::shows::{create, no_internal_errors, sample_venue, seats_of};
use allot_tests::wait::TIMEOUT;
use allot_tests::{Random, RedisServer, Reply, eventually, soak};

const LEGS: [&str; 3] = ["{t}:1", "{t}:2", "{t}:3"];

fn train(server: &RedisServer, rows: usize, seats: usize) -> RawClient {
    LEGS.iter().for_each(|leg| create(server, leg, &sample_venue(rows, seats)));
    server.raw()
}

fn maps(client: &mut RawClient) -> Vec<Reply> {
    LEGS.iter().map(|leg| client.call(&["SEAT.MAP", leg, "a"])).collect()
}

#[test]
fn one_request_is_for_all_shows_or_for_none() {
    let server = RedisServer::start();
    let mut client = train(&server, 1, 6);
    client.words("SEAT.BLOCK {t}:2 1 a-1-2");
    let held = client.words("SEAT.HOLD {t}:1 ann 2 TTL 60000 TOKEN t ALSO 2 {t}:2 {t}:3");
    assert_eq!(seats_of(&held), ["a-1-3", "a-1-4"]);
    assert_eq!(
        client.words("SEAT.HOLD {t}:1 ann 2 TTL 60000 TOKEN t ALSO 2 {t}:2 {t}:3"),
        held,
        "a retry gets its hold"
    );
    client.words("SET {t}:text x");
    client.words("SEAT.PICK {t}:3 eve TTL 60000 TOKEN eve SEATS 1 a-1-6");
    let before = maps(&mut client);
    for (line, expected) in [
        (
            "SEAT.PICK {t}:1 bob TTL 60000 SEATS 1 a-1-6 ALSO 2 {t}:2 {t}:3",
            "BADSTATE '{t}:3': seat 'a-1-6' is held, not free",
        ),
        ("SEAT.PICK {t}:1 bob TTL 60000 SEATS 1 a-1-1 ALSO 1 {t}:none", "NOKEY there is no key '{t}:none'"),
        (
            "SEAT.PICK {t}:1 bob TTL 60000 SEATS 1 a-1-1 ALSO 1 {t}:text",
            "WRONGTYPE '{t}:text': Operation against a key holding the wrong kind of value",
        ),
        ("SEAT.EXTEND {t}:1 t TTL 60000 ALSO 1 {t}:1", "ERR key '{t}:1' is named twice"),
        ("SEAT.FIND {t}:1 1 ALSO 1 {t}:2 BESIDE 1 {t}:2", "ERR key '{t}:2' is named twice"),
        (
            "SEAT.RELEASE {t}:1 eve ALSO 1 {t}:3",
            "NOTFOUND '{t}:1': there is no hold 'eve'; it may have expired",
        ),
        ("SEAT.FIND {t}:1 1 ALSO 2 {t}:2", "ERR 'ALSO': 2 words are announced and 1 follow"),
    ] {
        assert_eq!(client.words(line).error(), expected, "{line}");
    }
    assert_eq!(maps(&mut client), before, "a refusal changes nothing anywhere");
    let keys = client.words("COMMAND GETKEYS SEAT.HOLD {t}:1 ann 2 TTL 9 ALSO 2 {t}:2 {t}:3 BESIDE 1 {t}:4");
    let keys: Vec<String> = keys.array().iter().map(Reply::text).collect();
    assert_eq!(keys, ["{t}:1", "{t}:2", "{t}:3", "{t}:4"]);
    // A user who waits for a leg gets what all legs free, and only there.
    let wait = client.words("SEAT.WAIT {t}:2 dan 4 TTL 60000 OFFER 60000 TOKEN dan");
    assert_eq!(wait.field("state"), Reply::bulk("waiting"));
    assert_eq!(client.words("SEAT.RELEASE {t}:1 t ALSO 2 {t}:2 {t}:3"), Reply::Int(2));
    assert_eq!(client.words("SEAT.WAITING {t}:2 dan").field("state"), Reply::bulk("offered"));
    let found = client.words("SEAT.FIND {t}:1 1 ALSO 2 {t}:2 {t}:3");
    assert_eq!(seats_of(&found.array()[0]), ["a-1-1"]);
    let beside = client.words("SEAT.FIND {t}:1 1 BESIDE 1 {t}:3");
    assert_eq!(seats_of(&beside.array()[0]), ["a-1-6"], "taken there");
    let nothing = client.words("SEAT.HOLD {t}:1 fay 2 TTL 60000 ALSO 2 {t}:2 {t}:3");
    assert!(nothing.is_null(), "too few are free in all of them: {nothing:?}");
    no_internal_errors(&server);
}

#[test]
fn needs_stand_anywhere_among_the_options() {
    let server = RedisServer::start();
    let seat = |label: usize, flag: &str| format!(r#"{{"label":"{label}","flags":[{flag}]}}"#);
    let seats = [seat(1, ""), seat(2, r#""view""#), seat(3, r#""aisle""#), seat(4, "")].join(",");
    let row = format!(r#"{{"label":"1","rank":1,"tier":"t","seats":[{seats}]}}"#);
    create(&server, "show", &format!(r#"{{"areas":[{{"id":"a","rows":[{row}]}}]}}"#));
    let mut client = server.raw();
    let held = client.words("SEAT.HOLD show bob 3 NEED 1 view TTL 60000 TOKEN t NEED 1 aisle");
    assert_eq!(seats_of(&held), ["a-1-1", "a-1-2", "a-1-3"]);
    let found = client.words("SEAT.FIND show 1 NEED 1 view BEST 2 NEED 1 aisle TIER t");
    assert_eq!(found.error(), "ERR a party of 1 cannot need 2 seats with flags");
    let five = "SEAT.FIND show 9 NEED 1 a NEED 1 b BEST 2 NEED 1 c NEED 1 d NEED 1 e";
    assert_eq!(client.words(five).error(), "ERR option 'NEED' may be given 4 times");
    no_internal_errors(&server);
}

/// A client that holds, sells, releases and refunds until the server is gone. The tokens that were acknowledged as sold and
/// not as refunded.
fn buy(port: u16, client: usize, done: &AtomicUsize) -> Vec<String> {
    let (mut connection, mut random) = (RawClient::connect(port), Random::new(client as u64));
    let mut sold = Vec::new();
    for request in 0.. {
        let token = format!("c{client}-{request}");
        let first = random.below(LEGS.len());
        let others: Vec<&str> = LEGS.iter().copied().filter(|&leg| leg != LEGS[first]).collect();
        let (key, also) = (LEGS[first], format!("ALSO 2 {}", others.join(" ")));
        let mut ask = |line: String| {
            let words: Vec<&str> = line.split(' ').collect();
            connection.try_call(&words)
        };
        let hold = format!("SEAT.HOLD {key} {token} 2 TTL 3600000 TOKEN {token} {also}");
        let Some(reply) = ask(hold) else { break };
        done.fetch_add(1, Ordering::Relaxed);
        if reply.is_null() {
            break;
        }
        let ending = match random.below(4) {
            0 => format!("SEAT.RELEASE {key} {token} {also}"),
            1 => continue,
            _ => format!("SEAT.CONFIRM {key} {token} ORDER {token} {also}"),
        };
        let is_sale = ending.contains("CONFIRM");
        let Some(reply) = ask(ending) else { break };
        assert_eq!(reply, Reply::Int(2));
        if is_sale && random.once_in(3) {
            let Some(_) = ask(format!("SEAT.REFUND {key} ORDER {token} {also}")) else { break };
        } else if is_sale {
            sold.push(token);
        }
    }
    sold
}

/// Whether all shows have the same seats in the same state, and for the same users.
fn same_in_all(client: &mut RawClient) -> bool {
    let maps = maps(client);
    let orders: Vec<Reply> =
        LEGS.iter().map(|leg| client.call(&["SEAT.LIST", leg, "ORDERS", "COUNT", "4000"])).collect();
    maps.iter().all(|map| *map == maps[0]) && orders.iter().all(|list| *list == orders[0])
}

#[test]
fn rush_over_several_shows_that_a_kill_ends_leaves_all_of_them_or_none() {
    let rows = soak(10, 200);
    let server = RedisServer::builder().arg("appendonly", "yes").arg("appendfsync", "always");
    let server = server.arg("auto-aof-rewrite-percentage", "0").start();
    train(&server, rows, 40);
    let replica = RedisServer::start();
    replica.replica_of(&server);
    let done = AtomicUsize::new(0);
    let sold: Vec<String> = thread::scope(|scope| {
        let (done, port) = (&done, server.port());
        let buyers: Vec<_> = (0..4).map(|number| scope.spawn(move || buy(port, number, done))).collect();
        eventually("many holds", TIMEOUT * 10, || done.load(Ordering::Relaxed) > rows * 15);
        server.kill9();
        buyers.into_iter().flat_map(|buyer| buyer.join().unwrap()).collect()
    });
    assert!(same_in_all(&mut replica.raw()), "the replica follows by whole steps");
    server.restart();
    let mut client = server.raw();
    assert!(same_in_all(&mut client));
    let orders = client.call(&["SEAT.LIST", LEGS[0], "ORDERS", "COUNT", "4000"]);
    let orders: Vec<String> =
        orders.field("items").array().iter().map(|item| item.field("order").text()).collect();
    let lost: Vec<&String> = sold.iter().filter(|token| !orders.contains(token)).collect();
    assert!(lost.is_empty(), "{lost:?} were acknowledged");
    // Wherever the file ends, a step is in it for all shows or for none.
    let file = server.append_only_file();
    let mut random = Random::new(7);
    for _ in 0..soak(8, 100) {
        server.shutdown();
        let length = fs::metadata(&file).unwrap().len();
        let kept = length - random.below(2000) as u64 % (length / 2);
        OpenOptions::new().write(true).open(&file).unwrap().set_len(kept).unwrap();
        server.restart();
        assert!(same_in_all(&mut server.raw()), "a file of {kept} of {length} bytes");
    }
    no_internal_errors(&server);
}
