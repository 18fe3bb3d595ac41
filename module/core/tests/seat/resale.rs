//! Sold seats that change places and hands, or go into a block, sentence by sentence of docs/seats.md.

use super::house::{House, area, code, wish};
use allot_core::seat::Reply;
use allot_core::seat::request::{Hold, Move, Pick, Request, Transfer, Wish};
use allot_core::seat::venue::Seat;
use allot_core::shared::Bytes;
use allot_core::shared::refusal::{Code, Refusal};
use allot_core::shared::token::TokenChoice;
use serde_json::json;

/// Six gold seats and two silver ones. Ann has bought seats 1 and 2 as order `o1`, and Bob seat 3 as `o2`.
fn house() -> House {
    let rows = [
        json!({"label": "1", "rank": 1, "tier": "gold", "seats": "1-6"}),
        json!({"label": "2", "rank": 2, "tier": "silver", "seats": "1-2"}),
    ];
    let limits = json!({"seats_per_user": 2, "waits_per_user": 2});
    let mut house = House::new(&json!({"areas": [{"id": "a", "rows": rows}], "limits": limits}));
    house.pick("ann", "t1", &["a-1-1", "a-1-2"]).unwrap();
    house.confirm("t1", Some("o1")).unwrap();
    house.pick("bob", "t2", &["a-1-3"]).unwrap();
    house.confirm("t2", Some("o2")).unwrap();
    house
}

impl House {
    fn seat(&self, id: &str) -> Seat {
        self.show.venue().find(id.as_bytes()).unwrap()
    }

    /// The user and the order of a sold seat.
    fn owner(&self, id: &str) -> (String, String) {
        let record = self.show.seat_record(self.seat(id), self.now);
        let text = |bytes: Option<Bytes>| String::from_utf8(bytes.unwrap_or_default().to_vec()).unwrap();
        (text(record.user), text(record.order))
    }

    fn moved(&mut self, pairs: &[(&str, &str)], any_tier: bool) -> Result<Reply, Refusal> {
        let pairs = pairs.iter().map(|(from, to)| (from.as_bytes(), to.as_bytes())).collect();
        self.step(&Request::Move(Move { pairs, any_tier }))
    }

    fn transfer(
        &mut self,
        user: &str,
        seats: &[&str],
        order: Option<&str>,
        to_order: Option<&str>,
        token: &str,
    ) -> Result<Reply, Refusal> {
        let [order, to_order] = [order, to_order].map(|order| order.map(str::as_bytes));
        let seats = seats.iter().map(|seat| seat.as_bytes()).collect();
        let (user, token) = (user.as_bytes(), token.as_bytes());
        self.step(&Request::Transfer(Transfer { user, seats, order, to_order, token }))
    }

    /// Others hold all free gold seats, and Cid waits for one.
    fn cid_waits(&mut self) {
        let token = TokenChoice { token: b"c", chosen: true };
        self.pick("dan", "d", &["a-1-4", "a-1-5"]).unwrap();
        self.pick("eve", "e", &["a-1-6"]).unwrap();
        let hold = Hold { ttl: 10_000, token, ..wish("cid", 1) };
        let wish = Wish { tier: Some(&b"gold"[..]), ..hold.wish.clone() };
        assert!(!self.wait("cid", Hold { wish, ..hold }, 0).unwrap().offered);
    }
}

fn sold(user: &str, order: &str) -> (String, String) {
    (user.into(), order.into())
}

#[test]
fn sales_swap_their_seats_and_a_waiter_gets_none() {
    let mut house = house();
    house.cid_waits();
    let swap = [("a-1-2", "a-1-3"), ("a-1-3", "a-1-2")];
    assert_eq!(house.moved(&swap, false), Ok(Reply::Integer(2)));
    assert_eq!(house.owner("a-1-2"), sold("bob", "o2"));
    assert_eq!(house.owner("a-1-3"), sold("ann", "o1"));
    assert_eq!(house.show.order_seats(b"o1", 9).unwrap()[..], [house.seat("a-1-1"), house.seat("a-1-3")]);
    assert_eq!(house.seats_of("cid"), 0);
    assert_eq!(house.confirm("t1", Some("o1")), Ok(Reply::Integer(2)), "the same sale");
}

