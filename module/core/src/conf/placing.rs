//! Who gets what: recovery in turn, and what would happen if a unit died. Everything is planned on a copy of the
//! board, so that a burst never piles onto one unit.

use super::conference::Epoch;
use super::queues::Turn;
use super::state::Realm;
use super::unit::Name;
use crate::shared::{Bytes, Millis};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A conference placed on a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The conference.
    pub e164: Bytes,
    /// Its unit.
    pub cmu: Name,
    /// The assignment.
    pub epoch: Epoch,
}

impl Realm {
    /// At most `most` pending conferences whose time has come, each with the unit that it gets: by priority, then
    /// who waits longest. What finds no room blocks nobody else. O((units + queues + placed) log conferences).
    pub(super) fn plan_recovery(&self, now: Millis, most: usize) -> Vec<(u32, u32)> {
        let mut board = self.board.clone();
        let queues = self.queues.queues.iter().filter(|(need, _)| need.choose(&board).is_some());
        let mut lines: Vec<_> = queues.map(|(need, queue)| (need, queue.in_turn(now))).collect();
        let mut heads: BinaryHeap<Reverse<(Turn, usize)>> = BinaryHeap::new();
        for (place, (_, line)) in lines.iter_mut().enumerate() {
            heads.extend(line.next().map(|turn| Reverse((turn, place))));
        }
        let mut placed = Vec::new();
        while placed.len() < most
            && let Some(Reverse(((.., id), place))) = heads.pop()
        {
            let Some((need, line)) = lines.get_mut(place) else { continue };
            // Where there is no unit for one of a queue, there is none for the others: the whole queue waits.
            let Some(unit) = need.choose(&board) else { continue };
            heads.extend(line.next().map(|turn| Reverse((turn, place))));
            if let Some(one) = self.conference(id).filter(|one| one.end.is_none_or(|end| end > now)) {
                board.reserve(unit, one.size);
                placed.push((id, unit));
            }
        }
        placed
    }

    /// Where each conference of a unit would go if the unit died now, the first to be recovered first: its number,
    /// and the unit that would have it, or why none would. O(conferences of the unit log units).
    pub fn plan_down(&self, unit: u32) -> Vec<(u32, Result<Name, &'static str>)> {
        let Some(lost) = self.unit(unit) else { return Vec::new() };
        let mut board = self.board.clone();
        board.strike(unit);
        let mut all: Vec<(Reverse<i32>, Epoch, u32)> = lost
            .owned
            .iter()
            .filter_map(|&(epoch, id)| Some((Reverse(self.conference(id)?.priority), epoch, id)))
            .collect();
        all.sort_unstable();
        let mut plan = Vec::with_capacity(all.len());
        for (.., id) in all {
            let Some(one) = self.conference(id) else { continue };
            let goes = if one.ending.is_some() {
                Err("ending")
            } else if let Some(moving) = one.moving {
                Ok(self.name_of(moving.to))
            } else if !one.recoverable {
                Err("not recoverable")
            } else if let Some(unit) = board.choose(one.zone.as_ref(), one.size, |_, _| false) {
                board.reserve(unit, one.size);
                Ok(self.name_of(unit))
            } else {
                Err("no room")
            };
            plan.push((id, goes));
        }
        plan
    }

    /// Which conferences wait for recovery, in turn, and why they wait: `retry` for one whose time has not come,
    /// `no room` for one that no unit can take, `due` for one that the next `CONF.RECOVER` would place.
    /// O(pending log units).
    pub fn plan_pending(&self, now: Millis) -> Vec<(u32, &'static str)> {
        let placed: std::collections::HashSet<u32> =
            self.plan_recovery(now, self.pending()).into_iter().map(|(id, _)| id).collect();
        let mut all: Vec<(Turn, Millis)> = Vec::with_capacity(self.pending());
        for queue in self.queues.queues.values() {
            all.extend(queue.ready.iter().map(|&turn| (turn, 0)));
            all.extend(queue.later.iter().map(|&(retry, turn)| (turn, retry)));
        }
        all.sort_unstable();
        let why = |id: u32, retry: Millis| match () {
            () if retry > now => "retry",
            () if placed.contains(&id) => "due",
            () => "no room",
        };
        all.into_iter().map(|((.., id), retry)| (id, why(id, retry))).collect()
    }
}
