//! What comes of a request: events to be applied, and what the caller is told.

use super::event::{Event, Events};
use super::model::ids::{Epoch, Name};
use crate::shared::Bytes;
use crate::shared::refusal::{Code, Refusal};

/// What happens, and what the caller hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// To be applied in this order, all at the time of the decision.
    pub events: Events,
    /// True once they are applied.
    pub reply: Reply,
}

impl From<Reply> for Decision {
    /// Nothing happens.
    fn from(reply: Reply) -> Self {
        Self { events: Events::new(), reply }
    }
}

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
pub type Decided = Result<Decision, Refusal>;

pub(super) fn refuse<T>(code: Code, text: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::new(code, text))
}

#[allow(clippy::unnecessary_wraps, reason = "the last word of functions that may refuse")]
pub(super) fn decided(event: Event, reply: Reply) -> Decided {
    Ok(Decision { events: smallvec::smallvec![event], reply })
}

#[allow(clippy::unnecessary_wraps, reason = "the last word of functions that may refuse")]
pub(super) fn unchanged(reply: Reply) -> Decided {
    Ok(reply.into())
}

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
    /// Conferences that ended, since the unit has them no more.
    pub ended: Vec<Bytes>,
}
