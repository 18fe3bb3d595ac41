//! What happens to a realm: results, not wishes. The only thing that ever changes one, and what is replicated,
//! written to the AOF, published and replayed. `encoding` has their bytes.

use super::model::conference::{CalledFrom, Cause, Epoch};
use super::model::state::Settings;
use super::model::unit::{Name, Standing};
use crate::shared::{Bytes, Millis};
use smallvec::SmallVec;

/// The events of one step; mostly one.
pub type Events = SmallVec<[Event; 1]>;

/// One change. Units are named by their identity, conferences by their number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The realm opened. The first event of a key; the state before it is none.
    Opened {
        /// Its settings.
        settings: Settings,
    },
    /// Settings changed.
    Configured {
        /// All of them.
        settings: Settings,
    },
    /// A scheduler claimed the realm; all leases begin anew.
    Claimed {
        /// Its term.
        term: u64,
        /// Its name.
        leader: Bytes,
    },
    /// A unit joined, or joined again. Another one of its host is replaced by it, and loses its conferences.
    Joined {
        /// The unit.
        cmu: Name,
        /// Its room.
        capacity: u32,
        /// Its zone.
        zone: Option<Name>,
        /// Length of its lease.
        lease: Millis,
    },
    /// A unit's lease begins anew.
    Beat {
        /// The unit.
        cmu: Name,
        /// Its load, if it says so.
        load: Option<i64>,
    },
    /// A unit has not been heard for a while.
    Lapsed {
        /// The unit.
        cmu: Name,
        /// Suspect or unreachable.
        to: Standing,
    },
    /// A unit reported its list; what came of it are events of their own. No epoch up to the highest that it had handled
    /// is given out from now on, if that can be one.
    Reported {
        /// The unit.
        cmu: Name,
        /// The highest epoch that it had handled.
        highest: Epoch,
    },
    /// Units are asked to report.
    Asked {
        /// The unit; all that are not down if `None`.
        cmu: Option<Name>,
        /// All details anew, and not the list.
        details: bool,
    },
    /// Nothing new is placed on a unit, or is again.
    Drained {
        /// The unit.
        cmu: Name,
        /// Whether it drains.
        on: bool,
    },
    /// A unit is down: its conferences are lost.
    Down {
        /// The unit.
        cmu: Name,
    },
    /// A down unit is forgotten, its stream with it.
    Forgotten {
        /// The unit.
        cmu: Name,
    },
    /// A new scheduler began: units that it did not find are down, open conferences of the others wait for a report.
    Restarted {
        /// Units that are gone, by name.
        gone: Vec<Name>,
    },
    /// A conference begins. A tombstone of its number is gone with it.
    Created(Box<Created>),
    /// A pending conference has a new unit.
    Granted {
        /// The conference.
        e164: Bytes,
        /// Its unit.
        cmu: Name,
        /// The assignment.
        epoch: Epoch,
    },
    /// A conference is open on its unit.
    Acked {
        /// The conference.
        e164: Bytes,
    },
    /// A recovery failed: pending again.
    Failed {
        /// The conference.
        e164: Bytes,
        /// Why.
        cause: Cause,
        /// Whether its unit is told to end it.
        release: bool,
        /// When units that failed it may be tried again.
        next_retry: Millis,
    },
    /// A conference lost its unit.
    Pending {
        /// The conference.
        e164: Bytes,
        /// Why.
        cause: Cause,
    },
    /// A conference's end is asked for.
    Ending {
        /// The conference.
        e164: Bytes,
        /// Why.
        cause: Cause,
    },
    /// A conference is over.
    Ended {
        /// The conference.
        e164: Bytes,
        /// Why.
        cause: Cause,
        /// Whether whoever has it is told to end it.
        release: bool,
    },
    /// A unit that lost a conference has it back.
    Adopted {
        /// The conference.
        e164: Bytes,
        /// The unit.
        cmu: Name,
        /// The epoch at which the unit has it.
        old: Epoch,
        /// The epoch at which it owns it from now on.
        epoch: Epoch,
    },
    /// A move begins.
    Moving {
        /// The conference.
        e164: Bytes,
        /// The unit that is to take over.
        to: Name,
        /// The epoch at which it will own the conference.
        epoch: Epoch,
    },
    /// A move is done.
    Moved {
        /// The conference.
        e164: Bytes,
    },
    /// A move came to nothing.
    MoveFailed {
        /// The conference.
        e164: Bytes,
        /// Why.
        cause: Cause,
        /// Whether the unit that was to take over is told to end its copy.
        release: bool,
    },
    /// The owner is told its epoch again.
    EpochAgain {
        /// The conference.
        e164: Bytes,
        /// The epoch at which the unit has it.
        old: Epoch,
    },
    /// A unit is told to end a copy that is not its own any more.
    Disowned {
        /// The conference, which need not be on record.
        e164: Bytes,
        /// The unit.
        cmu: Name,
        /// The epoch at which the unit has it.
        epoch: Epoch,
    },
    /// A unit says why it cannot create a conference; what comes of it is an event of its own.
    Refused {
        /// The conference.
        e164: Bytes,
        /// The unit.
        cmu: Name,
        /// The assignment.
        epoch: Epoch,
        /// The reason, in its words.
        reason: Bytes,
    },
    /// The unit of a waiting conference is asked again.
    AskedAgain {
        /// The conference.
        e164: Bytes,
    },
    /// A conference has another end time.
    Extended {
        /// The conference.
        e164: Bytes,
        /// The time.
        end: Millis,
    },
    /// Details were written.
    Set {
        /// The conference.
        e164: Bytes,
        /// Number of the write.
        seq: u64,
        /// Fields and values by turns, as the codec writes byte strings.
        fields: Vec<u8>,
    },
    /// The record of an ended conference is forgotten.
    Removed {
        /// The conference.
        e164: Bytes,
    },
    /// A stream was trimmed though a group of readers had not read all of it: RESYNC stands in its place.
    Missed {
        /// The stream, as it is called beside the key.
        stream: Vec<u8>,
    },
    /// Messages of the outbox are in their streams.
    Flushed {
        /// How many, oldest first, for each stream in order.
        sent: Vec<(Vec<u8>, u32)>,
        /// The greatest id given out (milliseconds, sequence).
        last_id: (u64, u64),
    },
}

