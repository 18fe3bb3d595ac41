//! `make bench`: measures requests to live servers, each beside its baseline. A figure is the median of several runs of
//! 50 connections with 16 requests in flight, or with one where the name says so. Each run is between two runs of its
//! baseline in the same minute. Compare the ratios, since the speed of a machine changes between runs.
//!
//! `allot-bench [TEXT]` measures only the cases with this text in their names; `ALLOT_BENCH_RUNS=1` is a quick run.
//! `allot-bench --compare OLD NEW` compares two builds of the module.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a bench reports an error by stopping"
)]

mod accounts;
mod bench;
mod compare;
mod conferences;
mod load;
mod numpool;
mod seats;
mod shows;

use allot_tests::RedisServer;
use bench::Bench;
use load::{CONNECTIONS, PIPELINE};

fn main() {
    let runs = std::env::var("ALLOT_BENCH_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(7);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [option, old, new] = &arguments[..]
        && option == "--compare"
    {
        return compare::measure(old, new, runs);
    }
    let bench = Bench::new(runs, arguments.into_iter().next());
    println!(
        "{CONNECTIONS} connections, {PIPELINE} requests in flight on each where no other number is given, median of \
         {runs} runs\n"
    );
    println!(
        "| request | server CPU, us a request | throughput | the same by server CPU | requests a second |"
    );
    println!("|---|---|---|---|---|");
    let server = RedisServer::start();
    seats::measure(&bench, &server);
    numpool::measure(&bench, &server);
    conferences::measure(&bench, &server);
    accounts::measure(&bench, &server);
}
