//! Holds, sales, refunds and their limits in docs/seats.md, sentence by sentence.

use super::house::{House, area, code, wish};
use allot_core::seat::request::{Hold, Replace, Request};
use allot_core::seat::{Reply, Show, decide};
use allot_core::shared::refusal::Code;
use allot_core::shared::token::TokenChoice;
use serde_json::json;

#[test]
fn seats_per_user_counts_held_and_sold_seats() {
    let limits = json!({"seats_per_user": 3, "holds_per_user": 0});
    let mut show = House::new(&json!({"areas": [area("a", 1, "ltr", &["......"])], "limits": limits}));
    show.pick("u", "sold", &["a-1-1", "a-1-2"]).unwrap();
    show.confirm("sold", None).unwrap();
    show.pick("u", "held", &["a-1-3"]).unwrap();
    assert_eq!(show.hold(wish("u", 1)), "LIMIT");
    show.release("held").unwrap();
    assert_eq!(show.hold(wish("u", 1)), "a-1-3");
    show.now += 1000;
    assert_eq!(show.hold(wish("u", 1)), "a-1-3", "the hold before has expired");
    show.ask(&Request::Refund { order: None, seats: Some(vec![b"a-1-1"]), into: None }).unwrap();
    assert_eq!(show.hold(wish("u", 1)), "a-1-1");
}

#[test]
fn equal_request_with_a_live_token_gets_the_same_record() {
    let mut show = House::rows("ltr", &["...."]);
    let token = TokenChoice { token: b"mine", chosen: true };
    let ask = |ttl| Request::Hold(Hold { token, ttl, ..wish("u", 2) });
    let Ok(Reply::Hold(first)) = show.ask(&ask(1000)) else { panic!() };
    show.now += 10;
    let Ok(Reply::Hold(again)) = show.ask(&ask(500)) else { panic!() };
    assert_eq!(first, again);
    let other = Request::Hold(Hold { token, ..wish("u", 1) });
    assert_eq!(code(show.ask(&other)), Code::Exists, "another request");
    let other = Request::Hold(Hold { token, ..wish("v", 2) });
    assert_eq!(code(show.ask(&other)), Code::Exists, "another user");
}

#[test]
fn a_retry_comes_before_the_limits() {
    let mut show = House::new(&json!({"areas": [area("a", 1, "ltr", &["...."])]}));
    let hold = Request::Hold(Hold { token: TokenChoice { token: b"mine", chosen: true }, ..wish("u", 2) });
    assert!(show.ask(&hold).is_ok());
    assert!(show.ask(&hold).is_ok(), "holds_per_user is 1");
}

#[test]
fn the_message_of_a_user_limit_has_the_live_token() {
    let mut show = House::new(&json!({"areas": [area("a", 1, "ltr", &["...."])]}));
    show.pick("u", "mine", &["a-1-1"]).unwrap();
    let refusal =
        show.ask(&Request::Hold(Hold { token: TokenChoice { token: b"x", chosen: true }, ..wish("u", 1) }));
    assert!(refusal.unwrap_err().text.contains("'mine'"));
}

#[test]
fn replace_swaps_the_users_hold_as_if_its_seats_were_free() {
    let mut show = House::rows("ltr", &["...."]);
    show.pick("u", "old", &["a-1-2"]).unwrap();
    let replace = Some(Replace { token: b"old", other: false });
    assert_eq!(show.hold(Hold { replace, ..wish("u", 4) }), "a-1-1 a-1-2 a-1-3 a-1-4");
    assert_eq!(code(show.release("old")), Code::NotFound);
}

#[test]
fn replace_other_does_not_take_the_same_seats_again() {
    let mut show = House::rows("ltr", &["...."]);
    show.pick("u", "old", &["a-1-1", "a-1-2"]).unwrap();
    let replace = Some(Replace { token: b"old", other: true });
    assert_eq!(show.hold(Hold { replace, ..wish("u", 2) }), "a-1-3 a-1-4");
    assert_eq!(show.map(), "..hh");
}

#[test]
fn replace_other_counts_the_seats_given_back_as_free_beside_the_new_ones() {
    // 2-3 would strand 1; 4-5 have 2-3 to their left, and 6-7, given back, to their right.
    let mut show = House::rows("ltr", &[".......", "......."]);
    show.pick("u", "old", &["a-1-6"]).unwrap();
    show.block(&["a-1-1", "a-1-7"]);
    let replace = Some(Replace { token: b"old", other: true });
    assert_eq!(show.hold(Hold { replace, ..wish("u", 3) }), "a-1-2 a-1-3 a-1-4", "5 and 6 are two");
}

