//! An event from elsewhere that `decide` would never have let through is refused.

use allot_core::seat::event::{Arrangement, Held, Turn, Waited};
use allot_core::seat::plan::{Limits, Rule};
use allot_core::seat::request::{Adjacent, Need, Orphans, Pick, Request, Wish};
use allot_core::seat::{Event, Show, decide};
use allot_core::shared::field::Any;
use allot_core::shared::token::TokenChoice;
use serde_json::{Value, json};

/// Area `A` with 200 seats in two rows, area `B` with two seats of which one has a flag.
fn plan() -> Value {
    json!({"areas": [
        {"id": "A", "name": "A", "priority": 1, "rule": "ltr", "rows": [
            {"label": "1", "rank": 1, "tier": "gold", "seats": "1-100"},
            {"label": "2", "rank": 2, "tier": "gold", "seats": "1-100"}]},
        {"id": "B", "name": "B", "priority": 1, "rule": "ltr", "rows": [
            {"label": "1", "rank": 1, "seats": [{"label": "1", "tier": "gold", "flags": ["view"]},
                                                {"label": "2", "tier": "silver"}]}]}]})
}

fn show() -> Show {
    Show::open(&plan().to_string(), 0).unwrap()
}

/// A show of 600 places.
fn large_show() -> Show {
    let area = json!({"id": "A", "standing": 600, "tier": "gold"});
    Show::open(&json!({"areas": [area]}).to_string(), 0).unwrap()
}

fn held(seats: impl Iterator<Item = u32>, turn: Turn) -> Event {
    let (token, user, fingerprint) = (b"t"[..].into(), b"u"[..].into(), Any(0));
    Event::Held(Held {
        token,
        user,
        until: 10,
        fingerprint,
        seats: seats.collect(),
        turn,
        replaced: None,
        exchange: false,
    })
}

#[test]
fn hold_of_more_than_500_seats_is_refused() {
    assert!(large_show().admits(&held(0..501, Turn::None)).is_err());
    assert!(large_show().admits(&held(0..500, Turn::None)).is_ok());
}

#[test]
fn seats_that_a_hold_may_not_have_are_not_added() {
    let mut show = large_show();
    show.apply(1, &held(0..499, Turn::None));
    let added = |token: &[u8], seats: &[u32]| Event::Added {
        token: token.into(),
        seats: seats.iter().copied().collect(),
        fingerprint: Any(0),
    };
    assert!(show.admits(&added(b"t", &[500])).is_ok());
    assert!(show.admits(&added(b"t", &[98])).is_err(), "it has the seat");
    assert!(show.admits(&added(b"t", &[500, 501])).is_err(), "more than 500");
    assert!(show.admits(&added(b"other", &[500])).is_err(), "no such hold");
}

#[test]
fn seats_that_are_not_sold_neither_move_nor_change_hands() {
    let mut show = show();
    show.apply(1, &held(0..3, Turn::None));
    show.apply(1, &Event::Confirmed { token: b"t"[..].into(), order: None });
    let Event::Held(mut other) = held(10..11, Turn::None) else { panic!("not a hold") };
    other.token = b"held"[..].into();
    show.apply(1, &Event::Held(other));
    let moved = |from: &[u32], to: &[u32]| Event::Moved { from: from.into(), to: to.to_vec() };
    for (from, to, fits) in [
        (&[0, 1][..], &[1, 20][..], true),
        (&[0, 1], &[20], false),
        (&[0, 1], &[20, 20], false),
        (&[0, 10], &[20, 21], false),
        (&[0], &[2], false),
        (&[0], &[10], false),
        (&[0], &[9999], false),
    ] {
        assert_eq!(show.admits(&moved(from, to)).is_ok(), fits, "{from:?} {to:?}");
    }
    let transferred = |token: &[u8], seats: &[u32]| {
        let (token, user) = (token.into(), b"u"[..].into());
        Event::Transferred { token, user, order: None, seats: seats.into() }
    };
    for (token, seats, fits) in [
        (&b"new"[..], &[0, 1][..], true),
        (b"t", &[0, 1], false),
        (b"held", &[0, 1], false),
        (b"new", &[0, 10], false),
        (b"new", &[0, 20], false),
    ] {
        assert_eq!(show.admits(&transferred(token, seats)).is_ok(), fits, "{token:?} {seats:?}");
    }
}

#[test]
fn turn_of_another_area_or_bucket_is_refused() {
    for (turn, fits) in [
        (Turn::Area(0), true),
        (Turn::Area(1), false),
        (Turn::Area(9), false),
        (Turn::Bucket(0), true),
        (Turn::Bucket(1), false),
        (Turn::Bucket(9), false),
    ] {
        assert_eq!(show().admits(&held(0..2, turn)).is_ok(), fits, "{turn:?}");
    }
    assert!(show().admits(&held(199..201, Turn::Area(0))).is_err());
}

/// Whether the show admits the plan after a change at that place.
fn admits_change(show: &Show, at: &str, value: Value) -> bool {
    let mut plan = plan();
    *plan.pointer_mut(at).unwrap() = value;
    show.admits(&Event::Altered { plan: plan.to_string() }).is_ok()
}

