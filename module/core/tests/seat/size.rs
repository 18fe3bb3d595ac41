//! Memory and work grow with the seats of a show, with any plan.

use super::house::{House, wish};
use allot_core::seat::request::{Adjacent, Hold, Request, Wait, Wish};
use allot_core::shared::token::TokenChoice;
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

#[test]
fn own_id_and_waiter_take_few_bytes() {
    const SEATS: usize = 10_000;
    let plan = |own_ids: bool| {
        let seat = |number: usize| {
            let mut seat = json!({"label": (number % 100).to_string()});
            if own_ids {
                seat["id"] = json!((900_000 + number).to_string());
            }
            seat
        };
        let row = |row: usize| {
            let seats: Vec<Value> = (row * 100..(row + 1) * 100).map(seat).collect();
            json!({"label": row.to_string(), "rank": row, "tier": "gold", "seats": seats})
        };
        let rows: Vec<Value> = (0..SEATS / 100).map(row).collect();
        House::new(&json!({"areas": [{"id": "a", "rows": rows}]}))
    };
    let mut house = plan(false);
    let bytes = (plan(true).show.allocated() - house.show.allocated()) / SEATS;
    assert!(bytes <= 34, "{bytes} bytes for each own id of 6 digits");
    let seats: Vec<String> = (0..SEATS).map(|seat| format!("a-{}-{}", seat / 100, seat % 100)).collect();
    house.block(&seats.iter().map(String::as_str).collect::<Vec<_>>());
    for number in 0..SEATS {
        let user = format!("user{number}");
        let token = TokenChoice { token: user.as_bytes(), chosen: true };
        let count = 1 + (number % 50) as u32;
        let hold = Hold {
            token,
            wish: Wish { adjacent: Adjacent::Require, ..wish(&user, count).wish },
            ..wish(&user, count)
        };
        house.ask(&Request::Wait(Wait { hold, offer: 100, priority: 0 })).unwrap();
    }
    assert_eq!((house.show.waiters().len(), house.show.waiters().queues()), (SEATS, 50));
    let bytes = house.show.waiters().allocated() / SEATS;
    assert!(bytes <= 400, "{bytes} bytes for each waiter");
}

#[test]
fn hold_and_sale_take_few_bytes() {
    const SEATS: usize = 10_000;
    let row = |row: usize| json!({"label": row.to_string(), "rank": row, "tier": "gold", "seats": "1-100"});
    let rows: Vec<Value> = (0..SEATS / 100).map(row).collect();
    let mut house =
        House::new(&json!({"areas": [{"id": "a", "rows": rows}], "limits": {"holds_per_user": 0}}));
    let empty = house.show.allocated();
    let tokens: Vec<String> = (0..SEATS).map(|seat| format!("token-{seat:010}")).collect();
    for (seat, name) in tokens.iter().enumerate() {
        let token = TokenChoice { token: name.as_bytes(), chosen: true };
        house.ask(&Request::Hold(Hold { token, ..wish(&format!("user-{seat}"), 1) })).unwrap();
    }
    let bytes = (house.show.allocated() - empty) / SEATS;
    assert!(bytes <= 200, "{bytes} bytes for each hold");
    for token in &tokens {
        let (token, order) = (token.as_bytes(), Some(&token.as_bytes()[6..]));
        house.ask(&Request::Confirm { token, user: None, order }).unwrap();
    }
    let bytes = (house.show.allocated() - empty) / SEATS;
    assert!(bytes <= 250, "{bytes} bytes for each sale");
}
