//! Which units would be declared down, by what Redis and the coordination service say of them. No clock, no I/O.
//!
//! Redis alone cannot tell a unit that died from one that is cut off from Redis, and the coordination service alone
//! cannot tell a dead one from a lost session. So a unit is down when its lease is over *and* its node is gone; when
//! only the lease is over, after a grace; and never while it renews its lease.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use allot_client::UnitRow;

/// What is known of all units at one look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Evidence<'a> {
    /// When it was looked.
    pub(crate) now: Instant,
    /// All units, as Redis has them.
    pub(crate) units: &'a [UnitRow],
    /// Whose nodes stand in the coordination service.
    pub(crate) present: &'a BTreeSet<String>,
    /// Since when the directory of nodes has been followed without a break; `None` where it is not followed now.
    pub(crate) followed_since: Option<Instant>,
}

/// What comes of a look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Look {
    /// Units that are down by the rules.
    pub(crate) down: Vec<String>,
    /// Units that do not renew their lease, those above included.
    pub(crate) silent: BTreeSet<String>,
    /// Units that were not down before.
    pub(crate) alive: usize,
}

/// Remembers since when each unit has been unreachable.
#[derive(Debug)]
pub(crate) struct Judge {
    grace: Duration,
    /// How long nodes have to come back after a break.
    settle: Duration,
    unreachable: BTreeMap<String, Instant>,
    last: Option<Instant>,
}

impl Judge {
    /// With this grace for units whose node stands; nodes that are missing count when the directory has been
    /// followed for `settle`.
    pub(crate) fn new(grace: Duration, settle: Duration) -> Self {
        Self { grace, settle, unreachable: BTreeMap::new(), last: None }
    }

    /// One look.
    pub(crate) fn look(&mut self, evidence: &Evidence<'_>) -> Look {
        let Evidence { now, units, present, followed_since } = *evidence;
        // Who looks again after a long while has slept, and units that were awake may find it hard to be heard.
        let slept = self.last.is_some_and(|last| now.saturating_duration_since(last) > self.settle);
        self.last = Some(now);
        if slept {
            self.unreachable.clear();
        }
        let settled = followed_since.is_some_and(|since| now.saturating_duration_since(since) >= self.settle);
        let mut look = Look::default();
        let mut still = BTreeMap::new();
        for unit in units.iter().filter(|unit| unit.state != "down") {
            look.alive += 1;
            if matches!(unit.state.as_str(), "suspect" | "unreachable") {
                look.silent.insert(unit.cmu.clone());
            }
            if unit.state != "unreachable" {
                continue;
            }
            let since = self.unreachable.get(&unit.cmu).copied().unwrap_or(now);
            still.insert(unit.cmu.clone(), since);
            let gone = !present.contains(&unit.cmu) && settled;
            let overdue = now.saturating_duration_since(since) >= self.grace;
            if followed_since.is_some() && !slept && (gone || overdue) {
                look.down.push(unit.cmu.clone());
            }
        }
        self.unreachable = still;
        look
    }

    /// Forgets all: a store was away, and what was seen through it says nothing.
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

    struct Scene {
        judge: Judge,
        start: Instant,
        followed: Option<Instant>,
    }

    impl Scene {
        fn new() -> Self {
            let start = Instant::now();
            Self { judge: Judge::new(GRACE, SETTLE), start: start + SETTLE, followed: Some(start) }
        }

        fn down(&mut self, ms: u64, units: &[UnitRow], present: &[&str]) -> Vec<String> {
            let now = self.start + Duration::from_millis(ms);
            let present = names(present);
            self.judge.look(&Evidence { now, units, present: &present, followed_since: self.followed }).down
        }
    }

    #[test]
    fn lease_over_and_node_gone_is_down_at_once() {
        assert_eq!(Scene::new().down(0, &[unit("a", "unreachable"), unit("b", "up")], &["b"]), ["a"]);
    }

    #[test]
    fn lease_over_and_node_there_is_down_after_the_grace_only() {
        let mut scene = Scene::new();
        for ms in (0..10_000).step_by(500) {
            assert_eq!(scene.down(ms, &[unit("a", "unreachable")], &["a"]), [""; 0], "after {ms} ms");
        }
        assert_eq!(scene.down(10_000, &[unit("a", "unreachable")], &["a"]), ["a"]);
    }

    #[test]
    fn a_beat_in_between_begins_the_grace_anew() {
        let mut scene = Scene::new();
        for ms in (0..30_000).step_by(1000) {
            let state = if ms == 8000 { "up" } else { "unreachable" };
            let down = scene.down(ms, &[unit("a", state)], &["a"]);
            assert_eq!(!down.is_empty(), ms >= 19_000, "after {ms} ms");
        }
    }

    #[test]
    fn node_gone_but_beating_is_not_down() {
        let mut scene = Scene::new();
        for ms in (0..60_000).step_by(500) {
            for state in ["up", "draining", "suspect"] {
                assert_eq!(scene.down(ms, &[unit("a", state)], &[]), [""; 0]);
            }
        }
    }

    #[test]
    fn nobody_is_down_while_the_directory_is_not_followed_or_only_just_is() {
        let mut scene = Scene::new();
        scene.followed = None;
        for ms in (0..30_000).step_by(1000) {
            assert_eq!(scene.down(ms, &[unit("a", "unreachable")], &[]), [""; 0]);
        }
        let mut scene = Scene::new();
        scene.followed = Some(scene.start);
        assert_eq!(scene.down(3999, &[unit("a", "unreachable")], &[]), [""; 0]);
        assert_eq!(scene.down(4000, &[unit("a", "unreachable")], &[]), ["a"]);
    }

    #[test]
    fn whoever_slept_looks_twice() {
        let mut scene = Scene::new();
        assert_eq!(scene.down(0, &[unit("a", "up")], &["a"]), [""; 0]);
        assert_eq!(scene.down(20_000, &[unit("a", "unreachable")], &[]), [""; 0]);
        assert_eq!(scene.down(20_500, &[unit("a", "unreachable")], &[]), ["a"]);
    }

    #[test]
    fn what_is_down_is_not_alive_and_silence_is_counted() {
        let mut judge = Judge::new(GRACE, SETTLE);
        let units = [unit("a", "down"), unit("b", "suspect"), unit("c", "unreachable"), unit("d", "up")];
        let now = Instant::now();
        let present = names(&["c"]);
        let evidence = Evidence { now, units: &units, present: &present, followed_since: Some(now) };
        let look = judge.look(&evidence);
        assert_eq!((look.alive, look.silent, look.down.len()), (3, names(&["b", "c"]), 0));
    }

    proptest! {
        /// Whatever happens: who is down was unreachable at that look, and either has no node or has been
        /// unreachable at every look of a whole grace.
        #[test]
        fn a_verdict_has_its_reason(steps in prop::collection::vec((0usize..4, any::<bool>(), 0u64..3000), 1..60)) {
            let mut scene = Scene::new();
            let (mut at, mut since) = (0, None);
            for (state, there, pause) in steps {
                let state = ["up", "suspect", "unreachable", "draining"][state];
                if state != "unreachable" { since = None; } else if since.is_none() { since = Some(at); }
                let down = scene.down(at, &[unit("a", state)], if there { &["a"] } else { &[] });
                if !down.is_empty() {
                    prop_assert_eq!(state, "unreachable");
                    prop_assert!(!there || since.is_some_and(|since| at - since >= 10_000));
                }
                at += pause;
            }
        }
    }
}
