//! The state of a show and its indexes: the venue, who has which seat, and what finds free ones.

pub mod bits;
mod building;
mod check;
pub mod claims;
pub mod index;
pub mod labels;
pub mod plan;
pub mod state;
pub mod venue;
