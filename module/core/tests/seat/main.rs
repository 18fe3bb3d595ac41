//! The seat family against a naive model, and sentence by sentence against docs/seats.md.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails where it finds something wrong"
)]

mod admission;
mod model;
mod naive;
mod own_ids;
mod overdue;
mod size;
mod spec;
