//! Conferences by state; and pending conferences, in one queue for each combination of wishes, size and units that failed them. A conference that
//! finds no room does not block other queues.

use super::conference::{Conference, Epoch, State, Wishes};
use super::placement_index::PlacementIndex;
use super::unit::Name;
use super::wishes::Need;
use crate::invariant;
use crate::shared::Millis;
use crate::shared::invariant::Expected;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// Numbers of conferences by the epoch of their creation, for each state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::conf) struct ByState([BTreeMap<Epoch, u32>; State::ALL.len()]);

#[allow(clippy::indexing_slicing, reason = "there are as many maps as states")]
impl ByState {
    /// Conferences in that state.
    pub(in crate::conf) fn of(&self, state: State) -> &BTreeMap<Epoch, u32> {
        &self.0[state as usize]
    }

    /// Conferences in that state, to be changed.
    pub(in crate::conf) fn of_mut(&mut self, state: State) -> &mut BTreeMap<Epoch, u32> {
        &mut self.0[state as usize]
    }
}

/// The order of recovery: priority, waiting since, epoch of creation; and the id of the conference.
pub(in crate::conf) type Turn = (Reverse<i32>, Millis, Epoch, u32);

/// One queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::conf) struct Queue {
    /// All conferences of the queue, in the order of recovery.
    pub(in crate::conf) all: BTreeSet<Turn>,
    /// When each conference may be placed again on units that failed it, by that time; empty if no unit failed them.
    again: BTreeSet<(Millis, Turn)>,
}

/// What all conferences of a queue have in common. It decides which units can take them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::conf) struct QueueKey {
    wishes: Wishes,
    elsewhere: bool,
    size: u32,
    /// Names of units that failed them, in ascending order.
    tried: Vec<Name>,
}

impl QueueKey {
    pub(in crate::conf) fn of(conference: &Conference) -> Self {
        Self::with(conference, conference.elsewhere)
    }

    /// The key of a conference that would be pending at that time.
    pub(in crate::conf) fn at(conference: &Conference, now: Millis) -> Self {
        Self::with(conference, conference.elsewhere || conference.zone_falls_at().is_some_and(|at| at <= now))
    }

    fn with(conference: &Conference, elsewhere: bool) -> Self {
        let mut tried = conference.tried.clone();
        tried.sort_unstable();
        let wishes = Wishes::clone(&conference.wishes);
        Self { wishes, elsewhere, size: conference.size, tried }
    }

    fn need(&self) -> Need<'_> {
        Need { elsewhere: self.elsewhere, size: self.size, wishes: &self.wishes }
    }

    /// The unit for such a conference: one that did not fail it, or, with `again`, any unit. O(log units + units
    /// passed over).
    pub(in crate::conf) fn choose(&self, index: &PlacementIndex, again: bool) -> Option<u32> {
        let failed = |_, name: &Name| self.tried.binary_search(name).is_ok();
        let untried = index.choose(self.need(), failed);
        if again && !self.tried.is_empty() {
            untried.or_else(|| index.choose(self.need(), |_, _| false))
        } else {
            untried
        }
    }
}

/// A cursor over a queue, which yields its conferences in the order of recovery.
pub(in crate::conf) struct QueueCursor<'a> {
    key: &'a QueueKey,
    queue: &'a Queue,
    /// Conferences that may be placed on units that failed them.
    again: BTreeSet<Turn>,
    last: Option<Turn>,
}

impl<'a> QueueCursor<'a> {
    /// A cursor at the beginning of a queue. O(conferences that may be tried again).
    pub(in crate::conf) fn new(key: &'a QueueKey, queue: &'a Queue, now: Millis) -> Self {
        let again = queue.again.iter().take_while(|(time, _)| *time <= now).map(|&(_, turn)| turn).collect();
        Self { key, queue, again, last: None }
    }

    /// The next conference for which there is a unit. If there is none for one conference of a queue, there is none
    /// for the others either. O(log conferences + units passed over).
    pub(in crate::conf) fn next(&mut self, index: &PlacementIndex) -> Option<Turn> {
        let behind = (self.last.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let from = if self.key.choose(index, false).is_some() {
            &self.queue.all
        } else if !self.again.is_empty() && self.key.choose(index, true).is_some() {
            &self.again
        } else {
            return None;
        };
        let next = from.range(behind).next().copied();
        self.last = next.or(self.last);
        next
    }

    /// The unit for a conference of the queue.
    pub(in crate::conf) fn unit(&self, turn: &Turn, index: &PlacementIndex) -> Option<u32> {
        self.key.choose(index, self.again.contains(turn))
    }
}

/// All queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::conf) struct Queues {
    pub(in crate::conf) queues: BTreeMap<QueueKey, Queue>,
    len: usize,
}

impl Queues {
    /// The place of a conference in the order of recovery; `since` counts if it is not pending yet.
    pub(in crate::conf) fn turn(conference: &Conference, id: u32, since: Millis) -> Turn {
        let since = conference.pending_since.unwrap_or(since);
        (Reverse(conference.priority), since, conference.origin_epoch, id)
    }

    /// The turn of a pending conference, and when it may be placed again on units that failed it.
    fn turn_of(conference: &Conference, id: u32) -> (Turn, (Millis, Turn)) {
        let turn = Self::turn(conference, id, 0);
        let retry = conference.next_retry.expected("a pending conference has a time for the next try");
        (turn, (retry.unwrap_or(0), turn))
    }

    /// Adds a pending conference. O(log n).
    pub(in crate::conf) fn join(&mut self, conference: &Conference, id: u32) {
        let (turn, again) = Self::turn_of(conference, id);
        let key = QueueKey::of(conference);
        let failed = !key.tried.is_empty();
        let queue = self.queues.entry(key).or_default();
        let is_new = queue.all.insert(turn) && (!failed || queue.again.insert(again));
        invariant!(is_new, "a pending conference joins its queue once");
        self.len += 1;
    }

    /// Takes a pending conference out. O(log n).
    pub(in crate::conf) fn leave(&mut self, conference: &Conference, id: u32) {
        let (turn, again) = Self::turn_of(conference, id);
        let key = QueueKey::of(conference);
        let queue = self.queues.get_mut(&key).expected("a pending conference has a queue");
        let Some(queue) = queue else { return };
        let was_there = queue.all.remove(&turn) && (key.tried.is_empty() || queue.again.remove(&again));
        if queue.all.is_empty() {
            self.queues.remove(&key);
        }
        if invariant!(was_there, "a pending conference is in its queue") {
            self.len -= 1;
        }
    }

    /// Number of pending conferences.
    pub(in crate::conf) fn len(&self) -> usize {
        self.len
    }
}
