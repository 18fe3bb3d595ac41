//! Decides which units are down, by their leases in Redis and their nodes in the coordination service. No clock, no
//! I/O.
//!
//! Redis alone cannot tell a dead unit from a unit that is cut off from Redis, and the coordination service alone cannot
//! tell a dead unit from a lost session. So a unit is down when its lease has expired *and* its node is gone. If only the
//! lease has expired, the unit is down after a grace period. A unit that renews its lease is never down.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use allot_client::UnitRow;

/// The state of a unit's lease in Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Liveness {
    /// The unit renews its lease. A state that this version does not know counts as alive: an unknown state is no reason
    /// to declare a unit down.
    Alive,
    /// The unit is late.
    Suspect,
    /// The lease has expired.
    Unreachable,
    /// The unit was declared down, or left.
    Down,
}

impl Liveness {
    /// The liveness of a unit by its state in Redis.
    pub(crate) fn of(unit: &UnitRow) -> Self {
        match unit.state.as_str() {
            "suspect" => Self::Suspect,
            "unreachable" => Self::Unreachable,
            "down" => Self::Down,
            _ => Self::Alive,
        }
    }
}

/// The evidence about all units at one time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Evidence<'a> {
    /// The time of the evidence.
    pub(crate) now: Instant,
    /// All units in Redis.
    pub(crate) units: &'a [UnitRow],
    /// Names of the units that have a node in the coordination service.
    pub(crate) present: &'a BTreeSet<String>,
    /// The time since which the directory of nodes has been followed without a break; `None` if it is not followed now.
    pub(crate) followed_since: Option<Instant>,
}

/// The conclusion from the evidence of one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Observation {
    /// Units that are down by the rules.
    pub(crate) down: Vec<String>,
    /// Units that do not renew their lease, including those in `down`.
    pub(crate) silent: BTreeSet<String>,
    /// Number of units that were not declared down before.
    pub(crate) alive: usize,
}

/// Records the time since which each unit has been unreachable.
#[derive(Debug)]
pub(crate) struct FailureDetector {
    grace: Duration,
    /// Time in which nodes must come back after a break.
    settle: Duration,
    unreachable: BTreeMap<String, Instant>,
    last: Option<Instant>,
}

impl FailureDetector {
    /// `grace` is how long an unreachable unit with a node is waited for. A missing node counts only once the directory
    /// has been followed for `settle`.
    pub(crate) fn new(grace: Duration, settle: Duration) -> Self {
        Self { grace, settle, unreachable: BTreeMap::new(), last: None }
    }

    /// Takes the evidence of one time into account. O(n log n) in the number of units.
    pub(crate) fn observe(&mut self, evidence: &Evidence<'_>) -> Observation {
        let Evidence { now, units, present, followed_since } = *evidence;
        // After a long pause this process was suspended. Units that ran meanwhile may need time to renew their leases.
        let was_suspended = self.last.is_some_and(|last| now.saturating_duration_since(last) > self.settle);
        self.last = Some(now);
        if was_suspended {
            self.unreachable.clear();
        }
        let settled = followed_since.is_some_and(|since| now.saturating_duration_since(since) >= self.settle);
        let mut observation = Observation::default();
        let mut unreachable = BTreeMap::new();
        for unit in units {
            let liveness = Liveness::of(unit);
            if liveness == Liveness::Down {
                continue;
            }
            observation.alive += 1;
            if liveness == Liveness::Alive {
                continue;
            }
            observation.silent.insert(unit.cmu.clone());
            if liveness == Liveness::Suspect {
                continue;
            }
            let since = self.unreachable.get(&unit.cmu).copied().unwrap_or(now);
            unreachable.insert(unit.cmu.clone(), since);
            let node_is_gone = !present.contains(&unit.cmu) && settled;
            let grace_is_over = now.saturating_duration_since(since) >= self.grace;
            if followed_since.is_some() && !was_suspended && (node_is_gone || grace_is_over) {
                observation.down.push(unit.cmu.clone());
            }
        }
        self.unreachable = unreachable;
        observation
    }

