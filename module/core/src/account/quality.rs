//! The least cost of a month in hindsight, for simulations and reports. No decision uses it.

use super::model::tariff::{Amount, Tariff};

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
    fn the_least_cost_uses_what_is_flat_first_and_then_what_is_cheapest() {
        let tariff =
            |quota, price| Tariff { quota, steps: vec![Step { upto: quota + 10, price: Amount(price) }] };
        let two = [tariff(100, 3), tariff(50, 2)];
        assert_eq!(least_cost(two.iter(), 150), Amount(0));
        assert_eq!(least_cost(two.iter(), 160), Amount(20));
    }
}
