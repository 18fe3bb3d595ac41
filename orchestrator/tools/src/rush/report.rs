//! The report of a load test: throughput, latencies, results, and whether the totals of the show agree with what the buyers
//! saw.

use hdrhistogram::Histogram;
use serde::Serialize;

use super::tally::{Counts, Tally};
use allot_client::Bucket;

/// The totals of a show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Books {
    pub(super) all: u64,
    pub(super) free: u64,
    pub(super) held: u64,
    pub(super) sold: u64,
    pub(super) blocked: u64,
}

impl Books {
    /// Sums over the buckets of a show.
    pub(super) fn of(buckets: &[Bucket]) -> Self {
        buckets.iter().fold(Self::default(), |sum, bucket| Self {
            all: sum.all + bucket.all(),
            free: sum.free + bucket.free,
            held: sum.held + bucket.held,
            sold: sum.sold + bucket.sold,
            blocked: sum.blocked + bucket.blocked,
        })
    }

    /// Whether no seat was ever held or sold.
    pub(super) fn fresh(&self) -> bool {
        self.held == 0 && self.sold == 0
    }
}

/// The differences between the totals of the show and the results of the buyers. Without other customers there are
/// none; on a show that was not fresh, only the total is known for certain.
pub(super) fn differences(before: Books, after: Books, confirmed: u64, unknown: u64) -> Vec<String> {
    let mut found = Vec::new();
    if before.all != after.all {
        found.push(format!("the show had {} seats and now has {}", before.all, after.all));
    }
    if before.fresh() {
        let expected = confirmed..=confirmed + unknown;
        if !expected.contains(&after.sold) {
            found.push(format!("{confirmed} seats were confirmed to us, and {} are sold", after.sold));
        }
        if after.held != 0 {
            found.push(format!("{} seats are held though every hold is over", after.held));
        }
        if before.blocked != after.blocked {
            found.push(format!("{} seats were blocked, now {} are", before.blocked, after.blocked));
        }
    }
    found
}

/// Percentiles of one operation, in microseconds.
#[derive(Debug, Serialize)]
struct Latency {
    operation: &'static str,
    count: u64,
    p50: u64,
    p90: u64,
    p99: u64,
    p999: u64,
    max: u64,
}

/// The report.
#[derive(Debug, Serialize)]
pub struct Report {
    key: String,
    buyers: u64,
    connections: usize,
    seconds: f64,
    purchases_per_second: u64,
    seats_per_second: u64,
    #[serde(flatten)]
    counts: Counts,
    latency_us: Vec<Latency>,
    before: Books,
    after: Books,
    /// Whether no seat was held or sold before.
    fresh: bool,
    differences: Vec<String>,
    faults: Vec<String>,
    /// The error that ended the run.
    pub error: Option<String>,
}

impl Report {
    /// The report of a run.
    pub(super) fn new(
        key: &str,
        (buyers, connections): (u64, usize),
        tally: &Tally,
        (before, after): (Books, Books),
    ) -> Self {
        let counts = tally.counts.clone();
        let seconds = tally.busy().as_secs_f64();
        let per_second = |number: u64| (number as f64 / seconds.max(1e-6)).round() as u64;
        let latency = |&(operation, ref times): &(&'static str, Histogram<u64>)| {
            let [p50, p90, p99, p999] = [0.5, 0.9, 0.99, 0.999].map(|at| times.value_at_quantile(at));
            Latency { operation, count: times.len(), p50, p90, p99, p999, max: times.max() }
        };
        let operations = tally.latencies.iter().filter(|(_, times)| !times.is_empty());
        Self {
            key: key.to_owned(),
            buyers,
            connections,
            seconds: (seconds * 1000.0).round() / 1000.0,
            purchases_per_second: per_second(counts.granted),
            seats_per_second: per_second(counts.seats_granted),
            latency_us: operations.map(latency).collect(),
            before,
            after,
            fresh: before.fresh(),
            differences: differences(before, after, counts.seats_confirmed, counts.seats_unknown),
            faults: tally.faults.clone(),
            error: tally.error.clone(),
            counts,
        }
    }

    /// Whether no seat had two holders, no hold ended too early, and the totals agree.
    pub fn holds(&self) -> bool {
        self.counts.double_holders == 0 && self.counts.breaches == 0 && self.differences.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn books(free: u64, held: u64, sold: u64) -> Books {
        Books { all: free + held + sold + 1, free, held, sold, blocked: 1 }
    }

    #[test]
    fn books_that_agree_have_no_difference() {
        assert!(differences(books(10, 0, 0), books(3, 0, 7), 7, 0).is_empty());
        assert!(differences(books(10, 0, 0), books(3, 0, 7), 5, 2).is_empty());
        assert!(differences(books(9, 1, 0), books(3, 0, 7), 2, 0).is_empty(), "others were there before us");
    }

    #[test]
    fn books_that_differ_are_told() {
        assert!(differences(books(10, 0, 0), books(3, 0, 7), 8, 0)[0].contains("8 seats were confirmed"));
        assert!(differences(books(10, 0, 0), books(3, 0, 7), 4, 2)[0].contains("7 are sold"));
        assert!(differences(books(10, 0, 0), books(2, 1, 7), 7, 0)[0].contains("1 seats are held"));
        assert!(differences(books(9, 1, 0), books(3, 0, 6), 0, 0)[0].contains("had 11 seats and now has 10"));
    }
}
