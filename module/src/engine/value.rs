//! What lives behind a key: a family's state, and what this process knows about it.

use std::sync::atomic::Ordering;

use super::deadlines::NEVER;
use super::family::Family;

/// A state and what this process knows about it, none of which is saved or replicated.
pub(crate) struct Value<F: Family> {
    pub(crate) state: F,
    /// The time for which the timer knows this key, in ms since the epoch; `NEVER` where it does not.
    pub(crate) watched: i64,
    /// Whether more messages wait than one step may send.
    pub(crate) unsent: bool,
    /// When the key's maintenance is due next, in ms since the epoch.
    pub(crate) maintenance_at: i64,
    /// Where the next part of the maintenance begins.
    pub(crate) maintenance_place: usize,
    /// This state's part of the family's gauge.
    gauge: i64,
}

impl<F: Family> Value<F> {
    pub(crate) fn new(state: F) -> Self {
        let mut value = Self {
            state,
            watched: NEVER,
            unsent: false,
            maintenance_at: F::MAINTENANCE_FROM,
            maintenance_place: 0,
            gauge: 0,
        };
        value.recount();
        value
    }

    /// Brings the family's gauge up to this state.
    pub(crate) fn recount(&mut self) {
        let gauge = self.state.gauge();
        if gauge != self.gauge {
            F::shelf().gauge.fetch_add(gauge - self.gauge, Ordering::Relaxed);
            self.gauge = gauge;
        }
    }
}

impl<F: Family> Drop for Value<F> {
    fn drop(&mut self) {
        F::shelf().gauge.fetch_sub(self.gauge, Ordering::Relaxed);
    }
}
