//! The map of a show, as its reader keeps it and browsers get it.

use std::sync::Arc;

use serde_json::value::RawValue;

/// The map of a show at one instant.
#[derive(Debug)]
pub(crate) struct ShowSnapshot {
    /// Number of this state; each message of changes has the number of the state that it leads to.
    pub(crate) seq: u64,
    /// The plan, as `SEAT.PLAN` gives it.
    pub(crate) plan: Arc<RawValue>,
    /// For each area of the plan the rows in rank order, each a string with one character for each position; for
    /// a standing area the numbers of free, held, sold and blocked places.
    pub(crate) areas: Vec<Vec<String>>,
    /// The server's clock at the read, in milliseconds since 1970.
    pub(crate) now: u64,
}
