//! What replies look like: nulls, maps, the order of fields, and the code of every refusal, in both protocols.

use allot_tests::raw::RawClient;
use allot_tests::seat_workload::LONG_TTL_MS;
use allot_tests::shows::{THEATRE, create, hold, no_internal_errors, sample_venue_with};
use allot_tests::{RedisServer, Reply};

fn both(server: &RedisServer) -> [RawClient; 2] {
    let mut clients = [server.raw(), server.raw()];
    clients[1].hello3();
    clients
}

fn fields(record: &Reply) -> Vec<String> {
    record.record().into_iter().map(|(name, _)| name).collect()
}

#[test]
fn nothing_available_is_a_null_of_the_protocol() {
    let server = RedisServer::start();
    create(&server, "show", THEATRE);
    let [mut resp2, mut resp3] = both(&server);
    for (client, null, inner) in
        [(&mut resp2, Reply::NullArray, Reply::NullBulk), (&mut resp3, Reply::Null, Reply::Null)]
    {
        assert_eq!(client.words("SEAT.HOLD show ann 50 TTL 1000 TIER gold"), null);
        assert_eq!(client.words("SEAT.ZMPOP 1 none MIN"), null);
        assert_eq!(client.words("SEAT.ZMPOP 1 none MIN ADJACENT"), null);
        // A field without a value is a null as GET's, and never left out.
        let seat = client.words("SEAT.GET show left-A-1");
        for name in ["token", "user", "until", "order"] {
            assert_eq!(seat.field(name), inner, "{name}");
        }
        assert_eq!(seat.field("flags"), Reply::Array(vec![]));
    }
}

#[test]
fn records_have_all_fields_in_the_order_of_the_spec() {
    let server = RedisServer::start();
    create(&server, "show", THEATRE);
    let [mut resp2, mut resp3] = both(&server);
    let of_hold = ["token", "user", "seats", "adjacent", "groups", "areas", "until", "orphans"];
    let of_seat =
        ["id", "area", "row", "label", "tier", "state", "token", "user", "until", "order", "flags", "block"];
    let of_stat = ["area", "tier", "priority", "free", "held", "sold", "blocked", "longest"];
    let flat = hold(&mut resp2, "show", "ann", 2, LONG_TTL_MS, "t2");
    let map = hold(&mut resp3, "show", "ann", 2, LONG_TTL_MS, "t3");
    assert!(matches!((&flat, &map), (Reply::Array(_), Reply::Map(_))));
    for (client, record) in [(&mut resp2, &flat), (&mut resp3, &map)] {
        let same = |reply: &Reply| std::mem::discriminant(reply) == std::mem::discriminant(record);
        assert_eq!(fields(record), of_hold);
        let seats = record.field("seats").array().to_vec();
        assert!(matches!(&seats[..], [Reply::Bulk(_), Reply::Bulk(_)]));
        assert_eq!((record.field("adjacent"), record.field("groups")), (Reply::Int(1), Reply::Int(1)));
        let holds = client.words("SEAT.HOLDS show ann");
        assert!(
            holds.array().len() == 2
                && holds.array().iter().all(|hold| same(hold) && fields(hold) == of_hold)
        );
        let seat = client.call(&["SEAT.GET", "show", &seats[0].text()]);
        assert!(same(&seat));
        assert_eq!(fields(&seat), of_seat);
        assert_eq!(seat.field("until"), record.field("until"));
        let stat = client.words("SEAT.STAT show TIER gold");
        assert_eq!(stat.array().len(), 2);
        assert!(stat.array().iter().all(|bucket| same(bucket) && fields(bucket) == of_stat), "{stat:?}");
        let map = client.words("SEAT.MAP show left");
        assert_eq!(map.array()[0].array()[0], Reply::bulk("A"));
        assert_eq!(map.array()[0].array()[1].text().len(), 13, "{map:?}");
        assert!(matches!(client.words("SEAT.PLAN show"), Reply::Bulk(_)));
        assert_eq!(client.words("SEAT.HOLDS show nobody"), Reply::Array(vec![]));
        assert_eq!(client.call(&["SEAT.CREATE", "show", THEATRE]), Reply::Simple("OK".into()));
    }
    assert_eq!(
        resp2.words("SEAT.GET show left-B-2").field("flags"),
        Reply::Array(vec![Reply::bulk("wheelchair")])
    );
}

#[test]
fn the_plan_of_a_show_makes_an_equal_empty_one() {
    let server = RedisServer::start();
    create(&server, "show", THEATRE);
    let mut client = server.raw();
    hold(&mut client, "show", "ann", 2, LONG_TTL_MS, "t");
    let plan = client.words("SEAT.PLAN show").text();
    create(&server, "twin", &plan);
    assert_eq!(client.words("SEAT.PLAN twin").text(), plan);
    // Also a repeat, though the show is no longer empty.
    create(&server, "show", &plan);
}

