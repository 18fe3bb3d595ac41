//! The settings of a pool.

use crate::shared::Millis;
use crate::words;

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
