//! The directory of numbers: from a number to its id and back.
//!
//! Names take eight bytes for up to sixteen characters, which all of the world's numbering plans keep to; longer
//! ones stand aside. The index is open addressing over 4-byte slots (three bytes of id, one of hash), filled to at
//! most 85 %: five to six bytes a number.

#![allow(clippy::indexing_slicing, reason = "ids of names that stand aside come from their table")]

use super::number::Number;
use crate::shared::column::Column;
use crate::shared::invariant::Checked;
use crate::shared::table::Table;
use crate::{ensure, invariant};
use hashbrown::DefaultHashBuilder;
use std::hash::BuildHasher;

/// The most numbers of one pool.
pub const MAX_NUMBERS: u32 = 1 << 24;

/// A slot without an entry.
const EMPTY: u32 = 0;
/// The upper half of a name that stands aside.
const ASIDE: u64 = 0xf << 60;

/// A number's name and what is kept of it, side by side: who has found one has the other at hand.
#[derive(Clone, Copy, Debug, Default)]
struct Entry<T> {
    /// The name in two halves, so that nothing needs to be aligned to eight bytes.
    name: [u32; 2],
    value: T,
}

/// All numbers of a pool, and a value for each. Ids are given out from 0, and given out again the last freed one first; they are part of
/// the state, so that a cursor over them outlives a failover.
#[derive(Clone, Debug, Default)]
pub struct Directory<T> {
    /// By id; one that is free has no name.
    entries: Column<Entry<T>>,
    /// Names of more than sixteen characters.
    long: Table<Number>,
    /// Free ids, the next one last.
    free: Vec<u32>,
    slots: u32,
    index: Vec<u32>,
    hasher: DefaultHashBuilder,
}

