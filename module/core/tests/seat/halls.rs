//! Halls of real shape, the plans of `examples/`: stands around a pitch, a concert hall that is listed from the back, and
//! round tables. Who buys first sits where people would say that the best seats are.

use super::house::{House, wish};
use allot_core::seat::request::{Hold, Wish};

const BALL_PARK: &str = include_str!("../../../../examples/ball-park.plan.json");
const CONCERT_HALL: &str = include_str!("../../../../examples/concert-hall.plan.json");
const GALA: &str = include_str!("../../../../examples/gala.plan.json");

fn house(plan: &str) -> House {
    House::new(&serde_json::from_str(plan).unwrap())
}

/// The seats of a party in an empty hall.
fn first(plan: &str, count: u32) -> String {
    house(plan).hold(wish("u", count))
}

/// The same, of one tier.
fn of_tier<'a>(user: &'a str, count: u32, tier: &'static str) -> Hold<'a> {
    Hold { wish: Wish { tier: Some(tier.as_bytes()), ..wish(user, count).wish }, ..wish(user, count) }
}

/// The seats from one number to another of each row.
fn rows(rows: &[(&str, u32, u32)]) -> String {
    let seats = rows.iter().flat_map(|&(row, from, to)| (from..=to).map(move |seat| format!("{row}-{seat}")));
    seats.collect::<Vec<_>>().join(" ")
}

#[test]
fn first_buyers_of_a_ball_park_sit_in_front_of_the_middle_of_the_pitch() {
    assert_eq!(first(BALL_PARK, 2), rows(&[("north-1", 40, 41)]));
    assert_eq!(first(BALL_PARK, 4), rows(&[("north-1", 39, 42)]));
    assert_eq!(first(BALL_PARK, 9), rows(&[("north-1", 36, 44)]));
    // The stands on both long sides take turns; those behind the goals have another price.
    let mut house = house(BALL_PARK);
    for (user, tier, expected) in [
        ("a", "side", ("north-1", 40, 41)),
        ("b", "side", ("south-1", 40, 41)),
        ("c", "end", ("east-1", 24, 25)),
        ("d", "end", ("west-1", 24, 25)),
        ("e", "side", ("north-1", 38, 39)),
    ] {
        assert_eq!(house.hold(of_tier(user, 2, tier)), rows(&[expected]), "{user}");
    }
}

#[test]
fn nine_who_fit_in_no_block_of_a_ball_park_sit_five_and_four_behind_each_other() {
    let mut house = house(BALL_PARK);
    // No block has more than eight seats side by side.
    let stands = [("north", 5), ("south", 5), ("east", 3), ("west", 3)];
    let sold = stands.iter().flat_map(|&(stand, blocks)| {
        let seats = (0..blocks).flat_map(|block| (1..=12).map(move |row| (row, 16 * block + 9)));
        seats.map(move |(row, seat)| format!("{stand}-{row}-{seat}"))
    });
    let sold: Vec<String> = sold.collect();
    house.block(&sold.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(house.hold(wish("u", 9)), rows(&[("north-1", 36, 40), ("north-2", 37, 40)]));
}

#[test]
fn hall_that_is_listed_from_the_back_is_sold_from_the_stage() {
    assert_eq!(first(CONCERT_HALL, 2), rows(&[("hall-A", 8, 9)]));
    assert_eq!(first(CONCERT_HALL, 4), rows(&[("hall-A", 6, 9)]));
    assert_eq!(first(CONCERT_HALL, 9), rows(&[("hall-A", 1, 9)]));
    let mut house = house(CONCERT_HALL);
    assert_eq!(house.hold(of_tier("a", 2, "second")), rows(&[("hall-J", 8, 9)]));
    assert_eq!(house.hold(wish("b", 2)), rows(&[("hall-A", 8, 9)]));
    assert_eq!(house.hold(wish("c", 9)), rows(&[("hall-A", 10, 18)]));
    // Half of a row has nine seats, so ten sit in two rows, as near as possible.
    assert_eq!(house.hold(wish("d", 10)), rows(&[("hall-A", 3, 7), ("hall-B", 3, 7)]));
}

#[test]
fn guests_of_a_gala_sit_side_by_side_at_one_table() {
    assert_eq!(first(GALA, 2), rows(&[("gala-T3", 1, 2)]));
    assert_eq!(first(GALA, 4), rows(&[("gala-T3", 1, 4)]));
    assert_eq!(first(GALA, 8), rows(&[("gala-T3", 1, 8)]));
    // Two parties of three leave a pair at the table, and the next party of three has the next table.
    let mut house = house(GALA);
    let tables: Vec<String> = (0..20).map(|number| house.hold(wish(&format!("u{number}"), 3))).collect();
    for seats in &tables {
        let of_table: Vec<&str> = seats.split(' ').map(|seat| seat.rsplit_once('-').unwrap().0).collect();
        assert!(of_table.iter().all(|table| *table == of_table[0]), "{seats}");
    }
    assert_eq!(tables[0], rows(&[("gala-T3", 1, 3)]));
}

#[test]
fn nine_guests_of_a_gala_sit_five_and_four_at_two_tables_next_to_each_other() {
    let seats = first(GALA, 9);
    let tables: Vec<&str> = seats.split(' ').map(|seat| seat.split('-').nth(1).unwrap()).collect();
    let (one, other) = (tables[0], tables[8]);
    let mut sizes = [one, other].map(|table| tables.iter().filter(|of| **of == table).count());
    sizes.sort_unstable();
    assert_eq!(sizes, [4, 5], "{seats}");
    // Five tables are in a row.
    let number = |table: &str| table[1..].parse::<usize>().unwrap() - 1;
    let (one, other) = (number(one), number(other));
    let apart = (one % 5).abs_diff(other % 5) + (one / 5).abs_diff(other / 5);
    assert_eq!(apart, 1, "{seats}");
}
