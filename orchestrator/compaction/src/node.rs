//! The units of compaction: what each publishes about itself, which are present, and since when the others are away.

use std::collections::BTreeMap;
use tokio::time::Instant;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tracing::warn;

use super::hashing::Bin;
use super::paths::{Paths, decode};
use allot_coordination::{Coordinator, Member, Presence, Snapshot};

/// The information that a unit publishes about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeInfo {
    /// The processing cluster of the unit.
    pub pc: String,
    /// Subtasks that the unit runs at once.
    pub slots: u32,
    /// Subtasks that may run at once in the whole cluster, by this unit's settings; 0 for any number.
    #[serde(default)]
    pub limit: u32,
    /// The version of its program.
    pub version: String,
    /// Start of the unit, in milliseconds since 1970, which distinguishes restarts.
    pub started: u64,
}

/// Why a unit takes nothing more: the data of `Drained/<unit>`. The node is persistent if an operator drains the unit, and
/// ephemeral if the unit leaves and finishes first what it runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drained {
    /// Since when, in milliseconds since 1970.
    pub since: u64,
    /// When its running subtasks are ended, in milliseconds since 1970; 0 for never.
    #[serde(default)]
    pub deadline: u64,
}

/// The units as of the latest snapshot.
#[derive(Debug, Clone, Default)]
pub struct Units {
    /// Whether this process has been connected since the snapshot. If not, no unit may be declared lost.
    pub current: bool,
    /// Whether every present unit can be read. If not, the unreadable unit may be any unit, so none is declared lost.
    whole: bool,
    /// The time of the first snapshot on this connection.
    since: Option<Instant>,
    /// The number of the connection.
    attachment: u64,
    /// The present units by name.
    pub live: BTreeMap<String, NodeInfo>,
    /// Units that left during this connection, and when.
    gone: BTreeMap<String, Instant>,
    /// The units that take nothing more, present or not.
    pub drained: BTreeMap<String, Drained>,
    /// Whether all tasks are paused, also those that are submitted later.
    pub are_tasks_paused: bool,
}

impl Units {
    /// The units after the next snapshot, taken at `now`.
    fn next(&self, snapshot: &Snapshot, now: Instant) -> Self {
        let (drained, are_tasks_paused) = (self.drained.clone(), self.are_tasks_paused);
        Self { drained, are_tasks_paused, ..self.next_present(snapshot, now) }
    }

    fn next_present(&self, snapshot: &Snapshot, now: Instant) -> Self {
        let (mut live, mut whole) = (BTreeMap::new(), true);
        for (name, member) in snapshot.members.iter() {
            let name = decode(name);
            match read(member) {
                Ok(info) => drop(live.insert(name, info)),
                // A node without a session does not belong to a unit.
                Err(_) if member.owner.is_none() && !member.is_hidden() => {}
                Err(why) => {
                    warn!(
                        unit = name,
                        why,
                        "cannot read the node of a compaction node; none is declared lost while this node exists"
                    );
                    whole = false;
                }
            }
        }
        if !snapshot.current {
            return Self { live, ..Self::default() };
        }
        let attachment = snapshot.attachment;
        if !whole {
            return Self { current: true, attachment, live, ..Self::default() };
        }
        // When all units can be read again, the absence of missing units starts now.
        let same = self.whole && self.attachment == attachment;
        let mut gone = if same { self.gone.clone() } else { BTreeMap::new() };
        if same {
            for name in self.live.keys() {
                gone.insert(name.clone(), now);
            }
        }
        gone.retain(|name, _| !live.contains_key(name));
        let since = if same { self.since } else { Some(now) };
        Self { current: true, whole, since, attachment, live, gone, ..Self::default() }
    }

