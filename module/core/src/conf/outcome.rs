//! The outcome of a request: events to apply, and the reply to the caller.

use super::event::Event;
use super::model::epoch::Epoch;
use super::model::unit::Name;
use crate::shared::Bytes;
use crate::shared::decision;
use crate::shared::refusal::Refusal;

pub(super) use crate::shared::decision::{decided, unchanged};
pub(super) use crate::shared::refusal::refuse;

/// Events to apply, and the reply to the caller.
pub type Decision = decision::Decision<Event, Reply>;

/// The reply to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Done, or no change.
    Ok,
    /// The sender does not have this assignment any more; RELEASE is sent to its stream.
    Released,
    /// A count.
    Integer(i64),
    /// The settings.
    Realm,
    /// The record of a conference.
    Conference(Bytes),
    /// The record of a unit.
    Unit(Name),
    /// A host, and whether it is drained.
    Host(Bytes),
    /// The result of a report.
    Reported(Reported),
    /// The placed conferences with their units.
    Grants(Vec<Grant>),
    /// The moves that even out the used share of the units.
    Rebalanced(Vec<PlannedMove>),
    /// The request is refused, and the refusal is noted in the state.
    Refused(Refusal),
    /// How many conferences of a drained unit move now, and how many do not.
    Moves(i64, i64),
}

/// A decision, or a refusal.
pub type Decided = decision::Decided<Event, Reply>;

/// A conference placed on a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// E.164 number of the conference.
    pub e164: Bytes,
    /// The unit.
    pub cmu: Name,
    /// The epoch of the assignment.
    pub epoch: Epoch,
}

/// A move of a conference from one unit to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedMove {
    /// E.164 number of the conference.
    pub e164: Bytes,
    /// The unit that has the conference.
    pub from: Name,
    /// The unit that gets the conference.
    pub to: Name,
}

/// The result of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// How many conferences the unit owns as reported, or is about to get.
    pub kept: i64,
    /// Conferences that get a new epoch on the unit: E.164 number, reported epoch, new epoch.
    pub adopted: Vec<(Bytes, Epoch, Epoch)>,
    /// Conferences whose copy the unit must end.
    pub released: Vec<Bytes>,
    /// Conferences that ended: people ended them on the unit, or they cannot be recovered.
    pub ended: Vec<Bytes>,
    /// Conferences that are recovered, because the unit no longer has them and people did not end them.
    pub lost: Vec<Bytes>,
}
