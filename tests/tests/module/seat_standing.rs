//! A standing area on a live server: replies, replica, reload and append-only file.

use allot_tests::shows::{create, no_internal_errors, seats_of, state_of, with_events};
use allot_tests::{RedisServer, Reply};

const FESTIVAL: &str = r#"{"areas":[{"id":"floor","standing":5000,"tier":"pit"},
  {"id":"stalls","priority":2,"rows":[{"label":"1","rank":1,"tier":"gold","seats":"1-4"}]}],
  "limits":{"holds_per_user":0}}"#;

#[test]
fn standing_area_is_the_same_on_a_replica_and_after_restarts() {
    let server = RedisServer::builder().arg("appendonly", "yes").start();
    let replica = RedisServer::start();
    create(&server, "show", &with_events(FESTIVAL, 50));
    replica.replica_of(&server);
    replica.wait_replica_synced();
    let mut client = server.raw();
    let held = client.words("SEAT.HOLD show ann 100 TTL 600000 TIER pit ADJACENT REQUIRE TOKEN ann");
    assert_eq!(seats_of(&held).last().map(String::as_str), Some("floor-100"));
    assert_eq!(held.field("groups"), Reply::Int(1));
    client.words("SEAT.CONFIRM show ann ORDER o");
    assert_eq!(client.words("SEAT.REFUND show ORDER o 2 floor-1 floor-50"), Reply::Int(2));
    client.words("SEAT.BLOCK show NAME press 2 floor-4500 floor-101");
    let held = client.words("SEAT.HOLD show bob 3 TTL 600000 ORPHANS FORBID TOKEN bob");
    assert_eq!(seats_of(&held), ["floor-1", "floor-50", "floor-102"]);
    let held = client.words("SEAT.HOLD show cid 1 TTL 600000 FROM press TOKEN cid");
    assert_eq!(seats_of(&held), ["floor-101"]);
    let counts: Vec<(String, String)> = client
        .words("SEAT.MAP show floor")
        .array()
        .iter()
        .map(|state| (state.array()[0].text(), state.array()[1].text()))
        .collect();
    let expected = [("free", "4897"), ("held", "4"), ("sold", "98"), ("blocked", "1")];
    assert_eq!(counts, expected.map(|(state, count)| (state.to_owned(), count.to_owned())));
    let stat = client.words("SEAT.STAT show AREA floor");
    assert_eq!(stat.array()[0].field("longest"), Reply::Int(4897));
    let place = client.words("SEAT.GET show floor-4500");
    let field = |name: &str| place.field(name);
    assert_eq!((field("area"), field("row")), (Reply::bulk("floor"), Reply::bulk("")));
    assert_eq!((field("label"), field("state")), (Reply::bulk("4500"), Reply::bulk("blocked")));
    assert_eq!(client.words("SEAT.MAP show stalls").array()[0].array()[1], Reply::bulk("...."));
    server.wait_offset_equal(&replica);
    let digest = server.digest();
    assert_eq!(replica.digest(), digest);
    assert_eq!(state_of(&mut replica.raw(), "show", "floor-2"), "sold");
    client.words("DEBUG RELOAD");
    assert_eq!(server.digest(), digest);
    client.words("DEBUG LOADAOF");
    assert_eq!(server.digest(), digest);
    no_internal_errors(&server);
    no_internal_errors(&replica);
}