    /// What is wrong where no unit of this processing cluster takes work, for people.
    pub(crate) fn lack(&self, pc: &str) -> &'static str {
        let is_drained = self.live.values().any(|info| info.pc == pc);
        if is_drained { "takes work: all are drained" } else { "is present" }
    }

    /// Whether this unit takes nothing more.
    pub fn is_drained(&self, unit: &str) -> bool {
        self.drained.contains_key(unit)
    }

    /// The number of the connection with ZooKeeper on which this was seen; 0 before the first.
    pub(crate) fn connection(&self) -> u64 {
        self.attachment
    }

    /// Since when this unit has been away at least; `None` if it is present or its absence is not certain.
    pub fn away_since(&self, unit: &str) -> Option<Instant> {
        if !self.whole || self.live.contains_key(unit) {
            return None;
        }
        self.gone.get(unit).copied().or(self.since)
    }

    /// The time at which this unit left, if this process observed that.
    pub fn went(&self, unit: &str) -> Option<Instant> {
        self.gone.get(unit).copied().filter(|_| self.whole)
    }

    /// The units of a processing cluster that take work, as bins for hashing: those that are present and not drained.
    pub fn bins(&self, pc: &str) -> Vec<Bin> {
        let of = self.live.iter().filter(|(name, info)| info.pc == pc && !self.is_drained(name));
        of.map(|(name, info)| Bin { name: name.clone(), weight: info.slots.max(1) }).collect()
    }
}

impl Units {
    /// Takes over which units are drained. Returns whether that is a change. A unit whose node has no readable data is
    /// drained without a deadline.
    fn drain(&mut self, snapshot: &Snapshot) -> bool {
        if !snapshot.current {
            return false;
        }
        let read = |member: &Member| serde_json::from_slice(&member.data).unwrap_or_default();
        let drained = snapshot.members.iter().map(|(name, member)| (decode(name), read(member))).collect();
        let before = std::mem::replace(&mut self.drained, drained);
        before != self.drained
    }

    /// Takes over whether all tasks are paused. Returns whether that is a change.
    fn pause(&mut self, snapshot: &Snapshot) -> bool {
        let are_paused = if snapshot.current { !snapshot.members.is_empty() } else { self.are_tasks_paused };
        std::mem::replace(&mut self.are_tasks_paused, are_paused) != are_paused
    }
}

/// Parses a unit's node; `Err` holds the reason for people.
fn read(member: &Member) -> Result<NodeInfo, String> {
    if member.is_hidden() {
        return Err("its node may not be read".to_owned());
    }
    serde_json::from_slice(&member.data).map_err(|error| error.to_string())
}

/// Returns when this unit's name belongs to it. Another process of the same name manages the same tasks and has the same
/// inbox, so until then this one does nothing. Returns `false` when the unit has left.
pub(crate) async fn is_present(presence: &mut watch::Receiver<Presence>) -> bool {
    presence.wait_for(|presence| matches!(presence, Presence::Present(_))).await.is_ok()
}

