//! The free numbers in the order of their digits, for choices by prefix or by use: a search tree whose nodes know the
//! longest waiting and the least used number below them.
//!
//! From the first such choice on every event of the pool costs O(log n).

use super::number::Number;
use crate::shared::column::Column;
use crate::shared::invariant::Checked;
use crate::shared::list::NONE;
use crate::{ensure, invariant};
use hashbrown::DefaultHashBuilder;
use std::hash::BuildHasher;

/// Where a number stands in a tree: first by peer, which is 0 in the tree of all; then by its digits.
pub(in crate::numpool) type Key = (u32, Number);

/// What the tree does not keep itself of the numbers in it. None of it may change while a number is in the tree.
pub(in crate::numpool) trait NumberData {
    /// Where a number stands.
    fn key(&self, id: u32) -> Key;
    /// Calls that it was given for.
    fn uses(&self, id: u32) -> u32;
}

/// A part of the tree: a number, what stands below it, and the best of all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node {
    left: u32,
    right: u32,
    /// Who joined first.
    oldest: u32,
    /// Who was used least; of equals, who joined first.
    least: u32,
    count: u32,
    /// When it joined the queue, in the order of joining.
    joined: u32,
}

impl Default for Node {
    fn default() -> Self {
        Self { left: NONE, right: NONE, oldest: NONE, least: NONE, count: 0, joined: u32::MAX }
    }
}

/// The best of some numbers; of none by default.
#[derive(Clone, Copy, Debug)]
pub(in crate::numpool) struct Best {
    /// Who joined first, or `NONE`.
    pub(in crate::numpool) oldest: u32,
    /// Who was used least, or `NONE`.
    pub(in crate::numpool) least: u32,
    /// How many they are.
    pub(in crate::numpool) count: u32,
}

impl Default for Best {
    fn default() -> Self {
        Self { oldest: NONE, least: NONE, count: 0 }
    }
}

/// A treap: a search tree whose shape depends on a hash of each id, so that its depth is O(log n). It takes 24 bytes
/// for each number.
#[derive(Clone, Debug)]
pub(in crate::numpool) struct Tree {
    nodes: Column<Node>,
    root: u32,
    joins: u32,
    hasher: DefaultHashBuilder,
}

impl Default for Tree {
    fn default() -> Self {
        Self { nodes: Column::default(), root: NONE, joins: 0, hasher: DefaultHashBuilder::default() }
    }
}

impl Tree {
    /// Numbers that are not in the tree join in this order, behind all that joined before. O(m log(m + n)) for m numbers
    /// that join n; less if their digits are apart from those of the others.
    pub(in crate::numpool) fn grow(&mut self, ids: &[u32], data: &impl NumberData) {
        let mut sorted: Vec<(Key, u32)> = Vec::with_capacity(ids.len());
        for &id in ids {
            self.joins += 1;
            self.nodes.set(id, Node { joined: self.joins, ..Node::default() });
            sorted.push((data.key(id), id));
        }
        sorted.sort_unstable();
        let grown = self.build(sorted.into_iter().map(|(_, id)| id), data);
        self.root = self.unite(self.root, grown, data);
    }

    /// Makes a tree of nodes in their order; returns its root.
    fn build(&mut self, sorted: impl Iterator<Item = u32>, data: &impl NumberData) -> u32 {
        // The way down the right side of the tree so far; each next number hangs itself in where it weighs less.
        let mut spine: Vec<u32> = Vec::new();
        for id in sorted {
            let mut below = NONE;
            while let Some(&top) = spine.last()
                && self.weight(top) <= self.weight(id)
            {
                self.sum_up(top, data);
                below = top;
                spine.pop();
            }
            self.nodes.at(id).left = below;
            if let Some(&top) = spine.last() {
                self.nodes.at(top).right = id;
            }
            spine.push(id);
        }
        let root = spine.first().copied().unwrap_or(NONE);
        spine.into_iter().rev().for_each(|id| self.sum_up(id, data));
        root
    }

    /// A number that is not in the tree joins, behind all that joined before. Returns whether no other number can join: a
    /// tree counts to four thousand million. O(log n).
    pub(in crate::numpool) fn join(&mut self, id: u32, data: &impl NumberData) -> bool {
        self.joins += 1;
        let joined = self.joins;
        self.nodes.set(id, Node { oldest: id, least: id, count: 1, joined, ..Node::default() });
        let (before, behind) = self.split(self.root, data.key(id), data);
        let left = self.merge(before, id, data);
        self.root = self.merge(left, behind, data);
        self.joins == u32::MAX
    }

