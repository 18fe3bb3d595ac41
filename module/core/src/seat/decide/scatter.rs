//! Seats that are not all together: how a party splits, and the first seats in order.
//!
//! A party splits into the fewest groups. Among the ways to do so, the smallest group is as large as possible (docs/seats.md,
//! "Best seating, exactly"). `near` finds groups near each other.

use super::near::Run;
use super::rows::{Rows, RunNeed};
use crate::seat::bits::{self, Bits};
use crate::seat::claims::Seats;
use crate::seat::plan::Rule;
use crate::seat::venue::{Row, Seat};
use crate::shared::invariant::Expected;
use std::cmp::Reverse;

/// The index does not tell runs of this length from longer ones.
const LONG: usize = 127;

/// How a party splits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Split {
    /// How many seats the party wants.
    pub(super) count: usize,
    /// The lengths of the longest runs, descending: as few as seat the party.
    pub(super) longest: Vec<usize>,
    /// The size that the smallest group can have at most.
    pub(super) least: usize,
}

impl Split {
    fn of(count: usize, longest: Vec<usize>) -> Self {
        let shortest = longest.last().copied().unwrap_or(0);
        let least = shortest.min(count / longest.len().max(1));
        Self { count, longest, least }
    }

    /// The fewest seats of a run that can be the next group, if `missing` seats are missing and the other groups lie in
    /// the longest runs.
    fn shortest_run(&self, missing: usize) -> usize {
        let others = self.longest.len().saturating_sub(1);
        let rest: usize = self.longest.iter().take(others).sum();
        missing.saturating_sub(rest).max(self.least)
    }

    /// The most seats that the next group can have, if `missing` seats are missing.
    fn largest_group(&self, missing: usize) -> usize {
        missing.saturating_sub(self.longest.len().saturating_sub(1) * self.least)
    }

    /// A run of this length has its group: the others lie in the longest of the other runs.
    fn take(&mut self, len: usize) {
        let at = self.longest.iter().position(|&other| other == len);
        self.longest.remove(at.unwrap_or(self.longest.len() - 1));
    }
}

/// A group of a party. Groups compare by their rows, the larger group first, then by the order rule.
pub(super) type Group = (Row, Reverse<usize>, (usize, usize), usize);

impl Rows<'_> {
    /// How a party splits over these groups of rows; `None` if they have too few seats. O(log rows) for each group of the
    /// party, and O(groups of rows).
    pub(super) fn split(&self, groups: &[u32], count: usize) -> Option<Split> {
        let (mut longest, mut seated) = (Vec::new(), 0);
        let mut lengths: u128 = 0;
        let mut standing = Vec::new();
        for area in self.areas(groups) {
            if self.is_standing(area) {
                standing.push(self.free_of(area, count));
            } else {
                lengths = area.iter().fold(lengths, |union, &group| union | self.lengths(group));
            }
        }
        standing.sort_unstable();
        for len in (1..=LONG).rev() {
            let places = std::iter::from_fn(|| standing.pop_if(|places| *places >= len));
            let runs = (lengths >> len & 1 == 1).then(|| self.runs_of_length(groups, len));
            for run in places.chain(runs.into_iter().flatten()) {
                longest.push(run);
                seated += run;
                if seated >= count {
                    return Some(Split::of(count, longest));
                }
            }
        }
        None
    }

    /// The lengths of the runs of `len` seats outside of standing areas; if `len` is `LONG`, also of longer ones.
    fn runs_of_length<'b>(&'b self, groups: &'b [u32], len: usize) -> impl Iterator<Item = usize> + 'b {
        let need = if len == LONG { RunNeed::Run(len) } else { RunNeed::Exactly(len) };
        let areas = self.areas(groups).filter(|area| !self.is_standing(area));
        let rows = areas.flat_map(move |area| self.walk(area, need));
        let runs = rows.flat_map(move |(row, places)| self.runs_of(row, &places, len));
        runs.map(|run| run.len).filter(move |&found| found == len || len == LONG)
    }

    /// Step 9: the fewest groups, in the best areas and rows. O(log rows) for each group.
    pub(super) fn fewest_groups(&self, areas: &[u32], count: usize) -> Seats {
        let split = self.split(areas, count).expected("the areas have enough seats");
        split.map_or_else(Seats::new, |split| self.in_order(areas, split))
    }

    /// The groups of a party in the best areas and rows. O(log rows) for each group.
    pub(super) fn in_order(&self, candidates: &[u32], mut split: Split) -> Seats {
        let (mut missing, mut seats) = (split.count, Seats::new());
        for area in self.areas(candidates) {
            if self.is_standing(area) {
                let places = self.free_of(area, missing);
                if !split.longest.is_empty() && places > 0 && places >= split.shortest_run(missing) {
                    let size = places.min(split.largest_group(missing));
                    split.take(places);
                    missing -= size;
                    seats.extend(self.in_seat_order(area, size));
                }
                continue;
            }
            let mut before = None;
            while !split.longest.is_empty() {
                let need = RunNeed::Run(split.shortest_run(missing).min(LONG));
                let Some((row, places)) = self.walk(area, need).find(|&(row, _)| before < Some(row)) else {
                    break;
                };
                before = Some(row);
                let mut runs = self.runs_of(row, &places, split.least);
                while !split.longest.is_empty() {
                    let (shortest, largest) = (split.shortest_run(missing), split.largest_group(missing));
                    let suitable = runs.iter().enumerate().filter(|(_, run)| run.len >= shortest);
                    let groups = suitable.map(|(at, run)| (self.best_part(run, run.len.min(largest)), at));
                    let Some((group, at)) = groups.min() else { break };
                    split.take(runs.swap_remove(at).len);
                    let seats_of_group = self.seats_of_group(group);
                    missing -= seats_of_group.len();
                    seats.extend(seats_of_group);
                }
            }
        }
        seats
    }

    /// The runs of at least `least` seats at these places of a row.
    pub(super) fn runs_of(&self, row: Row, places: &[(u32, u32)], least: usize) -> Vec<Run> {
        let (rank, across) = (self.show.venue.rank(row), self.across(row));
        let mut runs = Vec::new();
        for &(group, place) in places {
            let seats = self.seats(group, place);
            let long = bits::runs(&seats.takeable).filter(|&(_, len)| len >= least);
            runs.extend(long.map(|(start, len)| Run::new(row, rank, across, start, len)));
        }
        runs
    }

    /// The best `size` seats of a run as a group.
    pub(super) fn best_part(&self, run: &Run, size: usize) -> Group {
        let (positions, rule) = self.shape(run.row);
        let key = |start: usize| match rule {
            Rule::Ltr => (start, 0),
            Rule::Rtl => (positions.saturating_sub(start), 0),
            Rule::Center => (bits::distance(start, size, positions), start),
        };
        let starts = run.start..=run.start + run.len.saturating_sub(size);
        let best = starts.map(|start| (key(start), start)).min();
        let (key, start) = best.unwrap_or((key(run.start), run.start));
        (run.row, Reverse(size), key, start)
    }

    pub(super) fn seats_of_group(&self, (row, Reverse(size), _, start): Group) -> Seats {
        self.window(row, start, size)
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
