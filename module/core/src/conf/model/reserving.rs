//! Keeps the reservations of a realm in step with its conferences and units, and answers what fits beside them.

use super::conference::{Conference, State, Wishes};
use super::reservations::{Area, Ask, Demand, MAX_AREAS, MAX_SCHEDULED, Reservations};
use super::state::Realm;
use super::wishes::Need;
use crate::shared::Millis;
use std::borrow::Cow;

impl Realm {
    /// What conferences take over time, with one more area if it is named. O(areas (conferences log conferences +
    /// units)).
    fn measured(&self, more: Option<&Area>) -> Reservations {
        let states = [State::Scheduled, State::Pending].into_iter();
        let ids = states.flat_map(|state| self.by_state.of(state).values());
        let booked = ids.filter_map(|&id| self.indexed(id)).filter(|one| one.is_booked());
        let areas = booked.map(|conference| Area::of(conference.need()));
        let mut all = Reservations::of(areas.chain(more.cloned()));
        if all.is_empty() {
            return all;
        }
        for (_, unit) in self.units.iter() {
            all.count_capacity(unit, unit.counted.into());
        }
        for (_, conference) in self.conferences.iter() {
            self.demand(conference).into_iter().for_each(|demand| all.add(&demand, 1));
        }
        all
    }

    /// What a conference takes of the realm; `None` once it has ended.
    pub(in crate::conf) fn demand(&self, conference: &Conference) -> Option<Demand> {
        if !conference.is_live() {
            return None;
        }
        let area = match conference.owner.and_then(|owner| self.indexed_unit(owner)) {
            Some(unit) => Area::of_unit(unit),
            None => Area::of(conference.need()),
        };
        let start = conference.start.filter(|_| conference.is_booked());
        let until = conference.end.into_iter().chain(conference.ending).min();
        let (size, licences) = (conference.size.into(), conference.licences.into());
        Some(Demand { area, size, licences, start, until })
    }

    /// What a conference takes, as far as it matters: nothing while no conference is booked.
    pub(in crate::conf) fn reserved(&self, id: u32) -> Option<Demand> {
        let conference = self.conferences.get(id)?;
        let matters = !self.reservations.is_empty() || conference.is_booked();
        if matters { self.demand(conference) } else { None }
    }

    /// Updates the reservations from what a conference took to what it takes. O(areas log changes), and as
    /// `measured` for the first conference of an area.
    pub(in crate::conf) fn reserve(&mut self, before: Option<Demand>, after: Option<Demand>) {
        if before == after {
            return;
        }
        if let Some(before) = before {
            self.reservations.add(&before, -1);
        }
        let Some(after) = after else { return };
        if after.start.is_some() && !self.reservations.has(&after.area) {
            self.measure_reservations();
        } else if !self.reservations.is_empty() {
            self.reservations.add(&after, 1);
        }
    }

    pub(in crate::conf) fn measure_reservations(&mut self) {
        self.reservations = self.measured(None);
    }

    /// Whether there may be a scheduled conference with these wishes.
    pub(in crate::conf) fn may_have_area(&self, wishes: &Wishes) -> bool {
        let area = Area::of(Need { size: 1, wishes, elsewhere: false });
        self.reservations.has(&area) || self.reservations.len() < MAX_AREAS
    }

    /// Whether a further conference may be scheduled. Combinations of zone and tags are limited only for requests: a
    /// conference that waits for its first unit has one too, and may get another.
    pub(in crate::conf) fn may_schedule(&self) -> bool {
        self.count(State::Scheduled) < MAX_SCHEDULED
    }

    /// The earliest time, not before what is asked, at which it fits into the licences and into the room of an area,
    /// beside all that is open, pending and scheduled; `None` if there is none. What the areas that contain `without`
    /// have does not matter. As `Reservations::earliest`, and as `measured` if no booked conference wishes this area.
    pub(in crate::conf) fn earliest(&self, area: &Area, without: Option<&Area>, ask: &Ask) -> Option<Millis> {
        let reservations = if self.reservations.has(area) {
            Cow::Borrowed(&self.reservations)
        } else {
            Cow::Owned(self.measured(Some(area)))
        };
        reservations.earliest(ask, (area, without), self.licence_limit())
    }

    /// As `earliest`, if a booked conference wishes this area; otherwise `None`.
    pub(in crate::conf) fn known_earliest(&self, area: &Area, ask: &Ask) -> Option<Millis> {
        let is_known = self.reservations.has(area);
        is_known.then(|| self.reservations.earliest(ask, (area, None), self.licence_limit()))?
    }

    /// Whether what a conference asks in addition fits beside all that is scheduled.
    pub(in crate::conf) fn has_reserve(&self, conference: &Conference, ask: &Ask) -> bool {
        if self.reservations.is_empty() {
            return true;
        }
        let Some(Demand { area, .. }) = self.demand(conference) else { return true };
        self.reservations.earliest(ask, (&area, None), self.licence_limit()) == Some(ask.from)
    }

    /// Whether a unit is in one of these areas.
    pub(in crate::conf) fn is_in_one(&self, unit: u32, areas: &[&Area]) -> bool {
        !areas.is_empty()
            && self.indexed_unit(unit).is_some_and(|unit| areas.iter().any(|area| area.has_unit(unit)))
    }

    /// Whether so many licences are free beside those of all that is scheduled.
    pub(in crate::conf) fn has_licences(&self, ask: &Ask) -> bool {
        self.reservations.is_empty() || self.reservations.has_licences(ask, self.licence_limit())
    }

    fn licence_limit(&self) -> Option<i64> {
        Some(self.settings.licences as i64).filter(|&all| all > 0)
    }
}
