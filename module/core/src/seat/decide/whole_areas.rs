//! Whole areas, read row by row, for a request that takes kinds of seats of which some buckets have no view.
//!
//! An area may have thousands of buckets with a few seats in each row. To walk the strips of each, once for each kind,
//! would take tens of milliseconds; here each row is read once, for all tiers and all kinds. Seats of different tiers form
//! no run, so the row is divided into two halves: successive groups of one tier belong to one and the other by turns. In
//! a half, seats side by side are of one tier. For the search, a half is a group of rows as a bucket is. The seats of a
//! request of one tier are all in the first half.

use crate::invariant;
use crate::seat::bits::{self, Bits};
use crate::seat::index::Runs;
use crate::seat::kind::{Kind, Kinds};
use crate::seat::sparse::Sparse;
use crate::seat::state::Show;
use crate::seat::venue::{Area, Layout, NO_SLOT, Row, Seat, Tier};
use hashbrown::HashMap;
use smallvec::SmallVec;
use std::cell::RefCell;

/// The words of a row of any length.
type Words = SmallVec<[u64; 64]>;

/// The areas that are read as a whole.
pub(super) struct WholeAreas<'a> {
    show: &'a Show,
    /// Only seats of this tier.
    tier: Option<Tier>,
    kinds: Kinds,
    areas: HashMap<Area, RefCell<ReadRows>>,
}

/// A half of an area.
#[derive(Clone, Copy)]
pub(super) struct Half {
    pub(super) area: Area,
    second: bool,
}

/// The rows of an area that have been read: those from the first on.
#[derive(Default)]
struct ReadRows {
    /// For each row, where its words begin.
    starts: Vec<usize>,
    /// For each row the seats of the first half, then for each kind the seats that may be taken.
    words: Vec<u64>,
}

impl<'a> WholeAreas<'a> {
    /// The areas among these candidates, of a request of one tier or all, in which a bucket has no view of one of these
    /// kinds; `None` if there are none. O(buckets).
    pub(super) fn among(
        show: &'a Show,
        tier: Option<Tier>,
        candidates: &[u32],
        kinds: Kinds,
    ) -> Option<Self> {
        let mut areas: HashMap<Area, RefCell<ReadRows>> = HashMap::new();
        for bucket in candidates.iter().map(|&bucket| show.bucket_at(bucket)) {
            if !areas.contains_key(&bucket.area) && kinds.iter().any(|&kind| bucket.lacks_view(kind)) {
                areas.insert(bucket.area, RefCell::default());
            }
        }
        (!areas.is_empty()).then_some(Self { show, tier, kinds, areas })
    }

    /// The buckets and halves to search instead of these buckets, in the same order.
    pub(super) fn halves_for(&self, buckets: &[u32]) -> Vec<u32> {
        let area_of = |bucket: u32| self.show.bucket_at(bucket).area;
        let mut found = Vec::new();
        for area in buckets.chunk_by(|&one, &other| area_of(one) == area_of(other)) {
            match area.first().and_then(|&bucket| self.first_half(area_of(bucket))) {
                Some(first) if self.tier.is_some() => found.push(first),
                Some(first) => found.extend([first, first + 1]),
                None => found.extend(area),
            }
        }
        found
    }

    /// The number of the first half of an area, if the area is read as a whole. Halves are numbered behind all buckets.
    fn first_half(&self, area: Area) -> Option<u32> {
        let number = self.show.buckets().len() as u32 + 2 * area;
        self.areas.contains_key(&area).then_some(number)
    }

    /// The half of that number; `None` for a bucket.
    pub(super) fn half(&self, number: u32) -> Option<Half> {
        let number = number.checked_sub(self.show.buckets().len() as u32)?;
        Some(Half { area: number / 2, second: number % 2 == 1 })
    }

    /// The half and the place of a seat, if its area is read as a whole.
    pub(super) fn place_of(&self, seat: Seat) -> Option<(u32, u32)> {
        let venue = &self.show.venue;
        let row = venue.row_of(seat);
        let area = venue.area_of(row);
        let first = self.first_half(area)?;
        let place = row - venue.area(area).rows.start;
        let position = (seat - venue.base(row)) as usize;
        let is_first =
            self.with_row(area, place, |first_half, _| bits::is_set(first_half, position)).unwrap_or(true);
        Some((if is_first { first } else { first + 1 }, place))
    }

    /// The row at a place of a half.
    pub(super) fn row(&self, half: Half, place: u32) -> Row {
        self.show.venue.area(half.area).rows.start + place
    }

    /// The first place of a half from `from` on whose seats of a kind meet a need. O(rows), and O(seats) of the rows that
    /// have not been read.
    pub(super) fn first(
        &self,
        half: Half,
        kind: usize,
        from: u32,
        meets: impl Fn(&[u64]) -> bool,
    ) -> Option<u32> {
        (from..self.places(half)).find(|&place| self.with_seats(half, kind, place, &meets).unwrap_or(false))
    }

