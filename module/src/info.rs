//! `INFO allot`: counters of what this process did, and gauges of what it keeps (docs/operation.md).

use std::sync::atomic::{AtomicU64, Ordering};

/// A count since the process started. Not part of any state: a replica counts what it applied.
pub(crate) struct Counter {
    /// Its field in `INFO`.
    pub(crate) name: &'static std::ffi::CStr,
    value: AtomicU64,
}

impl Counter {
    const fn new(name: &'static std::ffi::CStr) -> Self {
        Self { name, value: AtomicU64::new(0) }
    }

    pub(crate) fn add(&self, count: u64) {
        // Only the server's thread counts, so a load and a store are enough, and cheaper than an atomic add.
        self.value.store(self.value.load(Ordering::Relaxed) + count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.value.load(Ordering::Relaxed)
    }
}

macro_rules! counters {
    ($(#[doc = $doc:literal] $constant:ident = $name:literal;)*) => {
        $(#[doc = $doc] pub(crate) static $constant: Counter = Counter::new($name);)*
        /// All counters, in the order of `INFO`.
        pub(crate) static COUNTERS: &[&Counter] = &[$(&$constant),*];
    };
}

counters! {
    /// Holds and picks granted.
    SEAT_HELD = c"seat_held";
    /// Holds confirmed.
    SEAT_CONFIRMED = c"seat_confirmed";
    /// Releases, whole or in part.
    SEAT_RELEASED = c"seat_released";
    /// Holds whose deadline passed.
    SEAT_EXPIRED = c"seat_expired";
    /// Refunds.
    SEAT_REFUNDED = c"seat_refunded";
    /// Holds that found too few seats free.
    SEAT_SOLD_OUT = c"seat_sold_out";
    /// Requests refused with an error.
    SEAT_REFUSED = c"seat_refused";
    /// Messages that could not be put into their stream at once.
    OUTBOX_FAILURES = c"outbox_failures";
    /// Bugs: calls that were answered `ERR internal`.
    INTERNAL_ERRORS = c"internal_errors";
}

/// What this process keeps at the moment.
pub(crate) fn gauges() -> [(&'static std::ffi::CStr, i64); 2] {
    [
        (c"seat_live_holds", crate::seat::live_holds()),
        (c"keys_waiting_for_timer", crate::deadlines::waiting() as i64),
    ]
}
