//! The state of a realm: records and indexes.

mod check;
pub mod conference;
pub(super) mod due;
pub mod ids;
mod indexes;
pub mod messages;
pub mod placement_index;
pub(super) mod queues;
mod settings;
pub mod state;
mod state_index;
pub mod transitions;
pub mod unit;
