//! The free seats that a request may take, by their flags.

use super::{Show, Strip};
use crate::seat::bits::{self, Bits};
use crate::seat::kind::Kind;
use smallvec::SmallVec;
use std::ops::Deref;

/// Positions of a row; a few fit without an allocation.
type Positions = SmallVec<[usize; 16]>;

/// Words of bits, copied only if a bit was cleared in them.
pub(in crate::seat) enum Words<'a> {
    Borrowed(&'a [u64]),
    Copied(Bits),
}

impl Deref for Words<'_> {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        match self {
            Self::Borrowed(words) => words,
            Self::Copied(words) => words,
        }
    }
}

impl Show {
    /// Free seats of a strip that are of this kind, as bits of the row. O(words of the row).
    #[inline]
    pub(in crate::seat) fn takeable(&self, strip: Strip, kind: Kind) -> Bits {
        let len = usize::from(self.venue.layout(strip.row).len);
        self.seats_of(strip).kept.dense(&self.takeable_words(strip, kind), len)
    }

    /// All seats of a strip that are of this kind, as bits of the row. O(words of the row).
    pub(in crate::seat) fn seats_of_kind(&self, strip: Strip, kind: Kind) -> Bits {
        let (all, len) = (self.seats_of(strip), usize::from(self.venue.layout(strip.row).len));
        let mut seats = Bits::from_slice(&all.words);
        self.keep_kind(strip, kind, &mut seats);
        all.kept.dense(&seats, len)
    }

    /// The kept words of these seats. O(kept words), and the cost of `keep_kind`.
    #[inline]
    pub(in crate::seat) fn takeable_words(&self, strip: Strip, kind: Kind) -> Words<'_> {
        let free = self.free_seats(strip);
        // Most rows have no flags.
        if self.venue.layout(strip.row).flags.is_empty() && kind.carried == 0 {
            return Words::Borrowed(free);
        }
        let mut seats = Bits::from_slice(free);
        self.keep_kind(strip, kind, &mut seats);
        Words::Copied(seats)
    }

    /// Clears those seats of a strip, given by its kept words, that are not of a kind. O(kept words), and at most
    /// O(log seats) for each of these seats or of the row's flags, whichever are fewer.
    pub(in crate::seat) fn keep_kind(&self, strip: Strip, kind: Kind, seats: &mut Bits) {
        let (layout, kept) = (self.venue.layout(strip.row), self.seats_of(strip).kept);
        // A strip of few seats must not cost as much as the whole row.
        if (bits::count(seats) as usize) < layout.flags.len() {
            let other = |position: &usize| !kind.takes(layout.flags_at(*position));
            let hidden: Positions = kept.ones(seats).filter(other).collect();
            hidden.into_iter().for_each(|position| kept.put(seats, position, false));
            return;
        }
        for (word, seats) in bits::ones_of(kept.0).zip(seats.iter_mut()) {
            let flagged = layout.flagged(word);
            let plain = if kind.carried == 0 { !flagged.all() } else { 0 };
            *seats &= plain | flagged.of_kind(kind);
        }
    }
}
