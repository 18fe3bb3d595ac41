//! Shows to measure on: regular plans of any size, and the same 95 % sold and fragmented.

use allot_tests::RedisServer;
use serde_json::{Value, json};

const SEATS_A_ROW: usize = 50;

/// A regular plan: areas of up to 500 rows of 50 seats, center rule, tier `gold` in the first half of the areas
/// and `silver` in the others.
pub fn plan(seats: usize) -> Value {
    let rows = seats / SEATS_A_ROW;
    let areas = (rows.div_ceil(500)).max(2);
    let areas: Vec<Value> = (0..areas)
        .map(|area| {
            let here = rows / areas + usize::from(area < rows % areas);
            let tier = if area < areas / 2 { "gold" } else { "silver" };
            let rows: Vec<Value> = (1..=here)
                .map(|row| json!({"label": row.to_string(), "rank": row, "tier": tier, "seats": "1-50"}))
                .collect();
            json!({"id": format!("a{area}"), "priority": area + 1, "rule": "center", "rows": rows})
        })
        .collect();
    json!({"areas": areas, "limits": {"holds_per_user": 0}})
}

/// Sells 95 % of a show's seats, so that what is left are groups of 1 to 4 here and there.
pub fn sell_most(server: &RedisServer, key: &str, plan: &Value) {
    let mut connection = server.connection();
    let mut random = 88_172_645_463_325_252_u64;
    let mut below = |n: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % n
    };
    let mut taken: Vec<String> = Vec::new();
    let mut number = 0;
    for area in plan["areas"].as_array().into_iter().flatten() {
        for row in area["rows"].as_array().into_iter().flatten() {
            let mut kept = 0;
            for seat in 1..=SEATS_A_ROW {
                if kept == 0 && below(50) == 0 {
                    kept = 1 + below(4);
                }
                if kept > 0 {
                    kept -= 1;
                    continue;
                }
                taken.push(format!(
                    "{}-{}-{seat}",
                    area["id"].as_str().unwrap_or(""),
                    row["label"].as_str().unwrap_or("")
                ));
            }
        }
    }
    for chunk in taken.chunks(2000) {
        let mut pipeline = redis::pipe();
        for pair in chunk.chunks(2) {
            let token = format!("sold{number}");
            number += 1;
            pipeline.cmd("SEAT.PICK").arg(key).arg("house").arg("TTL").arg(600_000).arg("TOKEN").arg(&token);
            pipeline.arg("SEATS").arg(pair.len()).arg(pair).ignore();
            pipeline.cmd("SEAT.CONFIRM").arg(key).arg(&token).ignore();
        }
        pipeline.query::<()>(&mut connection).expect("the seats are free");
    }
}
