//! The state of a realm: records and indexes.

pub mod assignment;
mod check;
pub mod conference;
pub mod epoch;
mod indexes;
pub mod messages;
pub mod placement_index;
pub(super) mod queues;
pub(super) mod reservations;
mod reserving;
pub(super) mod sent;
pub mod settings;
pub mod state;
pub mod transitions;
pub mod unit;
pub(super) mod waiters;
pub mod wishes;
