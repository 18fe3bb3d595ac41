//! Finding numbered things by name: tokens, users, orders, numbers.

use super::invariant::Checked;
use crate::{ensure, invariant};
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

/// An index from names to numbers. The names stay where the things are; the index keeps half of each hash, so
/// that growing it (which a rush does at the worst time) reads the index alone and not a million names.
#[derive(Clone, Debug, Default)]
pub struct NameIndex {
    table: HashTable<(u32, u32)>,
    hasher: DefaultHashBuilder,
}

impl NameIndex {
    /// The number of a name; `is` tells whether a number has it. O(1).
    pub fn find(&self, name: &[u8], is: impl Fn(u32) -> bool) -> Option<u32> {
        let half = self.half(name);
        self.table.find(spread(half), |&(other, id)| other == half && is(id)).map(|&(_, id)| id)
    }

    /// Adds a name that is not there. O(1).
    pub fn insert(&mut self, name: &[u8], id: u32) {
        let half = self.half(name);
        self.table.insert_unique(spread(half), (half, id), |&(half, _)| spread(half));
    }

    /// Takes a name out that is there. O(1).
    pub fn remove(&mut self, name: &[u8], id: u32) {
        let half = self.half(name);
        match self.table.find_entry(spread(half), |&(_, other)| other == id) {
            Ok(entry) => _ = entry.remove(),
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
        ensure!(self.table.len() == count, "an index has {} names of {count}", self.table.len());
        Ok(())
    }

    /// Bytes allocated.
    pub fn allocated(&self) -> usize {
        self.table.allocation_size()
    }

    fn half(&self, name: &[u8]) -> u32 {
        self.hasher.hash_one(name) as u32
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
        let names: Vec<String> = (0..5000).map(|number| format!("name-{number}")).collect();
        let mut index = NameIndex::default();
        let find =
            |index: &NameIndex, name: &str| index.find(name.as_bytes(), |id| names[id as usize] == name);
        for (id, name) in names.iter().enumerate() {
            assert_eq!(find(&index, name), None);
            index.insert(name.as_bytes(), id as u32);
        }
        for (id, name) in names.iter().enumerate() {
            assert_eq!(find(&index, name), Some(id as u32));
            index.remove(name.as_bytes(), id as u32);
            assert_eq!(find(&index, name), None);
        }
    }
}
