//! The results of the buyers: counts, latencies and faults.

use std::collections::HashSet;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;
use tokio::time::Instant;

use super::ledger::Double;
use allot_client::Hold;

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

/// Counts, in purchases and in seats.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Counts {
    pub(super) granted: u64,
    pub(super) confirmed: u64,
    pub(super) released: u64,
    pub(super) expired: u64,
    pub(super) too_late: u64,
    pub(super) nothing_free: u64,
    pub(super) seats_granted: u64,
    pub(super) seats_confirmed: u64,
    /// Seats of a CONFIRM whose answer was lost: unknown whether they were sold.
    pub(super) seats_unknown: u64,
    pub(super) double_holders: u64,
    /// Holds gone before their time, and replies with other seats than asked for.
    pub(super) breaches: u64,
}

/// Results of all buyers.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) counts: Counts,
    /// By operation, in microseconds.
    pub(super) latencies: [(&'static str, Histogram<u64>); 3],
    /// The first faults found.
    pub(super) faults: Vec<String>,
    /// The error that ended the run.
    pub(super) error: Option<String>,
    /// The times of the first request and of the last reply.
    span: Option<(Instant, Instant)>,
    doubles: HashSet<(String, u64, u64)>,
}

impl Tally {
    /// An empty tally.
    pub(super) fn new() -> Self {
        let latency = |name| {
            let histogram = Histogram::new_with_bounds(1, LATEST, 3);
            (name, histogram.unwrap_or_else(|_| unreachable!("these bounds are allowed")))
        };
        Self {
            counts: Counts::default(),
            latencies: ["hold", "confirm", "release"].map(latency),
            faults: Vec::new(),
            error: None,
            span: None,
            doubles: HashSet::new(),
        }
    }

    /// Notes that an operation that was sent at this time was just answered.
    pub(super) fn took(&mut self, operation: Operation, sent: Instant) {
        let now = Instant::now();
        let first = self.span.map_or(sent, |(first, _)| first.min(sent));
        self.span = Some((first, now));
        if let Some((_, histogram)) = self.latencies.get_mut(operation as usize) {
            histogram.saturating_record(now.saturating_duration_since(sent).as_micros() as u64);
        }
    }

    /// From the first request to the last reply; waiting for the last holds to lapse is no part of it.
    pub(super) fn busy(&self) -> Duration {
        self.span.map_or(Duration::ZERO, |(first, last)| last.saturating_duration_since(first))
    }

    pub(super) fn granted(&mut self, count: u32, hold: &Hold) {
        self.counts.granted += 1;
        self.counts.seats_granted += hold.seats.len() as u64;
        let distinct: HashSet<&String> = hold.seats.iter().collect();
        if hold.seats.len() != count as usize || distinct.len() != hold.seats.len() {
            self.breach(format!("asked for {count} seats, got {:?}", hold.seats));
        }
    }

    pub(super) fn confirmed(&mut self, sold: u64, held: usize) {
        self.counts.confirmed += 1;
        self.counts.seats_confirmed += held as u64;
        if sold != held as u64 {
            self.breach(format!("a hold of {held} seats was confirmed as {sold} seats"));
        }
    }

    /// A hold was gone; `early` if before its time.
    pub(super) fn came_too_late(&mut self, early: bool) {
        self.counts.too_late += 1;
        if early {
            self.breach("a hold was gone before its time".to_owned());
        }
    }

    pub(super) fn doubles(&mut self, doubles: Vec<Double>) {
        for Double { seat, holder, other } in doubles {
            // A double holder that was reported when the seat was held is found again when the seat is sold.
            if self.doubles.insert((seat.clone(), holder.min(other), holder.max(other))) {
                self.counts.double_holders += 1;
                self.fault(format!(
                    "seat {seat} is held by purchase {holder} and was given to purchase {other}"
                ));
            }
        }
    }

    fn breach(&mut self, what: String) {
        self.counts.breaches += 1;
        self.fault(what);
    }

    fn fault(&mut self, what: String) {
        if self.faults.len() < KEPT {
            self.faults.push(what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn slow_replies_are_told_as_they_were() {
        let (mut tally, begin) = (Tally::new(), Instant::now());
        for time in [1, 5000] {
            tokio::time::advance(Duration::from_millis(time)).await;
            tally.took(Operation::Hold, Instant::now() - Duration::from_millis(time));
        }
        let (_, times) = &tally.latencies[0];
        assert!((4_990_000..5_010_000).contains(&times.max()), "{}", times.max());
        assert!(tally.latencies[2].1.is_empty());
        assert_eq!(tally.busy(), begin.elapsed());
    }

    #[test]
    fn a_double_seen_twice_counts_once() {
        let mut tally = Tally::new();
        let double = |holder, other| Double { seat: "a".into(), holder, other };
        tally.doubles(vec![double(1, 2)]);
        tally.doubles(vec![double(2, 1), double(1, 3)]);
        assert_eq!((tally.counts.double_holders, tally.faults.len()), (2, 2));
    }

    #[test]
    fn a_hold_of_other_seats_than_asked_for_is_a_breach() {
        let mut tally = Tally::new();
        let hold = |seats: &[&str]| Hold {
            token: "t".into(),
            seats: seats.iter().map(|&s| s.into()).collect(),
            until: 0,
            orphans: vec![],
        };
        tally.granted(2, &hold(&["a", "b"]));
        assert!(tally.faults.is_empty());
        tally.granted(2, &hold(&["a"]));
        tally.granted(2, &hold(&["a", "a"]));
        tally.confirmed(1, 2);
        tally.came_too_late(true);
        assert_eq!((tally.counts.breaches, tally.faults.len()), (4, 4));
    }
}
