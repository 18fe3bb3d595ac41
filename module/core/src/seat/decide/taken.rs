//! Best seating among seats that are taken in other shows: a run between seats that are taken there is preferred.

use super::also::Also;
use super::rows::Order;
use super::search::Search;
use crate::seat::bits;
use crate::seat::venue::Row;
use std::cmp::Reverse;

impl Search<'_> {
    /// The row and the first position of the best run of an area; if `clean`, of those that strand no seat. The best has
    /// the most seats that are taken in the shows beside; of equal ones, it is the best by row and rule. O(rows of the
    /// area, in all these shows).
    pub(super) fn run_among_taken(&self, area: &[u32], clean: bool, also: &Also<'_>) -> Option<(Row, usize)> {
        let (n, venue) = (self.count, &self.rows.show.venue);
        // How many are taken there, the place in the order of the area, and the first position.
        let mut best: Option<(Reverse<usize>, Order, usize)> = None;
        for &group in area {
            let mut from = 0;
            while let Some(place) = self.next_place(group, from, clean) {
                from = place + 1;
                let row = self.rows.row(group, place);
                let seats = self.rows.seats(group, place).takeable;
                let taken = also.taken_beside(venue, row, &seats);
                let starts = self.starts_at(group, place, clean);
                let found = bits::ones(&starts).map(|start| {
                    let most = taken.iter().map(|taken| bits::count_in(taken, start..start + n)).sum();
                    (Reverse(most), self.rows.order(row, start, n), start)
                });
                best = best.into_iter().chain(found.min()).min();
            }
        }
        best.map(|(_, (_, row, _), start)| (row, start))
    }
}
