//! Simulation of the whole system: the real roles on a simulated Redis and a simulated ZooKeeper, in one process, on one
//! thread, with a clock that advances only when all tasks are idle, and random numbers from a seed. A seed makes the same
//! run on any machine.
//!
//! `redis` is the server, with a replica that lags; `link` and `network` are what is between a program and the servers; `process`
//! runs a role as a process of its own would; `account_client` is an instance that uses accounts; `tables` has what
//! compaction nodes compact; `world` has all of them, and checks what must always hold; `scenarios` has faults in a
//! given order, `data_loss` has a Redis that comes back older or empty, `two_copies` has units that are cut off, and
//! `faults` has random ones.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by them"
)]
#![warn(clippy::disallowed_types)]

mod account_client;
mod accounts;
mod clock;
mod data_loss;
mod faults;
mod invariants;
mod link;
mod network;
mod process;
mod redis;
mod scenarios;
mod tables;
mod two_copies;
mod world;

use std::time::Duration;

use allot_coordination::random;

/// Simulations allocate all the time: the system's allocator would take a fifth of their time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The key of the realm.
const REALM: &str = "{allot}:conf";

/// The session timeout of ZooKeeper.
const SESSION: Duration = Duration::from_secs(4);

/// The key of the book.
const BOOK: &str = "{allot}:accounts";

/// Whether tests may take long.
fn is_soak() -> bool {
    std::env::var_os("ALLOT_SOAK").is_some()
}

/// Runs a simulation to its end, with random choices from this seed.
fn run_paused<T>(seed: u64, simulation: impl Future<Output = T>) -> T {
    random::seed(Some(seed));
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true);
    clock::follow_tasks(&mut builder);
    #[cfg(tokio_unstable)]
    {
        builder.rng_seed(tokio::runtime::RngSeed::from_bytes(&seed.to_be_bytes()));
        // A panic of any task fails the run.
        builder.unhandled_panic(tokio::runtime::UnhandledPanic::ShutdownRuntime);
    }
    let done = builder.build().unwrap().block_on(simulation);
    random::seed(None);
    allot_runtime::time::simulate(None);
    done
}
