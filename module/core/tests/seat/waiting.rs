//! The waiting list, sentence by sentence of docs/seats.md.

use super::house::{House, wish};
use allot_core::seat::list::Filter;
use allot_core::seat::request::{Adjacent, Hold, NamedWish, Need, Orphans, Replace, Request, Wait, Wish};
use allot_core::seat::{Event, Reply, Show, WaitRecord, decide, decide_due};
use allot_core::shared::machine::FollowUp;
use allot_core::shared::refusal::{Code, Refusal};
use allot_core::shared::token::TokenChoice;
use serde_json::json;

impl House {
    /// One area `a` with a row `1` of `seats` seats of tier gold and a row `2` of two seats of tier silver.
    fn with_seats(seats: usize, limits: &serde_json::Value) -> Self {
        let rows = [
            json!({"label": "1", "rank": 1, "tier": "gold", "seats": format!("1-{seats}")}),
            json!({"label": "2", "rank": 2, "tier": "silver", "seats": "1-2"}),
        ];
        Self::new(&json!({"areas": [{"id": "a", "rows": rows}], "limits": limits}))
    }

    /// Asks, applies deadlines before, and serves the list after it, as a step of the module does.
    pub(super) fn step(&mut self, request: &Request<'_>) -> Result<Reply, Refusal> {
        self.settle();
        let reply = self.ask(request);
        self.settle();
        reply
    }

    pub(super) fn settle(&mut self) {
        for event in decide_due(&self.show, self.now, usize::MAX) {
            self.show.apply(self.now, &event);
        }
        while self.examine(usize::MAX) {}
        assert_eq!(self.show.check(), Ok(()));
    }

    /// Examines the list in so many pieces at most. Returns whether there may be more.
    fn examine(&mut self, pieces: usize) -> bool {
        for _ in 0..pieces {
            match self.show.follow_up(self.now) {
                FollowUp::Event(event) => {
                    self.show.admits(&event).unwrap();
                    self.show.apply(self.now, &event);
                }
                FollowUp::Continue => {}
                FollowUp::Done => return false,
            }
        }
        true
    }

    pub(super) fn wait(&mut self, user: &str, hold: Hold<'_>, priority: i32) -> Result<WaitRecord, Code> {
        let token = TokenChoice { token: user.as_bytes(), chosen: true };
        let hold = Hold { user: user.as_bytes(), token, ..hold };
        match self.step(&Request::Wait(Wait { hold, offer: 100, priority })) {
            Ok(Reply::Wait(record)) => Ok(record),
            Ok(reply) => panic!("{reply:?}"),
            Err(refusal) => Err(refusal.code),
        }
    }

    /// The seats of a user's live holds.
    pub(super) fn seats_of(&self, user: &str) -> usize {
        self.show.holds_of(user.as_bytes(), self.now).iter().map(|hold| hold.seats.len()).sum()
    }
}

fn gold(count: u32) -> Hold<'static> {
    Hold { ttl: 10_000, wish: Wish { tier: Some(b"gold"), ..wish("", count).wish }, ..wish("", count) }
}

/// A show whose four gold seats are held by `first`.
fn sold_out() -> House {
    let mut house = House::with_seats(4, &json!({}));
    house.pick("first", "h", &["a-1-1", "a-1-2", "a-1-3", "a-1-4"]).unwrap();
    house
}

#[test]
fn wait_is_offered_seats_at_once_where_there_are_some() {
    let mut house = House::with_seats(4, &json!({}));
    let record = house.wait("ann", gold(2), 0).unwrap();
    assert!(record.offered && record.position == 0);
    assert_eq!((record.until, house.seats_of("ann")), (house.now + 100, 2));
    assert!(house.show.waiters().is_empty());
}

#[test]
fn freed_seats_are_offered_in_the_same_step_in_order_of_arrival() {
    let mut house = sold_out();
    for (position, user) in ["ann", "bob", "cid"].into_iter().enumerate() {
        let record = house.wait(user, gold(2), 0).unwrap();
        assert_eq!((record.offered, record.position), (false, position as u64 + 1));
    }
    house.step(&Request::Release { token: b"h", seats: None, into: None }).unwrap();
    assert_eq!(["ann", "bob", "cid"].map(|user| house.seats_of(user)), [2, 2, 0]);
    let cid = house.wait("cid", gold(2), 0).unwrap();
    assert_eq!((cid.offered, cid.position), (false, 1), "a retry shows the position of now");
    assert!(house.wait("ann", gold(2), 0).unwrap().offered, "a retry shows the offer");
}