#[test]
fn altered_plan_without_a_taken_seat_or_an_area_is_refused() {
    let mut show = show();
    let token = TokenChoice { token: b"t", chosen: true };
    let pick = |seat| {
        Request::Pick(Pick {
            user: b"u",
            ttl: 10,
            token,
            orphans: None,
            from: None,
            seats: vec![seat],
            exchange: vec![],
        })
    };
    let hold = |show: &mut Show, seat| {
        decide(show, 1, &pick(seat)).unwrap().events.iter().for_each(|event| show.apply(1, event));
    };
    for (at, value) in [
        ("/areas/0/rows/0/label", json!("3")),
        ("/areas/0/rows/0/rank", json!(2)),
        ("/areas/0/rows/0/seats", json!("101-200")),
        ("/areas/0/rows/0/seats", json!("2-50,|,51-100")),
        ("/areas/1/rows/0/seats/0/flags", json!(["wheelchair"])),
        ("/areas/1/rows/0/seats/0/label", json!("7")),
        ("/areas/1/rows/0/seats/0/tier", json!("bronze")),
    ] {
        assert!(admits_change(&show, at, value), "{at}");
    }
    hold(&mut show, b"A-1-1");
    assert!(admits_change(&show, "/areas/0/rows/0/seats", json!("1-50,|,51-100")));
    for (at, value) in [
        ("/areas/0/rows/0/label", json!("3")),
        ("/areas/0/rows/0/seats", json!("101-200")),
        ("/areas/0/rows/0/seats", json!("2-50,|,51-100")),
        ("/areas/0/rows/0/tier", json!("bronze")),
        // Areas keep their places.
        ("/areas/1/id", json!("C")),
        ("/areas", json!([plan()["areas"][0]])),
        ("/areas", json!([plan()["areas"][1], plan()["areas"][0]])),
        ("/areas/1", json!({"id": "B", "standing": 9, "tier": "gold"})),
    ] {
        assert!(!admits_change(&show, at, value), "{at}");
    }
    let mut show = self::show();
    hold(&mut show, b"B-1-1");
    for flags in [json!(["wheelchair"]), json!([]), json!(["view", "wheelchair"])] {
        assert!(!admits_change(&show, "/areas/1/rows/0/seats/0/flags", flags));
    }
}

#[test]
fn altered_plan_without_a_flag_that_a_waiter_needs_is_refused() {
    let mut show = show();
    let without = json!({"label": "1", "tier": "gold"});
    assert!(admits_change(&show, "/areas/1/rows/0/seats/0", without.clone()));
    show.apply(1, &waited(1));
    assert!(!admits_change(&show, "/areas/1/rows/0/seats/0", without));
}

/// A wait that needs one seat with the flag of this bit.
fn waited(flag: u64) -> Event {
    let wish = Wish {
        count: 1,
        tier: None,
        areas: vec![],
        adjacent: Adjacent::Prefer,
        orphans: Orphans::Avoid,
        flags: 0,
        needs: vec![Need { count: 1, flag }],
        preferred: 0,
        from: None,
    };
    let (token, user) = (b"w"[..].into(), b"u"[..].into());
    let waited = Waited { token, user, wish, priority: 0, until: 10, offer: 10, fingerprint: Any(0) };
    Event::Waited(Box::new(waited))
}

#[test]
fn offer_to_a_waiter_with_another_end_of_the_wait_is_refused() {
    let mut show = show();
    let Event::Held(mut held) = held(200..201, Turn::None) else { panic!("not a hold") };
    held.token = b"w"[..].into();
    let offered = |wait_until| Event::Offered { held: held.clone(), wait_until };
    assert!(show.admits(&offered(11)).is_ok(), "nobody waits under the token");
    show.apply(1, &waited(1));
    assert!(show.admits(&offered(11)).is_err());
    assert!(show.admits(&offered(10)).is_ok());
}

#[test]
fn wait_with_an_unknown_flag_is_refused() {
    assert!(show().admits(&waited(1)).is_ok());
    assert!(show().admits(&waited(2)).is_err());
    let mut unknown = waited(1);
    if let Event::Waited(waited) = &mut unknown {
        waited.wish.flags = 2;
    }
    assert!(show().admits(&unknown).is_err());
}

#[test]
fn arrangement_of_unknown_areas_or_with_bad_names_is_refused() {
    let area = |area: u32, name: &str| Arrangement { area, name: name.into(), priority: 1, rule: Rule::Rtl };
    let admits = |areas: Vec<Arrangement>| {
        show().admits(&Event::Arranged { limits: Limits::default(), events: 0, areas }).is_ok()
    };
    assert!(admits(vec![]));
    assert!(admits(vec![area(0, "x"), area(1, &"y".repeat(256))]));
    for areas in [
        vec![area(2, "x")],
        vec![area(1, "x"), area(0, "x")],
        vec![area(0, "x"), area(0, "x")],
        vec![area(0, "")],
        vec![area(0, &"y".repeat(257))],
    ] {
        assert!(!admits(areas.clone()), "{areas:?}");
    }
}

#[test]
fn altered_plan_with_limits_out_of_range_is_refused() {
    let mut plan = plan();
    plan["limits"] = json!({"max_hold_ms": u64::MAX});
    assert!(show().admits(&Event::Altered { plan: plan.to_string() }).is_err());
}

#[test]
fn altered_plan_that_moves_a_held_seat_to_a_tier_is_refused() {
    let mut show = show();
    let token = TokenChoice { token: b"t", chosen: true };
    let pick = Request::Pick(Pick {
        user: b"u",
        ttl: 10,
        token,
        orphans: None,
        from: None,
        seats: vec![b"A-1-7"],
        exchange: vec![],
    });
    decide(&show, 1, &pick).unwrap().events.iter().for_each(|event| show.apply(1, event));
    assert!(!admits_change(&show, "/areas/0/rows/0/tier", json!("bronze")));
    assert!(admits_change(&show, "/areas/0/rows/1/tier", json!("bronze")));
}
