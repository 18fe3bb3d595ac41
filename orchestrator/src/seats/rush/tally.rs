//! What the buyers saw: counts, latencies, and everything that should not have happened.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;

use super::ledger::Double;
use crate::store::{Error, Hold};

/// Faults beyond this many are only counted.
const KEPT: usize = 20;

/// What is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Hold,
    Confirm,
    Release,
}

impl Operation {
    pub(super) const ALL: [(Operation, &'static str); 3] =
        [(Self::Hold, "hold"), (Self::Confirm, "confirm"), (Self::Release, "release")];
}

/// Counts, in purchases and in seats.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) granted: AtomicU64,
    pub(super) confirmed: AtomicU64,
    pub(super) released: AtomicU64,
    pub(super) forgotten: AtomicU64,
    pub(super) too_late: AtomicU64,
    pub(super) nothing_free: AtomicU64,
    pub(super) seats_granted: AtomicU64,
    pub(super) seats_confirmed: AtomicU64,
    /// Seats of a CONFIRM whose answer was lost: sold or not, nobody here knows.
    pub(super) seats_unknown: AtomicU64,
    pub(super) doubles: AtomicU64,
    /// Holds gone before their time, and replies with other seats than asked for.
    pub(super) breaches: AtomicU64,
}

/// All of it, shared by the buyers.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) counts: Counts,
    latencies: [Mutex<Histogram<u64>>; 3],
    faults: Mutex<Vec<String>>,
    error: Mutex<Option<String>>,
}

fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

impl Tally {
    /// Nothing seen yet.
    pub(super) fn new() -> Self {
        // Three digits cannot be refused.
        let fresh =
            || Mutex::new(Histogram::new(3).unwrap_or_else(|_| unreachable!("three digits are allowed")));
        Self {
            counts: Counts::default(),
            latencies: [fresh(), fresh(), fresh()],
            faults: Mutex::default(),
            error: Mutex::default(),
        }
    }

    pub(super) fn took(&self, operation: Operation, time: Duration) {
        if let Some(histogram) = self.latencies.get(operation as usize) {
            histogram
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .saturating_record(time.as_micros() as u64);
        }
    }

    /// The latencies of an operation, in microseconds.
    pub(super) fn latencies(&self, operation: Operation) -> Option<Histogram<u64>> {
        let histogram = self.latencies.get(operation as usize)?;
        Some(histogram.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    pub(super) fn granted(&self, count: u32, hold: &Hold) {
        add(&self.counts.granted, 1);
        add(&self.counts.seats_granted, hold.seats.len() as u64);
        let distinct: HashSet<&String> = hold.seats.iter().collect();
        if hold.seats.len() != count as usize || distinct.len() != hold.seats.len() {
            self.breach(format!("asked for {count} seats, got {:?}", hold.seats));
        }
    }

    pub(super) fn confirmed(&self, sold: u64, held: usize) {
        add(&self.counts.confirmed, 1);
        add(&self.counts.seats_confirmed, held as u64);
        if sold != held as u64 {
            self.breach(format!("a hold of {held} seats was confirmed as {sold} seats"));
        }
    }

    pub(super) fn released(&self) {
        add(&self.counts.released, 1);
    }

    pub(super) fn forgotten(&self) {
        add(&self.counts.forgotten, 1);
    }

    pub(super) fn nothing_free(&self) {
        add(&self.counts.nothing_free, 1);
    }

    pub(super) fn unknown(&self, seats: usize) {
        add(&self.counts.seats_unknown, seats as u64);
    }

    /// A hold was gone; `early` if before its time.
    pub(super) fn came_too_late(&self, early: bool) {
        add(&self.counts.too_late, 1);
        if early {
            self.breach("a hold was gone before its time".to_owned());
        }
    }

    pub(super) fn doubles(&self, doubles: Vec<Double>) {
        add(&self.counts.doubles, doubles.len() as u64);
        for Double { seat, holder, other } in doubles {
            self.fault(format!("seat {seat} is held by purchase {holder} and was given to purchase {other}"));
        }
    }

    /// Keeps the first error that ended the run.
    pub(super) fn error(&self, error: &Error) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| error.to_string());
    }

    /// The error that ended the run.
    pub(super) fn first_error(&self) -> Option<String> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The first things that should not have happened.
    pub(super) fn faults(&self) -> Vec<String> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn breach(&self, what: String) {
        add(&self.counts.breaches, 1);
        self.fault(what);
    }

    fn fault(&self, what: String) {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        if faults.len() < KEPT {
            faults.push(what);
        }
    }
}
