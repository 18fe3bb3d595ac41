//! The units of a realm: those that Redis lists, and those that have a node in ZooKeeper. The list of Redis grows with the
//! realm, so the leader reads the realm's totals at every tick, and the list only when the totals show that a unit may have
//! changed its state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use allot_client::{Error, RealmStore, Record, UnitRow};
use allot_coordination::{Coordinator, Member, Members, Snapshot, name_of_node};
use tokio::time::Instant;

use super::failure_detector::Liveness;

/// The longest time for which a list is used. Only the leases of units may change without a change of the totals.
const LONGEST_USE: Duration = Duration::from_secs(5);

/// Numbers of units by state, and of conferences that wait for recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Totals {
    up: usize,
    draining: usize,
    suspect: usize,
    unreachable: usize,
    down: usize,
    /// How many conferences wait for recovery.
    pub(super) pending: u64,
}

/// The metrics that show the totals, by the names of their fields. They are set at every tick, so they are looked up only
/// once.
pub(super) struct TotalsMetrics(Vec<(&'static str, metrics::Gauge)>);

impl TotalsMetrics {
    pub(super) fn new() -> Self {
        let conferences = ["scheduled", "waiting", "creating", "open", "lost", "pending"]
            .map(|state| (state, metrics::gauge!("allot_scheduler_conferences", "state" => state)));
        let units = ["up", "draining", "backoff", "suspect", "unreachable", "down"]
            .map(|state| (state, metrics::gauge!("allot_scheduler_units", "state" => state)));
        let room = [
            ("capacity", metrics::gauge!("allot_scheduler_capacity")),
            ("used", metrics::gauge!("allot_scheduler_used")),
            ("licences", metrics::gauge!("allot_scheduler_licences")),
            ("licences_used", metrics::gauge!("allot_scheduler_licences_used")),
        ];
        Self(conferences.into_iter().chain(units).chain(room).collect())
    }
}

impl Totals {
    /// Reads the totals of a realm, and sets the metrics that show them.
    pub(super) async fn read(store: &RealmStore, metrics: &TotalsMetrics) -> Result<Self, Error> {
        let stat = store.stat().await?;
        for (field, gauge) in &metrics.0 {
            if let Ok(total) = stat.get::<f64>(field) {
                gauge.set(total);
            }
        }
        Self::of(&stat)
    }

    fn of(stat: &Record) -> Result<Self, Error> {
        Ok(Self {
            up: stat.get("up")?,
            draining: stat.get("draining")?,
            suspect: stat.get("suspect")?,
            unreachable: stat.get("unreachable")?,
            down: stat.get("down")?,
            pending: stat.get("pending")?,
        })
    }

    /// Whether no unit changed its state between these totals and earlier ones, and none is late. The number of pending
    /// conferences does not matter.
    fn shows_no_change_since(self, earlier: Self) -> bool {
        let silent = self.suspect + self.unreachable;
        silent == 0 && Self { pending: earlier.pending, ..self } == earlier
    }
}

/// The units when they were last listed.
#[derive(Debug)]
pub(super) struct UnitList {
    rows: Vec<UnitRow>,
    totals: Totals,
    read: Instant,
}

impl UnitList {
    /// Lists the units. The totals were read before.
    pub(super) async fn read(store: &RealmStore, totals: Totals) -> Result<Self, Error> {
        let read = Instant::now();
        Ok(Self { rows: store.units().await?, totals, read })
    }

    pub(super) fn rows(&self) -> &[UnitRow] {
        &self.rows
    }

    pub(super) fn has(&self, cmu: &str) -> bool {
        self.rows.iter().any(|unit| unit.cmu == cmu)
    }

    /// Whether the list still shows the state of every unit, by the totals of this time.
    pub(super) fn is_current(&self, totals: Totals) -> bool {
        let is_known = |unit: &UnitRow| matches!(Liveness::of(unit), Liveness::Alive | Liveness::Down);
        // A unit may have changed its state between the totals and the list.
        self.read.elapsed() < LONGEST_USE
            && totals.shows_no_change_since(self.totals)
            && self.rows.len() == totals.up + totals.down
            && self.rows.iter().all(is_known)
    }
}

/// The directory of units, followed by watches.
pub(super) struct UnitNodes {
    members: Members,
    /// The connection on which the directory is followed, and the time since which it is.
    since: Option<(u64, Instant)>,
    /// The members of the last snapshot, and the names of their units.
    seen: (Arc<BTreeMap<String, Member>>, Arc<BTreeSet<String>>),
}

impl UnitNodes {
    pub(super) fn follow(coordinator: &Coordinator, dir: &str) -> Self {
        Self { members: coordinator.members(dir), since: None, seen: Default::default() }
    }

    /// The units that have a node, and the time since which the directory has been followed on this connection; `None`
    /// while it is not followed.
    pub(super) fn snapshot(&mut self, coordinator: &Coordinator) -> (Arc<BTreeSet<String>>, Option<Instant>) {
        let snapshot = self.members.snapshot();
        let is_current = snapshot.current && snapshot.attachment == coordinator.status().attachment;
        if !is_current || !coordinator.is_trusted() {
            self.since = None;
        } else if self.since.is_none_or(|(attachment, _)| attachment != snapshot.attachment) {
            self.since = Some((snapshot.attachment, Instant::now()));
        }
        if !Arc::ptr_eq(&self.seen.0, &snapshot.members) {
            self.seen = (snapshot.members.clone(), Arc::new(names(&snapshot)));
        }
        (self.seen.1.clone(), self.since.map(|(_, since)| since))
    }

    /// Waits until the directory was read on the current connection. Returns the units that have a node then.
    pub(super) async fn current(
        &mut self,
        coordinator: &Coordinator,
    ) -> Result<BTreeSet<String>, allot_coordination::Error> {
        let snapshot = self
            .members
            .wait_for(|snapshot| snapshot.current && snapshot.attachment == coordinator.status().attachment)
            .await?;
        Ok(names(&snapshot))
    }

    /// Waits for a change.
    pub(super) async fn changed(&mut self) {
        let _ = self.members.changed().await;
    }
}

fn names(snapshot: &Snapshot) -> BTreeSet<String> {
    snapshot.members.keys().map(|node| name_of_node(node)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL_UP: Totals = Totals { up: 2, draining: 0, suspect: 0, unreachable: 0, down: 1, pending: 0 };

    fn list(states: [&str; 3]) -> UnitList {
        let lease = Duration::from_secs(5);
        let row = |state: &str| UnitRow { cmu: state.into(), state: state.into(), conferences: 0, lease };
        UnitList { rows: states.map(row).into(), totals: ALL_UP, read: Instant::now() }
    }

    #[tokio::test(start_paused = true)]
    async fn list_is_used_until_a_unit_changes_or_the_list_is_old() {
        let units = list(["up", "up", "down"]);
        assert!(units.is_current(ALL_UP));
        assert!(units.is_current(Totals { pending: 7, ..ALL_UP }));
        for changed in [
            Totals { up: 1, down: 2, ..ALL_UP },
            Totals { up: 3, ..ALL_UP },
            Totals { draining: 1, ..ALL_UP },
            Totals { up: 1, suspect: 1, ..ALL_UP },
            Totals { up: 1, unreachable: 1, ..ALL_UP },
        ] {
            assert!(!units.is_current(changed), "{changed:?}");
        }
        tokio::time::advance(LONGEST_USE).await;
        assert!(!units.is_current(ALL_UP));
    }

    #[tokio::test]
    async fn list_with_a_late_unit_is_never_used_again() {
        // The units have changed between the totals and the list.
        for state in ["suspect", "unreachable"] {
            assert!(!list(["up", state, "down"]).is_current(ALL_UP), "{state}");
        }
        let late = Totals { up: 1, suspect: 1, ..ALL_UP };
        assert!(!UnitList { totals: late, ..list(["up", "suspect", "down"]) }.is_current(late));
    }
}
