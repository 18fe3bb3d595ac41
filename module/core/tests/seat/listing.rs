//! Lists in parts, and offers without a hold.

use super::house::{House, wish};
use allot_core::seat::Show;
use allot_core::seat::list::Filter;
use allot_core::seat::request::{Adjacent, NamedWish, Orphans, Request, Wish};
use allot_core::seat::state::SeatState;
use allot_core::shared::refusal::Code;
use serde_json::json;
use std::collections::HashSet;

/// Two areas of 40 and 6 seats with a break each, gold and silver.
fn house() -> House {
    let area = |id: &str, tier: &str, seats: &str| json!({"id": id, "rows": [{"label": "1", "rank": 1, "tier": tier, "seats": seats}]});
    let areas = [area("a", "gold", "1-20,|,21-40"), area("b", "silver", "1-3,|,4-6")];
    House::new(&json!({"areas": areas, "limits": {"holds_per_user": 0}}))
}

/// Every id of a list of seats, in parts of `count` places.
fn seats(house: &House, filter: Filter<'_>, count: u32) -> Vec<String> {
    let (mut found, mut cursor) = (Vec::new(), 0);
    loop {
        let (part, next) = house.show.list_seats(filter, cursor, count, house.now).unwrap();
        found.extend(part.iter().map(|record| house.show.venue().id(record.seat)));
        if next == 0 {
            return found;
        }
        assert!(next > cursor);
        cursor = next;
    }
}

#[test]
fn every_seat_is_listed_once_for_any_parts() {
    let house = house();
    let all = seats(&house, Filter::default(), 4000);
    assert_eq!(all.len(), 46);
    for count in [1, 7, 20, 21, 42] {
        assert_eq!(seats(&house, Filter::default(), count), all);
    }
}

#[test]
fn cursor_from_before_a_change_of_rows_is_refused() {
    let mut house = house();
    let listed = |house: &House, cursor| house.show.list_seats(Filter::default(), cursor, 7, house.now);
    let (_, cursor) = listed(&house, 0).unwrap();
    // Names, limits and tiers move no seat.
    let same = json!({"areas": [{"id": "a", "name": "A", "rows": [{"label": "1", "tier": "silver"}]}]});
    house.alter(&same).unwrap();
    let loaded = Show::decode(&house.show.encode()).unwrap();
    for show in [&house.show, &loaded] {
        assert!(show.list_seats(Filter::default(), cursor, 7, house.now).is_ok());
    }
    let row = |seats: &str| json!({"label": "1", "rank": 1, "tier": "gold", "seats": seats});
    let put = |seats| json!({"areas": [{"id": "b", "put_rows": [row(seats)]}]});
    let mut cursor = cursor;
    for changed in [put("1-6"), put("6-1"), put("6-1,7")] {
        house.alter(&changed).unwrap();
        let refusal = listed(&house, cursor).unwrap_err();
        assert_eq!(refusal.code, Code::BadState);
        assert!(refusal.text.contains("begin again with CURSOR 0"), "{}", refusal.text);
        cursor = listed(&house, 0).unwrap().1;
        assert!(listed(&house, cursor).is_ok());
    }
}

#[test]
fn seats_are_filtered_by_state_tier_area_and_user() {
    let mut house = house();
    house.pick("ann", "t1", &["a-1-7", "b-1-2"]).unwrap();
    house.confirm("t1", Some("o1")).unwrap();
    house.pick("bob", "t2", &["b-1-3"]).unwrap();
    let listed = |filter| seats(&house, filter, 3);
    let all = Filter::default();
    assert_eq!(listed(Filter { state: Some(SeatState::Sold), ..all }), ["a-1-7", "b-1-2"]);
    assert_eq!(listed(Filter { state: Some(SeatState::Held), ..all }), ["b-1-3"]);
    assert_eq!(listed(Filter { user: Some(b"ann"), area: Some(1), ..all }), ["b-1-2"]);
    assert_eq!(listed(Filter { tier: Some(1), ..all }).len(), 6);
    assert_eq!(listed(Filter { tier: Some(1), area: Some(0), ..all }), [""; 0]);
    house.now = 1002;
    let held = Filter { state: Some(SeatState::Held), ..all };
    assert_eq!(seats(&house, held, 3), [""; 0], "the hold has ended");
}

