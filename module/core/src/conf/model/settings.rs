//! The settings of a realm.

use crate::shared::Millis;
use crate::shared::codec::Damaged;
use crate::shared::refusal::{Code, Refusal};
use crate::shared::token::MAX_TTL;
use crate::{fields, words};

/// The limit of sizes, capacities and licences.
pub const MAX_ROOM: i64 = 1_000_000_000;

/// The limit of `TRIES` and `FAILURES`.
pub const MAX_TRIES: i64 = 100;

words! {
    /// Whether an older copy that is reported again takes its conference back.
    #[derive(Default)]
    pub enum Policy {
        /// The copy that was created earliest continues: people on the current owner are moved a second time.
        Earliest = 0 => "earliest",
        /// The current owner keeps the conference.
        #[default]
        Keep = 1 => "keep",
    }
}

words! {
    /// What placement compares between units.
    #[derive(Default)]
    pub enum Placement {
        /// The share of capacity in use.
        #[default]
        Share = 0 => "share",
        /// The greater of the share of capacity in use and the load that the unit reports.
        Load = 1 => "load",
    }
}

fields! {
    /// The settings of a realm, which operators change.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Settings {
        /// Licences in total; 0 for no limit.
        pub licences: u64,
        /// How long a unit that failed to create a conference is not tried again, in milliseconds.
        pub retry: Millis,
        /// How long a conference may wait for recovery, in milliseconds.
        pub window: Millis,
        /// Which of two copies continues.
        pub policy: Policy,
        /// How long a unit may take to create a conference, in milliseconds.
        pub create_timeout: Millis,
        /// How long a unit may take to end a conference, in milliseconds.
        pub release_timeout: Millis,
        /// How long a unit may take to report a waiting conference, in milliseconds.
        pub wait_timeout: Millis,
        /// How long the record of an ended conference or of a down unit is kept, in milliseconds.
        pub tombstone: Millis,
        /// What placement compares between units.
        pub placement: Placement,
        /// The most units on which a creation is tried before the conference ends.
        pub tries: i64,
        /// Creations that must fail in a row on a unit before the unit gets a back-off.
        pub failures: i64,
        /// How long before the planned end of a conference its unit is told that the end is near, in milliseconds; 0 for
        /// never.
        pub warn: Millis,
        /// How long after a unit has joined its share of new conferences rises to that of the others, in milliseconds; 0
        /// for the whole share at once.
        pub ramp: Millis,
    } checked by Settings::is_sound;
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            licences: 0,
            retry: 300_000,
            window: 1_800_000,
            policy: Policy::Keep,
            create_timeout: 10_000,
            release_timeout: 15_000,
            wait_timeout: 30_000,
            tombstone: 600_000,
            placement: Placement::Share,
            tries: 3,
            failures: 3,
            warn: 0,
            ramp: 0,
        }
    }
}

impl Settings {
    fn is_sound(&self) -> Result<(), Damaged> {
        self.check().map_err(|_| Damaged("a setting is out of range"))
    }

    /// Checks that each setting is in its range.
    pub(in crate::conf) fn check(&self) -> Result<(), Refusal> {
        if self.licences > MAX_ROOM as u64 {
            return Err(Refusal::new(
                Code::Err,
                format!("LICENCES must be 0 to {MAX_ROOM}, not {}", self.licences),
            ));
        }
        for (name, count) in [("TRIES", self.tries), ("FAILURES", self.failures)] {
            if !(1..=MAX_TRIES).contains(&count) {
                return Err(Refusal::new(Code::Err, format!("{name} must be 1 to {MAX_TRIES}, not {count}")));
            }
        }
        for (name, time) in [("WARN", self.warn), ("RAMP", self.ramp)] {
            if !(0..=MAX_TTL).contains(&time) {
                return Err(Refusal::new(Code::Err, format!("{name} must be 0 to {MAX_TTL} ms, not {time}")));
            }
        }
        let times = [
            ("RETRY", self.retry),
            ("WINDOW", self.window),
            ("CREATETIMEOUT", self.create_timeout),
            ("RELEASETIMEOUT", self.release_timeout),
            ("WAITTIMEOUT", self.wait_timeout),
            ("TOMBSTONE", self.tombstone),
        ];
        match times.into_iter().find(|(_, time)| !(1..=MAX_TTL).contains(time)) {
            None => Ok(()),
            Some((name, time)) => {
                Err(Refusal::new(Code::Err, format!("{name} must be 1 to {MAX_TTL} ms, not {time}")))
            }
        }
    }
}
