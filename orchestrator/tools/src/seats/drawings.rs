//! Drawn plans as a whole: where their seats are, and which of them are sold first.

use super::{Draft, Format};
use allot_core::seat::plan::{PlanRow, Rule};
use allot_core::seat::wish::{Adjacent, NamedWish, Orphans};
use serde_json::{Value, json};

fn read(plan: &Value) -> Draft {
    Format::Pretix.read(&plan.to_string()).unwrap().0
}

/// A row of seats at these places.
fn row(number: &str, position: [f64; 2], seats: &[[f64; 2]]) -> Value {
    let seats = seats.iter().zip(1..).map(|([x, y], number): (_, i32)| {
        json!({"seat_number": number.to_string(), "category": "C", "position": {"x": x, "y": y}})
    });
    let seats: Vec<Value> = seats.collect();
    json!({"row_number": number, "position": {"x": position[0], "y": position[1]}, "seats": seats})
}

fn zone(name: &str, position: [f64; 2], shapes: &[Value], rows: &[Value]) -> Value {
    json!({"name": name, "position": {"x": position[0], "y": position[1]}, "areas": shapes, "rows": rows})
}

/// The seats that a party would get.
fn found(draft: &Draft, count: u32) -> Vec<String> {
    let show = draft.build().unwrap();
    let wish = NamedWish {
        count,
        tier: None,
        areas: vec![],
        adjacent: Adjacent::Prefer,
        orphans: Orphans::Avoid,
        flags: vec![],
        needs: vec![],
        preferred: vec![],
        from: None,
    };
    show.find(&wish, 1).unwrap()[0].iter().map(|&seat| show.venue().id(seat)).collect()
}

#[test]
fn seats_lie_where_their_zone_their_row_and_they_themselves_are() {
    let straight = [[0.0, 0.0], [25.0, 0.0], [50.0, 0.0]];
    let bent = [[0.0, 0.0], [25.0, 10.0], [50.0, 0.0]];
    let zones = [
        zone("Left", [10.0, 20.0], &[], &[row("A", [100.0, 5.0], &straight), row("B", [100.0, 30.0], &bent)]),
        zone("Right", [1000.0, 0.0], &[], &[row("A", [0.0, 0.0], &straight)]),
    ];
    let plan = read(&json!({"name": "P", "zones": zones})).build().unwrap().plan();
    let places = |row: &PlanRow| (row.at, row.step, row.points.clone());
    assert_eq!(places(&plan.areas[0].rows[0]), (Some([110.0, 25.0]), Some([25.0, 0.0]), None));
    let points = vec![[110.0, 50.0], [135.0, 60.0], [160.0, 50.0]];
    assert_eq!(places(&plan.areas[0].rows[1]), (None, None, Some(points)));
    assert_eq!(places(&plan.areas[1].rows[0]), (Some([1000.0, 0.0]), Some([25.0, 0.0]), None));
}

#[test]
fn stand_that_is_drawn_from_the_back_is_sold_from_the_pitch() {
    let seats: Vec<[f64; 2]> = (0..4).map(|number| [25.0 * f64::from(number), 0.0]).collect();
    let pitch = json!({"shape": "rectangle", "position": {"x": 0, "y": 120},
        "rectangle": {"width": 300, "height": 100}, "text": {"text": "Spielfeld"}});
    let rows = [row("14", [0.0, 0.0], &seats), row("6", [0.0, 80.0], &seats)];
    let mut draft = read(&json!({"name": "P", "categories": [{"name": "C", "color": "#000"}],
        "size": {"width": 300, "height": 220}, "zones": [zone("Block E", [0.0, 0.0], &[pitch], &rows)]}));
    draft.look_at(None);
    assert_eq!((draft.focus, draft.areas[0].rule), (Some([150.0, 170.0]), Rule::Focus));
    let ranks: Vec<(&str, i32)> =
        draft.areas[0].rows.iter().map(|row| (row.label.as_str(), row.rank)).collect();
    assert_eq!(ranks, [("14", 2), ("6", 1)], "the rows stay in the order of the drawing");
    assert!(draft.notes.iter().any(|note| note.contains("Spielfeld")), "{:?}", draft.notes);
    assert!(draft.notes.iter().any(|note| note.contains("come back first")), "{:?}", draft.notes);
    assert_eq!(found(&draft, 2), ["block-e-6-3", "block-e-6-4"]);
    assert_eq!(found(&draft, 4), ["block-e-6-1", "block-e-6-2", "block-e-6-3", "block-e-6-4"]);
}
