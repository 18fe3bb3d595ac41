//! Best seating with preferences: a run between seats that are taken in other shows, or with seats of a flag, comes first.

use super::rows::Order;
use super::search::Search;
use crate::seat::bits;
use crate::seat::plan::Rule;
use crate::seat::venue::Row;
use std::cmp::Reverse;

/// How good a run is: how many of its seats are taken beside, how many preferred flags they have, and its place in the order
/// of the area.
type Worth = (Reverse<(usize, usize)>, Order);

/// The seats of a row with preferred flags.
pub(super) struct Preferred {
    /// How many flags the seats before each position have; empty if no seat has one.
    before: Vec<usize>,
}

impl Preferred {
    /// How many preferred flags `n` seats from a position on have.
    pub(super) fn count(&self, start: usize, n: usize) -> usize {
        match (self.before.get(start), self.before.get(start + n)) {
            (Some(before), Some(with)) => with - before,
            _ => 0,
        }
    }
}

impl Search<'_> {
    /// The row and the first position of the best run of an area; if `clean`, of those that strand no seat. The best has
    /// the most seats that are taken in the shows beside; of equal ones, the most preferred flags; of equal ones, it is the
    /// best by row and rule. O(rows of the area, in all these shows).
    pub(super) fn preferred_run(&self, area: &[u32], clean: bool) -> Option<(Row, usize)> {
        let (n, venue) = (self.count, &self.rows.show.venue);
        let beside = self.also.filter(|also| also.has_beside());
        let all_flags = n * self.wish.preferred.count_ones() as usize;
        let mut best: Option<(Worth, usize)> = None;
        for &group in area {
            let mut from = 0;
            while let Some(place) = self.next_place(group, from, clean) {
                from = place + 1;
                let row = self.rows.row(group, place);
                let preferred = self.preferred_in(row);
                if beside.is_none() && preferred.before.is_empty() {
                    continue;
                }
                let seats = self.rows.seats(group, place).takeable;
                let taken = beside.map_or_else(Vec::new, |also| also.taken_beside(venue, row, &seats));
                let starts = self.starts_at(group, place, clean);
                let found = bits::ones(&starts).map(|start| {
                    let most = taken.iter().map(|taken| bits::count_in(taken, start..start + n)).sum();
                    let order = self.rows.order(row, start, n);
                    ((Reverse((most, preferred.count(start, n))), order), start)
                });
                let found = found.min();
                let has_all = matches!(found, Some(((Reverse((_, flags)), _), _)) if flags == all_flags);
                best = best.into_iter().chain(found).min();
                if beside.is_none() && has_all && self.rows.shape(row).1 != Rule::Focus {
                    break;
                }
            }
        }
        match best {
            Some(((Reverse((taken, flags)), (_, row, _)), start)) if taken + flags > 0 => Some((row, start)),
            _ => self.run_in(area, clean),
        }
    }

    /// The seats of a row with preferred flags. O(flagged seats of the row), and O(positions) if there are any.
    pub(super) fn preferred_in(&self, row: Row) -> Preferred {
        let layout = self.rows.show.venue.layout(row);
        let wanted = |&&(_, flags): &&(u16, u64)| flags & self.wish.preferred != 0;
        let mut flagged = layout.flags.iter().filter(wanted).peekable();
        let mut before = Vec::new();
        if self.wish.preferred != 0 && flagged.peek().is_some() {
            before.push(0);
            before.extend((0..layout.len).scan(0, |sum, position| {
                if let Some((_, flags)) = flagged.next_if(|&&(at, _)| at == position) {
                    *sum += (flags & self.wish.preferred).count_ones() as usize;
                }
                Some(*sum)
            }));
        }
        Preferred { before }
    }
}