#[test]
fn seat_that_a_sale_leaves_is_offered_to_a_waiter() {
    let mut house = house();
    house.cid_waits();
    let chain = [("a-1-1", "a-2-1"), ("a-1-3", "a-1-1")];
    assert_eq!(house.moved(&chain, true), Ok(Reply::Integer(2)));
    assert_eq!((house.seats_of("cid"), house.map()), (1, "sshhhh/s.".into()));
    assert_eq!(house.owner("a-1-1"), sold("bob", "o2"));
}

#[test]
fn sale_moves_to_free_seats_of_its_tier_beyond_the_limit_of_its_user() {
    let mut house = house();
    for (pairs, any_tier, expected) in [
        (&[("a-1-4", "a-1-5")][..], false, Code::BadState),
        (&[("a-1-1", "a-1-3")], false, Code::BadState),
        (&[("a-1-1", "a-2-1")], false, Code::BadState),
        (&[("a-1-1", "nowhere")], false, Code::NotFound),
        (&[("a-1-1", "a-1-4"), ("a-1-2", "a-1-4")], false, Code::Err),
        (&[("a-1-1", "a-1-4"), ("a-1-1", "a-1-5")], false, Code::Err),
    ] {
        let before = house.show.encode();
        assert_eq!(code(house.moved(pairs, any_tier)), expected, "{pairs:?}");
        assert_eq!(house.show.encode(), before);
    }
    house.moved(&[("a-1-1", "a-2-1"), ("a-1-2", "a-1-5")], true).unwrap();
    assert_eq!(house.map(), "..s.s./s.");
    assert_eq!(house.owner("a-2-1"), sold("ann", "o1"));
}

#[test]
fn seat_of_a_block_returns_to_it_when_its_sale_moves() {
    let mut house = house();
    let seats = vec![&b"a-1-4"[..]];
    house
        .step(&Request::Block { name: Some(b"press"), until: None, per_user: None, seats: seats.clone() })
        .unwrap();
    let token = TokenChoice { token: b"p", chosen: true };
    let pick =
        Pick { user: b"pia", ttl: 9, token, orphans: None, from: Some(b"press"), seats, exchange: vec![] };
    house.step(&Request::Pick(pick)).unwrap();
    house.confirm("p", None).unwrap();
    house.moved(&[("a-1-4", "a-1-5")], false).unwrap();
    assert_eq!(house.map(), "sssxs./..");
    house.step(&Request::EndBlock(b"press")).unwrap();
    assert_eq!(house.map(), "sss.s./..");
}

#[test]
fn transferred_seats_are_a_sale_of_another_user() {
    let mut house = house();
    assert_eq!(house.transfer("bob", &["a-1-2"], Some("o1"), None, "x"), Ok(Reply::Integer(1)));
    assert_eq!((house.owner("a-1-1"), house.owner("a-1-2")), (sold("ann", "o1"), sold("bob", "o1")));
    let before = house.show.encode();
    assert_eq!(house.transfer("bob", &["a-1-2"], Some("o1"), None, "y"), Ok(Reply::Integer(1)));
    assert_eq!(house.show.encode(), before, "a repeated request changes nothing");
    assert_eq!(code(house.transfer("bob", &["a-1-1"], None, None, "y")), Code::Limit);
    assert_eq!(code(house.transfer("fay", &["a-1-1"], Some("o2"), None, "y")), Code::NotOwner);
    assert_eq!(code(house.transfer("fay", &["a-1-1", "a-1-3"], None, None, "y")), Code::Err);
    assert_eq!(code(house.transfer("fay", &["a-1-4"], None, None, "y")), Code::BadState);
    assert_eq!(house.show.encode(), before);
    house.transfer("fay", &["a-1-1", "a-1-3"], None, Some("o3"), "y").unwrap();
    assert_eq!(house.show.order_seats(b"o3", 9).unwrap().len(), 2);
    assert_eq!(house.confirm("y", Some("o3")), Ok(Reply::Integer(2)));
    assert_eq!(house.show.check(), Ok(()));
}

