//! The state of a pool: numbers, the queue, leases, switches and peers, and their indexes.

pub mod causes;
pub mod cells;
mod check;
pub mod directory;
pub mod groups;
pub(in crate::numpool) mod history;
pub mod leases;
pub mod number;
pub mod order;
pub(in crate::numpool) mod reconciliations;
pub(in crate::numpool) mod record;
pub mod settings;
pub mod state;
pub(in crate::numpool) mod waiters;
