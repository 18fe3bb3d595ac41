//! The pace of recovery: a bucket of tokens for each unit, so that none is given more conferences at once than it can
//! open, and none more a second than it can bear. No clock, no I/O.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use allot_client::Grant;

/// The buckets.
#[derive(Debug)]
pub(crate) struct Pace {
    per_second: f64,
    burst: f64,
    units: BTreeMap<String, f64>,
    filled: Option<Instant>,
}

impl Pace {
    /// So many a second for each unit, and so many at once.
    pub(crate) fn new(per_second: u32, burst: u32) -> Self {
        Self {
            per_second: f64::from(per_second),
            burst: f64::from(burst),
            units: BTreeMap::new(),
            filled: None,
        }
    }

    /// These units take conferences now; one that is new begins with a full bucket.
    pub(crate) fn fill<'a>(&mut self, units: impl Iterator<Item = &'a str>, now: Instant) {
        let passed = self.filled.map_or(Duration::ZERO, |filled| now.saturating_duration_since(filled));
        self.filled = Some(now);
        let more = passed.as_secs_f64() * self.per_second;
        let full = self.burst;
        let level = |cmu: &str| self.units.get(cmu).map_or(full, |level| (level + more).min(full));
        self.units = units.map(|cmu| (cmu.to_owned(), level(cmu))).collect();
    }

    /// How many may be placed in one go. The server chooses the units, so even if it chose one for all of them
    /// that one must be able to bear it.
    pub(crate) fn room(&self) -> u32 {
        let least = self.units.values().copied().fold(f64::INFINITY, f64::min);
        if least.is_finite() { least.max(0.0) as u32 } else { 0 }
    }

    /// These were placed.
    pub(crate) fn take(&mut self, grants: &[Grant]) {
        for grant in grants {
            // One that came since the look began with a full bucket.
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
    fn without_units_there_is_no_room() {
        let mut pace = Pace::new(50, 10);
        assert_eq!(pace.room(), 0);
        pace.fill(std::iter::empty(), Instant::now());
        assert_eq!(pace.room(), 0);
    }

    #[test]
    fn a_hundred_conferences_are_placed_on_ten_units_in_one_burst() {
        let (mut pace, units) = (Pace::new(50, 10), names(10));
        pace.fill(units.iter().map(String::as_str), Instant::now());
        let (mut placed, mut calls) = (0, 0);
        // The last few wait until the unit that was served first can bear one more.
        while pace.room() > 0 && placed < 100 {
            let count = (pace.room() as usize).min(100 - placed);
            let grants: Vec<Grant> = (placed..placed + count).map(|number| grant(number % 10)).collect();
            pace.take(&grants);
            (placed, calls) = (placed + count, calls + 1);
        }
        assert!(placed > 90, "{placed}");
        assert!(calls < 40, "{calls} calls");
    }

    proptest! {
        /// Wherever the server places them: no unit gets more than its burst and its pace allow.
        #[test]
        fn no_unit_gets_more_than_its_pace(choices in prop::collection::vec((0usize..5, 0u64..200), 1..200)) {
            let (start, units) = (Instant::now(), names(5));
            let (mut pace, mut at) = (Pace::new(50, 10), 0);
            let mut given = [0u64; 5];
            for (unit, pause) in choices {
                at += pause;
                pace.fill(units.iter().map(String::as_str), start + Duration::from_millis(at));
                let grants: Vec<Grant> = (0..pace.room()).map(|_| grant(unit)).collect();
                given[unit] += grants.len() as u64;
                pace.take(&grants);
                for count in given {
                    prop_assert!(count as f64 <= 10.0 + at as f64 * 0.05 + 0.001);
                }
            }
        }
    }
}
