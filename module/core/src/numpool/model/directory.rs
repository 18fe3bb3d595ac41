//! The directory of numbers: from a number to its id and back.
//!
//! Names take eight bytes for up to sixteen characters, which all of the world's numbering plans keep to; longer
//! ones stand aside.

#![allow(clippy::indexing_slicing, reason = "ids of names that stand aside come from their table")]

use super::number::Number;
use crate::shared::column::Column;
use crate::shared::index::{Index, Slot};
use crate::shared::invariant::Checked;
use crate::shared::table::Table;
use crate::{ensure, invariant};
use hashbrown::DefaultHashBuilder;
use std::hash::BuildHasher;

/// The most numbers of one pool: their ids fit into the three bytes that an entry of the index has for them.
pub const MAX_NUMBERS: u32 = 1 << 24;

/// The upper half of a name that stands aside.
const ASIDE: u64 = 0xf << 60;

/// A number's name and what is kept of it, side by side: who has found one has the other at hand.
#[derive(Clone, Copy, Debug, Default)]
struct Value<T> {
    /// The name in two halves, so that nothing needs to be aligned to eight bytes.
    name: [u32; 2],
    value: T,
}

/// All numbers of a pool, and a value for each. Ids are given out from 0, and given out again the last freed one first; they are part of
/// the state, so that a cursor over them outlives a failover.
#[derive(Clone, Debug, Default)]
pub struct Directory<T> {
    names: Names<T>,
    /// Free ids, the next one last.
    free: Vec<u32>,
    slots: u32,
    index: Index<Entry>,
}

/// An id, and a part of the hash of its number, which is never 0.
#[derive(Clone, Copy, Debug)]
struct Entry(u32);

impl Slot for Entry {
    const EMPTY: Self = Self(0);

    fn new(hash: u64, id: u32) -> Self {
        Self(tag(hash) | id)
    }

    #[inline]
    fn id(self) -> u32 {
        self.0 & (MAX_NUMBERS - 1)
    }

    #[inline]
    fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[inline]
    fn may_have(self, hash: u64) -> bool {
        self.0 & !(MAX_NUMBERS - 1) == tag(hash)
    }
}

fn tag(hash: u64) -> u32 {
    ((hash >> 56) as u32 | 1) << 24
}

