//! The settings of a pool.

use super::last_numbers::MAX_PEERS;
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
    }

    /// How many calls may begin within a window.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Cap {
        /// Length of the window, in milliseconds.
        pub window: Millis,
        /// The most calls within any such window; 1 to 10,000.
        pub count: u32,
    }
}

/// The most caps of a pool.
pub const MAX_CAPS: usize = 4;

/// The most calls of a cap.
pub const MAX_COUNT: u32 = 10_000;

impl Settings {
    /// Whether all settings are in their ranges.
    fn is_sound(&self) -> bool {
        let spans = [self.lease, self.cooldown, self.regttl, self.peerttl];
        spans.iter().all(|span| (0..=MAX_TTL).contains(span))
            && self.peers <= MAX_PEERS
            && self.caps.len() <= MAX_CAPS
            && self.caps.iter().chain(&self.rate).all(Cap::is_sound)
    }

    /// The longest window of the caps, in milliseconds; 0 without caps.
    pub(in crate::numpool) fn longest_cap(&self) -> Millis {
        self.caps.iter().map(|cap| cap.window).max().unwrap_or(0)
    }
}

impl Cap {
    /// Whether its window and its count are in their ranges.
    pub fn is_sound(&self) -> bool {
        (1..=MAX_TTL).contains(&self.window) && (1..=MAX_COUNT).contains(&self.count)
    }

    /// When the oldest call leaves the window that fills it together with all later ones. `starts` rise. O(1).
    pub(in crate::numpool) fn full_until(&self, starts: &VecDeque<Millis>) -> Option<Millis> {
        let oldest = starts.len().checked_sub(self.count as usize)?;
        starts.get(oldest).map(|start| start.saturating_add(self.window))
    }
}
