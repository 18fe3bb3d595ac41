//! Standing areas, sentence by sentence of docs/seats.md.

use super::house::{House, area, plan_error, wish};
use allot_core::seat::plan::PickOrphans;
use allot_core::seat::request::{Adjacent, Hold, Need, Orphans, Pick, Replace, Request, Wish};
use allot_core::seat::{Reply, Show, decide};
use allot_core::shared::machine::Machine;
use allot_core::shared::refusal::Code;
use allot_core::shared::token::TokenChoice;
use serde_json::{Value, json};

/// A floor of standing places beside stalls of two rows.
fn festival(places: u32) -> House {
    House::new(&json!({"areas": [floor(places), area("stalls", 2, "rtl", &["....", "...."])],
        "limits": {"holds_per_user": 0}}))
}

fn floor(places: u32) -> Value {
    json!({"id": "floor", "priority": 1, "rule": "rtl", "standing": places, "tier": "pit"})
}

fn places(count: u32) -> Hold<'static> {
    Hold { wish: Wish { tier: Some(b"pit"), ..wish("ann", count).wish }, ..wish("ann", count) }
}

#[test]
fn lowest_free_places_are_taken_first_and_every_party_stands_together() {
    let mut house = festival(8);
    assert_eq!(house.hold(places(3)), "floor-1 floor-2 floor-3");
    house.block(&["floor-5"]);
    // Adjacency and single places play no part.
    for (adjacent, orphans, expected) in [
        (Adjacent::Require, Orphans::Forbid, "floor-4 floor-6"),
        (Adjacent::Area, Orphans::Avoid, "floor-7"),
        (Adjacent::Ignore, Orphans::Allow, "floor-8"),
    ] {
        let count = expected.split(' ').count() as u32;
        assert_eq!(
            house.hold(Hold { wish: Wish { adjacent, orphans, ..places(count).wish }, ..places(count) }),
            expected,
            "{adjacent:?}"
        );
    }
    assert_eq!(house.hold(places(1)), "none");
    house.release("t1").unwrap();
    assert_eq!(house.hold(places(2)), "floor-1 floor-2");
    assert_eq!(house.hold(wish("ann", 4)), "stalls-1-1 stalls-1-2 stalls-1-3 stalls-1-4");
    let seat = |id: &str| house.show.venue().find(id.as_bytes()).unwrap();
    assert_eq!(house.show.groups_and_areas(&[seat("floor-1"), seat("floor-8")]), (1, 1));
    assert_eq!(house.show.groups_and_areas(&[seat("floor-8"), seat("stalls-1-1")]), (2, 2));
    assert_eq!(house.show.check(), Ok(()));
}

#[test]
fn request_for_any_tier_prefers_a_standing_area_of_better_priority() {
    let mut house = festival(3);
    assert_eq!(house.hold(wish("ann", 2)), "floor-1 floor-2");
    assert_eq!(house.hold(wish("ann", 2)), "stalls-1-3 stalls-1-4", "one place is left");
    // Over several areas.
    let rest = "floor-3 stalls-1-1 stalls-1-2 stalls-2-1 stalls-2-2 stalls-2-3 stalls-2-4";
    assert_eq!(house.hold(wish("ann", 7)), rest);
}

#[test]
fn places_beyond_4096_have_numbers_too() {
    let mut house = festival(5000);
    assert_eq!(
        house
            .hold(Hold { wish: Wish { adjacent: Adjacent::Ignore, ..places(100).wish }, ..places(100) })
            .split(' ')
            .count(),
        100
    );
    for chunk in 1..50 {
        let held = house.hold(places(100));
        let numbers: Vec<String> =
            (chunk * 100 + 1..=chunk * 100 + 100).map(|number| format!("floor-{number}")).collect();
        assert_eq!(held, numbers.join(" "));
    }
    assert_eq!(house.hold(places(1)), "none");
    let venue = house.show.venue();
    for number in [1, 4096, 4097, 5000] {
        let id = format!("floor-{number}");
        assert_eq!(venue.id(venue.find(id.as_bytes()).unwrap()), id);
    }
    for id in
        ["floor-0", "floor-01", "floor-5001", "floor-8192", "floor--1", "floor-", "floor-x", "floor--1-1"]
    {
        assert_eq!(venue.find(id.as_bytes()), None, "{id}");
    }
    let bytes = house.show.encode();
    let loaded = Show::decode(&bytes).unwrap();
    assert_eq!((loaded.check(), loaded.encode()), (Ok(()), bytes));
}

