//! Seats: holds in shows of three sizes, the Functions library on the same shows, and `SEAT.ZMPOP` beside
//! `ZMPOP`.

use allot_tests::RedisServer;
use serde_json::Value;

use crate::bench::{Bench, Case};
use crate::load::{CONNECTIONS, PIPELINE, encode};
use crate::shows;

/// Measures the family.
pub(crate) fn measure(bench: &Bench, server: &RedisServer) {
    let ping = Case::repeated("PING", 400_000, &["PING"]);
    let hset = Case::repeated("HSET of 3 fields", 400_000, &["HSET", "hash", "a", "1", "b", "2", "c", "3"]);
    bench.measure(server, &hset, &ping);
    // A reply nearly as long as a hold's: fourteen parts, where a hold has seventeen.
    let mut hgetall = Case::repeated("HGETALL of 7 fields", 400_000, &["HGETALL", "record"]);
    hgetall.prepare = Box::new(|| {
        let fields: Vec<(&str, i32)> = ["a", "b", "c", "d", "e", "f", "g"].map(|field| (field, 1)).to_vec();
        let () = redis::cmd("HSET").arg("record").arg(fields).query(&mut server.connection()).expect("HSET");
    });
    bench.measure(server, &hgetall, &ping);
    for seats in [1000, 100_000, 1_000_000] {
        let names = [format!("HOLD + RELEASE, {seats} seats"), format!("Functions library, {seats} seats")];
        if !names.iter().any(|name| bench.wants(name)) {
            continue;
        }
        let key = format!("show:{seats}");
        let plan = shows::plan(seats);
        open(server, &key, &plan);
        shows::sell_most(server, &key, &plan);
        let hold = Case::new(&names[0], 400_000, |connection| hold_and_release(connection, &key));
        bench.measure(server, &hold, &ping);
        let buckets = shows::sorted_sets(server, &key, &plan);
        let function = Case::new(&names[1], 800, |_| pop_and_put_back(&buckets));
        bench.measure(server, &function, &ping);
        let () = redis::cmd("FLUSHALL").query(&mut server.connection()).expect("FLUSHALL");
    }
    for (count, size) in [("1", 1), ("2", 2)] {
        let pops = 200_000;
        let prepare = || shows::sorted_set(server, "zset", pops * size);
        let case = |name: &str, command: &'static str| {
            let batch = encode(&[command, "1", "zset", "MIN", "COUNT", count]).repeat(PIPELINE);
            let mut case = Case::new(&format!("{name} COUNT {count}"), pops, move |_| vec![batch.clone()]);
            case.prepare = Box::new(prepare);
            case
        };
        bench.measure(server, &case("SEAT.ZMPOP", "SEAT.ZMPOP"), &case("ZMPOP", "ZMPOP"));
    }
}

/// Creates a show and prints its memory.
fn open(server: &RedisServer, key: &str, plan: &Value) {
    let mut connection = server.connection();
    let () = redis::cmd("SEAT.CREATE").arg(key).arg(plan.to_string()).query(&mut connection).expect("a plan");
    let memory: usize =
        redis::cmd("MEMORY").arg("USAGE").arg(key).query(&mut connection).expect("MEMORY USAGE");
    let stat: Vec<Vec<redis::Value>> =
        redis::cmd("SEAT.STAT").arg(key).query(&mut connection).expect("SEAT.STAT");
    let seats: usize =
        stat.iter().map(|bucket| redis::from_redis_value::<usize>(bucket[7].clone()).unwrap()).sum();
    println!(
        "| memory of a show of {seats} seats | | {:.2} bytes a seat | | |",
        memory as f64 / seats as f64
    );
}

/// Holds two seats and releases them, by turns, so that the show stays the same.
fn hold_and_release(connection: usize, key: &str) -> Vec<Vec<u8>> {
    let mut batch = Vec::new();
    for number in 0..PIPELINE / 2 {
        let (user, token) = (format!("u{connection}"), format!("t{connection}-{number}"));
        batch.extend(encode(&[
            "SEAT.HOLD",
            key,
            &user,
            "2",
            "TTL",
            "60000",
            "TIER",
            "gold",
            "TOKEN",
            &token,
        ]));
        batch.extend(encode(&["SEAT.RELEASE", key, &token]));
    }
    vec![batch]
}

/// The same by a script on sorted sets: pops the best two neighbours. These are always the same seats, since the script
/// puts them back at once.
fn pop_and_put_back(buckets: &shows::SortedSets) -> Vec<Vec<u8>> {
    let count = buckets.keys.len().to_string();
    let mut pop = vec!["FCALL", "seat_zmpop", &count];
    pop.extend(buckets.keys.iter().map(String::as_str));
    pop.extend(["MIN", "COUNT", "2", "ADJACENT"]);
    let mut put = vec!["ZADD", &buckets.best_key];
    put.extend(buckets.best_pair.iter().flat_map(|(score, member)| [score.as_str(), member.as_str()]));
    let pair = [encode(&pop), encode(&put)].concat();
    vec![pair.repeat(PIPELINE / 2)]
}

const _: () = assert!(CONNECTIONS > 0 && PIPELINE.is_multiple_of(2));
