//! Plans recovery: which pending conference is placed on which unit, and where the conferences of a unit would go if
//! the unit died. Plans are made on a copy of the placement index, so that a burst does not overload one unit.

use crate::conf::model::conference::Conference;
use crate::conf::model::placement_index::PlacementIndex;
use crate::conf::model::queues::{QueueCursor, QueueKey, Queues, Turn};
use crate::conf::model::state::Realm;
use crate::conf::model::unit::{Name, UnitState};
use crate::shared::Millis;
use crate::shared::invariant::Expected;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

/// Why a conference is not placed: no unit has room for it.
const NO_ROOM: &str = "no room";

/// The conferences that one call of [`Realm::forecast_losses`] considers before it ends, pending ones for each unit.
const FORECAST_STEP: usize = 4000;

/// Conferences of a unit, each with its new unit or the reason why there is none.
type LossPlan = Vec<(u32, Result<u32, &'static str>)>;

/// What would become of the conferences of a unit if the unit died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossForecast {
    /// The unit.
    pub cmu: Name,
    /// Conferences for which another unit has room.
    pub placed: usize,
    /// Conferences for which no other unit has room: they would wait.
    pub no_room: usize,
    /// Conferences that would end: they may not be recovered, or their end was requested.
    pub ending: usize,
}

impl Realm {
    /// At most `most` pending conferences that can be placed now, as (conference, unit): by priority, then by waiting
    /// time. A conference that finds no room does not block others. O((units + queues + placed) log conferences).
    pub(super) fn plan_recovery(&self, now: Millis, most: usize) -> Vec<(u32, u32)> {
        let mut index = self.placement_index.clone();
        let mut cursors: Vec<QueueCursor<'_>> =
            self.queues.queues.iter().map(|(key, queue)| QueueCursor::new(key, queue, now)).collect();
        let mut heads: BinaryHeap<Reverse<(Turn, usize)>> = BinaryHeap::new();
        for (place, cursor) in cursors.iter_mut().enumerate() {
            heads.extend(cursor.next(&index).map(|turn| Reverse((turn, place))));
        }
        let mut placed = Vec::new();
        while placed.len() < most
            && let Some(Reverse((turn, place))) = heads.pop()
        {
            let cursor = cursors.get_mut(place).expected("each head belongs to a queue");
            let Some(cursor) = cursor else { continue };
            let conference =
                self.indexed(turn.3).filter(|conference| conference.end.is_none_or(|end| end > now));
            // Conferences that were placed before may have taken the room.
            if let (Some(unit), Some(conference)) = (cursor.unit(&turn, &index), conference) {
                index.reserve(unit, conference.size);
                placed.push((turn.3, unit));
            }
            heads.extend(cursor.next(&index).map(|turn| Reverse((turn, place))));
        }
        placed
    }

    /// Where each conference of a unit would go if the unit died now, in the order of recovery: the conference, and
    /// its new unit or the reason why there is none. Conferences that are pending already keep their turn.
    /// O((conferences of the unit + pending) log conferences).
    pub fn plan_down(&self, unit: u32, now: Millis) -> Vec<(u32, Result<Name, &'static str>)> {
        let mut index = self.placement_index.clone();
        let plan = self.plan_loss(unit, now, &mut index).0;
        plan.into_iter().map(|(id, goes)| (id, goes.map(|to| self.name_of(to)))).collect()
    }

    /// Whether a conference that is being recovered has waited for the whole window: if its unit is lost, it ends.
    fn window_is_over(&self, conference: &Conference, now: Millis) -> bool {
        let ends = |since: Millis| since.saturating_add(self.settings.window);
        conference.pending_since.is_some_and(|since| ends(since) <= now)
    }

