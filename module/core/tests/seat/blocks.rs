//! Blocks with a name or an end.

use super::house::{House, code, wish};
use allot_core::seat::claims::Seats;
use allot_core::seat::event::{Event, Held, Turn};
use allot_core::seat::request::{AddBest, Hold, Pick, Replace, Request, Transfer, Wait, Wish};
use allot_core::seat::state::SeatState;
use allot_core::seat::{Reply, Show, WaitRecord};
use allot_core::shared::Bytes;
use allot_core::shared::field::Any;
use allot_core::shared::machine::FollowUp;
use allot_core::shared::refusal::Code;
use allot_core::shared::token::TokenChoice;

impl House {
    fn block_in(&mut self, name: Option<&str>, until: Option<i64>, seats: &[&str]) -> Result<Reply, Code> {
        let seats = seats.iter().map(|seat| seat.as_bytes()).collect();
        let request = Request::Block { name: name.map(str::as_bytes), until, per_user: None, seats };
        self.ask(&request).map_err(|refusal| refusal.code)
    }

    /// Puts seats into the block `press`, of which a user may have so many.
    fn limit_press(&mut self, most: u32, seats: &[&str]) {
        let seats = seats.iter().map(|seat| seat.as_bytes()).collect();
        let request = Request::Block { name: Some(b"press"), until: None, per_user: Some(most), seats };
        self.ask(&request).unwrap();
    }
}

fn press(user: &str, count: u32) -> Hold<'_> {
    Hold { wish: Wish { from: Some(b"press"), ..wish(user, count).wish }, ..wish(user, count) }
}

#[test]
fn seats_of_a_block_are_taken_with_from_only_and_return_to_it() {
    let mut house = House::rows("ltr", &["......"]);
    assert_eq!(house.block_in(Some("press"), None, &["a-1-1", "a-1-2", "a-1-3"]), Ok(Reply::Integer(3)));
    assert_eq!(house.hold(wish("ann", 4)), "none");
    assert_eq!(house.hold(press("ann", 2)), "a-1-1 a-1-2");
    assert_eq!(house.hold(press("ann", 2)), "none");
    assert_eq!(house.map(), "hhx...");
    assert_eq!(house.release("t2"), Ok(Reply::Integer(2)));
    assert_eq!(house.map(), "xxx...");
    assert_eq!(
        house.hold(Hold { wish: Wish { from: Some(b"nobody"), ..wish("ann", 1).wish }, ..wish("ann", 1) }),
        "NOTFOUND"
    );
    // A refund, too.
    let token = TokenChoice { token: b"sold", chosen: true };
    let seats = vec![&b"a-1-2"[..]];
    let pick = Pick {
        user: b"ann",
        ttl: 100,
        token,
        orphans: None,
        from: Some(b"press"),
        seats: seats.clone(),
        exchange: vec![],
    };
    house.ask(&Request::Pick(pick)).unwrap();
    house.confirm("sold", None).unwrap();
    house.ask(&Request::Refund { order: None, seats: Some(seats), into: None }).unwrap();
    assert_eq!(house.map(), "xxx...");
    assert_eq!(house.show.check(), Ok(()));
}

#[test]
fn pick_from_a_block_takes_only_its_blocked_seats() {
    let mut house = House::rows("ltr", &["......"]);
    house.block_in(Some("press"), None, &["a-1-1"]).unwrap();
    house.block(&["a-1-2"]);
    for seat in [b"a-1-2", b"a-1-3"] {
        let token = TokenChoice { token: b"t", chosen: true };
        let from = Some(&b"press"[..]);
        let pick =
            Pick { user: b"ann", ttl: 100, token, orphans: None, from, seats: vec![seat], exchange: vec![] };
        assert_eq!(code(house.ask(&Request::Pick(pick))), Code::BadState);
    }
    assert_eq!(house.pick("ann", "t", &["a-1-1"]).unwrap_err().code, Code::BadState);
}

#[test]
fn held_and_sold_seats_of_a_block_that_ended_are_free_when_given_back() {
    let mut house = House::rows("ltr", &["...."]);
    house.block_in(Some("press"), None, &["a-1-1", "a-1-2"]).unwrap();
    assert_eq!(house.hold(press("ann", 1)), "a-1-1");
    assert_eq!(house.ask(&Request::EndBlock(b"press")), Ok(Reply::Integer(1)));
    assert_eq!(code(house.ask(&Request::EndBlock(b"press"))), Code::NotFound);
    assert_eq!(house.map(), "h...");
    // Another block of the same name has nothing to do with the first.
    house.block_in(Some("press"), None, &["a-1-4"]).unwrap();
    house.release("t1").unwrap();
    assert_eq!(house.map(), "...x");
}