    /// Forgets everything: a store was away, so earlier observations prove nothing about units.
    pub(crate) fn forget(&mut self) {
        self.unreachable.clear();
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GRACE: Duration = Duration::from_secs(10);
    const SETTLE: Duration = Duration::from_secs(4);

    fn unit(cmu: &str, state: &str) -> UnitRow {
        UnitRow { cmu: cmu.into(), state: state.into(), conferences: 1, lease: Duration::from_secs(5) }
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    struct Scenario {
        detector: FailureDetector,
        start: Instant,
        followed: Option<Instant>,
    }

    impl Scenario {
        fn new() -> Self {
            let start = Instant::now();
            Self {
                detector: FailureDetector::new(GRACE, SETTLE),
                start: start + SETTLE,
                followed: Some(start),
            }
        }

        fn down(&mut self, ms: u64, units: &[UnitRow], present: &[&str]) -> Vec<String> {
            let now = self.start + Duration::from_millis(ms);
            let present = names(present);
            self.detector
                .observe(&Evidence { now, units, present: &present, followed_since: self.followed })
                .down
        }
    }

    #[test]
    fn expired_lease_and_missing_node_is_down_at_once() {
        assert_eq!(Scenario::new().down(0, &[unit("a", "unreachable"), unit("b", "up")], &["b"]), ["a"]);
    }

    #[test]
    fn expired_lease_with_node_is_down_after_the_grace_period() {
        let mut scenario = Scenario::new();
        for ms in (0..10_000).step_by(500) {
            assert_eq!(scenario.down(ms, &[unit("a", "unreachable")], &["a"]), [""; 0], "after {ms} ms");
        }
        assert_eq!(scenario.down(10_000, &[unit("a", "unreachable")], &["a"]), ["a"]);
    }

    #[test]
    fn heartbeat_restarts_the_grace_period() {
        let mut scenario = Scenario::new();
        for ms in (0..30_000).step_by(1000) {
            let state = if ms == 8000 { "up" } else { "unreachable" };
            let down = scenario.down(ms, &[unit("a", state)], &["a"]);
            assert_eq!(!down.is_empty(), ms >= 19_000, "after {ms} ms");
        }
    }

    #[test]
    fn unit_that_renews_its_lease_is_not_down_without_a_node() {
        let mut scenario = Scenario::new();
        for ms in (0..60_000).step_by(500) {
            for state in ["up", "draining", "suspect"] {
                assert_eq!(scenario.down(ms, &[unit("a", state)], &[]), [""; 0]);
            }
        }
    }

    #[test]
    fn no_unit_is_down_until_the_directory_was_followed_for_a_while() {
        let mut scenario = Scenario::new();
        scenario.followed = None;
        for ms in (0..30_000).step_by(1000) {
            assert_eq!(scenario.down(ms, &[unit("a", "unreachable")], &[]), [""; 0]);
        }
        let mut scenario = Scenario::new();
        scenario.followed = Some(scenario.start);
        assert_eq!(scenario.down(3999, &[unit("a", "unreachable")], &[]), [""; 0]);
        assert_eq!(scenario.down(4000, &[unit("a", "unreachable")], &[]), ["a"]);
    }

    #[test]
    fn suspended_detector_observes_twice_before_it_decides() {
        let mut scenario = Scenario::new();
        assert_eq!(scenario.down(0, &[unit("a", "up")], &["a"]), [""; 0]);
        assert_eq!(scenario.down(20_000, &[unit("a", "unreachable")], &[]), [""; 0]);
        assert_eq!(scenario.down(20_500, &[unit("a", "unreachable")], &[]), ["a"]);
    }

    #[test]
    fn units_already_down_are_neither_alive_nor_silent() {
        let mut detector = FailureDetector::new(GRACE, SETTLE);
        let units = [unit("a", "down"), unit("b", "suspect"), unit("c", "unreachable"), unit("d", "up")];
        let now = Instant::now();
        let present = names(&["c"]);
        let evidence = Evidence { now, units: &units, present: &present, followed_since: Some(now) };
        let observation = detector.observe(&evidence);
        assert_eq!(
            (observation.alive, observation.silent, observation.down.len()),
            (3, names(&["b", "c"]), 0)
        );
    }

    proptest! {
        /// A unit that is down was unreachable at that time, and either has no node or has been unreachable at every
        /// observation of a whole grace period.
        #[test]
        fn a_unit_is_down_only_for_a_documented_reason(steps in prop::collection::vec((0usize..4, any::<bool>(), 0u64..3000), 1..60)) {
            let mut scenario = Scenario::new();
            let (mut at, mut since) = (0, None);
            for (state, has_node, pause) in steps {
                let state = ["up", "suspect", "unreachable", "draining"][state];
                if state != "unreachable" { since = None; } else if since.is_none() { since = Some(at); }
                let down = scenario.down(at, &[unit("a", state)], if has_node { &["a"] } else { &[] });
                if !down.is_empty() {
                    prop_assert_eq!(state, "unreachable");
                    prop_assert!(!has_node || since.is_some_and(|since| at - since >= 10_000));
                }
                at += pause;
            }
        }
    }
}
