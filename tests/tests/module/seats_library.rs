//! The Functions library beside the module: in random shows a hold of the library takes the seats that `SEAT.HOLD` takes, in
//! each step.

use allot_tests::module::repository;
use allot_tests::raw::RawClient;
use allot_tests::{Random, RedisServer, Reply, soak};
use serde_json::{Value, json};

const TIERS: [&str; 3] = ["gold", "silver", "bronze"];

fn random_row(random: &mut Random, area: usize, row: usize) -> Value {
    let (label, rank) = (format!("r{row}"), random.within(1, 3));
    let len = random.within(1, 14);
    if random.once_in(3) {
        let seats: Vec<Value> = (0..len)
            .map(|at| {
                if at > 0 && random.once_in(10) {
                    return Value::Null;
                }
                let flags: &[&str] = if random.once_in(10) { &["wheelchair"] } else { &[] };
                let mut seat =
                    json!({"label": (at + 1).to_string(), "tier": random.of(&TIERS), "flags": flags});
                if random.once_in(5) {
                    seat["id"] = json!(format!("own{area}.{row}.{at}"));
                }
                seat
            })
            .collect();
        return json!({"label": label, "rank": rank, "seats": seats});
    }
    let forms = [
        format!("1-{len}"),
        format!("{len}-1"),
        format!("1-{len},|,{}-{}", len + 1, 2 * len),
        "A,B,C,|,D".to_owned(),
    ];
    json!({"label": label, "rank": rank, "tier": random.of(&TIERS), "seats": random.of(&forms)})
}

fn random_plan(random: &mut Random) -> String {
    let areas: Vec<Value> = (0..random.within(1, 4))
        .map(|area| {
            let rows = random.within(1, 5);
            let rows: Vec<Value> = (0..rows).map(|row| random_row(random, area, row)).collect();
            json!({"id": format!("a{area}"), "priority": random.within(0, 1),
                "rule": random.of(&["ltr", "rtl", "center"]), "rows": rows})
        })
        .collect();
    let limits = json!({"holds_per_user": random.of(&[0, 0, 2]), "seats_per_user": random.of(&[0, 9])});
    json!({"areas": areas, "limits": limits}).to_string()
}

/// What a request got: the seats or a number, nothing, or the code of a refusal.
fn outcome(reply: &Reply) -> String {
    match reply {
        Reply::Error(text) => text.split(' ').next().unwrap_or_default().to_owned(),
        Reply::Int(value) => value.to_string(),
        reply if reply.is_null() => "nothing".to_owned(),
        reply => reply.field("seats").array().iter().map(Reply::text).collect::<Vec<_>>().join(" "),
    }
}

fn call(client: &mut RawClient, words: &[&str], more: &[&str]) -> String {
    outcome(&client.call(&[words, more].concat()))
}

