//! Memory and work grow with the seats of a show, with any plan.

use super::house::House;
use serde_json::{Value, json};

/// A show whose seats have `tiers` tiers and 60 flags by turns, in rows of 4000.
fn house_of_many_tiers(seats: usize, tiers: usize) -> House {
    let seat = |seat: usize| {
        let (tier, flag) = (format!("tier {}", seat % tiers), format!("flag {}", seat % 60));
        json!({"label": seat.to_string(), "tier": tier, "flags": [flag]})
    };
    let row = |row: usize| {
        let seats: Vec<Value> = (row * 4000..(row + 1) * 4000).map(seat).collect();
        json!({"label": row.to_string(), "rank": row, "seats": seats})
    };
    let rows: Vec<Value> = (0..seats / 4000).map(row).collect();
    House::new(&json!({"areas": [{"id": "a", "rows": rows}], "limits": {"holds_per_user": 0}}))
}

#[test]
fn memory_grows_with_the_seats_and_not_with_seats_times_tiers() {
    for (seats, tiers) in [(16_000, 4000), (64_000, 4000), (64_000, 2000), (64_000, 10)] {
        let house = house_of_many_tiers(seats, tiers);
        let bytes = house.show.allocated() / seats;
        // A tier of an area takes a few hundred bytes, independent of its seats.
        assert!(bytes <= 280, "{bytes} bytes for each of {seats} seats of {tiers} tiers");
        assert_eq!(house.show.check(), Ok(()));
    }
}
