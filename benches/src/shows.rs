//! Shows for measurements: regular plans of any size, empty or 95 % sold and fragmented.

use allot_tests::RedisServer;
use serde_json::{Value, json};

const SEATS_A_ROW: usize = 50;

/// A regular plan: areas of up to 500 rows of 50 seats, center rule, tier `gold` in the first half of the areas
/// and `silver` in the others.
pub(crate) fn plan(seats: usize) -> Value {
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

/// A row after a rush of buyers who all wanted two seats.
struct LeftOver {
    area: String,
    label: String,
    /// The seats that are free.
    free: [bool; SEATS_A_ROW],
}

/// The rows of a plan of which 95 % are sold. Scattered single seats remain, and one pair in the last row of each area.
fn left_over(plan: &Value) -> Vec<LeftOver> {
    let mut random = 88_172_645_463_325_252_u64;
    let mut below = |n: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % n
    };
    let mut left = Vec::new();
    for area in plan["areas"].as_array().into_iter().flatten() {
        let rows = area["rows"].as_array().map_or(&[][..], Vec::as_slice);
        let last = rows.last().map_or(&Value::Null, |row| &row["label"]);
        for row in rows {
            let mut free = [false; SEATS_A_ROW];
            let mut alone = true;
            for (at, free) in free.iter_mut().enumerate() {
                let seat = at + 1;
                let pair = row["label"] == *last && (10..12).contains(&seat);
                *free = pair || alone && below(19) == 0;
                alone = !*free && (row["label"] != *last || !(8..12).contains(&seat));
            }
            let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
            left.push(LeftOver { area: text(&area["id"]), label: text(&row["label"]), free });
        }
    }
    left
}

/// Sells 95 % of a show's seats.
pub(crate) fn sell_most(server: &RedisServer, key: &str, plan: &Value) {
    let mut connection = server.connection();
    let taken: Vec<String> = left_over(plan)
        .iter()
        .flat_map(|row| {
            let taken = (0..SEATS_A_ROW).filter(|&at| !row.free[at]);
            taken.map(|at| format!("{}-{}-{}", row.area, row.label, at + 1)).collect::<Vec<_>>()
        })
        .collect();
    let mut number = 0;
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

/// Loads the Functions library, and creates a show of it from a plan.
pub(crate) fn library_show(server: &RedisServer, key: &str, plan: &Value) {
    let mut connection = server.connection();
    let library =
        std::fs::read_to_string(allot_tests::module::repository().join("lua/allot.lua")).expect("lua/");
    let _: String = redis::cmd("FUNCTION")
        .arg("LOAD")
        .arg("REPLACE")
        .arg(library)
        .query(&mut connection)
        .expect("FUNCTION LOAD");
    let mut create = redis::cmd("FCALL");
    create.arg("seat_create").arg(1).arg(key).arg(plan.to_string());
    let () = create.query(&mut connection).expect("a plan");
}

/// The plan in which the seats that [`sell_most`] sells are breaks, since the library cannot pick single seats. To a hold
/// a break and a sold seat are the same.
pub(crate) fn without_sold(plan: &Value) -> Value {
    let mut plan = plan.clone();
    let mut rest = left_over(&plan).into_iter();
    for area in plan["areas"].as_array_mut().into_iter().flatten() {
        for (row, left) in area["rows"].as_array_mut().into_iter().flatten().zip(&mut rest) {
            let position = |at: usize| if left.free[at] { (at + 1).to_string() } else { "|".to_owned() };
            row["seats"] = json!((0..SEATS_A_ROW).map(position).collect::<Vec<_>>().join(","));
        }
    }
    plan
}

/// A sorted set of this many members.
pub(crate) fn sorted_set(server: &RedisServer, key: &str, members: usize) {
    let mut connection = server.connection();
    let () = redis::cmd("DEL").arg(key).query(&mut connection).expect("DEL");
    let scored: Vec<(usize, String)> =
        (0..members).map(|number| (number, format!("seat-{number}"))).collect();
    for chunk in scored.chunks(10_000) {
        let () = redis::cmd("ZADD").arg(key).arg(chunk).query(&mut connection).expect("ZADD");
    }
}