    /// A number that is in the tree leaves it. O(log n).
    pub(in crate::numpool) fn leave(&mut self, id: u32, data: &impl NumberData) {
        self.root = self.without(self.root, id, data.key(id), data);
        self.nodes.set(id, Node::default());
    }

    /// Whether a number is in the tree. O(1).
    pub(in crate::numpool) fn contains(&self, id: u32) -> bool {
        self.nodes.find(id).is_some_and(|node| node.count > 0)
    }

    /// The best of the numbers from a least key to a greatest one. O(log n).
    pub(in crate::numpool) fn best(&self, keys: [Key; 2], data: &impl NumberData) -> Best {
        let mut best = Best::default();
        self.gather(self.root, keys, [false, false], &mut best, data);
        best
    }

    /// Who was used least of all, of equals who joined first, or `NONE`. O(1).
    pub(in crate::numpool) fn least_used(&self) -> u32 {
        if self.root == NONE { NONE } else { self.nodes.get(self.root).least }
    }

    /// The number at a place, counted from 0, among those from `least` on. O(log n).
    pub(in crate::numpool) fn at(&self, least: Key, place: u32, data: &impl NumberData) -> u32 {
        let mut place = place + self.before(least, data);
        let mut at = self.root;
        while at != NONE {
            let node = self.nodes.get(at);
            let left = self.count(node.left);
            if place == left {
                return at;
            }
            if place < left {
                at = node.left;
            } else {
                place -= left + 1;
                at = node.right;
            }
        }
        invariant!("a place that is looked for in the tree is there");
        NONE
    }

    /// Checks the tree against the numbers that are to be in it, given in the order of joining: its order, its shape,
    /// and what each node knows of those below it. O(n log n).
    ///
    /// # Errors
    /// The first contradiction.
    pub(in crate::numpool) fn check(
        &self,
        ids: impl Iterator<Item = u32>,
        data: &impl NumberData,
    ) -> Checked {
        self.nodes.check()?;
        let mut expected: Vec<u32> = ids.collect();
        ensure!(expected.iter().all(|&id| self.contains(id)), "a number of the queue is not in the tree");
        let rising =
            expected.windows(2).all(|pair| matches!(*pair, [a, b] if self.joined(a) < self.joined(b)));
        ensure!(rising, "the tree has another order of joining than the queue");
        let last = expected.last().map_or(0, |&id| self.joined(id));
        ensure!(last <= self.joins, "a number joined the tree after the last one");
        expected.sort_unstable_by_key(|&id| data.key(id));
        let (mut sorted, mut open) = (Vec::new(), Vec::new());
        let mut at = self.root;
        while at != NONE || !open.is_empty() {
            ensure!(
                sorted.len() + open.len() <= expected.len(),
                "the tree has too many numbers, or a circle"
            );
            if at == NONE {
                at = open.pop().unwrap_or(NONE);
                sorted.push(at);
                at = self.nodes.get(at).right;
            } else {
                open.push(at);
                at = self.nodes.get(at).left;
            }
        }
        ensure!(sorted == expected, "the tree has other numbers than the queue, or another order");
        for id in sorted {
            let node = self.nodes.get(id);
            let mut sound = Node { oldest: id, least: id, count: 1, ..node };
            for child in [node.left, node.right].into_iter().filter(|&child| child != NONE) {
                ensure!(self.weight(child) <= self.weight(id), "{child} is below {id}, which is lighter");
                let below = self.nodes.get(child);
                sound.oldest = self.older(sound.oldest, below.oldest);
                sound.least = self.less_used(sound.least, below.least, data);
                sound.count += below.count;
            }
            ensure!(node == sound, "node {node:?} of {id} should be {sound:?}");
        }
        Ok(())
    }

    /// Bytes allocated.
    pub(in crate::numpool) fn allocated(&self) -> usize {
        self.nodes.allocated()
    }

    fn count(&self, at: u32) -> u32 {
        if at == NONE { 0 } else { self.nodes.get(at).count }
    }

    /// How many stand before a key.
    fn before(&self, key: Key, data: &impl NumberData) -> u32 {
        let (mut at, mut count) = (self.root, 0);
        while at != NONE {
            let node = self.nodes.get(at);
            if data.key(at) < key {
                count += self.count(node.left) + 1;
                at = node.right;
            } else {
                at = node.left;
            }
        }
        count
    }

