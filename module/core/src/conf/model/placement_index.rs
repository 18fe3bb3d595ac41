//! The placement index: every unit that takes conferences, by its free room, and by the share of its capacity in use or
//! the greater of this share and its load. Of a unit that has joined a short time ago only a part of the capacity counts.

use super::settings::{Placement, Settings};
use super::unit::{Load, Name, RAMP_STEPS, Unit};
use super::wishes::Need;
use crate::invariant;
use crate::shared::invariant::Expected;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The sort key of a unit: share of its capacity in use, or its load if that is greater (as a fraction of 2^64),
/// conferences, name, number.
type Place = (u128, u32, Name, u32);

/// Data of a unit that placement needs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    class: Class,
    capacity: u32,
    used: u64,
    conferences: u32,
    /// How many tenths of the capacity do not count yet.
    held_back: u32,
    /// Load in percent, if it counts.
    load: Option<u8>,
    /// Whether the unit takes one conference only, as a trial.
    trial: bool,
    name: Name,
}

impl Entry {
    fn of(unit: &Unit, settings: &Settings) -> Self {
        Self {
            class: (unit.zone.clone(), unit.tags.clone()),
            capacity: unit.capacity,
            used: unit.used,
            conferences: (unit.owned.len() + unit.targets.len()) as u32,
            held_back: unit.held_back,
            load: unit.load.filter(|_| settings.placement == Placement::Load).map(Load::percent),
            trial: unit.is_on_trial(settings),
            name: unit.cmu.clone(),
        }
    }

    fn place(&self, unit: u32) -> Place {
        let counted =
            u128::from(self.capacity.max(1)) * u128::from(RAMP_STEPS.saturating_sub(self.held_back));
        let share = (u128::from(self.used) << 64) * u128::from(RAMP_STEPS) / counted.max(1);
        let load = (u128::from(self.load.unwrap_or(0)) << 64) / 100;
        (share.max(load), self.conferences, self.name.clone(), unit)
    }

    /// Free room; 0 for a unit with full load, and for one that joined again with less capacity than is in use.
    fn free(&self) -> u64 {
        if self.load == Some(100) { 0 } else { u64::from(self.capacity).saturating_sub(self.used) }
    }
}

/// What the wishes of conferences tell apart: zone and tags of a unit.
type Class = (Option<Name>, Vec<Name>);

/// The same units in two orders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct UnitOrders {
    by_share: BTreeSet<Place>,
    by_room: BTreeSet<(u64, u32)>,
}

impl UnitOrders {
    fn put(&mut self, place: Place, room: (u64, u32)) {
        let is_new = self.by_share.insert(place) && self.by_room.insert(room);
        invariant!(is_new, "a unit is in each order once");
    }

    fn take(&mut self, place: &Place, room: (u64, u32)) {
        let was_placed = self.by_share.remove(place) && self.by_room.remove(&room);
        invariant!(was_placed, "a unit of the placement index is in each order");
    }
}

/// Units that take conferences, all of them and by class. Plans are made on a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacementIndex {
    /// The settings of the realm.
    pub(in crate::conf) settings: Settings,
    units: BTreeMap<u32, Entry>,
    all: UnitOrders,
    classes: BTreeMap<Class, UnitOrders>,
}

impl PlacementIndex {
    /// An index without units.
    pub(in crate::conf) fn by(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Updates, adds or removes a unit, by whether it takes conferences. O(log units).
    pub(in crate::conf) fn update(&mut self, number: u32, unit: &Unit) {
        let entry = unit.takes().then(|| Entry::of(unit, &self.settings));
        if self.units.get(&number) == entry.as_ref() {
            return;
        }
        self.remove(number);
        if let Some(entry) = entry {
            self.put(number, entry);
        }
    }

    fn put(&mut self, number: u32, entry: Entry) {
        let (place, room) = (entry.place(number), (entry.free(), number));
        match self.classes.get_mut(&entry.class) {
            Some(orders) => orders.put(place.clone(), room),
            None => self.classes.entry(entry.class.clone()).or_default().put(place.clone(), room),
        }
        self.all.put(place, room);
        self.units.insert(number, entry);
    }

    /// Removes a unit, if it is in the index. O(log units).
    pub(in crate::conf) fn remove(&mut self, number: u32) {
        let Some(entry) = self.units.remove(&number) else { return };
        let (place, room) = (entry.place(number), (entry.free(), number));
        self.all.take(&place, room);
        let orders = self.classes.get_mut(&entry.class);
        let Some(orders) = orders.expected("the class of a unit of the placement index has orders") else {
            return;
        };
        orders.take(&place, room);
        if orders.by_share.is_empty() {
            self.classes.remove(&entry.class);
        }
    }

    /// The orders of all units that have zone and tags for the need, each with the number of preferred tags that its
    /// units have.
    fn orders<'a>(&'a self, need: Need<'a>) -> impl Iterator<Item = (usize, &'a UnitOrders)> {
        let zone = need.zone();
        let any = zone.is_none() && need.wishes.require.is_empty() && need.wishes.prefer.is_empty();
        let from = (zone.cloned(), Vec::new());
        let of_zone = move |(class, _): &(&Class, _)| zone.is_none_or(|zone| class.0.as_ref() == Some(zone));
        let classes = (!any).then(|| self.classes.range(from..).take_while(of_zone));
        let fitting =
            classes.into_iter().flatten().filter(move |((_, tags), _)| need.wishes.missing(tags).is_none());
        let fitting = fitting.map(move |((_, tags), orders)| (need.wishes.preferred(tags), orders));
        any.then_some((0, &self.all)).into_iter().chain(fitting)
    }

