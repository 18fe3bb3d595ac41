//! Seats that are added to a live hold, sentence by sentence of docs/seats.md.

use super::house::{House, area, code, wish};
use allot_core::seat::request::{AddBest, Adjacent, Hold, Need, Pick, Replace, Request, Wish};
use allot_core::seat::{HoldRecord, Reply, Show};
use allot_core::shared::refusal::{Code, Refusal};
use allot_core::shared::token::TokenChoice;
use serde_json::json;

impl House {
    fn ids(&self, seats: &[u32]) -> String {
        seats.iter().map(|&seat| self.show.venue().id(seat)).collect::<Vec<_>>().join(" ")
    }

    fn add_picked(&mut self, user: &str, token: &str, seats: &[&str]) -> Result<Reply, Refusal> {
        let token = TokenChoice { token: token.as_bytes(), chosen: true };
        let seats = seats.iter().map(|seat| seat.as_bytes()).collect();
        let (user, from) = (user.as_bytes(), None);
        self.ask(&Request::AddPicked(Pick {
            user,
            ttl: 1000,
            token,
            orphans: None,
            from,
            seats,
            exchange: vec![],
        }))
    }

    fn add_best(&mut self, hold: Hold<'_>, once: Option<&str>) -> Result<Reply, Refusal> {
        let hold = Hold { token: TokenChoice { token: b"cart", chosen: true }, ..hold };
        self.ask(&Request::AddBest(AddBest { hold, once: once.map(str::as_bytes) }))
    }

    /// The seats that are added to the cart of Ann.
    fn added(&mut self, hold: Hold<'_>) -> String {
        let before = record(self.add_picked("ann", "cart", &["a-1-3"])).seats;
        let mut after = record(self.add_best(hold, None)).seats;
        after.retain(|seat| !before.contains(seat));
        self.ids(&after)
    }
}

