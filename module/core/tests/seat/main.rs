//! The seat family against a naive model, and sentence by sentence against docs/seats.md.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails where it finds something wrong"
)]

mod admission;
mod alterations;
mod altering;
mod best_seating;
mod blocks;
mod brute_splits;
mod cart;
mod exchange;
mod exploration;
#[path = "../common/explore.rs"]
mod explore;
mod focus;
mod halls;
#[path = "../common/hex.rs"]
mod hex;
mod holds;
mod hostile;
mod house;
mod listing;
mod model;
mod naive;
mod naive_search;
mod naive_writes;
mod own_ids;
mod party;
mod plans;
mod resale;
mod rig;
mod several;
mod several_model;
mod size;
mod snapshots;
mod splitting;
mod standing;
mod steps;
mod waiting;
