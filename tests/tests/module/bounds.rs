//! Lists and counts have a bound, so that no call keeps other clients waiting.

use allot_tests::RedisServer;
use allot_tests::raw::{RawClient, Reply};

const PLAN: &str = r#"{"areas":[{"id":"a","rows":[{"label":"1","rank":1,"tier":"gold","seats":"1-9"}]}]}"#;

/// The reply to a command with a list of `count` numbered words between `begin` and `end`.
#[track_caller]
fn with_list(client: &mut RawClient, begin: &[&str], count: usize, word: &str, end: &[&str]) -> Reply {
    let list: Vec<String> = (0..count).map(|place| format!("{word}{place}")).collect();
    let words = begin.iter().copied().chain(list.iter().map(String::as_str)).chain(end.iter().copied());
    client.call(&words.collect::<Vec<&str>>())
}

#[test]
fn lists_of_seats_areas_and_flags_are_bounded() {
    let server = RedisServer::start();
    let mut client = server.raw();
    client.call(&["SEAT.CREATE", "show", PLAN]);
    for command in ["SEAT.BLOCK", "SEAT.UNBLOCK", "SEAT.REFUND"] {
        let reply = with_list(&mut client, &[command, "show", "20001"], 20_001, "a-1-", &[]);
        assert_eq!(reply.error(), "ERR one call may name at most 20000 seats, not 20001");
        let reply = with_list(&mut client, &[command, "show", "20000"], 20_000, "b-1-", &[]);
        assert!(reply.error().starts_with("NOTFOUND "), "{reply:?}");
    }
    let hold = ["SEAT.HOLD", "show", "ann", "1", "TTL", "1000"];
    for (option, what, most) in [("AREAS", "areas", 4096), ("FLAGS", "flags", 64)] {
        let count = (most + 1).to_string();
        let begin: Vec<&str> = hold.into_iter().chain([option, &count]).collect();
        let reply = with_list(&mut client, &begin, most + 1, "x", &[]);
        assert_eq!(reply.error(), format!("ERR one call may name at most {most} {what}, not {count}"));
    }
    let begin: Vec<&str> = hold.into_iter().chain(["FLAGS", "64"]).collect();
    assert!(!matches!(with_list(&mut client, &begin, 64, "x", &[]), Reply::Error(_)));
}

#[test]
fn listings_without_a_cursor_are_bounded() {
    let server = RedisServer::start();
    let mut client = server.raw();
    let row = |tier: usize| {
        let seat = |seat: usize| format!(r#"{{"label":"{seat}","tier":"t{}"}}"#, seat + tier);
        let seats: Vec<String> = (0..3500).map(seat).collect();
        format!(r#"{{"label":"1","rank":1,"seats":[{}]}}"#, seats.join(","))
    };
    let area = |area: usize| format!(r#"{{"id":"a{area}","rows":[{}]}}"#, row(area));
    let areas: Vec<String> = (0..3).map(area).collect();
    let plan = format!(r#"{{"areas":[{}],"limits":{{"holds_per_user":0}}}}"#, areas.join(","));
    assert_eq!(client.call(&["SEAT.CREATE", "show", &plan]), Reply::Simple("OK".into()));
    let refused = client.words("SEAT.STAT show");
    assert!(refused.error().starts_with("LIMIT 10500 pairs of area and tier"), "{refused:?}");
    assert_eq!(client.words("SEAT.STAT show AREA a1").array().len(), 3500);
    assert_eq!(client.words("SEAT.STAT show TIER t2").array().len(), 3);
    let pick = |seat: usize| {
        let seat = format!("a{}-1-{}", seat / 3500, seat % 3500);
        ["SEAT.PICK", "show", "ann", "TTL", "600000", "SEATS", "1", &seat].map(str::to_owned)
    };
    (0..10_000).for_each(|seat| client.send(&pick(seat)));
    for _ in 0..10_000 {
        assert!(!matches!(client.read(), Reply::Error(_)));
    }
    assert_eq!(client.words("SEAT.HOLDS show ann").array().len(), 10_000);
    client.call(&pick(10_000));
    let refused = client.words("SEAT.HOLDS show ann");
    assert_eq!(refused.error(), "LIMIT user 'ann' has 10001 holds; at most 10000 can be listed");
}

#[test]
fn lists_of_numbers_and_counts_of_listings_are_bounded() {
    let server = RedisServer::start();
    let mut client = server.raw();
    for command in ["NUMPOOL.ADD", "NUMPOOL.REG", "NUMPOOL.UNREG", "NUMPOOL.DEL"] {
        let reply = with_list(&mut client, &[command, "pool"], 20_001, "138", &[]);
        assert_eq!(reply.error(), "ERR one call may name at most 20000 numbers, not 20001");
    }
    assert_eq!(with_list(&mut client, &["NUMPOOL.ADD", "pool"], 20_000, "138", &[]), Reply::Int(20_000));
    for line in ["NUMPOOL.SCAN pool 0 COUNT", "NUMPOOL.LEASES pool COUNT"] {
        for count in ["0", "10001"] {
            let expected = format!("ERR COUNT must be 1 to 10000, not {count}");
            assert_eq!(client.words(&format!("{line} {count}")).error(), expected);
        }
    }
    assert_eq!(client.words("NUMPOOL.SCAN pool 0 COUNT 10000").array()[1].array().len(), 10_000);
}
