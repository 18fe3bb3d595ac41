//! Which seats a hold gets ("Best seating, exactly" in docs/seats.md), sentence by sentence.

use super::house::{House, area, wish};
use allot_core::seat::Reply;
use allot_core::seat::request::{Adjacent, Hold, NamedWish, Need, Orphans, Request, Wish};
use allot_core::shared::token::TokenChoice;
use serde_json::json;

#[test]
fn seats_with_a_break_between_them_are_not_adjacent() {
    let mut show = House::rows("ltr", &[". .."]);
    assert_eq!(show.hold(wish("u", 2)), "a-1-2 a-1-3");
}

#[test]
fn printed_numbers_say_nothing_about_adjacency() {
    let mut show = House::new(&json!({"areas": [{"id": "a", "rows": [
        {"label": "1", "rank": 1, "tier": "gold", "seats": "2,4,6,|,5,3,1"}]}]}));
    assert_eq!(show.hold(wish("u", 3)), "a-1-2 a-1-4 a-1-6");
}

#[test]
fn a_seat_of_another_tier_ends_a_run() {
    let mut show = House::rows("ltr", &[".s...."]);
    assert_eq!(
        show.hold(Hold { wish: Wish { tier: Some(b"gold"), ..wish("u", 3).wish }, ..wish("u", 3) }),
        "a-1-3 a-1-4 a-1-5"
    );
}

#[test]
fn ltr_is_front_row_first_then_left_to_right() {
    let mut show = House::rows("ltr", &["....", "...."]);
    assert_eq!(show.hold(wish("u", 2)), "a-1-1 a-1-2");
}

#[test]
fn rtl_is_front_row_first_then_right_to_left() {
    let mut show = House::rows("rtl", &["....", "...."]);
    assert_eq!(show.hold(wish("u", 2)), "a-1-3 a-1-4");
}

#[test]
fn center_is_nearest_the_middle_and_ties_go_left() {
    let mut show = House::rows("center", &["......"]);
    assert_eq!(show.hold(wish("u", 2)), "a-1-3 a-1-4");
    let mut show = House::rows("center", &["....."]);
    assert_eq!(show.hold(wish("u", 2)), "a-1-1 a-1-2", "2-3 and 3-4 strand one");
    let mut show = House::rows("center", &["....."]);
    assert_eq!(
        show.hold(Hold { wish: Wish { orphans: Orphans::Allow, ..wish("u", 2).wish }, ..wish("u", 2) }),
        "a-1-2 a-1-3"
    );
    let mut show = House::rows("center", &["  ..  .."]);
    assert_eq!(show.hold(wish("u", 2)), "a-1-1 a-1-2");
}

#[test]
fn flagged_seat_needs_its_flag_in_a_hold_and_its_name_in_a_pick() {
    let mut show = House::rows("ltr", &["w.w"]);
    assert_eq!(show.hold(wish("u", 2)), "none");
    assert_eq!(
        show.hold(Hold { wish: Wish { flags: vec![b"wheelchair"], ..wish("u", 2).wish }, ..wish("u", 2) }),
        "a-1-1 a-1-2"
    );
    assert!(show.pick("v", "p", &["a-1-3"]).is_ok());
}

// Plan.

#[test]
fn unknown_tier_or_area_is_not_found_and_a_sold_out_one_is_null() {
    let mut show = House::new(&json!({"areas": [area("a", 1, "ltr", &[".s"]), area("b", 1, "ltr", &["."])]}));
    assert_eq!(
        show.hold(Hold { wish: Wish { tier: Some(b"platinum"), ..wish("u", 1).wish }, ..wish("u", 1) }),
        "NOTFOUND"
    );
    assert_eq!(
        show.hold(Hold { wish: Wish { areas: vec![b"z"], ..wish("u", 1).wish }, ..wish("u", 1) }),
        "NOTFOUND"
    );
    assert_eq!(
        show.hold(Hold {
            wish: Wish { tier: Some(b"s"), areas: vec![b"b"], ..wish("u", 1).wish },
            ..wish("u", 1)
        }),
        "none"
    );
}

#[test]
fn prefer_takes_the_best_level_with_a_run_before_it_scatters() {
    let plan = json!({"areas": [area("a", 1, "ltr", &[". . ."]), area("b", 2, "ltr", &["..."])]});
    assert_eq!(House::new(&plan).hold(wish("u", 3)), "b-1-1 b-1-2 b-1-3");
    assert_eq!(House::new(&plan).hold(wish("u", 4)), "a-1-1 b-1-1 b-1-2 b-1-3", "two groups, and not four");
}

#[test]
fn require_answers_noadjacent_instead_of_scattering() {
    let mut show = House::rows("ltr", &[". . ."]);
    assert_eq!(
        show.hold(Hold { wish: Wish { adjacent: Adjacent::Require, ..wish("u", 2).wish }, ..wish("u", 2) }),
        "NOADJACENT"
    );
    assert_eq!(
        show.hold(Hold { wish: Wish { adjacent: Adjacent::Require, ..wish("u", 4).wish }, ..wish("u", 4) }),
        "none"
    );
}

#[test]
fn area_puts_the_area_before_adjacency() {
    let plan = json!({"areas": [area("a", 1, "ltr", &[". . ."]), area("b", 2, "ltr", &["..."])]});
    let mut show = House::new(&plan);
    assert_eq!(
        show.hold(Hold { wish: Wish { adjacent: Adjacent::Area, ..wish("u", 3).wish }, ..wish("u", 3) }),
        "a-1-1 a-1-2 a-1-3"
    );
    let mut show = House::new(&plan);
    assert_eq!(
        show.hold(Hold { wish: Wish { adjacent: Adjacent::Area, ..wish("u", 4).wish }, ..wish("u", 4) }),
        "a-1-1 b-1-1 b-1-2 b-1-3"
    );
}

