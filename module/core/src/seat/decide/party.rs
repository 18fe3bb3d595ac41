//! Best seating of a party with needs: so many of its seats have a flag, and the others have none.
//!
//! The seats of each need, and those for everybody else, are kinds of their own, which have no seat in common.

use super::search::Search;
use super::wish::{Need, StripSeats, Wish};
use crate::seat::bits::{self, Bits};
use crate::seat::choice::Kind;
use crate::seat::claims::Seats;
use crate::seat::request::Orphans;
use crate::seat::venue::Row;

impl Wish {
    /// How many seats of each kind the party takes: first those without a needed flag.
    pub(super) fn parts(&self) -> Vec<(usize, Kind)> {
        let needed: usize = self.needs.iter().map(|need| need.count as usize).sum();
        let counts = std::iter::once(self.count.saturating_sub(needed));
        let counts = counts.chain(self.needs.iter().map(|need| need.count as usize));
        counts.zip(Kind::of_party(self.flags, self.needs.iter().map(|need| need.flag.0))).collect()
    }
}

impl Search<'_> {
    pub(super) fn has_enough_of_each_kind(&self, buckets: &[u32]) -> bool {
        self.parts.iter().all(|(count, part)| part.free_of(buckets, *count) >= *count)
    }

    /// The seats of each kind in as few groups as possible, all in one area.
    pub(super) fn scattered_in(&self, area: &[u32]) -> Seats {
        self.of_each_kind(|part, count| part.fewest_groups(area, count))
    }

    /// The same, over several areas.
    pub(super) fn scattered_over(&self, candidates: &[u32]) -> Seats {
        self.of_each_kind(|part, count| part.over_areas(candidates, count))
    }

    /// The first seats of each kind.
    pub(super) fn first_seats(&self, candidates: &[u32]) -> Seats {
        self.of_each_kind(|part, count| part.in_seat_order(candidates, count))
    }

    /// The seats that a search finds for each kind; for a request without needs there is one kind.
    fn of_each_kind(&self, seats: impl Fn(&Self, usize) -> Seats) -> Seats {
        if self.parts.is_empty() {
            return seats(self, self.wish.count);
        }
        let wanted = self.parts.iter().filter(|(count, _)| *count > 0);
        wanted.flat_map(|(count, part)| seats(part, *count)).collect()
    }

    /// The best run of an area in which the party fits.
    pub(super) fn best_run_of_party(&self, area: &[u32]) -> Option<Seats> {
        let clean: &[bool] = match self.wish.orphans {
            Orphans::Avoid => &[true, false],
            Orphans::Allow => &[false],
            Orphans::Forbid => &[true],
        };
        let (row, start) = clean.iter().find_map(|&clean| self.run_of_party(area, clean))?;
        Some(self.window(row, start, self.wish.count))
    }

    /// The row and the first position of the best run of an area in which the party fits; if `clean`, one that strands no
    /// seat. O(log rows) for each row that has both a long enough run and a seat of every kind.
    pub(super) fn run_of_party(&self, area: &[u32], clean: bool) -> Option<(Row, usize)> {
        let n = self.wish.count;
        let mut best: Option<(Row, usize)> = None;
        for &bucket in area {
            let mut from = 0;
            while let Some(strip) = self.strip_with_all_kinds(bucket, from) {
                from = strip + 1;
                let row = self.row(bucket, strip);
                if best.is_some_and(|(best, _)| best < row) {
                    break;
                }
                let (len, rule) = self.shape(row);
                let starts = self.windows_of_party(bucket, strip, clean);
                let Some(start) = bits::best_window(&starts, n, len, rule) else { continue };
                let better =
                    |(other, at): (Row, usize)| row < other || bits::is_better(start, at, n, len, rule);
                if best.is_none_or(better) {
                    best = Some((row, start));
                }
                break;
            }
        }
        best
    }

    /// The first strip of a bucket from `from` on that has a run for the whole party, and a seat of every kind.
    fn strip_with_all_kinds(&self, bucket: u32, mut from: u32) -> Option<u32> {
        loop {
            let long = self.first(bucket, from, Need::Run(self.wish.count))?;
            let mut wanted = self.parts.iter().filter(|(count, _)| *count > 0);
            let strip = wanted.try_fold(long, |from, (_, part)| part.first(bucket, from, Need::Run(1)))?;
            if strip == long {
                return Some(strip);
            }
            from = strip;
        }
    }

    /// Starts of the runs of a strip that have as many seats of each kind as the party needs.
    fn windows_of_party(&self, bucket: u32, strip: u32, clean: bool) -> Bits {
        let n = self.wish.count;
        let parts: Vec<(usize, StripSeats)> =
            self.parts.iter().map(|(count, part)| (*count, part.seats(bucket, strip))).collect();
        windows_of_kinds(&parts, n, clean)
    }
}

/// Starts of the runs of `n` seats that have as many seats of each kind as these parts; if `clean`, of those that strand
/// no seat.
pub(super) fn windows_of_kinds(parts: &[(usize, StripSeats)], n: usize, clean: bool) -> Bits {
    if let [(_, only)] = parts {
        return only.windows(n, clean);
    }
    // A seat with two needed flags is of no kind, so it is not in the union.
    let mut all = StripSeats { takeable: Bits::new(), free: Bits::new() };
    for (_, seats) in parts {
        unite(&mut all.takeable, &seats.takeable);
        unite(&mut all.free, &seats.free);
    }
    let mut starts = all.windows(n, clean);
    for start in bits::ones(&starts.clone()) {
        // The last parts have the fewest seats.
        let mut parts = parts.iter().rev();
        let fits = parts.all(|(count, seats)| bits::count_in(&seats.takeable, start..start + n) == *count);
        if !fits {
            bits::put(&mut starts, start, false);
        }
    }
    starts
}

fn unite(all: &mut Bits, more: &Bits) {
    all.resize(all.len().max(more.len()), 0);
    all.iter_mut().zip(more).for_each(|(all, more)| *all |= more);
}
