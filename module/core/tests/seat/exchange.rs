//! Seats of an order exchanged for held ones, in one step.

use super::house::House;
use allot_core::seat::request::Request;
use allot_core::seat::{Reply, decide};
use allot_core::shared::refusal::Code;
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
