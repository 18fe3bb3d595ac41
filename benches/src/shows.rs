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

/// Sells 95 % of a show's seats. Scattered single seats remain, and one pair in the last row of each area, as after a
/// rush of buyers who all wanted two seats.
pub(crate) fn sell_most(server: &RedisServer, key: &str, plan: &Value) {
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
        let rows = area["rows"].as_array().map_or(&[][..], Vec::as_slice);
        let last = rows.last().map_or(&Value::Null, |row| &row["label"]);
        for row in rows {
            let mut alone = true;
            for seat in 1..=SEATS_A_ROW {
                let pair = row["label"] == *last && (10..12).contains(&seat);
                if pair || alone && below(19) == 0 {
                    alone = false;
                    continue;
                }
                alone = row["label"] != *last || !(8..12).contains(&seat);
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

/// The free gold seats of a show as existing systems keep them: one sorted set for each area.
pub(crate) struct SortedSets {
    /// One key for each area, the best area first.
    pub(crate) keys: Vec<String>,
    /// The key with the best two neighbours.
    pub(crate) best_key: String,
    /// Score and member of the two neighbours.
    pub(crate) best_pair: Vec<(String, String)>,
}

/// Builds the sorted sets of a show's free gold seats, and loads the Functions library.
pub(crate) fn sorted_sets(server: &RedisServer, key: &str, plan: &Value) -> SortedSets {
    let mut connection = server.connection();
    let library =
        std::fs::read_to_string(allot_tests::module::repository().join("lua/allot.lua")).expect("lua/");
    let _: String = redis::cmd("FUNCTION")
        .arg("LOAD")
        .arg("REPLACE")
        .arg(library)
        .query(&mut connection)
        .expect("FUNCTION LOAD");
    let mut keys = Vec::new();
    for area in plan["areas"].as_array().into_iter().flatten() {
        let area_id = area["id"].as_str().unwrap_or("");
        let map: Vec<(String, String)> =
            redis::cmd("SEAT.MAP").arg(key).arg(area_id).query(&mut connection).expect("SEAT.MAP");
        if area["rows"][0]["tier"] != "gold" {
            continue;
        }
        let zset = format!("{{{key}}}:gold_{area_id}");
        for (y, (row, seats)) in map.iter().enumerate() {
            let mut add = redis::cmd("ZADD");
            add.arg(&zset);
            let free = seats.bytes().enumerate().filter(|&(_, seat)| seat == b'.').map(|(x, _)| x + 1);
            let free: Vec<usize> = free.collect();
            for x in &free {
                add.arg((y + 1) * 100_000 + x).arg(format!("{area_id}-{row}-{x}"));
            }
            if !free.is_empty() {
                let () = add.query(&mut connection).expect("ZADD");
            }
        }
        keys.push(zset);
    }
    let mut pop = redis::cmd("FCALL");
    pop.arg("seat_zmpop").arg(keys.len()).arg(&keys).arg(&["MIN", "COUNT", "2", "ADJACENT"]);
    let (best_key, pair): (String, Vec<(String, String)>) =
        pop.query(&mut connection).expect("two neighbours");
    let best_pair: Vec<_> = pair.into_iter().map(|(member, score)| (score, member)).collect();
    let () = redis::cmd("ZADD").arg(&best_key).arg(&best_pair).query(&mut connection).expect("ZADD");
    SortedSets { keys, best_key, best_pair }
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