#[track_caller]
fn record(reply: Result<Reply, Refusal>) -> HoldRecord {
    match reply {
        Ok(Reply::Hold(record)) => record,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_click_of_a_buyer_adds_to_one_hold_with_one_deadline() {
    let mut house = House::new(&json!({"areas": [area("a", 1, "ltr", &["...."])]}));
    let first = record(house.add_picked("ann", "cart", &["a-1-2"]));
    house.now += 10;
    let second = record(house.add_picked("ann", "cart", &["a-1-2", "a-1-3"]));
    assert_eq!(house.ids(&second.seats), "a-1-2 a-1-3");
    assert_eq!(second.until, first.until, "only EXTEND moves the deadline");
    let before = house.show.encode();
    assert_eq!(record(house.add_picked("ann", "cart", &["a-1-3"])), second);
    assert_eq!(house.show.encode(), before, "a repeated click changes nothing");
    assert_eq!(code(house.add_picked("ann", "other", &["a-1-4"])), Code::Limit, "the cart is one hold");
    assert_eq!(house.confirm("cart", None), Ok(Reply::Integer(2)));
}

#[test]
fn cart_that_is_of_another_or_sold_takes_no_seats_and_one_that_expired_begins_again() {
    let mut house = House::rows("ltr", &["...."]);
    house.add_picked("ann", "cart", &["a-1-1"]).unwrap();
    assert_eq!(code(house.add_picked("bob", "cart", &["a-1-2"])), Code::NotOwner);
    assert_eq!(code(house.add_best(wish("bob", 1), None)), Code::NotOwner);
    house.now += 1000;
    let second = record(house.add_picked("bob", "cart", &["a-1-2"]));
    assert_eq!((house.ids(&second.seats), second.until), ("a-1-2".into(), house.now + 1000));
    house.confirm("cart", None).unwrap();
    assert_eq!(code(house.add_picked("bob", "cart", &["a-1-3"])), Code::Exists);
    assert_eq!(code(house.add_best(wish("bob", 1), None)), Code::Exists);
}

#[test]
fn request_that_adds_names_its_hold_and_replaces_none() {
    let mut house = House::rows("ltr", &["...."]);
    let unnamed = TokenChoice { token: b"made", chosen: false };
    let (user, seats) = (b"ann", vec![&b"a-1-1"[..]]);
    let pick = Pick { user, ttl: 1000, token: unnamed, orphans: None, from: None, seats, exchange: vec![] };
    assert_eq!(code(house.ask(&Request::AddPicked(pick))), Code::Err);
    house.add_picked("ann", "old", &["a-1-1"]).unwrap();
    let replace = Some(Replace { token: b"old", other: false });
    assert_eq!(code(house.add_best(Hold { replace, ..wish("ann", 1) }, None)), Code::Err);
}

#[test]
fn cart_counts_for_the_limits_and_is_never_refused_for_a_single_seat() {
    let limits = json!({"seats_per_user": 3, "pick_orphans": "forbid"});
    let mut house = House::new(&json!({"areas": [area("a", 1, "ltr", &["......"])], "limits": limits}));
    assert_eq!(code(house.pick("ann", "pick", &["a-1-2"])), Code::Limit);
    house.add_picked("ann", "cart", &["a-1-2"]).unwrap();
    house.add_picked("ann", "cart", &["a-1-4"]).unwrap();
    assert_eq!(code(house.add_picked("ann", "cart", &["a-1-5", "a-1-6"])), Code::Limit);
    assert_eq!(code(house.add_best(wish("ann", 2), None)), Code::Limit);
    house.add_best(wish("ann", 1), None).unwrap();
    assert_eq!(house.map(), ".hhh..");
}

#[test]
fn best_seats_join_the_run_next_to_the_cart_before_any_other() {
    let silver =
        |count| Hold { wish: Wish { tier: Some(b"s"), ..wish("ann", count).wish }, ..wish("ann", count) };
    let gold = |count| wish("ann", count);
    for (rows, hold, expected) in [
        (&["........"][..], gold(1), "a-1-4"),
        (&["........"], gold(2), "a-1-1 a-1-2"),
        // On both sides.
        (&["........"], gold(4), "a-1-1 a-1-2 a-1-4 a-1-5"),
        // A seat of another tier may be beside the cart.
        (&["...ssss"], silver(2), "a-1-4 a-1-5"),
        // Those that are added are of one tier, so no two fit around the cart.
        (&["xs.b", "..bb"], gold(2), "a-2-3 a-2-4"),
    ] {
        let mut house = House::rows("ltr", rows);
        assert_eq!(house.added(hold), expected, "{rows:?}");
    }
}

#[test]
fn best_seats_join_a_cart_that_ends_with_the_last_seat_of_the_venue() {
    let row = ".".repeat(64);
    let mut house = House::rows("ltr", &[&row]);
    house.add_picked("ann", "cart", &["a-1-64"]).unwrap();
    let more = record(house.add_best(wish("ann", 2), None));
    assert_eq!(house.ids(&more.seats), "a-1-62 a-1-63 a-1-64");
}

#[test]
fn best_seats_that_cannot_be_next_to_the_cart_are_near_it() {
    // The row before is nearer than the seats across the gap.
    let mut house = House::rows("ltr", &["........", ".. .....", "........"]);
    house.add_picked("ann", "cart", &["a-2-1", "a-2-2"]).unwrap();
    let more = record(house.add_best(wish("ann", 2), None));
    assert_eq!(house.ids(&more.seats), "a-1-1 a-1-2 a-2-1 a-2-2");
    // A party of up to 10 splits near the cart.
    let mut house = House::rows("ltr", &[". . . . . . .", ". . . . . . ."]);
    house.add_picked("ann", "cart", &["a-2-6"]).unwrap();
    let more = record(house.add_best(wish("ann", 2), None));
    assert_eq!(house.ids(&more.seats), "a-1-5 a-1-6 a-2-6");
    // It must not, so the seats are elsewhere.
    let areas = [area("a", 1, "ltr", &[". . ."]), area("b", 2, "ltr", &["..."])];
    let mut house = House::new(&json!({"areas": areas}));
    house.add_picked("ann", "cart", &["a-1-1"]).unwrap();
    let hold = Hold { wish: Wish { adjacent: Adjacent::Require, ..wish("ann", 2).wish }, ..wish("ann", 2) };
    let more = record(house.add_best(hold, None));
    assert_eq!(house.ids(&more.seats), "a-1-1 b-1-1 b-1-2");
}

#[test]
fn seat_with_a_needed_flag_is_near_the_cart() {
    let mut house = House::rows("ltr", &["....w", "w...."]);
    house.add_picked("ann", "cart", &["a-2-2"]).unwrap();
    let needs = vec![Need { count: 1, flag: &b"wheelchair"[..] }];
    let hold = Hold { wish: Wish { needs, ..wish("ann", 1).wish }, ..wish("ann", 1) };
    let more = record(house.add_best(hold, None));
    assert_eq!(house.ids(&more.seats), "a-2-1 a-2-2");
}

#[test]
fn request_with_once_is_carried_out_once_and_16_are_remembered() {
    let mut house = House::rows("ltr", &["....................................................."]);
    let add =
        |house: &mut House, once: Option<&str>| record(house.add_best(wish("ann", 1), once)).seats.len();
    assert_eq!((add(&mut house, Some("0")), add(&mut house, Some("0"))), (1, 1), "it made the hold");
    assert_eq!((add(&mut house, None), add(&mut house, None)), (2, 3));
    for number in 1..=16 {
        let once = number.to_string();
        assert_eq!((add(&mut house, Some(&once)), add(&mut house, Some(&once))), (3 + number, 3 + number));
    }
    house.show = Show::decode(&house.show.encode()).unwrap();
    assert_eq!((add(&mut house, Some("1")), add(&mut house, Some("17"))), (19, 20));
    assert_eq!((add(&mut house, Some("2")), add(&mut house, Some("1"))), (20, 21), "the first is forgotten");
    assert_eq!(house.show.check(), Ok(()));
    house.confirm("cart", None).unwrap();
    assert_eq!(house.show.check(), Ok(()));
}
