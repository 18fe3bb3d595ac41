//! The outcome of a request to a show.

use super::claims::Seats;
use super::event::Event;
use crate::shared::decision;
use crate::shared::{Bytes, Millis};

/// Events to apply, and the reply to the caller.
pub type Decision = decision::Decision<Event, Reply>;

/// The reply to a request.
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
    /// A wait record.
    Wait(WaitRecord),
}

/// The record of a wait, as it is replied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitRecord {
    /// Its name.
    pub token: Bytes,
    /// Its user.
    pub user: Bytes,
    /// Seats wanted, or offered.
    pub count: u32,
    /// Whether there is a hold under this token.
    pub offered: bool,
    /// Position among the waiters with an equal wish, from 1; 0 if seats are offered.
    pub position: u64,
    /// When the user began to wait, or got the offer.
    pub since: Millis,
    /// When the user stops waiting, or the deadline of the offer.
    pub until: Millis,
}

/// The record of a hold, as it is replied.
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
