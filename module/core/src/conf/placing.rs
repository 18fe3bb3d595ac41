//! Who gets what: recovery in turn, and what would happen if a unit died. Everything is planned on a copy of the
//! board, so that a burst never piles onto one unit.

use super::conference::{Conference, Epoch};
use super::queues::{Line, Need, Queues, Turn};
use super::state::Realm;
use super::unit::Name;
use crate::invariant;
use crate::shared::{Bytes, Millis};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

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
        let mut lines: Vec<Line<'_>> =
            self.queues.queues.iter().map(|(need, queue)| Line::new(need, queue, now)).collect();
        let mut heads: BinaryHeap<Reverse<(Turn, usize)>> = BinaryHeap::new();
        for (place, line) in lines.iter_mut().enumerate() {
            heads.extend(line.next(&board).map(|turn| Reverse((turn, place))));
        }
        let mut placed = Vec::new();
        while placed.len() < most
            && let Some(Reverse((turn, place))) = heads.pop()
        {
            let Some(line) = lines.get_mut(place) else {
                invariant!("each turn is of a line");
                continue;
            };
            let one = self.indexed(turn.3).filter(|one| one.end.is_none_or(|end| end > now));
            // The room that its line had may be taken by what came before it.
            if let (Some(unit), Some(one)) = (line.unit(&turn, &board), one) {
                board.reserve(unit, one.size);
                placed.push((turn.3, unit));
            }
            heads.extend(line.next(&board).map(|turn| Reverse((turn, place))));
        }
        placed
    }

    /// Where each conference of a unit would go if the unit died now, the first to be recovered first: its number, and
    /// the unit that would have it, or why none would. What waits already has its turn among them.
    /// O((conferences of the unit + pending) log conferences).
    pub fn plan_down(&self, unit: u32, now: Millis) -> Vec<(u32, Result<Name, &'static str>)> {
        let Some(lost) = self.indexed_unit(unit) else { return Vec::new() };
        let mut board = self.board.clone();
        board.strike(unit);
        let turn = |&(_, id): &(_, u32)| Some((Queues::turn(self.indexed(id)?, id, now), true));
        let mut all: Vec<(Turn, bool)> = lost.owned.iter().filter_map(turn).collect();
        all.extend(self.queues.queues.values().flat_map(|queue| &queue.all).map(|&turn| (turn, false)));
        all.sort_unstable();
        let mut plan = Vec::with_capacity(lost.owned.len());
        for ((.., id), is_lost) in all {
            let Some(one) = self.indexed(id) else { continue };
            let stays = match one.moving {
                _ if one.ending.is_some() => Some(Err("ending")),
                Some(moving) => Some(Ok(self.name_of(moving.to))),
                None if !one.recoverable => Some(Err("not recoverable")),
                None => None,
            };
            let goes = stays.unwrap_or_else(|| {
                let again = is_lost || one.next_retry.is_none_or(|retry| retry <= now);
                let unit = Need::of(one).choose(&board, again).ok_or("no room")?;
                board.reserve(unit, one.size);
                Ok(self.name_of(unit))
            });
            if is_lost {
                plan.push((id, goes));
            }
        }
        plan
    }

    /// When a pending conference is tried next, if there is room for it then: at once while there is a unit that did not
    /// fail it. O(units).
    pub fn next_try(&self, one: &Conference) -> Option<Millis> {
        let retry = one.next_retry?;
        Some(if self.has_untried(one) { retry.min(one.since) } else { retry })
    }

    /// Units that failed a conference, while there is another that could have it. O(units).
    pub fn tried<'a>(&self, one: &'a Conference) -> &'a [Name] {
        if self.has_untried(one) { &one.tried } else { &[] }
    }

    fn has_untried(&self, one: &Conference) -> bool {
        self.board.has_other(one.zone.as_ref(), one.size, |name| one.tried.contains(name))
    }

    /// Which conferences wait for recovery, in turn, and why they wait: `retry` for one whose time has not come, `no
    /// room` for one that no unit can take, `due` for one that the next `CONF.RECOVER` would place.
    /// O(pending (log conferences + units)).
    pub fn plan_pending(&self, now: Millis) -> Vec<(u32, &'static str)> {
        let placed: HashSet<u32> =
            self.plan_recovery(now, self.pending()).into_iter().map(|(id, _)| id).collect();
        let mut all: Vec<Turn> = self.queues.queues.values().flat_map(|queue| &queue.all).copied().collect();
        all.sort_unstable();
        let why = |id: u32| match self.indexed(id).and_then(|one| self.next_try(one)) {
            _ if placed.contains(&id) => "due",
            Some(next) if next > now => "retry",
            _ => "no room",
        };
        all.into_iter().map(|(.., id)| (id, why(id))).collect()
    }
}