    /// The lengths of the runs of a half. O(rows + runs).
    pub(super) fn lengths(&self, half: Half, kind: usize) -> u128 {
        let lengths = |place| self.with_seats(half, kind, place, |seats| Runs::of(seats).lengths);
        (0..self.places(half)).filter_map(lengths).fold(0, |union, one| union | one)
    }

    /// How many seats of a kind a half has; rows are read until there are `enough`.
    pub(super) fn free(&self, half: Half, kind: usize, enough: usize) -> usize {
        let mut free = 0;
        (0..self.places(half)).any(|place| {
            free += self.with_seats(half, kind, place, bits::count).unwrap_or(0) as usize;
            free >= enough
        });
        free
    }

    /// The seats of a kind at a place, as bits of the row.
    pub(super) fn seats(&self, half: Half, kind: usize, place: u32) -> Bits {
        self.with_seats(half, kind, place, Bits::from_slice).unwrap_or_default()
    }

    /// How many places a half has.
    pub(super) fn places(&self, half: Half) -> u32 {
        self.show.venue.area(half.area).rows.len() as u32
    }

    /// Calls `f` with the seats of a kind at a place of a half.
    fn with_seats<T>(&self, half: Half, kind: usize, place: u32, f: impl FnOnce(&[u64]) -> T) -> Option<T> {
        let other = if half.second { !0 } else { 0 };
        self.with_row(half.area, place, |first_half, kinds| {
            let seats = kinds.chunks_exact(first_half.len()).nth(kind);
            invariant!(seats.is_some(), "a row is read for each kind of the request");
            let seats = seats.unwrap_or_default();
            if let ([seats], [first]) = (seats, first_half) {
                // Most rows have one word.
                return f(&[seats & (first ^ other)]);
            }
            let seats: Bits =
                seats.iter().zip(first_half).map(|(seats, first)| seats & (first ^ other)).collect();
            f(&seats)
        })
    }

    /// Calls `f` with the seats of the first half of a row, and one after the other the seats of each kind. The row is read
    /// if need be.
    fn with_row<T>(&self, area: Area, place: u32, f: impl FnOnce(&[u64], &[u64]) -> T) -> Option<T> {
        let place = place as usize;
        let rows = self.areas.get(&area);
        invariant!(rows.is_some(), "an area that is read as a whole has its rows");
        let rows = rows?;
        if rows.borrow().starts.len() <= place {
            let mut rows = rows.borrow_mut();
            let first = self.show.venue.area(area).rows.start;
            (rows.starts.len()..=place).for_each(|next| rows.read(self, first + next as Row));
        }
        let rows = rows.borrow();
        let start = rows.starts.get(place).copied().unwrap_or(usize::MAX);
        let end = rows.starts.get(place + 1).copied().unwrap_or(rows.words.len());
        let words = rows.words.get(start..end);
        let words = words.map(|words| words.split_at(words.len() / (1 + self.kinds.len())));
        invariant!(words.is_some(), "a row that was read has its words");
        words.map(|(first_half, kinds)| f(first_half, kinds))
    }
}

impl ReadRows {
    /// Makes room for the area of a row, since most areas are read to their end.
    fn reserve(&mut self, whole: &WholeAreas<'_>, row: Row) {
        let venue = &whole.show.venue;
        let area = venue.area_of(row);
        let rows = venue.area(area).rows.len();
        // At most this: each row may end inside a word.
        let words = venue.positions_in(area).len() / 64 + rows;
        self.starts.reserve_exact(rows);
        self.words.reserve_exact(words * (1 + whole.kinds.len()));
    }

    /// Reads the next row. O(positions + flagged seats * kinds).
    fn read(&mut self, whole: &WholeAreas<'_>, row: Row) {
        let WholeAreas { show, kinds, .. } = whole;
        let layout = show.venue.layout(row);
        let count = usize::from(layout.len).div_ceil(64);
        if self.starts.is_empty() {
            self.reserve(whole, row);
        }
        let start = self.words.len();
        self.starts.push(start);
        let mut free: Words = match whole.tier {
            None => layout.seats_and_first_half(&mut self.words),
            Some(tier) => {
                let seats = layout.seats_of_tier(tier);
                self.words.extend_from_slice(&seats);
                seats.into_iter().collect()
            }
        };
        show.owners.keep_free(show.venue.base(row), &mut free);
        self.words.resize(start + count * (1 + kinds.len()), 0);
        let taken = self.words.get_mut(start + count..).unwrap_or_default();
        let flagged = put_flagged(layout, kinds, taken, count);
        for (words, kind) in taken.chunks_exact_mut(count).zip(kinds) {
            for ((word, free), flagged) in words.iter_mut().zip(&free).zip(&flagged) {
                let plain = if kind.carried == 0 { !flagged } else { 0 };
                *word = (*word | plain) & free;
            }
        }
    }
}