/// A conference begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// Its number.
    pub e164: Bytes,
    /// Its unit.
    pub cmu: Name,
    /// Its first assignment.
    pub epoch: Epoch,
    /// Its planned end.
    pub end: Option<Millis>,
    /// Room that it takes.
    pub size: u32,
    /// Licences that it takes.
    pub licences: u32,
    /// Who is recovered first.
    pub priority: i32,
    /// Where it must be placed.
    pub zone: Option<Name>,
    /// Whether it may be recovered.
    pub recoverable: bool,
    /// The creation's id.
    pub request: Option<Bytes>,
    /// Where its number comes from, if it was called for it.
    pub called_from: Option<CalledFrom>,
}

impl Event {
    /// The conference that it is about, if it is about one.
    pub fn e164(&self) -> Option<&[u8]> {
        match self {
            Self::Created(created) => Some(&created.e164),
            Self::Granted { e164, .. }
            | Self::Acked { e164 }
            | Self::Failed { e164, .. }
            | Self::Pending { e164, .. }
            | Self::Ending { e164, .. }
            | Self::Ended { e164, .. }
            | Self::Adopted { e164, .. }
            | Self::Moving { e164, .. }
            | Self::Moved { e164 }
            | Self::MoveFailed { e164, .. }
            | Self::EpochAgain { e164, .. }
            | Self::Disowned { e164, .. }
            | Self::Refused { e164, .. }
            | Self::AskedAgain { e164 }
            | Self::Extended { e164, .. }
            | Self::Set { e164, .. }
            | Self::Removed { e164 } => Some(e164),
            _ => None,
        }
    }

    /// The event's name in notifications.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Opened { .. } => "realm-opened",
            Self::Configured { .. } => "realm-configured",
            Self::Claimed { .. } => "claimed",
            Self::Joined { .. } => "unit-joined",
            Self::Beat { .. } => "unit-beat",
            Self::Lapsed { .. } => "unit-lapsed",
            Self::Reported { .. } => "unit-reported",
            Self::Asked { .. } | Self::AskedAgain { .. } => "asked",
            Self::Drained { .. } => "unit-drained",
            Self::Down { .. } => "unit-down",
            Self::Forgotten { .. } => "unit-forgotten",
            Self::Restarted { .. } => "restarted",
            Self::Created(_) => "created",
            Self::Granted { .. } => "granted",
            Self::Acked { .. } => "opened",
            Self::Failed { .. } => "failed",
            Self::Pending { .. } => "lost",
            Self::Ending { .. } => "ending",
            Self::Ended { .. } => "ended",
            Self::Adopted { .. } => "adopted",
            Self::Moving { .. } => "moving",
            Self::Moved { .. } => "moved",
            Self::MoveFailed { .. } => "move-failed",
            Self::EpochAgain { .. } => "epoch-again",
            Self::Disowned { .. } => "disowned",
            Self::Refused { .. } => "refused",
            Self::Extended { .. } => "extended",
            Self::Set { .. } => "set",
            Self::Removed { .. } => "removed",
            Self::Missed { .. } => "missed",
            Self::Flushed { .. } => "flushed",
        }
    }
}
