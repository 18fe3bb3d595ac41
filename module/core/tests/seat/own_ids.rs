//! Ids that a plan gives its seats.

use allot_core::seat::plan::{Plan, parse};
use allot_core::seat::request::Request;
use allot_core::seat::{Show, decide};
use serde_json::{Value, json};

/// One area `a` with one row `1` of these seats, all of one tier.
fn plan(seats: &Value) -> Plan {
    let row = json!({"label": "1", "rank": 1, "tier": "gold", "seats": seats});
    let plan = json!({"areas": [{"id": "a", "rows": [row]}]});
    parse(plan.to_string().as_bytes()).unwrap()
}

fn show(seats: &Value) -> Show {
    Show::new(&plan(seats), 0).unwrap()
}

fn problem(seats: &Value) -> String {
    Show::new(&plan(seats), 0).unwrap_err().text
}

#[test]
fn own_id_replaces_the_derived_one() {
    let show = show(&json!([{"label": "1", "id": "9005"}, null, {"label": "2"}]));
    let venue = show.venue();
    assert_eq!((venue.id(0), venue.id(2)), ("9005".into(), "a-1-2".into()));
    assert_eq!((venue.find(b"9005"), venue.find(b"a-1-2")), (Some(0), Some(2)));
    assert_eq!(venue.find(b"a-1-1"), None, "a seat has one id");
    assert_eq!(show.check(), Ok(()));
}

#[test]
fn own_id_that_another_seat_has_is_refused() {
    let twice = problem(&json!([{"label": "1", "id": "x"}, {"label": "2", "id": "x"}]));
    assert_eq!(twice, "plan: areas[0].rows[0].seats[1]: seat id 'x' occurs twice");
    let derived = problem(&json!([{"label": "1", "id": "a-1-2"}, {"label": "2"}]));
    assert_eq!(
        derived,
        "plan: areas: the own id 'a-1-2' of a seat is also the seat id of one without an own id"
    );
    let empty = problem(&json!([{"label": "1", "id": ""}]));
    assert_eq!(empty, "plan: areas[0].rows[0].seats[0].id: is empty");
    assert!(problem(&json!([{"label": "1", "id": "y".repeat(257)}])).contains("257 bytes"));
}

#[test]
fn own_ids_may_be_exchanged_derived_ones() {
    let show = show(&json!([{"label": "1", "id": "a-1-2"}, {"label": "2", "id": "a-1-1"}]));
    assert_eq!((show.venue().find(b"a-1-1"), show.venue().find(b"a-1-2")), (Some(1), Some(0)));
}

#[test]
fn seats_of_one_label_need_own_ids() {
    let seats = json!([{"label": "1", "id": "x"}, {"label": "1"}, {"label": "A"}, {"label": "A", "id": "y"}]);
    let show = show(&seats);
    let found = ["x", "a-1-1", "a-1-A", "y"].map(|id| show.venue().find(id.as_bytes()));
    assert_eq!(found, [Some(0), Some(1), Some(2), Some(3)]);
    assert!(problem(&json!([{"label": "1"}, {"label": "1"}])).contains("'a-1-1' occurs twice"));
}

#[test]
fn seat_whose_label_another_seat_of_the_row_has_cannot_be_changed_alone() {
    let show = show(&json!([{"label": "1", "id": "x"}, {"label": "1", "id": "y"}, {"label": "2"}]));
    let alter = |row: Value| {
        let part = json!({"areas": [{"id": "a", "rows": [row]}]}).to_string();
        decide(&show, 0, &Request::Alter(parse(part.as_bytes()).unwrap())).map(|_| ())
    };
    assert_eq!(alter(json!({"label": "1", "tier": "silver", "seats": [{"label": "2"}]})), Ok(()));
    assert_eq!(alter(json!({"label": "1", "tier": "silver"})), Ok(()));
    let refusal = alter(json!({"label": "1", "tier": "silver", "seats": [{"label": "1"}]})).unwrap_err();
    assert!(refusal.to_string().contains("row '1' has several seats with label '1'"), "{refusal}");
}

#[test]
fn plan_with_own_ids_creates_an_equal_show() {
    let show = show(&json!([{"label": "1", "id": "9005"}, {"label": "2", "id": "a-1-2"}, {"label": "3"}]));
    let plan = show.plan_json();
    assert!(
        plan.contains(r#"{"label":"1","id":"9005","tier":"gold"},{"label":"2","tier":"gold"}"#),
        "{plan}"
    );
    let again = Show::new(&parse(plan.as_bytes()).unwrap(), 0).unwrap();
    assert_eq!((again.plan_json(), again.encode()), (plan, show.encode()));
    assert_eq!(Show::decode(&show.encode()).unwrap().venue().find(b"9005"), Some(0));
}

#[test]
fn own_id_takes_its_text_and_at_most_32_bytes_more() {
    let seats = |id: fn(usize) -> Option<String>| {
        let seat = |number: usize| match id(number) {
            Some(id) => json!({"label": number.to_string(), "id": id}),
            None => json!({"label": number.to_string()}),
        };
        show(&json!((0..4000).map(seat).collect::<Vec<_>>())).allocated()
    };
    let own = seats(|number| Some((9_000_000 + number).to_string())) - seats(|_| None);
    assert!(own <= 4000 * (7 + 32), "{own} bytes for 4000 own ids");
}
