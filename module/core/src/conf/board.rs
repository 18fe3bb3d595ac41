//! The board: every unit that takes conferences, by how much of it is used, so that the right one is found at once.

use super::unit::{Name, Unit};
use crate::shared::invariant::Checked;
use crate::{ensure, invariant};
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

    /// Room that is left: 0 for a unit that joined again with less capacity than is used of it.
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

impl Order {
    fn put(&mut self, place: Place, room: (u64, u32)) {
        let is_new = self.by_share.insert(place) && self.by_room.insert(room);
        invariant!(is_new, "a unit is placed once");
    }

    fn take(&mut self, place: &Place, room: (u64, u32)) {
        let was_placed = self.by_share.remove(place) && self.by_room.remove(&room);
        invariant!(was_placed, "a unit on the board has a place in each order");
    }
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
            self.zones.entry(zone.clone()).or_default().put(place.clone(), room);
        }
        self.all.put(place, room);
        self.units.insert(number, entry);
    }

    /// Takes a unit off the board, if it is there. O(log units).
    pub(super) fn remove(&mut self, number: u32) {
        let Some(entry) = self.units.remove(&number) else { return };
        let (place, room) = (entry.place(number), (entry.free(), number));
        self.all.take(&place, room);
        let Some(zone) = &entry.zone else { return };
        let Some(order) = self.zones.get_mut(zone) else {
            invariant!("the zone of a unit on the board has an order");
            return;
        };
        order.take(&place, room);
        if order.by_share.is_empty() {
            self.zones.remove(zone);
        }
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
        let could = |number| {
            let entry = self.units.get(number);
            invariant!(entry.is_some(), "a unit with a place is on the board");
            entry.is_some_and(|entry| entry.capacity >= size)
        };
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

    /// Plans a conference onto a unit, which was chosen on this board.
    pub fn reserve(&mut self, number: u32, size: u32) {
        let Some(mut entry) = self.units.get(&number).cloned() else {
            invariant!("a chosen unit is on the board");
            return;
        };
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

    /// Checks both orders, of all units and of each zone, against the units. O(units log units).
    ///
    /// # Errors
    /// What contradicts what.
    pub fn check(&self) -> Checked {
        let mut expected = Self::default();
        for (&number, entry) in &self.units {
            expected.put(number, entry.clone());
        }
        ensure!(self.all.by_share == expected.all.by_share, "the order of shares is not that of the units");
        ensure!(self.all.by_room == expected.all.by_room, "the order of rooms is not that of the units");
        ensure!(self.zones.keys().eq(expected.zones.keys()), "the zones are not those of the units");
        for (zone, order) in &self.zones {
            let known = expected.zones.get(zone);
            let same =
                known.is_some_and(|known| known.by_share == order.by_share && known.by_room == order.by_room);
            ensure!(same, "the orders of zone {} are not those of its units", zone.escape_ascii());
        }
        Ok(())
    }

    /// Checks what is known of a unit against its record. O(1).
    ///
    /// # Errors
    /// What contradicts what.
    pub(super) fn check_unit(&self, number: u32, unit: &Unit) -> Checked {
        let name = unit.cmu.escape_ascii();
        let Some(entry) = self.units.get(&number) else {
            ensure!(!unit.takes(), "unit {name} takes conferences and is not on the board");
            return Ok(());
        };
        ensure!(unit.takes(), "unit {name} takes no conferences and is on the board");
        let same = (&entry.name, &entry.zone, entry.capacity, entry.used, entry.conferences as usize)
            == (&unit.cmu, &unit.zone, unit.capacity, unit.used, unit.owned.len() + unit.targets.len());
        ensure!(same, "unit {name} differs from its place on the board");
        Ok(())
    }

    /// How many units are on the board.
    pub(super) fn len(&self) -> usize {
        self.units.len()
    }

    /// Bytes allocated, about.
    pub(super) fn allocated(&self) -> usize {
        self.units.len() * (size_of::<Entry>() + 4 * size_of::<Place>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board() -> Board {
        let mut board = Board::default();
        for (number, used) in [(1, 3), (2, 5)] {
            let name = Name::from(&[number as u8][..]);
            let zone = Some(Name::from(&b"east"[..]));
            board.put(number, Entry { zone, capacity: 10, used, conferences: 1, name });
        }
        board
    }

    #[test]
    fn check_finds_damage_in_each_order() {
        assert_eq!(board().check(), Ok(()));
        let damages: [fn(&mut Board); 5] = [
            |board| {
                let _ = board.all.by_share.pop_first();
            },
            |board| {
                let _ = board.all.by_room.pop_last();
            },
            |board| board.zones.clear(),
            |board| {
                board.zones.values_mut().for_each(|order| {
                    let _ = order.by_room.pop_last();
                })
            },
            |board| board.units.values_mut().for_each(|entry| entry.used += 1),
        ];
        for (number, damage) in damages.into_iter().enumerate() {
            let mut board = board();
            damage(&mut board);
            assert!(board.check().is_err(), "damage {number} is not found");
        }
    }
}
