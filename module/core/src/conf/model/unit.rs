//! The record of a media unit: identity, lease, room and conferences.

use super::epoch::Epoch;
use super::sent::Sent;
use super::settings::{MAX_ROOM, Settings};
use crate::shared::Millis;
use crate::shared::codec::{Damaged, ensure};
use crate::shared::field::Any;
use crate::shared::token::MAX_TTL;
use crate::{fields, words};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// A name that many records share: the identity of a unit, or a zone.
pub type Name = Arc<[u8]>;

/// The part of a lease, in percent, after which a unit without a heartbeat is suspect.
pub const SUSPECT_PERCENT: i64 = 60;

/// The first back-off of a unit on which creations failed, in milliseconds.
pub const FIRST_BACKOFF: Millis = 1_000;

/// The longest back-off, in milliseconds.
pub const LONGEST_BACKOFF: Millis = 60_000;

/// How long a conflict is shown after the last join that was refused, in milliseconds.
pub const CONFLICT_SHOWN: Millis = 60_000;

/// How often, at most, a join that is refused again is noted, in milliseconds: the unit that is refused tries again all
/// the time.
pub const CONFLICT_NOTED: Millis = 10_000;

/// The most replaced identities of a host that are remembered.
pub const MAX_REPLACED: usize = 1024;

/// The parts in which a new unit gets its share of the new conferences.
pub const RAMP_STEPS: u32 = 10;

/// The most units of a realm, those that are down among them.
pub const MAX_UNITS: usize = 10_000;

/// The most tags of a unit, and the most that a conference requires or prefers.
pub const MAX_TAGS: usize = 64;

/// The most hosts that are drained, with or without a unit.
pub const MAX_DRAINED: usize = 10_000;

/// The most hosts without a unit that are remembered.
pub const MAX_FORGOTTEN: usize = 1024;

words! {
    /// The state of a unit. The numbers are part of the encoding.
    #[derive(Default, Hash)]
    pub enum UnitState {
        /// Less than 60 % of the lease have passed.
        #[default]
        Up = 0 => "up",
        /// More than 60 % of the lease have passed: nothing new is placed on the unit.
        Suspect = 1 => "suspect",
        /// The lease has expired; the unit was not declared down yet.
        Unreachable = 2 => "unreachable",
        /// The unit was declared down.
        Down = 3 => "down",
    }
}

fields! {
    /// The load that a unit reported.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Load {
        /// The reported number, in percent of what the unit can bear. A unit may report any number; one below 0 counts
        /// as 0, and one above 100 as 100.
        pub value: Any<i64>,
        /// When the unit reported the load.
        pub at: Millis,
    }

    /// Another unit of the same host that wanted to join from another machine, and was refused.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Conflict {
        /// The machine of the other unit.
        pub machine: Name,
        /// When the other unit was last noted.
        pub at: Millis,
    }

    /// One incarnation of a unit.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Unit {
        /// Identity, `ip:pid:start`.
        pub cmu: Name,
        /// Zone, if any.
        pub zone: Option<Name>,
        /// Tags, in ascending order.
        pub tags: Vec<Name>,
        /// What tells the machine of the unit from other machines, if the unit says it.
        pub machine: Option<Name>,
        /// Room in total.
        pub capacity: u32,
        /// State.
        pub state: UnitState,
        /// Whether the unit said that it is about to end: nothing new is placed on it.
        pub leaving: bool,
        /// Whether the unit has reported its list since it was last down. A report with an implausible `HIGHEST` does
        /// not count: such a unit ignores every epoch that the realm may give out.
        pub reported: bool,
        /// Length of the lease.
        pub lease: Millis,
        /// When the lease was last renewed: by the unit, or because a scheduler claimed the realm.
        pub renewed: Millis,
        /// When the unit last joined, reported or sent a heartbeat.
        pub heard: Millis,
        /// When the unit joined.
        pub joined: Millis,
        /// Since when the unit is down; 0 if it never was.
        pub down_since: Millis,
        /// The last reported load, for one lease after the report; `None` once the lease has expired.
        pub load: Option<Load>,
        /// Creations that failed on the unit since one last succeeded.
        pub failures: u32,
        /// Until when nothing new is placed on the unit, because creations failed on it. After that the unit gets one
        /// conference as a trial.
        pub backoff_until: Option<Millis>,
        /// How many tenths of the capacity placement still disregards, because the unit has joined a short time ago: 9
        /// to 0.
        pub held_back: u32,
        /// Another unit that was refused because this one has its host; never of a unit without a lease.
        pub conflict: Option<Conflict>,
    } computed {
        /// Room in use: by the unit's conferences, and by those that move to the unit.
        pub used: u64,
        /// Conferences of the unit, by epoch.
        pub owned: BTreeSet<(Epoch, u32)>,
        /// Conferences that move to the unit, by epoch.
        pub targets: BTreeSet<(Epoch, u32)>,
        /// How many conferences are open on the unit.
        pub open: u32,
        /// Whether an operator drains the host of the unit: nothing new is placed on it.
        pub drained: bool,
        /// The capacity that counts for scheduled conferences.
        pub counted: u32,
    } checked by Unit::is_sound;

    /// A host runs one unit after another. Its name is the part of an identity before the last two colons.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Host {
        /// Identities of replaced units, oldest first.
        pub replaced: VecDeque<Name>,
        /// The epochs that units of the host were sent.
        pub sent: Sent,
    } computed {
        /// The current unit, unless its record was removed.
        pub current: Option<u32>,
    }
}

