//! Whole areas, read row by row, for a request that takes kinds of seats of which some buckets have no view.
//!
//! An area may have thousands of buckets with a few seats in each row. To walk the strips of each, once for each kind,
//! would take tens of milliseconds; here each row is read once, for all tiers and all kinds. Seats of different tiers form
//! no run, so the row is divided into two halves: successive groups of one tier belong to one and the other by turns. In
//! a half, seats side by side are of one tier. The search treats a half as a bucket, and a row of a half as a strip. The
//! seats of a request of one tier are all in the first half.

use crate::invariant;
use crate::seat::bits::{self, Bits};
use crate::seat::choice::Kind;
use crate::seat::index::Runs;
use crate::seat::state::{Bucket, Show};
use crate::seat::venue::{Area, Layout, Row, Seat, Tier};
use hashbrown::HashMap;
use smallvec::SmallVec;
use std::cell::RefCell;

/// The kinds of seats of a request: the seats that it may take, and then its parts (`Wish::parts`) if it has needs. The
/// former has all seats of the parts, which have no seat in common.
pub(super) type Kinds = SmallVec<[Kind; 6]>;

/// The words of a row of any length.
type Words = SmallVec<[u64; 64]>;

/// The areas that are read as a whole.
pub(super) struct WholeAreas<'a> {
    show: &'a Show,
    /// Only seats of this tier.
    tier: Option<Tier>,
    kinds: Kinds,
    areas: HashMap<Area, RefCell<Rows>>,
}

/// A half of an area.
#[derive(Clone, Copy)]
pub(super) struct Half {
    pub(super) area: Area,
    second: bool,
}

