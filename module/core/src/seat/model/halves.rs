//! The tiers of a row by position, and the row as two halves, in which seats side by side have one tier.

use super::bits::Bits;
use super::sparse::Sparse;
use super::venue::{Layout, NO_SLOT, Tier};
use smallvec::SmallVec;

impl Layout {
    /// The seats of the row. Appends those of its first half to `halves`: successive groups of seats of one tier belong to
    /// the first and the second half by turns. The second half is the remaining seats. O(positions).
    pub fn seats_and_first_half(&self, halves: &mut Vec<u64>) -> SmallVec<[u64; 64]> {
        let len = usize::from(self.len);
        if let [(_, only)] = &*self.tiers {
            let seats = only.kept.dense(&only.words, len);
            halves.extend_from_slice(&seats);
            return seats.into_iter().collect();
        }
        let few = if self.slots.is_empty() { Self::slots_of(len, &self.tiers) } else { Box::default() };
        let slots = if self.slots.is_empty() { &few } else { &self.slots };
        // The tier at the end of the words so far, and their half.
        let (mut last, mut half) = (NO_SLOT, 0_u64);
        let words = slots.chunks(64).map(|slots| {
            let (mut seats, mut changes) = (0, 0_u64);
            for (bit, &slot) in slots.iter().enumerate() {
                seats |= u64::from(slot != NO_SLOT) << bit;
                changes |= u64::from(slot != last) << bit;
                last = slot;
            }
            // Whether the number of changes up to each position is odd.
            let odd = [1, 2, 4, 8, 16, 32].into_iter().fold(changes, |odd, by| odd ^ odd << by) ^ half;
            half = if odd >> 63 == 1 { !0 } else { 0 };
            halves.push(odd & seats);
            seats
        });
        words.collect()
    }

    /// The seats of one tier as bits of the row. O(tiers + words).
    pub fn seats_of_tier(&self, tier: Tier) -> Bits {
        let none = Sparse::default();
        let seats = self.tiers.iter().find(|(other, _)| *other == tier).map_or(&none, |(_, seats)| seats);
        seats.kept.dense(&seats.words, usize::from(self.len))
    }

    /// The slot of each of `len` positions in `tiers`, `NO_SLOT` for a break.
    pub(super) fn slots_of(len: usize, tiers: &[(Tier, Sparse)]) -> Box<[u16]> {
        let mut slots = vec![NO_SLOT; len];
        for (slot, (_, seats)) in tiers.iter().enumerate() {
            for position in seats.ones() {
                if let Some(entry) = slots.get_mut(position) {
                    *entry = slot as u16;
                }
            }
        }
        slots.into()
    }
}

#[cfg(test)]
mod tests {
    use super::super::labels::Labels;
    use super::*;
    use crate::seat::bits::is_set;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn seats_side_by_side_are_in_one_half_if_they_have_one_tier(
            row in prop::collection::vec(prop::option::weighted(0.9, 0u16..12), 1..300), tiers in 1u16..12,
        ) {
            let row: Vec<Option<Tier>> = row.into_iter().map(|tier| tier.map(|tier| tier % tiers)).collect();
            let seats_of = |tier: Tier| {
                let mut seats = Sparse::default();
                (0..row.len()).filter(|&at| row[at] == Some(tier)).for_each(|at| seats.push(at));
                (tier, seats)
            };
            let of_tiers: Vec<_> = (0..tiers).map(seats_of).filter(|(_, seats)| seats.count() > 0).collect();
            let layout = Layout::new(row.len() as u16, of_tiers, Vec::new(), Labels::default());
            for tier in 0..12 {
                let of_tier = layout.seats_of_tier(tier);
                prop_assert!((0..row.len()).all(|at| is_set(&of_tier, at) == (row[at] == Some(tier))));
                prop_assert_eq!(of_tier.len(), row.len().div_ceil(64));
            }
            let mut halves = vec![7];
            let seats = layout.seats_and_first_half(&mut halves);
            prop_assert_eq!(halves.remove(0), 7);
            for at in 0..row.len() {
                prop_assert_eq!(is_set(&seats, at), row[at].is_some());
                let is_first = |at: usize| is_set(&halves, at);
                prop_assert!(row[at].is_some() || !is_first(at));
                if at > 0 && row[at].is_some() && row[at - 1].is_some() {
                    prop_assert_eq!(is_first(at) == is_first(at - 1), row[at] == row[at - 1], "{}", at);
                }
            }
        }
    }
}