#[test]
fn block_ends_at_its_time_and_a_later_end_replaces_the_first() {
    let mut house = House::rows("ltr", &["....."]);
    house.block_in(None, Some(100), &["a-1-1"]).unwrap();
    house.block_in(Some("press"), Some(100), &["a-1-2"]).unwrap();
    house.block_in(Some("press"), Some(200), &["a-1-3"]).unwrap();
    house.block_in(Some("press"), None, &["a-1-4"]).unwrap();
    assert_eq!(house.block_in(None, Some(1), &["a-1-5"]), Err(Code::Err));
    assert_eq!(house.show.next_due(), Some(100));
    // A query does not wait for the timer.
    let state = |house: &House, seat: &[u8], now| {
        house.show.seat_record(house.show.venue().find(seat).unwrap(), now).state
    };
    assert_eq!(state(&house, b"a-1-1", 99), SeatState::Blocked);
    assert_eq!(state(&house, b"a-1-1", 100), SeatState::Free);
    house.now = 100;
    assert_eq!(house.hold(wish("ann", 1)), "a-1-1");
    assert_eq!(house.map(), "hxxx.");
    house.now = 200;
    assert_eq!(house.hold(wish("bob", 3)), "a-1-2 a-1-3 a-1-4");
    assert!(house.show.blocks().is_empty());
}

#[test]
fn replaced_hold_gives_its_seats_only_to_a_request_from_the_same_block() {
    let mut house = House::rows("ltr", &["..."]);
    house.block_in(Some("press"), None, &["a-1-1", "a-1-2"]).unwrap();
    assert_eq!(house.hold(press("ann", 2)), "a-1-1 a-1-2");
    let replace = |token| Some(allot_core::seat::request::Replace { token, other: false });
    assert_eq!(house.hold(Hold { replace: replace(b"t1"), ..wish("ann", 2) }), "none");
    assert_eq!(house.hold(Hold { replace: replace(b"t1"), ..press("ann", 1) }), "a-1-1");
    assert_eq!(house.map(), "hx.");
}

#[test]
fn events_that_mix_seats_of_a_block_with_others_are_refused() {
    let mut house = House::rows("ltr", &["...."]);
    house.block_in(Some("press"), None, &["a-1-1"]).unwrap();
    house.block_in(None, Some(50), &["a-1-3"]).unwrap();
    let held = |seats: &[u32]| {
        Event::Held(Held {
            token: Bytes::from_slice(b"t"),
            user: Bytes::from_slice(b"ann"),
            until: 10,
            fingerprint: Any(0),
            seats: Seats::from_slice(seats),
            turn: Turn::None,
            replaced: None,
            exchange: false,
        })
    };
    assert!(house.show.admits(&held(&[0])).is_ok());
    assert!(house.show.admits(&held(&[0, 1])).is_err());
    assert!(house.show.admits(&held(&[2])).is_err(), "a block without a name");
    let blocked = |name: Option<&[u8]>, until, seat| Event::Blocked {
        name: name.map(Bytes::from_slice),
        until,
        per_user: None,
        seats: Seats::from_slice(&[seat]),
    };
    assert!(house.show.admits(&blocked(None, None, 0)).is_err());
    assert!(house.show.admits(&blocked(None, None, 1)).is_ok());
    assert!(house.show.admits(&blocked(Some(b"press"), None, 0)).is_err());
    assert!(house.show.admits(&blocked(Some(b"press"), None, 1)).is_ok());
    let ended =
        |name: &[u8]| Event::BlockEnded { name: Some(Bytes::from_slice(name)), until: None, expired: false };
    assert!(house.show.admits(&ended(b"nobody")).is_err());
    assert!(house.show.admits(&ended(b"press")).is_ok());
}

#[test]
fn user_has_at_most_the_limit_of_a_block() {
    let mut house = House::rows("ltr", &["........"]);
    house.limit_press(2, &["a-1-1", "a-1-2", "a-1-3", "a-1-4"]);
    assert_eq!(house.hold(press("ann", 3)), "LIMIT");
    assert_eq!(house.hold(press("ann", 1)), "a-1-1");
    house.confirm("t2", None).unwrap();
    let token = TokenChoice { token: b"r", chosen: true };
    let refused = house.ask(&Request::Hold(Hold { token, ..press("ann", 2) })).unwrap_err();
    assert_eq!(refused.to_string(), "LIMIT user 'ann' may have 2 seats of block 'press' and has 1");
    assert_eq!(house.hold(press("ann", 1)), "a-1-2");
    let token = TokenChoice { token: b"p", chosen: true };
    let (seats, from) = (vec![&b"a-1-3"[..]], Some(&b"press"[..]));
    let pick =
        |user| Pick { user, ttl: 9, token, orphans: None, from, seats: seats.clone(), exchange: vec![] };
    assert_eq!(code(house.ask(&Request::Pick(pick(b"ann")))), Code::Limit);
    assert_eq!(code(house.ask(&Request::AddPicked(pick(b"ann")))), Code::Limit);
    // Neither another user nor other seats are limited.
    assert_eq!(house.hold(wish("ann", 3)), "a-1-5 a-1-6 a-1-7");
    assert!(house.ask(&Request::Pick(pick(b"bob"))).is_ok());
    // What the user gives back or exchanges does not count.
    let replace = Some(Replace { token: b"t3", other: false });
    assert_eq!(house.hold(Hold { replace, ..press("ann", 1) }), "a-1-2");
    let exchange = vec![&b"a-1-1"[..]];
    assert_eq!(
        house.hold(Hold { exchange, token: TokenChoice { token: b"x", chosen: true }, ..press("ann", 1) }),
        "a-1-4"
    );
    assert_eq!(code(house.confirm("x", None)), Code::Limit);
    house.ask(&Request::Refund { order: None, seats: Some(vec![b"a-1-1"]), into: None }).unwrap();
    house.confirm("x", None).unwrap();
    assert_eq!(house.show.check(), Ok(()));
}

