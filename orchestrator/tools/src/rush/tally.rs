//! The results of the buyers: counts, latencies and faults.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use tokio::time::Instant;

use super::ledger::Double;
use allot_client::{Error, Hold};

/// Faults beyond this many are only counted.
const KEPT: usize = 20;
/// Replies later than this, in microseconds, count as this late: ten minutes.
const LATEST: u64 = 600_000_000;

/// Operations that are timed.
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
    /// Seats of a CONFIRM whose answer was lost: unknown whether they were sold.
    pub(super) seats_unknown: AtomicU64,
    pub(super) doubles: AtomicU64,
    /// Holds gone before their time, and replies with other seats than asked for.
    pub(super) breaches: AtomicU64,
}

/// Results of all buyers, which share this value.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) counts: Counts,
    latencies: [Mutex<Histogram<u64>>; 3],
    created: Instant,
    /// The times of the first request and of the last reply, in microseconds from `created`.
    first_sent: AtomicU64,
    last_reply: AtomicU64,
    faults: Mutex<Vec<String>>,
    doubles: Mutex<HashSet<(String, u64, u64)>>,
    error: Mutex<Option<String>>,
}

fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

impl Tally {
    /// An empty tally.
    pub(super) fn new() -> Self {
        let histogram = || Histogram::new_with_bounds(1, LATEST, 3);
        let fresh = || Mutex::new(histogram().unwrap_or_else(|_| unreachable!("these bounds are allowed")));
        Self {
            counts: Counts::default(),
            latencies: [fresh(), fresh(), fresh()],
            created: Instant::now(),
            first_sent: AtomicU64::new(u64::MAX),
            last_reply: AtomicU64::new(0),
            faults: Mutex::default(),
            doubles: Mutex::default(),
            error: Mutex::default(),
        }
    }

    /// Notes that an operation was just answered, after this time.
    pub(super) fn took(&self, operation: Operation, time: Duration) {
        let now = self.created.elapsed();
        self.first_sent.fetch_min(now.saturating_sub(time).as_micros() as u64, Ordering::Relaxed);
        self.last_reply.fetch_max(now.as_micros() as u64, Ordering::Relaxed);
        if let Some(histogram) = self.latencies.get(operation as usize) {
            histogram
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .saturating_record(time.as_micros() as u64);
        }
    }

    /// From the first request to the last reply; waiting for the last holds to lapse is no part of it.
    pub(super) fn busy(&self) -> Duration {
        let (first, last) =
            (self.first_sent.load(Ordering::Relaxed), self.last_reply.load(Ordering::Relaxed));
        Duration::from_micros(last.saturating_sub(first))
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
        for Double { seat, holder, other } in doubles {
            // A double holder that was reported when the seat was held is found again when the seat is sold.
            let pair = (seat.clone(), holder.min(other), holder.max(other));
            if !self.doubles.lock().unwrap_or_else(PoisonError::into_inner).insert(pair) {
                continue;
            }
            add(&self.counts.doubles, 1);
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

    /// The first faults found.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_replies_are_told_as_they_were() {
        let tally = Tally::new();
        tally.took(Operation::Hold, Duration::from_millis(1));
        tally.took(Operation::Hold, Duration::from_secs(5));
        let times = tally.latencies(Operation::Hold).unwrap();
        assert!((4_990_000..5_010_000).contains(&times.max()), "{}", times.max());
        assert!(tally.latencies(Operation::Release).unwrap().is_empty());
    }

    #[test]
    fn a_double_seen_twice_counts_once() {
        let tally = Tally::new();
        let double = |holder, other| Double { seat: "a".into(), holder, other };
        tally.doubles(vec![double(1, 2)]);
        tally.doubles(vec![double(2, 1), double(1, 3)]);
        assert_eq!((tally.counts.doubles.load(Ordering::Relaxed), tally.faults().len()), (2, 2));
    }

    #[test]
    fn a_hold_of_other_seats_than_asked_for_is_a_breach() {
        let tally = Tally::new();
        let hold =
            |seats: &[&str]| Hold { token: "t".into(), seats: seats.iter().map(|&s| s.into()).collect() };
        tally.granted(2, &hold(&["a", "b"]));
        assert!(tally.faults().is_empty());
        tally.granted(2, &hold(&["a"]));
        tally.granted(2, &hold(&["a", "a"]));
        tally.confirmed(1, 2);
        tally.came_too_late(true);
        assert_eq!((tally.counts.breaches.load(Ordering::Relaxed), tally.faults().len()), (4, 4));
    }
}
