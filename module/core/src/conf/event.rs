//! What happens to a realm: results, not wishes. The only thing that ever changes one, and what is replicated,
//! written to the AOF, published and replayed.

use super::model::conference::{CalledFrom, Cause, Epoch};
use super::model::state::Settings;
use super::model::unit::{Name, Standing};
use crate::shared::field::Any;
use crate::shared::machine;
use crate::shared::{Bytes, Millis};
use crate::{events, fields, words};

/// The events of one step; mostly one.
pub type Events = machine::Events<Event>;

words! {
    /// What `INFO` counts of realms.
    pub enum Counter {
        /// Conferences created.
        Created => "conf_created",
        /// Conferences opened by their unit's word.
        Opened => "conf_opened",
        /// Recoveries: pending conferences placed on a unit.
        Granted => "conf_granted",
        /// Recoveries that failed.
        Failed => "conf_failed",
        /// Copies that were heard again and took their conference back.
        Adopted => "conf_adopted",
        /// Moves done.
        Moved => "conf_moved",
        /// Conferences ended.
        Ended => "conf_ended",
        /// Units told to end a copy that is not theirs any more.
        Disowned => "conf_disowned",
        /// Writes of details.
        Writes => "conf_writes",
        /// Leases of units that came to 60 % of their length, or to their end.
        UnitLapsed => "cmu_lapsed",
        /// Units that a scheduler said are down.
        UnitDown => "cmu_down",
        /// Streams trimmed though a group of readers had not read all of it.
        Missed => "stream_resyncs",
    }
}

