//! The value of a key: a family's state, and data of this process about it.

use std::sync::atomic::Ordering;

use allot_core::shared::codec::LAST_REACHED;
use rustix::time::{ClockId, clock_gettime};

use super::config::MAX_CLOCK_LEAD;
use super::deadlines::NEVER;
use super::family::{Family, MAX_GAUGES};
use super::waiting;

/// A state, and data of this process about it. These data are neither saved nor replicated.
pub(crate) struct Value<F: Family> {
    pub(crate) state: F,
    /// The time at which the timer will look at this key, in ms since the epoch; `NEVER` if the timer does not know it.
    pub(crate) watched: i64,
    /// Whether more messages wait than one step may send.
    pub(crate) unsent: bool,
    /// How often this server had become a replica when the state was last changed, or was created here.
    demotions: u32,
    /// When the key's maintenance is due next, in ms since the epoch.
    pub(crate) maintenance_at: i64,
    /// Where the next part of the maintenance begins.
    pub(crate) maintenance_place: usize,
    /// When the last change was applied, or the value was loaded, by `uptime`.
    changed: i64,
    /// This state's parts of the family's gauges.
    gauges: [i64; MAX_GAUGES],
}

impl<F: Family> Value<F> {
    pub(crate) fn new(state: F) -> Self {
        let uptime = uptime();
        let mut value = Self {
            state,
            watched: NEVER,
            unsent: false,
            demotions: waiting::demotions(),
            maintenance_at: F::MAINTENANCE_FROM,
            maintenance_place: 0,
            changed: uptime,
            gauges: [0; MAX_GAUGES],
        };
        value.recount(uptime);
        value
    }

    /// *Now* of the state, which never goes back. Normally it is the clock. If the state is ahead of the clock, its
    /// time waits for the clock. If it is ahead by more than `allot.max-clock-lead`, its time continues with the time
    /// that has elapsed since the last change, because the clock may need a day to catch up.
    pub(crate) fn now(&self, clock: i64) -> i64 {
        self.now_at(clock, uptime())
    }

    /// As `now`, at an uptime that was read before.
    pub(crate) fn now_at(&self, clock: i64, uptime: i64) -> i64 {
        let elapsed = uptime - self.changed;
        let continued = (self.state.now(0) + elapsed).min(LAST_REACHED);
        // While a key is idle, the lead of the time that continues stays the same. The lead of the last change shrinks
        // as the clock advances, and the time would fall back.
        if lead(continued, clock) > 0 { continued } else { self.state.now(clock) }
    }

    /// Forgets the waiters and the requests from before this server last became a replica: the server has answered
    /// their clients.
    pub(crate) fn forget_earlier_waiters(&mut self) {
        let demotions = waiting::demotions();
        if std::mem::replace(&mut self.demotions, demotions) != demotions {
            self.state.forget_waiters(None);
        }
    }

    /// Records that the state has changed at this uptime: elapsed time counts from then, and the family's gauges are
    /// updated.
    pub(crate) fn recount(&mut self, uptime: i64) {
        self.changed = uptime;
        for ((gauge, sum), counted) in F::GAUGES.iter().zip(&F::statics().gauges).zip(&mut self.gauges) {
            let part = (gauge.part)(&self.state);
            if part != *counted {
                sum.fetch_add(part - *counted, Ordering::Relaxed);
                *counted = part;
            }
        }
    }
}

/// Milliseconds since the machine has started: a clock that is never set. Coarse, because every step reads it; whole
/// milliseconds, so that the time between frequent changes adds up exactly.
pub(crate) fn uptime() -> i64 {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    time.tv_sec * 1000 + time.tv_nsec / 1_000_000
}

/// How far a time of a state is ahead of the clock, if it continues with elapsed time; otherwise 0.
pub(crate) fn lead(now: i64, clock: i64) -> i64 {
    let lead = now - clock;
    if lead > MAX_CLOCK_LEAD.get() { lead } else { 0 }
}

impl<F: Family> Drop for Value<F> {
    fn drop(&mut self) {
        for (sum, counted) in F::statics().gauges.iter().zip(self.gauges) {
            sum.fetch_sub(counted, Ordering::Relaxed);
        }
    }
}
