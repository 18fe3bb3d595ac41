//! Best seating of a party with needs: so many of its seats have a flag.
//!
//! The seats of each need, and those for everybody else, are kinds of their own, which have no seat in common.

use super::rows::{Rows, RunNeed, StripView};
use super::search::Search;
use crate::seat::bits::{self, Bits};
use crate::seat::wish::Part;

impl<'a> Search<'a> {
    /// How many seats of each kind the request takes in these groups, and the rows with these; a request without needs has
    /// one kind. Seats without a needed flag come first, then those of the needs in their order.
    pub(super) fn kinds(&self, groups: &[u32]) -> Vec<(usize, &Rows<'a>)> {
        if self.parts.is_empty() {
            return vec![(self.count, &self.rows)];
        }
        let least: usize = self.parts.iter().map(|(part, _)| part.least).sum();
        let mut more = self.count.saturating_sub(least);
        let parts = self.parts.iter().map(|(part, rows)| {
            let free = rows.free_of(groups, part.most);
            let taken = more.min(free.saturating_sub(part.least));
            more -= taken;
            (part.least + taken, rows)
        });
        parts.filter(|(count, _)| *count > 0).collect()
    }

    /// How many seats that the request may take must become free in these groups, at least, before there are enough of each
    /// kind; 0 if there are.
    pub(super) fn missing(&self, groups: &[u32]) -> usize {
        if self.parts.is_empty() {
            return self.count - self.rows.free_of(groups, self.count).min(self.count);
        }
        let (mut of_kind, mut all) = (0, self.count);
        for (part, rows) in &self.parts {
            let free = rows.free_of(groups, part.most).min(part.most);
            of_kind = of_kind.max(part.least.saturating_sub(free));
            all -= free.min(all);
        }
        of_kind.max(all)
    }

    /// The first place of a group from `from` on that has a run for the whole party, and a seat of every kind.
    pub(super) fn place_with_all_kinds(&self, group: u32, mut from: u32) -> Option<u32> {
        loop {
            let long = self.rows.first(group, from, RunNeed::Run(self.count))?;
            let mut wanted = self.parts.iter().filter(|(part, _)| part.least > 0);
            let place = wanted.try_fold(long, |from, (_, rows)| rows.first(group, from, RunNeed::Run(1)))?;
            if place == long {
                return Some(place);
            }
            from = place;
        }
    }

    /// Starts of the runs at a place of a group that have as many seats of each kind as the party needs; if `clean`, of
    /// those that strand no seat.
    pub(super) fn windows_of_party(&self, group: u32, place: u32, clean: bool) -> Bits {
        let n = self.count;
        let parts = self.parts.iter().map(|(part, rows)| (part, rows.seats(group, place)));
        let parts: Vec<(&Part, StripView)> = parts.collect();
        // A seat with two needed flags is of no kind, so it is not in the union.
        let mut union = StripView::default();
        for (_, seats) in &parts {
            bits::unite(&mut union.takeable, &seats.takeable);
            bits::unite(&mut union.free, &seats.free);
        }
        let mut starts = union.windows(n, clean);
        for start in bits::ones(&starts.clone()) {
            // The last parts have the fewest seats.
            let mut parts = parts.iter().rev();
            let fits = parts.all(|(part, seats)| {
                (part.least..=part.most).contains(&bits::count_in(&seats.takeable, start..start + n))
            });
            if !fits {
                bits::put(&mut starts, start, false);
            }
        }
        starts
    }
}
