//! An order of the free numbers that may not be whole yet: it is made in slices, the longest waiting numbers first.

use super::tree::{NumberData, Tree};
use crate::ensure;
use crate::shared::invariant::Checked;
use crate::shared::list::{Links, List, NONE};

/// The numbers of the queue before `next`, in an order. Whole if nothing is next.
#[derive(Clone, Debug)]
pub(in crate::numpool) struct Order {
    tree: Tree,
    next: u32,
}

impl Order {
    /// An order that has none of the numbers yet.
    pub(in crate::numpool) fn new(queue: List) -> Self {
        Self { tree: Tree::default(), next: queue.head }
    }

    /// The order, if it is whole.
    pub(in crate::numpool) fn whole(&self) -> Option<&Tree> {
        (self.next == NONE).then_some(&self.tree)
    }

    /// The number used least of those in the order, or `NONE`. They have waited longer than the others.
    pub(in crate::numpool) fn least_used_so_far(&self) -> u32 {
        self.tree.least_used()
    }

    /// Adds at most `count` of the numbers that it lacks. O(count log n).
    pub(in crate::numpool) fn grow(&mut self, count: usize, queue: &impl Links, data: &impl NumberData) {
        if self.next == NONE {
            return;
        }
        let mut ids = Vec::new();
        while self.next != NONE && ids.len() < count {
            ids.push(self.next);
            [_, self.next] = queue.links(self.next);
        }
        self.tree.grow(&ids, data);
    }

    /// A number has joined the queue. O(log n).
    pub(in crate::numpool) fn joined(&mut self, id: u32, data: &impl NumberData) {
        if self.next == NONE {
            self.tree.join(id, data);
        }
    }

    /// A number has left the queue, in which `behind` was behind it. O(log n).
    pub(in crate::numpool) fn left(&mut self, id: u32, behind: u32, data: &impl NumberData) {
        if id == self.next {
            self.next = behind;
        } else if self.next == NONE || self.tree.contains(id) {
            self.tree.leave(id, data);
        }
    }

    /// Bytes allocated.
    pub(in crate::numpool) fn allocated(&self) -> usize {
        size_of::<Self>() + self.tree.allocated()
    }

    /// Checks the order against the queue. O(n log n).
    ///
    /// # Errors
    /// The first contradiction.
    pub(in crate::numpool) fn check(
        &self,
        queue: impl Iterator<Item = u32> + Clone,
        data: &impl NumberData,
    ) -> Checked {
        ensure!(self.next == NONE || queue.clone().any(|id| id == self.next), "the next number is not free");
        self.tree.check(queue.take_while(|&id| id != self.next), data)
    }
}
