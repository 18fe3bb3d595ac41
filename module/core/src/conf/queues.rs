//! What waits for recovery, in a queue for each zone and size, and each set of units that failed it: where one finds
//! no room, it blocks nobody else.

use super::board::Board;
use super::conference::{Conference, Epoch};
use super::unit::Name;
use crate::shared::Millis;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// A place in the order of recovery: priority, longest waiting, oldest; and the conference's number.
pub(super) type Turn = (Reverse<i32>, Millis, Epoch, u32);

/// One queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    /// All that wait in it.
    pub(super) all: BTreeSet<Turn>,
    /// When those may be given again to units that failed them, by that time; of a queue without such units none.
    again: BTreeSet<(Millis, Turn)>,
}

/// What all conferences of a queue have in common, and so what decides whether there is a unit for them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Need {
    zone: Option<Name>,
    size: u32,
    /// Units that failed them, by name, rising.
    tried: Vec<Name>,
}

impl Need {
    pub(super) fn of(conference: &Conference) -> Self {
        let mut tried = conference.tried.clone();
        tried.sort_unstable();
        Self { zone: conference.zone.clone(), size: conference.size, tried }
    }

    /// The unit for such a conference, on that board: one that did not fail it, or any other once it may be tried
    /// again. O(log units + units passed over).
    pub(super) fn choose(&self, board: &Board, again: bool) -> Option<u32> {
        let failed = |_, name: &Name| self.tried.binary_search(name).is_ok();
        let untried = board.choose(self.zone.as_ref(), self.size, failed);
        if again && !self.tried.is_empty() {
            untried.or_else(|| board.choose(self.zone.as_ref(), self.size, |_, _| false))
        } else {
            untried
        }
    }
}

/// A queue that is worked off at some time.
pub(super) struct Line<'a> {
    need: &'a Need,
    queue: &'a Queue,
    /// Those that may be given again to units that failed them.
    again: BTreeSet<Turn>,
    last: Option<Turn>,
}

impl<'a> Line<'a> {
    /// From its beginning. O(those whose time has come).
    pub(super) fn new(need: &'a Need, queue: &'a Queue, now: Millis) -> Self {
        let again = queue.again.iter().take_while(|(time, _)| *time <= now).map(|&(_, turn)| turn).collect();
        Self { need, queue, again, last: None }
    }

    /// The next in turn for which that board has a unit. Where it has none for one of a queue, it has none for the others:
    /// the whole queue waits. O(log conferences + units passed over).
    pub(super) fn next(&mut self, board: &Board) -> Option<Turn> {
        let behind = (self.last.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let from = if self.need.choose(board, false).is_some() {
            &self.queue.all
        } else if !self.again.is_empty() && self.need.choose(board, true).is_some() {
            &self.again
        } else {
            return None;
        };
        let next = from.range(behind).next().copied();
        self.last = next.or(self.last);
        next
    }

    /// The unit on that board for one of the line.
    pub(super) fn unit(&self, turn: &Turn, board: &Board) -> Option<u32> {
        self.need.choose(board, self.again.contains(turn))
    }
}

/// All queues.
#[derive(Clone, Debug, Default)]
pub(super) struct Queues {
    pub(super) queues: BTreeMap<Need, Queue>,
    len: usize,
}

impl Queues {
    /// Its place in the order of recovery, if it waits since then or before.
    pub(super) fn turn(conference: &Conference, id: u32, since: Millis) -> Turn {
        let since = conference.pending_since.unwrap_or(since);
        (Reverse(conference.priority), since, conference.origin_epoch, id)
    }

    /// Adds a pending conference, or takes it out. O(log n).
    pub(super) fn link(&mut self, conference: &Conference, id: u32, on: bool) {
        let turn = Self::turn(conference, id, 0);
        let again = (conference.next_retry.unwrap_or_default(), turn);
        let need = Need::of(conference);
        let queue = self.queues.entry(need.clone()).or_default();
        if on {
            queue.all.insert(turn);
            if !need.tried.is_empty() {
                queue.again.insert(again);
            }
            self.len += 1;
        } else {
            queue.all.remove(&turn);
            queue.again.remove(&again);
            if queue.all.is_empty() {
                self.queues.remove(&need);
            }
            self.len -= 1;
        }
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}
