//! From the hashes of numbers to their ids: open addressing over 4-byte slots (three bytes of id, one of hash), filled to
//! at most 85 %, which is five to six bytes a number.
//!
//! A large index has several parts and grows by one part at a time: an index of a million numbers that is made again
//! would keep the server busy for tens of milliseconds.

use crate::shared::invariant::Checked;
use crate::shared::parts::Parts;
use crate::{ensure, invariant};

/// The ids that fit into a slot are below this.
pub(in crate::numpool) const MAX_IDS: u32 = 1 << 24;

/// A slot without an entry.
const EMPTY: u32 = 0;

/// How many numbers the index has for each of its parts before it gets another one. The parts that are not divided yet
/// have up to twice as many: about a millisecond of work.
const NUMBERS_OF_A_PART: usize = 8192;

/// The index. The names stay in the directory, which knows the hash of each id.
#[derive(Clone, Debug, Default)]
pub(in crate::numpool) struct NumberIndex {
    parts: Parts<Part>,
    numbers: usize,
}

/// The numbers whose hashes have some bits in common.
#[derive(Clone, Debug, Default)]
struct Part {
    slots: Vec<u32>,
    numbers: usize,
}

impl NumberIndex {
    /// An index for so many numbers, which are entered next.
    pub(in crate::numpool) fn with_capacity(numbers: usize) -> Self {
        let mut index = Self::default();
        while index.parts.count() * NUMBERS_OF_A_PART < numbers {
            index.parts.divide(|_| Part::default());
        }
        let each = numbers / index.parts.count();
        index.parts.iter_mut().for_each(|part| part.slots = vec![EMPTY; capacity(each)]);
        index
    }

    /// The id with this hash for which `is` holds. O(1).
    #[inline]
    pub(in crate::numpool) fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        let part = self.parts.of(bits_of_part(hash));
        let place = part.find(hash, is)?;
        part.slots.get(place).map(|&slot| id_of(slot))
    }

    /// Adds an id that is not there, with its hash. `hash_of` knows the hashes of all ids that are. O(1); for a large index
    /// at most a millisecond or two, to divide a part.
    pub(in crate::numpool) fn insert(&mut self, hash: u64, id: u32, hash_of: impl Fn(u32) -> u64) {
        if self.numbers >= self.parts.count() * NUMBERS_OF_A_PART {
            let divided = self.parts.divide(|part| Part::with_capacity(part.numbers / 2));
            for id in divided.ids() {
                let hash = hash_of(id);
                self.parts.of_mut(bits_of_part(hash)).insert(hash, id, &hash_of);
            }
        }
        self.parts.of_mut(bits_of_part(hash)).insert(hash, id, &hash_of);
        self.numbers += 1;
    }

    /// Takes out an id that is there, with its hash. O(1); at most a millisecond to shrink a part.
    pub(in crate::numpool) fn remove(&mut self, hash: u64, id: u32, hash_of: impl Fn(u32) -> u64) {
        let removed = self.parts.of_mut(bits_of_part(hash)).remove(hash, id, hash_of);
        if invariant!(removed, "a number that leaves the index is in it") {
            self.numbers -= 1;
        }
    }

    /// Checks the counts of the parts, and that each has a free slot; there are so many numbers. Whether each is found, the
    /// directory checks. O(numbers).
    ///
    /// # Errors
    /// The first contradiction.
    pub(in crate::numpool) fn check(&self, numbers: usize) -> Checked {
        let mut all = 0;
        for part in self.parts.iter() {
            let taken = part.ids().count();
            ensure!(
                taken == part.numbers,
                "a part of the index has {taken} numbers and counts {}",
                part.numbers
            );
            ensure!(taken < part.slots.len() || taken == 0, "a part of the index has no free slot");
            all += taken;
        }
        ensure!(all == numbers, "{all} of {numbers} numbers are in the index");
        ensure!(all == self.numbers, "the index has {all} numbers and counts {}", self.numbers);
        Ok(())
    }

    /// Bytes allocated.
    pub(in crate::numpool) fn allocated(&self) -> usize {
        let slots = self.parts.iter().map(|part| part.slots.capacity()).sum::<usize>();
        self.parts.allocated() + slots * size_of::<u32>()
    }
}

impl Part {
    fn with_capacity(numbers: usize) -> Self {
        Self { slots: vec![EMPTY; capacity(numbers)], numbers: 0 }
    }

