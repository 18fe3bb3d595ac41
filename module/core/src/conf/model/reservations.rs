//! What conferences take of room and licences over time, so that a conference can be scheduled for a later start.
//! All of this is kept only while some conference is booked: it is scheduled, or waits for its first unit since its
//! start. A realm without one does no work for it.
//!
//! The unit of a scheduled conference is chosen at its start, so what is reserved for it is a sum and no place: at each
//! moment, all conferences of an area together take at most what its units have.

use super::unit::{Name, Unit};
use super::wishes::Need;
use crate::shared::Millis;
use crate::shared::invariant::Expected;
use std::collections::BTreeMap;

/// The most conferences that are scheduled in one realm.
pub(in crate::conf) const MAX_SCHEDULED: usize = 10_000;

/// The most combinations of zone and required tags that the scheduled conferences of one realm have.
pub(in crate::conf) const MAX_AREAS: usize = 64;

/// The units of a zone, or of all zones, that have all of these tags.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::conf) struct Area {
    zone: Option<Name>,
    /// In ascending order.
    tags: Vec<Name>,
}

impl Area {
    /// The units that have zone and tags of this one.
    pub(super) fn of_unit(unit: &Unit) -> Self {
        Self { zone: unit.zone.clone(), tags: unit.tags.clone() }
    }

    /// The units that meet a need; the host that it names does not count.
    pub(in crate::conf) fn of(need: Need<'_>) -> Self {
        Self { zone: need.zone().cloned(), tags: need.wishes.require.clone() }
    }

    fn has(&self, zone: Option<&Name>, tags: &[Name]) -> bool {
        (self.zone.is_none() || self.zone.as_ref() == zone)
            && self.tags.iter().all(|tag| tags.binary_search(tag).is_ok())
    }

    pub(super) fn has_unit(&self, unit: &Unit) -> bool {
        self.has(unit.zone.as_ref(), &unit.tags)
    }

    /// Whether each unit of the other area is in this one.
    pub(in crate::conf) fn contains(&self, other: &Self) -> bool {
        self.has(other.zone.as_ref(), &other.tags)
    }
}

/// What a live conference takes, where, and from when to when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::conf) struct Demand {
    /// Zone and tags of its unit; without a unit, those that it wishes.
    pub(super) area: Area,
    pub(super) size: i64,
    pub(super) licences: i64,
    /// Its start, if it is booked; the start may have passed. Other conferences take their room now.
    pub(super) start: Option<Millis>,
    /// Its planned end, or when its end was requested.
    pub(super) until: Option<Millis>,
}

/// What is asked for, in addition to all that is taken.
#[derive(Clone, Copy, Debug)]
pub(in crate::conf) struct Ask {
    pub(in crate::conf) from: Millis,
    /// For ever if `None`.
    pub(in crate::conf) until: Option<Millis>,
    pub(in crate::conf) size: i64,
    pub(in crate::conf) licences: i64,
}

/// How much of one resource is taken at each moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Timeline {
    /// What conferences take that are not booked, each until its end.
    now: i64,
    /// What booked conferences take, each in its time.
    scheduled: i64,
    /// By how much the sum changes, at the starts of booked conferences and at the ends of all. No change is 0.
    changes: BTreeMap<Millis, i64>,
}

impl Timeline {
    /// Adds what a conference takes, or removes it if the amount is negative. O(log changes).
    fn add(&mut self, demand: &Demand, amount: i64) {
        let sum = if demand.start.is_some() { &mut self.scheduled } else { &mut self.now };
        *sum += amount;
        let changes = [(demand.start, amount), (demand.until, -amount)];
        for (at, amount) in changes.into_iter().filter_map(|(at, amount)| Some((at?, amount))) {
            let change = self.changes.entry(at).or_default();
            *change += amount;
            if *change == 0 {
                self.changes.remove(&at);
            }
        }
    }
}

/// The room of an area.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Reserved {
    /// The capacity of its units that count.
    capacity: i64,
    room: Timeline,
    /// How many booked conferences wish exactly this area.
    conferences: usize,
}

/// Room and licences over time. Empty while no conference is booked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::conf) struct Reservations {
    /// The areas that booked conferences wish.
    areas: BTreeMap<Area, Reserved>,
    licences: Timeline,
}

impl Reservations {
    pub(in crate::conf) fn is_empty(&self) -> bool {
        self.areas.is_empty()
    }

    /// These areas, without units and conferences.
    pub(super) fn of(areas: impl Iterator<Item = Area>) -> Self {
        Self { areas: areas.map(|area| (area, Reserved::default())).collect(), ..Self::default() }
    }

    pub(super) fn has(&self, area: &Area) -> bool {
        self.areas.contains_key(area)
    }

    pub(super) fn len(&self) -> usize {
        self.areas.len()
    }