#[test]
fn replace_keeps_the_old_hold_where_nothing_is_found() {
    let mut show = House::rows("ltr", &["...."]);
    show.pick("u", "old", &["a-1-2"]).unwrap();
    let replace = Some(Replace { token: b"old", other: true });
    assert_eq!(show.hold(Hold { replace, ..wish("u", 4) }), "none");
    assert_eq!(show.map(), ".h..");
}

#[test]
fn hold_that_replaces_another_lives_no_longer_than_the_first() {
    let plan = json!({"areas": [area("a", 1, "ltr", &[".."])], "limits": {"max_hold_ms": 1000}});
    let mut show = House::new(&plan);
    let chosen = |token| TokenChoice { token, chosen: true };
    assert_eq!(show.hold(Hold { token: chosen(b"k0"), ..wish("bot", 2) }), "a-1-1 a-1-2");
    show.now += 700;
    let next = |token, ttl, old, other| {
        let replace = Some(Replace { token: old, other });
        Hold { token: chosen(token), ttl, replace, ..wish("bot", 2) }
    };
    assert_eq!(show.hold(next(b"k1", 301, b"k0", false)), "LIMIT");
    assert_eq!(show.hold(next(b"k1", 200, b"k0", false)), "a-1-1 a-1-2");
    assert_eq!(code(show.ask(&Request::Extend { token: b"k1", ttl: 301 })), Code::Limit);
    show.now += 199;
    assert_eq!(show.hold(next(b"k2", 102, b"k1", false)), "LIMIT", "counted from the first");
    assert_eq!(show.hold(next(b"k2", 101, b"k1", false)), "a-1-1 a-1-2");
    let restored = Show::decode(&show.show.encode()).unwrap();
    let extend = Request::Extend { token: b"k2", ttl: 102 };
    assert_eq!(decide(&restored, show.now, &extend).unwrap_err().code, Code::Limit);
}

#[test]
fn pick_names_those_not_free_and_refuses_a_seat_named_twice() {
    let mut show = House::rows("ltr", &["...."]);
    show.block(&["a-1-1", "a-1-3"]);
    let refusal = show.pick("u", "t", &["a-1-1", "a-1-2", "a-1-3"]).unwrap_err();
    assert_eq!(refusal.to_string(), "BADSTATE seats 'a-1-1' (blocked), 'a-1-3' (blocked) are not free");
    assert_eq!(code(show.pick("u", "t", &["a-1-2", "a-1-2"])), Code::Err);
    assert_eq!(code(show.pick("u", "t", &["a-1-9"])), Code::NotFound);
}

#[test]
fn extend_never_goes_past_creation_plus_max_hold() {
    let plan = json!({"areas": [area("a", 1, "ltr", &["...."])], "limits": {"max_hold_ms": 2000}});
    let mut show = House::new(&plan);
    assert_eq!(show.hold(Hold { ttl: 2001, ..wish("u", 1) }), "LIMIT", "nor does a hold at once");
    show.pick("u", "t", &["a-1-1"]).unwrap();
    show.now += 500;
    let extend = |ttl| Request::Extend { token: b"t", ttl };
    assert_eq!(show.ask(&extend(1500)), Ok(Reply::Integer(2001)));
    assert_eq!(code(show.ask(&extend(1501))), Code::Limit);
}

#[test]
fn confirm_sells_once_and_answers_a_retry_the_same() {
    let mut show = House::rows("ltr", &["...."]);
    show.pick("u", "t", &["a-1-1", "a-1-2"]).unwrap();
    let user = Request::Confirm { token: b"t", user: Some(b"v"), order: None };
    assert_eq!(code(show.ask(&user)), Code::NotOwner);
    assert_eq!(show.confirm("t", Some("o")), Ok(Reply::Integer(2)));
    assert_eq!(show.confirm("t", Some("o")), Ok(Reply::Integer(2)));
    assert_eq!(code(show.confirm("t", Some("p"))), Code::Exists);
    show.ask(&Request::Refund { order: Some(b"o"), seats: Some(vec![b"a-1-1"]), into: None }).unwrap();
    assert_eq!(show.confirm("t", Some("o")), Ok(Reply::Integer(2)), "one is still sold");
    show.ask(&Request::Refund { order: Some(b"o"), seats: Some(vec![b"a-1-2"]), into: None }).unwrap();
    assert_eq!(code(show.confirm("t", Some("o"))), Code::NotFound);
}

#[test]
fn confirm_of_an_expired_hold_is_not_found() {
    let mut show = House::rows("ltr", &["...."]);
    show.pick("u", "t", &["a-1-1"]).unwrap();
    show.now += 1000;
    assert_eq!(code(show.confirm("t", None)), Code::NotFound);
    assert_eq!(show.map(), "....");
}