/// The tokens of all live holds or of all sales, in parts of `count` numbers.
fn tokens(show: &Show, sold: bool, count: u32, filter: Filter<'_>) -> Vec<String> {
    let (mut found, mut cursor) = (Vec::new(), 0);
    loop {
        let (part, next) = if sold {
            let (sales, next) = show.list_sales(filter, cursor, count);
            (sales.into_iter().map(|sale| sale.sale).collect(), next)
        } else {
            show.list_holds(filter, cursor, count, 5)
        };
        found.extend(part.iter().map(|record| String::from_utf8_lossy(&record.token).into_owned()));
        if next == 0 {
            return found;
        }
        cursor = next;
    }
}

#[test]
fn holds_and_sales_that_stay_are_listed_once_while_others_change() {
    let mut house = house();
    for number in 1..=20 {
        house.pick("ann", &format!("t{number}"), &[&format!("a-1-{number}")]).unwrap();
    }
    for number in [3, 9, 15] {
        house.confirm(&format!("t{number}"), None).unwrap();
    }
    house.release("t2").unwrap();
    let (first, cursor) = house.show.list_holds(Filter::default(), 0, 8, house.now);
    // The first part is over: places before and behind the cursor change.
    house.release("t1").unwrap();
    house.release("t20").unwrap();
    house.pick("ann", "new", &["b-1-1"]).unwrap();
    // A server that loads the show goes on with the same cursor.
    let loaded = Show::decode(&house.show.encode()).unwrap();
    for show in [&house.show, &loaded] {
        let (rest, next) = show.list_holds(Filter::default(), cursor, 100, house.now);
        assert_eq!(next, 0);
        let listed: Vec<_> = first.iter().chain(&rest).map(|record| record.token.clone()).collect();
        let distinct: HashSet<_> = listed.iter().collect();
        assert_eq!(distinct.len(), listed.len(), "{listed:?}");
        let stayed = (1..20).filter(|number| ![1, 2, 3, 9, 15].contains(number));
        for token in stayed.map(|number| format!("t{number}")) {
            assert!(listed.iter().any(|other| other[..] == *token.as_bytes()), "{token} is missing");
        }
        assert_eq!(tokens(show, true, 4, Filter::default()), ["t3", "t9", "t15"]);
    }
}

#[test]
fn holds_and_sales_are_filtered_by_their_seats_and_user() {
    let mut house = house();
    house.pick("ann", "t1", &["a-1-1", "b-1-1"]).unwrap();
    house.pick("bob", "t2", &["a-1-2"]).unwrap();
    house.pick("bob", "t3", &["b-1-2"]).unwrap();
    house.confirm("t3", Some("o")).unwrap();
    let all = Filter::default();
    assert_eq!(tokens(&house.show, false, 9, Filter { area: Some(1), ..all }), ["t1"]);
    assert_eq!(tokens(&house.show, false, 9, Filter { user: Some(b"bob"), ..all }), ["t2"]);
    assert_eq!(tokens(&house.show, true, 9, Filter { tier: Some(1), ..all }), ["t3"]);
    assert_eq!(tokens(&house.show, true, 9, Filter { tier: Some(0), ..all }), [""; 0]);
}

#[test]
fn numbers_of_claims_survive_a_snapshot() {
    let mut house = self::house();
    for number in 1..=6 {
        house.pick("ann", &format!("t{number}"), &[&format!("a-1-{number}")]).unwrap();
    }
    house.release("t5").unwrap();
    house.release("t2").unwrap();
    let mut loaded = self::house();
    loaded.show = Show::decode(&house.show.encode()).unwrap();
    for house in [&mut house, &mut loaded] {
        house.pick("ann", "next", &["b-1-1"]).unwrap();
    }
    assert_eq!(loaded.show.encode(), house.show.encode());
    assert_eq!(loaded.show.check(), Ok(()));
}

