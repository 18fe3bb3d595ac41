//! What the records of conferences and units both name.

use std::sync::Arc;

/// The number of an assignment. Every grant of every conference of a realm has its own, and later ones are greater.
pub type Epoch = u64;

/// A name that many records share: a unit's identity, a zone.
pub type Name = Arc<[u8]>;

pub use crate::shared::fence::MAX_TIME;

/// The greatest size, capacity and number of licences.
pub const MAX_ROOM: i64 = 1_000_000_000;
