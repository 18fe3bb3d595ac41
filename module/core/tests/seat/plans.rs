//! Plans and their changes in docs/seats.md, sentence by sentence.

use super::house::{House, area, code, plan_error, wish};
use allot_core::seat::plan::{self, Plan, PlanPart};
use allot_core::seat::request::{Hold, Request, Wish};
use allot_core::seat::{Event, Reply, Show, decide};
use allot_core::shared::refusal::Code;
use allot_core::shared::token::TokenChoice;
use serde_json::{Value, json};

#[test]
fn the_error_for_a_refused_plan_names_the_place_and_the_reason() {
    let row = |label: &str| json!({"label": label, "rank": 1, "tier": "t", "seats": "1-3"});
    let plan = json!({"areas": [{"id": "stalls", "rows": [row("A"), row("B"), row("C"), row("A")]}]});
    assert_eq!(plan_error(&plan), "ERR plan: areas[0].rows[3]: seat id 'stalls-A-1' occurs twice");
    let dashes = json!({"areas": [{"id": "a", "rows": [{"label": "b-c", "rank": 1, "tier": "t", "seats": "1"}]},
                                  {"id": "a-b", "rows": [{"label": "c", "rank": 1, "tier": "t", "seats": "1"}]}]});
    assert_eq!(plan_error(&dashes), "ERR plan: areas[1].rows[0]: seat id 'a-b-c-1' occurs twice");
    let rank = json!({"areas": [{"id": "a", "rows": [{"label": "1", "tier": "t", "seats": "1"}]}]});
    assert!(
        plan_error(&rank).starts_with("ERR plan: areas[0].rows[0]: missing field `rank`"),
        "rank is required"
    );
    let tier = json!({"areas": [{"id": "a", "rows": [{"label": "1", "rank": 1, "seats": "1"}]}]});
    assert!(plan_error(&tier).starts_with("ERR plan: areas[0].rows[0].seats[0]: has no tier"));
    let deep = json!({"areas": [{"id": "a", "rows": [{"label": "1", "rank": 1, "tier": "t", "seats": [{"label": 1}]}]}]});
    assert!(plan_error(&deep).starts_with("ERR plan: areas[0].rows[0].seats[0].label: invalid type"));
}

#[test]
fn limits_absent_are_none_except_one_hold_per_user() {
    let mut show = House::new(&json!({"areas": [area("a", 1, "ltr", &["......"])]}));
    assert_eq!(show.hold(wish("u", 2)), "a-1-1 a-1-2");
    assert_eq!(show.hold(wish("u", 2)), "LIMIT");
    let mut show = House::rows("ltr", &["......"]);
    assert_eq!(show.hold(wish("u", 2)), "a-1-1 a-1-2");
    assert_eq!(show.hold(wish("u", 2)), "a-1-3 a-1-4", "0 is none");
}

#[test]
fn ties_of_rank_are_in_plan_order() {
    let row = |label: &str, rank: i32| json!({"label": label, "rank": rank, "tier": "t", "seats": "1-2"});
    let mut show =
        House::new(&json!({"areas": [{"id": "a", "rows": [row("C", 2), row("B", 1), row("A", 1)]}]}));
    assert_eq!(show.hold(wish("u", 2)), "a-B-1 a-B-2");
}

