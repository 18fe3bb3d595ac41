//! Seats of an order exchanged for held ones, in one step.

use super::house::{House, code, wish};
use allot_core::seat::request::{Hold, Pick, Request};
use allot_core::seat::{Reply, Show, decide};
use allot_core::shared::refusal::Code;
use allot_core::shared::token::TokenChoice;
use serde_json::json;

/// Order `o1` has seats 1 and 2, order `o2` seat 3, and `new` holds seats 5 and 6.
fn house() -> House {
    let row = json!({"label": "1", "rank": 1, "tier": "t", "seats": "1-9"});
    let plan = json!({"areas": [{"id": "a", "rows": [row]}], "limits": {"holds_per_user": 0}});
    let mut house = House::new(&plan);
    house.pick("ann", "t1", &["a-1-1", "a-1-2"]).unwrap();
    house.confirm("t1", Some("o1")).unwrap();
    house.pick("bob", "t2", &["a-1-3"]).unwrap();
    house.confirm("t2", Some("o2")).unwrap();
    house.pick("ann", "new", &["a-1-5", "a-1-6"]).unwrap();
    house
}

fn exchange<'a>(from: &'a [u8], seats: &[&'a [u8]]) -> Request<'a> {
    Request::Exchange { token: b"new", user: None, order: Some(b"o9"), from, seats: seats.to_vec() }
}

#[test]
fn exchange_sells_the_hold_and_frees_the_old_seats() {
    let mut house = house();
    let request = exchange(b"o1", &[b"a-1-1"]);
    assert_eq!(house.ask(&request), Ok(Reply::Integer(2)));
    assert_eq!(house.map(), ".ss.ss...");
    assert_eq!(house.show.order_seats(b"o9", 9).unwrap()[..], [4, 5]);
    assert_eq!(house.show.order_seats(b"o1", 9).unwrap()[..], [1]);
}

#[test]
fn exchange_that_is_sent_again_frees_nothing_that_was_sold_again() {
    let mut house = house();
    house.ask(&exchange(b"o1", &[b"a-1-1"])).unwrap();
    house.pick("cid", "t3", &["a-1-1"]).unwrap();
    house.confirm("t3", Some("o3")).unwrap();
    assert_eq!(house.ask(&exchange(b"o1", &[b"a-1-1"])), Ok(Reply::Integer(2)));
    assert_eq!(house.map(), "sss.ss...");
}

#[test]
fn exchange_of_a_seat_of_another_order_changes_nothing() {
    let mut house = house();
    let before = house.show.encode();
    for (seat, code) in [
        (&b"a-1-3"[..], Code::NotOwner),
        (b"a-1-5", Code::NotOwner),
        (b"a-1-9", Code::NotOwner),
        (b"b-1-1", Code::NotFound),
    ] {
        let request = exchange(b"o1", &[b"a-1-1", seat]);
        assert_eq!(house.ask(&request).unwrap_err().code, code);
        assert_eq!(house.show.encode(), before);
    }
    house.now = 1001;
    let decided = decide(&house.show, house.now, &exchange(b"o1", &[b"a-1-1"]));
    assert_eq!(decided.unwrap_err().code, Code::NotFound, "its deadline has passed and is not carried out");
    assert_eq!(house.ask(&exchange(b"o1", &[b"a-1-1"])).unwrap_err().code, Code::NotFound, "expired");
}

/// Ann may have 2 seats, and has bought seats 1 and 2 under order `o1`; Bob has seat 3.
fn limited() -> House {
    let row = json!({"label": "1", "rank": 1, "tier": "t", "seats": "1-9"});
    let plan = json!({"areas": [{"id": "a", "rows": [row]}], "limits": {"seats_per_user": 2}});
    let mut house = House::new(&plan);
    house.pick("ann", "t1", &["a-1-1", "a-1-2"]).unwrap();
    house.confirm("t1", Some("o1")).unwrap();
    house.pick("bob", "t2", &["a-1-3"]).unwrap();
    house.confirm("t2", Some("o2")).unwrap();
    house
}

fn pick_for<'a>(seat: &'a [u8], given: &[&'a [u8]]) -> Request<'a> {
    let token = TokenChoice { token: b"new", chosen: true };
    let (seats, exchange) = (vec![seat], given.to_vec());
    Request::Pick(Pick { user: b"ann", ttl: 1000, token, orphans: None, from: None, seats, exchange })
}

#[test]
fn hold_in_exchange_is_neutral_for_the_limits() {
    for best in [false, true] {
        let mut house = limited();
        let hold = |exchange| Hold {
            token: TokenChoice { token: b"new", chosen: true },
            exchange,
            ..wish("ann", 1)
        };
        let request = |given: &[&'static [u8]]| {
            if best { Request::Hold(hold(given.to_vec())) } else { pick_for(b"a-1-4", given) }
        };
        assert_eq!(code(house.ask(&request(&[]))), Code::Limit);
        assert_eq!(code(house.ask(&request(&[b"a-1-3"]))), Code::NotOwner, "sold to Bob");
        assert_eq!(code(house.ask(&request(&[b"a-1-5"]))), Code::BadState, "not sold");
        let held = house.ask(&request(&[b"a-1-1"])).unwrap();
        assert_eq!(house.ask(&request(&[b"a-1-1"])), Ok(held), "a retry gets its hold");
        assert_eq!(code(house.confirm("new", Some("o9"))), Code::Limit, "she would have three");
        let other = Request::Confirm { token: b"new", user: Some(b"ann"), order: None };
        assert_eq!(code(house.ask(&other)), Code::Limit);
        house.show = Show::decode(&house.show.encode()).unwrap();
        assert_eq!(code(house.confirm("new", Some("o9"))), Code::Limit, "also after a restart");
        assert_eq!(house.ask(&exchange(b"o1", &[b"a-1-2"])), Ok(Reply::Integer(1)), "any of her seats");
        assert_eq!(house.map(), "s.ss.....");
        assert_eq!(house.show.check(), Ok(()));
    }
}

#[test]
fn hold_in_exchange_may_be_sold_alone_once_its_user_has_room() {
    let mut house = limited();
    house.ask(&pick_for(b"a-1-4", &[b"a-1-1"])).unwrap();
    house.ask(&Request::Refund { order: Some(b"o1"), seats: Some(vec![b"a-1-1"]), into: None }).unwrap();
    assert_eq!(house.confirm("new", None), Ok(Reply::Integer(1)));
    let mut house = limited();
    house.ask(&pick_for(b"a-1-4", &[b"a-1-1"])).unwrap();
    house.release("new").unwrap();
    assert_eq!(house.show.check(), Ok(()));
}
