//! Best seating among seats that are taken in other shows: a run between seats that are taken there is preferred.

use super::also::Also;
use super::rows::RunNeed;
use super::search::Search;
use crate::seat::bits::{self, Bits};
use crate::seat::venue::Row;

impl Search<'_> {
    /// The row and the first position of the best run of an area; if `clean`, of those that strand no seat. The best has
    /// the most seats that are taken in the shows beside; of equal ones, it is the best by row and rule. O(rows of the
    /// area, in all these shows).
    pub(super) fn run_among_taken(&self, area: &[u32], clean: bool, also: &Also<'_>) -> Option<(Row, usize)> {
        let (n, venue) = (self.count, &self.rows.show.venue);
        let mut best: Option<(usize, Row, usize)> = None;
        for &group in area {
            let mut from = 0;
            while let Some((place, starts)) = self.next_runs(group, from, clean) {
                from = place + 1;
                let row = self.rows.row(group, place);
                let (len, rule) = self.rows.shape(row);
                let seats = self.rows.seats(group, place).takeable;
                let taken = also.taken_beside(venue, row, &seats);
                for start in bits::ones(&starts) {
                    let most = taken.iter().map(|taken| bits::count_in(taken, start..start + n)).sum();
                    let is_better = best.is_none_or(|(before, other, at)| {
                        let is_before =
                            || row < other || row == other && bits::is_better(start, at, n, len, rule);
                        most > before || most == before && is_before()
                    });
                    if is_better {
                        best = Some((most, row, start));
                    }
                }
            }
        }
        best.map(|(_, row, start)| (row, start))
    }

    /// The first place of a group from `from` on that has a run for the request, and the starts of its runs.
    fn next_runs(&self, group: u32, mut from: u32, clean: bool) -> Option<(u32, Bits)> {
        loop {
            let (place, starts) = if self.parts.is_empty() {
                let need = if clean { RunNeed::Clean(self.count) } else { RunNeed::Run(self.count) };
                let place = self.rows.first(group, from, need)?;
                (place, self.rows.seats(group, place).windows(self.count, clean))
            } else {
                let place = self.place_with_all_kinds(group, from)?;
                (place, self.windows_of_party(group, place, clean))
            };
            if bits::count(&starts) > 0 {
                return Some((place, starts));
            }
            from = place + 1;
        }
    }
}
