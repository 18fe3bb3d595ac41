//! `INFO allot`: counters of events in this process, and gauges of its state (docs/operate.md).

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};

use super::deadlines;
use super::entry::FamilyEntry;
use crate::ffi::info::InfoWriter;

/// A count since the process started. Not part of any state: a replica counts what it applied.
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub(crate) fn add(&self, count: u64) {
        // Only the server's thread counts, so a load and a store are enough, and cheaper than an atomic add.
        self.0.store(self.0.load(Ordering::Relaxed) + count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A count and its field in `INFO`.
pub(crate) struct Counter {
    name: &'static CStr,
    count: Count,
}

impl Counter {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, count: Count::new() }
    }

    pub(crate) fn add(&self, count: u64) {
        self.count.add(count);
    }
}

/// Defines counters and the list of them.
macro_rules! counters {
    ($(#[doc = $doc:literal] $constant:ident = $name:literal;)*) => {
        $(#[doc = $doc] pub(crate) static $constant: $crate::engine::info::Counter =
            $crate::engine::info::Counter::new($name);)*
        /// All counters of this file, in the order of `INFO`.
        pub(crate) static COUNTERS: &[&$crate::engine::info::Counter] = &[$(&$constant),*];
    };
}
pub(crate) use counters;

counters! {
    /// Messages that could not be put into their stream at once.
    OUTBOX_FAILURES = c"outbox_failures";
    /// Steps of keys whose time runs on elapsed time, because it is too far ahead of the clock.
    STEPS_AHEAD = c"steps_ahead";
    /// Bugs: broken invariants, and calls that were answered `ERR internal`.
    INTERNAL_ERRORS = c"internal_errors";
}

/// Writes counters.
pub(crate) fn write_counters(info: &InfoWriter, counters: &[&Counter]) {
    counters.iter().for_each(|counter| info.unsigned(counter.name, counter.count.get()));
}

/// Writes the counters and the gauges of this process.
pub(crate) fn write(info: &InfoWriter, families: &[FamilyEntry]) {
    if info.section(c"stats") {
        families.iter().for_each(|family| (family.write_counters)(info));
        write_counters(info, COUNTERS);
    }
    if info.section(c"state") {
        families.iter().for_each(|family| (family.write_gauges)(info));
        info.signed(c"keys_waiting_for_timer", deadlines::waiting() as i64);
    }
}
