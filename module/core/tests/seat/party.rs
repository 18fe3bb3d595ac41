//! Parties with needs, sentence by sentence of docs/seats.md.

use super::house::{House, code, wish};
use allot_core::seat::request::{Adjacent, Hold, Need, Orphans, Request, Wish};
use allot_core::shared::refusal::Code;
use allot_core::shared::token::TokenChoice;
use serde_json::json;

fn party(count: u32, wheelchairs: u32) -> Hold<'static> {
    let needs = vec![Need { count: wheelchairs, flag: &b"wheelchair"[..] }];
    Hold { wish: Wish { needs, orphans: Orphans::Allow, ..wish("ann", count).wish }, ..wish("ann", count) }
}

#[test]
fn party_sits_together_beside_its_wheelchair_space() {
    let mut house = House::rows("ltr", &["....", "..w..", "ww..."]);
    assert_eq!(house.hold(party(3, 1)), "a-2-1 a-2-2 a-2-3");
    assert_eq!(house.hold(party(3, 2)), "a-3-1 a-3-2 a-3-3");
}

#[test]
fn party_never_takes_more_flagged_seats_than_it_needs() {
    let mut house = House::rows("ltr", &["www..", "..w.."]);
    assert_eq!(house.hold(party(2, 1)), "a-1-3 a-1-4");
    assert_eq!(
        house.hold(Hold { wish: Wish { adjacent: Adjacent::Require, ..party(3, 2).wish }, ..party(3, 2) }),
        "NOADJACENT"
    );
    assert_eq!(house.hold(party(3, 2)), "a-1-1 a-1-2 a-2-1", "the third sits behind");
}

#[test]
fn party_whose_kind_of_seat_is_sold_out_gets_none() {
    let mut house = House::rows("ltr", &["w....."]);
    assert_eq!(house.hold(party(2, 2)), "none");
    assert_eq!(house.hold(party(1, 1)), "a-1-1");
    assert_eq!(house.hold(party(2, 1)), "none");
}

#[test]
fn party_may_forbid_orphans_and_ignore_neighbours() {
    let mut house = House::rows("ltr", &[".w..", ".w."]);
    assert_eq!(
        house.hold(Hold { wish: Wish { orphans: Orphans::Forbid, ..party(2, 1).wish }, ..party(2, 1) }),
        "a-1-1 a-1-2"
    );
    assert_eq!(
        house.hold(Hold { wish: Wish { adjacent: Adjacent::Ignore, ..party(2, 1).wish }, ..party(2, 1) }),
        "a-1-3 a-2-2"
    );
}

#[test]
fn needs_that_contradict_the_request_are_refused() {
    let mut house = House::rows("ltr", &["w...."]);
    let mut ask = |hold: Hold<'_>| {
        let token = TokenChoice { token: b"t", chosen: true };
        code(house.ask(&Request::Hold(Hold { token, ..hold })))
    };
    assert_eq!(ask(party(1, 2)), Code::Err);
    assert_eq!(ask(party(1, 0)), Code::Err);
    let twice = [party(2, 1).wish.needs, party(2, 1).wish.needs].concat();
    assert_eq!(ask(Hold { wish: Wish { needs: twice, ..party(2, 1).wish }, ..party(2, 1) }), Code::Err);
    let unknown = vec![Need { count: 1, flag: &b"pram"[..] }];
    assert_eq!(
        ask(Hold { wish: Wish { needs: unknown, ..party(2, 1).wish }, ..party(2, 1) }),
        Code::NotFound
    );
}

/// A party of which at least so many have a seat with the flag.
fn at_least(count: u32, wheelchairs: u32, adjacent: Adjacent) -> Hold<'static> {
    let party = party(count, wheelchairs);
    Hold { wish: Wish { flags: vec![b"wheelchair"], adjacent, ..party.wish }, ..party }
}

