//! Seats in the order of areas and rows: the groups of a party that splits, and the first free seats.

use super::rows::{Rows, RunNeed};
use super::split::Split;
use crate::seat::bits::{self, Bits};
use crate::seat::claims::Seats;
use crate::seat::index::LONG;
use crate::seat::plan::Rule;
use crate::seat::venue::Seat;
use crate::shared::invariant::Expected;

impl Rows<'_> {
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
                    Rule::Focus => {
                        let mut order: Vec<usize> = bits::ones(&free).collect();
                        order.sort_by_key(|&position| self.order(row, position, 1));
                        order
                    }
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
