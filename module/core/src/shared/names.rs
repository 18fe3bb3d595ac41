//! Finding numbered things by name: tokens, users, orders, numbers.

use super::index::{Index, Slot};
use super::invariant::Checked;
use super::list::NONE;
use crate::ensure;
use hashbrown::DefaultHashBuilder;
use std::hash::BuildHasher;

/// An index from names to numbers. The names stay where the things are; the index keeps half of each hash, so that
/// growing it (which a rush does at the worst time) reads the index alone and not a million names.
#[derive(Clone, Debug, Default)]
pub struct NameIndex {
    index: Index<Entry>,
    hasher: DefaultHashBuilder,
}

/// Half a hash, and a number.
#[derive(Clone, Copy, Debug)]
struct Entry {
    half: u32,
    id: u32,
}

impl Slot for Entry {
    const EMPTY: Self = Self { half: 0, id: NONE };

    fn new(hash: u64, id: u32) -> Self {
        Self { half: hash as u32, id }
    }

    fn id(self) -> u32 {
        self.id
    }

    fn is_empty(self) -> bool {
        self.id == NONE
    }

    fn may_have(self, hash: u64) -> bool {
        self.half == hash as u32
    }
}

impl Entry {
    fn hash(self) -> u64 {
        spread(self.half)
    }
}

impl NameIndex {
    /// The number of a name; `is` tells whether a number has it. O(1).
    pub fn find(&self, name: &[u8], is: impl Fn(u32) -> bool) -> Option<u32> {
        self.index.find(self.hash(name), is)
    }

    /// Adds a name that is not there. O(1); for a large index at most a millisecond, to divide a part.
    pub fn insert(&mut self, name: &[u8], id: u32) {
        self.index.insert(self.hash(name), id, Entry::hash);
    }

    /// Takes a name out that is there. O(1).
    pub fn remove(&mut self, name: &[u8], id: u32) {
        self.index.remove(self.hash(name), id, Entry::hash);
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
        self.index.check(count)
    }

    /// Bytes allocated.
    pub fn allocated(&self) -> usize {
        self.index.allocated()
    }

    fn hash(&self, name: &[u8]) -> u64 {
        spread(self.hasher.hash_one(name) as u32)
    }
}

/// A whole hash from its half. The lowest bits of the half choose a part of the index, and the highest ones the place in it.
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
        let names: Vec<String> = (0..50_000).map(|number| format!("name-{number}")).collect();
        let mut index = NameIndex::default();
        let find =
            |index: &NameIndex, name: &str| index.find(name.as_bytes(), |id| names[id as usize] == name);
        for (id, name) in names.iter().enumerate() {
            assert_eq!(find(&index, name), None);
            index.insert(name.as_bytes(), id as u32);
        }
        assert_eq!(index.check((0..).zip(names.iter().map(String::as_bytes))), Ok(()));
        for (id, name) in names.iter().enumerate() {
            assert_eq!(find(&index, name), Some(id as u32));
            index.remove(name.as_bytes(), id as u32);
            assert_eq!(find(&index, name), None);
        }
        assert!(index.allocated() < 4000, "{}", index.allocated());
    }
}
