//! Divides the numbers of a decision over several events.

use crate::numpool::event::{Event, Events, Numbers};
use smallvec::smallvec;

/// The most numbers in an event that writes a message for each number: messages are sent between two events, and only
/// so many are kept.
pub(super) const TOLD_AT_ONCE: usize = crate::shared::outbox::CAPACITY / 4;

/// Events of a part of the numbers each.
pub(super) fn each_some(numbers: Numbers, event: impl Fn(Numbers) -> Event) -> Events {
    if numbers.len() <= TOLD_AT_ONCE {
        return if numbers.is_empty() { Events::new() } else { smallvec![event(numbers)] };
    }
    numbers.chunks(TOLD_AT_ONCE).map(|numbers| event(Numbers::from_slice(numbers))).collect()
}
