//! Finding numbered things by name: tokens, users, orders, numbers.

use super::invariant::Checked;
use super::parts::Parts;
use crate::{ensure, invariant};
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

/// An index from names to numbers. The names stay where the things are; the index keeps half of each hash, so
/// that growing it (which a rush does at the worst time) reads the index alone and not a million names.
///
/// A large index has several tables, and grows by one table at a time: a table of a million entries that doubles would
/// keep the server busy for tens of milliseconds.
#[derive(Clone, Debug, Default)]
pub struct NameIndex {
    tables: Parts<HashTable<Entry>>,
    names: usize,
    hasher: DefaultHashBuilder,
}

/// Half a hash, and a number.
type Entry = (u32, u32);

/// How many names the index has for each of its tables before it gets another one. The tables that are not divided yet
/// have up to twice as many, for which hashbrown allocates 65,536 places.
const NAMES_OF_A_TABLE: usize = 28_000;

/// The bits of a half below these choose the place in a table, and the highest ones are a tag.
const TABLE_SHIFT: u32 = 16;
/// The bits between choose the table.
const MAX_TABLES: usize = 1 << 9;

impl NameIndex {
    /// The number of a name; `is` tells whether a number has it. O(1).
    pub fn find(&self, name: &[u8], is: impl Fn(u32) -> bool) -> Option<u32> {
        let half = self.half(name);
        let found =
            self.tables.of(half >> TABLE_SHIFT).find(spread(half), |&(other, id)| other == half && is(id));
        found.map(|&(_, id)| id)
    }

    /// Adds a name that is not there. O(1); for a large index at most a millisecond, to divide a table.
    pub fn insert(&mut self, name: &[u8], id: u32) {
        if self.names >= self.tables.count() * NAMES_OF_A_TABLE && self.tables.count() < MAX_TABLES {
            self.add_table();
        }
        self.put((self.half(name), id));
        self.names += 1;
    }

    /// Takes a name out that is there. O(1).
    pub fn remove(&mut self, name: &[u8], id: u32) {
        let half = self.half(name);
        match self.tables.of_mut(half >> TABLE_SHIFT).find_entry(spread(half), |&(_, other)| other == id) {
            Ok(entry) => {
                entry.remove();
                self.names -= 1;
            }
            Err(_) => invariant!("a name that is taken out of its index is there"),
        }
    }

    /// Checks that these names with their numbers, each given once, are found, and that the index has no others. O(names).
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check<'a>(&self, names: impl Iterator<Item = (u32, &'a [u8])>) -> Checked {
        let mut count = 0;
        for (id, name) in names {
            count += 1;
            ensure!(self.find(name, |other| other == id) == Some(id), "the name of {id} is not in its index");
        }
        let entries = self.tables.iter().map(HashTable::len).sum::<usize>();
        ensure!(entries == count, "an index has {entries} names of {count}");
        ensure!(self.names == entries, "an index has {entries} names and counts {}", self.names);
        Ok(())
    }

    /// Bytes allocated.
    pub fn allocated(&self) -> usize {
        self.tables.allocated() + self.tables.iter().map(HashTable::allocation_size).sum::<usize>()
    }

    fn half(&self, name: &[u8]) -> u32 {
        self.hasher.hash_one(name) as u32
    }

    #[inline]
    fn put(&mut self, entry: Entry) {
        let table = self.tables.of_mut(entry.0 >> TABLE_SHIFT);
        table.insert_unique(spread(entry.0), entry, |&(half, _)| spread(half));
    }

    /// Adds a table, and divides the one that has its names.
    #[cold]
    fn add_table(&mut self) {
        // Both get new memory, for half as many names each: a table does not give its own back.
        let divided = self.tables.divide(|table| HashTable::with_capacity(table.len() / 2));
        for entry in divided {
            self.put(entry);
        }
    }
}

/// A whole hash from its half: the table takes a place from the low bits and a tag from the high ones.
fn spread(half: u32) -> u64 {
    u64::from(half) << 32 | u64::from(half)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_finds_a_damaged_index() {
        let names: [&[u8]; 3] = [b"ann", b"bob", b"cid"];
        let mut index = NameIndex::default();
        names.iter().zip(0..).for_each(|(name, id)| index.insert(name, id));
        let check = |index: &NameIndex| index.check((0..).zip(names));
        assert_eq!(check(&index), Ok(()));
        let mut missing = index.clone();
        missing.remove(b"bob", 1);
        assert!(check(&missing).is_err());
        missing.insert(b"bob", 2);
        assert!(check(&missing).is_err());
        index.insert(b"dee", 3);
        assert!(check(&index).is_err());
    }

    #[test]
    fn names_are_found_until_they_are_removed() {
        let names: Vec<String> = (0..200_000).map(|number| format!("name-{number}")).collect();
        let mut index = NameIndex::default();
        let find =
            |index: &NameIndex, name: &str| index.find(name.as_bytes(), |id| names[id as usize] == name);
        for (id, name) in names.iter().enumerate() {
            assert_eq!(find(&index, name), None);
            index.insert(name.as_bytes(), id as u32);
        }
        assert_eq!(index.tables.count(), 8);
        assert_eq!(index.check((0..).zip(names.iter().map(String::as_bytes))), Ok(()));
        for (id, name) in names.iter().enumerate() {
            assert_eq!(find(&index, name), Some(id as u32));
            index.remove(name.as_bytes(), id as u32);
            assert_eq!(find(&index, name), None);
        }
    }

    #[test]
    fn no_table_of_a_growing_index_grows_beyond_its_places() {
        let mut index = NameIndex::default();
        let mut names = 0u32;
        while index.tables.count() < 64 {
            index.insert(&names.to_le_bytes(), names);
            names += 1;
        }
        let most = index.tables.iter().map(HashTable::capacity).max();
        assert!(most <= Some(57_344), "{most:?} places");
        // No more memory than one table would have just after it has doubled.
        let single = 9 * (2 * names as usize * 8 / 7).next_power_of_two();
        assert!(index.allocated() < single, "{} for {names} names", index.allocated());
    }
}
