//! The settings of a pool.

use crate::shared::Millis;
use crate::words;

words! {
    /// Which of the free numbers a call gets. The numbers are the encoding's and never change.
    #[derive(Default)]
    pub enum Policy {
        /// Who waits longest.
        #[default]
        Longest = 0 => "LONGEST",
        /// Any, each as likely as the others.
        Random = 1 => "RANDOM",
        /// Who was given for the fewest calls; of equals, who waits longest.
        LeastUsed = 2 => "LEASTUSED",
        /// Whose last peer is this call's; else who waits longest.
        Sticky = 3 => "STICKY",
    }
}

/// What a pool does where a request does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Life of a lease; 0 = it has no end.
    pub lease: Millis,
    /// Rest after a call; 0 = none.
    pub cooldown: Millis,
    /// Life of a registration; 0 = it has no end.
    pub regttl: Millis,
    /// How a call picks.
    pub pick: Policy,
    /// Length of the event stream; 0 = there is none.
    pub events: u32,
}
