//! What a request to a show comes to.

use super::claims::Seats;
use super::event::Event;
use crate::shared::decision;
use crate::shared::{Bytes, Millis};

/// What happens, and what the caller is told.
pub type Decision = decision::Decision<Event, Reply>;

/// What the caller hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Done.
    Ok,
    /// Fewer seats are free than were wanted.
    None,
    /// A count, or a time.
    Integer(i64),
    /// A hold record.
    Hold(HoldRecord),
}

/// A hold as its holder sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldRecord {
    /// Its name.
    pub token: Bytes,
    /// Its user.
    pub user: Bytes,
    /// Its seats by area, row, position.
    pub seats: Seats,
    /// Its deadline.
    pub until: Millis,
}
