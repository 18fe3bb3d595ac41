//! The state of a show: venue, owners of seats, claims, and the indexes of free seats.

pub mod bits;
pub mod blocks;
mod building;
mod check;
pub mod claims;
pub mod ended;
mod focus;
pub mod index;
pub mod kind;
pub mod labels;
pub(super) mod moves;
mod own_ids;
pub(super) mod owners;
pub mod places;
pub mod plan;
pub mod sparse;
mod standing;
pub mod state;
pub mod venue;
pub mod waiting;
pub mod wish;