#[test]
fn waiters_are_listed_by_what_they_ask_for_by_name() {
    let mut house = sold_out();
    house
        .step(&Request::Block { name: Some(b"press"), until: None, per_user: None, seats: vec![b"a-2-1"] })
        .unwrap();
    house.pick("eve", "e", &["a-2-2"]).unwrap();
    house.wait("any", Hold { wish: Wish { tier: None, ..gold(1).wish }, ..gold(1) }, 0).unwrap();
    house.wait("ann", gold(1), 0).unwrap();
    house
        .wait(
            "bob",
            Hold { wish: Wish { tier: Some(b"silver"), areas: vec![b"a"], ..gold(1).wish }, ..gold(1) },
            0,
        )
        .unwrap();
    house
        .wait("cid", Hold { wish: Wish { tier: None, from: Some(b"press"), ..gold(2).wish }, ..gold(2) }, 0)
        .unwrap();
    let listed = |filter: Filter<'_>| -> Vec<String> {
        let (waiters, _) = house.show.list_waiters(filter, 0, 100, house.now);
        let name = |&id: &u32| String::from_utf8_lossy(&house.show.waiters().get(id).user).into_owned();
        waiters.iter().map(name).collect()
    };
    let all = Filter::default();
    assert_eq!(listed(all), ["any", "ann", "bob", "cid"]);
    assert_eq!(listed(Filter { tier: house.show.venue().tier_called(b"gold"), ..all }), ["ann"]);
    assert_eq!(listed(Filter { area: Some(0), ..all }), ["bob"]);
    assert_eq!(listed(Filter { block: house.show.blocks().called(b"press"), ..all }), ["cid"]);
    assert_eq!(listed(Filter { user: Some(b"ann"), area: Some(0), ..all }), [""; 0]);
}

#[test]
fn seats_given_back_in_an_exchange_are_offered_in_the_same_step() {
    let mut house = sold_out();
    house.confirm("h", Some("old")).unwrap();
    house.pick("first", "new", &["a-2-1"]).unwrap();
    house.wait("ann", gold(1), 0).unwrap();
    // This search is in vain.
    house.pick("eve", "eve", &["a-2-2"]).unwrap();
    house.settle();
    let exchange = Request::Exchange {
        token: b"new",
        user: None,
        order: Some(b"other"),
        from: b"old",
        seats: vec![b"a-1-3"],
    };
    assert_eq!(house.step(&exchange).unwrap(), Reply::Integer(1));
    assert_eq!(house.seats_of("ann"), 1);
}

#[test]
fn raised_limit_serves_those_whom_it_kept_waiting() {
    for limit in ["holds_per_user", "seats_per_user"] {
        let mut house = House::with_seats(4, &json!({"holds_per_user": 1, "seats_per_user": 2}));
        house.pick("ann", "a", &["a-1-1", "a-1-2"]).unwrap();
        if limit == "holds_per_user" {
            // Only the number of holds keeps the user waiting.
            house.alter(&json!({"limits": {"seats_per_user": 0}})).unwrap();
        } else {
            house.alter(&json!({"limits": {"holds_per_user": 0}})).unwrap();
        }
        assert!(!house.wait("ann", gold(1), 0).unwrap().offered);
        house.alter(&json!({"limits": {limit: 3}})).unwrap();
        house.settle();
        assert_eq!(house.seats_of("ann"), 3, "{limit}");
    }
}

#[test]
fn higher_priority_is_served_first() {
    let mut house = sold_out();
    house.wait("ann", gold(4), 0).unwrap();
    assert_eq!(house.wait("vip", gold(4), 7).unwrap().position, 1);
    house.step(&Request::Release { token: b"h", seats: None, into: None }).unwrap();
    assert_eq!((house.seats_of("ann"), house.seats_of("vip")), (0, 4));
}