/// The rows of an area that have been read: those from the first on.
#[derive(Default)]
struct Rows {
    /// For each row, where its words begin.
    starts: Vec<u32>,
    /// For each row the seats of the first half, then for each kind the seats that may be taken.
    words: Vec<u64>,
    /// For each row and kind, the longest runs of both halves; 127 if it is longer.
    longest: Vec<[u8; 2]>,
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
        let mut areas: HashMap<Area, RefCell<Rows>> = HashMap::new();
        for bucket in candidates.iter().map(|&bucket| show.bucket_at(bucket)) {
            // To read all of the rows for a few seats of one tier would take longer than to walk the strips of the tier.
            let is_worth_it = || tier.is_none() || is_large_part(show, bucket);
            if !areas.contains_key(&bucket.area)
                && kinds.iter().any(|&kind| bucket.lacks_view(kind))
                && is_worth_it()
            {
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

    /// The half and the strip of a seat, if its area is read as a whole.
    pub(super) fn strip_of(&self, seat: Seat) -> Option<(u32, u32)> {
        let venue = &self.show.venue;
        let row = venue.row_of(seat);
        let area = venue.area_of(row);
        let first = self.first_half(area)?;
        let strip = row - venue.area(area).rows.start;
        let position = (seat - venue.base(row)) as usize;
        let is_first =
            self.with_row(area, strip, |rows, row| bits::is_set(self.part(rows, row, 0), position));
        Some((if is_first { first } else { first + 1 }, strip))
    }

    /// The row of a strip of a half.
    pub(super) fn row(&self, half: Half, strip: u32) -> Row {
        self.show.venue.area(half.area).rows.start + strip
    }

    /// The first strip of a half from `from` on that has a run of one of the `wanted` lengths, of seats of a kind. O(rows),
    /// and O(seats) of the rows that have not been read.
    pub(super) fn first(&self, half: Half, kind: usize, from: u32, wanted: u128) -> Option<u32> {
        (from..self.strips(half)).find(|&strip| {
            self.with_row(half.area, strip, |rows, row| {
                let longest = self.longest(rows, row, half, kind);
                let shorter = wanted & !(!0 << longest) != 0;
                wanted >> longest & 1 == 1 && longest > 0
                    || shorter && self.lengths_in(rows, row, half, kind) & wanted != 0
            })
        })
    }

    /// The lengths of the runs of a half. O(rows + runs).
    pub(super) fn lengths(&self, half: Half, kind: usize) -> u128 {
        let strips = 0..self.strips(half);
        strips.fold(0, |all, strip| {
            all | self.with_row(half.area, strip, |rows, row| self.lengths_in(rows, row, half, kind))
        })
    }

    /// How many seats of a kind a half has; rows are read until there are `enough`.
    pub(super) fn free(&self, half: Half, kind: usize, enough: usize) -> usize {
        let mut free = 0;
        (0..self.strips(half)).any(|strip| {
            free += self.with_row(half.area, strip, |rows, row| {
                self.words(rows, row, half, kind).map(|word| word.count_ones() as usize).sum::<usize>()
            });
            free >= enough
        });
        free
    }

    /// The seats of a kind in a strip, as bits of the row.
    pub(super) fn seats(&self, half: Half, kind: usize, strip: u32) -> Bits {
        self.with_row(half.area, strip, |rows, row| self.seats_in(rows, row, half, kind))
    }

    fn strips(&self, half: Half) -> u32 {
        self.show.venue.area(half.area).rows.len() as u32
    }

    /// Calls `f` with the rows of an area and the place of one of them, which is read if need be.
    fn with_row<T>(&self, area: Area, strip: u32, f: impl FnOnce(&Rows, usize) -> T) -> T {
        let place = strip as usize;
        match self.areas.get(&area) {
            None => {
                invariant!("an area that is read as a whole has its rows");
                f(&Rows::default(), place)
            }
            Some(rows) => {
                if rows.borrow().starts.len() <= place {
                    let mut rows = rows.borrow_mut();
                    let first = self.show.venue.area(area).rows.start;
                    (rows.starts.len()..=place).for_each(|next| rows.read(self, first + next as Row));
                }
                f(&rows.borrow(), place)
            }
        }
    }

    /// Part 0 of a row: the seats of the first half; part 1 and so on: the seats of each kind.
    fn part<'b>(&self, rows: &'b Rows, row: usize, part: usize) -> &'b [u64] {
        let start = rows.starts.get(row).map_or(0, |&start| start as usize);
        let end = rows.starts.get(row + 1).map_or(rows.words.len(), |&end| end as usize);
        let words = (end - start) / (self.kinds.len() + 1);
        rows.words.get(start + part * words..start + (part + 1) * words).unwrap_or_default()
    }

    fn seats_in(&self, rows: &Rows, row: usize, half: Half, kind: usize) -> Bits {
        self.words(rows, row, half, kind).collect()
    }

    fn words<'b>(
        &self,
        rows: &'b Rows,
        row: usize,
        half: Half,
        kind: usize,
    ) -> impl Iterator<Item = u64> + use<'b> {
        let words = self.part(rows, row, 1 + kind).iter().zip(self.part(rows, row, 0));
        let other = if half.second { !0 } else { 0 };
        words.map(move |(seats, first)| seats & (first ^ other))
    }

    fn longest(&self, rows: &Rows, row: usize, half: Half, kind: usize) -> u8 {
        let [first, second] = rows.longest.get(row * self.kinds.len() + kind).copied().unwrap_or_default();
        if half.second { second } else { first }
    }

    fn lengths_in(&self, rows: &Rows, row: usize, half: Half, kind: usize) -> u128 {
        match self.longest(rows, row, half, kind) {
            longest @ 0..=1 => u128::from(longest) << 1,
            _ => Runs::of(&self.seats_in(rows, row, half, kind)).lengths,
        }
    }
}