#[test]
fn numbers_of_claims_that_contradict_each_other_are_refused() {
    let mut house = house();
    house.pick("ann", "t1", &["a-1-1"]).unwrap();
    house.pick("ann", "t2", &["a-1-2"]).unwrap();
    house.release("t1").unwrap();
    let sound = house.show.encode();
    // One claim with number 1, and the free number 0.
    let numbers = [&[1, 1, 1, 0][..], b"\x02t2"].concat();
    let at = sound.windows(numbers.len()).position(|window| window == numbers).unwrap();
    for damaged in [[1, 1, 1, 1], [1, 2, 1, 0], [1, 0, 1, 0]] {
        let bytes = [&sound[..at], &damaged[..], &sound[at + 4..]].concat();
        assert!(Show::decode(&bytes).is_err(), "{damaged:?}");
    }
}

fn wanted(count: u32) -> NamedWish<'static> {
    Wish {
        count,
        tier: None,
        areas: vec![],
        adjacent: Adjacent::Prefer,
        orphans: Orphans::Avoid,
        flags: vec![],
        needs: vec![],
        preferred: vec![],
        from: None,
    }
}

fn found(house: &House, wanted: &NamedWish<'_>, best: usize) -> Vec<String> {
    let offers = house.show.find(wanted, best).unwrap();
    let ids = |seats: &[u32]| seats.iter().map(|&seat| house.show.venue().id(seat)).collect::<Vec<_>>();
    offers.iter().map(|seats| ids(seats).join(" ")).collect()
}

#[test]
fn first_offer_is_what_a_hold_gets_and_nothing_changes() {
    let mut house = house();
    let before = house.show.encode();
    for _ in 0..6 {
        let offers = found(&house, &wanted(2), 1);
        assert_eq!(offers, [house.hold(wish("ann", 2))]);
    }
    assert_ne!(house.show.encode(), before);
    let before = house.show.encode();
    found(&house, &wanted(2), 20);
    assert_eq!(house.show.encode(), before);
}

#[test]
fn offers_are_of_different_areas_the_best_first() {
    let mut house = house();
    assert_eq!(found(&house, &wanted(2), 20), ["a-1-1 a-1-2", "b-1-1 b-1-2"]);
    assert_eq!(found(&house, &wanted(4), 20)[0], "a-1-1 a-1-2 a-1-3 a-1-4");
    assert_eq!(found(&house, &wanted(41), 20).len(), 1, "over both areas, so there is no other");
    assert_eq!(found(&house, &wanted(47), 20), [""; 0]);
    let require = Wish { adjacent: Adjacent::Require, ..wanted(21) };
    assert_eq!(found(&house, &require, 20), [""; 0]);
    let areas: Vec<&[u8]> = vec![b"b"];
    assert_eq!(found(&house, &Wish { areas: areas.clone(), ..wanted(1) }, 20), ["b-1-1"]);
    house.ask(&Request::Block { name: None, until: None, per_user: None, seats: vec![b"b-1-1"] }).unwrap();
    assert_eq!(found(&house, &Wish { areas: areas.clone(), ..wanted(1) }, 20), ["b-1-4"]);
}

#[test]
fn a_find_that_cannot_be_is_refused() {
    let house = house();
    let code = |wanted: &NamedWish<'_>| house.show.find(wanted, 1).unwrap_err().code;
    assert_eq!(code(&wanted(0)), Code::Err);
    assert_eq!(code(&wanted(501)), Code::Err);
    assert_eq!(code(&Wish { tier: Some(b"iron"), ..wanted(1) }), Code::NotFound);
    let ignore = Wish { adjacent: Adjacent::Ignore, orphans: Orphans::Forbid, ..wanted(1) };
    assert_eq!(code(&ignore), Code::Err);
}
