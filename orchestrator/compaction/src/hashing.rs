//! Who compacts what: rendezvous hashing with bounded load. Each partition has an order of preference of all units,
//! which no other partition and no other unit changes; it goes to the first that has room.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// How far above its share a unit may be loaded.
const BOUND: f64 = 1.25;

/// A unit, and how large its share is beside others'.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bin {
    /// Its name.
    pub name: String,
    /// Its weight, at least 1.
    pub weight: u32,
}

/// How much this unit is preferred for this key.
fn preference(bin: &Bin, key: &str) -> f64 {
    let seed = xxh3_64_with_seed(bin.name.as_bytes(), 0);
    let bits = xxh3_64_with_seed(key.as_bytes(), seed);
    // Evenly in (0, 1); then the weight decides how often it comes first.
    let even = ((bits >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    -f64::from(bin.weight.max(1)) / even.ln()
}

/// The unit that is preferred for this key, if there is any.
pub fn choose<'a>(key: &str, bins: &'a [Bin]) -> Option<&'a Bin> {
    bins.iter().max_by(|a, b| preference(a, key).total_cmp(&preference(b, key)))
}

/// The most that each unit may get of so many: 1.25 times its share, rounded up.
pub fn limits(count: usize, bins: &[Bin]) -> Vec<usize> {
    let all: f64 = bins.iter().map(|bin| f64::from(bin.weight.max(1))).sum();
    let limit = |bin: &Bin| (count as f64 * f64::from(bin.weight.max(1)) / all * BOUND).ceil() as usize;
    bins.iter().map(limit).collect()
}

/// The unit of each key, as a place in `bins`; empty where there is none. Follows from its arguments alone.
pub fn assign(keys: &[String], bins: &[Bin]) -> Vec<usize> {
    let mut room = limits(keys.len(), bins);
    let mut chosen = Vec::with_capacity(keys.len());
    for key in keys {
        let free = bins.iter().zip(&room).enumerate().filter(|(_, (_, room))| **room > 0);
        let best = free
            .map(|(place, (bin, _))| (place, preference(bin, key)))
            .max_by(|(_, a), (_, b)| a.total_cmp(b));
        let Some((place, _)) = best else { return Vec::new() };
        if let Some(room) = room.get_mut(place) {
            *room -= 1;
        }
        chosen.push(place);
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

    fn keys(count: usize, salt: u32) -> Vec<String> {
        (0..count).map(|n| format!("t{salt}/p{n}")).collect()
    }

    fn loads(assigned: &[usize], count: usize) -> Vec<usize> {
        let mut loads = vec![0; count];
        assigned.iter().for_each(|&place| loads[place] += 1);
        loads
    }

    fn moved(keys: &[String], before: &[Bin], after: &[Bin]) -> usize {
        let (a, b) = (assign(keys, before), assign(keys, after));
        a.iter().zip(&b).filter(|&(&a, &b)| before[a].name != after[b].name).count()
    }

    proptest! {
        #[test]
        fn nobody_gets_more_than_its_bounded_share(
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
    fn one_unit_more_or_less_moves_little_more_than_it_must() {
        for (count, units) in [(10_000, 3), (10_000, 5), (10_000, 10), (10_000, 20)] {
            for salt in 0..5 {
                let (keys, few, many) = (keys(count, salt), bins(units), bins(units + 1));
                // Down to the larger set's share at least, and what the lost one had.
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
    fn the_order_of_units_does_not_matter_and_none_is_no_choice() {
        let keys = keys(50, 1);
        let (bins, mut turned) = (bins(4), bins(4));
        turned.reverse();
        assert_eq!(moved(&keys, &bins, &turned), 0);
        assert_eq!(assign(&keys, &[]), Vec::<usize>::new());
        assert_eq!(choose("k", &[]), None);
        assert!(bins.contains(choose("k", &bins).unwrap()));
    }
}