    /// Adds what stands below `at` between two keys; `inside` tells which of the two it is known to keep to.
    fn gather(&self, at: u32, keys: [Key; 2], inside: [bool; 2], best: &mut Best, data: &impl NumberData) {
        if at == NONE {
            return;
        }
        let node = self.nodes.get(at);
        if inside == [true, true] {
            best.oldest = self.older(best.oldest, node.oldest);
            best.least = self.less_used(best.least, node.least, data);
            best.count += node.count;
            return;
        }
        let [least, greatest] = keys;
        let key = data.key(at);
        let (above, below) = (key >= least, key <= greatest);
        let [keeps_above, keeps_below] = inside;
        if above {
            self.gather(node.left, keys, [keeps_above, keeps_below || below], best, data);
        }
        if above && below {
            best.oldest = self.older(best.oldest, at);
            best.least = self.less_used(best.least, at, data);
            best.count += 1;
        }
        if below {
            self.gather(node.right, keys, [keeps_above || above, keeps_below], best, data);
        }
    }

    fn joined(&self, id: u32) -> u32 {
        if id == NONE { u32::MAX } else { self.nodes.get(id).joined }
    }

    fn older(&self, a: u32, b: u32) -> u32 {
        if self.joined(b) < self.joined(a) { b } else { a }
    }

    fn less_used(&self, a: u32, b: u32, data: &impl NumberData) -> u32 {
        let rank = |id: u32| (id == NONE, if id == NONE { 0 } else { data.uses(id) }, self.joined(id));
        if rank(b) < rank(a) { b } else { a }
    }

    /// Who stands above another: the heavier. O(1).
    fn weight(&self, id: u32) -> u64 {
        self.hasher.hash_one(id)
    }

    /// Sums up a node again from itself and its children.
    fn sum_up(&mut self, at: u32, data: &impl NumberData) {
        let mut node = self.nodes.get(at);
        (node.oldest, node.least, node.count) = (at, at, 1);
        for child in [node.left, node.right] {
            if child != NONE {
                let below = self.nodes.get(child);
                node.oldest = self.older(node.oldest, below.oldest);
                node.least = self.less_used(node.least, below.least, data);
                node.count += below.count;
            }
        }
        self.nodes.set(at, node);
    }

    /// Splits a tree into what stands before `key` and the rest.
    fn split(&mut self, at: u32, key: Key, data: &impl NumberData) -> (u32, u32) {
        if at == NONE {
            return (NONE, NONE);
        }
        let node = self.nodes.get(at);
        if data.key(at) < key {
            let (before, behind) = self.split(node.right, key, data);
            self.nodes.at(at).right = before;
            self.sum_up(at, data);
            (at, behind)
        } else {
            let (before, behind) = self.split(node.left, key, data);
            self.nodes.at(at).left = behind;
            self.sum_up(at, data);
            (before, at)
        }
    }

    /// Joins two trees, all of the first before all of the second.
    fn merge(&mut self, a: u32, b: u32, data: &impl NumberData) -> u32 {
        if a == NONE {
            return b;
        }
        if b == NONE {
            return a;
        }
        if self.weight(a) > self.weight(b) {
            let right = self.merge(self.nodes.get(a).right, b, data);
            self.nodes.at(a).right = right;
            self.sum_up(a, data);
            a
        } else {
            let left = self.merge(a, self.nodes.get(b).left, data);
            self.nodes.at(b).left = left;
            self.sum_up(b, data);
            b
        }
    }

    /// Joins two trees whose numbers may stand between each other. O(m log(n / m)) for m numbers and n.
    fn unite(&mut self, a: u32, b: u32, data: &impl NumberData) -> u32 {
        if a == NONE {
            return b;
        }
        if b == NONE {
            return a;
        }
        let (above, below) = if self.weight(a) >= self.weight(b) { (a, b) } else { (b, a) };
        let (before, behind) = self.split(below, data.key(above), data);
        let node = self.nodes.get(above);
        let left = self.unite(node.left, before, data);
        let right = self.unite(node.right, behind, data);
        self.nodes.set(above, Node { left, right, ..node });
        self.sum_up(above, data);
        above
    }

