//! The mass-failure guard. When too many units would go down at once, a fault of
//! the stores through which they are observed is more likely than their death, and moving all their conferences would be
//! the worst reaction. No clock, no I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::failure_detector::Observation;

/// The conditions under which the guard holds and is released.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Share of the units, in percent. The mass-failure guard holds when more than this share, and at least `units` units, go down
    /// within `window`.
    pub(crate) percent: u32,
    /// The number of units that must go down, at least, before the guard holds.
    pub(crate) units: u32,
    /// The window in which failures count together.
    pub(crate) window: Duration,
    /// The guard is lifted after Redis and ZooKeeper have answered without a fault for this long.
    pub(crate) lift: Duration,
}

/// The decision of the guard for one observation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Declare these units down, and recover conferences.
    Proceed(Vec<String>),
    /// Declare no unit down, and recover nothing.
    Hold {
        /// Whether the guard did not hold before.
        begun: bool,
    },
}

/// The reason for the end of the mass-failure guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReleaseReason {
    /// Redis and ZooKeeper answered without a fault for long enough.
    StoresAnswer,
    /// The operator requested it.
    Operator,
    /// The units are back, except for no more than may go down at once.
    UnitsReturned,
}

/// The guard of one scheduler.
#[derive(Debug)]
pub(crate) struct MassFailureGuard {
    limits: Limits,
    /// Units that were declared down within the window, each with the time.
    recent: BTreeMap<String, Instant>,
    /// While the guard holds: the time since which Redis and ZooKeeper have answered without a fault.
    holding: Option<Instant>,
    /// Units for which the guard was released: they are declared down, regardless of their number.
    excused: BTreeSet<String>,
    /// While the guard holds: the time since which no more units are silent than may go down at once.
    few_silent_since: Option<Instant>,
    /// The longest lease of the units, and the time at which all leases restarted.
    leases: Option<(Duration, Instant)>,
}

impl MassFailureGuard {
    /// A guard that does not hold.
    pub(crate) fn new(limits: Limits) -> Self {
        let (recent, excused) = (BTreeMap::new(), BTreeSet::new());
        Self { limits, recent, holding: None, excused, few_silent_since: None, leases: None }
    }

    /// Whether the guard holds.
    pub(crate) fn holds(&self) -> bool {
        self.holding.is_some()
    }

    /// Sets the longest lease of the units, and the time at which all leases restarted: for one lease after that, a
    /// unit that is not silent may nevertheless be dead.
    pub(crate) fn set_leases(&mut self, longest: Duration, restarted: Instant) {
        self.leases = Some((longest, restarted));
    }

    /// Redis or ZooKeeper did not answer: the time until the guard is released starts again.
    pub(crate) fn store_failed(&mut self, now: Instant) {
        self.few_silent_since = None;
        if let Some(since) = &mut self.holding {
            *since = now;
        }
    }

    /// Decides what to do about an observation. The units in [`Decision::Proceed`] count as declared down.
    pub(crate) fn decide(&mut self, observation: &Observation, now: Instant) -> Decision {
        if self.holding.is_some() {
            return Decision::Hold { begun: false };
        }
        let window = self.limits.window;
        self.recent.retain(|_, at| now.saturating_duration_since(*at) < window);
        self.excused.retain(|cmu| observation.silent.contains(cmu));
        let any_new = observation.down.iter().any(|cmu| !self.is_known(cmu));
        if any_new && self.are_too_many(observation) {
            self.holding = Some(now);
            return Decision::Hold { begun: true };
        }
        for cmu in observation.down.iter().filter(|cmu| !self.excused.contains(*cmu)) {
            self.recent.insert(cmu.clone(), now);
        }
        Decision::Proceed(observation.down.clone())
    }

    /// Whether the unit was counted before.
    fn is_known(&self, cmu: &String) -> bool {
        self.excused.contains(cmu) || self.recent.contains_key(cmu)
    }

    /// Whether too many units went down, or will go down, within one window.
    fn are_too_many(&self, observation: &Observation) -> bool {
        // Units that are silent now would go down within the window as well.
        let new = observation.silent.iter().filter(|cmu| !self.is_known(cmu)).count();
        let gone = new + self.recent.len();
        let all = observation.alive + self.recent.len();
        gone >= self.limits.units as usize && gone * 100 > all * self.limits.percent as usize
    }