impl<T: Copy + Default> Directory<T> {
    /// How many numbers there are.
    pub fn len(&self) -> u32 {
        self.slots - self.free.len() as u32
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ids given out so far, free or not: all are below this.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Free ids in the order in which they were freed.
    pub fn free(&self) -> &[u32] {
        &self.free
    }

    /// The number of an id, if it has one. O(1).
    pub fn name(&self, id: u32) -> Option<Number> {
        let packed = self.packed(id);
        (packed != 0).then(|| self.unpack(packed))
    }

    /// What is kept of an id, or the default. O(1).
    pub fn get(&self, id: u32) -> T {
        self.entries.get(id).value
    }

    /// What is kept of an id that was given out, to be changed. O(1).
    pub fn at(&mut self, id: u32) -> &mut T {
        &mut self.entries.at(id).value
    }

    /// The id of a number. O(1).
    pub fn find(&self, number: Number) -> Option<u32> {
        let (mut at, tag) = self.home(number)?;
        let packed = pack(number);
        loop {
            let slot = *self.index.get(at)?;
            if slot == EMPTY {
                return None;
            }
            if slot >> 24 == tag {
                let id = slot & 0x00ff_ffff;
                let found = match packed {
                    Some(packed) => self.packed(id) == packed,
                    None => self.name(id) == Some(number),
                };
                if found {
                    return Some(id);
                }
            }
            at = if at + 1 == self.index.len() { 0 } else { at + 1 };
        }
    }

    /// Adds a number that is not there, to fewer than `MAX_NUMBERS`; its id. O(1), but for growing.
    pub fn insert(&mut self, number: Number) -> u32 {
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.slots - 1
        });
        let packed = match pack(number) {
            Some(packed) => packed,
            None => ASIDE | u64::from(self.long.insert(number)),
        };
        self.set_packed(id, packed);
        // At most 85 % full, and never quite.
        if self.len() as usize * 20 >= self.index.len() * 17 {
            self.rebuild();
        } else {
            self.enter(number, id);
        }
        id
    }

    /// Takes a number out. O(1), but for shrinking.
    pub fn remove(&mut self, number: Number) -> Option<u32> {
        let id = self.find(number)?;
        self.withdraw(number, id);
        let packed = self.packed(id);
        if packed & ASIDE == ASIDE {
            self.long.remove(packed as u32);
        }
        self.entries.set(id, Entry::default());
        self.free.push(id);
        if self.is_empty() {
            *self = Self { hasher: self.hasher.clone(), ..Self::default() };
        } else if self.index.len() > 64 && self.len() as usize * 3 < self.index.len() {
            self.rebuild();
        }
        Some(id)
    }

    /// Names the ids of a directory that has only values yet: each with its number (`None` for a free one), and free
    /// ids in the order in which they were freed. `None` where that is no directory.
    pub fn name_all(&mut self, names: &[Option<Number>], free: Vec<u32>) -> Option<()> {
        let count = names.iter().flatten().count();
        if count + free.len() != names.len() || names.len() > MAX_NUMBERS as usize {
            return None;
        }
        let mut seen = vec![false; names.len()];
        for &id in &free {
            if names.get(id as usize)?.is_some() || std::mem::replace(seen.get_mut(id as usize)?, true) {
                return None;
            }
        }
        self.index = vec![EMPTY; capacity(count)];
        for (id, number) in names.iter().enumerate() {
            let Some(number) = *number else { continue };
            if self.find(number).is_some() {
                return None;
            }
            let packed = pack(number).unwrap_or_else(|| ASIDE | u64::from(self.long.insert(number)));
            self.set_packed(id as u32, packed);
            self.enter(number, id as u32);
        }
        self.slots = names.len() as u32;
        self.free = free;
        Some(())
    }

    /// Checks ids, names, the index and the free ids against one another. O(numbers).
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Checked {
        self.entries.check()?;
        self.long.check()?;
        let mut seen = vec![false; self.slots as usize];
        for &id in &self.free {
            let seen = seen.get_mut(id as usize).map(|seen| std::mem::replace(seen, true));
            ensure!(seen == Some(false), "free id {id} was not given out, or is free twice");
            ensure!(self.packed(id) == 0, "free id {id} has a number");
        }
        let mut aside = vec![false; self.long.slots() as usize];
        let ids = self.entries.iter().map(|(id, _)| id);
        for id in ids.filter(|&id| self.packed(id) != 0) {
            ensure!(id < self.slots, "id {id} was not given out and has a number");
            let packed = self.packed(id);
            if packed & ASIDE == ASIDE {
                let named = aside.get_mut(packed as u32 as usize).map(|named| std::mem::replace(named, true));
                let name = self.long.get(packed as u32);
                ensure!(named == Some(false) && name.is_some(), "the long name of id {id} is not its own");
                ensure!(
                    name.is_some_and(|&name| pack(name).is_none()),
                    "the name of id {id} need not be long"
                );
            }
            let name = self.name(id);
            let found = name.and_then(|name| self.find(name));
            ensure!(found == Some(id), "number {name:?} of id {id} is that of {found:?}");
        }
        let named = (0..self.slots).filter(|&id| self.packed(id) != 0).count();
        let aside = aside.iter().filter(|&&named| named).count();
        ensure!(named == self.len() as usize, "{named} of {} ids have a number", self.len());
        ensure!(aside == self.long.len(), "{aside} of {} long names are used", self.long.len());
        let indexed = self.index.iter().filter(|&&slot| slot != EMPTY).count();
        ensure!(indexed == named, "{indexed} of {named} numbers are in the index");
        ensure!(indexed < self.index.len() || self.index.is_empty(), "the index has no free slot");
        Ok(())
    }

    /// Bytes allocated.
    pub fn allocated(&self) -> usize {
        self.entries.allocated()
            + self.long.allocated()
            + (self.free.capacity() + self.index.capacity()) * size_of::<u32>()
    }

    /// As if all ids had been given out, for tests of a full pool that need no sixteen million numbers.
    #[cfg(test)]
    pub(in crate::numpool) fn fill_up(&mut self) {
        self.slots = MAX_NUMBERS;
    }

    fn packed(&self, id: u32) -> u64 {
        let [low, high] = self.entries.get(id).name;
        u64::from(high) << 32 | u64::from(low)
    }

    fn set_packed(&mut self, id: u32, packed: u64) {
        self.entries.at(id).name = [packed as u32, (packed >> 32) as u32];
    }

    fn unpack(&self, packed: u64) -> Number {
        if packed & ASIDE == ASIDE {
            self.long[packed as u32]
        } else {
            Number::of_bits(u128::from(packed) << 64)
        }
    }

    /// Where a number would stand in the index, and its tag there; `None` in an empty index.
    fn home(&self, number: Number) -> Option<(usize, u32)> {
        let hash = self.hasher.hash_one(number.bits());
        let at = (u64::from(hash as u32) * self.index.len() as u64) >> 32;
        (!self.index.is_empty()).then_some((at as usize, (hash >> 56) as u32 | 1))
    }

    /// Puts an id into the first free slot from its home on; there is one.
    fn enter(&mut self, number: Number, id: u32) {
        if let Some((mut at, tag)) = self.home(number) {
            for _ in 0..self.index.len() {
                if let Some(slot) = self.index.get_mut(at).filter(|slot| **slot == EMPTY) {
                    *slot = tag << 24 | id;
                    return;
                }
                at = if at + 1 == self.index.len() { 0 } else { at + 1 };
            }
        }
        invariant!("an index has a free slot for each number that enters it");
    }

    /// Takes an id out of the index, and moves those behind it up so that none is cut off from its home.
    fn withdraw(&mut self, number: Number, id: u32) {
        let len = self.index.len();
        let behind = |at: usize| if at + 1 == len { 0 } else { at + 1 };
        let found = self.home(number).and_then(|(home, tag)| {
            let mut places = (home..len).chain(0..home);
            places.find(|&at| self.index.get(at) == Some(&(tag << 24 | id)))
        });
        let Some(mut at) = found else {
            invariant!("a number that leaves the index is in it");
            return;
        };
        let mut gap = at;
        loop {
            at = behind(at);
            let slot = self.index.get(at).copied().unwrap_or(EMPTY);
            // The index is never full, so the walk ends.
            if slot == EMPTY {
                break;
            }
            let home = self.name(slot & 0x00ff_ffff).and_then(|name| self.home(name));
            let Some((home, _)) = home else {
                invariant!("an id in the index has a number");
                return;
            };
            // It may move up to the gap if its home is not between the gap and its place.
            let distance = |from: usize, to: usize| if to >= from { to - from } else { to + len - from };
            if distance(home, at) >= distance(gap, at) {
                self.index.swap(gap, at);
                gap = at;
            }
        }
        if let Some(slot) = self.index.get_mut(gap) {
            *slot = EMPTY;
        }
    }

    /// Makes the index again, a quarter larger than it need be. O(numbers).
    fn rebuild(&mut self) {
        self.index = vec![EMPTY; capacity(self.len() as usize)];
        for id in 0..self.slots {
            if let Some(number) = self.name(id) {
                self.enter(number, id);
            }
        }
    }
}

