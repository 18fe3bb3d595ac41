//! The state of a realm: records and indexes.

mod check;
pub mod conference;
mod indexes;
pub mod messages;
pub mod placement_index;
pub(super) mod queues;
pub mod settings;
pub mod state;
pub mod transitions;
pub mod unit;
pub mod wishes;