events! {
    /// One change. Units are named by their identity, conferences by their number.
    pub enum Event counted by Counter {
        /// The realm opened. The first event of a key; the state before it is none.
        Opened {
            /// Its settings.
            settings: Settings,
        } = 1, notice c"allot.conf.realm-opened";
        /// Settings changed.
        Configured {
            /// All of them.
            settings: Settings,
        } = 2, notice c"allot.conf.realm-configured";
        /// A scheduler claimed the realm; all leases begin again.
        Claimed {
            /// Its name.
            leader: Bytes,
            /// Its term.
            term: u64,
        } = 3, notice c"allot.conf.claimed";
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
        } = 4, notice c"allot.cmu.joined";
        /// A unit's lease begins again.
        Beat {
            /// The unit.
            cmu: Name,
            /// Its load, if it says so.
            load: Option<Any<i64>>,
        } = 5, notice c"allot.cmu.beat";
        /// A unit has not been heard for a while.
        Lapsed {
            /// The unit.
            cmu: Name,
            /// Suspect or unreachable.
            to: Standing,
        } = 6, notice c"allot.cmu.lapsed", count (Counter::UnitLapsed, 1);
        /// A unit reported its list; what came of it are events of their own. No epoch up to the highest that it had handled
        /// is given out from now on, if that can be one.
        Reported {
            /// The unit.
            cmu: Name,
            /// The highest epoch that it had handled.
            highest: Epoch,
        } = 7, notice c"allot.cmu.reported";
        /// Units are asked to report.
        Asked {
            /// The unit; all that are not down if `None`.
            cmu: Option<Name>,
            /// All details again, and not the list.
            details: bool,
        } = 8, notice c"allot.cmu.asked";
        /// Nothing new is placed on a unit, or is again.
        Drained {
            /// The unit.
            cmu: Name,
            /// Whether it drains.
            on: bool,
        } = 9, notice c"allot.cmu.drained";
        /// A unit is down: its conferences are lost.
        Down {
            /// The unit.
            cmu: Name,
        } = 10, notice c"allot.cmu.down", count (Counter::UnitDown, 1);
        /// A down unit is forgotten, its stream with it.
        Forgotten {
            /// The unit.
            cmu: Name,
        } = 11, notice c"allot.cmu.forgotten";
        /// A new scheduler began: units that it did not find are down, open conferences of the others wait for a report.
        Restarted {
            /// Units that are gone, by name.
            gone: Vec<Name>,
        } = 12, notice c"allot.conf.restarted";
        /// A conference begins. A tombstone of its number is gone with it.
        Created(created: Box<Created>) = 13, notice c"allot.conf.created", count (Counter::Created, 1);
        /// A pending conference has a new unit.
        Granted {
            /// The conference.
            e164: Bytes,
            /// Its unit.
            cmu: Name,
            /// The assignment.
            epoch: Epoch,
        } = 14, notice c"allot.conf.granted", count (Counter::Granted, 1);
        /// A conference is open on its unit.
        Acked {
            /// The conference.
            e164: Bytes,
        } = 15, notice c"allot.conf.opened", count (Counter::Opened, 1);
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
        } = 16, notice c"allot.conf.failed", count (Counter::Failed, 1);
        /// A conference lost its unit.
        Pending {
            /// The conference.
            e164: Bytes,
            /// Why.
            cause: Cause,
        } = 17, notice c"allot.conf.lost";
        /// A conference's end is asked for.
        Ending {
            /// The conference.
            e164: Bytes,
            /// Why.
            cause: Cause,
        } = 18, notice c"allot.conf.ending";
        /// A conference is over.
        Ended {
            /// The conference.
            e164: Bytes,
            /// Why.
            cause: Cause,
            /// Whether the units that have it are told to end it.
            release: bool,
        } = 19, notice c"allot.conf.ended", count (Counter::Ended, 1);
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
        } = 20, notice c"allot.conf.adopted", count (Counter::Adopted, 1);
        /// A move begins.
        Moving {
            /// The conference.
            e164: Bytes,
            /// The unit that is to take over.
            to: Name,
            /// The epoch at which it will own the conference.
            epoch: Epoch,
        } = 21, notice c"allot.conf.moving";
        /// A move is done.
        Moved {
            /// The conference.
            e164: Bytes,
        } = 22, notice c"allot.conf.moved", count (Counter::Moved, 1);
        /// A move came to nothing.
        MoveFailed {
            /// The conference.
            e164: Bytes,
            /// Why.
            cause: Cause,
            /// Whether the unit that was to take over is told to end its copy.
            release: bool,
        } = 23, notice c"allot.conf.move-failed";
        /// The owner is told its epoch again.
        EpochAgain {
            /// The conference.
            e164: Bytes,
            /// The epoch at which the unit has it.
            old: Epoch,
        } = 24, notice c"allot.conf.epoch-again";
        /// A unit is told to end a copy that is not its own any more.
        Disowned {
            /// The conference, which need not be on record.
            e164: Bytes,
            /// The unit.
            cmu: Name,
            /// The epoch at which the unit has it.
            epoch: Epoch,
        } = 25, notice c"allot.conf.disowned", count (Counter::Disowned, 1);
        /// The unit of a waiting conference is asked again.
        AskedAgain {
            /// The conference.
            e164: Bytes,
        } = 26, notice c"allot.conf.asked";
        /// A conference has another end time.
        Extended {
            /// The conference.
            e164: Bytes,
            /// The time.
            end: Millis,
        } = 27, notice c"allot.conf.extended";
        /// Details were written.
        Set {
            /// The conference.
            e164: Bytes,
            /// Number of the write.
            seq: u64,
            /// Fields and values by turns, as the codec writes byte strings.
            fields: Vec<u8>,
        } = 28, notice c"allot.conf.set", count (Counter::Writes, 1);
        /// The record of an ended conference is forgotten.
        Removed {
            /// The conference.
            e164: Bytes,
        } = 29, notice c"allot.conf.removed";
        /// Messages of the outbox are in their streams.
        Flushed {
            /// How many, oldest first, for each stream in order.
            sent: Vec<(Vec<u8>, u32)>,
            /// The greatest id given out (milliseconds, sequence).
            last_id: (u64, u64),
        } = 30;
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
        } = 31, notice c"allot.conf.refused";
        /// A stream was trimmed though a group of readers had not read all of it: RESYNC stands in its place.
        Missed {
            /// The stream, as it is called beside the key.
            stream: Vec<u8>,
        } = 32, notice c"allot.conf.missed", count (Counter::Missed, 1);
    }
}

fields! {
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
}