#[test]
fn later_call_changes_the_limit_of_a_block() {
    let mut house = House::rows("ltr", &["......"]);
    house.limit_press(1, &["a-1-1", "a-1-2"]);
    house.block_in(Some("press"), None, &["a-1-3"]).unwrap();
    assert_eq!(house.hold(press("ann", 2)), "LIMIT");
    house.limit_press(2, &["a-1-4"]);
    assert_eq!(house.hold(press("ann", 2)), "a-1-1 a-1-2");
    house.limit_press(0, &["a-1-5"]);
    let token = TokenChoice { token: b"t2", chosen: true };
    let hold = Hold { token, ..press("ann", 1) };
    assert!(house.ask(&Request::AddBest(AddBest { hold, once: None })).is_ok());
    assert_eq!(house.show.block_records(house.now)[0].block.per_user, None);
    house.limit_press(1, &["a-1-6"]);
    let bytes = house.show.encode();
    assert_eq!(Show::decode(&bytes).unwrap().block_records(0)[0].block.per_user, Some(1));
    let block = |name, per_user| Request::Block { name, until: Some(9), per_user, seats: vec![b"a-1-4"] };
    assert_eq!(
        code(house.ask(&Request::EndBlock(b"press")).and_then(|_| house.ask(&block(None, Some(1))))),
        Code::Err
    );
    assert_eq!(code(house.ask(&block(Some(b"press"), Some(20_001)))), Code::Err);
}

#[test]
fn sale_is_not_transferred_beyond_the_limit_of_a_block() {
    let mut house = House::rows("ltr", &["....."]);
    house.limit_press(2, &["a-1-1", "a-1-2", "a-1-3"]);
    assert_eq!(house.hold(press("ann", 2)), "a-1-1 a-1-2");
    house.confirm("t1", None).unwrap();
    assert_eq!(house.hold(press("bob", 1)), "a-1-3");
    let transfer = |seats| {
        Request::Transfer(Transfer { user: b"bob", seats, order: None, to_order: Some(b"o"), token: b"new" })
    };
    assert_eq!(code(house.ask(&transfer(vec![b"a-1-1", b"a-1-2"]))), Code::Limit);
    assert_eq!(house.ask(&transfer(vec![b"a-1-1"])), Ok(Reply::Integer(1)));
}

#[test]
fn waiter_at_the_limit_of_a_block_is_served_once_the_limit_allows_it() {
    type Change = fn(&mut House);
    let wait = |user, token: &'static [u8]| {
        let token = TokenChoice { token, chosen: true };
        Request::Wait(Wait { hold: Hold { token, ..press(user, 1) }, offer: 100, priority: 0 })
    };
    let offered = |reply| matches!(reply, Ok(Reply::Wait(WaitRecord { offered: true, .. })));
    let examine = |house: &mut House| {
        while let FollowUp::Event(event) = follow(&mut house.show, house.now) {
            house.show.admits(&event).unwrap();
            house.show.apply(house.now, &event);
        }
    };
    let changes: [(&str, Change); 3] = [
        ("a higher limit", |house| house.limit_press(2, &["a-1-4"])),
        ("the hold is released", |house| _ = house.release("t1").unwrap()),
        ("another block of the name", |house| {
            house.ask(&Request::EndBlock(b"press")).unwrap();
            house.block_in(Some("press"), None, &["a-1-4"]).unwrap();
        }),
    ];
    for (name, change) in changes {
        let mut house = House::rows("ltr", &["......"]);
        house.limit_press(1, &["a-1-1", "a-1-2"]);
        assert_eq!(house.hold(press("ann", 1)), "a-1-1");
        assert!(!offered(house.ask(&wait("ann", b"w"))), "{name}");
        examine(&mut house);
        assert_eq!(house.show.waiters().len(), 1, "{name}");
        change(&mut house);
        examine(&mut house);
        assert_eq!(house.show.waiters().len(), 0, "{name}");
        assert_eq!(house.show.check(), Ok(()));
    }
    let mut house = House::rows("ltr", &["......"]);
    house.limit_press(1, &["a-1-1", "a-1-2"]);
    house.hold(press("ann", 1));
    house.confirm("t1", None).unwrap();
    assert_eq!(code(house.ask(&wait("ann", b"w"))), Code::Limit, "the user has bought what the limit allows");
}

/// The next event of the waiting list.
fn follow(show: &mut Show, now: i64) -> FollowUp<Event> {
    loop {
        match show.follow_up(now) {
            FollowUp::Continue => {}
            other => return other,
        }
    }
}
