//! An index from the hashes of names to numbered things: open addressing, with 60 to 75 % of the places taken.
//!
//! A large index has several parts and grows by one part at a time: an index of a million names that is made again would
//! keep the server busy for tens of milliseconds.

use super::invariant::Checked;
use super::parts::Parts;
use crate::{ensure, invariant};

/// What the index has for each name.
pub trait Slot: Copy {
    /// A slot without a name.
    const EMPTY: Self;
    /// A slot for the thing of this number, whose name has this hash.
    fn new(hash: u64, id: u32) -> Self;
    /// The number of the thing.
    fn id(self) -> u32;
    /// Whether the slot has no name.
    fn is_empty(self) -> bool;
    /// Whether the name of the slot may have this hash.
    fn may_have(self, hash: u64) -> bool;
}

/// How many names the index has for each of its parts before it gets another one. The parts that are not divided yet
/// have up to twice as many: about a millisecond of work.
const NAMES_OF_A_PART: usize = 8192;

/// The index. Where a hash is not kept in the slots, `hash_of` computes it from the name of a thing that is in the index.
#[derive(Clone, Debug)]
pub struct Index<S> {
    parts: Parts<Part<S>>,
    names: usize,
}

/// The names whose hashes have some bits in common.
#[derive(Clone, Debug)]
struct Part<S> {
    slots: Vec<S>,
    names: usize,
}

impl<S> Default for Index<S> {
    fn default() -> Self {
        Self { parts: Parts::default(), names: 0 }
    }
}

impl<S> Default for Part<S> {
    fn default() -> Self {
        Self { slots: Vec::new(), names: 0 }
    }
}

impl<S: Slot> Index<S> {
    /// An index with room for so many names, which are added next.
    pub fn with_room_for(names: usize) -> Self {
        let mut index = Self::default();
        let parts = names.div_ceil(NAMES_OF_A_PART);
        while index.parts.count() < parts {
            index.parts.divide(|_| Part::with_room_for(names / parts));
        }
        index
    }

    /// The number of the thing whose name has this hash and for which `is` holds. O(1).
    #[inline]
    pub fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        let part = self.parts.of(bits_of_part(hash));
        let place = part.find(hash, is)?;
        part.slots.get(place).map(|slot| slot.id())
    }

    /// Adds a thing that is not there, with the hash of its name. O(1); for a large index at most a millisecond or two, to
    /// divide a part.
    pub fn insert(&mut self, hash: u64, id: u32, hash_of: impl Fn(S) -> u64) {
        if self.names >= self.parts.count() * NAMES_OF_A_PART {
            self.add_part(&hash_of);
        }
        self.parts.of_mut(bits_of_part(hash)).insert(hash, S::new(hash, id), &hash_of);
        self.names += 1;
    }

    /// Takes out a thing that is there, with the hash of its name. O(1); at most a millisecond to shrink a part.
    pub fn remove(&mut self, hash: u64, id: u32, hash_of: impl Fn(S) -> u64) {
        let removed = self.parts.of_mut(bits_of_part(hash)).remove(hash, id, hash_of);
        if invariant!(removed, "a name that is taken out of its index is there") {
            self.names -= 1;
        }
    }

    /// Checks that the index has so many names, the counts of its parts, and that each part has a free slot. Whether each
    /// name is found, those who have the names check. O(names).
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self, names: usize) -> Checked {
        let mut all = 0;
        for part in self.parts.iter() {
            let taken = part.slots.iter().filter(|slot| !slot.is_empty()).count();
            ensure!(taken == part.names, "a part of an index has {taken} names and counts {}", part.names);
            ensure!(taken < part.slots.len() || taken == 0, "a part of an index has no free slot");
            all += taken;
        }
        ensure!(all == names, "an index has {all} names of {names}");
        ensure!(all == self.names, "an index has {all} names and counts {}", self.names);
        Ok(())
    }

    /// Bytes allocated.
    pub fn allocated(&self) -> usize {
        let slots = self.parts.iter().map(|part| part.slots.capacity()).sum::<usize>();
        self.parts.allocated() + slots * size_of::<S>()
    }

    /// Adds a part, and divides the one that has its names.
    #[cold]
    fn add_part(&mut self, hash_of: impl Fn(S) -> u64) {
        let divided = self.parts.divide(|part| Part::with_room_for(part.names / 2));
        for slot in divided.slots.into_iter().filter(|slot| !slot.is_empty()) {
            let hash = hash_of(slot);
            self.parts.of_mut(bits_of_part(hash)).insert(hash, slot, &hash_of);
        }
    }
}

impl<S: Slot> Part<S> {
    /// A part for so many names: 60 % of its slots are then taken.
    fn with_room_for(names: usize) -> Self {
        Self { slots: vec![S::EMPTY; (names * 5 / 3).max(12)], names: 0 }
    }