/// The names of the ids, and their hashes.
#[derive(Clone, Debug, Default)]
struct Names<T> {
    /// By id; one that is free has no name.
    entries: Column<Value<T>>,
    /// Names of more than sixteen characters.
    long: Table<Number>,
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
        self.names.of(id)
    }

    /// The number of an id that has one. O(1).
    pub fn name_of(&self, id: u32) -> Number {
        let name = self.name(id);
        invariant!(name.is_some(), "an id that the pool uses has a number");
        // No number begins with this one.
        name.unwrap_or(Number::LEAST)
    }

    /// What is kept of an id that was given out. O(1).
    pub fn get(&self, id: u32) -> T {
        self.names.entries.get(id).value
    }

    /// What is kept of each id. O(ids).
    pub fn values(&self) -> impl Iterator<Item = (u32, T)> {
        self.names.entries.iter().map(|(id, entry)| (id, entry.value))
    }

    /// What is kept of an id that was given out, to be changed. O(1).
    pub fn at(&mut self, id: u32) -> &mut T {
        &mut self.names.entries.at(id).value
    }

    /// The id of a number. O(1).
    pub fn find(&self, number: Number) -> Option<u32> {
        let packed = pack(number);
        self.index.find(self.names.hash(number), |id| match packed {
            Some(packed) => self.names.packed(id) == packed,
            None => self.names.of(id) == Some(number),
        })
    }

    /// Adds a number that is not there, to fewer than `MAX_NUMBERS`; its id. O(1), but for a part of the index that grows.
    pub fn insert(&mut self, number: Number) -> u32 {
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.slots - 1
        });
        self.enter(id, number);
        id
    }

    /// Takes a number out. O(1), but for a part of the index that shrinks.
    pub fn remove(&mut self, number: Number) -> Option<u32> {
        let id = self.find(number)?;
        self.index.remove(self.names.hash(number), id, |entry| self.names.hash_of(entry.id()));
        self.names.forget(id);
        self.free.push(id);
        if self.is_empty() {
            let names = Names { hasher: self.names.hasher.clone(), ..Names::default() };
            *self = Self { names, ..Self::default() };
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
        self.index = Index::with_room_for(count);
        for (number, id) in names.iter().zip(0..) {
            let Some(number) = *number else { continue };
            if self.find(number).is_some() {
                return None;
            }
            self.enter(id, number);
        }
        if let Some(last) = names.len().checked_sub(1) {
            // The ids behind the last number have values, too.
            self.names.entries.at(last as u32);
        }
        self.slots = names.len() as u32;
        self.free = free;
        Some(())
    }

    /// Names an id that has no number, and makes it found.
    fn enter(&mut self, id: u32, number: Number) {
        self.names.set(id, number);
        self.index.insert(self.names.hash(number), id, |entry| self.names.hash_of(entry.id()));
    }

    /// Checks ids, names, the index and the free ids against one another. O(numbers).
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Checked {
        let Names { entries, long, .. } = &self.names;
        entries.check()?;
        long.check()?;
        let mut seen = vec![false; self.slots as usize];
        for &id in &self.free {
            let seen = seen.get_mut(id as usize).map(|seen| std::mem::replace(seen, true));
            ensure!(seen == Some(false), "free id {id} was not given out, or is free twice");
            ensure!(self.names.packed(id) == 0, "free id {id} has a number");
        }
        let mut aside = vec![false; long.slots() as usize];
        let ids = entries.iter().map(|(id, _)| id);
        for id in ids.filter(|&id| self.names.packed(id) != 0) {
            ensure!(id < self.slots, "id {id} was not given out and has a number");
            let packed = self.names.packed(id);
            if packed & ASIDE == ASIDE {
                let named = aside.get_mut(packed as u32 as usize).map(|named| std::mem::replace(named, true));
                let name = long.get(packed as u32);
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
        let named = (0..self.slots).filter(|&id| self.names.packed(id) != 0).count();
        let aside = aside.iter().filter(|&&named| named).count();
        ensure!(named == self.len() as usize, "{named} of {} ids have a number", self.len());
        ensure!(aside == long.len(), "{aside} of {} long names are used", long.len());
        self.index.check(named)
    }

    /// Bytes allocated.
    pub fn allocated(&self) -> usize {
        self.names.entries.allocated()
            + self.names.long.allocated()
            + self.free.capacity() * size_of::<u32>()
            + self.index.allocated()
    }

    /// As if all ids had been given out, for tests of a full pool that need no sixteen million numbers.
    #[cfg(test)]
    pub(in crate::numpool) fn fill_up(&mut self) {
        self.slots = MAX_NUMBERS;
    }
}

impl<T: Copy + Default> Names<T> {
    /// The number of an id, if it has one.
    fn of(&self, id: u32) -> Option<Number> {
        let packed = self.packed(id);
        if packed == 0 {
            None
        } else if packed & ASIDE == ASIDE {
            Some(self.long[packed as u32])
        } else {
            Some(Number::of_bits(u128::from(packed) << 64))
        }
    }

    /// Names an id that has no number.
    fn set(&mut self, id: u32, number: Number) {
        let packed = pack(number).unwrap_or_else(|| ASIDE | u64::from(self.long.insert(number)));
        self.set_packed(id, packed);
    }

    /// Forgets an id's number and value.
    fn forget(&mut self, id: u32) {
        let packed = self.packed(id);
        if packed & ASIDE == ASIDE {
            self.long.remove(packed as u32);
        }
        self.entries.set(id, Value::default());
    }

    fn packed(&self, id: u32) -> u64 {
        let name = self.entries.find(id).map_or([0; 2], |entry| entry.name);
        let [low, high] = name.map(u64::from);
        high << 32 | low
    }

    fn set_packed(&mut self, id: u32, packed: u64) {
        self.entries.at(id).name = [packed as u32, (packed >> 32) as u32];
    }

    #[inline]
    fn hash(&self, number: Number) -> u64 {
        self.hasher.hash_one(number.bits())
    }

    /// The hash of the number of an id that is in the index.
    fn hash_of(&self, id: u32) -> u64 {
        let number = self.of(id);
        invariant!(number.is_some(), "an id in the index has a number");
        number.map_or(0, |number| self.hash(number))
    }
}

/// A name in eight bytes, if it is short enough.
fn pack(number: Number) -> Option<u64> {
    (number.bits() as u64 == 0).then_some((number.bits() >> 64) as u64)
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
        assert!(!sound.names.long.is_empty());
        let damages: [fn(&mut Directory<u32>); 7] = [
            |directory| directory.slots += 1,
            |directory| directory.free[0] = directory.free[1],
            |directory| directory.free[0] = 0,
            |directory| directory.names.set_packed(1, directory.names.packed(2)),
            |directory| directory.names.set_packed(directory.free[0], directory.names.packed(2)),
            |directory| _ = directory.names.long.insert(number(14)),
            |directory| {
                let hash = directory.names.hash(number(7));
                directory.index.remove(hash, 6, |entry| directory.names.hash_of(entry.id()));
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
