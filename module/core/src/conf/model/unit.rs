//! A media unit: its identity, its lease, its room, and which conferences are its own.

use super::ids::Epoch;
pub use super::ids::Name;
use crate::invariant;
use crate::shared::Millis;
use crate::words;
use std::collections::{BTreeSet, VecDeque};

/// What of a lease may pass before a unit is suspect, in percent.
pub const SUSPECT_PERCENT: i64 = 60;

/// How many replaced identities of a host are remembered.
pub const MAX_REPLACED: usize = 1024;

/// The most units of a realm, those that are down among them.
pub const MAX_UNITS: usize = 10_000;

/// How many hosts are remembered whose unit was forgotten.
pub const MAX_FORGOTTEN: usize = 1024;

words! {
    /// Where a unit stands. The numbers are part of the encoding.
    #[derive(Hash)]
    pub enum Standing {
        /// Its lease is good.
        Up = 0 => "up",
        /// More than 60 % of its lease are over: nothing new is placed on it.
        Suspect = 1 => "suspect",
        /// Its lease is over; nobody has said yet that it is down.
        Unreachable = 2 => "unreachable",
        /// The scheduler said that it is down.
        Down = 3 => "down",
    }
}

/// A unit: one incarnation of it.
#[derive(Clone, Debug)]
pub struct Unit {
    /// Its identity, `ip:pid:start`.
    pub cmu: Name,
    /// Its zone.
    pub zone: Option<Name>,
    /// Room that it has.
    pub capacity: u32,
    /// Room taken or reserved: by its conferences, and by those that move to it.
    pub used: u64,
    /// Where it stands.
    pub standing: Standing,
    /// Whether nothing new is placed on it, at the operator's word.
    pub draining: bool,
    /// Whether it has reported its list since it was down.
    pub reported: bool,
    /// Length of its lease.
    pub lease: Millis,
    /// When its lease began again.
    pub renewed: Millis,
    /// When it joined.
    pub joined: Millis,
    /// Since when it is down.
    pub down_since: Millis,
    /// Its load, as it says.
    pub load: Option<i64>,
    /// The highest epoch that it had handled at its last report.
    pub highest: Epoch,
    /// Its conferences, by epoch.
    pub owned: BTreeSet<(Epoch, u32)>,
    /// Conferences that move to it, by epoch.
    pub targets: BTreeSet<(Epoch, u32)>,
}

impl Unit {
    /// Whether something may be placed on it.
    pub fn takes(&self) -> bool {
        self.standing == Standing::Up && !self.draining && self.reported
    }

    /// Its state as people see it.
    pub fn word(&self) -> &'static str {
        if self.draining && self.standing == Standing::Up { "draining" } else { self.standing.word() }
    }

    /// When it becomes suspect.
    pub fn suspect_at(&self) -> Millis {
        self.renewed
            .saturating_add(self.lease / 100 * SUSPECT_PERCENT + self.lease % 100 * SUSPECT_PERCENT / 100)
    }

    /// When its lease is over.
    pub fn lease_ends(&self) -> Millis {
        self.renewed.saturating_add(self.lease)
    }

    /// Room that a conference took is free again.
    pub(in crate::conf) fn give_back_room(&mut self, size: u64) {
        let left = self.used.checked_sub(size);
        invariant!(left.is_some(), "the room in use on a unit is that of its conferences");
        self.used = left.unwrap_or(0);
    }

    /// Whether it has no conference and none moves to it.
    pub fn is_idle(&self) -> bool {
        self.owned.is_empty() && self.targets.is_empty()
    }
}

/// What runs units, one after the other: all of an identity before its last two colons.
#[derive(Clone, Debug)]
pub struct Host {
    /// The unit that it runs, unless that was forgotten.
    pub current: Option<u32>,
    /// Identities that others took the place of, oldest first.
    pub replaced: VecDeque<Name>,
}

/// The host of an identity: what is before its last two colons, or all of it where it has not two.
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
