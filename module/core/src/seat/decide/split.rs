//! How a party splits that cannot sit together: the free runs, and the groups that lie in them.

use super::frame::Span;
use super::rows::{Rows, RunNeed};
use crate::seat::bits;
use crate::seat::claims::Seats;
use crate::seat::index::LONG;
use crate::seat::places::POSITION;
use crate::seat::venue::Row;
use crate::shared::invariant::Expected;
use std::cmp::Reverse;

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
    pub(super) fn shortest_run(&self, missing: usize) -> usize {
        let others = self.longest.len().saturating_sub(1);
        let rest: usize = self.longest.iter().take(others).sum();
        missing.saturating_sub(rest).max(self.least)
    }

    /// The most seats that the next group can have, if `missing` seats are missing.
    pub(super) fn largest_group(&self, missing: usize) -> usize {
        missing.saturating_sub(self.longest.len().saturating_sub(1) * self.least)
    }

    /// A run of this length has its group: the others lie in the longest of the other runs.
    pub(super) fn take(&mut self, len: usize) {
        let at = self.longest.iter().position(|&other| other == len);
        if let Some(at) = at.or(self.longest.len().checked_sub(1)).expected("another group is to be seated") {
            self.longest.remove(at);
        }
    }
}

/// A group of a party. Groups compare by their rows, the larger group first, then by the distance from the focus, which is 0
/// but with the rule `focus`, and by the order rule.
pub(super) type Group = (Row, Reverse<usize>, (u64, (usize, usize)), usize);

/// A free run: a place for a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) row: Row,
    pub(super) start: usize,
    pub(super) len: usize,
    pub(super) span: Span,
}

impl Run {
    pub(super) fn right(&self) -> i64 {
        self.span.left + self.len as i64 * POSITION
    }

    /// The part of the run between two lines across the area.
    pub(super) fn between(&self, left: i64, right: i64) -> Self {
        let skipped = ((left - self.span.left).max(0) + POSITION - 1) / POSITION;
        let begin = self.span.left + skipped * POSITION;
        let len = ((right.min(self.right()) - begin).max(0) / POSITION) as usize;
        let before = if self.span.reversed {
            self.len.saturating_sub(len + skipped as usize)
        } else {
            skipped as usize
        };
        Self { start: self.start + before, len, span: Span { left: begin, ..self.span }, ..*self }
    }
}

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

    /// The runs of at least `least` seats at these places of a row.
    pub(super) fn runs_of(&self, row: Row, places: &[(u32, u32)], least: usize) -> Vec<Run> {
        let line = self.line(row);
        let mut runs = Vec::new();
        for &(group, place) in places {
            let seats = self.seats(group, place);
            let long = bits::runs(&seats.takeable).filter(|&(_, len)| len >= least);
            let run = |(start, len)| Run { row, start, len, span: line.span(start, len) };
            runs.extend(long.map(run));
        }
        runs
    }

    /// The best `size` seats of a run as a group.
    pub(super) fn best_part(&self, run: &Run, size: usize) -> Group {
        let starts = run.start..=run.start + run.len.saturating_sub(size);
        let best = starts.map(|start| self.group_at(run.row, start, size)).min();
        best.unwrap_or_else(|| self.group_at(run.row, run.start, size))
    }

    /// The `size` seats of a row from a position on as a group.
    pub(super) fn group_at(&self, row: Row, start: usize, size: usize) -> Group {
        let (distance, row, place) = self.order(row, start, size);
        (row, Reverse(size), (distance, place), start)
    }

    pub(super) fn seats_of_group(&self, (row, Reverse(size), _, start): Group) -> Seats {
        self.window(row, start, size)
    }
}
