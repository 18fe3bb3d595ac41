//! What lives behind a key: a family's state, and what this process knows about it.

use std::sync::atomic::Ordering;
use std::time::Instant;

use allot_core::shared::codec::LAST_REACHED;

use super::config::MAX_CLOCK_LEAD;
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
    /// When the last change was applied, or the value was loaded.
    changed: Instant,
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
            changed: Instant::now(),
            gauge: 0,
        };
        value.recount();
        value
    }

    /// *Now* of the state, which never goes back: the clock. Where the state is ahead of the clock, its time waits for the
    /// clock; where it is ahead by more than `allot.max-clock-lead`, it goes on with the time that has elapsed since the
    /// last change, because the clock may not come back for a day.
    pub(crate) fn now(&self, clock: i64) -> i64 {
        let now = self.state.now(clock);
        if now - clock <= MAX_CLOCK_LEAD.get() {
            return now;
        }
        let elapsed = i64::try_from(self.changed.elapsed().as_millis()).unwrap_or(i64::MAX);
        now.saturating_add(elapsed).min(LAST_REACHED)
    }

    /// How far the state's time is ahead of the clock and runs on elapsed time; else 0.
    pub(crate) fn lead(&self, clock: i64) -> i64 {
        let lead = self.now(clock) - clock;
        if lead > MAX_CLOCK_LEAD.get() { lead } else { 0 }
    }

    /// Notes that the state has changed: its time goes on from here, and the family's gauge follows.
    pub(crate) fn recount(&mut self) {
        self.changed = Instant::now();
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