#[test]
fn waiter_who_cannot_be_served_does_not_hold_up_the_next() {
    let mut house = sold_out();
    house.wait("ann", gold(3), 0).unwrap();
    house.wait("bob", gold(1), 0).unwrap();
    house.step(&Request::Release { token: b"h", seats: Some(vec![b"a-1-2"]), into: None }).unwrap();
    assert_eq!((house.seats_of("ann"), house.seats_of("bob")), (0, 1));
}

#[test]
fn offer_that_is_not_confirmed_goes_to_the_next_at_its_expiry() {
    let mut house = sold_out();
    house.wait("ann", gold(4), 0).unwrap();
    house.wait("bob", gold(4), 0).unwrap();
    house.step(&Request::Release { token: b"h", seats: None, into: None }).unwrap();
    assert_eq!(house.seats_of("ann"), 4);
    house.now += 100;
    house.settle();
    assert_eq!((house.seats_of("ann"), house.seats_of("bob")), (0, 4));
    house.confirm("bob", Some("o")).unwrap();
}

#[test]
fn refund_and_unblock_serve_waiters() {
    let mut house = sold_out();
    house.step(&Request::Block { name: None, until: None, per_user: None, seats: vec![b"a-2-1"] }).unwrap();
    house.confirm("h", None).unwrap();
    house.wait("ann", gold(1), 0).unwrap();
    house.wait("bob", Hold { wish: Wish { tier: Some(b"silver"), ..gold(2).wish }, ..gold(2) }, 0).unwrap();
    house.step(&Request::Refund { order: None, seats: Some(vec![b"a-1-3"]), into: None }).unwrap();
    house.step(&Request::Unblock(vec![b"a-2-1"])).unwrap();
    assert_eq!((house.seats_of("ann"), house.seats_of("bob")), (1, 2));
}

#[test]
fn wait_ends_at_its_time_and_by_unwait() {
    let mut house = sold_out();
    house.wait("ann", gold(1), 0).unwrap();
    house.wait("bob", gold(1), 0).unwrap();
    assert_eq!(house.step(&Request::Unwait(b"bob")), Ok(Reply::Ok));
    assert_eq!(house.step(&Request::Unwait(b"bob")).unwrap_err().code, Code::NotFound);
    assert_eq!(house.step(&Request::Unwait(b"h")).unwrap_err().code, Code::BadState);
    assert_eq!(house.show.waiters().len(), 1);
    // The hold of all seats ends earlier, so prolong it.
    house.step(&Request::Extend { token: b"h", ttl: 50_000 }).unwrap();
    house.now += 10_000;
    house.settle();
    assert!(house.show.waiters().is_empty());
}

/// A way in which a wait ends, or seats return to their block.
type Return<'a> = &'a dyn Fn(&mut House) -> Result<(), Refusal>;

