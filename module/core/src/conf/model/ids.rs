//! Types that the records of conferences and units share.

use std::sync::Arc;

/// The number of an assignment: unique in its realm, and greater than all earlier ones.
pub type Epoch = u64;

/// A name that many records share: the identity of a unit, or a zone.
pub type Name = Arc<[u8]>;

pub use crate::shared::fence::MAX_TIME;

/// The limit of sizes, capacities and licences.
pub const MAX_ROOM: i64 = 1_000_000_000;
