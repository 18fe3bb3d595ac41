//! The stream of events beside a show: every event once, whole, trimmed; the same on a replica and after a
//! restart; and nothing fails where it cannot be written.

use std::time::Instant;

use allot_tests::raw::RawClient;
use allot_tests::seat_workload::LONG_TTL_MS;
use allot_tests::shows::{allot_info, clock, create, hold, no_internal_errors, sample_venue_with, seats_of};
use allot_tests::wait::TIMEOUT;
use allot_tests::{RedisServer, ReplicationStream, Reply, SeatWorkload, eventually};

fn plan(events: usize) -> String {
    sample_venue_with(4, 20, &format!(r#""limits":{{"holds_per_user":0}},"events":{events}"#))
}

/// The entries of the stream: id, and `field=value` for each field.
pub(crate) fn entries(client: &mut RawClient, key: &str) -> Vec<(String, String)> {
    let reply = client.call(&["XRANGE", key, "-", "+"]);
    let entry = |entry: &Reply| {
        let fields = entry.array()[1].array();
        let fields = fields.chunks(2).map(|pair| format!("{}={}", pair[0].text(), pair[1].text()));
        (entry.array()[0].text(), fields.collect::<Vec<_>>().join(" "))
    };
    reply.array().iter().map(entry).collect()
}

pub(crate) fn texts(client: &mut RawClient, key: &str) -> Vec<String> {
    entries(client, key).into_iter().map(|(_, text)| text).collect()
}

#[test]
fn every_event_is_told_once_with_all_its_fields() {
    let server = RedisServer::start();
    create(&server, "show", &plan(100));
    let mut client = server.raw();
    let until = |reply: Reply| reply.field("until").int();
    let first = until(hold(&mut client, "show", "ann", 2, LONG_TTL_MS, "t1"));
    let second = client.words("SEAT.HOLD show ann 1 TTL 3600000 TOKEN t2 REPLACE t1").field("until").int();
    let extended = client.words("SEAT.EXTEND show t2 TTL 3600000").int();
    client.words("SEAT.CONFIRM show t2 ORDER o1");
    client.words("SEAT.CONFIRM show t2 ORDER o1");
    let picked = client.words("SEAT.PICK show bob TTL 3600000 TOKEN t3 SEATS 2 a-2-1 a-2-2");
    let picked = picked.field("until").int();
    client.words("SEAT.RELEASE show t3 SEATS 1 a-2-1");
    client.words("SEAT.CONFIRM show t3");
    client.words("SEAT.REFUND show 1 a-2-2");
    client.words("SEAT.BLOCK show 2 a-4-1 a-4-2");
    client.words("SEAT.UNBLOCK show 1 a-4-2");
    client.call(&["SEAT.ALTER", "show", r#"{"limits":{"seats_per_user":9}}"#]);
    client.words("SEAT.HOLD show nobody 100 TTL 1000");
    let short = client.words("SEAT.PICK show cid TTL 30 TOKEN t4 SEATS 1 a-3-5").field("until").int();
    eventually("the short hold to expire", TIMEOUT, || {
        texts(&mut client, "show:evt").last().is_some_and(|text| text.starts_with("event=expired"))
    });
    let expected = [
        "event=created".to_owned(),
        format!(r#"event=held token=t1 user=ann seats=["a-1-1","a-1-2"] until={first}"#),
        format!(r#"event=held token=t2 user=ann seats=["a-1-1"] until={second} replaced=t1"#),
        format!(r#"event=extended token=t2 user=ann seats=["a-1-1"] until={extended}"#),
        r#"event=confirmed token=t2 user=ann seats=["a-1-1"] order=o1"#.to_owned(),
        format!(r#"event=held token=t3 user=bob seats=["a-2-1","a-2-2"] until={picked}"#),
        r#"event=released token=t3 user=bob seats=["a-2-1"]"#.to_owned(),
        r#"event=confirmed token=t3 user=bob seats=["a-2-2"]"#.to_owned(),
        r#"event=refunded token=t3 user=bob seats=["a-2-2"]"#.to_owned(),
        r#"event=blocked seats=["a-4-1","a-4-2"]"#.to_owned(),
        r#"event=unblocked seats=["a-4-2"]"#.to_owned(),
        "event=altered".to_owned(),
        format!(r#"event=held token=t4 user=cid seats=["a-3-5"] until={short}"#),
        r#"event=expired token=t4 user=cid seats=["a-3-5"]"#.to_owned(),
    ];
    assert_eq!(texts(&mut client, "show:evt"), expected);
    no_internal_errors(&server);
}

/// A show of two seats, of which one has an id of its own.
const OWN_ID: &str = r#"{"areas":[{"id":"a","rows":[{"label":"1","rank":1,"tier":"t","seats":[
  {"label":"1","id":"VIP:7"},{"label":"2"}]}]}],"events":100}"#;

#[test]
fn waits_offers_and_exchanges_are_told_with_own_ids() {
    let server = RedisServer::start();
    create(&server, "show", OWN_ID);
    let mut waiter = server.raw();
    let mut wait = |user: &str, count: i64, ttl: i64, token: &str| {
        let line = format!("SEAT.WAIT show {user} {count} TTL {ttl} OFFER 600000 TOKEN {token}");
        waiter.words(&line).field("until").int()
    };
    let ann = wait("ann", 2, LONG_TTL_MS, "w1");
    let bob = wait("bob", 1, LONG_TTL_MS, "w2");
    server.command("SEAT.UNWAIT show w2");
    let cid = wait("cid", 1, 30, "w3");
    let mut client = server.raw();
    eventually("the short wait to expire", TIMEOUT, || {
        texts(&mut client, "show:evt").last().is_some_and(|text| text.contains("expired"))
    });
    let dan = wait("dan", 2, LONG_TTL_MS, "w4");
    assert_eq!(client.words("SEAT.RELEASE show w1 SEATS 1 a-1-2"), Reply::Int(1));
    assert_eq!(client.words("SEAT.CONFIRM show w1 ORDER o1"), Reply::Int(1));
    let eve = client.words("SEAT.PICK show eve TTL 3600000 TOKEN p SEATS 1 a-1-2").field("until").int();
    let fay = wait("fay", 1, LONG_TTL_MS, "w5");
    assert_eq!(client.words("SEAT.ORDER show o1"), Reply::Array(vec![Reply::bulk("VIP:7")]));
    assert_eq!(client.words("SEAT.CONFIRM show p ORDER o2 EXCHANGE o1 1 VIP:7"), Reply::Int(1));
    let offered = client.words("SEAT.HOLDS show fay").array()[0].clone();
    assert_eq!(seats_of(&offered), ["VIP:7"]);
    let offer = offered.field("until").int();
    let expected = [
        "event=created".to_owned(),
        format!(r#"event=offered token=w1 user=ann seats=["VIP:7","a-1-2"] until={ann}"#),
        format!("event=waiting token=w2 user=bob until={bob}"),
        "event=unwaited token=w2 user=bob reason=left".to_owned(),
        format!("event=waiting token=w3 user=cid until={cid}"),
        "event=unwaited token=w3 user=cid reason=expired".to_owned(),
        format!("event=waiting token=w4 user=dan until={dan}"),
        r#"event=released token=w1 user=ann seats=["a-1-2"]"#.to_owned(),
        r#"event=confirmed token=w1 user=ann seats=["VIP:7"] order=o1"#.to_owned(),
        format!(r#"event=held token=p user=eve seats=["a-1-2"] until={eve}"#),
        format!("event=waiting token=w5 user=fay until={fay}"),
        r#"event=confirmed token=p user=eve seats=["a-1-2"] order=o2"#.to_owned(),
        r#"event=refunded token=w1 user=ann order=o1 seats=["VIP:7"]"#.to_owned(),
        format!(r#"event=offered token=w5 user=fay seats=["VIP:7"] until={offer}"#),
    ];
    assert_eq!(texts(&mut client, "show:evt"), expected);
    no_internal_errors(&server);
}

#[test]
fn stream_is_trimmed_and_can_be_switched_off_and_on() {
    let server = RedisServer::start();
    create(&server, "show", &plan(0));
    let mut client = server.raw();
    let toggle = |client: &mut RawClient, times: usize| {
        for _ in 0..times {
            assert_eq!(client.words("SEAT.BLOCK show 1 a-1-1"), Reply::Int(1));
            assert_eq!(client.words("SEAT.UNBLOCK show 1 a-1-1"), Reply::Int(1));
        }
    };
    toggle(&mut client, 3);
    assert_eq!(client.words("EXISTS show:evt"), Reply::Int(0));
    client.words(r#"SEAT.ALTER show {"events":5}"#);
    toggle(&mut client, 10);
    assert_eq!(client.words("XLEN show:evt"), Reply::Int(5));
    client.words(r#"SEAT.ALTER show {"events":2}"#);
    toggle(&mut client, 1);
    assert_eq!(client.words("XLEN show:evt"), Reply::Int(2));
    client.words(r#"SEAT.ALTER show {"events":0}"#);
    let left = entries(&mut client, "show:evt");
    toggle(&mut client, 5);
    assert_eq!(entries(&mut client, "show:evt"), left);
}

#[test]
fn replica_and_restarted_server_have_each_stream_entry_once() {
    let (server, replica) = (
        RedisServer::builder().arg("appendonly", "yes").arg("appendfsync", "always").start(),
        RedisServer::builder().arg("propagation-error-behavior", "panic").start(),
    );
    replica.replica_of(&server);
    let mut stream = ReplicationStream::attach(&server);
    create(
        &server,
        "show",
        &allot_tests::shows::THEATRE.replacen("{\"areas\"", "{\"events\":100000,\"areas\"", 1),
    );
    let mut workload = SeatWorkload::new(server.raw(), "show", 50);
    // The workload sets other lengths now and then; with any length, every entry goes out once.
    workload.run(400).end_blocks();
    let mut client = server.raw();
    eventually("all short waits and holds to end", TIMEOUT, || {
        let soon = clock(&mut client) + LONG_TTL_MS / 2;
        let waits = client.words("SEAT.LIST show WAITING COUNT 1000").field("items");
        let lasting: usize = workload.lasting().map(|(_, seats)| seats.len()).sum();
        waits.array().iter().all(|wait| wait.field("until").int() > soon)
            && allot_tests::shows::books(&mut client, b"show").held == lasting as i64
    });
    let commands = stream.drain();
    let ids: Vec<(u64, u64)> = commands
        .iter()
        .filter(|command| command[0] == b"XADD")
        .map(|command| {
            let id = command.iter().map(|part| String::from_utf8_lossy(part)).find(|part| {
                part.split_once('-')
                    .is_some_and(|(ms, _)| ms.len() == 13 && ms.bytes().all(|b| b.is_ascii_digit()))
            });
            let id = id.unwrap();
            let (ms, number) = id.split_once('-').unwrap();
            (ms.parse().unwrap(), number.parse().unwrap())
        })
        .collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "ids grow");
    let expired = allot_info(&server, "seat_expired") as usize;
    // A refund or a move is an entry for each sale that it takes seats of; every seat of it is told once.
    let of_sales = ["refunded", "moved"];
    let is_of_sales = |command: &&Vec<Vec<u8>>| {
        command[0] == b"XADD" && of_sales.iter().any(|name| command.contains(&name.as_bytes().to_vec()))
    };
    let of_each_sale: Vec<_> = commands.iter().filter(is_of_sales).collect();
    let told: usize = of_each_sale.iter().map(|entry| seats_in(entry)).sum();
    let asked = workload.done.iter().filter(|done| of_sales.iter().any(|name| done.starts_with(name)));
    let seats_of = |done: &String| match done.split_once(" to ") {
        Some((_, to)) => to.split(' ').count(),
        None => done.split(' ').count() - 1,
    };
    let seats: usize = asked.clone().map(seats_of).sum();
    assert_eq!(told, seats, "each refunded and moved seat once");
    let others = workload.done.len() - asked.count();
    let of_waits = commands.iter().filter(|command| {
        let names = ["waiting", "offered", "unwaited"];
        command[0] == b"XADD" && names.iter().any(|name| command.contains(&name.as_bytes().to_vec()))
    });
    let ended_blocks = commands
        .iter()
        .filter(|command| command.contains(&b"unblocked".to_vec()) && command.contains(&b"reason".to_vec()));
    assert_eq!(
        ids.len() - of_each_sale.len() - of_waits.count() - ended_blocks.count(),
        1 + others + expired,
        "one entry for each event, and one for the opening"
    );
    server.wait_offset_equal(&replica);
    let expected = entries(&mut server.raw(), "show:evt");
    assert_eq!(entries(&mut replica.raw(), "show:evt"), expected);
    let digest = server.digest();
    server.kill9();
    server.restart();
    assert_eq!(entries(&mut server.raw(), "show:evt"), expected);
    assert_eq!(server.digest(), digest);
    no_internal_errors(&server);
    no_internal_errors(&replica);
}

/// How many seats an entry of the stream names.
fn seats_in(entry: &[Vec<u8>]) -> usize {
    let list = entry.iter().skip_while(|part| *part != b"seats").nth(1).expect("the entry names seats");
    serde_json::from_slice::<Vec<String>>(list).expect("a list of ids").len()
}

#[test]
fn messages_come_later_when_the_stream_cannot_be_written() {
    let (server, replica) = (RedisServer::start(), RedisServer::start());
    replica.replica_of(&server);
    create(&server, "show", &plan(100));
    let mut client = server.raw();
    client.words("SET show:evt in-the-way");
    let start = Instant::now();
    let until = hold(&mut client, "show", "ann", 1, LONG_TTL_MS, "t1").field("until").int();
    assert_eq!(client.words("SEAT.CONFIRM show t1"), Reply::Int(1));
    assert_eq!(client.words("SEAT.BLOCK show 1 a-4-1"), Reply::Int(1));
    assert!(allot_info(&server, "outbox_failures") >= 1);
    eventually("the timer to try again", TIMEOUT, || allot_info(&server, "outbox_failures") >= 6);
    // Three commands, and one attempt a second at most: a stream in the way must not keep the server busy.
    let (failures, seconds) = (allot_info(&server, "outbox_failures"), start.elapsed().as_secs() as i64);
    assert!(failures <= 3 + 2 * (seconds + 1), "{failures} attempts in {seconds} s");
    server.wait_offset_equal(&replica);
    assert_eq!(server.digest(), replica.digest());
    assert_eq!(client.words("GET show:evt"), Reply::bulk("in-the-way"));
    client.words("DEL show:evt");
    let expected = [
        format!(r#"event=held token=t1 user=ann seats=["a-1-1"] until={until}"#),
        r#"event=confirmed token=t1 user=ann seats=["a-1-1"]"#.to_owned(),
        r#"event=blocked seats=["a-4-1"]"#.to_owned(),
    ];
    eventually("the messages to come", TIMEOUT, || texts(&mut client, "show:evt") == expected);
    server.wait_offset_equal(&replica);
    assert_eq!(server.digest(), replica.digest());
    no_internal_errors(&server);
}

#[test]
fn deleting_the_stream_loses_only_what_was_in_it() {
    let server = RedisServer::start();
    create(&server, "show", &plan(10));
    let mut client = server.raw();
    client.words("SEAT.BLOCK show 1 a-1-1");
    let before = entries(&mut client, "show:evt");
    client.words("DEL show:evt");
    client.words("SEAT.UNBLOCK show 1 a-1-1");
    let after = entries(&mut client, "show:evt");
    assert_eq!(after.len(), 1);
    assert_eq!(after[0].1, r#"event=unblocked seats=["a-1-1"]"#);
    let id = |entry: &(String, String)| {
        let (ms, number) = entry.0.split_once('-').unwrap();
        (ms.parse::<u64>().unwrap(), number.parse::<u64>().unwrap())
    };
    assert!(id(&after[0]) > id(&before[0]));
}

#[test]
fn stream_whose_last_id_is_in_the_future_goes_on_after_it() {
    let server = RedisServer::start();
    let mut client = server.raw();
    client.words("XADD show:evt 9999999999999-5 a b");
    create(&server, "show", &plan(50));
    hold(&mut client, "show", "ann", 2, 60_000, "t");
    let last = client.words("XREVRANGE show:evt + - COUNT 1");
    let id = last.array()[0].array()[0].text();
    assert!(*id > *"9999999999999-5" && id.starts_with("9999999999999-"), "{id}");
    assert_eq!(allot_info(&server, "outbox_failures"), 0);
}

#[test]
fn stream_that_takes_no_entries_is_named_in_the_log_once() {
    let server = RedisServer::start();
    let mut client = server.raw();
    create(&server, "show", &plan(50));
    let named = |server: &RedisServer| server.log().matches("'show:evt' takes no entries").count();
    for round in 1..=2 {
        client.words("DEL show:evt");
        client.words("HSET show:evt a b");
        for token in ["a", "b"] {
            hold(&mut client, "show", &format!("{token}{round}"), 1, 60_000, &format!("{token}{round}"));
        }
        assert!(allot_info(&server, "outbox_failures") >= 2 * round);
        assert_eq!(named(&server), round as usize, "{}", server.log());
        assert!(server.log().contains("its key holds a hash: delete or rename this key"));
        client.words("DEL show:evt");
        eventually("the entries to be written", TIMEOUT, || client.words("XLEN show:evt") == Reply::Int(2));
    }
}
