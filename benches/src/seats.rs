//! Seats: holds in shows of three sizes, holds of the Functions library in the same shows, and `SEAT.ZMPOP` beside
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
        let (key, plan) = (format!("show:{seats}"), shows::plan(seats));
        open(server, &key, &plan);
        shows::sell_most(server, &key, &plan);
        let library_key = format!("library:{seats}");
        shows::library_show(server, &library_key, &shows::without_sold(&plan));
        same_seats(server, &key, &library_key);
        measure_pairs(bench, server, &ping, &names, [&key, &library_key], PIPELINE);
    }
    // With one request in flight the holds of all connections are alive together, so this show is empty.
    let depths = [1, PIPELINE].map(|depth| {
        let of = |what: &str| format!("{what}, empty hall, {depth} in flight");
        (depth, [of("HOLD + RELEASE"), of("Functions library")])
    });
    if depths.iter().flat_map(|(_, names)| names).any(|name| bench.wants(name)) {
        let plan = shows::plan(60_000);
        let () = redis::cmd("SEAT.CREATE")
            .arg("show:empty")
            .arg(plan.to_string())
            .query(&mut server.connection())
            .expect("a plan");
        shows::library_show(server, "library:empty", &plan);
        for (depth, names) in &depths {
            measure_pairs(bench, server, &ping, names, ["show:empty", "library:empty"], *depth);
        }
    }
    let () = redis::cmd("FLUSHALL").query(&mut server.connection()).expect("FLUSHALL");
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

/// Panics unless a hold of the library takes the seats that a hold of the module takes.
fn same_seats(server: &RedisServer, key: &str, library_key: &str) {
    let [module, library] = [false, true].map(|library| {
        let key = if library { library_key } else { key };
        let [hold, release] = pair("same", "same", key, library);
        let mut client = server.raw();
        let seats = client.call(&hold).field("seats");
        client.call(&release);
        seats
    });
    assert_eq!(module, library, "the library does not choose as the module does");
}

/// Measures holds and releases of a show of the module, and of one of the library.
fn measure_pairs(
    bench: &Bench,
    server: &RedisServer,
    ping: &Case<'_>,
    names: &[String; 2],
    keys: [&str; 2],
    depth: usize,
) {
    for ((name, key), library) in names.iter().zip(keys).zip([false, true]) {
        let requests = if depth == 1 { 50_000 } else { 200_000 };
        let mut case =
            Case::new(name, requests, move |connection| hold_and_release(connection, key, library, depth));
        case.depth = depth;
        bench.measure(server, &case, ping);
    }
}

/// Holds two seats and releases them, by turns, so that the show stays the same.
fn hold_and_release(connection: usize, key: &str, library: bool, depth: usize) -> Vec<Vec<u8>> {
    let requests_of = |number: usize| {
        let (user, token) = (format!("u{connection}"), format!("t{connection}-{number}"));
        pair(&user, &token, key, library).map(|request| {
            let words: Vec<&str> = request.iter().map(String::as_str).collect();
            encode(&words)
        })
    };
    let requests: Vec<Vec<u8>> = (0..PIPELINE / 2).flat_map(requests_of).collect();
    requests.chunks(depth).map(<[_]>::concat).collect()
}

/// A hold of two seats, and its release.
fn pair(user: &str, token: &str, key: &str, library: bool) -> [Vec<String>; 2] {
    let rest = [user, "2", "TTL", "60000", "TIER", "gold", "TOKEN", token];
    let (hold, release): (&[&str], &[&str]) = if library {
        (&["FCALL", "seat_hold", "1"], &["FCALL", "seat_release", "1"])
    } else {
        (&["SEAT.HOLD"], &["SEAT.RELEASE"])
    };
    let owned = |words: Vec<&str>| words.into_iter().map(str::to_owned).collect();
    [owned([hold, &[key], &rest].concat()), owned([release, &[key, token]].concat())]
}

const _: () = assert!(CONNECTIONS > 0 && PIPELINE.is_multiple_of(2));