#[test]
fn wait_that_was_served_declined_or_left_does_not_begin_again() {
    let left = |house: &mut House| house.step(&Request::Unwait(b"ann"));
    let declined = |house: &mut House| {
        house.release("h").unwrap();
        house.settle();
        house.release("ann")
    };
    let bought = |house: &mut House| {
        house.release("h").unwrap();
        house.settle();
        house.confirm("ann", None)
    };
    let refunded = |house: &mut House| {
        bought(house).unwrap();
        house.step(&Request::Refund { order: None, seats: Some(vec![b"a-1-1"]), into: None })
    };
    let not_confirmed = |house: &mut House| {
        house.release("h").unwrap();
        house.settle();
        house.now += 100;
        Ok(Reply::Ok)
    };
    let ends: [(&str, Return<'_>); 5] = [
        ("left", &|house| left(house).map(|_| ())),
        ("declined", &|house| declined(house).map(|_| ())),
        ("bought", &|house| bought(house).map(|_| ())),
        ("refunded", &|house| refunded(house).map(|_| ())),
        ("not confirmed", &|house| not_confirmed(house).map(|_: Reply| ())),
    ];
    for (name, end) in ends {
        let mut house = sold_out();
        assert!(!house.wait("ann", gold(1), 0).unwrap().offered);
        end(&mut house).unwrap();
        let began = 1;
        for now in [house.now, began + 9_999] {
            house.now = now;
            assert_eq!(house.wait("ann", gold(1), 0), Err(Code::Ended), "{name} at {now}");
            assert_eq!(house.show.waiting(b"ann", now), None, "{name}");
        }
        house.now = began + 10_000;
        let again = house.wait("ann", gold(1), 0);
        let expected = if name == "bought" { Err(Code::Exists) } else { Ok(true) };
        assert_eq!(again.map(|record| record.offered), expected, "{name}: its time is over");
    }
}

#[test]
fn wait_that_is_served_at_once_does_not_begin_again() {
    let mut house = House::with_seats(4, &json!({}));
    assert!(house.wait("ann", gold(2), 0).unwrap().offered);
    house.release("ann").unwrap();
    assert_eq!(house.wait("ann", gold(2), 0), Err(Code::Ended));
    let token = TokenChoice { token: b"other", chosen: true };
    let other = Hold { user: b"ann", token, ..gold(2) };
    house.step(&Request::Wait(Wait { hold: other, offer: 100, priority: 0 })).unwrap();
}

#[test]
fn wait_is_read_without_a_change() {
    let mut house = sold_out();
    house.wait("ann", gold(2), 0).unwrap();
    let bob = house.wait("bob", gold(2), 0).unwrap();
    let before = house.show.encode();
    assert_eq!(house.show.waiting(b"bob", house.now), Some(bob));
    assert_eq!(house.show.waiting(b"nobody", house.now), None);
    assert_eq!(house.show.waiting(b"bob", 10_001), None, "its time is over");
    assert_eq!(house.show.encode(), before);
    house.step(&Request::Release { token: b"h", seats: None, into: None }).unwrap();
    let bob = house.show.waiting(b"bob", house.now).unwrap();
    assert_eq!((bob.offered, bob.position, bob.count, bob.until), (true, 0, 2, house.now + 100));
    assert_eq!(house.show.waiting(b"bob", bob.until), None, "the offer is over");
}

#[test]
fn user_may_wait_once_unless_the_plan_says_more() {
    let mut house = sold_out();
    house.wait("ann", gold(1), 0).unwrap();
    let again = |token: &'static [u8]| {
        let token = TokenChoice { token, chosen: true };
        Request::Wait(Wait { hold: Hold { user: b"ann", token, ..gold(1) }, offer: 100, priority: 0 })
    };
    assert_eq!(house.step(&again(b"other")).unwrap_err().code, Code::Limit);
    house.alter(&json!({"limits": {"waits_per_user": 2}})).unwrap();
    house.step(&again(b"other")).unwrap();
    assert_eq!(house.step(&again(b"third")).unwrap_err().code, Code::Limit);
    assert_eq!(house.step(&again(b"h")).unwrap_err().code, Code::Exists);
}

#[test]
fn waiter_at_a_limit_is_passed_over_until_the_limit_allows_seats() {
    let mut house = sold_out();
    // Ann has a live hold, and may have one.
    house.pick("ann", "silver", &["a-2-1"]).unwrap();
    house.wait("ann", gold(1), 0).unwrap();
    house.wait("bob", gold(1), 0).unwrap();
    house.step(&Request::Release { token: b"h", seats: Some(vec![b"a-1-1"]), into: None }).unwrap();
    assert_eq!((house.seats_of("ann"), house.seats_of("bob")), (1, 1));
    house.step(&Request::Release { token: b"h", seats: Some(vec![b"a-1-2"]), into: None }).unwrap();
    assert_eq!(house.seats_of("ann"), 1, "still at the limit");
    house.step(&Request::Confirm { token: b"silver", user: None, order: None }).unwrap();
    assert_eq!(house.seats_of("ann"), 1);
    assert!(house.show.waiters().is_empty(), "the sale ended the hold, so ann was served");
}

#[test]
fn waiter_who_forbids_orphans_is_served_when_others_take_the_orphan() {
    let mut house = sold_out();
    let forbid = |count| Hold { wish: Wish { orphans: Orphans::Forbid, ..gold(count).wish }, ..gold(count) };
    house.wait("ann", forbid(3), 0).unwrap();
    house.step(&Request::Release { token: b"h", seats: None, into: None }).unwrap();
    assert_eq!(house.seats_of("ann"), 0, "three of four would strand a seat");
    house.step(&Request::Block { name: None, until: None, per_user: None, seats: vec![b"a-1-4"] }).unwrap();
    assert_eq!(house.seats_of("ann"), 3);
}

