//! The value of a key: a family's state, and data of this process about it.

use allot_core::shared::codec::{LAST_REACHED, Writer};
use allot_core::shared::payload;
use redis_module::raw::RedisModuleType;
use rustix::time::{ClockId, clock_gettime};
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::away;
use super::config::MAX_CLOCK_LEAD;
use super::deadlines::{self, NEVER};
use super::family::{Family, MAX_GAUGES};
use super::lost;
use super::waiting;
use crate::ffi::context::clock;
use crate::ffi::value::Native;

/// How long a message waits before its stream is tried again.
const RETRY_MS: i64 = 1000;

/// The least interval between two maintenances of a key's streams.
const MAINTENANCE_MS: i64 = 5_000;
/// The interval between two parts of one maintenance.
const NEXT_PART_MS: i64 = 10;

/// A state, and data of this process about it. These data are neither saved nor replicated.
pub(crate) struct Value<F: Family> {
    pub(crate) state: F,
    /// The time at which the timer will look at this key, in ms since the epoch; `NEVER` if the timer does not know it.
    pub(crate) watched: i64,
    /// Whether messages wait that the timer can send at once.
    pub(crate) unsent: bool,
    /// Which of the streams with messages is the first to get some next time.
    pub(crate) streams_sent: usize,
    /// The number of the step whose messages are being written; 0 without one.
    pub(crate) sending: u64,
    /// How often this server had become a replica when the state was last changed, or was created here.
    demotions: u32,
    /// How often this server had been away when it last took the state over; `None` before the first time.
    returns: Option<u32>,
    /// When the next part of the maintenance of the key's streams is due, in ms since the epoch.
    pub(crate) maintenance_at: i64,
    /// Where this part begins.
    maintenance_place: usize,
    /// When the streams that were maintained since the first part must be maintained again.
    maintained_until: i64,
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
            streams_sent: 0,
            sending: 0,
            demotions: waiting::demotions(),
            returns: None,
            maintenance_at: F::MAINTENANCE_FROM,
            maintenance_place: 0,
            maintained_until: NEVER,
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

    /// Whether this server has not decided for the state since it was last away.
    #[inline]
    pub(crate) fn was_away(&mut self, clock: i64) -> bool {
        let returns = Some(away::returns(clock));
        std::mem::replace(&mut self.returns, returns) != returns
    }

    /// When the timer must look at a key whose time is `now`, by the clock: for its earliest deadline, to send the rest of
    /// its outbox or to try it again, or for its maintenance.
    pub(super) fn wake_at(&self, now: i64, clock: i64) -> i64 {
        let due = self.state.next_due().unwrap_or(NEVER).min(self.maintenance_at);
        let due = if due == NEVER { due } else { due.saturating_sub(lead(now, clock)) };
        if self.state.outbox().is_empty() || self.sending != 0 {
            due
        } else if self.unsent {
            due.min(clock)
        } else {
            due.min(clock.saturating_add(RETRY_MS))
        }
    }

    /// Has the timer look at a key, whose time is `now`, at its next due time. `place` gives its database and name, which
    /// are only needed if the timer is to look earlier than it would.
    #[inline]
    pub(crate) fn watch<'a>(&mut self, place: impl FnOnce() -> (i32, &'a [u8]), now: i64, clock: i64) {
        let due = deadlines::capped(self.wake_at(now, clock), clock);
        if due < self.watched {
            let (db, name) = place();
            deadlines::watch(&mut self.watched, due, db, name, F::NUMBER);
        }
    }

    /// The streams that are to be maintained now, if any are.
    pub(super) fn streams_to_maintain(&mut self, now: i64) -> Option<Vec<Vec<u8>>> {
        (self.maintenance_at <= now).then(|| self.state.streams_to_maintain(&mut self.maintenance_place))
    }

    /// Notes that some streams were maintained, and when the first of them must be maintained again.
    pub(super) fn has_maintained(&mut self, now: i64, again_at: Option<i64>) {
        let until = self.maintained_until.min(again_at.unwrap_or(NEVER));
        if self.maintenance_place == 0 {
            self.maintenance_at = until.max(now + MAINTENANCE_MS);
            self.maintained_until = NEVER;
        } else {
            self.maintenance_at = now + NEXT_PART_MS;
            self.maintained_until = until;
        }
    }

    /// Notes that the state has changed: meanwhile clients may add entries to streams of the key, as they do to those that
    /// the module does not write.
    pub(super) fn has_changed(&mut self, now: i64) {
        let at = F::maintenance_after_change(now);
        if self.maintenance_place == 0 {
            self.maintenance_at = self.maintenance_at.min(at);
        } else {
            self.maintained_until = self.maintained_until.min(at);
        }
    }

    /// The payload of an internal command that creates the whole state under a key of this name.
    pub(crate) fn snapshot_payload(&self, name: &[u8]) -> Vec<u8> {
        let mut out = Writer::default();
        payload::begin_snapshot(&mut out);
        out.bytes.extend_from_slice(&self.state.encode());
        payload::seal(name, &mut out);
        out.bytes
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

impl<F: Family> Native for Value<F> {
    const TYPE: &'static CStr = F::TYPE;
    const ENCODING: i32 = F::ENCODING;
    const REWRITE: &'static CStr = F::APPLY;

    fn handle() -> &'static AtomicPtr<RedisModuleType> {
        &F::statics().handle
    }

    fn load(bytes: &[u8]) -> Result<Self, String> {
        F::decode(bytes).map(Self::new).map_err(|damaged| damaged.to_string())
    }

    fn save(&self) -> Vec<u8> {
        self.state.encode()
    }

    fn rewrite(&self, name: &[u8]) -> Vec<u8> {
        self.snapshot_payload(name)
    }

    fn allocated(&self) -> usize {
        // What a state allocates includes the state itself, which is in the value's own block.
        self.state.allocated().saturating_sub(size_of::<F>())
    }

    fn free_effort(&self) -> usize {
        self.state.free_effort()
    }

    fn duplicate(&self) -> Self {
        Self::new(self.state.clone())
    }

    fn placed(&mut self, db: i32, name: &[u8]) {
        self.watched = NEVER;
        self.sending = 0;
        self.state.forget_waiters(None);
        let clock = clock();
        let now = self.now(clock);
        self.watch(|| (db, name), now, clock);
    }

    fn displaced(&self, db: i32, name: &[u8]) {
        deadlines::forget(self.watched, db, name, F::NUMBER);
        waiting::key_gone(db, name);
        lost::displaced(db, name, self.state.in_use(), |stream| self.state.stream_length(stream));
    }
}

impl<F: Family> Drop for Value<F> {
    fn drop(&mut self) {
        for (sum, counted) in F::statics().gauges.iter().zip(self.gauges) {
            sum.fetch_sub(counted, Ordering::Relaxed);
        }
    }
}