#[test]
fn ignore_takes_the_first_free_seats_in_seat_order() {
    let mut show = House::rows("ltr", &[". . .", "..."]);
    assert_eq!(
        show.hold(Hold { wish: Wish { adjacent: Adjacent::Ignore, ..wish("u", 4).wish }, ..wish("u", 4) }),
        "a-1-1 a-1-2 a-1-3 a-2-1"
    );
}

#[test]
fn areas_of_equal_priority_take_turns_per_tier() {
    let rows = &["..s.."][..];
    let plan = json!({"areas": [area("a", 1, "ltr", rows), area("b", 1, "ltr", rows)], "limits": {"holds_per_user": 0}});
    let mut show = House::new(&plan);
    let gold = || Hold { wish: Wish { tier: Some(b"gold"), ..wish("u", 2).wish }, ..wish("u", 2) };
    assert_eq!(show.hold(gold()), "a-1-1 a-1-2");
    assert_eq!(
        show.hold(Hold { wish: Wish { tier: Some(b"s"), ..wish("u", 1).wish }, ..wish("u", 1) }),
        "a-1-3",
        "another tier, another turn"
    );
    assert_eq!(show.hold(gold()), "b-1-1 b-1-2");
    assert_eq!(show.hold(gold()), "a-1-4 a-1-5");
}

#[test]
fn only_a_granted_hold_into_one_area_takes_a_turn() {
    let rows = &["...."][..];
    let plan = json!({"areas": [area("a", 1, "ltr", rows), area("b", 1, "ltr", rows)], "limits": {"holds_per_user": 0}});
    let mut show = House::new(&plan);
    show.pick("u", "p", &["a-1-4"]).unwrap();
    assert_eq!(show.hold(wish("u", 5)).split(' ').count(), 5, "over both areas");
    show.now += 2000;
    assert_eq!(show.hold(wish("u", 2)), "a-1-1 a-1-2", "neither the pick nor the scattered hold was a turn");
}

#[test]
fn orphans_avoid_looks_over_all_rows_before_it_strands() {
    let mut show = House::rows("ltr", &["...", "...."]);
    assert_eq!(show.hold(wish("u", 2)), "a-2-1 a-2-2");
    assert_eq!(show.hold(wish("u", 2)), "a-2-3 a-2-4");
    assert_eq!(show.hold(wish("u", 2)), "a-1-1 a-1-2", "there is no other");
}

#[test]
fn orphans_forbid_never_strands_and_never_scatters() {
    let mut show = House::rows("ltr", &["..."]);
    for adjacent in [Adjacent::Prefer, Adjacent::Require, Adjacent::Area] {
        assert_eq!(
            show.hold(Hold {
                wish: Wish { adjacent, orphans: Orphans::Forbid, ..wish("u", 2).wish },
                ..wish("u", 2)
            }),
            "NOADJACENT"
        );
    }
    assert_eq!(
        show.hold(Hold {
            wish: Wish { adjacent: Adjacent::Ignore, orphans: Orphans::Forbid, ..wish("u", 2).wish },
            ..wish("u", 2)
        }),
        "ERR"
    );
}

// The other commands.

#[test]
fn adjacent_and_groups_are_physical_for_any_tiers() {
    let mut show = House::rows("ltr", &[".s. ."]);
    let Ok(Reply::Hold(record)) = show.pick("u", "t", &["a-1-1", "a-1-2", "a-1-3", "a-1-4"]) else {
        panic!()
    };
    assert_eq!(show.show.groups_and_areas(&record.seats), (2, 1));
    let Ok(Reply::Hold(record)) = House::rows("ltr", &["."]).pick("u", "t", &["a-1-1"]) else { panic!() };
    assert_eq!(show.show.groups_and_areas(&record.seats), (1, 1), "one seat is adjacent, one group");
}

#[test]
fn refusal_of_seats_side_by_side_says_which_were_asked_for() {
    let mut house = House::rows("ltr", &[".s. .s", ".w"]);
    let text = |house: &mut House, wish: NamedWish<'_>| {
        let token = TokenChoice { token: b"t", chosen: false };
        let hold = Hold { wish, token, ..super::house::wish("ann", 1) };
        house.ask(&Request::Hold(hold)).unwrap_err().text
    };
    let any = |count| Wish { adjacent: Adjacent::Require, ..super::house::wish("ann", count).wish };
    let (gold, view) = (Some(&b"gold"[..]), Need { count: 1, flag: &b"wheelchair"[..] });
    for (wish, expected) in [
        (any(3), "no 3 seats of one tier side by side are free"),
        (Wish { tier: gold, ..any(2) }, "no 2 seats of tier 'gold' side by side are free"),
        (
            Wish { tier: gold, needs: vec![view], areas: vec![b"a"], ..any(3) },
            "no 3 seats of tier 'gold', of them 1 with flag 'wheelchair', are free side by side in the named areas",
        ),
        (
            Wish { orphans: Orphans::Forbid, ..any(2) },
            "no 2 seats of one tier side by side are free without leaving a single one beside them",
        ),
    ] {
        assert_eq!(text(&mut house, wish), expected);
    }
}
