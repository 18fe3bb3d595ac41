//! What waits for recovery, in a queue for each zone and size, and each set of units that failed it: where one finds
//! no room, it blocks nobody else.

use super::board::Board;
use super::conference::{Conference, Epoch};
use super::unit::Name;
use crate::shared::Millis;
use crate::shared::invariant::Checked;
use crate::{ensure, invariant};
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

    /// The turn of a pending conference, and when units that failed it may have it again.
    fn turn_of(conference: &Conference, id: u32) -> (Turn, (Millis, Turn)) {
        invariant!(
            conference.pending_since.is_some() && conference.next_retry.is_some(),
            "a pending conference has the time since when it waits, and a time for the next try"
        );
        let turn = Self::turn(conference, id, 0);
        (turn, (conference.next_retry.unwrap_or(0), turn))
    }

    /// Adds a pending conference. O(log n).
    pub(super) fn join(&mut self, conference: &Conference, id: u32) {
        let (turn, again) = Self::turn_of(conference, id);
        let need = Need::of(conference);
        let failed = !need.tried.is_empty();
        let queue = self.queues.entry(need).or_default();
        let is_new = queue.all.insert(turn) && (!failed || queue.again.insert(again));
        invariant!(is_new, "a pending conference joins its queue once");
        self.len += 1;
    }

    /// Takes a pending conference out. O(log n).
    pub(super) fn leave(&mut self, conference: &Conference, id: u32) {
        let (turn, again) = Self::turn_of(conference, id);
        let need = Need::of(conference);
        let Some(queue) = self.queues.get_mut(&need) else {
            invariant!("a pending conference has a queue");
            return;
        };
        let was_there = queue.all.remove(&turn) && (need.tried.is_empty() || queue.again.remove(&again));
        if queue.all.is_empty() {
            self.queues.remove(&need);
        }
        if invariant!(was_there, "a pending conference is in its queue") {
            self.len -= 1;
        }
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Checks that each of these conferences, which are all that wait, is in its queue and nothing else is.
    /// O(n log n).
    ///
    /// # Errors
    /// What contradicts what.
    pub(super) fn check<'a>(&self, pending: impl Iterator<Item = (u32, &'a Conference)>) -> Checked {
        let mut expected = Self::default();
        for (id, conference) in pending {
            let e164 = conference.e164.escape_ascii();
            ensure!(conference.pending_since.is_some(), "conference {e164} waits since never");
            ensure!(conference.next_retry.is_some(), "conference {e164} waits for nothing");
            expected.join(conference, id);
        }
        ensure!(self.len == expected.len, "{} conferences are queued, {} wait", self.len, expected.len);
        ensure!(self.queues.keys().eq(expected.queues.keys()), "the queues are not those of what waits");
        for (need, queue) in &self.queues {
            let same = expected
                .queues
                .get(need)
                .is_some_and(|known| known.all == queue.all && known.again == queue.again);
            ensure!(same, "the queue for {need:?} differs from what waits for it");
        }
        Ok(())
    }
}