#[test]
fn map_and_plan_show_rows_in_the_order_of_the_plan() {
    let row = |label: &str, rank: i32, seats: &str| json!({"label": label, "rank": rank, "tier": "t", "seats": seats});
    let rows = [row("C", 3, "1-3"), row("A", 1, "1"), row("D", 3, "1-4"), row("B", 2, "1-2")];
    let plan = json!({"areas": [{"id": "a", "rows": rows}], "limits": {"holds_per_user": 0}});
    let mut show = House::new(&plan);
    assert_eq!(show.hold(wish("u", 1)), "a-A-1");
    assert_eq!(show.map(), ".../h/..../..");
    let labels = |show: &Show| {
        let rows = show.plan().areas.remove(0).rows.into_iter();
        rows.map(|row| row.label).collect::<String>()
    };
    assert_eq!(labels(&show.show), "CADB");
    assert_eq!(labels(&Show::decode(&show.show.encode()).unwrap()), "CADB");
    // A plan with the same ranks and another order of rows is another plan.
    let again = Show::open(&show.show.plan_json(), 0).unwrap();
    assert_eq!(again.plan_json(), show.show.plan_json());
    let mut sorted = plan.clone();
    sorted["areas"][0]["rows"].as_array_mut().unwrap().swap(0, 1);
    assert_ne!(Show::open(&sorted.to_string(), 0).unwrap().plan_json(), again.plan_json());
    // A row that is put keeps the place of the former one, or comes last. A new rank moves no row.
    let part = json!({"areas": [{"id": "a", "remove_rows": ["D"], "rows": [{"label": "C", "rank": 0}],
        "put_rows": [row("E", -1, "1-5"), row("A", 9, "1-2"), row("D", 1, "1")]}]});
    assert_eq!(show.alter(&part), Ok(Reply::Ok));
    assert_eq!((show.map().as_str(), labels(&show.show).as_str()), (".../h./../...../.", "CABED"));
    assert_eq!(show.alter(&json!({"remove_seats": ["a-B-1", "a-C-1", "a-C-2", "a-C-3"]})), Ok(Reply::Ok));
    assert_eq!((show.map().as_str(), labels(&show.show).as_str()), ("h./ ./...../.", "ABED"));
    assert_eq!(show.show.check(), Ok(()));
}

#[test]
fn a_plan_beyond_the_limits_is_refused() {
    let wide =
        json!({"areas": [{"id": "a", "rows": [{"label": "1", "rank": 1, "tier": "t", "seats": "1-4097"}]}]});
    assert!(plan_error(&wide).contains("more than 4096 positions"));
    let areas: Vec<Value> = (0..4097).map(|number| area(&number.to_string(), 1, "ltr", &["."])).collect();
    assert!(plan_error(&json!({ "areas": areas })).contains("more than 4096"));
    let rows: Vec<Value> = (0..500)
        .map(|row| json!({"label": row.to_string(), "rank": 1, "tier": "t", "seats": "1-4001"}))
        .collect();
    assert!(plan_error(&json!({"areas": [{"id": "a", "rows": rows}]})).contains("more than 2000000 seats"));
}

#[test]
fn from_the_plan_an_equal_empty_show_can_be_created() {
    let show = House::rows("center", &["..w. s.", "g..."]).show;
    let json = show.plan_json();
    let again = Show::open(&json, 0).unwrap();
    assert_eq!(again.plan_json(), json);
    assert_eq!(again.encode(), show.encode());
}

// SEAT.HOLD, exactly.

#[test]
fn alter_changes_limits_names_priorities_rules_and_tiers_after_opening() {
    let mut show = House::rows("ltr", &["....", "...."]);
    show.pick("u", "t", &["a-1-1"]).unwrap();
    let part = json!({"limits": {"seats_per_user": 2}, "areas": [{"id": "a", "name": "Stalls", "priority": 3,
        "rule": "rtl", "rows": [{"label": "2", "tier": "silver"}, {"label": "1", "tier": "silver", "seats": "3-4"}]}]});
    assert_eq!(show.alter(&part), Ok(Reply::Ok));
    let plan: Value = serde_json::from_str(&show.show.plan_json()).unwrap();
    assert_eq!(plan["limits"], json!({"seats_per_user": 2, "holds_per_user": 0, "max_hold_ms": 0}));
    assert_eq!([&plan["areas"][0]["name"], &plan["areas"][0]["rule"]], ["Stalls", "rtl"]);
    assert_eq!(
        show.hold(Hold { wish: Wish { tier: Some(b"silver"), ..wish("v", 2).wish }, ..wish("v", 2) }),
        "a-1-3 a-1-4"
    );
    assert_eq!(show.map(), "h.hh/....", "held seats stay held");
}

