//! The common part of all long-running parts of `allotd`: the process context ([`Context`]), the shutdown request
//! ([`Shutdown`]), the loop of a leader ([`leader`]), health and metrics over HTTP ([`http`]), logging
//! ([`telemetry`]), settings ([`settings`]), points in time ([`time`]), file operations that may hang ([`blocking`]), and
//! the supervision of child processes ([`child`]).
//!
//! This crate knows no role. The roles of `allotd` and `allot-compaction` build on it.

#![warn(clippy::disallowed_types)]

pub mod blocking;
pub mod child;
mod context;
mod health;
pub mod http;
mod invariant;
pub mod leader;
pub mod metrics;
mod redis_metrics;
mod repeats;
pub mod settings;
pub mod telemetry;
pub mod time;

pub use context::{Context, Shutdown, shutdown_channel};
pub use health::{COORDINATION, Health};
pub use invariant::invariant;
pub use leader::{Candidate, LeaderRole, LeaderSession, SessionEnd, campaign};
