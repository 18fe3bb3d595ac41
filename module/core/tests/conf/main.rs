//! The conference family: its table of transitions cell by cell, the specification's list, every reachable state of
//! a small realm, and random runs on big ones.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails where it finds something wrong"
)]

/// The search for all reachable states mostly copies realms.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod admission;
mod check;
mod draining;
mod ended_by_people;
mod exploration;
#[path = "../common/explore.rs"]
mod explore;
mod failovers;
#[path = "../common/hex.rs"]
mod hex;
mod load;
mod losses;
mod lost_data;
mod machines;
mod model;
mod placing;
mod ramp;
mod random;
mod rebalance;
mod records;
mod recovering;
mod reserved;
mod rig;
mod scheduled;
mod sentences;
mod shown;
mod snapshot;
mod spec;
mod table;
mod tries;
mod updates;
mod waiting;
mod wishes;