    /// Adds what a conference takes once, or -1 times. O(areas log changes).
    pub(super) fn add(&mut self, demand: &Demand, times: i64) {
        for (_, reserved) in self.areas.iter_mut().filter(|(area, _)| area.contains(&demand.area)) {
            reserved.room.add(demand, times * demand.size);
        }
        self.licences.add(demand, times * demand.licences);
        if demand.start.is_none() {
            return;
        }
        let reserved = self.areas.get_mut(&demand.area);
        let Some(reserved) = reserved.expected("a booked conference has an area") else { return };
        let count = reserved.conferences.checked_add_signed(times as isize);
        reserved.conferences = count.expected("an area counts its booked conferences").unwrap_or(0);
        if reserved.conferences == 0 {
            self.areas.remove(&demand.area);
        }
        if self.is_empty() {
            self.licences = Timeline::default();
        }
    }

    /// The units of the areas have so much more capacity. O(areas).
    pub(in crate::conf) fn count_capacity(&mut self, unit: &Unit, more: i64) {
        for (_, reserved) in self.areas.iter_mut().filter(|(area, _)| area.has_unit(unit)) {
            reserved.capacity += more;
        }
    }

    /// The areas among those that count in which there is no room for what is asked. O(areas) if everything that is
    /// scheduled fits at once beside it, else O(changes) for each of the other areas: `walked` rises by the changes that
    /// were looked at.
    pub(in crate::conf) fn full(
        &self,
        ask: &Ask,
        counts: impl Fn(&Area) -> bool,
        walked: &mut usize,
    ) -> Vec<&Area> {
        let mut fits = |reserved: &Reserved| {
            let line = Line::new(&reserved.room, ask.size, reserved.capacity);
            earliest(vec![line], ask, walked) == Some(ask.from)
        };
        let areas = self.areas.iter().filter(|(area, reserved)| counts(area) && !fits(reserved));
        areas.map(|(area, _)| area).collect()
    }

    /// The earliest time, not before what is asked, at which it fits into the licences and into each of the areas that
    /// contain this one, except those that contain `without`. O(areas + changes areas).
    pub(super) fn earliest(
        &self,
        ask: &Ask,
        (area, without): (&Area, Option<&Area>),
        licences: Option<i64>,
    ) -> Option<Millis> {
        let counts =
            |known: &Area| known.contains(area) && without.is_none_or(|without| !known.contains(without));
        let areas = self.areas.iter().filter(|(known, _)| counts(known));
        let rooms = areas.map(|(_, reserved)| Line::new(&reserved.room, ask.size, reserved.capacity));
        earliest(rooms.chain(self.licence_line(ask, licences)).collect(), ask, &mut 0)
    }

    /// Whether the licences that are asked are free beside those of all that is scheduled.
    pub(super) fn has_licences(&self, ask: &Ask, licences: Option<i64>) -> bool {
        earliest(self.licence_line(ask, licences).into_iter().collect(), ask, &mut 0) == Some(ask.from)
    }

    fn licence_line(&self, ask: &Ask, licences: Option<i64>) -> Option<Line<'_>> {
        let all = licences.filter(|_| ask.licences > 0)?;
        Some(Line::new(&self.licences, ask.licences, all))
    }
}

/// A timeline with what is asked in addition, while time passes.
struct Line<'a> {
    timeline: &'a Timeline,
    level: i64,
    limit: i64,
    next: std::iter::Peekable<std::collections::btree_map::Iter<'a, Millis, i64>>,
}

impl<'a> Line<'a> {
    fn new(timeline: &'a Timeline, more: i64, limit: i64) -> Self {
        Self { timeline, level: timeline.now + more, limit, next: timeline.changes.iter().peekable() }
    }
}

/// The earliest time, not before what is asked, from which no level is above its limit for as long as is asked; `None`
/// if there is none. O(lines) if all that is scheduled fits at once, else O(changes up to the end of that time): `walked`
/// rises by them.
fn earliest(mut lines: Vec<Line<'_>>, ask: &Ask, walked: &mut usize) -> Option<Millis> {
    lines.retain(|line| line.level + line.timeline.scheduled > line.limit);
    let length = ask.until.map(|until| until.saturating_sub(ask.from));
    // The beginning of the time in which the levels have stayed, and of the time in which what is asked fits.
    let (mut since, mut free) = (ask.from, None);
    loop {
        let next = lines.iter_mut().filter_map(|line| line.next.peek().map(|&(&at, _)| at)).min();
        if next.is_none_or(|next| next > ask.from) {
            if lines.iter().all(|line| line.level <= line.limit) {
                let from = *free.get_or_insert(since);
                let is_over = |next: Millis| length.is_some_and(|length| next.saturating_sub(from) >= length);
                if next.is_none_or(is_over) {
                    return Some(from);
                }
            } else {
                free = None;
            }
        }
        let at = next?;
        for line in &mut lines {
            if let Some((_, change)) = line.next.next_if(|&(&time, _)| time == at) {
                line.level += change;
                *walked += 1;
            }
        }
        since = since.max(at);
    }
}
