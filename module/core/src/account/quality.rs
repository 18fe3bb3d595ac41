//! Measures assignments: imbalance, the least number of moves, and the least cost in hindsight. These figures are for
//! tests, simulations and reports; no decision uses them.

use super::model::tariff::{Amount, Tariff};

/// The difference between the largest and the smallest share; 0 or 1 is even.
pub fn imbalance(shares: &[usize]) -> usize {
    let largest = shares.iter().max().copied().unwrap_or(0);
    largest - shares.iter().min().copied().unwrap_or(0)
}

/// The fewest moves that make shares even to within one, if the largest shares stay the larger ones. O(n log n).
pub fn least_moves(shares: &[usize]) -> usize {
    let total: usize = shares.iter().sum();
    let Some(even) = total.checked_div(shares.len()) else { return 0 };
    let larger = total - even * shares.len();
    let mut sorted = shares.to_vec();
    sorted.sort_unstable_by(|account, other| other.cmp(account));
    sorted
        .iter()
        .enumerate()
        .map(|(place, &share)| share.saturating_sub(even + usize::from(place < larger)))
        .sum()
}

/// The least cost of so many instructions with these accounts: first all flat prices, then the cheapest steps. Exact
/// if later steps of a tariff are not cheaper. O(steps log steps).
pub fn least_cost<'a>(tariffs: impl Iterator<Item = &'a Tariff>, instructions: u64) -> Amount {
    let (mut flat, mut steps) = (0u128, Vec::new());
    for tariff in tariffs {
        flat += u128::from(tariff.quota);
        let mut from = tariff.quota;
        for (place, step) in tariff.steps.iter().enumerate() {
            let last = place + 1 == tariff.steps.len();
            let room = if last { u128::MAX } else { u128::from(step.upto - from) };
            steps.push((step.price, room));
            from = step.upto;
        }
    }
    steps.sort_unstable();
    let mut left = u128::from(instructions).saturating_sub(flat);
    let mut cost = 0i128;
    for (price, room) in steps {
        let here = left.min(room);
        cost += i128::try_from(here).unwrap_or(i128::MAX).saturating_mul(price.0);
        left -= here;
    }
    Amount(cost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::tariff::Step;

    #[test]
    fn the_fewest_moves_are_what_lies_above_the_even_shares() {
        assert_eq!(least_moves(&[4, 4, 4, 0]), 3);
        assert_eq!(least_moves(&[5, 4, 4, 0]), 3);
        assert_eq!(least_moves(&[3, 2, 2]), 0);
        assert_eq!(least_moves(&[]), 0);
        assert_eq!((imbalance(&[5, 4, 7]), imbalance(&[])), (3, 0));
    }

    #[test]
    fn the_least_cost_uses_what_is_flat_first_and_then_what_is_cheapest() {
        let tariff =
            |quota, price| Tariff { quota, steps: vec![Step { upto: quota + 10, price: Amount(price) }] };
        let two = [tariff(100, 3), tariff(50, 2)];
        assert_eq!(least_cost(two.iter(), 150), Amount(0));
        assert_eq!(least_cost(two.iter(), 160), Amount(20));
    }
}
