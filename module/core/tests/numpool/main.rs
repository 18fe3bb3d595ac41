//! The number pools against a naive model, cell by cell, and sentence by sentence against docs/numbers.md.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails where it finds something wrong"
)]

mod admission;
mod caps;
mod causes;
mod cells;
mod exploration;
#[path = "../common/explore.rs"]
mod explore;
mod heartbeats;
#[path = "../common/hex.rs"]
mod hex;
mod model;
mod naive;
mod peers;
mod rate;
mod reconcile;
mod snapshot;
mod sorting;
mod spec;
mod suspensions;
mod waiting;
