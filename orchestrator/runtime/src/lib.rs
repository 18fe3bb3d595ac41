//! What every long-running part of Allot's daemon shares, whatever role it plays: the process context, shutdown,
//! the loop of a leader, time, health, metrics, and the supervision of child processes. Imports no role.

pub mod child;
mod context;
mod health;
pub mod http;
mod leader;
pub mod telemetry;
pub mod time;

pub use context::{Context, Stop, stop};
pub use health::Health;
pub use leader::{End, Leader};