    /// Where a hash would stand; 0 in an empty part.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        ((u64::from(hash as u32) * self.slots.len() as u64) >> 32) as usize
    }

    #[inline]
    fn behind(&self, place: usize) -> usize {
        if place + 1 == self.slots.len() { 0 } else { place + 1 }
    }

    /// The place of the name with this hash for which `is` holds.
    #[inline]
    fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<usize> {
        let mut place = self.home(hash);
        loop {
            let slot = *self.slots.get(place)?;
            if slot.is_empty() {
                return None;
            }
            if slot.may_have(hash) && is(slot.id()) {
                return Some(place);
            }
            place = self.behind(place);
        }
    }

    /// Adds a slot. At most 75 % of the slots are taken, and never quite all.
    fn insert(&mut self, hash: u64, slot: S, hash_of: impl Fn(S) -> u64) {
        self.names += 1;
        if self.names * 4 >= self.slots.len() * 3 {
            self.resize(hash_of);
        }
        self.put(hash, slot);
    }

    /// Puts a slot into the first free place from its home on; there is one.
    fn put(&mut self, hash: u64, slot: S) {
        let mut place = self.home(hash);
        for _ in 0..self.slots.len() {
            if let Some(free) = self.slots.get_mut(place).filter(|slot| slot.is_empty()) {
                *free = slot;
                return;
            }
            place = self.behind(place);
        }
        invariant!("a part of an index has a free slot for each name that enters it");
    }

    /// Makes the slots again, for the names that the part counts. O(names).
    fn resize(&mut self, hash_of: impl Fn(S) -> u64) {
        let old = std::mem::replace(&mut self.slots, Self::with_room_for(self.names).slots);
        old.into_iter().filter(|slot| !slot.is_empty()).for_each(|slot| self.put(hash_of(slot), slot));
    }

    /// Takes a thing out, and moves those behind it up so that none is cut off from its home. Returns whether it was there.
    fn remove(&mut self, hash: u64, id: u32, hash_of: impl Fn(S) -> u64) -> bool {
        let Some(mut gap) = self.find(hash, |other| other == id) else { return false };
        let len = self.slots.len();
        // How far a place is behind another.
        let distance = |from: usize, to: usize| if to >= from { to - from } else { to + len - from };
        let mut place = gap;
        loop {
            place = self.behind(place);
            // The part is never full, so the walk ends.
            let Some(&slot) = self.slots.get(place).filter(|slot| !slot.is_empty()) else { break };
            // It may move up to the gap if its home is not between the gap and its place.
            if distance(self.home(hash_of(slot)), place) >= distance(gap, place) {
                self.slots.swap(gap, place);
                gap = place;
            }
        }
        if let Some(slot) = self.slots.get_mut(gap) {
            *slot = S::EMPTY;
        }
        self.names -= 1;
        if len > 64 && self.names * 3 < len {
            self.resize(hash_of);
        }
        true
    }
}

/// The bits of a hash that choose a part: not those of the place in it.
#[inline]
fn bits_of_part(hash: u64) -> u32 {
    (hash >> 32) as u32 & 0x00ff_ffff
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slot that keeps the number.
    impl Slot for u64 {
        const EMPTY: Self = Self::MAX;

        fn new(_: u64, id: u32) -> Self {
            id.into()
        }

        fn id(self) -> u32 {
            self as u32
        }

        fn is_empty(self) -> bool {
            self == Self::EMPTY
        }

        fn may_have(self, _: u64) -> bool {
            true
        }
    }

    fn hash(id: u32) -> u64 {
        (u64::from(id) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn hash_of(slot: u64) -> u64 {
        hash(slot.id())
    }

    #[test]
    fn no_part_of_a_growing_index_grows_beyond_twice_its_names() {
        let mut index = Index::<u64>::default();
        for id in 0..300_000 {
            index.insert(hash(id), id, hash_of);
        }
        let most = index.parts.iter().map(|part| part.names).max();
        assert!(most < Some(2 * NAMES_OF_A_PART + 1000), "{most:?} names in a part");
        assert!(index.allocated() < 300_000 * 14, "{}", index.allocated());
        assert_eq!(index.check(300_000), Ok(()));
        assert!((0..300_000).all(|id| index.find(hash(id), |other| other == id) == Some(id)));
        for id in 0..299_000 {
            index.remove(hash(id), id, hash_of);
        }
        assert_eq!(index.check(1000), Ok(()));
        assert!(index.allocated() < 80_000, "{}", index.allocated());
        assert!((299_000..300_000).all(|id| index.find(hash(id), |other| other == id) == Some(id)));
        assert_eq!(index.find(hash(5), |other| other == 5), None);
    }

    #[test]
    fn check_finds_a_damaged_index() {
        let mut sound = Index::<u64>::default();
        (0..30).for_each(|id| sound.insert(hash(id), id, hash_of));
        assert_eq!(sound.check(30), Ok(()));
        assert!(sound.check(29).is_err());
        let damages: [fn(&mut Index<u64>); 4] = [
            |index| index.names += 1,
            |index| index.parts.of_mut(0).names -= 1,
            |index| index.parts.of_mut(0).slots.fill(1),
            |index| index.parts.of_mut(0).slots.fill(u64::EMPTY),
        ];
        for damage in damages {
            let mut index = sound.clone();
            damage(&mut index);
            assert!(index.check(30).is_err());
        }
    }
}