    /// The unit for a conference: of the units that fit and are not `barred`, one with the most preferred tags. Of
    /// these the smallest share in use (or load); ties by fewest conferences, then name. O(classes log units + units
    /// passed over).
    pub(in crate::conf) fn choose(&self, need: Need<'_>, barred: impl Fn(u32, &Name) -> bool) -> Option<u32> {
        let size = u64::from(need.size);
        let fits = |&&(_, _, ref name, number): &&Place| {
            self.room(number) >= size && need.is_on_host(name) && !barred(number, name)
        };
        let mut best: Option<(Reverse<usize>, &Place)> = None;
        for (preferred, orders) in self.orders(need) {
            let has_room = orders.by_room.last().is_some_and(|&(free, _)| free >= size);
            if !has_room || best.is_some_and(|(Reverse(most), _)| preferred < most) {
                continue;
            }
            let found = orders.by_share.iter().find(fits).map(|place| (Reverse(preferred), place));
            best = [best, found].into_iter().flatten().min();
        }
        best.map(|(_, &(.., number))| number)
    }

    /// Whether there is a unit for a conference, full or not, whose capacity suffices and that is not among the
    /// `named`. O(units).
    pub(in crate::conf) fn has_other(&self, need: Need<'_>, named: impl Fn(&Name) -> bool) -> bool {
        let could = |number: &u32| {
            let entry = self.units.get(number);
            invariant!(entry.is_some(), "a unit in an order is in the placement index");
            entry.is_some_and(|entry| entry.capacity >= need.size)
        };
        let is_other = |(_, _, name, number): &Place| need.is_on_host(name) && !named(name) && could(number);
        self.orders(need).any(|(_, orders)| orders.by_share.iter().any(is_other))
    }

    /// Free room of a unit; 0 if it takes no conferences.
    pub fn room(&self, number: u32) -> u64 {
        self.units.get(&number).map_or(0, Entry::free)
    }

    /// Whether a unit takes conferences.
    pub fn takes(&self, number: u32) -> bool {
        self.units.contains_key(&number)
    }

    /// Reserves room for a conference on a unit, which was chosen from this index.
    pub fn reserve(&mut self, number: u32, size: u32) {
        let entry = self.units.get(&number).expected("a chosen unit is in the placement index");
        let Some(mut entry) = entry.cloned() else { return };
        self.remove(number);
        // The next conference waits for the result of the trial.
        if entry.trial {
            return;
        }
        entry.used += u64::from(size);
        entry.conferences += 1;
        self.put(number, entry);
    }

    /// Undoes a plan: these units are as in the `original` again. O(changed log units).
    pub fn restore(&mut self, changed: &[u32], original: &Self) {
        for &number in changed {
            self.remove(number);
            if let Some(entry) = original.units.get(&number) {
                self.put(number, entry.clone());
            }
        }
    }

    /// Excludes a unit from a plan.
    pub fn strike(&mut self, number: u32) {
        self.remove(number);
    }

    /// The shared name of a zone that has units in the index.
    pub(in crate::conf) fn zone(&self, zone: &[u8]) -> Option<Name> {
        let zone = Some(Name::from(zone));
        let (class, _) = self.classes.range((zone.clone(), Vec::new())..).next()?;
        class.0.clone().filter(|_| class.0 == zone)
    }

    /// Bytes allocated, about.
    pub(in crate::conf) fn allocated(&self) -> usize {
        self.units.len() * (size_of::<Entry>() + 4 * size_of::<Place>())
    }
}
