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