#[test]
fn holds_of_the_library_take_the_seats_that_those_of_the_module_take() {
    let server = RedisServer::start();
    let library = std::fs::read(repository().join("lua/allot.lua")).unwrap();
    let (mut random, mut client) = (Random::new(11), server.raw());
    client.call(&[&b"FUNCTION"[..], b"LOAD", &library]);
    let (mut held, mut none, mut refused) = (0, 0, 0);
    for _ in 0..soak(60, 2000) {
        client.words("FLUSHALL");
        let plan = random_plan(&mut random);
        assert_eq!(client.call(&["SEAT.CREATE", "m", &plan]), Reply::Simple("OK".into()));
        assert_eq!(client.call(&["FCALL", "seat_create", "1", "{l}", &plan]), Reply::Simple("OK".into()));
        let mut tokens: Vec<String> = Vec::new();
        for step in 0..60 {
            if tokens.is_empty() || !random.once_in(3) {
                let (user, count) = (*random.of(&["ann", "bob", "cid"]), random.within(1, 4).to_string());
                let token = format!("t{step}");
                let mut rest = vec![user, &count, "TTL", "600000", "TOKEN", &token];
                let tier = *random.of(&["", "gold", "silver"]);
                if !tier.is_empty() {
                    rest.extend(["TIER", tier]);
                }
                let with = [&rest[..], &["ADJACENT", "REQUIRE"]].concat();
                let module = call(&mut client, &["SEAT.HOLD", "m"], &with);
                let function = call(&mut client, &["FCALL", "seat_hold", "1", "{l}"], &rest);
                // The library does not tell why there is no run.
                let expected = if module == "NOADJACENT" { "nothing" } else { &module };
                assert_eq!(function, expected, "{rest:?} in {plan}");
                match module.as_str() {
                    "nothing" | "NOADJACENT" => none += 1,
                    "LIMIT" | "NOTFOUND" => refused += 1,
                    _ => {
                        tokens.push(token);
                        held += 1;
                    }
                }
                continue;
            }
            let token = random.of(&tokens).clone();
            let order = format!("order-{token}");
            let (module, function) = match random.within(0, 2) {
                0 => (
                    call(&mut client, &["SEAT.CONFIRM", "m"], &[&token, "ORDER", &order]),
                    call(&mut client, &["FCALL", "seat_confirm", "1", "{l}"], &[&token, &order]),
                ),
                1 => (
                    call(&mut client, &["SEAT.RELEASE", "m"], &[&token]),
                    call(&mut client, &["FCALL", "seat_release", "1", "{l}"], &[&token]),
                ),
                _ => {
                    let function = call(&mut client, &["FCALL", "seat_refund", "1", "{l}"], &[&token]);
                    if function == "BADSTATE" {
                        continue;
                    }
                    (call(&mut client, &["SEAT.REFUND", "m"], &["ORDER", &order]), function)
                }
            };
            assert_eq!(module, function, "{token} in {plan}");
            if call(&mut client, &["FCALL", "seat_release", "1", "{l}"], &[&token]) == "NOTFOUND" {
                tokens.retain(|other| *other != token);
            } else if call(&mut client, &["SEAT.RELEASE", "m"], &[&token]) != "BADSTATE" {
                tokens.retain(|other| *other != token);
            }
        }
    }
    assert!(held > 800 && none > 400 && refused > 50, "{held} held, {none} times none, {refused} refused");
}

#[test]
fn holds_of_the_library_end_at_their_deadlines_and_are_sold_once() {
    let server = RedisServer::start();
    let library = std::fs::read(repository().join("lua/allot.lua")).unwrap();
    let mut client = server.raw();
    client.call(&[&b"FUNCTION"[..], b"LOAD", &library]);
    let plan = r#"{"areas":[{"id":"a","rows":[{"label":"1","rank":1,"tier":"t","seats":"1-4"}]}],"limits":{"holds_per_user":0}}"#;
    client.call(&["FCALL", "seat_create", "1", "{l}", plan]);
    let mut line = |line: &str| outcome(&client.words(line));
    assert_eq!(line("FCALL seat_hold 1 {l} ann 2 TTL 60000 TOKEN t1"), "a-1-1 a-1-2");
    assert_eq!(line("FCALL seat_hold 1 {l} ann 2 TTL 60000 TOKEN t1"), "a-1-1 a-1-2", "asked again");
    assert_eq!(line("FCALL seat_hold 1 {l} bob 2 TTL 60000 TOKEN t1"), "EXISTS");
    assert_eq!(line("FCALL seat_hold 1 {l} bob 2 TTL 1 TOKEN t2"), "a-1-3 a-1-4");
    assert_eq!(line("FCALL seat_confirm 1 {l} t1 order-1"), "2");
    assert_eq!(line("FCALL seat_confirm 1 {l} t1 order-1"), "2");
    assert_eq!(line("FCALL seat_confirm 1 {l} t1 order-2"), "EXISTS");
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert_eq!(line("FCALL seat_confirm 1 {l} t2"), "NOTFOUND");
    assert_eq!(line("FCALL seat_hold 1 {l} cid 2 TTL 60000 TOKEN t3"), "a-1-3 a-1-4");
    assert_eq!(line("FCALL seat_refund 1 {l} t1"), "2");
    assert_eq!(line("FCALL seat_release 2 {l} {l}:due t3"), "2", "with both keys");
    assert_eq!(line("FCALL seat_release 2 {l} {l}:other t3"), "ERR", "with another key");
    assert_eq!(line("FCALL seat_hold 1 {none} cid 2 TTL 60000 TOKEN t3"), "NOKEY");
    assert_eq!(line("FCALL seat_hold 1 {l} cid 0 TTL 60000 TOKEN t4"), "ERR");
    assert_eq!(line("FCALL seat_hold 1 {l} cid 11 TTL 60000 TOKEN t4"), "LIMIT");
}