impl Load {
    /// The load in percent, 0 to 100.
    pub fn percent(self) -> u8 {
        self.value.0.clamp(0, 100) as u8
    }
}

impl Unit {
    fn is_sound(&self) -> Result<(), Damaged> {
        ensure(i64::from(self.capacity) <= MAX_ROOM, "a unit has too much room")?;
        check_tags(&self.tags)?;
        ensure((1..=MAX_TTL).contains(&self.lease), "a lease is out of range")?;
        ensure(self.held_back < RAMP_STEPS, "a unit is held back more than it can be")?;
        ensure(self.backoff_until.is_none() || self.failures > 0, "a unit has a back-off without a failure")?;
        let expired = matches!(self.state, UnitState::Unreachable | UnitState::Down);
        ensure(self.conflict.is_none() || !expired, "a unit without a lease has a conflict")?;
        ensure(self.load.is_none() || !expired, "a unit without a lease has a load")
    }

    /// Whether conferences may be placed on the unit.
    pub fn takes(&self) -> bool {
        self.takes_but_for_backoff() && self.backoff_until.is_none()
    }

    /// Whether conferences may be placed on the unit when it is in no back-off.
    pub fn takes_but_for_backoff(&self) -> bool {
        self.state == UnitState::Up && !self.is_draining() && self.reported
    }

    /// Whether the next conference is a trial: so many creations failed in a row that the unit had a back-off.
    pub fn is_on_trial(&self, settings: &Settings) -> bool {
        i64::from(self.failures) >= settings.failures
    }

    /// How long nothing is placed on the unit after its last failure: [`FIRST_BACKOFF`] after as many failures as the
    /// realm allows, and twice as long after each further failure, up to [`LONGEST_BACKOFF`].
    pub(in crate::conf) fn backoff(&self, settings: &Settings) -> Option<Millis> {
        let further = i64::from(self.failures) - settings.failures;
        let doublings = u32::try_from(further).ok()?.min(16);
        Some((FIRST_BACKOFF << doublings).min(LONGEST_BACKOFF))
    }

    /// The capacity that counts for scheduled conferences: all of it, unless the unit is down or draining. A unit that
    /// is silent, in a back-off or yet to report counts, because it may take conferences again at any time.
    pub fn counts(&self) -> u32 {
        if self.state == UnitState::Down || self.is_draining() { 0 } else { self.capacity }
    }

