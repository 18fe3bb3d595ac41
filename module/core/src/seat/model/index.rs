//! Finds rows with a run of a length: a tree over the rows of a bucket.
//!
//! A node has the lengths of free runs below it as bits of a 128-bit mask (bit n: a run of exactly n; bit 127: of 127
//! or more), and the longest length. "A run of n or more" and "a run of n that strands no seat" (exactly n, or n + 2
//! and more) are one AND per node, and the first such row is found by a descent in O(log rows).

use super::bits;
use crate::shared::invariant::Checked;
use crate::{ensure, invariant};

const FANOUT: usize = 16;

/// The runs of a row or of all rows below a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    /// Bit n: a run of exactly n; bit 127: a run of 127 or more. Bit 0 is never set.
    pub lengths: u128,
    /// The longest run.
    pub longest: u16,
}

impl Runs {
    /// The runs of one row. O(words + runs).
    pub fn of(row: &[u64]) -> Self {
        Self::of_lengths(bits::runs(row).map(|(_, len)| len))
    }

    /// Runs of these lengths. O(runs).
    pub fn of_lengths(lengths: impl Iterator<Item = usize>) -> Self {
        lengths.fold(Self::default(), |union, len| Self {
            lengths: union.lengths | 1 << len.min(LONG),
            longest: union.longest.max(len as u16),
        })
    }

    #[cfg(test)]
    fn and(self, other: Self) -> Self {
        Self { lengths: self.lengths | other.lengths, longest: self.longest.max(other.longest) }
    }
}

/// The bit of all runs of this length or more, which the index does not tell apart.
pub const LONG: usize = 127;

/// Lengths of runs in which `n` adjacent seats fit, n >= 1; beyond `LONG` not in all of these.
pub const fn run_of(n: usize) -> u128 {
    !0 << if n < LONG { n } else { LONG }
}

/// Lengths of runs in which `n` adjacent seats fit without leaving a single seat, n >= 1; if `n + 2` is beyond `LONG`, not
/// in all of these.
pub const fn clean_run_of(n: usize) -> u128 {
    if n + 2 <= LONG { 1 << n | run_of(n + 2) } else { run_of(n) }
}

/// Exactly this length, 1 <= n <= 126.
pub const fn exactly(n: usize) -> u128 {
    1 << n
}

/// The tree. Its leaves are the rows of one bucket in seat order.
#[derive(Clone, Debug)]
pub struct RunIndex {
    /// Level 0 has one node for each row. Each further level has one node for 16 nodes of the level below; the last
    /// has one node.
    levels: Vec<Level>,
}

#[derive(Clone, Debug)]
struct Level {
    lengths: Box<[u128]>,
    longest: Box<[u16]>,
}

impl Level {
    fn of(nodes: impl ExactSizeIterator<Item = Runs> + Clone) -> Self {
        Self {
            lengths: nodes.clone().map(|node| node.lengths).collect(),
            longest: nodes.map(|node| node.longest).collect(),
        }
    }

    fn get(&self, at: usize) -> Runs {
        let (Some(&lengths), Some(&longest)) = (self.lengths.get(at), self.longest.get(at)) else {
            invariant!("a node of the tree is on its level");
            return Runs::default();
        };
        Runs { lengths, longest }
    }

    fn put(&mut self, at: usize, runs: Runs) {
        match (self.lengths.get_mut(at), self.longest.get_mut(at)) {
            (Some(lengths), Some(longest)) => (*lengths, *longest) = (runs.lengths, runs.longest),
            _ => invariant!("a node of the tree is on its level"),
        }
    }

    /// The union of the nodes below node `at` of the level above.
    fn group(&self, at: usize) -> Runs {
        let group = at * FANOUT..(at * FANOUT + FANOUT).min(self.lengths.len());
        let lengths = self.lengths.get(group.clone()).unwrap_or(&[]).iter().fold(0, |union, one| union | one);
        // Only runs of 127 and more are not told apart by their bits.
        let longest = if lengths >> LONG == 0 {
            lengths.checked_ilog2().unwrap_or(0) as u16
        } else {
            self.longest.get(group).unwrap_or(&[]).iter().copied().max().unwrap_or(0)
        };
        Runs { lengths, longest }
    }

    /// The first node from `from` to the end of its group of siblings that has one of `wanted`.
    fn find(&self, from: usize, wanted: u128) -> Option<usize> {
        let end = ((from / FANOUT + 1) * FANOUT).min(self.lengths.len());
        let nodes = self.lengths.get(from..end)?;
        nodes.iter().position(|lengths| lengths & wanted != 0).map(|place| from + place)
    }
}

impl RunIndex {
    /// A tree over these rows. O(rows).
    pub fn new(rows: &[Runs]) -> Self {
        let mut levels = vec![Level::of(rows.iter().copied())];
        while let Some(below) = levels.last().filter(|level| level.lengths.len() > 1) {
            let nodes = (0..below.lengths.len().div_ceil(FANOUT)).map(|at| below.group(at));
            levels.push(Level::of(nodes));
        }
        Self { levels }
    }