#[test]
fn alter_of_names_priorities_and_rules_does_not_replace_the_plan() {
    let areas = |changed: bool| {
        let (mut first, mut second) = (area("a", 1, "ltr", &["..", ".."]), area("b", 2, "ltr", &[".s"]));
        if changed {
            (first["name"], first["priority"]) = (json!("Stalls"), json!(3));
            second["rule"] = json!("center");
        }
        json!({"areas": [first, second], "limits": {"holds_per_user": i32::from(changed)}})
    };
    let part = json!({"limits": {"holds_per_user": 1}, "areas": [
        {"id": "b", "rule": "rtl"}, {"id": "a", "name": "Stalls", "priority": 3}, {"id": "b", "rule": "center"}]});
    let part: PlanPart = plan::parse(part.to_string().as_bytes()).unwrap();
    let mut house = House::new(&areas(false));
    let decision = decide(&house.show, 1, &Request::Alter(part.clone())).unwrap();
    assert!(matches!(&decision.events[..], [Event::Arranged { areas, .. }] if areas.len() == 2));
    assert_eq!(house.ask(&Request::Alter(part.clone())), Ok(Reply::Ok));
    assert_eq!(house.show.check(), Ok(()));
    assert_eq!(house.show.plan_json(), House::new(&areas(true)).show.plan_json());
    assert_eq!(house.hold(wish("u", 1)), "b-1-1", "area b comes first now");
    assert!(decide(&house.show, 1, &Request::Alter(part)).unwrap().events.is_empty(), "nothing changes");
    for (name, text) in [("", "ERR plan: areas[0].name: is empty"), (&"x".repeat(257), "has 257 bytes")] {
        let refusal = house.alter(&json!({"areas": [{"id": "a", "name": name}]})).unwrap_err();
        assert!(format!("{} {}", refusal.code.word(), refusal.text).contains(text), "{refusal:?}");
    }
}

/// A plan of one area with these rows, in which each of 4096 seats is of the next of 4000 tiers.
fn plan_of_many_tiers(rows: usize) -> Plan {
    let seat = |seat: usize| json!({"label": seat.to_string(), "tier": format!("t{}", seat % 4000)});
    let seats: Vec<Value> = (0..4096).map(seat).collect();
    let row = |row: usize| json!({"label": row.to_string(), "rank": row, "seats": seats});
    let rows: Vec<Value> = (0..rows).map(row).collect();
    let plan = json!({"areas": [{"id": "a", "rows": rows}], "limits": {"holds_per_user": 0}});
    plan::parse(plan.to_string().as_bytes()).unwrap()
}

#[test]
fn row_of_many_tiers_has_the_tier_of_each_seat() {
    let mut show = Show::new(&plan_of_many_tiers(2), 0).unwrap();
    assert_eq!(show.check(), Ok(()));
    assert_eq!((show.buckets().len(), show.venue().seat_count()), (4000, 8192));
    let layout = show.venue().layout(0);
    for position in [0, 95, 96, 3999, 4000, 4095] {
        let slot = layout.tier_slot(position).unwrap();
        let tier = show.venue().tier_name(layout.tiers[slot].0);
        assert_eq!(tier, format!("t{}", position % 4000));
    }
    assert_eq!(layout.tier_slot(4096), None);
    let token = TokenChoice { token: b"t", chosen: true };
    let hold = Hold { token, wish: Wish { tier: Some(b"t7"), ..wish("ann", 4).wish }, ..wish("ann", 4) };
    let decision = decide(&show, 1, &Request::Hold(hold)).unwrap();
    decision.events.iter().for_each(|event| show.apply(1, event));
    let Reply::Hold(record) = decision.reply else { panic!("{:?}", decision.reply) };
    let seats: Vec<String> = record.seats.iter().map(|&seat| show.venue().id(seat)).collect();
    assert_eq!(seats, ["a-0-7", "a-0-4007", "a-1-7", "a-1-4007"]);
    assert_eq!(show.check(), Ok(()));
}

#[test]
fn alter_is_bad_state_where_held_or_sold_seats_forbid_it() {
    let mut show = House::rows("ltr", &["...."]);
    show.pick("u", "t", &["a-1-1"]).unwrap();
    let tier =
        |seats: &str| json!({"areas": [{"id": "a", "rows": [{"label": "1", "tier": "x", "seats": seats}]}]});
    assert_eq!(code(show.alter(&tier("1-2"))), Code::BadState);
    assert_eq!(show.alter(&tier("2-4")), Ok(Reply::Ok));
    assert_eq!(code(show.alter(&tier("9"))), Code::NotFound);
    assert_eq!(code(show.alter(&json!({"areas": [{"id": "z"}]}))), Code::NotFound);
}
