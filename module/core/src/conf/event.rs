//! Events of a realm. Only events change a realm; they are replicated, written to the AOF, published and replayed.

use super::model::conference::{CalledFrom, Cause, Epoch};
use super::model::state::Settings;
use super::model::unit::{Name, UnitState};
use crate::shared::field::Any;
use crate::shared::machine;
use crate::shared::{Bytes, Millis};
use crate::{events, fields, words};

/// The events of one step; usually one.
pub type Events = machine::Events<Event>;

words! {
    /// Counters of realms in `INFO`.
    pub enum Counter {
        /// Conferences created.
        Created => "conf_created",
        /// Conferences that their unit acknowledged as open.
        Opened => "conf_opened",
        /// Recoveries: pending conferences placed on a unit.
        Granted => "conf_granted",
        /// Recoveries that failed.
        Failed => "conf_failed",
        /// Older copies that were reported again and took their conference back.
        Adopted => "conf_adopted",
        /// Moves done.
        Moved => "conf_moved",
        /// Conferences ended.
        Ended => "conf_ended",
        /// Releases sent for copies that their unit does not own any more.
        Disowned => "conf_disowned",
        /// Writes of details.
        Writes => "conf_writes",
        /// Leases of units that reached 60 % of their length, or their end.
        UnitLapsed => "cmu_lapsed",
        /// Units that were declared down.
        UnitDown => "cmu_down",
        /// Streams that were trimmed before a consumer group had read all entries.
        Missed => "stream_resyncs",
    }
}

