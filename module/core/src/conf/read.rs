//! Queries of a realm: listings, totals, details.

use super::model::conference::{Conference, Epoch, State};
use super::model::state::Realm;
use super::model::unit::UnitState;
use crate::shared::invariant::Expected;

/// Totals of a realm, as `CONF.STAT` shows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "as in the record")]
pub struct Totals {
    /// Conferences by state, in the order of `State::ALL`. Those that are `lost` do not count as open.
    pub states: [usize; 5],
    /// Units by state, in the order of `UnitState::ALL`.
    pub units: [usize; 4],
    /// Open conferences of units whose lease has expired: whether they are served is unknown.
    pub lost: usize,
    pub draining: usize,
    /// Units in back-off, because creations failed on them.
    pub backoff: usize,
    /// Total capacity of the units that are not down, and the part of it in use.
    pub capacity: u64,
    pub used: u64,
}

impl Realm {
    /// Totals. O(units).
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for (total, state) in totals.states.iter_mut().zip(State::ALL) {
            *total = self.count(state);
        }
        for unit in self.units() {
            if let Some(count) = totals.units.get_mut(unit.state as usize).expected("each state has a count")
            {
                *count += 1;
            }
            totals.backoff += usize::from(unit.backoff_until.is_some());
            if unit.state == UnitState::Unreachable {
                totals.lost += unit.open as usize;
            }
            totals.draining += usize::from(unit.is_draining());
            if unit.state != UnitState::Down {
                totals.capacity += u64::from(unit.capacity);
                totals.used += unit.used;
            }
        }
        if let Some(open) = totals.states.get_mut(State::Open as usize).expected("each state has a count") {
            let served = open.checked_sub(totals.lost).expected("conferences of silent units are open");
            *open = served.unwrap_or(0);
        }
        totals
    }

    /// At most `count` conferences after a cursor, and the next cursor: 0 at the end. `state` and `unit` filter;
    /// without a state, all conferences that have not ended are listed. A conference that exists during the whole
    /// scan is listed once. With a unit the cursor is an epoch of assignment, otherwise of creation. O(states log
    /// conferences + conferences examined).
    pub fn list(
        &self,
        state: Option<State>,
        unit: Option<u32>,
        cursor: Epoch,
        count: usize,
    ) -> (Vec<&Conference>, Epoch) {
        let begin = cursor.saturating_add(1);
        let mut found: Vec<(Epoch, &Conference)> = Vec::new();
        let more = count.saturating_add(1);
        if let Some(unit) = unit {
            let Some(unit) = self.indexed_unit(unit) else { return (Vec::new(), 0) };
            let own =
                unit.owned.range((begin, 0)..).filter_map(|&(epoch, id)| Some((epoch, self.indexed(id)?)));
            found.extend(
                own.filter(|(_, conference)| state.is_none_or(|state| conference.state == state)).take(more),
            );
        } else {
            let states = State::ALL.into_iter().filter(|&conference| match state {
                None => conference != State::Ended,
                Some(state) => conference == state,
            });
            for state in states {
                let index = self.by_state.of(state);
                let all = index.range(begin..).filter_map(|(&epoch, &id)| Some((epoch, self.indexed(id)?)));
                found.extend(all.take(more));
            }
            found.sort_unstable_by_key(|&(epoch, _)| epoch);
        }
        let next = if found.len() > count { found.get(count.saturating_sub(1)) } else { None };
        let next = next.map_or(0, |&(epoch, _)| epoch);
        found.truncate(count);
        (found.into_iter().map(|(_, conference)| conference).collect(), next)
    }

    /// The value of a conference's detail.
    pub fn detail<'a>(&self, conference: &'a Conference, field: &[u8]) -> Option<&'a [u8]> {
        let at = conference.place_of(field).ok()?;
        let detail = conference.details.get(at).expected("a field that was found has a place");
        detail.map(|detail| &detail.value.0[..])
    }
}
