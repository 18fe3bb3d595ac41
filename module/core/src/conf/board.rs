//! The board: every unit that takes conferences, by how much of it is used, so that the right one is found at once.

use super::unit::{Name, Unit};
use std::collections::{BTreeMap, BTreeSet};

/// A unit's place: share of its capacity in use (as a fraction of 2^64), conferences, name, number.
type Place = (u128, u32, Name, u32);

/// What the board knows of a unit.
#[derive(Clone, Debug)]
struct Entry {
    zone: Option<Name>,
    capacity: u32,
    used: u64,
    conferences: u32,
    name: Name,
}

impl Entry {
    fn place(&self, unit: u32) -> Place {
        let share = (u128::from(self.used) << 64) / u128::from(self.capacity.max(1));
        (share, self.conferences, self.name.clone(), unit)
    }

    fn free(&self) -> u64 {
        u64::from(self.capacity).saturating_sub(self.used)
    }
}

/// Units in order.
#[derive(Clone, Debug, Default)]
struct Order {
    by_share: BTreeSet<Place>,
    by_room: BTreeSet<(u64, u32)>,
}

/// Units that take conferences, all of them and by zone. A copy of it serves as a drawing board: what is planned
/// on it happens nowhere else.
#[derive(Clone, Debug, Default)]
pub struct Board {
    units: BTreeMap<u32, Entry>,
    all: Order,
    zones: BTreeMap<Name, Order>,
}

impl Board {
    /// Brings a unit's place up to date. O(log units).
    pub(super) fn update(&mut self, number: u32, unit: &Unit) {
        self.remove(number);
        if unit.takes() {
            let entry = Entry {
                zone: unit.zone.clone(),
                capacity: unit.capacity,
                used: unit.used,
                conferences: (unit.owned.len() + unit.targets.len()) as u32,
                name: unit.cmu.clone(),
            };
            self.put(number, entry);
        }
    }

    fn put(&mut self, number: u32, entry: Entry) {
        let (place, room) = (entry.place(number), (entry.free(), number));
        if let Some(zone) = &entry.zone {
            let order = self.zones.entry(zone.clone()).or_default();
            order.by_share.insert(place.clone());
            order.by_room.insert(room);
        }
        self.all.by_share.insert(place);
        self.all.by_room.insert(room);
        self.units.insert(number, entry);
    }

    /// Takes a unit off the board. O(log units).
    pub(super) fn remove(&mut self, number: u32) {
        let Some(entry) = self.units.remove(&number) else { return };
        let (place, room) = (entry.place(number), (entry.free(), number));
        if let Some(zone) = &entry.zone
            && let Some(order) = self.zones.get_mut(zone)
        {
            order.by_share.remove(&place);
            order.by_room.remove(&room);
            if order.by_share.is_empty() {
                self.zones.remove(zone);
            }
        }
        self.all.by_share.remove(&place);
        self.all.by_room.remove(&room);
    }

    fn order(&self, zone: Option<&Name>) -> Option<&Order> {
        match zone {
            None => Some(&self.all),
            Some(zone) => self.zones.get(zone),
        }
    }

    /// Whether some unit of the zone has room for a conference of that size. O(log units).
    pub fn has_room(&self, zone: Option<&Name>, size: u32) -> bool {
        let most = self.order(zone).and_then(|order| order.by_room.last()).map_or(0, |&(free, _)| free);
        most >= u64::from(size)
    }

    /// The unit for a conference of that size: the least used share among those of the zone that are not barred; ties
    /// by fewest conferences, then name. O(log units + units passed over).
    pub fn choose(&self, zone: Option<&Name>, size: u32, barred: impl Fn(u32, &Name) -> bool) -> Option<u32> {
        if !self.has_room(zone, size) {
            return None;
        }
        let fits = |&&(_, _, ref name, number): &&Place| {
            self.room(number) >= u64::from(size) && !barred(number, name)
        };
        self.order(zone)?.by_share.iter().find(fits).map(|&(.., number)| number)
    }

    /// Whether the zone has a unit, full or not, that could ever take a conference of that size, and is not among these.
    /// O(units).
    pub fn has_other(&self, zone: Option<&Name>, size: u32, named: impl Fn(&Name) -> bool) -> bool {
        let could = |number| self.units.get(number).is_some_and(|entry| entry.capacity >= size);
        let order = self.order(zone);
        order.is_some_and(|order| {
            order.by_share.iter().any(|(.., name, number)| !named(name) && could(number))
        })
    }

    /// Room that a unit has left; 0 for one that takes nothing.
    pub fn room(&self, number: u32) -> u64 {
        self.units.get(&number).map_or(0, Entry::free)
    }

    /// Whether a unit takes conferences.
    pub fn takes(&self, number: u32) -> bool {
        self.units.contains_key(&number)
    }

    /// Plans a conference onto a unit.
    pub fn reserve(&mut self, number: u32, size: u32) {
        let Some(mut entry) = self.units.get(&number).cloned() else { return };
        self.remove(number);
        entry.used += u64::from(size);
        entry.conferences += 1;
        self.put(number, entry);
    }

    /// Plans without a unit.
    pub fn strike(&mut self, number: u32) {
        self.remove(number);
    }

    /// The name of a zone that has units on the board.
    pub(super) fn zone(&self, zone: &[u8]) -> Option<Name> {
        self.zones.get_key_value(zone).map(|(name, _)| name.clone())
    }

    /// Bytes allocated, about.
    pub(super) fn allocated(&self) -> usize {
        self.units.len() * (size_of::<Entry>() + 4 * size_of::<Place>())
    }
}