events! {
    /// One change. Units are named by their identity, conferences by their E.164 number.
    pub enum Event counted by Counter {
        /// The realm opened: the first event of a key.
        Opened {
            /// Settings of the realm.
            settings: Settings,
        } = 1, notice c"allot.conf.realm-opened";
        /// Settings changed.
        Configured {
            /// All settings, changed or not.
            settings: Settings,
        } = 2, notice c"allot.conf.realm-configured";
        /// A scheduler claimed the realm; all leases begin again.
        Claimed {
            /// Name of the scheduler.
            leader: Bytes,
            /// Term of the scheduler.
            term: u64,
        } = 3, notice c"allot.conf.claimed";
        /// A unit joined, or joined again. An earlier unit of the same host is replaced, and loses its conferences.
        Joined {
            /// The unit.
            cmu: Name,
            /// Capacity of the unit.
            capacity: u32,
            /// Zone of the unit.
            zone: Option<Name>,
            /// Length of the lease, in milliseconds.
            lease: Millis,
        } = 4, notice c"allot.cmu.joined";
        /// A unit's lease begins again.
        Beat {
            /// The unit.
            cmu: Name,
            /// Load of the unit, if the heartbeat has one.
            load: Option<Any<i64>>,
        } = 5, notice c"allot.cmu.beat";
        /// The lease of a unit passed 60 % of its length, or expired.
        Lapsed {
            /// The unit.
            cmu: Name,
            /// The new state: suspect or unreachable.
            to: UnitState,
        } = 6, notice c"allot.cmu.lapsed", count (Counter::UnitLapsed, 1);
        /// A unit reported its list; the results follow as separate events. Later epochs are greater than `highest`,
        /// if `highest` is plausible.
        Reported {
            /// The unit.
            cmu: Name,
            /// The highest epoch that the unit had handled.
            highest: Epoch,
        } = 7, notice c"allot.cmu.reported";
        /// Units are asked to report.
        Asked {
            /// The unit; `None` for all that are not down.
            cmu: Option<Name>,
            /// Whether all details are asked for, instead of the list.
            details: bool,
        } = 8, notice c"allot.cmu.asked";
        /// A unit starts to drain (nothing new is placed on it), or stops draining.
        Drained {
            /// The unit.
            cmu: Name,
            /// Whether the unit drains from now on.
            on: bool,
        } = 9, notice c"allot.cmu.drained";
        /// A unit is down: its conferences are lost.
        Down {
            /// The unit.
            cmu: Name,
        } = 10, notice c"allot.cmu.down", count (Counter::UnitDown, 1);
        /// The record of a down unit is deleted, with its stream.
        Forgotten {
            /// The unit.
            cmu: Name,
        } = 11, notice c"allot.cmu.forgotten";
        /// A new scheduler began: units that it did not find are down, and open conferences of the other units wait
        /// for a report.
        Restarted {
            /// Units that are down, in order of their names.
            gone: Vec<Name>,
        } = 12, notice c"allot.conf.restarted";
        /// A conference is created, and replaces a tombstone of the same number.
        Created(created: Box<Created>) = 13, notice c"allot.conf.created", count (Counter::Created, 1);
        /// A pending conference has a new unit.
        Granted {
            /// E.164 number of the conference.
            e164: Bytes,
            /// Unit that gets the conference.
            cmu: Name,
            /// Epoch of the assignment.
            epoch: Epoch,
        } = 14, notice c"allot.conf.granted", count (Counter::Granted, 1);
        /// A conference is open on its unit.
        Acked {
            /// E.164 number of the conference.
            e164: Bytes,
        } = 15, notice c"allot.conf.opened", count (Counter::Opened, 1);
        /// A recovery failed: pending again.
        Failed {
            /// E.164 number of the conference.
            e164: Bytes,
            /// The cause.
            cause: Cause,
            /// Whether RELEASE is sent to the unit.
            release: bool,
            /// When the units that failed to create the conference may be tried again.
            next_retry: Millis,
        } = 16, notice c"allot.conf.failed", count (Counter::Failed, 1);
        /// A conference lost its unit.
        Pending {
            /// E.164 number of the conference.
            e164: Bytes,
            /// The cause.
            cause: Cause,
        } = 17, notice c"allot.conf.lost";
        /// A conference must end; its unit is told.
        Ending {
            /// E.164 number of the conference.
            e164: Bytes,
            /// The cause.
            cause: Cause,
        } = 18, notice c"allot.conf.ending";
        /// A conference has ended.
        Ended {
            /// E.164 number of the conference.
            e164: Bytes,
            /// The cause.
            cause: Cause,
            /// Whether RELEASE is sent to the units that have the conference.
            release: bool,
        } = 19, notice c"allot.conf.ended", count (Counter::Ended, 1);
        /// A unit that lost a conference owns it again.
        Adopted {
            /// E.164 number of the conference.
            e164: Bytes,
            /// The unit.
            cmu: Name,
            /// The epoch that the unit reported.
            old: Epoch,
            /// The new epoch of the conference.
            epoch: Epoch,
        } = 20, notice c"allot.conf.adopted", count (Counter::Adopted, 1);
        /// A move begins.
        Moving {
            /// E.164 number of the conference.
            e164: Bytes,
            /// The target unit.
            to: Name,
            /// The epoch of the conference on the target unit.
            epoch: Epoch,
        } = 21, notice c"allot.conf.moving";
        /// A move is done.
        Moved {
            /// E.164 number of the conference.
            e164: Bytes,
        } = 22, notice c"allot.conf.moved", count (Counter::Moved, 1);
        /// A move failed.
        MoveFailed {
            /// E.164 number of the conference.
            e164: Bytes,
            /// The cause.
            cause: Cause,
            /// Whether RELEASE is sent to the target unit.
            release: bool,
        } = 23, notice c"allot.conf.move-failed";
        /// EPOCH is sent to the owner again.
        EpochAgain {
            /// E.164 number of the conference.
            e164: Bytes,
            /// The epoch that the unit reported.
            old: Epoch,
        } = 24, notice c"allot.conf.epoch-again";
        /// RELEASE is sent to a unit that does not own the conference any more.
        Disowned {
            /// E.164 number of the conference, which need not be on record.
            e164: Bytes,
            /// The unit.
            cmu: Name,
            /// The epoch that the unit reported.
            epoch: Epoch,
        } = 25, notice c"allot.conf.disowned", count (Counter::Disowned, 1);
        /// The time that a unit has for its answer begins again. The unit of a waiting conference is asked again.
        AskedAgain {
            /// E.164 number of the conference.
            e164: Bytes,
        } = 26, notice c"allot.conf.asked";
        /// A conference has another end time.
        Extended {
            /// E.164 number of the conference.
            e164: Bytes,
            /// The new end time.
            end: Millis,
        } = 27, notice c"allot.conf.extended";
        /// Details were written.
        Set {
            /// E.164 number of the conference.
            e164: Bytes,
            /// Number of the write.
            seq: u64,
            /// Fields and values alternately, in the encoding of the codec.
            fields: Vec<u8>,
        } = 28, notice c"allot.conf.set", count (Counter::Writes, 1);
        /// The record of an ended conference is deleted.
        Removed {
            /// E.164 number of the conference.
            e164: Bytes,
        } = 29, notice c"allot.conf.removed";
        /// Messages of the outbox were written to their streams.
        Flushed {
            /// How many of the oldest messages were written, by stream in ascending order.
            sent: Vec<(Vec<u8>, u32)>,
            /// The greatest id used (milliseconds, sequence).
            last_id: (u64, u64),
        } = 30;
        /// A unit says why it cannot create a conference; the result follows as a separate event.
        Refused {
            /// E.164 number of the conference.
            e164: Bytes,
            /// The unit.
            cmu: Name,
            /// Epoch of the assignment.
            epoch: Epoch,
            /// The text of the unit.
            reason: Bytes,
        } = 31, notice c"allot.conf.refused";
        /// A stream was trimmed before a consumer group had read all entries: RESYNC is written instead.
        Missed {
            /// Name of the stream without the name of the key.
            stream: Vec<u8>,
        } = 32, notice c"allot.conf.missed", count (Counter::Missed, 1);
        /// The load that a unit reported is a lease old, and no longer counts.
        LoadExpired {
            /// The unit.
            cmu: Name,
        } = 33, notice c"allot.cmu.load-expired";
    }
}

fields! {
    /// A conference is created.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Created {
        /// E.164 number.
        pub e164: Bytes,
        /// Unit that gets the conference.
        pub cmu: Name,
        /// Epoch of the first assignment.
        pub epoch: Epoch,
        /// Planned end, in milliseconds since 1970.
        pub end: Option<Millis>,
        /// Room that the conference takes on a unit.
        pub size: u32,
        /// Licences that the conference takes.
        pub licences: u32,
        /// Order of recovery: the greater priority first.
        pub priority: i32,
        /// Zone of the unit; any zone if `None`.
        pub zone: Option<Name>,
        /// Whether the conference is recovered when its unit is lost.
        pub recoverable: bool,
        /// Id of the creation, by which a repeated request is recognised.
        pub request: Option<Bytes>,
        /// The pool that the number was called from, if any.
        pub called_from: Option<CalledFrom>,
    }
}

impl Event {
    /// E.164 number of the conference that the event is about, if any.
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
