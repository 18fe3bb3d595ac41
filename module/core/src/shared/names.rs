//! Finding numbered things by name: tokens, users, orders, numbers.

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

    /// Takes a name out. O(1).
    pub fn remove(&mut self, name: &[u8], id: u32) {
        let half = self.half(name);
        if let Ok(entry) = self.table.find_entry(spread(half), |&(_, other)| other == id) {
            entry.remove();
        }
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
