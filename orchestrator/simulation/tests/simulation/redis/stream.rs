//! Streams with consumer groups, as far as Allot uses them.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};

use super::command::{Fields, Word};

/// The id of an entry: milliseconds and sequence number.
pub(super) type Id = (u64, u64);

#[derive(Debug, Clone, Default)]
pub(super) struct Stream {
    /// In the order of their ids.
    entries: VecDeque<(Id, Fields)>,
    /// The greatest id that the stream ever had.
    pub(super) last: Id,
    pub(super) groups: BTreeMap<Word, Group>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Group {
    /// The last entry that was delivered.
    pub(super) delivered: Id,
    /// Entries that were delivered and not acknowledged.
    pub(super) pending: BTreeMap<Id, Pending>,
    /// When each consumer was last seen, in milliseconds since 1970.
    pub(super) consumers: BTreeMap<Word, i64>,
}

#[derive(Debug, Clone)]
pub(super) struct Pending {
    pub(super) consumer: Word,
    /// When the entry was delivered, in milliseconds since 1970.
    pub(super) since: i64,
}

impl Stream {
    /// The id of an entry that is added at this time without an id of its own.
    pub(super) fn next_id(&self, now: i64) -> Id {
        let now = now as u64;
        if now > self.last.0 { (now, 0) } else { (self.last.0, self.last.1 + 1) }
    }

    pub(super) fn add(&mut self, id: Id, fields: Fields) {
        assert!(id > self.last, "ids of a stream grow");
        self.last = id;
        self.entries.push_back((id, fields));
    }

    /// The first entries behind `id`.
    pub(super) fn after(&self, id: Id, count: usize) -> impl Iterator<Item = (Id, &Fields)> {
        let first = self.entries.partition_point(|(at, _)| *at <= id);
        self.entries.range(first..).take(count).map(|(id, fields)| (*id, fields))
    }

    /// Whether a group has entries that no consumer has taken.
    pub(super) fn has_unread(&self, group: &[u8]) -> bool {
        let last = self.entries.back().map(|(id, _)| *id);
        self.groups.get(group).is_some_and(|group| last > Some(group.delivered))
    }

    pub(super) fn get(&self, id: Id) -> Option<&Fields> {
        let at = self.entries.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        self.entries.get(at).map(|(_, fields)| fields)
    }

    pub(super) fn first(&self) -> Option<Id> {
        self.entries.front().map(|(id, _)| *id)
    }

    /// Removes the entries before `id`.
    pub(super) fn trim(&mut self, id: Id) {
        while self.first().is_some_and(|first| first < id) {
            self.entries.pop_front();
        }
    }

    /// The first entry that a group with a live consumer still has to read or to acknowledge; `None` without one.
    pub(super) fn needed(&self, seen_after: i64) -> Option<Id> {
        let live = |group: &&Group| group.consumers.values().any(|seen| *seen > seen_after);
        let needed = |group: &Group| {
            let unread = (group.delivered.0, group.delivered.1 + 1);
            group.pending.keys().next().map_or(unread, |pending| unread.min(*pending))
        };
        self.groups.values().filter(live).map(needed).min()
    }
}

impl Group {
    /// Gives entries to a consumer.
    pub(super) fn deliver(&mut self, consumer: &Word, ids: &[Id], now: i64) {
        match self.consumers.get_mut(consumer) {
            Some(seen) => *seen = now,
            None => drop(self.consumers.insert(consumer.clone(), now)),
        }
        for &id in ids {
            self.delivered = self.delivered.max(id);
            self.pending.insert(id, Pending { consumer: consumer.clone(), since: now });
        }
    }

    /// What a consumer took and did not acknowledge, behind `id`.
    pub(super) fn pending_of(&self, consumer: &[u8], id: Id, count: usize) -> Vec<Id> {
        let behind = self.pending.range((Excluded(id), Unbounded));
        behind.filter(|(_, pending)| pending.consumer == consumer).take(count).map(|(id, _)| *id).collect()
    }

    /// What was taken and not acknowledged since `before`, from `id` on.
    pub(super) fn idle(&self, id: Id, before: i64, count: usize) -> Vec<Id> {
        let behind = self.pending.range(id..);
        behind.filter(|(_, pending)| pending.since <= before).take(count).map(|(id, _)| *id).collect()
    }
}
