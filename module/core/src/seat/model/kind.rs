//! Kinds of seats, by their flags.

use smallvec::SmallVec;

/// Seats that a request may take, by their flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    /// A seat of this kind has no other flags.
    pub allowed: u64,
    /// A seat of this kind has all of these flags.
    pub carried: u64,
}

impl Kind {
    /// Seats without flags other than these.
    pub fn with(allowed: u64) -> Self {
        Self { allowed, carried: 0 }
    }

    /// Whether a seat with these flags is of this kind.
    pub fn takes(self, flags: u64) -> bool {
        // Of the flags that it must have, or may not have, it has the former only.
        flags & !(self.allowed & !self.carried) == self.carried
    }
}

/// The kinds of seats of a request: the seats that it may take, and then its parts (`Wish::parts`) if it has needs. The
/// former has all seats of the parts, which have no seat in common.
pub type Kinds = SmallVec<[Kind; 6]>;

/// The seats with flags in a word of a row.
#[derive(Clone, Copy)]
pub struct Flagged<'a>(
    /// Positions in the row, and flags as bits.
    pub &'a [(u16, u64)],
);

impl Flagged<'_> {
    /// These seats, as bits of the word. O(seats).
    pub fn all(self) -> u64 {
        self.0.iter().fold(0, |union, &(position, _)| union | 1 << (position % 64))
    }

    /// Those of a kind, as bits of the word. O(seats).
    pub fn of_kind(self, kind: Kind) -> u64 {
        // Without branches, this is several seats at once.
        let bit = |&(position, flags): &(u16, u64)| u64::from(kind.takes(flags)) << (position % 64);
        self.0.iter().map(bit).fold(0, |union, bit| union | bit)
    }
}
