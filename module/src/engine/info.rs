//! `INFO allot`: counters of what this process did, and gauges of what it keeps (docs/operation.md).

use std::ffi::CStr;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::deadlines;
use crate::ffi::info::InfoWriter;

/// A count since the process started. Not part of any state: a replica counts what it applied.
pub(crate) struct Counter {
    /// Its field in `INFO`.
    pub(crate) name: &'static CStr,
    value: AtomicU64,
}

impl Counter {
    pub(crate) const fn new(name: &'static CStr) -> Self {
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
    /// Bugs: broken invariants, events from a master that do not fit, and calls that were answered `ERR internal`.
    INTERNAL_ERRORS = c"internal_errors";
}

/// What is told in `INFO` of a family.
#[derive(Clone, Copy)]
struct Source {
    counters: &'static [&'static Counter],
    gauge: &'static CStr,
    value: &'static AtomicI64,
}

/// The families, in the order of their registration.
static SOURCES: Mutex<Vec<Source>> = Mutex::new(Vec::new());

fn sources() -> Vec<Source> {
    // A panic elsewhere while the list was locked does it no harm.
    SOURCES.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Has a family's counters and its gauge told in `INFO`; once, at load.
pub(crate) fn add_family(
    counters: &'static [&'static Counter],
    gauge: &'static CStr,
    value: &'static AtomicI64,
) {
    let source = Source { counters, gauge, value };
    SOURCES.lock().unwrap_or_else(PoisonError::into_inner).push(source);
}

/// Writes what this process has counted, and what it keeps at the moment.
pub(crate) fn write(info: &InfoWriter) {
    if info.section(c"stats") {
        let families = sources().into_iter().flat_map(|source| source.counters);
        for counter in families.chain(COUNTERS) {
            info.unsigned(counter.name, counter.get());
        }
    }
    if info.section(c"state") {
        for source in sources() {
            info.signed(source.gauge, source.value.load(Ordering::Relaxed));
        }
        info.signed(c"keys_waiting_for_timer", deadlines::waiting() as i64);
    }
}