#[test]
fn every_refusal_has_its_code() {
    let server = RedisServer::start();
    let limits = r#""limits":{"seats_per_user":4,"holds_per_user":1,"max_hold_ms":60000}"#;
    create(&server, "show", &sample_venue_with(2, 6, limits));
    let [mut resp2, mut resp3] = both(&server);
    for line in [
        "SET text 1",
        "SEAT.HOLD show ann 2 TTL 60000 TOKEN held",
        "SEAT.HOLD show bob 2 TTL 60000 TOKEN sold",
        "SEAT.CONFIRM show sold ORDER o1",
        "SEAT.BLOCK show 1 a-2-1",
    ] {
        assert!(!matches!(resp2.words(line), Reply::Error(_)), "{line}");
    }
    let digest = server.digest();
    for (line, expected) in [
        // Reading.
        ("SEAT.GET none a-1-1", "NOKEY there is no key 'none'"),
        ("SEAT.GET text a-1-1", "WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SEAT.GET show a-9-9", "NOTFOUND seat 'a-9-9' is not in the show"),
        ("SEAT.ORDER show o9", "NOTFOUND there is no order 'o9'"),
        ("SEAT.STAT show TIER x", "NOTFOUND no seat of this show has tier 'x'"),
        ("SEAT.STAT show AREA x", "NOTFOUND this show has no area 'x'"),
        ("SEAT.MAP show x", "NOTFOUND this show has no area 'x'"),
        ("SEAT.STAT show TIER", "ERR option 'TIER' has no value"),
        ("SEAT.STAT show TIER t TIER t", "ERR option 'TIER' is given twice"),
        ("SEAT.STAT show COLOUR red", "ERR syntax error: 'COLOUR' is not expected here"),
        // Keys.
        ("SEAT.HOLD none u 1 TTL 5", "NOKEY there is no key 'none'"),
        ("SEAT.HOLD text u 1 TTL 5", "WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SEAT.ALTER none {}", "NOKEY there is no key 'none'"),
        // Holding.
        ("SEAT.HOLD show u 0 TTL 5", "ERR count must be 1 to 500 (allot.seat-max-count), not 0"),
        ("SEAT.HOLD show u x TTL 5", "ERR count must be a whole number, not 'x'"),
        ("SEAT.HOLD show u 1 TTL 0", "ERR TTL must be 1 to 316224000000 ms, not 0"),
        (
            "SEAT.HOLD show u 1 TIER t",
            "ERR TTL is missing: say how long the hold shall live, in milliseconds",
        ),
        (
            "SEAT.HOLD show u 1 TTL 5 ADJACENT NO",
            "ERR 'ADJACENT' takes PREFER, REQUIRE, AREA or IGNORE, not 'NO'",
        ),
        ("SEAT.HOLD show u 1 TTL 5 AREAS 2 a", "ERR 'AREAS': 2 words are announced and 1 follow"),
        ("SEAT.HOLD show u 1 TTL 5 TIER x", "NOTFOUND no seat of this show has tier 'x'"),
        ("SEAT.HOLD show u 1 TTL 5 AREAS 1 x", "NOTFOUND this show has no area 'x'"),
        ("SEAT.HOLD show ann 1 TTL 5 TOKEN held", "EXISTS token 'held' is in use by another hold"),
        ("SEAT.HOLD show u 1 TTL 5 TOKEN sold", "EXISTS token 'sold' is in use: its seats are sold"),
        ("SEAT.HOLD show ann 1 TTL 5", "LIMIT user 'ann' may have 1 live holds and has 1; live hold: 'held'"),
        ("SEAT.HOLD show bob 3 TTL 5", "LIMIT user 'bob' may have 4 seats and has 2"),
        ("SEAT.HOLD show u 5 TTL 5", "LIMIT a user may have 4 seats, not 5"),
        (
            "SEAT.HOLD show u 1 TTL 60001",
            "LIMIT a hold lives at most 60000 ms in all; this one may have 60000 more",
        ),
        ("SEAT.HOLD show u 1 TTL 5 REPLACE held", "NOTOWNER token 'held' is not of user 'u'"),
        ("SEAT.HOLD show u 1 TTL 5 REPLACE none", "NOTFOUND there is no hold 'none'; it may have expired"),
        ("SEAT.PICK show u TTL 5 SEATS 1 a-1-1", "BADSTATE seat 'a-1-1' is held, not free"),
        (
            "SEAT.PICK show u TTL 5 SEATS 2 a-1-1 a-2-1",
            "BADSTATE seats 'a-1-1' (held), 'a-2-1' (blocked) are not free",
        ),
        ("SEAT.PICK show u TTL 5 SEATS 2 a-2-3 a-2-3", "ERR seat 'a-2-3' is named twice"),
        ("SEAT.PICK show u TTL 5 SEATS 1 x", "NOTFOUND seat 'x' is not in the show"),
        ("SEAT.PICK show u TTL 5 SEATS 0 x", "ERR 'SEATS': the number of words must be 1 or more"),
        // Then.
        ("SEAT.EXTEND show none TTL 5", "NOTFOUND there is no hold 'none'; it may have expired"),
        (
            "SEAT.EXTEND show held TTL 120000",
            "LIMIT a hold lives at most 60000 ms in all; this one may have ",
        ),
        ("SEAT.EXTEND show sold TTL 5", "BADSTATE token 'sold' is sold, not held"),
        ("SEAT.CONFIRM show none", "NOTFOUND there is no hold 'none'; it may have expired"),
        ("SEAT.CONFIRM show held USER bob", "NOTOWNER token 'held' is not of user 'bob'"),
        ("SEAT.CONFIRM show sold ORDER o2", "EXISTS token 'sold' is sold already, under order 'o1'"),
        ("SEAT.RELEASE show none", "NOTFOUND there is no hold 'none'; it may have expired"),
        ("SEAT.RELEASE show held SEATS 1 a-2-2", "NOTOWNER seat 'a-2-2' is not of hold 'held'"),
        ("SEAT.RELEASE show sold", "BADSTATE token 'sold' is sold, not held"),
        ("SEAT.REFUND show 1 a-1-1", "BADSTATE seat 'a-1-1' is held, not sold"),
        ("SEAT.REFUND show ORDER o2 1 a-1-3", "NOTOWNER seat 'a-1-3' is not of order 'o2'"),
        ("SEAT.BLOCK show 1 a-2-1", "BADSTATE seat 'a-2-1' is blocked, not free"),
        ("SEAT.UNBLOCK show 1 a-1-1", "BADSTATE seat 'a-1-1' is held, not blocked"),
        ("SEAT.HOLD show", "ERR wrong number of arguments for"),
    ] {
        for client in [&mut resp2, &mut resp3] {
            let reply = client.words(line);
            let error = reply.error();
            let open = expected.ends_with(" for") || expected.ends_with(" have ");
            let fits = error == expected || open && error.starts_with(expected);
            assert!(fits, "{line}\n  was answered {error}\n  and not      {expected}");
        }
    }
    assert_eq!(server.digest(), digest, "a refusal changed something");
    no_internal_errors(&server);
}

