//! How a party splits that cannot sit together: examples. `brute_splits` tries every party on small halls.

use super::house::{House, area, wish};
use allot_core::seat::request::{Hold, Need, Wish};
use serde_json::{Value, json};

/// The seats that a party gets in rows of these ranks; `.` a seat, a space a break.
fn split(rule: &str, rows: &[(&str, i32, &str)], count: u32) -> String {
    House::new(&json!({"areas": [hall("h", rule, rows)]})).hold(wish("u", count))
}

fn hall(id: &str, rule: &str, rows: &[(&str, i32, &str)]) -> Value {
    let seats = |row: &str| {
        let mut label = 0;
        let seats = row.chars().map(|seat| {
            label += i32::from(seat == '.');
            (seat == '.').then(|| json!({"label": label.to_string()}))
        });
        seats.collect::<Vec<_>>()
    };
    let rows = rows.iter().map(
        |&(label, rank, row)| json!({"label": label, "rank": rank, "tier": "gold", "seats": seats(row)}),
    );
    json!({"id": id, "rule": rule, "rows": rows.collect::<Vec<_>>()})
}

#[test]
fn nobody_sits_alone_if_a_pair_can_sit_behind() {
    let rows = [("A", 1, "..."), ("B", 2, "..."), ("Z", 26, "....")];
    assert_eq!(split("ltr", &rows, 5), "h-A-1 h-A-2 h-A-3 h-B-1 h-B-2");
    assert_eq!(split("ltr", &rows, 6), "h-A-1 h-A-2 h-A-3 h-B-1 h-B-2 h-B-3");
}

#[test]
fn one_person_directly_behind_the_others_is_not_alone() {
    let rows = [("A", 1, "...."), ("B", 2, "."), ("Z", 26, "..")];
    assert_eq!(split("ltr", &rows, 5), "h-A-1 h-A-2 h-A-3 h-A-4 h-B-1");
    // Not behind the others, but beside their row.
    let rows = [("A", 1, "...."), ("B", 2, "       ."), ("C", 3, "..")];
    assert_eq!(split("ltr", &rows, 5), "h-A-1 h-A-2 h-A-3 h-C-1 h-C-2");
}

#[test]
fn areas_are_combined_if_that_makes_fewer_groups() {
    let plan = json!({"areas": [area("x", 1, "ltr", &[". . . . . ."]), area("y", 1, "ltr", &["..."]),
        area("z", 1, "ltr", &["..."])]});
    assert_eq!(House::new(&plan).hold(wish("u", 6)), "y-1-1 y-1-2 y-1-3 z-1-1 z-1-2 z-1-3");
}

#[test]
fn area_that_leaves_nobody_alone_comes_before_one_whose_turn_it_is() {
    let area = |id: &str, rows: &[&str]| area(id, 1, "ltr", rows);
    let plan = json!({"areas": [area("x", &["....", ".."]), area("y", &["...", "..."])]});
    assert_eq!(House::new(&plan).hold(wish("u", 6)), "y-1-1 y-1-2 y-1-3 y-2-1 y-2-2 y-2-3");
    let plan = json!({"areas": [area("x", &["....", "."]), area("y", &["...", ".."])]});
    assert_eq!(House::new(&plan).hold(wish("u", 5)), "y-1-1 y-1-2 y-1-3 y-2-1 y-2-2");
}

#[test]
fn halves_of_a_row_lie_side_by_side() {
    // Two rows of rank 1: the left half and the right half.
    let rows = [("A", 1, "... "), ("A.2", 1, " ..."), ("B", 2, "...    "), ("C", 3, "...    ")];
    assert_eq!(split("ltr", &rows, 4), "h-A-1 h-A-2 h-B-1 h-B-2");
    assert_eq!(split("rtl", &rows, 4), "h-A-2 h-A-3 h-B-1 h-B-2");
}

#[test]
fn companion_sits_next_to_the_wheelchair_across_a_gap_or_behind() {
    let wheelchair = |seats: &str| {
        let flags = |label: &str| if label == "3" { vec!["wheelchair"] } else { vec![] };
        let seats = seats.split(',').map(|label| match label {
            "|" => Value::Null,
            label => json!({"label": label, "flags": flags(label)}),
        });
        seats.collect::<Vec<_>>()
    };
    let plan = json!({"areas": [{"id": "h", "rows": [
        {"label": "1", "rank": 1, "tier": "t", "seats": wheelchair("1,2,|,3")},
        {"label": "2", "rank": 2, "tier": "t", "seats": "1-9"}]}]});
    let needs = || vec![Need { count: 1, flag: &b"wheelchair"[..] }];
    let pair = || Hold { wish: Wish { needs: needs(), ..wish("u", 2).wish }, ..wish("u", 2) };
    let mut house = House::new(&plan);
    assert_eq!(house.hold(pair()), "h-1-2 h-1-3");
    let mut house = House::new(&plan);
    house.block(&["h-1-2"]);
    assert_eq!(house.hold(pair()), "h-1-3 h-2-4");
}

#[test]
fn scattered_seats_are_in_few_groups_of_equal_size() {
    let mut show = House::rows("ltr", &[". .. ...", "...."]);
    assert_eq!(show.hold(wish("u", 6)), "a-1-4 a-1-5 a-1-6 a-2-2 a-2-3 a-2-4");
}

#[test]
fn large_party_splits_from_the_front() {
    let mut show = House::rows("ltr", &["....", "......", "......", "......"]);
    assert_eq!(show.hold(wish("u", 14)).matches("a-2-").count(), 6);
}

#[test]
fn bay_that_is_whole_seats_a_wheelchair_with_its_companion() {
    let seat = |(label, flag): (&str, &str)| {
        let flags: Vec<&str> = flag.split_terminator(' ').collect();
        json!({"label": label, "flags": flags})
    };
    let bay = [("W1", "wheelchair"), ("C1", "companion")];
    let other = [("C2", "companion"), ("W2", "wheelchair")];
    let between = ["1", "2", "3", "4", "5", "6"].map(|label| (label, ""));
    let row: Vec<Value> = bay.into_iter().chain(between).chain(other).map(seat).collect();
    let plan = json!({"areas": [{"id": "h", "rows": [{"label": "1", "rank": 1, "tier": "t", "seats": row}]}],
        "limits": {"holds_per_user": 0}});
    let needs = || ["wheelchair", "companion"].map(|flag| Need { count: 1, flag: flag.as_bytes() }).to_vec();
    let party = |count| Hold { wish: Wish { needs: needs(), ..wish("u", count).wish }, ..wish("u", count) };
    let got = |sold: &[&str], count| {
        let mut house = House::new(&plan);
        house.block(sold);
        house.hold(party(count))
    };
    assert_eq!(got(&["h-1-6"], 2), "h-1-W1 h-1-C1");
    assert_eq!(got(&["h-1-C1"], 2), "h-1-C2 h-1-W2");
    assert_eq!(got(&["h-1-C1"], 3), "h-1-6 h-1-C2 h-1-W2");
    // No bay is whole.
    assert_eq!(got(&["h-1-C1", "h-1-W2"], 2), "h-1-W1 h-1-C2");
    assert_eq!(got(&["h-1-C1", "h-1-W2"], 3), "h-1-W1 h-1-1 h-1-C2");
    assert_eq!(got(&["h-1-C1", "h-1-C2"], 2), "none");
}
