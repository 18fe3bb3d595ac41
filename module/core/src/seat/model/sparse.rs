//! Some seats of a row as bits, without the words that have none. A row may have thousands of tiers with a few seats
//! each. With all words of the row for each tier, memory would be the product of tiers and seats.

use super::bits::{self, Bits};
use super::plan::max;
use crate::invariant;
use crate::shared::spilled;
use smallvec::{SmallVec, smallvec};

/// The words of a row that are kept: bit n is word n.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Kept(pub(in crate::seat) u64);

const _: () = assert!(max::POSITIONS <= 64 * 64, "a row has at most 64 words");

impl Kept {
    /// How many words are kept.
    pub fn words(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether the kept words are neighbours, so that no run ends between two of them.
    pub fn is_without_gap(self) -> bool {
        let from_first = self.0 >> (self.0.trailing_zeros() & 63);
        from_first & from_first.wrapping_add(1) == 0
    }

    /// The place of a position of the row among the bits of the kept words; `None` if its word is not kept. O(1).
    pub fn place(self, position: usize) -> Option<usize> {
        let word = 1u64.checked_shl((position / 64) as u32)?;
        let before = (self.0 & (word - 1)).count_ones() as usize;
        (self.0 & word != 0).then_some(before * 64 + position % 64)
    }

    /// Sets or clears the bit of a position whose word is kept. O(1).
    pub fn put(self, words: &mut [u64], position: usize, value: bool) {
        match self.place(position) {
            Some(place) => bits::put(words, place, value),
            None => invariant!("the word of a position that is set or cleared is kept"),
        }
    }

    /// Positions of the bits that are set in the kept words, lowest first.
    pub fn ones(self, words: &[u64]) -> impl Iterator<Item = usize> {
        let numbers = bits::ones_of(self.0);
        numbers.zip(words).flat_map(|(number, &word)| bits::ones_of(word).map(move |bit| number * 64 + bit))
    }

    /// Lengths of the runs of set bits, from the left. O(kept words + runs).
    pub fn runs(self, words: &[u64]) -> impl Iterator<Item = usize> {
        let (mut rest, mut at) = (self.0, 0);
        // A run lies in neighbouring words, and neighbouring words are all kept.
        let neighbours = std::iter::from_fn(move || {
            rest = rest.checked_shr(rest.trailing_zeros())?;
            let count = rest.trailing_ones();
            rest = rest.checked_shr(count).unwrap_or(0);
            let begin = at;
            at += count as usize;
            words.get(begin..at)
        });
        neighbours.flat_map(bits::runs).map(|(_, len)| len)
    }

    /// All words of a row of `len` positions. O(words).
    #[inline]
    pub fn dense(self, words: &[u64], len: usize) -> Bits {
        let count = len.div_ceil(64);
        if words.len() == count {
            return Bits::from_slice(words);
        }
        let mut all: Bits = smallvec![0; count];
        for (number, &word) in bits::ones_of(self.0).zip(words) {
            match all.get_mut(number) {
                Some(slot) => *slot = word,
                None => invariant!("a word that is kept lies inside its row"),
            }
        }
        all
    }
}

/// The seats of one tier in a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sparse {
    /// Words with a seat of the tier.
    pub(in crate::seat) kept: Kept,
    /// These words.
    pub(in crate::seat) words: SmallVec<[u64; 2]>,
}

impl Sparse {
    /// Adds a position beyond all others. O(1).
    pub fn push(&mut self, position: usize) {
        let word = 1 << (position / 64);
        if self.kept.0 < word {
            self.kept.0 |= word;
            self.words.push(0);
        }
        self.kept.put(&mut self.words, position, true);
    }

    /// Whether a position is among the seats. O(1).
    pub fn contains(&self, position: usize) -> bool {
        self.kept.place(position).is_some_and(|place| bits::is_set(&self.words, place))
    }

    /// Positions of the seats, lowest first.
    pub fn ones(&self) -> impl Iterator<Item = usize> {
        self.kept.ones(&self.words)
    }

    /// Number of seats.
    pub fn count(&self) -> u32 {
        bits::count(&self.words)
    }

    /// Bytes allocated.
    pub fn allocated(&self) -> usize {
        spilled(&self.words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn kept_words_say_the_same_as_all_words(
            seats in prop::collection::btree_set(0usize..4096, 1..200),
            some_word in prop::collection::btree_set(640usize..900, 0..200),
        ) {
            let seats: std::collections::BTreeSet<usize> = seats.into_iter().chain(some_word).collect();
            let mut sparse = Sparse::default();
            let mut all: Bits = smallvec![0; 64];
            for &position in &seats {
                sparse.push(position);
                bits::put(&mut all, position, true);
            }
            prop_assert_eq!(sparse.kept.dense(&sparse.words, 4096), all.clone());
            prop_assert!(sparse.ones().eq(bits::ones(&all)));
            prop_assert_eq!(sparse.count() as usize, seats.len());
            prop_assert!((0..5000).all(|at| sparse.contains(at) == seats.contains(&at)));
            prop_assert!(sparse.kept.runs(&sparse.words).eq(bits::runs(&all).map(|(_, len)| len)));
            if sparse.kept.is_without_gap() {
                prop_assert!(bits::runs(&sparse.words).map(|(_, len)| len).eq(sparse.kept.runs(&sparse.words)));
            }
            let words: Vec<usize> = bits::ones_of(sparse.kept.0).collect();
            let gap = words.windows(2).any(|pair| pair[1] - pair[0] > 1);
            prop_assert_eq!(sparse.kept.is_without_gap(), !gap);
            let words_with_seats = all.iter().filter(|word| **word != 0).count();
            prop_assert_eq!((sparse.words.len(), sparse.kept.words()), (words_with_seats, words_with_seats));
        }
    }
}
