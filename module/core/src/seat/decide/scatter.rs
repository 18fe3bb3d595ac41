//! Seats that are not all together: in as few groups as possible, or the first ones.

use super::rows::{Rows, RunNeed};
use crate::seat::bits::{self, Bits};
use crate::seat::claims::Seats;
use crate::seat::plan::Rule;
use crate::seat::venue::{Row, Seat};

/// The index does not tell runs of this length from longer ones.
const LONG: usize = 127;

impl Rows<'_> {
    /// Step 5, over several areas: all free seats of each, and in the last only the missing ones.
    pub(super) fn over_areas(&self, candidates: &[u32], count: usize) -> Seats {
        let mut seats = Seats::new();
        for area in self.areas(candidates) {
            let missing = count - seats.len();
            if missing == 0 {
                break;
            }
            let free = self.free_of(area, missing);
            seats.extend(self.fewest_groups(area, missing.min(free)));
        }
        seats
    }

    /// `count` seats of an area that has enough, in as few groups as possible: the longest runs first, and among
    /// equal runs the best by seat order.
    pub(super) fn fewest_groups(&self, area: &[u32], count: usize) -> Seats {
        if self.is_standing(area) {
            return self.in_seat_order(area, count);
        }
        let mut seats = Seats::new();
        let lengths = area.iter().fold(0, |union, &group| union | self.lengths(group));
        if lengths >> LONG & 1 == 1
            && let Some(seats) = self.part_of_longest_run(area, count)
        {
            return seats;
        }
        for len in (1..LONG).rev().filter(|len| lengths >> len & 1 == 1) {
            for (row, places) in self.walk(area, RunNeed::Exactly(len)) {
                for start in self.runs_of(row, &places, len) {
                    let missing = count - seats.len();
                    if missing == 0 {
                        return seats;
                    }
                    seats.extend(self.best_part(row, start, len, missing.min(len)));
                }
            }
        }
        seats
    }

    /// `size` seats of the longest run of an area, the first by seat order, if the run has `LONG` or more. No request asks
    /// for more. O(log rows) for each row with such a run.
    fn part_of_longest_run(&self, area: &[u32], size: usize) -> Option<Seats> {
        let mut longest: Option<(usize, Row, usize)> = None;
        for (row, places) in self.walk(area, RunNeed::Run(LONG)) {
            let (positions, rule) = self.shape(row);
            for (group, place) in places {
                for (start, len) in bits::runs(&self.seats(group, place).takeable) {
                    let is_first =
                        |other: Row, at| row == other && bits::is_better(start, at, len, positions, rule);
                    if longest
                        .is_none_or(|(most, other, at)| len > most || len == most && is_first(other, at))
                    {
                        longest = Some((len, row, start));
                    }
                }
            }
        }
        let (len, row, start) = longest.filter(|&(len, ..)| len >= size)?;
        Some(self.best_part(row, start, len, size))
    }

    /// The best `size` seats of a run of `len`.
    fn best_part(&self, row: Row, start: usize, len: usize, size: usize) -> Seats {
        let (positions, rule) = self.shape(row);
        let inside = (start..=start + len - size)
            .reduce(|best, at| if bits::is_better(at, best, size, positions, rule) { at } else { best });
        self.window(row, inside.unwrap_or(start), size)
    }

    /// Starts of the runs of exactly `len` seats at these places of a row, the best first.
    fn runs_of(&self, row: Row, places: &[(u32, u32)], len: usize) -> Vec<usize> {
        let (positions, rule) = self.shape(row);
        let mut runs = Vec::new();
        for &(group, place) in places {
            let seats = self.seats(group, place);
            runs.extend(bits::runs(&seats.takeable).filter(|run| run.1 == len).map(|run| run.0));
        }
        runs.sort_unstable_by(|&a, &b| match bits::is_better(a, b, len, positions, rule) {
            true => std::cmp::Ordering::Less,
            false if a == b => std::cmp::Ordering::Equal,
            false => std::cmp::Ordering::Greater,
        });
        runs
    }

    /// Step 3, IGNORE: the first free seats, areas in priority order.
    pub(super) fn in_seat_order(&self, candidates: &[u32], count: usize) -> Seats {
        let mut seats = Seats::new();
        for area in self.areas(candidates) {
            if seats.len() == count {
                break;
            }
            for (row, places) in self.walk(area, RunNeed::Run(1)) {
                let mut free = Bits::new();
                for (group, place) in places {
                    bits::unite(&mut free, &self.seats(group, place).takeable);
                }
                let ((positions, rule), base) = (self.shape(row), self.show.venue.base(row));
                let missing = count - seats.len();
                let order = match rule {
                    Rule::Ltr => bits::ones(&free).take(missing).collect(),
                    Rule::Rtl | Rule::Center => bits::in_order(&free, positions, rule),
                };
                seats.extend(order.into_iter().take(missing).map(|position| base + position as Seat));
                if seats.len() == count {
                    break;
                }
            }
        }
        seats
    }
}
