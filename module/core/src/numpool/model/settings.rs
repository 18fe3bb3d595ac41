//! The settings of a pool.

use crate::numpool::request::Policy;
use crate::shared::Millis;

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
