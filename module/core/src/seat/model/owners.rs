//! The owner of each position of a show.

use super::venue::Seat;

/// Positions of a chunk.
const CHUNK: usize = 512;

/// No owner: the seat is free, or the position is a break.
pub(in crate::seat) const FREE: u32 = u32::MAX;

/// Owners as numbers, 4 bytes each. In a show with standing areas, chunks in which every position is free take no memory:
/// the places of such an area are taken from the first one on.
#[derive(Clone, Debug)]
pub(in crate::seat) enum Owners {
    /// All positions.
    Flat(Box<[u32]>),
    /// Chunks of `CHUNK` positions; `None` while all of a chunk are free.
    Chunked { chunks: Box<[Option<Box<[u32]>>]>, positions: usize },
}

impl Owners {
    /// All positions free.
    pub(in crate::seat) fn new(positions: usize, standing: bool) -> Self {
        if standing {
            Self::Chunked { chunks: vec![None; positions.div_ceil(CHUNK)].into(), positions }
        } else {
            Self::Flat(vec![FREE; positions].into())
        }
    }

    /// Number of positions.
    pub(in crate::seat) fn len(&self) -> usize {
        match self {
            Self::Flat(owners) => owners.len(),
            Self::Chunked { positions, .. } => *positions,
        }
    }

    /// The owner of a position; `None` beyond the end. O(1).
    #[inline]
    pub(in crate::seat) fn get(&self, seat: Seat) -> Option<u32> {
        match self {
            Self::Flat(owners) => owners.get(seat as usize).copied(),
            Self::Chunked { chunks, positions } => {
                let chunk = chunks.get(seat as usize / CHUNK).filter(|_| (seat as usize) < *positions)?;
                chunk.as_ref().map_or(Some(FREE), |chunk| chunk.get(seat as usize % CHUNK).copied())
            }
        }
    }

    /// Clears the bits of positions that have an owner; bit 0 of the first word is the position `first`.
    pub(in crate::seat) fn keep_free(&self, first: Seat, words: &mut [u64]) {
        for (word, begin) in words.iter_mut().zip((first..).step_by(64)) {
            let bit_if_free = |owner: u32, bit: usize| u64::from(owner == FREE) << bit;
            *word &= match self {
                Self::Flat(owners) => {
                    let owners = owners.get(begin as usize..).unwrap_or_default().iter().take(64);
                    owners.enumerate().fold(0, |free, (bit, &owner)| free | bit_if_free(owner, bit))
                }
                Self::Chunked { .. } => (0..64).fold(0, |free, bit| {
                    free | self.get(begin + bit as Seat).map_or(0, |owner| bit_if_free(owner, bit))
                }),
            };
        }
    }

    /// Changes the owner of a position. Returns whether there is such a position. O(1).
    #[inline]
    pub(in crate::seat) fn set(&mut self, seat: Seat, owner: u32) -> bool {
        let slot = match self {
            Self::Flat(owners) => owners.get_mut(seat as usize),
            Self::Chunked { chunks, positions } => {
                let chunk = chunks.get_mut(seat as usize / CHUNK).filter(|_| (seat as usize) < *positions);
                let chunk = chunk.map(|chunk| chunk.get_or_insert_with(|| vec![FREE; CHUNK].into()));
                chunk.and_then(|chunk| chunk.get_mut(seat as usize % CHUNK))
            }
        };
        slot.is_some_and(|slot| {
            *slot = owner;
            true
        })
    }

    /// Bytes allocated.
    pub(in crate::seat) fn allocated(&self) -> usize {
        match self {
            Self::Flat(owners) => owners.len() * size_of::<u32>(),
            Self::Chunked { chunks, .. } => {
                let taken = chunks.iter().flatten().count();
                chunks.len() * size_of::<Option<Box<[u32]>>>() + taken * CHUNK * size_of::<u32>()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seat::bits::is_set;

    #[test]
    fn chunked_owners_say_the_same_as_flat_ones() {
        let (mut flat, mut chunked) = (Owners::new(1300, false), Owners::new(1300, true));
        assert!(chunked.allocated() * 10 < flat.allocated());
        for (seat, owner) in [(0, 7), (511, 8), (512, 9), (1299, 1), (512, FREE), (1300, 5), (1500, 5)] {
            assert_eq!(chunked.set(seat, owner), flat.set(seat, owner), "{seat}");
            assert!((0..2000).all(|seat| chunked.get(seat) == flat.get(seat)), "{seat}");
            for owners in [&flat, &chunked] {
                let mut words = [!0; 21];
                owners.keep_free(7, &mut words);
                let is_free = |bit: Seat| owners.get(7 + bit) == Some(FREE);
                assert!((0..21 * 64).all(|bit| is_set(&words, bit as usize) == is_free(bit)), "{seat}");
            }
        }
        assert_eq!(chunked.len(), flat.len());
    }
}
