//! What comes of a request: events to be applied, and what the caller is told.

use super::event::Event;
use super::model::ids::{Epoch, Name};
use crate::shared::Bytes;
use crate::shared::decision;

pub(super) use crate::shared::decision::{decided, unchanged};
pub(super) use crate::shared::refusal::refuse;

/// What happens, and what the caller is told.
pub type Decision = decision::Decision<Event, Reply>;

/// What the caller hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Done, or no change.
    Ok,
    /// The sender is behind, and is told so by a RELEASE.
    Released,
    /// A count.
    Integer(i64),
    /// The settings.
    Realm,
    /// The record of a conference.
    Conference(Bytes),
    /// The record of a unit.
    Unit(Name),
    /// What came of a report.
    Reported(Reported),
    /// Who got what.
    Grants(Vec<Grant>),
    /// Conferences that move now, and those that do not.
    Moves(i64, i64),
}

/// A decision, or why there is none.
pub type Decided = decision::Decided<Event, Reply>;

/// A conference placed on a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The conference.
    pub e164: Bytes,
    /// Its unit.
    pub cmu: Name,
    /// The assignment.
    pub epoch: Epoch,
}

/// What came of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// How many conferences are the unit's as it says, or are on their way to it.
    pub kept: i64,
    /// Conferences that it has at another epoch from now on: number, old, new.
    pub adopted: Vec<(Bytes, Epoch, Epoch)>,
    /// Conferences whose copy it must end.
    pub released: Vec<Bytes>,
    /// Conferences that ended: people ended them on the unit, or they cannot be recovered.
    pub ended: Vec<Bytes>,
    /// Conferences that are recovered, because the unit no longer has them and people did not end them.
    pub lost: Vec<Bytes>,
}