    fn without(&mut self, at: u32, id: u32, key: Key, data: &impl NumberData) -> u32 {
        if at == NONE {
            invariant!("a number that leaves the tree is in it");
            return NONE;
        }
        let node = self.nodes.get(at);
        if at == id {
            return self.merge(node.left, node.right, data);
        }
        if key < data.key(at) {
            let left = self.without(node.left, id, key, data);
            self.nodes.at(at).left = left;
        } else {
            let right = self.without(node.right, id, key, data);
            self.nodes.at(at).right = right;
        }
        self.sum_up(at, data);
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Numbers by id, and calls by id.
    struct Numbers([u32; 40]);

    fn number(id: u32) -> Number {
        Number::parse((id * 37 % 101).to_string().as_bytes()).unwrap()
    }

    impl NumberData for Numbers {
        fn key(&self, id: u32) -> Key {
            (0, number(id))
        }

        fn uses(&self, id: u32) -> u32 {
            self.0[id as usize]
        }
    }

    fn tree_of(ids: &[u32], data: &Numbers) -> Tree {
        let mut tree = Tree::default();
        ids.chunks(5).for_each(|ids| tree.grow(ids, data));
        tree
    }

    #[test]
    fn check_finds_a_damaged_tree() {
        let data = Numbers([1; 40]);
        let ids = [5, 3, 9, 1, 30, 22, 17];
        let sound = tree_of(&ids, &data);
        assert_eq!(sound.check(ids.into_iter(), &data), Ok(()));
        assert!(sound.check(ids.into_iter().rev(), &data).is_err());
        assert!(sound.check(ids.into_iter().skip(1), &data).is_err());
        assert!(sound.check(ids.into_iter().chain([2]), &data).is_err());
        let damages: [fn(&mut Tree); 6] = [
            |tree| tree.joins = 3,
            |tree| tree.root = NONE,
            |tree| tree.nodes.at(tree.root).count += 1,
            |tree| tree.nodes.at(9).oldest = 17,
            |tree| tree.nodes.at(1).joined = 0,
            |tree| tree.nodes.at(tree.root).right = tree.root,
        ];
        for (number, damage) in damages.iter().enumerate() {
            let mut tree = sound.clone();
            damage(&mut tree);
            assert!(tree.check(ids.into_iter(), &data).is_err(), "damage {number} is not found");
        }
    }

    #[test]
    fn tree_says_when_it_can_count_no_further() {
        let data = Numbers([1; 40]);
        let mut tree = tree_of(&[5, 3], &data);
        tree.joins = u32::MAX - 2;
        assert!(!tree.join(9, &data));
        assert!(tree.join(1, &data));
        assert_eq!(tree.check([5, 3, 9, 1].into_iter(), &data), Ok(()));
    }

    proptest! {
        #[test]
        fn it_equals_a_loop(
            steps in prop::collection::vec((0u32..40, 0u32..3), 1..250),
            range in (0u32..50, 0u32..50),
            odd in any::<bool>(),
        ) {
            let mut data = Numbers([0; 40]);
            let mut tree = Tree::default();
            let mut model: Vec<u32> = Vec::new();
            for (id, uses) in steps {
                if let Some(at) = model.iter().position(|&other| other == id) {
                    model.remove(at);
                    tree.leave(id, &data);
                } else {
                    model.push(id);
                    data.0[id as usize] = uses;
                    tree.join(id, &data);
                }
                if odd && uses == 0 {
                    // However it came about, it is the same tree to all who ask.
                    tree = tree_of(&model, &data);
                }
                prop_assert_eq!(tree.check(model.iter().copied(), &data), Ok(()));
                let (a, b) = (number(range.0), number(range.1));
                let (least, greatest) = (a.min(b), a.max(b));
                let inside: Vec<u32> =
                    model.iter().copied().filter(|&id| (least..=greatest).contains(&number(id))).collect();
                let best = tree.best([(0, least), (0, greatest)], &data);
                prop_assert_eq!(best.oldest, inside.first().copied().unwrap_or(NONE));
                let least_used = inside.iter().copied().min_by_key(|&id| data.uses(id));
                prop_assert_eq!(best.least, least_used.unwrap_or(NONE));
                prop_assert_eq!(best.count as usize, inside.len());
                let mut sorted = inside;
                sorted.sort_by_key(|&id| number(id));
                for (place, &id) in sorted.iter().enumerate() {
                    prop_assert_eq!(tree.at((0, least), place as u32, &data), id);
                }
            }
        }
    }
}
