//! `INFO allot`: counters of events in this process, and gauges of its state (docs/operate.md).

use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::deadlines;
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

/// The fields of a family in `INFO`.
#[derive(Clone)]
pub(crate) struct Source {
    /// The counters of its events: the field and the count of each.
    pub(crate) events: Vec<(CString, &'static Count)>,
    /// Its other counters.
    pub(crate) counters: &'static [&'static Counter],
    /// Its gauges: the field and the value of each.
    pub(crate) gauges: Vec<(&'static CStr, &'static AtomicI64)>,
}

/// The families, in the order of their registration.
static SOURCES: Mutex<Vec<Source>> = Mutex::new(Vec::new());

fn sources() -> Vec<Source> {
    // A panic elsewhere while the list was locked does it no harm.
    SOURCES.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Registers a source of fields for `INFO`; once, at load.
pub(crate) fn add_source(source: Source) {
    SOURCES.lock().unwrap_or_else(PoisonError::into_inner).push(source);
}

/// Writes the counters and the gauges of this process.
pub(crate) fn write(info: &InfoWriter) {
    if info.section(c"stats") {
        let told = |counter: &Counter| info.unsigned(counter.name, counter.count.get());
        for source in sources() {
            source.events.iter().for_each(|(field, count)| info.unsigned(field, count.get()));
            source.counters.iter().copied().for_each(told);
        }
        COUNTERS.iter().copied().for_each(told);
    }
    if info.section(c"state") {
        for source in sources() {
            source.gauges.iter().for_each(|(field, value)| info.signed(field, value.load(Ordering::Relaxed)));
        }
        info.signed(c"keys_waiting_for_timer", deadlines::waiting() as i64);
    }
}