#[test]
fn place_takes_at_most_one_byte() {
    for places in [5000, 100_000] {
        let empty = House::new(&json!({"areas": [area("a", 1, "ltr", &["."])]})).show.allocated();
        let with_floor = House::new(&json!({"areas": [area("a", 1, "ltr", &["."]), floor(places)]}));
        let bytes = with_floor.show.allocated() - empty;
        assert!(bytes <= places as usize, "{bytes} bytes for {places} places");
    }
}

#[test]
fn plan_of_a_standing_area_comes_back() {
    let house = festival(5000);
    let json = house.show.plan_json();
    assert!(json.contains(r#""rule":"rtl","standing":5000,"tier":"pit"}"#), "{json}");
    assert_eq!(Show::open(&json, 0).unwrap().plan_json(), json);
}

#[test]
fn plan_with_a_wrong_standing_area_is_refused() {
    let error = |change: &dyn Fn(&mut Value)| {
        let mut floor = floor(5);
        change(&mut floor);
        plan_error(&json!({"areas": [area("a", 1, "ltr", &["...."]), floor]}))
    };
    for (place, value, expected) in [
        ("standing", json!(0), "ERR plan: areas[1]: standing: must be 1 to 2000000 places, not 0"),
        (
            "standing",
            json!(2_000_001),
            "ERR plan: areas[1]: standing: must be 1 to 2000000 places, not 2000001",
        ),
        ("standing", json!(2_000_000), "ERR plan: areas[1]: the plan has more than 2000000 seats"),
        (
            "rows",
            area("b", 1, "ltr", &["."])["rows"].clone(),
            "ERR plan: areas[1]: rows: a standing area has none",
        ),
        ("tier", Value::Null, "ERR plan: areas[1]: tier: is missing in a standing area"),
        ("tier", json!(""), "ERR plan: areas[1].tier: is empty"),
        (
            "standing",
            Value::Null,
            "ERR plan: areas[1]: tier: only a standing area has one; name the tiers of rows or seats",
        ),
        ("id", json!("a-1"), "ERR plan: areas[1]: seat id 'a-1-1' occurs twice"),
    ] {
        assert_eq!(error(&|floor| floor[place] = value.clone()), expected);
    }
}

#[test]
fn place_whose_id_ends_in_the_label_of_a_seat_is_refused() {
    // The label of the row is "b", and that of its seat is "c-1".
    let plan = |standing: u32, label: &str| {
        let row = json!({"label": "b", "rank": 1, "tier": "t", "seats": [{"label": label}]});
        let floor = json!({"id": "a-b-c", "tier": "t", "standing": standing});
        json!({"areas": [{"id": "a", "rows": [row]}, floor]})
    };
    assert_eq!(plan_error(&plan(5, "c-1")), "ERR plan: areas[1]: seat id 'a-b-c-1' occurs twice");
    // These are no places.
    for label in ["c-6", "c-01", "c1", "c"] {
        Show::open(&plan(5, label).to_string(), 0).unwrap();
    }
}

#[test]
fn pick_of_places_may_leave_single_ones() {
    let mut house = festival(5);
    let token = TokenChoice { token: b"t", chosen: true };
    let (orphans, seats) = (Some(PickOrphans::Forbid), vec![&b"floor-2"[..], b"floor-4"]);
    let pick = Pick { user: b"ann", ttl: 100, token, orphans, from: None, seats, exchange: vec![] };
    assert!(house.ask(&Request::Pick(pick)).is_ok());
}

#[test]
fn party_with_needs_is_not_seated_in_a_standing_area() {
    let mut house = House::new(&json!({"areas": [floor(9), area("stalls", 2, "ltr", &["..w."])]}));
    let needs = vec![Need { count: 1, flag: &b"wheelchair"[..] }];
    assert_eq!(
        house.hold(Hold { wish: Wish { needs, ..wish("ann", 2).wish }, ..wish("ann", 2) }),
        "stalls-1-3 stalls-1-4"
    );
}

#[test]
fn scattered_party_with_needs_may_have_places_for_its_other_members() {
    let mut house = House::new(&json!({"areas": [floor(9), area("stalls", 2, "ltr", &["w"])]}));
    let needs = vec![Need { count: 1, flag: &b"wheelchair"[..] }];
    let party = Hold { wish: Wish { needs, ..wish("ann", 2).wish }, ..wish("ann", 2) };
    assert_eq!(
        house
            .hold(Hold { wish: Wish { adjacent: Adjacent::Require, ..party.wish.clone() }, ..party.clone() }),
        "NOADJACENT"
    );
    assert_eq!(house.hold(party), "floor-1 stalls-1-1");
}

#[test]
fn places_of_a_block_and_of_a_replaced_hold_are_taken_by_number() {
    let mut house = festival(9);
    let seats = vec![&b"floor-8"[..], b"floor-2", b"floor-4"];
    house.ask(&Request::Block { name: Some(b"press"), until: None, per_user: None, seats }).unwrap();
    assert_eq!(
        house.hold(Hold { wish: Wish { from: Some(b"press"), ..places(2).wish }, ..places(2) }),
        "floor-2 floor-4"
    );
    assert_eq!(house.hold(places(3)), "floor-1 floor-3 floor-5");
    let replace = |token, other| Some(Replace { token, other });
    assert_eq!(house.hold(Hold { replace: replace(b"t2", true), ..places(3) }), "floor-6 floor-7 floor-9");
    assert_eq!(
        house.hold(Hold { replace: replace(b"t3", false), ..places(4) }),
        "floor-1 floor-3 floor-5 floor-6"
    );
}

#[test]
fn overdue_places_serve_a_request_for_seats_together() {
    let mut house = festival(4);
    for _ in 0..4 {
        house.hold(Hold { ttl: 9, ..places(1) });
    }
    // Three seats are free, but none beside another.
    house.block(&["stalls-1-2", "stalls-1-4", "stalls-2-1", "stalls-2-2", "stalls-2-3"]);
    let token = TokenChoice { token: b"new", chosen: true };
    let request = Request::Hold(Hold {
        token,
        wish: Wish { adjacent: Adjacent::Require, ..wish("bob", 3).wish },
        ..wish("bob", 3)
    });
    let (mut show, now) = (house.show.clone(), 20);
    assert_eq!(show.decide_or_try_again(now, &request).unwrap_err().code, Code::TryAgain);
    show.due(now, 100).iter().for_each(|event| show.apply(now, event));
    let Ok(Reply::Hold(record)) = decide(&show, now, &request).map(|decision| decision.reply) else {
        panic!("no places are held");
    };
    assert_eq!(show.venue().id(record.seats[2]), "floor-3");
}

#[test]
fn tier_of_a_standing_area_changes_unless_places_are_held() {
    let mut house = festival(3);
    let alter = |house: &mut House, id: &str| {
        house.alter(&json!({"areas": [{"id": id, "tier": "ring"}]})).map_err(|refusal| refusal.code)
    };
    assert_eq!(alter(&mut house, "stalls"), Err(Code::Err));
    house.hold(places(1));
    assert_eq!(alter(&mut house, "floor"), Err(Code::BadState));
    house.release("t1").unwrap();
    assert!(alter(&mut house, "floor").is_ok());
    assert_eq!(house.hold(places(1)), "NOTFOUND");
    assert_eq!(
        house.hold(Hold { wish: Wish { tier: Some(b"ring"), ..places(1).wish }, ..places(1) }),
        "floor-1"
    );
    assert_eq!(house.show.check(), Ok(()));
}

#[test]
fn last_of_several_areas_gives_its_lowest_places() {
    let stalls = area("stalls", 0, "ltr", &[".."]);
    let mut house = House::new(&json!({"areas": [floor(4), stalls]}));
    house.block(&["floor-2"]);
    // Neither area has four. Places 3 and 4 are a longer run than place 1.
    assert_eq!(house.hold(wish("ann", 4)), "floor-1 floor-3 stalls-1-1 stalls-1-2");
}