/// Follows the units. The task ends when all receivers are dropped or the coordinator is closed.
pub fn follow(coordinator: &Coordinator, paths: &Paths) -> watch::Receiver<Units> {
    let (sender, receiver) = watch::channel(Units::default());
    let mut members = coordinator.members(&paths.nodes());
    let mut drained = coordinator.members(&paths.drained());
    let mut paused = coordinator.members(&paths.paused());
    tokio::spawn(async move {
        // A unit is not shown before it is known whether it is drained, and whether the tasks are paused.
        let (mut knows_drained, mut knows_paused) = (false, false);
        loop {
            tokio::select! {
                snapshot = members.changed(), if knows_drained && knows_paused => {
                    let Ok(snapshot) = snapshot else { return };
                    let next = sender.borrow().next(&snapshot, Instant::now());
                    sender.send_replace(next);
                }
                snapshot = drained.changed() => {
                    let Ok(snapshot) = snapshot else { return };
                    knows_drained = true;
                    sender.send_if_modified(|units| units.drain(&snapshot));
                }
                snapshot = paused.changed() => {
                    let Ok(snapshot) = snapshot else { return };
                    knows_paused = true;
                    sender.send_if_modified(|units| units.pause(&snapshot));
                }
                () = sender.closed() => return,
            }
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    fn snapshot(attachment: u64, names: &[&str]) -> Snapshot {
        let info = NodeInfo { pc: "p".into(), slots: 2, limit: 0, version: "1".into(), started: 1 };
        let member =
            |_: &&str| Member { data: serde_json::to_vec(&info).unwrap(), owner: Some(1), created: 1 };
        let members = names.iter().map(|name| ((*name).to_owned(), member(name))).collect();
        Snapshot { current: true, attachment, members: Arc::new(members) }
    }

    #[test]
    fn absence_is_measured_within_this_connection_only() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let units = Units::default().next(&snapshot(1, &["a", "b"]), at(0));
        assert_eq!(units.away_since("a"), None);
        assert_eq!(units.away_since("never"), Some(at(0)));
        let units = units.next(&snapshot(1, &["a"]), at(5));
        assert_eq!(units.away_since("b"), Some(at(5)));
        let units = units.next(&snapshot(1, &["a", "c"]), at(7));
        assert_eq!(units.away_since("b"), Some(at(5)));
        assert_eq!(units.bins("p").len(), 2);
        assert!(units.bins("other").is_empty());
        // After a reconnection the absence of a unit starts again.
        let cut = units.next(&Snapshot { current: false, ..snapshot(1, &["a"]) }, at(8));
        assert_eq!(cut.away_since("b"), None);
        let units = cut.next(&snapshot(2, &["a"]), at(9));
        assert_eq!(units.away_since("b"), Some(at(9)));
    }

    #[test]
    fn drained_unit_takes_no_work_and_stays_so() {
        let mut units = Units::default().next(&snapshot(1, &["a", "b"]), Instant::now());
        let data = br#"{"since":5,"deadline":9}"#.to_vec();
        let of = |members: &[(&str, &[u8])]| {
            let member = |data: &[u8]| Member { data: data.to_vec(), owner: None, created: 1 };
            let members = members.iter().map(|(name, data)| ((*name).to_owned(), member(data))).collect();
            Snapshot { current: true, attachment: 1, members: Arc::new(members) }
        };
        assert!(units.drain(&of(&[("a", &data)])) && !units.drain(&of(&[("a", &data)])));
        assert_eq!(units.drained["a"], Drained { since: 5, deadline: 9 });
        let names = |units: &Units| units.bins("p").into_iter().map(|bin| bin.name).collect::<Vec<_>>();
        assert_eq!(names(&units), ["b"]);
        // What was read stays known while the connection is lost, and when the units change.
        assert!(!units.drain(&Snapshot::default()));
        units = units.next(&snapshot(1, &["a", "b", "c"]), Instant::now());
        assert_eq!(names(&units), ["b", "c"]);
        assert!(units.drain(&of(&[("b", b"")])));
        assert_eq!(names(&units), ["a", "c"]);
    }

    #[test]
    fn no_unit_is_away_while_an_unreadable_node_exists() {
        let now = Instant::now();
        let before = Units::default().next(&snapshot(1, &["a", "b"]), now);
        for data in [&b"{\"pc\": 7}"[..], b"", b"not json"] {
            let mut with_odd = snapshot(1, &["a"]);
            let odd = Member { data: data.into(), owner: Some(2), created: 2 };
            Arc::make_mut(&mut with_odd.members).insert("b".to_owned(), odd);
            let units = before.next(&with_odd, now);
            // The readable units still get work.
            assert!(units.current && units.bins("p").len() == 1);
            assert_eq!((units.away_since("b"), units.away_since("c")), (None, None));
            let later = now + Duration::from_secs(9);
            let units = units.next(&snapshot(1, &["a"]), later);
            assert_eq!(
                (units.away_since("b"), units.went("b")),
                (Some(later), None),
                "the absence starts again"
            );
        }
        // A node without a session is no unit.
        let mut with_other = snapshot(1, &["a"]);
        let other = Member { data: b"".into(), owner: None, created: 2 };
        Arc::make_mut(&mut with_other.members).insert("x".to_owned(), other);
        let units = before.next(&with_other, now);
        assert_eq!((units.away_since("b"), units.live.len()), (Some(now), 1));
    }
}
