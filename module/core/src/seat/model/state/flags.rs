//! The free seats that a request may take, by their flags.

use super::{Show, Strip};
use crate::seat::bits::{self, Bits};
use crate::seat::choice::Kind;
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

    /// The kept words of these seats. O(kept words), and the cost of `hide_flagged`.
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

    /// Clears those seats of a strip, given by its kept words, that are not of a kind. O(kept words), and the cost of
    /// `hide_flagged`.
    pub(in crate::seat) fn keep_kind(&self, strip: Strip, kind: Kind, seats: &mut Bits) {
        self.hide_flagged(strip, kind.allowed, seats);
        if kind.carried != 0 {
            self.keep_flagged(strip, kind, seats);
        }
    }

    /// Clears all seats of a strip, given by its kept words, but those of a kind that carries a flag. O(flagged seats of
    /// the row).
    fn keep_flagged(&self, strip: Strip, kind: Kind, seats: &mut Bits) {
        let mut kept: Bits = seats.iter().map(|_| 0).collect();
        for &(position, flags) in &self.venue.layout(strip.row).flags {
            if kind.takes(flags)
                && let Some(place) = self.seats_of(strip).kept.place(usize::from(position))
                && bits::is_set(seats, place)
            {
                bits::put(&mut kept, place, true);
            }
        }
        *seats = kept;
    }

    /// Clears those seats of a strip, given by its kept words, that have a flag which is not in the request.
    /// O(kept words), and at most O(log seats) for each of these seats or of the row's flags, whichever are fewer.
    fn hide_flagged(&self, strip: Strip, allowed: u64, seats: &mut [u64]) {
        let (layout, kept) = (self.venue.layout(strip.row), self.seats_of(strip).kept);
        if layout.flags.is_empty() {
            return;
        }
        // A strip of few seats must not cost as much as the whole row.
        if (bits::count(seats) as usize) < layout.flags.len() {
            let flagged = |position: &usize| layout.flags_at(*position) & !allowed != 0;
            let hidden: Positions = kept.ones(seats).filter(flagged).collect();
            hidden.into_iter().for_each(|position| kept.put(seats, position, false));
            return;
        }
        for &(position, set) in &layout.flags {
            if set & !allowed != 0
                && let Some(place) = kept.place(usize::from(position))
            {
                bits::put(seats, place, false);
            }
        }
    }
}