    /// Whether the units are back: either all units, or all but so few, for one lease, that the others were merely late.
    /// If many units come back one after another, the last of them must not be declared down.
    fn are_back(&mut self, observation: &Observation, now: Instant) -> bool {
        self.few_silent_since =
            if self.are_too_many(observation) { None } else { self.few_silent_since.or(Some(now)) };
        let Some((lease, restarted)) = self.leases else { return observation.silent.is_empty() };
        let few = self.few_silent_since.is_some_and(|since| now.saturating_duration_since(since) >= lease);
        now.saturating_duration_since(restarted) > lease && (observation.silent.is_empty() || few)
    }

    /// Releases the guard if there is a reason, and returns that reason. After a release by the operator, or by time,
    /// the silent units are declared down regardless of their number. After a release because units returned, earlier
    /// failures still count, as if the guard had not held.
    pub(crate) fn release(
        &mut self,
        observation: &Observation,
        by_operator: bool,
        now: Instant,
    ) -> Option<ReleaseReason> {
        let since = self.holding?;
        let reason = if by_operator {
            ReleaseReason::Operator
        } else if now.saturating_duration_since(since) >= self.limits.lift {
            ReleaseReason::StoresAnswer
        } else if self.are_back(observation, now) {
            ReleaseReason::UnitsReturned
        } else {
            return None;
        };
        (self.holding, self.few_silent_since) = (None, None);
        if reason != ReleaseReason::UnitsReturned {
            self.recent.clear();
            self.excused.clone_from(&observation.silent);
        }
        Some(reason)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: Limits =
        Limits { percent: 30, units: 2, window: Duration::from_secs(10), lift: Duration::from_secs(60) };

    /// An observation of `alive` units. The first `silent` of them are silent, and the first `down` of those are down.
    fn observed(alive: usize, silent: usize, down: usize) -> Observation {
        let name = |number: usize| format!("u{number:03}");
        Observation { down: (0..down).map(name).collect(), silent: (0..silent).map(name).collect(), alive }
    }

    fn declared_down(decision: &Decision) -> usize {
        match decision {
            Decision::Proceed(down) => down.len(),
            Decision::Hold { .. } => panic!("the guard holds"),
        }
    }

    #[test]
    fn a_single_unit_may_always_go_down() {
        for alive in 1..5 {
            assert_eq!(
                declared_down(&MassFailureGuard::new(LIMITS).decide(&observed(alive, 1, 1), Instant::now())),
                1
            );
        }
    }

    #[test]
    fn two_units_of_five_trigger_the_guard_and_three_of_ten_do_not() {
        let now = Instant::now();
        assert_eq!(
            MassFailureGuard::new(LIMITS).decide(&observed(5, 2, 2), now),
            Decision::Hold { begun: true }
        );
        assert_eq!(declared_down(&MassFailureGuard::new(LIMITS).decide(&observed(10, 3, 3), now)), 3);
        assert_eq!(
            MassFailureGuard::new(LIMITS).decide(&observed(10, 4, 1), now),
            Decision::Hold { begun: true }
        );
    }

    #[test]
    fn silent_units_alone_do_not_trigger_the_guard() {
        let mut guard = MassFailureGuard::new(LIMITS);
        assert_eq!(declared_down(&guard.decide(&observed(5, 4, 0), Instant::now())), 0);
        assert!(!guard.holds());
    }

    #[test]
    fn failures_within_one_window_are_added_up() {
        let start = Instant::now();
        let mut guard = MassFailureGuard::new(LIMITS);
        assert_eq!(declared_down(&guard.decide(&observed(5, 1, 1), start)), 1);
        let second = Observation { down: vec!["x".into()], silent: BTreeSet::from(["x".into()]), alive: 4 };
        assert_eq!(guard.decide(&second, start + Duration::from_secs(9)), Decision::Hold { begun: true });
        let mut guard = MassFailureGuard::new(LIMITS);
        assert_eq!(declared_down(&guard.decide(&observed(5, 1, 1), start)), 1);
        assert_eq!(declared_down(&guard.decide(&second, start + Duration::from_secs(10))), 1);
    }

    #[test]
    fn guard_is_released_when_both_stores_were_well_for_a_minute() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut guard = MassFailureGuard::new(LIMITS);
        let many = observed(5, 2, 2);
        guard.decide(&many, start);
        assert_eq!(guard.release(&many, false, at(59)), None);
        guard.store_failed(at(59));
        assert_eq!(guard.release(&many, false, at(118)), None);
        assert_eq!(guard.decide(&many, at(118)), Decision::Hold { begun: false });
        assert_eq!(guard.release(&many, false, at(119)), Some(ReleaseReason::StoresAnswer));
        assert_eq!(declared_down(&guard.decide(&many, at(119))), 2);
        // A unit that falls silent later is counted.
        assert_eq!(declared_down(&guard.decide(&observed(5, 3, 3), at(120))), 3);
    }

