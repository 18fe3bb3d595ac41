//! Where seats are, and the rule `focus`: the best run of an area is the one whose middle is nearest to a point.

use super::house::{House, wish};
use super::naive::{distance, points_of};
use super::rig::Random;
use allot_core::seat::request::{Adjacent, Hold, Orphans, Wish};
use allot_core::seat::state::SeatState;
use allot_core::seat::{Reply, Show};
use allot_core::shared::refusal::Code;
use serde_json::{Value, json};

/// An area of rows that are given by their places.
fn hall(focus: [f32; 2], rows: &[Value]) -> Value {
    json!({"areas": [{"id": "h", "rule": "focus", "rows": rows}], "focus": focus, "limits": {"holds_per_user": 0}})
}

fn row(label: &str, rank: usize, at: [f32; 2], step: [f32; 2], seats: &str) -> Value {
    json!({"label": label, "rank": rank, "tier": "t", "seats": seats, "at": at, "step": step})
}

fn refused(plan: &Value) -> String {
    Show::open(&plan.to_string(), 0).unwrap_err().text
}

#[test]
fn nearest_run_is_chosen_over_all_rows() {
    // The pitch is in the middle: rows 1 to 4 on each side of it, the nearest in the middle of each.
    let rows = (1..=4).flat_map(|number| {
        let (y, label) = (f32::from(number as u8) * 2.0, number.to_string());
        [
            row(&format!("N{label}"), number, [0.0, 20.0 - y], [1.0, 0.0], "1-20"),
            row(&format!("S{label}"), number, [0.0, 20.5 + y], [1.0, 0.0], "1-20"),
        ]
    });
    let mut show = House::new(&hall([9.5, 20.0], &rows.collect::<Vec<_>>()));
    assert_eq!(show.hold(wish("a", 2)), "h-N1-10 h-N1-11");
    assert_eq!(show.hold(wish("b", 2)), "h-S1-10 h-S1-11");
    // Row 2 is 4 away, and the places beside the first pair are 2 across and 2 back.
    assert_eq!(show.hold(wish("c", 2)), "h-N1-8 h-N1-9");
    assert_eq!(show.hold(wish("d", 2)), "h-N1-12 h-N1-13");
}

#[test]
fn rows_that_are_listed_back_first_are_sold_from_the_front() {
    let rows =
        (1..=5).map(|number| row(&number.to_string(), number, [0.0, number as f32], [1.0, 0.0], "1-9"));
    let mut show = House::new(&hall([4.0, 9.0], &rows.collect::<Vec<_>>()));
    assert_eq!(show.hold(wish("a", 3)), "h-5-4 h-5-5 h-5-6");
}

