//! Instructions by price.

use super::tariff::Amount;
use crate::invariant;

/// Instructions by price, in ascending order of the price, without prices that have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::account) struct Rooms(Vec<(Amount, i128)>);

impl Rooms {
    /// Adds other instructions (`sign` 1), or removes them (`sign` -1).
    pub(in crate::account) fn add(&mut self, other: &Self, sign: i128) {
        other.0.iter().for_each(|&(price, room)| self.add_room(price, sign * room));
    }

    /// Adds instructions of a price, or removes as many as are there if `room` is negative. O(log prices), or O(prices) for a price
    /// that comes or goes.
    pub(in crate::account) fn add_room(&mut self, price: Amount, room: i128) {
        match self.0.binary_search_by_key(&price, |&(price, _)| price) {
            Ok(place) => {
                let Some(level) = self.0.get_mut(place) else {
                    invariant!("a search finds places in the list");
                    return;
                };
                level.1 += room;
                invariant!(level.1 >= 0, "only instructions that are there are removed");
                if level.1 == 0 {
                    self.0.remove(place);
                }
            }
            Err(_) if room == 0 => {}
            Err(place) => {
                invariant!(room > 0, "only instructions that are there are removed");
                self.0.insert(place, (price, room));
            }
        }
    }

    /// Whether there are no instructions at any price.
    pub(in crate::account) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Instructions without others, at each price; not less than none. O(prices).
    pub(super) fn without(&self, others: &Self) -> Self {
        let mut others = others.0.iter().peekable();
        let rest = |&(price, room): &(Amount, i128)| {
            while others.next_if(|other| other.0 < price).is_some() {}
            let other = others.next_if(|other| other.0 == price).map_or(0, |other| other.1);
            Some((price, room - other)).filter(|&(_, room)| room > 0)
        };
        Self(self.0.iter().filter_map(rest).collect())
    }

    /// Bytes allocated.
    pub(super) fn allocated(&self) -> usize {
        self.0.capacity() * size_of::<(Amount, i128)>()
    }

    /// Removes all instructions.
    pub(in crate::account) fn clear(&mut self) {
        self.0.clear();
    }

    /// The cost of so many instructions, the cheapest first. Instructions beyond all rooms cannot be sent, and cost
    /// nothing.
    pub(in crate::account) fn cost(&self, mut count: i128) -> i128 {
        let mut cost = 0i128;
        for &(price, room) in &self.0 {
            let here = count.min(room);
            cost = cost.saturating_add(here.saturating_mul(price.0));
            count -= here;
        }
        cost
    }
}

impl FromIterator<(Amount, i128)> for Rooms {
    /// Sums up instructions of prices in any order. O(n log n).
    fn from_iter<I: IntoIterator<Item = (Amount, i128)>>(all: I) -> Self {
        let mut all: Vec<(Amount, i128)> = all.into_iter().collect();
        all.sort_unstable_by_key(|&(price, _)| price);
        all.dedup_by(|next, sum| {
            let is_same = next.0 == sum.0;
            if is_same {
                sum.1 += next.1;
            }
            is_same
        });
        all.retain(|&(_, room)| room != 0);
        Self(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rooms(all: &[(i128, i128)]) -> Rooms {
        all.iter().map(|&(price, room)| (Amount(price), room)).collect()
    }

    #[test]
    fn prices_are_summed_up_and_those_without_instructions_are_left_out() {
        let mut all = rooms(&[(5, 1), (2, 3), (5, 4), (7, 0), (9, 2), (9, -2)]);
        assert_eq!(all.0, [(Amount(2), 3), (Amount(5), 5)]);
        all.add_room(Amount(3), 0);
        all.add_room(Amount(2), -3);
        all.add_room(Amount(4), 6);
        assert_eq!(all, rooms(&[(4, 6), (5, 5)]));
    }

    #[test]
    fn no_price_has_less_than_nothing_left() {
        let all = rooms(&[(1, 4), (3, 5), (5, 6)]);
        assert_eq!(all.without(&rooms(&[(0, 9), (1, 4), (2, 9), (3, 2), (5, 8), (6, 1)])), rooms(&[(3, 3)]));
        assert_eq!(all.without(&Rooms::default()), all);
    }
}
