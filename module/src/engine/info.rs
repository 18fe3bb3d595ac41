//! `INFO allot`: counters of events in this process, and gauges of its state (docs/operate.md).

use allot_core::shared::text::quoted;
use std::collections::BTreeSet;
use std::ffi::CStr;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::deadlines;
use super::entry::FamilyEntry;
use super::warnings;
use crate::ffi::Context;
use crate::ffi::info::InfoWriter;
use crate::ffi::string::current;

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
    /// Keys with seats, leases, conferences or logins in use that a command deleted or overwrote.
    KEYS_DELETED_IN_USE = c"keys_deleted_in_use";
    /// Such keys that expired or were evicted.
    KEYS_DROPPED_IN_USE = c"keys_dropped_in_use";
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
        info.unsigned(c"warnings", warnings::count() as u64);
    }
}

// Bugs that come to light while the server runs: counted, and logged once per place in the code, with the type and the
// name of the key that was worked on.

/// Places that have been logged.
static LOGGED: Mutex<BTreeSet<(&str, u32)>> = Mutex::new(BTreeSet::new());

/// Reports a broken invariant of a state machine.
pub(crate) fn broken_invariant(what: &'static str, place: &'static Location<'static>) {
    INTERNAL_ERRORS.add(1);
    // A panic elsewhere while the set was locked does it no harm.
    let mut logged = LOGGED.lock().unwrap_or_else(PoisonError::into_inner);
    if logged.insert((place.file(), place.line())) {
        log(&format!("broken invariant, place={place}: {what}; further ones of this place are only counted"));
    }
}

/// Ends the process, because it cannot apply an event of its master or of its append-only file.
pub(crate) fn end_process(why: &str) -> ! {
    log_line(&format!("allot: the server stops{}: {why}", current_key()));
    std::process::exit(1)
}

fn log(what: &str) {
    log_line(&format!("allot: internal error{}: {what}", current_key()));
}

fn log_line(line: &str) {
    Context::detached().log(c"warning", line);
}

/// The type and name of the key that is worked on, for a log line.
fn current_key() -> String {
    match current() {
        Some((kind, name)) => format!(" type={} key={}", kind.to_string_lossy(), quoted(name)),
        None => String::new(),
    }
}