/// A name in eight bytes, if it is short enough.
fn pack(number: Number) -> Option<u64> {
    (number.bits() as u64 == 0).then_some((number.bits() >> 64) as u64)
}

/// Slots for so many numbers: 60 % of them are taken.
fn capacity(numbers: usize) -> usize {
    (numbers * 5 / 3).max(12)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn number(n: u32) -> Number {
        let text = if n.is_multiple_of(7) { format!("+{n:020}") } else { format!("{n}") };
        Number::parse(text.as_bytes()).unwrap()
    }

    proptest! {
        #[test]
        fn it_equals_a_map(steps in prop::collection::vec(0u32..60, 0..600)) {
            let mut directory: Directory<u32> = Directory::default();
            let mut model = BTreeMap::new();
            for n in steps {
                if let Some(id) = model.remove(&n) {
                    prop_assert_eq!(directory.remove(number(n)), Some(id));
                } else {
                    model.insert(n, directory.insert(number(n)));
                }
                prop_assert_eq!(directory.len() as usize, model.len());
                prop_assert_eq!(directory.check(), Ok(()));
                for n in 0..60 {
                    prop_assert_eq!(directory.find(number(n)), model.get(&n).copied());
                }
                for (&n, &id) in &model {
                    prop_assert_eq!(directory.name(id), Some(number(n)));
                }
                let names: Vec<_> = (0..directory.slots()).map(|id| directory.name(id)).collect();
                let mut again: Directory<u32> = Directory::default();
                again.name_all(&names, directory.free().to_vec()).unwrap();
                prop_assert!((0..60).all(|n| again.find(number(n)) == directory.find(number(n))));
            }
        }
    }

    #[test]
    fn check_finds_a_damaged_directory() {
        let mut sound: Directory<u32> = Directory::default();
        (1..30).for_each(|n| _ = sound.insert(number(n)));
        sound.remove(number(5));
        sound.remove(number(9));
        assert_eq!(sound.check(), Ok(()));
        assert!(!sound.long.is_empty());
        let damages: [fn(&mut Directory<u32>); 7] = [
            |directory| directory.slots += 1,
            |directory| directory.free[0] = directory.free[1],
            |directory| directory.free[0] = 0,
            |directory| directory.set_packed(1, directory.packed(2)),
            |directory| directory.set_packed(directory.free[0], directory.packed(2)),
            |directory| _ = directory.long.insert(number(14)),
            |directory| {
                let slots = directory.index.iter_mut().filter(|slot| **slot != EMPTY);
                slots.take(1).for_each(|slot| *slot = EMPTY);
            },
        ];
        for (number, damage) in damages.iter().enumerate() {
            let mut directory = sound.clone();
            damage(&mut directory);
            assert!(directory.check().is_err(), "damage {number} is not found");
        }
    }

    #[test]
    fn a_million_numbers_grow_and_shrink() {
        let short = |n: u32| Number::parse(format!("1380000{n:07}").as_bytes()).unwrap();
        let mut directory: Directory<()> = Directory::default();
        for n in 0..1_000_000 {
            directory.insert(short(n));
        }
        assert!(directory.allocated() < 16_000_000, "{}", directory.allocated());
        for n in 0..1_000_000 {
            assert!(directory.find(short(n)).is_some());
        }
        for n in 0..999_990 {
            directory.remove(short(n)).unwrap();
        }
        assert!((999_990..1_000_000).all(|n| directory.find(short(n)).is_some()));
    }
}