    #[test]
    fn operator_or_returning_units_release_the_guard_at_once() {
        let now = Instant::now();
        let mut guard = MassFailureGuard::new(LIMITS);
        guard.decide(&observed(5, 2, 2), now);
        assert_eq!(guard.release(&observed(5, 2, 2), true, now), Some(ReleaseReason::Operator));
        assert_eq!(guard.release(&observed(5, 2, 2), true, now), None);
        guard.decide(&observed(5, 5, 5), now);
        assert_eq!(guard.release(&observed(5, 0, 0), false, now), Some(ReleaseReason::UnitsReturned));
    }

    #[test]
    fn guard_is_released_when_few_units_stay_silent() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut guard = MassFailureGuard::new(LIMITS);
        guard.set_leases(Duration::from_secs(5), start);
        // One unit has died, and at the same time another was late.
        assert_eq!(guard.decide(&observed(5, 2, 1), at(6)), Decision::Hold { begun: true });
        assert_eq!(guard.release(&observed(5, 2, 1), false, at(7)), None);
        for seconds in 8..13 {
            assert_eq!(guard.release(&observed(5, 1, 1), false, at(seconds)), None, "after {seconds} s");
        }
        assert_eq!(guard.release(&observed(5, 1, 1), false, at(13)), Some(ReleaseReason::UnitsReturned));
        assert_eq!(declared_down(&guard.decide(&observed(5, 1, 1), at(13))), 1);
    }

    #[test]
    fn units_are_back_only_one_lease_after_all_leases_restarted() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut guard = MassFailureGuard::new(LIMITS);
        guard.decide(&observed(5, 2, 2), start);
        guard.set_leases(Duration::from_secs(30), at(1));
        assert_eq!(guard.release(&observed(5, 0, 0), false, at(31)), None);
        assert_eq!(guard.release(&observed(5, 0, 0), false, at(32)), Some(ReleaseReason::UnitsReturned));
    }

    #[test]
    fn failures_before_the_guard_held_still_count_after_its_release() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let one = |cmu: &str| Observation {
            down: vec![cmu.into()],
            silent: BTreeSet::from([cmu.into()]),
            alive: 4,
        };
        let mut guard = MassFailureGuard::new(LIMITS);
        assert_eq!(declared_down(&guard.decide(&observed(5, 1, 1), start)), 1);
        assert_eq!(guard.decide(&one("x"), at(5)), Decision::Hold { begun: true });
        let back = Observation { alive: 4, ..Observation::default() };
        assert_eq!(guard.release(&back, false, at(7)), Some(ReleaseReason::UnitsReturned));
        assert_eq!(guard.decide(&one("y"), at(8)), Decision::Hold { begun: true });
        // The end of the window does not release the guard; the guard would be a mere delay.
        assert_eq!(guard.release(&one("y"), false, at(11)), None);
    }

    proptest! {
        /// Unless the operator or time releases the guard, no more units than the limit go down within one window, even
        /// if the units that triggered the guard were merely late.
        #[test]
        fn no_more_units_than_the_limit_go_down_within_one_window(steps in prop::collection::vec((0usize..4, 0u64..6000), 1..40)) {
            let (start, mut guard) = (Instant::now(), MassFailureGuard::new(LIMITS));
            let (mut at, mut alive, mut number) = (0u64, 20usize, 0usize);
            let mut gone: Vec<u64> = Vec::new();
            for (count, pause) in steps {
                at += pause;
                let count = count.min(alive);
                let down: Vec<String> = (0..count).map(|more| format!("u{}", number + more)).collect();
                number += count;
                let observation = Observation { silent: down.iter().cloned().collect(), down, alive };
                let now = start + Duration::from_millis(at);
                let proceeding = match guard.decide(&observation, now) {
                    Decision::Proceed(down) => down,
                    Decision::Hold { .. } => {
                        let back = Observation { alive, ..Observation::default() };
                        prop_assert_eq!(guard.release(&back, false, now), Some(ReleaseReason::UnitsReturned));
                        continue;
                    }
                };
                alive -= proceeding.len();
                gone.extend(proceeding.iter().map(|_| at));
                let within = gone.iter().filter(|then| at - **then < 10_000).count();
                prop_assert!(within < 2 || within * 100 <= (alive + within) * 30);
            }
        }
    }
}
