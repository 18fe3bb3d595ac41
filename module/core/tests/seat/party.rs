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
    assert_eq!(
        ask(Hold { wish: Wish { flags: vec![b"wheelchair"], ..party(1, 1).wish }, ..party(1, 1) }),
        Code::Err
    );
    let twice = [party(2, 1).wish.needs, party(2, 1).wish.needs].concat();
    assert_eq!(ask(Hold { wish: Wish { needs: twice, ..party(2, 1).wish }, ..party(2, 1) }), Code::Err);
    let unknown = vec![Need { count: 1, flag: &b"pram"[..] }];
    assert_eq!(
        ask(Hold { wish: Wish { needs: unknown, ..party(2, 1).wish }, ..party(2, 1) }),
        Code::NotFound
    );
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