    /// All ids, in no order.
    fn ids(&self) -> impl Iterator<Item = u32> {
        self.slots.iter().filter(|&&slot| slot != EMPTY).map(|&slot| id_of(slot))
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

    /// The place of the id with this hash for which `is` holds.
    #[inline]
    fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<usize> {
        let mut place = self.home(hash);
        loop {
            let slot = *self.slots.get(place)?;
            if slot == EMPTY {
                return None;
            }
            if slot >> 24 == tag(hash) && is(id_of(slot)) {
                return Some(place);
            }
            place = self.behind(place);
        }
    }

    /// Adds an id. At most 85 % of the slots are taken, and never quite all.
    fn insert(&mut self, hash: u64, id: u32, hash_of: impl Fn(u32) -> u64) {
        self.numbers += 1;
        if self.numbers * 20 >= self.slots.len() * 17 {
            self.resize(hash_of);
        }
        self.put(hash, id);
    }

    /// Puts an id into the first free slot from its home on; there is one.
    fn put(&mut self, hash: u64, id: u32) {
        let mut place = self.home(hash);
        for _ in 0..self.slots.len() {
            if let Some(slot) = self.slots.get_mut(place).filter(|slot| **slot == EMPTY) {
                *slot = tag(hash) << 24 | id;
                return;
            }
            place = self.behind(place);
        }
        invariant!("a part of an index has a free slot for each number that enters it");
    }

    /// Makes the slots again, a quarter more than need be. O(numbers).
    fn resize(&mut self, hash_of: impl Fn(u32) -> u64) {
        let slots = vec![EMPTY; capacity(self.numbers)];
        let old = std::mem::replace(&mut self.slots, slots);
        for slot in old.into_iter().filter(|&slot| slot != EMPTY) {
            self.put(hash_of(id_of(slot)), id_of(slot));
        }
    }

    /// Takes an id out, and moves those behind it up so that none is cut off from its home. Returns whether it was there.
    fn remove(&mut self, hash: u64, id: u32, hash_of: impl Fn(u32) -> u64) -> bool {
        let Some(mut gap) = self.find(hash, |other| other == id) else { return false };
        let len = self.slots.len();
        // How far a place is behind another.
        let distance = |from: usize, to: usize| if to >= from { to - from } else { to + len - from };
        let mut place = gap;
        loop {
            place = self.behind(place);
            let slot = self.slots.get(place).copied().unwrap_or(EMPTY);
            // The part is never full, so the walk ends.
            if slot == EMPTY {
                break;
            }
            // It may move up to the gap if its home is not between the gap and its place.
            let home = self.home(hash_of(id_of(slot)));
            if distance(home, place) >= distance(gap, place) {
                self.slots.swap(gap, place);
                gap = place;
            }
        }
        if let Some(slot) = self.slots.get_mut(gap) {
            *slot = EMPTY;
        }
        self.numbers -= 1;
        if len > 64 && self.numbers * 3 < len {
            self.resize(hash_of);
        }
        true
    }
}

fn id_of(slot: u32) -> u32 {
    slot & (MAX_IDS - 1)
}

/// The part of a hash that stands in a slot; never 0, so that no entry is `EMPTY`.
fn tag(hash: u64) -> u32 {
    (hash >> 56) as u32 | 1
}

/// The bits of a hash that choose a part: neither those of the place nor those of the tag.
fn bits_of_part(hash: u64) -> u32 {
    (hash >> 32) as u32 & 0x00ff_ffff
}

/// Slots for so many numbers: 60 % of them are taken.
fn capacity(numbers: usize) -> usize {
    (numbers * 5 / 3).max(12)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(id: u32) -> u64 {
        (u64::from(id) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn no_part_of_a_growing_index_grows_beyond_twice_its_numbers() {
        let mut index = NumberIndex::default();
        for id in 0..300_000 {
            index.insert(hash(id), id, hash);
        }
        let most = index.parts.iter().map(|part| part.numbers).max();
        assert!(most < Some(2 * NUMBERS_OF_A_PART + 1000), "{most:?} numbers in a part");
        assert!(index.allocated() < 300_000 * 7, "{}", index.allocated());
        assert_eq!(index.check(300_000), Ok(()));
        assert!((0..300_000).all(|id| index.find(hash(id), |other| other == id) == Some(id)));
        for id in 0..299_000 {
            index.remove(hash(id), id, hash);
        }
        assert_eq!(index.check(1000), Ok(()));
        assert!(index.allocated() < 40_000, "{}", index.allocated());
        assert!((299_000..300_000).all(|id| index.find(hash(id), |other| other == id) == Some(id)));
        assert_eq!(index.find(hash(5), |_| true), None);
    }

    #[test]
    fn check_finds_a_damaged_index() {
        let mut sound = NumberIndex::default();
        (0..30).for_each(|id| sound.insert(hash(id), id, hash));
        assert_eq!(sound.check(30), Ok(()));
        assert!(sound.check(29).is_err());
        let damages: [fn(&mut NumberIndex); 4] = [
            |index| index.numbers += 1,
            |index| index.parts.of_mut(0).numbers -= 1,
            |index| index.parts.of_mut(0).slots.fill(1),
            |index| index.parts.of_mut(0).slots.fill(EMPTY),
        ];
        for damage in damages {
            let mut index = sound.clone();
            damage(&mut index);
            assert!(index.check(30).is_err());
        }
    }
}