#[test]
fn waiting_list_survives_a_snapshot_in_its_order() {
    let mut house = sold_out();
    for (user, priority) in [("ann", 0), ("bob", 3), ("cid", 0)] {
        house.wait(user, gold(2), priority).unwrap();
    }
    house.step(&Request::Unwait(b"ann")).unwrap();
    let bytes = house.show.encode();
    let mut loaded = House::with_seats(4, &json!({}));
    (loaded.show, loaded.now) = (Show::decode(&bytes).unwrap(), house.now);
    assert_eq!(loaded.show.encode(), bytes);
    for house in [&mut house, &mut loaded] {
        house.wait("dee", gold(2), 0).unwrap();
        house.step(&Request::Release { token: b"h", seats: None, into: None }).unwrap();
        assert_eq!(["bob", "cid", "dee"].map(|user| house.seats_of(user)), [2, 2, 0]);
    }
    assert_eq!(loaded.show.encode(), house.show.encode());
    let (listed, next) = house.show.list_waiters(Filter::default(), 0, 10, house.now);
    assert_eq!((listed.len(), next), (1, 0));
}

#[test]
fn altered_tiers_serve_those_who_wait_for_them() {
    let mut house = sold_out();
    house.step(&Request::Release { token: b"h", seats: Some(vec![b"a-1-4"]), into: None }).unwrap();
    house.step(&Request::Block { name: None, until: None, per_user: None, seats: vec![b"a-1-4"] }).unwrap();
    house.wait("ann", gold(2), 0).unwrap();
    house.alter(&json!({"areas": [{"id": "a", "rows": [{"label": "2", "tier": "gold"}]}]})).unwrap();
    house.settle();
    assert_eq!(house.seats_of("ann"), 2);
}

