//! Chooses the unit for each partition: rendezvous hashing with bounded load. Each partition prefers the units in an
//! order of its own, which does not depend on other partitions or units. A partition goes to the first unit in its
//! order that has room.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The most load of a unit, relative to its share.
const BOUND: f64 = 1.25;

/// A unit with its weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bin {
    /// The unit's name.
    pub name: String,
    /// The unit's share relative to other units, at least 1.
    pub weight: u32,
}

/// The preference of a key for a unit; the highest value wins.
fn preference(bin: &Bin, key: &str) -> f64 {
    let seed = xxh3_64_with_seed(bin.name.as_bytes(), 0);
    let bits = xxh3_64_with_seed(key.as_bytes(), seed);
    // A uniform value in (0, 1). The weight decides how often the unit wins.
    let even = ((bits >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    -f64::from(bin.weight.max(1)) / even.ln()
}

/// The unit that a key prefers; `None` if there are no units.
pub fn choose<'a>(key: &str, bins: &'a [Bin]) -> Option<&'a Bin> {
    best(key, bins.iter())
}

/// The same, but another unit than `avoid` if there is one.
pub fn choose_other<'a>(key: &str, bins: &'a [Bin], avoid: &str) -> Option<&'a Bin> {
    best(key, bins.iter().filter(|bin| bin.name != avoid)).or_else(|| choose(key, bins))
}

fn best<'a>(key: &str, bins: impl Iterator<Item = &'a Bin>) -> Option<&'a Bin> {
    bins.max_by(|a, b| preference(a, key).total_cmp(&preference(b, key)))
}

/// The most of `count` keys that each unit may get: 1.25 times its share, rounded up.
pub fn limits(count: usize, bins: &[Bin]) -> Vec<usize> {
    let all: f64 = bins.iter().map(|bin| f64::from(bin.weight.max(1))).sum();
    let limit = |bin: &Bin| (count as f64 * f64::from(bin.weight.max(1)) / all * BOUND).ceil() as usize;
    bins.iter().map(limit).collect()
}

/// The unit of each key, as an index into `bins`; empty if there are no units. With each key comes the name of a unit
/// that does not get it while there is another, even if the other then has more than its share; none has the empty name.
/// The result depends on the arguments only. O(keys x units).
pub fn assign(keys: &[(String, String)], bins: &[Bin]) -> Vec<usize> {
    let mut room = limits(keys.len(), bins);
    let mut chosen = Vec::with_capacity(keys.len());
    for (key, avoid) in keys {
        let is_avoided = |bin: &Bin| bins.len() > 1 && bin.name == *avoid;
        let others = bins.iter().zip(&room).enumerate().filter(|(_, (bin, _))| !is_avoided(bin));
        // A unit with room comes before one without.
        let best = others
            .map(|(index, (bin, room))| (index, (*room > 0, preference(bin, key))))
            .max_by(|(_, a), (_, b)| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let Some((index, _)) = best else { return Vec::new() };
        if let Some(room) = room.get_mut(index) {
            *room = room.saturating_sub(1);
        }
        chosen.push(index);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bins(count: usize) -> Vec<Bin> {
        (0..count).map(|n| Bin { name: format!("host{n}_9876"), weight: 1 }).collect()
    }

    fn keys(count: usize, salt: u32) -> Vec<(String, String)> {
        (0..count).map(|n| (format!("t{salt}/p{n}"), String::new())).collect()
    }

    fn loads(assigned: &[usize], count: usize) -> Vec<usize> {
        let mut loads = vec![0; count];
        assigned.iter().for_each(|&index| loads[index] += 1);
        loads
    }

    fn moved(keys: &[(String, String)], before: &[Bin], after: &[Bin]) -> usize {
        let (a, b) = (assign(keys, before), assign(keys, after));
        a.iter().zip(&b).filter(|&(&a, &b)| before[a].name != after[b].name).count()
    }

    proptest! {
        #[test]
        fn no_unit_gets_more_than_its_bounded_share(
            count in 0usize..400, weights in prop::collection::vec(1u32..9, 1..12), salt: u32
        ) {
            let bins: Vec<Bin> = weights.iter().enumerate()
                .map(|(n, &weight)| Bin { name: format!("n{n}"), weight }).collect();
            let assigned = assign(&keys(count, salt), &bins);
            prop_assert_eq!(assigned.len(), count);
            for (load, limit) in loads(&assigned, bins.len()).iter().zip(limits(count, &bins)) {
                prop_assert!(*load <= limit);
            }
        }
    }

    #[test]
    fn adding_or_removing_a_unit_moves_few_keys() {
        for (count, units) in [(10_000, 3), (10_000, 5), (10_000, 10), (10_000, 20)] {
            for salt in 0..5 {
                let (keys, few, many) = (keys(count, salt), bins(units), bins(units + 1));
                // Each unit loses at least the difference to the larger set's share; a removed unit loses all
                // it had.
                let least_more = count as f64 / (units + 1) as f64;
                let more = moved(&keys, &few, &many) as f64;
                assert!(more <= 1.3 * least_more, "{units} units and one more: {more} of {least_more}");
                let lost = loads(&assign(&keys, &many), units + 1)[units] as f64;
                let less = moved(&keys, &many, &few) as f64;
                assert!(less <= 1.3 * lost, "{units} units and one less: {less} of {lost}");
            }
        }
    }

    #[test]
    fn failed_key_goes_to_another_unit_while_there_is_one() {
        for (units, avoided) in [(2, 0), (3, 2), (1, 0)] {
            let bins = bins(units);
            let keys: Vec<_> =
                keys(40, 3).into_iter().map(|(key, _)| (key, bins[avoided].name.clone())).collect();
            let loads = loads(&assign(&keys, &bins), units);
            assert_eq!(loads[avoided] > 0, units == 1, "{loads:?}");
        }
    }

    #[test]
    fn order_of_units_is_irrelevant_and_no_units_give_no_choice() {
        let keys = keys(50, 1);
        let (bins, mut turned) = (bins(4), bins(4));
        turned.reverse();
        assert_eq!(moved(&keys, &bins, &turned), 0);
        assert_eq!(assign(&keys, &[]), Vec::<usize>::new());
        assert_eq!(choose("k", &[]), None);
        assert!(bins.contains(choose("k", &bins).unwrap()));
    }
}
