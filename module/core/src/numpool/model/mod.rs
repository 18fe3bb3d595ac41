//! The state of a pool and its indexes: its numbers, the queue, leases, and who registered or called whom.

pub mod cells;
mod check;
pub mod directory;
pub mod groups;
pub mod leases;
pub mod number;
pub mod order;
pub(in crate::numpool) mod record;
pub mod settings;
pub mod state;
