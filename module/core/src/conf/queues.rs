//! What waits for recovery, in a queue for each zone and size, and each set of units that failed it: where one finds
//! no room, it blocks nobody else.

use super::board::Board;
use super::conference::{Conference, Epoch};
use super::unit::Name;
use crate::shared::Millis;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A place in the order of recovery: priority, longest waiting, oldest; and the conference's number.
pub(super) type Turn = (Reverse<i32>, Millis, Epoch, u32);

/// One queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    /// What could be placed when it came in.
    pub(super) ready: BTreeSet<Turn>,
    /// What is to wait until its time, by that.
    pub(super) later: BTreeSet<(Millis, Turn)>,
}

impl Queue {
    /// What may be tried at `now`, in turn. O(those whose time has come since they came in), then O(1) for each.
    pub(super) fn in_turn(&self, now: Millis) -> impl Iterator<Item = Turn> + '_ {
        let mut due: Vec<Turn> =
            self.later.iter().take_while(|(due, _)| *due <= now).map(|&(_, turn)| turn).collect();
        due.sort_unstable();
        let (mut ready, mut due) = (self.ready.iter().copied().peekable(), due.into_iter().peekable());
        std::iter::from_fn(move || match (ready.peek(), due.peek()) {
            (Some(one), Some(other)) if one < other => ready.next(),
            (_, Some(_)) => due.next(),
            _ => ready.next(),
        })
    }
}

/// What all conferences of a queue have in common, and so what decides whether there is a unit for them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Need {
    pub(super) zone: Option<Name>,
    pub(super) size: u32,
    /// Units that failed them, by name, rising.
    pub(super) tried: Vec<Name>,
}

impl Need {
    fn of(conference: &Conference) -> Self {
        let mut tried = conference.tried.clone();
        tried.sort_unstable();
        Self { zone: conference.zone.clone(), size: conference.size, tried }
    }

    /// The unit for such a conference, on that board: one that did not fail it; where there is no other left, any.
    pub(super) fn choose(&self, board: &Board) -> Option<u32> {
        let failed = |name: &Name| self.tried.binary_search(name).is_ok();
        if board.has_other(self.zone.as_ref(), failed) {
            board.choose(self.zone.as_ref(), self.size, |_, name| failed(name))
        } else {
            board.choose(self.zone.as_ref(), self.size, |_, _| false)
        }
    }
}

/// All queues.
#[derive(Clone, Debug, Default)]
pub(super) struct Queues {
    pub(super) queues: BTreeMap<Need, Queue>,
    len: usize,
}

impl Queues {
    fn turn(conference: &Conference, id: u32) -> Turn {
        let since = conference.pending_since.unwrap_or_default();
        (Reverse(conference.priority), since, conference.origin_epoch, id)
    }

    /// Adds a pending conference, or takes it out. O(log n).
    pub(super) fn link(&mut self, conference: &Conference, id: u32, on: bool) {
        let turn = Self::turn(conference, id);
        let retry = conference.next_retry.unwrap_or_default();
        let need = Need::of(conference);
        let queue = self.queues.entry(need.clone()).or_default();
        // What may be tried since it came in is ready; this is no more than a way to find it fast.
        let ready = retry <= conference.since;
        match (on, ready) {
            (true, true) => drop(queue.ready.insert(turn)),
            (true, false) => drop(queue.later.insert((retry, turn))),
            (false, true) => drop(queue.ready.remove(&turn)),
            (false, false) => drop(queue.later.remove(&(retry, turn))),
        }
        if on {
            self.len += 1;
        } else {
            self.len -= 1;
            if queue.ready.is_empty() && queue.later.is_empty() {
                self.queues.remove(&need);
            }
        }
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}
