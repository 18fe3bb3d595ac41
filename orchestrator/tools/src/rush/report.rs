//! The report of a load test: throughput, latencies, results, and whether the totals of the show agree with what the buyers
//! saw. For people, and as JSON for programs.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use super::tally::{Operation, Tally};
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
    purchases_per_second: f64,
    seats_per_second: f64,
    granted: u64,
    confirmed: u64,
    released: u64,
    expired: u64,
    too_late: u64,
    nothing_free: u64,
    seats_granted: u64,
    seats_confirmed: u64,
    seats_unknown: u64,
    double_holders: u64,
    breaches: u64,
    latency_us: Vec<Latency>,
    before: Books,
    after: Books,
    fresh: bool,
    differences: Vec<String>,
    faults: Vec<String>,
    error: Option<String>,
}

impl Report {
    /// The report of a run.
    pub(super) fn new(
        key: &str,
        (buyers, connections): (u64, usize),
        tally: &Tally,
        (before, after): (Books, Books),
    ) -> Self {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = &tally.counts;
        let (confirmed, unknown) = (count(&counts.seats_confirmed), count(&counts.seats_unknown));
        let seconds = tally.busy().as_secs_f64();
        let per_second = |number: u64| number as f64 / seconds.max(1e-6);
        let latency = |(operation, name)| {
            let times = tally.latencies(operation).filter(|times| !times.is_empty())?;
            let at = |quantile| times.value_at_quantile(quantile);
            let (p50, p90, p99, p999) = (at(0.5), at(0.9), at(0.99), at(0.999));
            Some(Latency { operation: name, count: times.len(), p50, p90, p99, p999, max: times.max() })
        };
        Self {
            key: key.to_owned(),
            buyers,
            connections,
            seconds,
            purchases_per_second: per_second(count(&counts.granted)),
            seats_per_second: per_second(count(&counts.seats_granted)),
            granted: count(&counts.granted),
            confirmed: count(&counts.confirmed),
            released: count(&counts.released),
            expired: count(&counts.forgotten),
            too_late: count(&counts.too_late),
            nothing_free: count(&counts.nothing_free),
            seats_granted: count(&counts.seats_granted),
            seats_confirmed: confirmed,
            seats_unknown: unknown,
            double_holders: count(&counts.doubles),
            breaches: count(&counts.breaches),
            latency_us: Operation::ALL.into_iter().filter_map(latency).collect(),
            before,
            after,
            fresh: before.fresh(),
            differences: differences(before, after, confirmed, unknown),
            faults: tally.faults(),
            error: tally.first_error(),
        }
    }

    /// whether no seat had two holders, no hold ended too early, and the totals agree.
    pub fn holds(&self) -> bool {
        self.double_holders == 0 && self.breaches == 0 && self.differences.is_empty()
    }

    /// The report as text.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{} buyers over {} connections, {:.2} s: {:.0} holds and {:.0} seats a second\n",
            self.buyers, self.connections, self.seconds, self.purchases_per_second, self.seats_per_second
        );
        let _ = writeln!(
            text,
            "holds: {} granted, of them {} confirmed, {} released, {} left to expire, {} came too late; {} times nothing free",
            self.granted, self.confirmed, self.released, self.expired, self.too_late, self.nothing_free
        );
        let _ = writeln!(
            text,
            "latency   {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "count", "p50", "p90", "p99", "p99.9", "max"
        );
        for l in &self.latency_us {
            let ms = |micros: u64| format!("{:.2}ms", micros as f64 / 1000.0);
            let _ = writeln!(
                text,
                "{:<9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
                l.operation,
                l.count,
                ms(l.p50),
                ms(l.p90),
                ms(l.p99),
                ms(l.p999),
                ms(l.max)
            );
        }
        let Books { all, free, held, sold, blocked } = self.after;
        let _ = writeln!(
            text,
            "books: {all} seats = {free} free + {held} held + {sold} sold + {blocked} blocked"
        );
        let _ = writeln!(text, "double holders: {}", self.double_holders);
        for line in self.faults.iter().chain(&self.differences) {
            let _ = writeln!(text, "FAULT: {line}");
        }
        if !self.fresh {
            text += "the show was not fresh: what is sold was not compared with what we bought\n";
        }
        if let Some(error) = &self.error {
            let _ = writeln!(text, "stopped early: {error}");
        }
        text += if self.holds() { "the books balance\n" } else { "THE CHECK FAILED\n" };
        text
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
