//! Queries of a realm: listings, totals, details.

use super::model::conference::{Conference, Epoch, State};
use super::model::state::Realm;
use super::model::unit::UnitState;
use crate::shared::invariant::Expected;
use crate::words;

words! {
    /// The state of a conference as replies show it.
    pub enum ShownState {
        /// As [`State::Scheduled`].
        Scheduled => "scheduled",
        /// As [`State::Waiting`].
        Waiting => "waiting",
        /// As [`State::Creating`].
        Creating => "creating",
        /// As [`State::Open`], unless it is lost.
        Open => "open",
        /// Open, but the lease of its unit has expired: whether it is served is unknown.
        Lost => "lost",
        /// As [`State::Pending`].
        Pending => "pending",
        /// As [`State::Ended`].
        Ended => "ended",
    }
}

/// Totals of a realm, as `CONF.STAT` shows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "as in the record")]
pub struct Totals {
    /// Conferences by state, in the order of `State::ALL`. Those that are `lost` do not count as open.
    pub states: [usize; 6],
    /// Units by state, in the order of `UnitState::ALL`.
    pub units: [usize; 4],
    /// Conferences that are [`ShownState::Lost`].
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

    /// The state as replies show it.
    pub fn shown_state(&self, conference: &Conference) -> ShownState {
        let owner = || conference.owner.and_then(|owner| self.indexed_unit(owner));
        match conference.state {
            State::Scheduled => ShownState::Scheduled,
            State::Waiting => ShownState::Waiting,
            State::Creating => ShownState::Creating,
            State::Open if owner().is_some_and(|unit| unit.state == UnitState::Unreachable) => {
                ShownState::Lost
            }
            State::Open => ShownState::Open,
            State::Pending => ShownState::Pending,
            State::Ended => ShownState::Ended,
        }
    }

    /// At most `count` conferences after a cursor, and the next cursor: 0 at the end. `state` and `unit` filter;
    /// without a state, all conferences that have not ended are listed. A conference that exists during the whole
    /// scan is listed once. With a unit the cursor is an epoch of assignment, otherwise of creation. O(states log
    /// conferences + conferences examined); for lost ones O(lost log lost + units).
    pub fn list(
        &self,
        state: Option<ShownState>,
        unit: Option<u32>,
        cursor: Epoch,
        count: usize,
    ) -> (Vec<&Conference>, Epoch) {
        let begin = cursor.saturating_add(1);
        let mut found: Vec<(Epoch, &Conference)> = Vec::new();
        let more = count.saturating_add(1);
        let is_wanted =
            |conference: &Conference| state.is_none_or(|state| self.shown_state(conference) == state);
        if let Some(unit) = unit {
            let Some(unit) = self.indexed_unit(unit) else { return (Vec::new(), 0) };
            let own =
                unit.owned.range((begin, 0)..).filter_map(|&(epoch, id)| Some((epoch, self.indexed(id)?)));
            found.extend(own.filter(|(_, conference)| is_wanted(conference)).take(more));
        } else if state == Some(ShownState::Lost) {
            // No index has them in the order of their creation, and normally there are none.
            let silent = self.units().filter(|unit| unit.state == UnitState::Unreachable);
            let lost = silent.flat_map(|unit| &unit.owned).filter_map(|&(_, id)| self.indexed(id));
            let lost = lost.filter(|&conference| conference.origin_epoch >= begin && is_wanted(conference));
            found.extend(lost.map(|conference| (conference.origin_epoch, conference)));
            found.sort_unstable_by_key(|&(epoch, _)| epoch);
        } else {
            let is_shown = |held: State, shown: ShownState| held.word() == shown.word();
            let states = State::ALL
                .into_iter()
                .filter(|&held| state.map_or(held != State::Ended, |state| is_shown(held, state)));
            for state in states {
                let index = self.by_state.of(state);
                let all = index.range(begin..).filter_map(|(&epoch, &id)| Some((epoch, self.indexed(id)?)));
                found.extend(all.filter(|(_, conference)| is_wanted(conference)).take(more));
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
