//! Counters that only grow: epochs, arrivals, months. Each has one bound, and every counter that a snapshot may hold
//! can be written and read again after the next step.
//!
//! No counter reaches its bound by itself: 2^53 epochs last for centuries. A forged value begins near it. A state whose
//! counter is too near its bound for another step is read, but changed by no request, no deadline and no event.

use super::codec::{Damaged, LAST_COUNT};
use super::refusal::{Code, Refusal, refuse};

/// More than one request, with the deadlines before it, counts.
const STEP_ROOM: u64 = 1 << 40;

/// More than one event counts: an event takes a byte at least for each thing that it counts.
const EVENT_ROOM: u64 = 1 << 32;

/// A counter, and how near its bound it is.
#[derive(Clone, Copy, Debug)]
pub struct Counter {
    /// The name of the counter in error messages.
    pub what: &'static str,
    /// Its value.
    pub value: u64,
    /// Its highest value.
    pub last: u64,
    /// More than one request counts.
    pub step: u64,
    /// More than one event counts.
    pub event: u64,
}

impl Counter {
    /// A counter up to `LAST_COUNT`.
    pub fn new(what: &'static str, value: u64) -> Self {
        Self { what, value, last: LAST_COUNT, step: STEP_ROOM, event: EVENT_ROOM }
    }

    /// Whether a request or a deadline may increase the counter.
    pub fn has_room(&self) -> bool {
        self.value <= self.last - self.step
    }

    /// Refuses a request that could bring the counter over its bound.
    ///
    /// # Errors
    /// `ERR` with the counter and its bound.
    pub fn check_room(&self) -> Result<(), Refusal> {
        if self.has_room() {
            return Ok(());
        }
        let Self { what, value, last, .. } = self;
        let text = format!(
            "the {what} of this key is {value}, too near its limit {last}: the key can be read and deleted, and no longer changed"
        );
        refuse(Code::Err, text)
    }

    /// Refuses another server's event that could bring the counter over its bound.
    ///
    /// # Errors
    /// The counter is so high that no master could have decided the event.
    pub fn check_event(&self) -> Result<(), Damaged> {
        if self.value <= self.last - self.event {
            return Ok(());
        }
        Err(Damaged("a counter of the key is too near its limit"))
    }
}