#[test]
fn curved_row_is_read_point_by_point() {
    // Half a circle around the stage: all seats are equally near, and the left one is first.
    let points: Vec<[f32; 2]> = vec![[-10.0, 0.0], [-8.0, 6.0], [0.0, 10.0], [6.0, 8.0], [10.0, 0.0]];
    let curve = json!({"label": "1", "rank": 1, "tier": "t", "seats": "1-5", "points": points});
    let mut show = House::new(&hall([0.0, 0.0], &[curve]));
    assert_eq!(show.hold(wish("a", 1)), "h-1-1");
    // The middle of two seats lies between them, nearer to the stage the farther they are from each other.
    let any = Wish { orphans: Orphans::Allow, ..wish("b", 2).wish };
    assert_eq!(show.hold(Hold { wish: any, ..wish("b", 2) }), "h-1-2 h-1-3");
    let plan = show.show.plan_json();
    assert!(plan.contains(r#""points":[[-10.0,0.0],[-8.0,6.0]"#), "{plan}");
    assert_eq!(Show::open(&plan, 0).unwrap().plan_json(), plan);
}

#[test]
fn plan_keeps_places_and_the_order_of_its_rows() {
    let rows =
        vec![row("back", 1, [0.5, 9.25], [0.1, 0.0], "1-3"), row("front", 2, [0.5, 1.0], [0.1, 0.0], "1-3")];
    let show = House::new(&hall([0.0, 0.0], &rows)).show;
    let plan = show.plan();
    let labels: Vec<&str> = plan.areas[0].rows.iter().map(|row| row.label.as_str()).collect();
    assert_eq!(labels, ["back", "front"]);
    assert_eq!(plan.areas[0].rows[0].at, Some([0.5, 9.25]));
    assert_eq!(plan.areas[0].rows[0].step, Some([0.1, 0.0]));
    assert_eq!(Show::decode(&show.encode()).unwrap().plan(), plan);
}

#[test]
fn adjacent_ignore_takes_the_nearest_seats_of_the_nearest_rows() {
    let rows = vec![row("1", 1, [0.0, 5.0], [1.0, 0.0], "1-5"), row("2", 1, [0.0, 3.0], [1.0, 0.0], "1-5")];
    let mut show = House::new(&hall([2.0, 0.0], &rows));
    let any = Wish { adjacent: Adjacent::Ignore, ..wish("a", 6).wish };
    assert_eq!(show.hold(Hold { wish: any, ..wish("a", 6) }), "h-2-1 h-2-2 h-2-3 h-2-4 h-2-5 h-1-3");
}

#[test]
fn area_has_a_focus_of_its_own_before_that_of_the_show() {
    let rows = |id: &str, focus: Value| {
        json!({"id": id, "rule": "focus", "focus": focus,
            "rows": [row("1", 1, [0.0, 0.0], [1.0, 0.0], "1-9")]})
    };
    let plan = json!({"areas": [rows("a", Value::Null), rows("b", json!([8, 0]))], "focus": [0, 0],
        "limits": {"holds_per_user": 0}});
    let mut show = House::new(&plan);
    assert_eq!([show.hold(wish("u", 2)), show.hold(wish("u", 2))], ["a-1-1 a-1-2", "b-1-8 b-1-9"]);
}

#[test]
fn groups_are_near_each_other_by_distance() {
    // By rank, rows 1 and 2 are near each other; in the hall, row 3 is behind row 1, and row 2 is far to the right.
    let rows = vec![
        row("1", 1, [0.0, 0.0], [1.0, 0.0], "1-3"),
        row("2", 2, [40.0, 2.0], [1.0, 0.0], "1-3"),
        row("3", 3, [0.0, 2.0], [1.0, 0.0], "1-3"),
    ];
    let mut plan = hall([0.0, 0.0], &rows);
    plan["areas"][0]["rule"] = json!("ltr");
    assert_eq!(House::new(&plan).hold(wish("a", 5)), "h-1-1 h-1-2 h-1-3 h-3-1 h-3-2");
}

#[test]
fn row_that_is_numbered_from_the_other_side_is_behind_the_right_seats() {
    let rows =
        vec![row("1", 1, [0.0, 0.0], [1.0, 0.0], "1-2,|,|,|,|"), row("2", 2, [5.0, 2.0], [-1.0, 0.0], "1-6")];
    let mut plan = hall([0.0, 0.0], &rows);
    plan["areas"][0]["rule"] = json!("ltr");
    let mut show = House::new(&plan);
    show.block(&["h-2-2"]);
    // 2-5 and 2-6 are behind 1-2 and 1-1.
    let got = show.hold(wish("a", 6));
    assert_eq!(got, "h-1-1 h-1-2 h-2-3 h-2-4 h-2-5 h-2-6");
    let mut show = House::new(&plan);
    show.block(&["h-2-3"]);
    assert_eq!(show.hold(wish("a", 5)), "h-1-1 h-1-2 h-2-4 h-2-5 h-2-6");
}

#[test]
fn rows_in_other_directions_are_near_by_distance_too() {
    // Row 3 stands across to the others, at the right: its ends are far apart, and its first seats are behind row 1.
    let rows = vec![
        row("1", 1, [0.0, 0.0], [1.0, 0.0], "1-3"),
        row("2", 2, [0.0, 30.0], [1.0, 0.0], "1-3"),
        row("3", 3, [4.0, 0.0], [0.0, 1.0], "1-2,|,|,|,|,|,|,|,|,|,|,|,|,|,|,|,|,|,|,|,|,3-4"),
    ];
    let mut plan = hall([0.0, 0.0], &rows);
    plan["areas"][0]["rule"] = json!("ltr");
    let mut show = House::new(&plan);
    assert_eq!(show.hold(wish("a", 5)), "h-1-1 h-1-2 h-1-3 h-3-1 h-3-2");
    show.block(&["h-2-1", "h-2-2", "h-2-3"]);
    // The two ends of row 3 are no near pair of groups, though both are at one place across the hall.
    assert_eq!(show.release("t1"), Ok(Reply::Integer(5)));
    assert_eq!(show.hold(wish("b", 4)), "h-1-2 h-1-3 h-3-1 h-3-2");
}

#[test]
fn first_row_of_one_seat_does_not_hide_where_the_others_are() {
    let rows = vec![
        row("box", 1, [0.0, -2.0], [0.0, 0.0], "1"),
        row("1", 2, [0.0, 0.0], [1.0, 0.0], "1-3"),
        row("2", 3, [40.0, 2.0], [1.0, 0.0], "1-3"),
        row("3", 4, [0.0, 2.0], [1.0, 0.0], "1-3"),
    ];
    let mut plan = hall([0.0, 0.0], &rows);
    plan["areas"][0]["rule"] = json!("ltr");
    assert_eq!(House::new(&plan).hold(wish("a", 5)), "h-1-1 h-1-2 h-1-3 h-3-1 h-3-2");
}

#[test]
fn plan_of_countless_positions_is_refused_before_they_are_read() {
    let rows: Vec<Value> =
        (0..20_000).map(|number| row(&number.to_string(), 1, [0.0, 0.0], [1.0, 0.0], "0-4095")).collect();
    let text = refused(&hall([0.0, 0.0], &rows));
    assert!(text.contains("areas[0].rows[3906]: the row or the plan has too many positions"), "{text}");
}

#[test]
fn rule_and_focus_change_while_seats_are_held() {
    let rows =
        (1..=3).map(|number| row(&number.to_string(), number, [0.0, number as f32], [1.0, 0.0], "1-9"));
    let mut plan = hall([0.0, 0.0], &rows.collect::<Vec<_>>());
    plan["areas"][0]["rule"] = json!("ltr");
    let mut show = House::new(&plan);
    assert_eq!(show.hold(wish("a", 2)), "h-1-1 h-1-2");
    let alter = |show: &mut House, part: Value| show.alter(&part).map_err(|refusal| refusal.code);
    assert!(alter(&mut show, json!({"focus": [8, 9], "areas": [{"id": "h", "rule": "focus"}]})).is_ok());
    assert_eq!(show.release("t1"), Ok(Reply::Integer(2)));
    assert_eq!(show.pick("a", "p", &["h-1-1", "h-1-2"]).map(|_| ()), Ok(()));
    assert_eq!(show.hold(wish("b", 2)), "h-3-8 h-3-9");
    assert!(alter(&mut show, json!({"areas": [{"id": "h", "focus": [0, 0]}]})).is_ok());
    assert_eq!(show.hold(wish("c", 2)), "h-2-1 h-2-2");
    assert!(alter(&mut show, json!({"areas": [{"id": "h", "rule": "rtl"}]})).is_ok());
    assert_eq!(show.hold(wish("d", 2)), "h-1-8 h-1-9");
    let new = json!({"label": "9", "rank": 1, "tier": "t", "seats": "1-3"});
    let refused = alter(&mut show, json!({"areas": [{"id": "h", "put_rows": [new]}]}));
    assert_eq!(refused, Err(Code::Err), "a row without a place among rows with places");
    assert_eq!(show.show.check(), Ok(()));
}

#[test]
fn plans_that_say_too_little_or_too_much_are_refused() {
    let good = || row("1", 1, [0.0, 0.0], [1.0, 0.0], "1-3");
    let with = |change: &dyn Fn(&mut Value)| {
        let mut plan = hall([0.0, 0.0], &[good(), good()]);
        plan["areas"][0]["rows"][1]["label"] = json!("2");
        change(&mut plan);
        refused(&plan)
    };
    let of_row = |field: &'static str, value: Value| {
        with(&move |plan| plan["areas"][0]["rows"][1][field].clone_from(&value))
    };
    let say = |text: String, part: &str| assert!(text.contains(part), "{text}");
    say(of_row("step", Value::Null), "areas[0].rows[1]: has only one of at and step");
    say(of_row("points", json!([[0, 0], [1, 0], [2, 0]])), "areas[0].rows[1]: has points as well as at");
    say(of_row("at", json!([1e300, 0])), "areas[0].rows[1]: has a coordinate that is too large");
    say(of_row("at", json!([1])), "areas[0].rows[1].at: invalid length 1");
    say(of_row("at", json!(["a", 0])), "areas[0].rows[1].at[0]: invalid type");
    say(of_row("seats", json!("1-")), "areas[0].rows[1].seats: ");
    say(
        with(&|plan| plan["focus"] = Value::Null),
        "areas[0]: rule: focus needs the focus of the area or of the show",
    );
    say(with(&|plan| plan["focus"] = json!([1e39, 0])), "focus: has a coordinate");
    say(with(&|plan| plan["areas"][0]["focus"] = json!([1e39, 0])), "areas[0].focus: has a coordinate");
    let short = |plan: &mut Value| {
        let row = &mut plan["areas"][0]["rows"][1];
        (row["at"], row["step"], row["points"]) = (Value::Null, Value::Null, json!([[0, 0]]));
    };
    say(with(&short), "areas[0].rows[1]: points: has 1 points for 3 positions");
    let nowhere = |plan: &mut Value| {
        let row = &mut plan["areas"][0]["rows"][1];
        (row["at"], row["step"]) = (Value::Null, Value::Null);
    };
    say(with(&nowhere), "areas[0].rows[1]: the rule of its area is focus");
    let ltr = |plan: &mut Value| {
        nowhere(plan);
        plan["areas"][0]["rule"] = json!("ltr");
    };
    say(with(&ltr), "areas[0]: says where some of its rows are");
}

#[test]
fn places_take_16_bytes_a_straight_row_and_8_a_position_of_a_curve() {
    let bytes = |points: bool, places: bool| {
        let rows = (0..1000).map(|number| {
            let mut row = row(&number.to_string(), number, [0.0, number as f32], [1.0, 0.0], "1-50");
            if points || !places {
                (row["at"], row["step"]) = (Value::Null, Value::Null);
            }
            if points {
                row["points"] = (0..50).map(|seat| json!([seat, number])).collect();
            }
            row
        });
        let mut plan = hall([0.0, 0.0], &rows.collect::<Vec<_>>());
        plan["areas"][0]["rule"] = json!("ltr");
        Show::open(&plan.to_string(), 0).unwrap().venue().allocated()
    };
    let without = bytes(false, false);
    assert_eq!(bytes(false, true) - without, 1000 * 16);
    assert_eq!(bytes(true, false) - without, 1000 * (50 * 8 + 24));
}

/// A hall of random rows: straight in any direction, or curved, with breaks.
fn random_hall(random: &mut Random) -> Value {
    let number = |random: &mut Random| random.below(80) as f32 / 4.0 - 10.0;
    let rows = (0..=random.below(6)).map(|label| {
        let len = 1 + random.below(12);
        let seats: Vec<Value> =
            (0..len)
                .map(|seat| {
                    if seat > 0 && random.chance(10) {
                        Value::Null
                    } else {
                        json!({"label": seat.to_string()})
                    }
                })
                .collect();
        let mut row =
            json!({"label": label.to_string(), "rank": random.below(4), "tier": "t", "seats": seats});
        if random.chance(40) {
            row["points"] = (0..len).map(|_| json!([number(random), number(random)])).collect();
        } else {
            row["at"] = json!([number(random), number(random)]);
            row["step"] = json!([number(random) / 10.0, random.pick(&[0.0, 0.0, 0.25, -0.5])]);
        }
        row
    });
    let rows: Vec<Value> = rows.collect();
    hall([number(random), number(random)], &rows)
}

/// The least distance of the runs of `n` free seats, of those that strand no seat if there are any.
fn least_distance(show: &Show, n: usize) -> Option<u64> {
    let (plan, venue) = (show.plan(), show.venue());
    let focus = plan.focus.unwrap().map(f64::from);
    let mut all: Vec<(bool, u64)> = Vec::new();
    for (row, number) in plan.areas[0].rows.iter().zip(venue.rows_in_plan(0)) {
        let positions = venue.positions_of(number);
        let points = points_of(row, positions.len());
        let is_free = |at: Option<usize>| {
            let seat = at.map(|at| positions.start + at as u32).filter(|seat| positions.contains(seat));
            seat.is_some_and(|seat| venue.is_seat(seat) && show.state(seat) == SeatState::Free)
        };
        for start in 0..(points.len() + 1).saturating_sub(n) {
            if (start..start + n).all(|at| is_free(Some(at))) {
                let strands = is_free(start.checked_sub(1)) && !is_free(start.checked_sub(2))
                    || is_free(Some(start + n)) && !is_free(Some(start + n + 1));
                all.push((strands, distance(&points[start..start + n], focus)));
            }
        }
    }
    all.into_iter().min().map(|(_, distance)| distance)
}

#[test]
fn chosen_run_is_the_nearest_free_one_in_every_state_of_sale() {
    let rounds = if std::env::var_os("ALLOT_SOAK").is_some() { 50_000 } else { 1500 };
    let mut chosen = 0;
    for seed in 0..rounds {
        let mut random = Random::new(seed);
        let mut house = House::new(&random_hall(&mut random));
        for step in 0..8 {
            let count = 1 + random.below(4);
            let expected = least_distance(&house.show, count);
            let together = Wish { adjacent: Adjacent::Require, ..wish("u", count as u32).wish };
            let got = house.hold(Hold { wish: together, ..wish("u", count as u32) });
            let Some(expected) = expected else {
                assert!(!got.starts_with("h-"), "seed {seed}, step {step}: {got}");
                continue;
            };
            let venue = house.show.venue();
            let first = venue.find(got.split(' ').next().unwrap().as_bytes()).unwrap();
            let row = venue.row_of(first);
            let (plan, positions) = (house.show.plan(), venue.positions_of(row));
            let at = (first - positions.start) as usize;
            let place = venue.rows_in_plan(0).position(|other| other == row).unwrap();
            let points = points_of(&plan.areas[0].rows[place], positions.len());
            let focus = plan.focus.unwrap().map(f64::from);
            assert_eq!(distance(&points[at..at + count], focus), expected, "seed {seed}, step {step}: {got}");
            chosen += 1;
        }
    }
    assert!(chosen > 3000, "{chosen} runs were chosen");
}
