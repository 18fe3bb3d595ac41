//! Accounts: the specification sentence by sentence, random runs against a witness of their own, and how even assignments are.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test reports what is wrong by failing"
)]

mod admission;
mod budgets;
mod forecasts;
mod frozen;
#[path = "../common/hex.rs"]
mod hex;
mod ledger;
mod minimum;
mod places;
mod properties;
mod quality;
mod random;
mod reads;
mod rebalance;
mod recount;
mod replays;
mod reports;
mod rig;
mod sessions;
mod snapshot;
mod spec;
mod targets;
mod turns;
mod use_of_accounts;
mod worth;
