//! The settings of a pool.

use super::last_numbers::MAX_PEERS;
use super::record::LATEST;
use crate::shared::Millis;
use crate::shared::token::MAX_TTL;
use crate::{fields, words};
use std::collections::VecDeque;

words! {
    /// Which of the free numbers a call gets. The numbers are the encoding's and never change.
    #[derive(Default)]
    pub enum Policy {
        /// The longest waiting number.
        #[default]
        Longest = 0 => "LONGEST",
        /// Any free number, all equally likely.
        Random = 1 => "RANDOM",
        /// The number with the fewest calls; among equals, the longest waiting.
        LeastUsed = 2 => "LEASTUSED",
        /// The number that last called the peer of this call; otherwise the longest waiting.
        Sticky = 3 => "STICKY",
    }
}

fields! {
    /// The settings of a pool: defaults of requests, and the caps of its numbers.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Settings if is_sound else "a setting is out of range" {
        /// Time to live of a lease, in milliseconds; 0 for no end.
        pub lease: Millis,
        /// Cool-down after a call, in milliseconds; 0 for none.
        pub cooldown: Millis,
        /// Time to live of a registration, in milliseconds; 0 for no end.
        pub regttl: Millis,
        /// How a call picks.
        pub pick: Policy,
        /// Length of the event stream; 0 = there is none.
        pub events: u32,
        /// How many calls a number may begin within windows of time; at most four.
        pub caps: Vec<Cap>,
        /// How many calls the pool may begin within a window, if that is limited.
        pub rate: Option<Cap>,
        /// Of how many peers the pool remembers the last number; 0 = each number remembers its last peer only.
        pub peers: u32,
        /// How long the pool remembers the last number of a peer, in milliseconds; 0 for no end.
        pub peerttl: Millis,
        /// The calendar days that caps count.
        pub days: Days,
    }

    /// Calendar days: one begins at `start`, and all have the same length.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Days {
        /// A midnight, in milliseconds since 1970.
        pub start: Millis,
        /// In milliseconds, 1 or more.
        pub length: Millis,
    }

    /// How many calls may begin within a window.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Cap {
        /// Length of the window, in milliseconds; or `DAY`.
        pub window: Millis,
        /// The most calls within any such window, or within a day; 1 to 10,000.
        pub count: u32,
    }
}

/// Days of UTC.
impl Default for Days {
    fn default() -> Self {
        Self { start: 0, length: 86_400_000 }
    }
}

impl Days {
    /// Whether start and length are in their ranges.
    pub fn is_sound(&self) -> bool {
        (0..=LATEST).contains(&self.start) && (1..=MAX_TTL).contains(&self.length)
    }

    /// When the day began that is at `at`.
    fn begin(self, at: Millis) -> Millis {
        at - (at - self.start).rem_euclid(self.length)
    }
}

/// The window of a cap that counts the calls of the calendar day.
pub const DAY: Millis = 0;

/// The most caps of a pool, or of a number.
pub const MAX_CAPS: usize = 4;

/// The most calls of a cap.
pub const MAX_COUNT: u32 = 10_000;

/// Whether so many caps are allowed, and all are in their ranges.
pub fn are_sound(caps: &[Cap]) -> bool {
    caps.len() <= MAX_CAPS && caps.iter().all(Cap::is_sound)
}

impl Settings {
    /// Whether all settings are in their ranges.
    fn is_sound(&self) -> bool {
        let spans = [self.lease, self.cooldown, self.regttl, self.peerttl];
        spans.iter().all(|span| (0..=MAX_TTL).contains(span))
            && self.peers <= MAX_PEERS
            && are_sound(&self.caps)
            && self.rate.iter().all(Cap::is_sound_rate)
            && self.days.is_sound()
    }

    /// How far back the caps of the pool look, in milliseconds; 0 without caps.
    pub(in crate::numpool) fn longest_cap(&self) -> Millis {
        self.caps.iter().map(|cap| cap.span(self.days)).max().unwrap_or(0)
    }
}

impl Cap {
    /// Whether its window and its count are in their ranges.
    pub fn is_sound(&self) -> bool {
        (DAY..=MAX_TTL).contains(&self.window) && (1..=MAX_COUNT).contains(&self.count)
    }

    /// Whether the same is true of a rate, which counts no days.
    pub fn is_sound_rate(&self) -> bool {
        self.is_sound() && self.window != DAY
    }

    /// How far back the cap looks at most, in milliseconds.
    pub(in crate::numpool) fn span(&self, days: Days) -> Millis {
        if self.window == DAY { days.length } else { self.window }
    }

    /// Until when the cap forbids a call if it does at `at`: the next day, or when the oldest call leaves the window of those
    /// that fill it. `starts` rise, and none is later than `at`. O(1).
    pub(in crate::numpool) fn full_until(
        &self,
        starts: &VecDeque<Millis>,
        days: Days,
        at: Millis,
    ) -> Option<Millis> {
        let oldest = starts.len().checked_sub(self.count as usize)?;
        let start = *starts.get(oldest)?;
        let (from, span) =
            if self.window == DAY { (days.begin(at), days.length) } else { (start, self.window) };
        (start >= from).then(|| from.saturating_add(span))
    }
}