impl Rows {
    /// Makes room for the area of a row, since most areas are read to their end.
    fn reserve(&mut self, whole: &WholeAreas<'_>, row: Row) {
        let (venue, kinds) = (&whole.show.venue, whole.kinds.len());
        let area = venue.area_of(row);
        let rows = venue.area(area).rows.len();
        // At most this: each row may end inside a word.
        let words = positions_of(whole.show, area) as usize / 64 + rows;
        self.starts.reserve_exact(rows);
        self.words.reserve_exact(words * (1 + kinds));
        self.longest.reserve_exact(rows * kinds);
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
        self.starts.push(start as u32);
        let mut free: Words = match whole.tier {
            None => layout.seats_and_first_half(&mut self.words),
            Some(tier) => {
                self.words.extend(layout.seats_of_tier(tier));
                self.words.get(start..).unwrap_or_default().into()
            }
        };
        show.owners.keep_free(show.venue.base(row), &mut free);
        self.words.resize(start + count * (1 + kinds.len()), 0);
        let Some((first_half, taken)) =
            self.words.get_mut(start..).and_then(|words| words.split_at_mut_checked(count))
        else {
            invariant!("the words of a row that is read are there");
            return;
        };
        let flagged = put_flagged(layout, kinds, taken, count);
        for (kind, number) in kinds.iter().zip(0..) {
            let words = taken.get_mut(number * count..(number + 1) * count).unwrap_or_default();
            for ((word, free), flagged) in words.iter_mut().zip(&free).zip(&flagged) {
                let plain = if kind.carried == 0 { !flagged } else { 0 };
                *word = (*word | plain) & free;
            }
            let half =
                |other: u64| words.iter().zip(&*first_half).map(move |(word, first)| word & (first ^ other));
            self.longest.push([longest_run(half(0)), longest_run(half(!0))]);
        }
    }
}

/// Whether an eighth of the area's positions, or more, are seats of a bucket.
fn is_large_part(show: &Show, bucket: &Bucket) -> bool {
    bucket.counts.all() >= positions_of(show, bucket.area) / 8
}

/// The positions of an area.
fn positions_of(show: &Show, area: Area) -> Seat {
    let rows = &show.venue.area(area).rows;
    rows.clone().last().map_or(0, |last| {
        show.venue.base(last) + Seat::from(show.venue.layout(last).len) - show.venue.base(rows.start)
    })
}

/// Sets, for each kind, the bits of the row's flagged seats that are of this kind. Returns all flagged seats.
fn put_flagged(layout: &Layout, kinds: &[Kind], taken: &mut [u64], count: usize) -> Words {
    let Some((all, parts)) = kinds.split_first() else {
        invariant!("a request that reads whole areas has a kind of seats");
        return Words::new();
    };
    let flagged = (0..count).map(|word| {
        // What most seats change is kept in registers.
        let (mut flagged, mut of_all, mut of_first) = (0, 0, 0);
        for &(position, flags) in layout.flagged(word).seats() {
            let bit = 1 << (position % 64);
            flagged |= bit;
            if !all.takes(flags) {
                continue;
            }
            of_all |= bit;
            match parts.iter().position(|kind| kind.takes(flags)) {
                None => {}
                Some(0) => of_first |= bit,
                Some(part) => {
                    if let Some(taken) = taken.get_mut((1 + part) * count + word) {
                        *taken |= bit;
                    }
                }
            }
        }
        for (kind, of_kind) in [of_all, of_first].into_iter().enumerate() {
            if let Some(taken) = taken.get_mut(kind * count + word) {
                *taken |= of_kind;
            }
        }
        flagged
    });
    flagged.collect()
}

/// The length of the longest run; 127 if it is longer.
fn longest_run(seats: impl Iterator<Item = u64> + Clone) -> u8 {
    let mut words = seats.clone();
    if let (Some(mut word), None) = (words.next(), words.next()) {
        // Most rows have one word. Each step makes all runs shorter by one.
        let mut longest = 0;
        while word != 0 {
            word &= word << 1;
            longest += 1;
        }
        return longest;
    }
    let (mut some, mut pairs, mut last) = (0, 0, 0);
    for word in seats.clone() {
        some |= word;
        pairs |= word & (word << 1 | last);
        last = word >> 63;
    }
    match (some, pairs) {
        (0, _) => 0,
        (_, 0) => 1,
        _ => Runs::of(&seats.collect::<Bits>()).longest.min(127) as u8,
    }
}
