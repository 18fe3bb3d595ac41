//! Changes of rows, seats and areas on a live server: holds, orders, blocks and waiters go on, and the show is the same on
//! replicas and after restarts.

use allot_tests::shows::{THEATRE, create, no_internal_errors, seats_of, state_of, with_events};
use allot_tests::{RedisServer, Reply};

/// Adds a row and an area, changes the order of rows, and removes a seat, a row and the first flag.
const CHANGES: &str = r#"{"remove_seats":["left-A-1","left-B-2"],"add_areas":[
    {"id":"floor","standing":600,"tier":"pit","priority":9}],"areas":[
    {"id":"left","put_rows":[{"label":"0","rank":-1,"tier":"platinum","seats":[{"label":"1","flags":["view"]},{"label":"2"}]}]},
    {"id":"right","rows":[{"label":"A","rank":3}],"put_rows":[{"label":"B","rank":2,"tier":"silver","seats":"2,4,6,8,|,1,3,5"}]},
    {"id":"back","remove_rows":["2"]}]}"#;

#[test]
fn altered_show_goes_on_and_is_the_same_on_replicas_and_after_restarts() {
    let server = RedisServer::builder().arg("appendonly", "yes").start();
    let (replica, late) = (RedisServer::start(), RedisServer::start());
    create(&server, "show", &with_events(THEATRE, 50));
    replica.replica_of(&server);
    replica.wait_replica_synced();
    let mut client = server.raw();
    for line in [
        "SEAT.PICK show ann TTL 600000 TOKEN ann SEATS 2 right-A-12 right-B-6",
        "SEAT.PICK show bob TTL 600000 TOKEN bob SEATS 3 left-A-2 right-B-5 right-A-1",
        "SEAT.BLOCK show NAME press 3 left-A-1 right-A-2 back-2-1",
        "SEAT.WAIT show cid 2 TTL 600000 OFFER 60000 TIER gold FLAGS 1 wheelchair FROM press ADJACENT REQUIRE TOKEN cid",
    ] {
        let reply = client.words(line);
        assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
    }
    assert_eq!(client.words("SEAT.CONFIRM show bob ORDER o"), Reply::Int(3));
    assert_eq!(client.call(&["SEAT.ALTER", "show", CHANGES]), Reply::Simple("OK".into()));
    // The row of `right` has four adjacent seats now, of which one is held.
    client.words(
        "SEAT.WAIT show dee 4 TTL 600000 OFFER 60000 TIER silver AREAS 1 right ADJACENT REQUIRE TOKEN dee",
    );
    assert_eq!(client.words("SEAT.HOLDS show dee").array().len(), 0);
    client.words("SEAT.RELEASE show ann SEATS 1 right-B-6");
    let offered = client.words("SEAT.HOLDS show dee").array()[0].clone();
    assert_eq!(seats_of(&offered), ["right-B-2", "right-B-4", "right-B-6", "right-B-8"]);
    assert_eq!(seats_of(&client.words("SEAT.HOLDS show ann").array()[0]), ["right-A-12"]);
    let sold: Vec<String> = client.words("SEAT.ORDER show o").array().iter().map(Reply::text).collect();
    assert_eq!(sold, ["left-A-2", "right-B-5", "right-A-1"]);
    let map: Vec<String> = ["left", "right", "back"]
        .into_iter()
        .flat_map(|area| client.words(&format!("SEAT.MAP show {area}")).array().to_vec())
        .map(|row| format!("{} {}", row.array()[0].text(), row.array()[1].text()))
        .collect();
    assert_eq!(
        map,
        ["A  s.... ......", "B .  ...", "0 ..", "A sx.........h", "B hhhh ..s", "1 ...................."]
    );
    assert_eq!(state_of(&mut client, "show", "floor-600"), "free");
    let removed = client.call(&["SEAT.ALTER", "show", r#"{"areas":[{"id":"right","remove_rows":["A"]}]}"#]);
    assert_eq!(removed.error(), "BADSTATE seat 'right-A-1' is sold; it cannot be removed");
    server.wait_offset_equal(&replica);
    let digest = server.digest();
    assert_eq!(replica.digest(), digest);
    late.replica_of(&server);
    late.wait_replica_synced();
    assert_eq!(late.digest(), digest);
    client.words("DEBUG RELOAD");
    assert_eq!(server.digest(), digest);
    client.words("DEBUG LOADAOF");
    assert_eq!(server.digest(), digest);
    // All of them go on in the same way.
    assert_eq!(client.words("SEAT.REFUND show ORDER o 1 right-A-1"), Reply::Int(1));
    assert_eq!(client.words("SEAT.CONFIRM show dee ORDER d EXCHANGE o 1 left-A-2"), Reply::Int(4));
    assert_eq!(client.words("SEAT.UNBLOCK show NAME press"), Reply::Int(1));
    server.wait_offset_equal(&replica);
    server.wait_offset_equal(&late);
    assert_eq!([replica.digest(), late.digest()], [server.digest(), server.digest()]);
    for server in [&server, &replica, &late] {
        no_internal_errors(server);
    }
}

#[test]
fn added_row_is_offered_to_a_waiter_in_the_same_step() {
    let server = RedisServer::start();
    let plan = r#"{"areas":[{"id":"a","rows":[{"label":"1","rank":1,"tier":"t","seats":"1-2"}]}]}"#;
    create(&server, "show", &with_events(plan, 9));
    let mut client = server.raw();
    client.words("SEAT.HOLD show ann 2 TTL 600000 TOKEN ann");
    let wait = client.words("SEAT.WAIT show bob 2 TTL 600000 OFFER 60000 TOKEN bob");
    assert_eq!(wait.field("state"), Reply::bulk("waiting"));
    client.words("MULTI");
    let part = r#"{"areas":[{"id":"a","put_rows":[{"label":"2","rank":2,"tier":"t","seats":"1-2"}]}]}"#;
    client.call(&["SEAT.ALTER", "show", part]);
    client.words("SEAT.HOLD show cid 1 TTL 600000");
    let replies = client.words("EXEC");
    assert_eq!(replies.array()[0], Reply::Simple("OK".into()));
    assert!(replies.array()[1].is_null(), "the waiter has the new seats");
    assert_eq!(seats_of(&client.words("SEAT.HOLDS show bob").array()[0]), ["a-2-1", "a-2-2"]);
    let events: Vec<String> = client
        .words("XRANGE show:evt - +")
        .array()
        .iter()
        .map(|entry| entry.array()[1].array()[1].text())
        .collect();
    assert_eq!(events, ["created", "held", "waiting", "altered", "offered"]);
    no_internal_errors(&server);
}
