//! `make bench`: live servers, every figure beside its baseline. Each is the median of several runs of 50
//! connections with 16 requests in flight, and each run stands between two of PING in the same minute: what is
//! said are ratios, since the machine is never twice the same.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a bench reports what is wrong by stopping"
)]

mod load;
mod shows;

use allot_tests::RedisServer;
use load::{CONNECTIONS, PIPELINE, Rate, encode};

/// A measurement: what is asked, of which server, and how often.
struct Case<'a> {
    name: String,
    server: &'a RedisServer,
    requests: usize,
    batches: Box<dyn Fn(usize) -> Vec<Vec<u8>> + 'a>,
}

/// Runs of each measurement; `ALLOT_BENCH_RUNS` for a quick look.
fn runs() -> usize {
    std::env::var("ALLOT_BENCH_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(7)
}

fn ping(server: &RedisServer) -> Rate {
    let batch = encode(&["PING"]).repeat(PIPELINE);
    load::run(server, 400_000, |_| vec![batch.clone()])
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Measures a case against PING and prints its line.
fn measure(case: &Case<'_>) {
    let (mut ratios, mut cpu_ratios, mut rates, mut cpus) = (vec![], vec![], vec![], vec![]);
    for _ in 0..runs() {
        let before = ping(case.server);
        let rate = load::run(case.server, case.requests, &case.batches);
        let after = ping(case.server);
        assert_eq!(rate.errors, 0, "{}: error replies", case.name);
        assert_eq!(rate.nothing, 0, "{}: replies of nothing", case.name);
        ratios.push(rate.per_second * 2.0 / (before.per_second + after.per_second));
        cpu_ratios.push((before.cpu_us + after.cpu_us) / 2.0 / rate.cpu_us);
        rates.push(rate.per_second);
        cpus.push(rate.cpu_us);
    }
    println!(
        "| {} | {:.2} | {:.2} | {:.0} | {:.2} |",
        case.name,
        median(ratios),
        median(cpu_ratios),
        median(rates),
        median(cpus)
    );
}

/// Batches that hold two seats and give them back, by turns.
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

fn main() {
    println!("{CONNECTIONS} connections, {PIPELINE} in flight, median of {} runs\n", runs());
    println!("| request | x PING | x PING (server CPU) | a second | server CPU us |");
    println!("|---|---|---|---|---|");
    let server = RedisServer::start();
    for seats in [1000, 100_000, 1_000_000] {
        let key = format!("show:{seats}");
        let plan = shows::plan(seats);
        let mut connection = server.connection();
        let () =
            redis::cmd("SEAT.CREATE").arg(&key).arg(plan.to_string()).query(&mut connection).expect("a plan");
        let memory: usize =
            redis::cmd("MEMORY").arg("USAGE").arg(&key).query(&mut connection).expect("MEMORY USAGE");
        eprintln!("{seats} seats: {:.2} bytes a seat", memory as f64 / seats as f64);
        shows::sell_most(&server, &key, &plan);
        measure(&Case {
            name: format!("HOLD + RELEASE, {seats} seats"),
            server: &server,
            requests: 400_000,
            batches: Box::new(move |connection| hold_and_release(connection, &key)),
        });
    }
}
