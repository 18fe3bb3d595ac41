//! The settings of a pool.

use crate::shared::Millis;
use crate::shared::token::MAX_TTL;
use crate::{fields, words};

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

/// The settings of a pool: defaults of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
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
}

/// The most caps of a pool.
pub const MAX_CAPS: usize = 4;

fields! {
    /// How many calls a number may begin within a window.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Cap {
        /// Length of the window, in milliseconds.
        pub window: Millis,
        /// The most calls within any such window; 1 to 10,000.
        pub count: u32,
    }
}

/// The most calls of a cap.
pub const MAX_COUNT: u32 = 10_000;

impl Cap {
    /// Whether its window and its count are in their ranges.
    pub fn is_sound(&self) -> bool {
        (1..=MAX_TTL).contains(&self.window) && (1..=MAX_COUNT).contains(&self.count)
    }
}

/// The caps of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caps {
    list: [Cap; MAX_CAPS],
    len: u8,
}

impl Caps {
    /// These caps; `None` for more than four.
    pub fn of(caps: &[Cap]) -> Option<Self> {
        let mut all = Self { len: caps.len() as u8, ..Self::default() };
        all.list.get_mut(..caps.len())?.copy_from_slice(caps);
        Some(all)
    }

    /// The caps, in the order in which they were given.
    pub fn iter(&self) -> impl Iterator<Item = Cap> + '_ {
        self.list.iter().copied().take(self.len.into())
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The longest window, in milliseconds; 0 without caps.
    pub(in crate::numpool) fn window(&self) -> Millis {
        self.iter().map(|cap| cap.window).max().unwrap_or(0)
    }
}