#[test]
fn seats_that_return_to_a_block_are_offered_to_those_who_wait_for_it() {
    let bob = |house: &mut House, request: Request<'_>| house.step(&request).map(|_| ());
    let release = |house: &mut House| bob(house, Request::Release { token: b"bob", seats: None, into: None });
    let expire = |house: &mut House| {
        house.now += 100;
        house.settle();
        Ok(())
    };
    let refund = |house: &mut House| {
        bob(house, Request::Confirm { token: b"bob", user: None, order: Some(b"order") })?;
        bob(house, Request::Refund { order: None, seats: Some(vec![b"a-1-1"]), into: None })
    };
    let exchange = |house: &mut House| {
        let replace = Some(Replace { token: b"bob", other: false });
        let token = TokenChoice { token: b"new", chosen: true };
        let silver = Hold {
            ttl: 100,
            replace,
            token,
            wish: Wish { tier: Some(b"silver"), ..wish("bob", 1).wish },
            ..wish("bob", 1)
        };
        bob(house, Request::Hold(silver))
    };
    let returns: [(&str, Return<'_>); 4] =
        [("release", &release), ("expire", &expire), ("refund", &refund), ("exchange", &exchange)];
    for (name, give_back) in returns {
        let mut house = House::with_seats(4, &json!({}));
        let seats = vec![&b"a-1-1"[..]];
        house.step(&Request::Block { name: Some(b"press"), until: None, per_user: None, seats }).unwrap();
        let press = || Hold { wish: Wish { from: Some(b"press"), ..gold(1).wish }, ..gold(1) };
        assert!(house.wait("bob", press(), 0).unwrap().offered);
        assert!(!house.wait("ann", press(), 0).unwrap().offered);
        // A seat of no block becomes free: the block is searched in vain, and not again until its own seats return.
        house.pick("eve", "eve", &["a-2-2"]).unwrap();
        house.step(&Request::Release { token: b"eve", seats: None, into: None }).unwrap();
        give_back(&mut house).unwrap();
        assert_eq!(house.seats_of("ann"), 1, "{name}");
    }
}

#[test]
fn waiter_from_a_block_that_has_passed_its_end_is_offered_nothing() {
    let mut house = House::with_seats(4, &json!({}));
    let block = |until| {
        let seats = vec![&b"a-1-1"[..]];
        Request::Block { name: Some(b"press"), until: Some(until), per_user: None, seats }
    };
    let press = || Hold { wish: Wish { from: Some(b"press"), ..gold(1).wish }, ..gold(1) };
    house.step(&block(50)).unwrap();
    assert!(house.wait("bob", press(), 0).unwrap().offered);
    assert!(!house.wait("ann", press(), 0).unwrap().offered);
    house.now = 50;
    // The seat is given back before the end of the block is applied.
    let release = Request::Release { token: b"bob", seats: None, into: None };
    for event in decide(&house.show, house.now, &release).unwrap().events {
        house.show.apply(house.now, &event);
    }
    while house.examine(1) {}
    assert_eq!(house.seats_of("ann"), 0);
    house.settle();
    assert_eq!(house.seats_of("ann"), 0);
    house.step(&block(90)).unwrap();
    assert_eq!(house.seats_of("ann"), 1);
}

/// A show whose four gold seats are held by `first`, for whose seats Ann waits, and Bob for both silver seats.
fn two_wait() -> House {
    let mut house = sold_out();
    house.pick("eve", "eve", &["a-2-1"]).unwrap();
    house.wait("ann", gold(3), 0).unwrap();
    house.wait("bob", Hold { wish: Wish { tier: Some(b"silver"), ..gold(2).wish }, ..gold(2) }, 0).unwrap();
    house
}

#[test]
fn freed_seat_is_given_to_nobody_else_until_the_list_is_examined() {
    let mut house = two_wait();
    house.release("h").unwrap();
    assert_eq!(house.map(), "qqqq/h.");
    let one = || Hold { wish: Wish { tier: Some(b"gold"), ..wish("cid", 1).wish }, ..wish("cid", 1) };
    assert_eq!(house.hold(one()), "none");
    let picked = house.pick("cid", "cid", &["a-1-1"]).unwrap_err();
    assert_eq!(picked.to_string(), "BADSTATE seat 'a-1-1' is queued, not free");
    assert_eq!(house.show.find(&one().wish, 1), Ok(vec![]));
    assert_eq!(house.pick("dee", "dee", &["a-2-2"]).map(|_| ()), Ok(()), "other seats are free");
    house.settle();
    assert_eq!((house.seats_of("ann"), house.map()), (3, "hhh./hh".to_owned()));
    assert_eq!(house.hold(one()), "a-1-4");
}

#[test]
fn examination_goes_on_where_a_slice_has_ended() {
    let mut house = two_wait();
    house.step(&Request::Release { token: b"h", seats: Some(vec![b"a-1-1"]), into: None }).unwrap();
    assert_eq!(house.map(), ".hhh/h.", "nobody wants a single seat");
    house.release("eve").unwrap();
    // Ann is examined in vain. Then seats become free that she can have, and she is examined before Bob.
    assert!(house.examine(1));
    house.release("h").unwrap();
    assert_eq!(house.map(), ".qqq/q.");
    assert!(house.examine(1));
    assert_eq!((house.seats_of("ann"), house.seats_of("bob")), (3, 0));
    house.settle();
    assert_eq!(house.seats_of("bob"), 2);
}

#[test]
fn queued_seats_stay_queued_in_a_snapshot_and_on_a_replica() {
    let mut house = two_wait();
    house.release("h").unwrap();
    let bytes = house.show.encode();
    let mut loaded = House::with_seats(4, &json!({}));
    (loaded.show, loaded.now) = (Show::decode(&bytes).unwrap(), house.now);
    assert_eq!((loaded.show.encode(), loaded.map()), (bytes, "qqqq/h.".to_owned()));
    // What the other server had examined is not known: until the list is examined, nobody else gets a seat.
    assert_eq!(loaded.pick("dee", "dee", &["a-2-2"]).unwrap_err().code, Code::TryAgain);
    assert_eq!(loaded.hold(wish("dee", 1)), "TRYAGAIN");
    assert_eq!(loaded.show.find(&wish("dee", 1).wish, 1).unwrap().len(), 1, "a replica examines no list");
    loaded.settle();
    house.settle();
    assert_eq!(loaded.show.encode(), house.show.encode());
}

#[test]
fn seats_are_free_to_all_once_the_last_waiter_has_left() {
    let mut house = two_wait();
    house.ask(&Request::Unwait(b"bob")).unwrap();
    house.release("h").unwrap();
    house.ask(&Request::Unwait(b"ann")).unwrap();
    assert_eq!(house.map(), "..../h.");
}

#[test]
fn queued_seat_can_be_blocked() {
    let mut house = two_wait();
    house.release("h").unwrap();
    house.block(&["a-1-4"]);
    assert_eq!(house.map(), "qqqx/h.");
    house.settle();
    assert_eq!(house.seats_of("ann"), 3);
}

#[test]
fn nobody_gets_a_seat_while_all_are_searched_for_a_user_whom_a_limit_kept_waiting() {
    let mut house = sold_out();
    house.pick("ann", "silver", &["a-2-1"]).unwrap();
    house.wait("ann", gold(1), 0).unwrap();
    house.step(&Request::Release { token: b"h", seats: Some(vec![b"a-1-1"]), into: None }).unwrap();
    assert_eq!(house.map(), ".hhh/h.", "ann may have one live hold");
    house.confirm("silver", None).unwrap();
    assert_eq!(house.hold(wish("bob", 1)), "TRYAGAIN");
    assert_eq!(house.pick("bob", "bob", &["a-1-1"]).unwrap_err().code, Code::TryAgain);
    house.settle();
    assert_eq!(house.seats_of("ann"), 1);
    assert_ne!(house.hold(wish("bob", 1)), "none");
}

/// Gold seats are held one by one as `h1` to `h4`, and Eve has both silver seats.
fn held_one_by_one() -> House {
    let mut house = House::with_seats(4, &json!({"holds_per_user": 1}));
    for number in 1..=4 {
        let (name, seat) = (format!("h{number}"), format!("a-1-{number}"));
        house.pick(&name, &name, &[&seat]).unwrap();
    }
    house
}

#[test]
fn waiter_who_follows_a_limited_one_is_searched_for_among_all_seats() {
    let mut house = held_one_by_one();
    house.wait("bob", gold(3), 0).unwrap();
    let free = |house: &mut House, token: &str| {
        house.step(&Request::Release { token: token.as_bytes(), seats: None, into: None }).unwrap();
    };
    free(&mut house, "h1");
    // While Bob may have no hold, nobody is examined for this wish.
    house.pick("bob", "silver", &["a-2-1"]).unwrap();
    free(&mut house, "h2");
    assert!(!house.wait("cid", gold(3), 0).unwrap().offered);
    free(&mut house, "h3");
    assert_eq!(house.seats_of("cid"), 3);
}

#[test]
fn replica_that_becomes_master_searches_all_seats_once() {
    let mut house = held_one_by_one();
    house.wait("bob", gold(3), 0).unwrap();
    let release = |token: &'static [u8]| Request::Release { token, seats: None, into: None };
    house.step(&release(b"h1")).unwrap();
    // Another server is the master while a seat becomes free: this one applies the events only.
    for event in
        decide(&house.show, house.now, &release(b"h2")).unwrap().events.iter().chain([&Event::Passed])
    {
        house.show.admits(event).unwrap();
        house.show.apply(house.now, event);
    }
    house.step(&release(b"h3")).unwrap();
    assert_eq!(house.seats_of("bob"), 3);
}

#[test]
fn new_wish_is_searched_for_among_queued_seats_of_a_snapshot() {
    let mut house = two_wait();
    house.step(&Request::Release { token: b"h", seats: Some(vec![b"a-1-1"]), into: None }).unwrap();
    house.ask(&Request::Release { token: b"h", seats: Some(vec![b"a-1-2"]), into: None }).unwrap();
    assert_eq!(house.map(), ".qhh/h.");
    house.show = Show::decode(&house.show.encode()).unwrap();
    // Both wishes that waited are examined, and the examination is not over.
    while house.show.waiters().is_closed() {
        assert!(house.examine(1));
    }
    let token = TokenChoice { token: b"dan", chosen: true };
    let wait = Wait { hold: Hold { user: b"dan", token, ..gold(2) }, offer: 100, priority: 0 };
    house.ask(&Request::Wait(wait)).unwrap();
    house.settle();
    assert_eq!(house.seats_of("dan"), 2);
}

#[test]
fn nobody_else_gets_seats_while_more_than_a_thousand_are_queued() {
    let mut house = House::with_seats(1600, &json!({"holds_per_user": 0}));
    let ids: Vec<String> = (1..=1500).map(|seat| format!("a-1-{seat}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    house.block(&ids);
    house.wait("ann", gold(200), 0).unwrap();
    let seats = ids.iter().map(|id| id.as_bytes()).collect();
    house.ask(&Request::Unblock(seats)).unwrap();
    assert_eq!(house.hold(wish("bob", 1)), "TRYAGAIN");
    house.settle();
    assert_eq!(house.seats_of("ann"), 200);
    assert_ne!(house.hold(wish("bob", 1)), "TRYAGAIN");
}

#[test]
fn wish_that_can_never_be_met_does_not_join_the_list() {
    let mut house = House::with_seats(4, &json!({"seats_per_user": 3, "holds_per_user": 0}));
    let refused = |house: &mut House, user: &'static str, hold: Hold<'static>| {
        let token = TokenChoice { token: b"token", chosen: true };
        let hold = Hold { user: user.as_bytes(), token, ..hold };
        house.step(&Request::Wait(Wait { hold, offer: 100, priority: 0 })).unwrap_err().to_string()
    };
    let silver = Hold { wish: Wish { tier: Some(b"silver"), ..gold(3).wish }, ..gold(3) };
    assert_eq!(
        refused(&mut house, "ann", silver),
        "LIMIT the show has 2 seats of this tier and these areas, not 3"
    );
    house.pick("ann", "t", &["a-1-1", "a-1-2"]).unwrap();
    assert!(!house.wait("ann", gold(2), 0).unwrap().offered, "a live hold may end");
    house.confirm("t", None).unwrap();
    assert_eq!(refused(&mut house, "ann", gold(2)), "LIMIT user 'ann' may have 3 seats and has bought 2");
}

#[test]
fn wish_for_which_the_show_has_no_such_seats_does_not_join_the_list() {
    let seat = |label: u32, flags: &[&str]| json!({"label": label.to_string(), "flags": flags});
    let front = [seat(1, &["w"]), seat(2, &[]), seat(3, &[]), seat(4, &[])];
    let back = [seat(1, &[]), seat(2, &[]), seat(3, &["w"])];
    let plan = json!({"areas": [{"id": "a", "rows": [
        {"label": "1", "rank": 1, "tier": "gold", "seats": front},
        {"label": "2", "rank": 2, "tier": "gold", "seats": back}]}], "limits": {"holds_per_user": 0}});
    let wait = |wish: NamedWish<'static>| {
        let mut house = House::new(&plan);
        house.pick("bob", "t", &["a-1-2", "a-1-3", "a-2-1"]).unwrap();
        let token = TokenChoice { token: b"token", chosen: true };
        let hold = Hold { user: b"ann", token, wish, ..gold(1) };
        let answer = house.step(&Request::Wait(Wait { hold, offer: 100, priority: 0 }));
        answer.err().map(|refusal| refusal.to_string())
    };
    let require = |count| Wish { adjacent: Adjacent::Require, ..gold(count).wish };
    let flagged = |wish| NamedWish { flags: vec![b"w"], ..wish };
    let need = |least| Wish { needs: vec![Need { flag: &b"w"[..], count: least }], ..gold(3).wish };
    let few =
        |count| Some(format!("LIMIT the show has fewer than {count} seats of the kinds that are wanted"));
    let apart = |count| {
        Some(format!("LIMIT no row of the show has {count} seats side by side of the kinds that are wanted"))
    };
    assert_eq!([wait(gold(5).wish), wait(gold(6).wish)], [None, few(6)], "flagged seats are not for all");
    assert_eq!([wait(flagged(gold(7).wish)), wait(require(3))], [None, None]);
    assert_eq!(
        [wait(require(4)), wait(flagged(require(4))), wait(flagged(require(5)))],
        [apart(4), None, apart(5)]
    );
    assert_eq!([wait(need(2)), wait(need(3))], [None, few(3)]);
    // A pair would strand one of three seats now, and not when another person has bought one.
    assert_eq!(wait(Wish { orphans: Orphans::Forbid, ..require(2) }), None);
}
