//! The rate limit of recovery: a token bucket for each unit, so that no unit is assigned more conferences at once, or
//! more per second, than it can open. The tokens are taken a part at a time, so that units do not start their conferences
//! in lockstep. No clock, no I/O: the caller passes the time.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use allot_client::Grant;

/// Of all tokens, at most one in so many is taken at one moment.
const PARTS: f64 = 25.0;

/// The token buckets of all target units.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    per_second: f64,
    burst: f64,
    /// Tokens that may be taken now, at most the burst, by unit.
    units: BTreeMap<String, f64>,
    refilled: Option<Instant>,
}

impl RateLimiter {
    /// Each unit takes `per_second` conferences per second, and at most `burst` at once.
    pub(crate) fn new(per_second: u32, burst: u32) -> Self {
        Self {
            per_second: f64::from(per_second),
            burst: f64::from(burst),
            units: BTreeMap::new(),
            refilled: None,
        }
    }

    /// Sets the target units, and refills their buckets for the time since the last call. A new unit starts with a full
    /// bucket.
    pub(crate) fn refill<'a>(&mut self, units: impl Iterator<Item = &'a str>, now: Instant) {
        let passed = self.refilled.map_or(Duration::ZERO, |refilled| now.saturating_duration_since(refilled));
        self.refilled = Some(now);
        let more = passed.as_secs_f64() * self.per_second;
        let level = |cmu| self.units.get(cmu).map_or(self.burst, |level| (level + more).min(self.burst));
        self.units = units.map(|cmu| (cmu.to_owned(), level(cmu))).collect();
    }

    /// How many conferences are recovered at one moment, at most. With full buckets and the usual burst of 10 these are
    /// fewer than half as many as there are units.
    pub(crate) fn part(&self) -> u32 {
        (self.units.values().sum::<f64>() / PARTS).ceil() as u32
    }

    /// The most conferences that one command may recover. Redis chooses the target units. Because it may choose one
    /// unit for the whole batch, a batch is no larger than the remaining allowance of the busiest unit.
    pub(crate) fn allowance(&self) -> u32 {
        let least = self.units.values().copied().fold(f64::INFINITY, f64::min);
        // The sum of the parts of a token may be a little less than the token.
        if least.is_finite() { (least + 1e-9).max(0.0) as u32 } else { 0 }
    }

    /// Takes a token for each conference that was recovered.
    pub(crate) fn take(&mut self, grants: &[Grant]) {
        for grant in grants {
            // A unit that joined since the last refill starts with a full bucket.
            *self.units.entry(grant.cmu.clone()).or_insert(self.burst) -= 1.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn grant(cmu: usize) -> Grant {
        Grant { e164: "1".into(), cmu: format!("u{cmu}"), epoch: 1 }
    }

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("u{number}")).collect()
    }

    #[test]
    fn without_units_nothing_may_be_recovered() {
        let mut rate = RateLimiter::new(50, 10);
        assert_eq!(rate.allowance(), 0);
        rate.refill(std::iter::empty(), Instant::now());
        assert_eq!(rate.allowance(), 0);
    }

    #[test]
    fn one_burst_recovers_100_conferences_to_10_units() {
        let (mut rate, units) = (RateLimiter::new(50, 10), names(10));
        rate.refill(units.iter().map(String::as_str), Instant::now());
        let (mut placed, mut calls) = (0, 0);
        // The last few wait until the unit that was chosen first has a token again.
        while rate.allowance() > 0 && placed < 100 {
            let count = (rate.allowance() as usize).min(100 - placed);
            let grants: Vec<Grant> = (placed..placed + count).map(|number| grant(number % 10)).collect();
            rate.take(&grants);
            (placed, calls) = (placed + count, calls + 1);
        }
        assert!(placed > 90, "{placed}");
        assert!(calls < 40, "{calls} calls");
    }

    #[test]
    fn few_units_are_assigned_conferences_at_one_moment() {
        let (mut rate, units, start) = (RateLimiter::new(50, 10), names(10), Instant::now());
        rate.refill(units.iter().map(String::as_str), start);
        assert_eq!(rate.part(), 4);
        // Nothing is lost: a part is at least one conference, as long as a unit has a token.
        let mut taken = 0;
        while rate.allowance() > 0 {
            let part = rate.part().min(rate.allowance()) as usize;
            assert!(part > 0);
            rate.take(&(taken..taken + part).map(|number| grant(number % 10)).collect::<Vec<_>>());
            taken += part;
        }
        assert!(taken > 90, "{taken}");
    }

    #[test]
    fn rate_is_kept_in_the_long_run() {
        // A bucket for one conference yields one in each tick.
        for (burst, expected) in [(10, 3000), (1, 1200)] {
            let (start, mut rate) = (Instant::now(), RateLimiter::new(50, burst));
            let mut taken = 0;
            for tick in 0..1200 {
                rate.refill(["u0"].into_iter(), start + Duration::from_millis(tick * 50));
                let grants: Vec<Grant> = (0..rate.allowance()).map(|_| grant(0)).collect();
                taken += grants.len();
                rate.take(&grants);
            }
            assert!(taken.abs_diff(expected) <= 10, "{taken} of {expected} conferences in a minute");
        }
    }

    proptest! {
        /// No unit gets more than its burst and its rate allow, however Redis chooses the units.
        #[test]
        fn no_unit_gets_more_than_its_rate_allows(
            choices in prop::collection::vec((0usize..5, 0u64..200), 1..200),
        ) {
            let (start, units) = (Instant::now(), names(5));
            let (mut rate, mut at) = (RateLimiter::new(50, 10), 0);
            let mut assigned = [0u64; 5];
            for (unit, pause) in choices {
                at += pause;
                let now = start + Duration::from_millis(at);
                rate.refill(units.iter().map(String::as_str), now);
                let grants: Vec<Grant> = (0..rate.allowance()).map(|_| grant(unit)).collect();
                assigned[unit] += grants.len() as u64;
                rate.take(&grants);
                for count in assigned {
                    prop_assert!(count as f64 <= 10.0 + at as f64 * 0.05 + 0.001);
                }
            }
        }
    }
}