#[test]
fn need_for_a_flag_that_the_others_may_have_too_is_met_by_more_seats() {
    let mut house = House::rows("ltr", &["w..w", "www", "...."]);
    assert_eq!(house.hold(at_least(4, 1, Adjacent::Require)), "a-1-1 a-1-2 a-1-3 a-1-4");
    assert_eq!(house.hold(at_least(3, 1, Adjacent::Require)), "a-2-1 a-2-2 a-2-3");
    assert_eq!(house.hold(at_least(2, 1, Adjacent::Prefer)), "none");
    house.release("t").unwrap_err();
}

#[test]
fn scattered_party_takes_no_more_flagged_seats_than_it_must() {
    let mut house = House::rows("ltr", &["w w w .", "w ."]);
    assert_eq!(house.hold(at_least(3, 1, Adjacent::Ignore)), "a-1-1 a-1-4 a-2-2");
    assert_eq!(house.hold(at_least(2, 1, Adjacent::Prefer)), "a-1-2 a-1-3");
    let mut house = House::rows("ltr", &["w w", "w"]);
    assert_eq!(house.hold(at_least(4, 2, Adjacent::Prefer)), "none");
    assert_eq!(house.hold(at_least(3, 2, Adjacent::Prefer)), "a-1-1 a-1-2 a-2-1");
}

#[test]
fn seat_with_two_needed_flags_is_not_taken() {
    let row = json!([{"label": "1", "flags": ["view", "wheelchair"]}, {"label": "2"}]);
    let row = json!({"label": "1", "rank": 1, "tier": "t", "seats": row});
    let mut house = House::new(&json!({"areas": [{"id": "a", "rows": [row]}]}));
    let needs = vec![Need { count: 1, flag: &b"view"[..] }, Need { count: 1, flag: &b"wheelchair"[..] }];
    let wish = Wish { needs, flags: vec![&b"view"[..], b"wheelchair"], ..wish("ann", 2).wish };
    assert_eq!(house.hold(Hold { wish, ..super::house::wish("ann", 2) }), "none");
}

#[test]
fn run_with_the_most_seats_of_a_wished_flag_comes_first() {
    let mut house = House::rows("center", &["......", "..w...", "....ww"]);
    let wished = |count, orphans| Hold {
        wish: Wish { preferred: vec![b"wheelchair"], orphans, ..wish("ann", count).wish },
        ..wish("ann", count)
    };
    assert_eq!(house.hold(wished(2, Orphans::Avoid)), "a-3-5 a-3-6");
    // One seat of row 2 would stay alone beside the two in its middle.
    assert_eq!(house.hold(wished(3, Orphans::Avoid)), "a-2-1 a-2-2 a-2-3");
    assert_eq!(house.hold(wished(2, Orphans::Avoid)), "a-1-3 a-1-4", "the wish cannot be met");
    assert_eq!(house.hold(wish("ann", 2)), "a-1-1 a-1-2");
    let unknown = Hold { wish: Wish { preferred: vec![b"pram"], ..wish("ann", 1).wish }, ..wish("ann", 1) };
    assert_eq!(house.hold(unknown), "a-2-4", "seat 5 of row 1 would leave seat 6 alone");
}

#[test]
fn scattered_party_takes_seats_of_a_run_of_127_or_more() {
    // The only seats with the flag are far from the long run, so no run has room for the whole party.
    let flagged = json!([{"label": "1", "flags": ["wheelchair"]}]);
    let row = |rank: i32, seats: serde_json::Value| json!({"label": rank.to_string(), "rank": rank, "tier": "gold", "seats": seats});
    let rows = [row(1, flagged), row(2, json!("1-127")), row(3, json!("1-130")), row(4, json!("1-130"))];
    let mut house = House::new(&json!({"areas": [{"id": "a", "rows": rows}]}));
    let needs = vec![Need { count: 1, flag: &b"wheelchair"[..] }];
    assert_eq!(
        house.hold(Hold { wish: Wish { needs, ..wish("ann", 4).wish }, ..wish("ann", 4) }),
        "a-1-1 a-2-1 a-2-2 a-2-3"
    );
}