#[test]
fn release_of_some_seats_keeps_the_others() {
    let mut show = House::rows("ltr", &["...."]);
    show.pick("u", "t", &["a-1-1", "a-1-2", "a-1-3"]).unwrap();
    let some = Request::Release { token: b"t", seats: Some(vec![b"a-1-2"]), into: None };
    assert_eq!(show.ask(&some), Ok(Reply::Integer(1)));
    assert_eq!(show.map(), "h.h.");
    assert_eq!(code(show.ask(&some)), Code::NotOwner);
    assert_eq!(show.release("t"), Ok(Reply::Integer(2)));
}

#[test]
fn a_doubled_refund_with_its_order_does_not_free_what_was_sold_again() {
    let mut show = House::rows("ltr", &["...."]);
    for (token, order) in [("t1", "o1"), ("t2", "o2")] {
        show.pick("u", token, &["a-1-1"]).unwrap();
        show.confirm(token, Some(order)).unwrap();
        let refund = Request::Refund { order: Some(b"o1"), seats: Some(vec![b"a-1-1"]), into: None };
        let expected = if order == "o1" { Ok(Reply::Integer(1)) } else { Err(Code::NotOwner) };
        assert_eq!(show.ask(&refund).map_err(|refusal| refusal.code), expected);
    }
    assert_eq!(
        code(show.ask(&Request::Refund { order: None, seats: Some(vec![b"a-1-2"]), into: None })),
        Code::BadState
    );
}

#[test]
fn a_clock_that_steps_back_undoes_nothing() {
    let mut show = House::rows("ltr", &["...."]);
    show.now = 10_000;
    show.pick("u", "t", &["a-1-1"]).unwrap();
    assert_eq!(show.show.now(5), 10_000);
    assert_eq!(show.show.now(20_000), 20_000);
}

#[test]
fn every_event_is_in_the_stream_where_it_is_switched_on() {
    let mut show = House::new(&json!({"areas": [area("a", 1, "ltr", &["...."])], "events": 10}));
    show.pick("u", "t", &["a-1-1", "a-1-2"]).unwrap();
    show.now += 1000;
    show.block(&["a-1-4"]);
    let fields = |name: &str| {
        let found = show.show.outbox().messages().map(|message| {
            String::from_utf8(message.get(name.as_bytes()).unwrap_or_default().to_vec()).unwrap()
        });
        found.collect::<Vec<_>>()
    };
    assert_eq!(fields("event"), ["created", "held", "expired", "blocked"]);
    assert_eq!(fields("user"), ["", "u", "u", ""]);
    assert_eq!(fields("seats"), ["", r#"["a-1-1","a-1-2"]"#, r#"["a-1-1","a-1-2"]"#, r#"["a-1-4"]"#]);
}

#[test]
fn pick_that_leaves_a_single_seat_needlessly_is_refused_where_orphans_are_forbidden() {
    let all_but_one: Vec<String> = (1..=8).map(|seat| format!("a-1-{seat}")).collect();
    let all_but_one: Vec<&str> = all_but_one.iter().map(String::as_str).collect();
    for (row, seats, alone) in [
        ("...", &["a-1-2"][..], Some("'a-1-1'")),
        ("...", &["a-1-1"], None),
        ("...", &["a-1-1", "a-1-2"], None),
        ("...", &["a-1-2", "a-1-3"], None),
        ("..", &["a-1-1"], None),
        (".........", &all_but_one, None),
        (".....", &["a-1-4"], Some("'a-1-5'")),
        (".....", &["a-1-1", "a-1-2", "a-1-4"], Some("'a-1-3'")),
        // A seat with flags continues no run.
        ("....w", &["a-1-1", "a-1-3"], Some("'a-1-2'")),
        ("..w", &["a-1-2"], None),
        // Each run for itself.
        (".. ...", &["a-1-1", "a-1-4"], Some("'a-1-3'")),
    ] {
        let limits = json!({"pick_orphans": "forbid"});
        let mut house = House::new(&json!({"areas": [area("a", 1, "ltr", &[row])], "limits": limits}));
        let refusal = house.pick("ann", "t", seats).err();
        let named = refusal
            .as_ref()
            .map(|refusal| refusal.code == Code::Limit && refusal.text.contains(alone.unwrap()));
        assert_eq!(named, alone.map(|_| true), "{row} {seats:?} {refusal:?}");
        house.alter(&json!({"limits": {"pick_orphans": "avoid"}})).unwrap();
        assert_eq!(house.pick("ann", "t", seats).is_err(), alone.is_some(), "the same");
        house.alter(&json!({"limits": {"pick_orphans": "allow"}})).unwrap();
        assert!(house.pick("ann", "t", seats).is_ok(), "{row} {seats:?}");
    }
}