/// Sets, for each kind, the bits of the row's flagged seats that are of this kind. Returns all flagged seats.
fn put_flagged(layout: &Layout, kinds: &[Kind], taken: &mut [u64], count: usize) -> Words {
    let flagged = (0..count).map(|word| {
        let mut put = |kind: usize, bit: u64| match taken.get_mut(kind * count + word) {
            Some(taken) => *taken |= bit,
            None => invariant!("a row has words for each kind of the request"),
        };
        let mut flagged = 0;
        for &(position, flags) in layout.flagged(word).0 {
            let bit = 1 << (position % 64);
            flagged |= bit;
            // The first kind has all seats of the others, which have no seat in common.
            if kinds.first().is_some_and(|all| all.takes(flags)) {
                put(0, bit);
                if let Some(part) = kinds.iter().skip(1).position(|kind| kind.takes(flags)) {
                    put(1 + part, bit);
                }
            }
        }
        flagged
    });
    flagged.collect()
}

impl Layout {
    /// The seats of the row. Appends those of its first half to `halves`: successive groups of seats of one tier belong to
    /// the first and the second half by turns. The second half is the remaining seats. O(positions).
    fn seats_and_first_half(&self, halves: &mut Vec<u64>) -> Words {
        let len = usize::from(self.len);
        if let [(_, only)] = &*self.tiers {
            let seats = only.kept.dense(&only.words, len);
            halves.extend_from_slice(&seats);
            return seats.into_iter().collect();
        }
        // The tier at the end of the words so far, and their half.
        let (mut last, mut half) = (NO_SLOT, 0_u64);
        let words = self.slots.chunks(64).map(|slots| {
            let (mut seats, mut changes) = (0, 0_u64);
            for (bit, &slot) in slots.iter().enumerate() {
                seats |= u64::from(slot != NO_SLOT) << bit;
                changes |= u64::from(slot != last) << bit;
                last = slot;
            }
            // Whether the number of changes up to each position is odd.
            let odd = [1, 2, 4, 8, 16, 32].into_iter().fold(changes, |odd, by| odd ^ odd << by) ^ half;
            half = if odd >> 63 == 1 { !0 } else { 0 };
            halves.push(odd & seats);
            seats
        });
        words.collect()
    }

    /// The seats of one tier as bits of the row. O(log tiers + words).
    fn seats_of_tier(&self, tier: Tier) -> Bits {
        let found = self.tiers.binary_search_by_key(&tier, |&(tier, _)| tier).ok();
        let none = Sparse::default();
        let seats = found.and_then(|slot| self.tiers.get(slot)).map_or(&none, |(_, seats)| seats);
        seats.kept.dense(&seats.words, usize::from(self.len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seat::bits::is_set;
    use crate::seat::labels::Labels;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn seats_side_by_side_are_in_one_half_if_they_have_one_tier(
            row in prop::collection::vec(prop::option::weighted(0.9, 0u16..12), 1..300), tiers in 1u16..12,
        ) {
            let row: Vec<Option<Tier>> = row.into_iter().map(|tier| tier.map(|tier| tier % tiers)).collect();
            let seats_of = |tier: Tier| {
                let mut seats = Sparse::default();
                (0..row.len()).filter(|&at| row[at] == Some(tier)).for_each(|at| seats.push(at));
                (tier, seats)
            };
            let of_tiers: Vec<_> = (0..tiers).map(seats_of).filter(|(_, seats)| seats.count() > 0).collect();
            let layout = Layout::new(row.len() as u16, of_tiers, Vec::new(), Labels::default());
            for tier in 0..12 {
                let of_tier = layout.seats_of_tier(tier);
                prop_assert!((0..row.len()).all(|at| is_set(&of_tier, at) == (row[at] == Some(tier))));
                prop_assert_eq!(of_tier.len(), row.len().div_ceil(64));
            }
            let mut halves = vec![7];
            let seats = layout.seats_and_first_half(&mut halves);
            prop_assert_eq!(halves.remove(0), 7);
            for at in 0..row.len() {
                prop_assert_eq!(is_set(&seats, at), row[at].is_some());
                let is_first = |at: usize| is_set(&halves, at);
                prop_assert!(row[at].is_some() || !is_first(at));
                if at > 0 && row[at].is_some() && row[at - 1].is_some() {
                    prop_assert_eq!(is_first(at) == is_first(at - 1), row[at] == row[at - 1], "{}", at);
                }
            }
        }
    }
}
