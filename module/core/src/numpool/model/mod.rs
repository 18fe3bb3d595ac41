//! The state of a pool: numbers, the queue, leases, switches and peers, and their indexes.

pub mod causes;
pub mod cells;
mod check;
pub mod directory;
pub mod groups;
pub mod heartbeats;
pub(in crate::numpool) mod history;
pub mod last_numbers;
pub mod leases;
pub mod number;
pub(in crate::numpool) mod own_caps;
pub(in crate::numpool) mod record;
mod restrictions;
pub mod settings;
pub(in crate::numpool) mod sliced;
pub(in crate::numpool) mod sorted_free;
pub mod state;
pub mod suspensions;
pub(in crate::numpool) mod tree;
pub(in crate::numpool) mod waiters;