    /// The runs of all rows.
    pub fn all(&self) -> Runs {
        self.levels.last().map(|level| level.get(0)).unwrap_or_default()
    }

    /// Updates the runs of a row. O(log rows).
    pub fn set(&mut self, row: usize, runs: Runs) {
        let mut at = row;
        let mut runs = runs;
        for nodes in &mut self.levels {
            if nodes.get(at) == runs {
                return;
            }
            nodes.put(at, runs);
            at /= FANOUT;
            runs = nodes.group(at);
        }
    }

    /// The first row from `from` on that has a run of one of the `wanted` lengths. O(log rows).
    pub fn first(&self, from: usize, wanted: u128) -> Option<usize> {
        if from == 0 {
            return if self.all().lengths & wanted == 0 {
                None
            } else {
                self.descend(self.levels.len() - 1, 0, wanted)
            };
        }
        let mut at = from;
        for (number, level) in self.levels.iter().enumerate() {
            if at >= level.lengths.len() {
                return None;
            }
            if let Some(found) = level.find(at, wanted) {
                return self.descend(number, found, wanted);
            }
            at = at / FANOUT + 1;
        }
        None
    }

    /// Checks the tree against its rows. O(rows).
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self, rows: &[Runs]) -> Checked {
        let sound = Self::new(rows);
        let (levels, expected) = (self.levels.len(), sound.levels.len());
        ensure!(levels == expected, "a tree over {} rows has {levels} levels", rows.len());
        for (number, (level, sound)) in self.levels.iter().zip(&sound.levels).enumerate() {
            ensure!(
                level.lengths == sound.lengths,
                "level {number} of a tree has other lengths of runs than its rows"
            );
            ensure!(
                level.longest == sound.longest,
                "level {number} of a tree has other longest runs than its rows"
            );
        }
        Ok(())
    }

    /// Bytes allocated.
    pub fn allocated(&self) -> usize {
        self.levels.capacity() * size_of::<Level>()
            + self.levels.iter().map(|level| level.lengths.len() * (size_of::<u128>() + 2)).sum::<usize>()
    }

    /// Descends from a node that has a wanted run to the first row with one.
    fn descend(&self, level: usize, node: usize, wanted: u128) -> Option<usize> {
        self.levels.get(..level)?.iter().rev().try_fold(node, |at, level| level.find(at * FANOUT, wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn runs(lengths: &[usize]) -> Runs {
        lengths.iter().fold(Runs::default(), |union, &len| {
            union.and(Runs { lengths: 1 << len.min(LONG), longest: len as u16 })
        })
    }

    proptest! {
        #[test]
        fn it_finds_the_first_row_that_a_loop_finds(
            rows in prop::collection::vec(prop::collection::vec(1usize..200, 0..4), 1..700),
            changes in prop::collection::vec((any::<prop::sample::Index>(), prop::collection::vec(1usize..200, 0..4)), 0..50),
            wanted in prop_oneof![(1usize..=100).prop_map(run_of), (1usize..=100).prop_map(clean_run_of), (1usize..=126).prop_map(exactly)],
            from in any::<prop::sample::Index>(),
        ) {
            let mut rows: Vec<Runs> = rows.iter().map(|row| runs(row)).collect();
            let mut index = RunIndex::new(&rows);
            for (row, lengths) in changes {
                let row = row.index(rows.len());
                rows[row] = runs(&lengths);
                index.set(row, rows[row]);
            }
            let all = rows.iter().fold(Runs::default(), |all, row| all.and(*row));
            prop_assert_eq!(index.all(), all);
            prop_assert_eq!(index.check(&rows), Ok(()));
            for from in [0, from.index(rows.len()), rows.len()] {
                let expected = (from..rows.len()).find(|&row| rows[row].lengths & wanted != 0);
                prop_assert_eq!(index.first(from, wanted), expected);
            }
        }
    }

    #[test]
    fn check_finds_a_damaged_tree() {
        let rows: Vec<Runs> = (0..40).map(|len| runs(&[len % 9 + 1])).collect();
        let sound = RunIndex::new(&rows);
        assert_eq!(sound.check(&rows), Ok(()));
        assert!(sound.check(&rows[1..]).is_err());
        for level in 0..sound.levels.len() {
            let mut index = sound.clone();
            index.levels[level].lengths[0] ^= 2;
            assert!(index.check(&rows).is_err());
            let mut index = sound.clone();
            index.levels[level].longest[0] += 1;
            assert!(index.check(&rows).is_err());
        }
    }

    #[test]
    fn a_run_that_strands_nobody_has_exactly_n_or_two_more() {
        let row = |len: usize| Runs::of(&[(1u64 << len) - 1]).lengths;
        assert_ne!(row(3) & clean_run_of(3), 0);
        assert_eq!(row(4) & clean_run_of(3), 0);
        assert_ne!(row(5) & clean_run_of(3), 0);
    }
}