#[test]
fn enough_seats_that_are_not_side_by_side_have_a_code_of_their_own() {
    let server = RedisServer::start();
    create(&server, "show", &sample_venue_with(1, 6, r#""events":0"#));
    let mut client = server.raw();
    client.words("SEAT.BLOCK show 2 a-1-2 a-1-4");
    let digest = server.digest();
    assert_eq!(
        client.words("SEAT.HOLD show ann 3 TTL 1000 ADJACENT REQUIRE").error(),
        "NOADJACENT no 3 seats side by side are free"
    );
    assert_eq!(client.words("SEAT.HOLD show ann 5 TTL 1000 ADJACENT REQUIRE"), Reply::NullArray);
    assert_eq!(server.digest(), digest);
    let scattered = client.words("SEAT.HOLD show ann 3 TTL 1000");
    assert_eq!((scattered.field("adjacent"), scattered.field("groups")), (Reply::Int(0), Reply::Int(2)));
}

#[test]
fn errors_repeat_a_client_s_words_as_printable_text() {
    let server = RedisServer::start();
    create(&server, "show", THEATRE);
    let mut client = server.raw();
    let reply = client.call(&[&b"SEAT.GET"[..], b"show", b"a\r\n\0\xff%s\xc4\x80"]);
    assert_eq!(reply.error(), r"NOTFOUND seat 'a\x0d\x0a\x00\xff%s\xc4\x80' is not in the show");
    let long = client.call(&["SEAT.GET", "show", &"x".repeat(256)]);
    assert_eq!(long.error(), format!("NOTFOUND seat '{}...' is not in the show", "x".repeat(80)));
    let too_long = client.call(&["SEAT.GET", "show", &"x".repeat(257)]);
    assert_eq!(too_long.error(), "ERR seat must have 1 to 256 bytes, not 257");
    assert_eq!(client.words("PING"), Reply::Simple("PONG".into()));
}

#[test]
fn identifiers_may_be_any_bytes() {
    let server = RedisServer::start();
    create(&server, "show", THEATRE);
    let mut client = server.raw();
    let (user, token, order) = (&b"\0user\r\n\xff"[..], &b"\xf0 token\n"[..], &b"$-1\r\n"[..]);
    let record = client.call(&[&b"SEAT.HOLD"[..], b"show", user, b"2", b"TTL", b"60000", b"TOKEN", token]);
    assert_eq!((record.field("user"), record.field("token")), (Reply::bulk(user), Reply::bulk(token)));
    assert_eq!(
        client.call(&[&b"SEAT.CONFIRM"[..], b"show", token, b"USER", user, b"ORDER", order]),
        Reply::Int(2)
    );
    assert_eq!(client.call(&[&b"SEAT.ORDER"[..], b"show", order]), record.field("seats"));
    client.words("DEBUG RELOAD");
    assert_eq!(client.call(&[&b"SEAT.ORDER"[..], b"show", order]), record.field("seats"));
}