    /// As `plan_down`, with the new units by their numbers, on a copy of the placement index. The second list has the
    /// units that the plan changed in this copy.
    fn plan_loss(&self, unit: u32, now: Millis, index: &mut PlacementIndex) -> (LossPlan, Vec<u32>) {
        let Some(lost) = self.indexed_unit(unit) else { return (Vec::new(), Vec::new()) };
        index.strike(unit);
        let mut changed = vec![unit];
        let turn = |&(_, id): &(_, u32)| Some((Queues::turn(self.indexed(id)?, id, now), true));
        let mut all: Vec<(Turn, bool)> = lost.owned.iter().filter_map(turn).collect();
        all.extend(self.queues.queues.values().flat_map(|queue| &queue.all).map(|&turn| (turn, false)));
        all.sort_unstable();
        let mut plan = Vec::with_capacity(lost.owned.len());
        for ((.., id), is_lost) in all {
            let Some(conference) = self.indexed(id) else { continue };
            let stays = match &conference.moving {
                _ if conference.ending.is_some() => Some(Err("ending")),
                // The target of a move takes over in any case, and its time begins again.
                None if is_lost && self.window_is_over(conference, now) => Some(Err("window")),
                Some(moving) => Some(Ok(moving.to)),
                None if !conference.may_wait() => Some(Err("not recoverable")),
                None => None,
            };
            let goes = stays.unwrap_or_else(|| {
                let again = is_lost || conference.next_retry.is_none_or(|retry| retry <= now);
                let unit = QueueKey::at(conference, now).choose(index, again).ok_or(NO_ROOM)?;
                index.reserve(unit, conference.size);
                changed.push(unit);
                Ok(unit)
            });
            if is_lost {
                plan.push((id, goes));
            }
        }
        (plan, changed)
    }

    /// For each unit that is not down: what would become of its conferences if the unit died now. One call considers
    /// the units after `cursor` until it has placed `FORECAST_STEP` conferences, and at least one unit. The second
    /// value is the cursor of the next call, 0 at the end. O(units + (`FORECAST_STEP` + conferences of one unit +
    /// pending) log conferences).
    pub fn forecast_losses(&self, cursor: u32, now: Millis) -> (Vec<LossForecast>, u32) {
        let mut index = self.placement_index.clone();
        let (mut forecasts, mut considered) = (Vec::new(), 0);
        let units = self.units.iter().filter(|&(number, _)| number >= cursor);
        for (number, unit) in units.filter(|(_, unit)| unit.state != UnitState::Down) {
            if considered >= FORECAST_STEP {
                return (forecasts, number);
            }
            let mut forecast = LossForecast { cmu: unit.cmu.clone(), placed: 0, no_room: 0, ending: 0 };
            considered += 1 + unit.owned.len();
            if !unit.owned.is_empty() {
                considered += self.pending();
                let (plan, changed) = self.plan_loss(number, now, &mut index);
                index.restore(&changed, &self.placement_index);
                for (_, goes) in plan {
                    match goes {
                        Ok(_) => forecast.placed += 1,
                        Err(NO_ROOM) => forecast.no_room += 1,
                        Err(_) => forecast.ending += 1,
                    }
                }
            }
            forecasts.push(forecast);
        }
        (forecasts, 0)
    }

    /// When a pending conference can be placed next, if there is room: at once while there is a unit that has not
    /// failed to create the conference. O(units).
    pub fn next_try(&self, conference: &Conference) -> Option<Millis> {
        let retry = conference.next_retry?;
        Some(if self.has_untried(conference) { retry.min(conference.since) } else { retry })
    }

    /// Units that failed to create a conference, while there is another candidate. O(units).
    pub fn tried<'a>(&self, conference: &'a Conference) -> &'a [Name] {
        if self.has_untried(conference) { &conference.tried } else { &[] }
    }

    fn has_untried(&self, conference: &Conference) -> bool {
        self.placement_index.has_other(conference.need(), |name| conference.tried.contains(name))
    }

    /// All pending conferences in the order of recovery, and why each waits: `retry` until its next try, `no room` if
    /// no unit can take the conference, `due` if the next `CONF.RECOVER` would place it. O(pending (log conferences +
    /// units)).
    pub fn plan_pending(&self, now: Millis) -> Vec<(u32, &'static str)> {
        let placed: HashSet<u32> =
            self.plan_recovery(now, self.pending()).into_iter().map(|(id, _)| id).collect();
        let mut all: Vec<Turn> = self.queues.queues.values().flat_map(|queue| &queue.all).copied().collect();
        all.sort_unstable();
        let why = |id: u32| match self.indexed(id).and_then(|conference| self.next_try(conference)) {
            _ if placed.contains(&id) => "due",
            Some(next) if next > now => "retry",
            _ => NO_ROOM,
        };
        all.into_iter().map(|(.., id)| (id, why(id))).collect()
    }
}