    /// The state as it is shown to people: `draining` for a unit that drains and is up.
    pub fn word(&self) -> &'static str {
        if self.is_draining() && self.state == UnitState::Up { "draining" } else { self.state.word() }
    }

    /// Whether nothing new is placed on the unit, because its host is drained or the unit is about to end.
    pub fn is_draining(&self) -> bool {
        self.drained || self.leaving
    }

    /// When the unit becomes suspect.
    pub fn suspect_at(&self) -> Millis {
        self.renewed
            .saturating_add(self.lease / 100 * SUSPECT_PERCENT + self.lease % 100 * SUSPECT_PERCENT / 100)
    }

    /// When the lease expires.
    pub fn lease_ends(&self) -> Millis {
        self.renewed.saturating_add(self.lease)
    }

    /// When the reported load is too old to count.
    pub fn load_ends(&self) -> Option<Millis> {
        self.load.map(|load| load.at.saturating_add(self.lease))
    }

    /// When a conflict is over, unless another join is refused.
    pub fn conflict_ends(&self) -> Option<Millis> {
        self.conflict.as_ref().map(|conflict| conflict.at.saturating_add(CONFLICT_SHOWN))
    }

    /// The machine of the unit, if a unit on this machine must not take the host over: it is another machine, and the unit
    /// may still run. A unit whose lease has expired may run as well; its conferences are taken from it when it is declared
    /// down.
    pub fn keeps_host_from(&self, machine: Option<&[u8]>, now: Millis) -> Option<&Name> {
        let own = self.machine.as_ref().filter(|own| machine.is_some_and(|machine| ***own != *machine))?;
        (self.has_lease(now) || !self.is_idle()).then_some(own)
    }

    /// When the next tenth of the capacity of a new unit counts.
    pub fn ramp_due(&self, settings: &Settings) -> Option<Millis> {
        let counted = RAMP_STEPS.saturating_sub(self.held_back);
        let after = settings.ramp / Millis::from(RAMP_STEPS) * Millis::from(counted);
        (self.held_back > 0).then(|| self.joined.saturating_add(after))
    }

    /// The earliest deadline. `waited_for` says whether the unit was the last one to have some pending conference open;
    /// then its record is kept.
    pub(in crate::conf) fn next_due(&self, settings: &Settings, waited_for: bool) -> Option<Millis> {
        let or_earlier = |due: Millis| {
            let others =
                [self.load_ends(), self.backoff_until, self.ramp_due(settings), self.conflict_ends()];
            Some(others.into_iter().flatten().fold(due, Millis::min))
        };
        match self.state {
            UnitState::Up => or_earlier(self.suspect_at()),
            UnitState::Suspect => or_earlier(self.lease_ends()),
            // A back-off ends when the unit is up again.
            UnitState::Unreachable => None,
            UnitState::Down => {
                (self.is_idle() && !waited_for).then(|| self.down_since.saturating_add(settings.tombstone))
            }
        }
    }

    /// Whether the lease is valid.
    pub fn has_lease(&self, now: Millis) -> bool {
        matches!(self.state, UnitState::Up | UnitState::Suspect) && self.lease_ends() > now
    }

    /// Whether the unit has no conference and none moves to it.
    pub fn is_idle(&self) -> bool {
        self.owned.is_empty() && self.targets.is_empty()
    }
}

/// Checks that tags are in ascending order and not too many.
pub(in crate::conf) fn check_tags(tags: &[Name]) -> Result<(), Damaged> {
    let rises = tags.is_sorted_by(|tag, next| tag < next);
    ensure(rises && tags.len() <= MAX_TAGS, "tags are not in order, or too many")
}

/// The host of an identity: the part before its last two colons, or the whole identity if it has fewer.
pub fn host_of(cmu: &[u8]) -> &[u8] {
    let mut colons = cmu.iter().enumerate().rev().filter(|&(_, &byte)| byte == b':').map(|(at, _)| at);
    colons.next();
    let end = colons.next().unwrap_or(cmu.len());
    cmu.get(..end).unwrap_or(cmu)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_all_before_the_last_two_colons() {
        assert_eq!(host_of(b"10.0.0.1:4711:1700000000000"), b"10.0.0.1");
        assert_eq!(host_of(b"10.0.0.1/b:4711:17"), b"10.0.0.1/b");
        assert_eq!(host_of(b"[::1]:4711:17"), b"[::1]");
        assert_eq!(host_of(b"one:2"), b"one:2");
        assert_eq!(host_of(b"plain"), b"plain");
    }
}