#[test]
fn transfer_lets_its_former_user_have_seats_again() {
    let areas = json!([area("a", 1, "ltr", &["....."])]);
    let mut house = House::new(&json!({"areas": areas, "limits": {"seats_per_user": 2}}));
    house.pick("ann", "t", &["a-1-1", "a-1-2"]).unwrap();
    let token = TokenChoice { token: b"w", chosen: true };
    let wait = house.wait("ann", Hold { token, ttl: 10_000, ..wish("ann", 1) }, 0);
    assert!(!wait.unwrap().offered, "Ann has as many seats as she may");
    house.confirm("t", None).unwrap();
    house.settle();
    assert_eq!(house.seats_of("ann"), 0);
    house.transfer("fay", &["a-1-1", "a-1-2"], None, None, "x").unwrap();
    assert_eq!(house.seats_of("ann"), 1);
}

#[test]
fn given_up_seats_go_into_a_block_and_to_no_waiter() {
    let refund = Request::Refund { order: Some(b"o2"), seats: None, into: Some(b"kept") };
    let release = Request::Release { token: b"e", seats: None, into: Some(b"kept") };
    let hold = Request::BlockHold { name: Some(b"kept"), until: Some(500), per_user: None, token: b"e" };
    for request in [refund, release, hold] {
        let mut house = house();
        house.cid_waits();
        assert_eq!(house.step(&request), Ok(Reply::Integer(1)), "{request:?}");
        assert_eq!(house.seats_of("cid"), 0, "{request:?}");
        let block = house.show.blocks().called(b"kept").unwrap();
        assert_eq!(house.show.blocks().get(block).unwrap().seats.len(), 1);
        house.step(&Request::EndBlock(b"kept")).unwrap();
        assert_eq!(house.seats_of("cid"), 1, "{request:?}");
    }
}

#[test]
fn hold_that_becomes_a_block_is_free_when_the_block_ends() {
    let mut house = house();
    house.pick("dan", "d", &["a-1-4", "a-1-5"]).unwrap();
    let until = Some(house.now + 5000);
    let block = |until| Request::BlockHold { name: None, until, per_user: None, token: b"d" };
    assert_eq!(house.step(&block(until)), Ok(Reply::Integer(2)));
    assert_eq!(house.map(), "sssxx./..");
    assert_eq!(code(house.step(&block(until))), Code::NotFound, "the hold is gone");
    house.now += 5000;
    house.settle();
    assert_eq!(house.map(), "sss.../..");
}

#[test]
fn seats_of_a_block_leave_it_for_the_block_into_which_they_go() {
    let mut house = house();
    for (name, seat) in [(b"press", &b"a-1-4"[..]), (b"staff", b"a-1-5")] {
        house
            .step(&Request::Block { name: Some(name), until: None, per_user: None, seats: vec![seat] })
            .unwrap();
    }
    let take = |house: &mut House| {
        let token = TokenChoice { token: b"p", chosen: true };
        let (user, from, seats) = (b"pia", Some(&b"press"[..]), vec![&b"a-1-4"[..]]);
        let pick = Pick { user, ttl: 9, token, orphans: None, from, seats, exchange: vec![] };
        house.step(&Request::Pick(pick)).unwrap();
    };
    take(&mut house);
    house.step(&Request::Release { token: b"p", seats: None, into: Some(b"press") }).unwrap();
    assert_eq!(house.show.blocks().len(), 2, "it is where it was");
    take(&mut house);
    let late = Request::BlockHold { name: Some(b"press"), until: Some(90), per_user: None, token: b"p" };
    assert_eq!(
        code(house.step(&late)),
        Code::BadState,
        "the end of a block changes with a seat that joins it"
    );
    house.step(&Request::Release { token: b"p", seats: None, into: Some(b"staff") }).unwrap();
    assert_eq!(house.show.blocks().len(), 1, "the other has ended with its last seat");
    assert_eq!(house.step(&Request::EndBlock(b"staff")), Ok(Reply::Integer(2)));
}

#[test]
fn whole_order_is_refunded_without_a_list() {
    let mut house = house();
    let refund = |order| Request::Refund { order, seats: None, into: None };
    assert_eq!(house.step(&refund(Some(b"o1"))), Ok(Reply::Integer(2)));
    assert_eq!(house.map(), "..s.../..");
    assert_eq!(code(house.step(&refund(Some(b"o1")))), Code::NotFound);
    assert_eq!(code(house.step(&refund(None))), Code::Err);
}
