//! Best seating of a party with needs: so many of its seats have a flag, and the others have none.
//!
//! The seats of each need, and those for everybody else, are kinds of their own, which have no seat in common.

use super::rows::{RunNeed, StripView};
use super::search::Search;
use crate::seat::bits::{self, Bits};

impl Search<'_> {
    /// The first place of a group from `from` on that has a run for the whole party, and a seat of every kind.
    pub(super) fn place_with_all_kinds(&self, group: u32, mut from: u32) -> Option<u32> {
        loop {
            let long = self.rows.first(group, from, RunNeed::Run(self.count))?;
            let mut wanted = self.parts.iter().filter(|(count, _)| *count > 0);
            let place = wanted.try_fold(long, |from, (_, part)| part.first(group, from, RunNeed::Run(1)))?;
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
        let parts = self.parts.iter().map(|(count, part)| (*count, part.seats(group, place)));
        let parts: Vec<(usize, StripView)> = parts.collect();
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
            let fits =
                parts.all(|(count, seats)| bits::count_in(&seats.takeable, start..start + n) == *count);
            if !fits {
                bits::put(&mut starts, start, false);
            }
        }
        starts
    }
}
