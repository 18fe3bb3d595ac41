//! The owner of each position of a show.

use super::venue::Seat;

/// Positions of a chunk.
const CHUNK: usize = 512;

/// No owner: the seat is free, or the position is a break.
pub(in crate::seat) const FREE: u32 = u32::MAX;

/// Owners as numbers, 4 bytes each. Chunks in which every position is free take no memory: seats and places are mostly
/// taken from the first one on.
#[derive(Clone, Debug)]
pub(in crate::seat) struct Owners {
    /// Chunks of `CHUNK` positions, the last one of as many as are left; `None` while all of a chunk are free.
    chunks: Box<[Option<Box<[u32]>>]>,
    positions: usize,
}

impl Owners {
    /// All positions free.
    pub(in crate::seat) fn new(positions: usize) -> Self {
        Self { chunks: vec![None; positions.div_ceil(CHUNK)].into(), positions }
    }

    /// Number of positions.
    pub(in crate::seat) fn len(&self) -> usize {
        self.positions
    }

    /// The owner of a position; `None` beyond the end. O(1).
    #[inline]
    pub(in crate::seat) fn get(&self, seat: Seat) -> Option<u32> {
        if seat as usize >= self.positions {
            return None;
        }
        let chunk = self.chunks.get(seat as usize / CHUNK)?;
        chunk.as_ref().map_or(Some(FREE), |chunk| chunk.get(seat as usize % CHUNK).copied())
    }

    /// Clears the bits of positions that have an owner; bit 0 of the first word is the position `first`.
    pub(in crate::seat) fn keep_free(&self, first: Seat, words: &mut [u64]) {
        for (word, begin) in words.iter_mut().zip((first as usize..).step_by(64)) {
            if *word == 0 {
                continue;
            }
            // The positions of a word lie in two chunks at most.
            let in_first = (CHUNK - begin % CHUNK).min(64);
            for (at, len) in [(0, in_first), (in_first, 64 - in_first)] {
                let (chunk, place) = ((begin + at) / CHUNK, (begin + at) % CHUNK);
                let Some(Some(owners)) = self.chunks.get(chunk) else { continue };
                let behind = owners.get(place..).unwrap_or_default();
                let owners = behind.get(..len).unwrap_or(behind).iter().enumerate();
                let taken = owners.fold(0, |taken, (bit, &owner)| taken | u64::from(owner != FREE) << bit);
                *word &= !taken.checked_shl(at as u32).unwrap_or(0);
            }
        }
    }

    /// Changes the owner of a position. Returns whether there is such a position. O(1).
    #[inline]
    pub(in crate::seat) fn set(&mut self, seat: Seat, owner: u32) -> bool {
        let number = seat as usize / CHUNK;
        let left = self.positions.saturating_sub(number * CHUNK);
        let chunk = self.chunks.get_mut(number);
        let chunk = chunk.map(|chunk| chunk.get_or_insert_with(|| vec![FREE; left.min(CHUNK)].into()));
        let slot = chunk.and_then(|chunk| chunk.get_mut(seat as usize % CHUNK));
        slot.is_some_and(|slot| {
            *slot = owner;
            true
        })
    }

    /// Bytes allocated.
    pub(in crate::seat) fn allocated(&self) -> usize {
        let positions: usize = self.chunks.iter().flatten().map(|chunk| chunk.len()).sum();
        self.chunks.len() * size_of::<Option<Box<[u32]>>>() + positions * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seat::bits::is_set;

    #[test]
    fn owners_are_those_that_were_set_last() {
        let (mut owners, mut model) = (Owners::new(1300), vec![FREE; 1300]);
        for (seat, owner) in [(0, 7), (511, 8), (512, 9), (1299, 1), (512, FREE), (1300, 5), (1500, 5)] {
            assert_eq!(owners.set(seat, owner), (seat as usize) < model.len(), "{seat}");
            if let Some(slot) = model.get_mut(seat as usize) {
                *slot = owner;
            }
            assert!((0..2000).all(|seat| owners.get(seat) == model.get(seat as usize).copied()), "{seat}");
            let mut words = [!0; 20];
            owners.keep_free(7, &mut words);
            assert!((0..1280).all(|bit| is_set(&words, bit) == (model[7 + bit] == FREE)), "{seat}");
        }
        assert!(Owners::new(1300).allocated() * 10 < owners.allocated());
    }

    #[test]
    fn small_show_has_no_owners_of_positions_that_it_lacks() {
        let mut owners = Owners::new(50);
        let before = owners.allocated();
        assert!(owners.set(49, 7) && !owners.set(50, 7) && !owners.set(512, 7));
        assert_eq!(owners.allocated() - before, 200);
    }
}
