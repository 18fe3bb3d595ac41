//! The coordination layer of `allotd`: one suite that runs on ZooKeeper and in one process, and faults of real
//! ZooKeeper servers.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test reports what is wrong by failing"
)]

mod faults;
mod party;
mod suite;
