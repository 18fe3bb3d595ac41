//! The units of compaction: what each says of itself, and who is there, or has been away for how long.

use std::collections::BTreeMap;
use tokio::time::Instant;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tracing::warn;

use super::hashing::Bin;
use super::paths::decode;
use allot_coordination::{Coordinator, Member, Snapshot};

/// What a unit says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeInfo {
    /// Its processing cluster.
    pub pc: String,
    /// How many subtasks it runs at once.
    pub slots: u32,
    /// How many subtasks of all tasks it lets run at once; 0 for any number.
    #[serde(default)]
    pub limit: u32,
    /// Its program's version.
    pub version: String,
    /// When it began; milliseconds since 1970. Tells its lives apart.
    pub started: u64,
}

/// Who is there by one look.
#[derive(Debug, Clone, Default)]
pub struct Units {
    /// Whether we were connected since. Where it is false nobody may be taken for lost.
    pub current: bool,
    /// Whether all that are there can be read. Else whoever cannot may be at work, and nobody is taken for lost.
    whole: bool,
    /// When this connection's first look was.
    since: Option<Instant>,
    attachment: u64,
    /// Who is there.
    pub live: BTreeMap<String, NodeInfo>,
    /// Who was there on this connection, and went then.
    gone: BTreeMap<String, Instant>,
}

impl Units {
    /// After the next look.
    fn next(&self, snapshot: &Snapshot, now: Instant) -> Self {
        let (mut live, mut whole) = (BTreeMap::new(), true);
        for (name, member) in snapshot.members.iter() {
            let name = decode(name);
            match read(member) {
                Ok(info) => drop(live.insert(name, info)),
                // Somebody's who is no unit: no session is behind it.
                Err(_) if member.owner.is_none() && !member.is_hidden() => {}
                Err(why) => {
                    warn!(
                        unit = name,
                        why, "a unit that cannot be read; nobody is taken for lost as long as it is there"
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
        // Once all can be read again, who is missing counts anew.
        let same = self.whole && self.attachment == attachment;
        let mut gone = if same { self.gone.clone() } else { BTreeMap::new() };
        if same {
            for name in self.live.keys() {
                gone.insert(name.clone(), now);
            }
        }
        gone.retain(|name, _| !live.contains_key(name));
        let since = if same { self.since } else { Some(now) };
        Self { current: true, whole, since, attachment, live, gone }
    }

    /// Since when this unit is away, at least; `None` where it is there, or nobody knows.
    pub fn away_since(&self, unit: &str) -> Option<Instant> {
        if !self.whole || self.live.contains_key(unit) {
            return None;
        }
        self.gone.get(unit).copied().or(self.since)
    }

    /// When this unit went, if that was seen.
    pub fn went(&self, unit: &str) -> Option<Instant> {
        self.gone.get(unit).copied().filter(|_| self.whole)
    }

    /// Those of a processing cluster, for hashing.
    pub fn bins(&self, pc: &str) -> Vec<Bin> {
        let of = self.live.iter().filter(|(_, info)| info.pc == pc);
        of.map(|(name, info)| Bin { name: name.clone(), weight: info.slots.max(1) }).collect()
    }
}

/// What a unit says of itself, or why that cannot be read.
fn read(member: &Member) -> Result<NodeInfo, String> {
    if member.is_hidden() {
        return Err("its node may not be read".to_owned());
    }
    serde_json::from_slice(&member.data).map_err(|error| error.to_string())
}

/// Follows them; ends when nobody listens or the coordinator is closed.
pub fn follow(coordinator: &Coordinator, dir: &str) -> watch::Receiver<Units> {
    let (sender, receiver) = watch::channel(Units::default());
    let mut members = coordinator.members(dir);
    tokio::spawn(async move {
        loop {
            let snapshot = tokio::select! {
                snapshot = members.changed() => snapshot,
                () = sender.closed() => return,
            };
            let Ok(snapshot) = snapshot else { return };
            let next = sender.borrow().next(&snapshot, Instant::now());
            sender.send_replace(next);
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
    fn nobody_is_away_longer_than_this_connection_knows() {
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
        // Cut off, and back: what is missing counts anew.
        let cut = units.next(&Snapshot { current: false, ..snapshot(1, &["a"]) }, at(8));
        assert_eq!(cut.away_since("b"), None);
        let units = cut.next(&snapshot(2, &["a"]), at(9));
        assert_eq!(units.away_since("b"), Some(at(9)));
    }

    #[test]
    fn nobody_is_away_as_long_as_one_is_there_that_cannot_be_read() {
        let now = Instant::now();
        let before = Units::default().next(&snapshot(1, &["a", "b"]), now);
        for data in [&b"{\"pc\": 7}"[..], b"", b"not json"] {
            let mut with_odd = snapshot(1, &["a"]);
            let odd = Member { data: data.into(), owner: Some(2), created: 2 };
            Arc::make_mut(&mut with_odd.members).insert("b".to_owned(), odd);
            let units = before.next(&with_odd, now);
            // Work goes on among those that can be read.
            assert!(units.current && units.bins("p").len() == 1);
            assert_eq!((units.away_since("b"), units.away_since("c")), (None, None));
            let later = now + Duration::from_secs(9);
            let units = units.next(&snapshot(1, &["a"]), later);
            assert_eq!((units.away_since("b"), units.went("b")), (Some(later), None), "it counts anew");
        }
        // What no session is behind is no unit.
        let mut with_other = snapshot(1, &["a"]);
        let other = Member { data: b"".into(), owner: None, created: 2 };
        Arc::make_mut(&mut with_other.members).insert("x".to_owned(), other);
        let units = before.next(&with_other, now);
        assert_eq!((units.away_since("b"), units.live.len()), (Some(now), 1));
    }
}
