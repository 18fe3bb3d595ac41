//! The placement index: every unit that takes conferences, by its free room, and by the share of its capacity in use or
//! the greater of this share and its load.

use super::settings::{Placement, Settings};
use super::unit::{Load, Name, Unit};
use crate::shared::invariant::{Checked, Expected};
use crate::{ensure, invariant};
use std::collections::{BTreeMap, BTreeSet};

/// The sort key of a unit: share of its capacity in use, or its load if that is greater (as a fraction of 2^64),
/// conferences, name, number.
type Place = (u128, u32, Name, u32);

/// Data of a unit that placement needs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    zone: Option<Name>,
    capacity: u32,
    used: u64,
    conferences: u32,
    /// Load in percent, if it counts.
    load: Option<u8>,
    /// Whether the unit takes one conference only, as a trial.
    trial: bool,
    name: Name,
}

impl Entry {
    fn of(unit: &Unit, settings: &Settings) -> Self {
        Self {
            zone: unit.zone.clone(),
            capacity: unit.capacity,
            used: unit.used,
            conferences: (unit.owned.len() + unit.targets.len()) as u32,
            load: unit.load.filter(|_| settings.placement == Placement::Load).map(Load::percent),
            trial: unit.is_on_trial(settings),
            name: unit.cmu.clone(),
        }
    }

    fn place(&self, unit: u32) -> Place {
        let share = (u128::from(self.used) << 64) / u128::from(self.capacity.max(1));
        let load = (u128::from(self.load.unwrap_or(0)) << 64) / 100;
        (share.max(load), self.conferences, self.name.clone(), unit)
    }

    /// Free room; 0 for a unit with full load, and for one that joined again with less capacity than is in use.
    fn free(&self) -> u64 {
        if self.load == Some(100) { 0 } else { u64::from(self.capacity).saturating_sub(self.used) }
    }
}

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

/// Units that take conferences, all of them and by zone. Plans are made on a copy.
#[derive(Clone, Debug, Default)]
pub struct PlacementIndex {
    settings: Settings,
    units: BTreeMap<u32, Entry>,
    all: UnitOrders,
    zones: BTreeMap<Name, UnitOrders>,
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
        if let Some(zone) = &entry.zone {
            self.zones.entry(zone.clone()).or_default().put(place.clone(), room);
        }
        self.all.put(place, room);
        self.units.insert(number, entry);
    }

    /// Removes a unit, if it is in the index. O(log units).
    pub(in crate::conf) fn remove(&mut self, number: u32) {
        let Some(entry) = self.units.remove(&number) else { return };
        let (place, room) = (entry.place(number), (entry.free(), number));
        self.all.take(&place, room);
        let Some(zone) = &entry.zone else { return };
        let order = self.zones.get_mut(zone);
        let Some(order) = order.expected("the zone of a unit of the placement index has orders") else {
            return;
        };
        order.take(&place, room);
        if order.by_share.is_empty() {
            self.zones.remove(zone);
        }
    }

    fn order(&self, zone: Option<&Name>) -> Option<&UnitOrders> {
        match zone {
            None => Some(&self.all),
            Some(zone) => self.zones.get(zone),
        }
    }

    /// Whether any unit of the zone has room for a conference of that size. O(log units).
    pub fn has_room(&self, zone: Option<&Name>, size: u32) -> bool {
        let most = self.order(zone).and_then(|order| order.by_room.last()).map_or(0, |&(free, _)| free);
        most >= u64::from(size)
    }

    /// The unit for a conference of that size: the smallest share in use (or load) among the units of the zone that fit and are
    /// not `barred`; ties by fewest conferences, then name. O(log units + units passed over).
    pub fn choose(&self, zone: Option<&Name>, size: u32, barred: impl Fn(u32, &Name) -> bool) -> Option<u32> {
        if !self.has_room(zone, size) {
            return None;
        }
        let fits = |&&(_, _, ref name, number): &&Place| {
            self.room(number) >= u64::from(size) && !barred(number, name)
        };
        self.order(zone)?.by_share.iter().find(fits).map(|&(.., number)| number)
    }

    /// Whether the zone has a unit, full or not, whose capacity suffices for that size and that is not among the
    /// `named`. O(units).
    pub fn has_other(&self, zone: Option<&Name>, size: u32, named: impl Fn(&Name) -> bool) -> bool {
        let could = |number| {
            let entry = self.units.get(number);
            invariant!(entry.is_some(), "a unit in an order is in the placement index");
            entry.is_some_and(|entry| entry.capacity >= size)
        };
        let order = self.order(zone);
        order.is_some_and(|order| {
            order.by_share.iter().any(|(.., name, number)| !named(name) && could(number))
        })
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
        self.zones.get_key_value(zone).map(|(name, _)| name.clone())
    }

    /// Checks both orders, of all units and of each zone, against the units. O(units log units).
    ///
    /// # Errors
    /// What contradicts what.
    pub fn check(&self) -> Checked {
        let mut expected = Self::by(self.settings);
        for (&number, entry) in &self.units {
            expected.put(number, entry.clone());
        }
        ensure!(self.all == expected.all, "the orders differ from the units");
        ensure!(self.zones == expected.zones, "the orders of zones differ from their units");
        Ok(())
    }

    /// Checks the entry of a unit against its record. O(1).
    ///
    /// # Errors
    /// What contradicts what.
    pub(in crate::conf) fn check_unit(&self, number: u32, unit: &Unit) -> Checked {
        let name = unit.cmu.escape_ascii();
        let Some(entry) = self.units.get(&number) else {
            ensure!(!unit.takes(), "unit {name} takes conferences and is not in the placement index");
            return Ok(());
        };
        ensure!(unit.takes(), "unit {name} takes no conferences and is in the placement index");
        ensure!(
            *entry == Entry::of(unit, &self.settings),
            "unit {name} differs from its entry in the placement index"
        );
        Ok(())
    }

    /// Number of units in the index.
    pub(in crate::conf) fn len(&self) -> usize {
        self.units.len()
    }

    /// Bytes allocated, about.
    pub(in crate::conf) fn allocated(&self) -> usize {
        self.units.len() * (size_of::<Entry>() + 4 * size_of::<Place>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> PlacementIndex {
        let mut index = PlacementIndex::default();
        for (number, used) in [(1, 3), (2, 5)] {
            let name = Name::from(&[number as u8][..]);
            let zone = Some(Name::from(&b"east"[..]));
            index.put(
                number,
                Entry { zone, capacity: 10, used, conferences: 1, load: None, trial: false, name },
            );
        }
        index
    }

    #[test]
    fn check_finds_damage_in_each_order() {
        assert_eq!(index().check(), Ok(()));
        let damages: [fn(&mut PlacementIndex); 5] = [
            |index| {
                let _ = index.all.by_share.pop_first();
            },
            |index| {
                let _ = index.all.by_room.pop_last();
            },
            |index| index.zones.clear(),
            |index| {
                index.zones.values_mut().for_each(|order| {
                    let _ = order.by_room.pop_last();
                });
            },
            |index| index.units.values_mut().for_each(|entry| entry.used += 1),
        ];
        for (number, damage) in damages.into_iter().enumerate() {
            let mut index = index();
            damage(&mut index);
            assert!(index.check().is_err(), "damage {number} is not found");
        }
    }
}
