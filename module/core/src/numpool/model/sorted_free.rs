//! The free numbers in the order of their digits, for choices by prefix or by use. A sorted tree exists from the first
//! choice that needs it, and is made in slices, the longest waiting numbers first.
//!
//! A tree can be made from the queue at any time, so it is not part of the state: replicas and snapshots have none.

use super::directory::Directory;
use super::groups::Groups;
use super::number::Number;
use super::record::Record;
use super::tree::{Best, Key, NumberData, Tree};
use crate::ensure;
use crate::shared::invariant::Checked;
use crate::shared::invariant::Expected;
use crate::shared::list::{Links, List, NONE};

/// What the trees do not keep themselves of the numbers in them.
#[derive(Clone, Copy)]
pub(in crate::numpool) struct Numbers<'a> {
    pub(in crate::numpool) directory: &'a Directory<Record>,
    pub(in crate::numpool) peers: &'a Groups,
}

/// Numbers in the order of a tree: by their digits alone, or first by the peer that they called last.
struct Sorting<'a> {
    numbers: Numbers<'a>,
    by_peer: bool,
}

impl NumberData for Sorting<'_> {
    fn key(&self, id: u32) -> Key {
        let peer = if self.by_peer { self.numbers.peers.of(id) } else { 0 };
        (peer, self.numbers.directory.name_of(id))
    }

    fn uses(&self, id: u32) -> u32 {
        self.numbers.directory.get(id).uses
    }
}

/// A tree of the numbers of the queue before `next`. It is whole if nothing is next.
#[derive(Clone, Debug)]
struct Sorted {
    tree: Tree,
    next: u32,
}

/// The trees of the free numbers.
#[derive(Clone, Debug, Default)]
pub(in crate::numpool) struct SortedFree {
    by_digits: Option<Box<Sorted>>,
    by_peer: Option<Box<Sorted>>,
}

impl SortedFree {
    /// Begins the trees for a choice by prefix or by use, of which `by_peer` needs both. Returns whether a tree is new.
    pub(in crate::numpool) fn begin(&mut self, by_peer: bool, queue: List) -> bool {
        let is_new = self.by_digits.is_none() || by_peer && self.by_peer.is_none();
        let empty = || Box::new(Sorted { tree: Tree::default(), next: queue.head });
        self.by_digits.get_or_insert_with(empty);
        if by_peer {
            self.by_peer.get_or_insert_with(empty);
        }
        is_new
    }

    /// Adds at most `count` of the numbers that it lacks to each tree. O(count log n).
    pub(in crate::numpool) fn grow(&mut self, count: usize, numbers: Numbers<'_>) {
        self.each(numbers, |sorted, sorting| {
            let mut ids = Vec::new();
            while sorted.next != NONE && ids.len() < count {
                ids.push(sorted.next);
                [_, sorted.next] = numbers.directory.links(sorted.next);
            }
            if !ids.is_empty() {
                sorted.tree.grow(&ids, sorting);
            }
        });
    }

    /// Whether the trees that exist are whole.
    pub(in crate::numpool) fn are_whole(&self) -> bool {
        [&self.by_digits, &self.by_peer].into_iter().flatten().all(|sorted| sorted.next == NONE)
    }

    /// Whether the trees for a choice by prefix or by use are there and whole.
    pub(in crate::numpool) fn is_ready(&self, by_peer: bool) -> bool {
        let is_whole =
            |sorted: &Option<Box<Sorted>>| sorted.as_ref().is_some_and(|sorted| sorted.next == NONE);
        is_whole(&self.by_digits) && (!by_peer || is_whole(&self.by_peer))
    }

    /// Whether there is no tree.
    #[inline]
    pub(in crate::numpool) fn is_empty(&self) -> bool {
        self.by_digits.is_none()
    }

    /// A number has joined the queue. O(log n).
    #[inline]
    pub(in crate::numpool) fn joined(&mut self, id: u32, numbers: Numbers<'_>) {
        if !self.is_empty() {
            self.join(id, numbers);
        }
    }

    fn join(&mut self, id: u32, numbers: Numbers<'_>) {
        let mut is_full = false;
        self.each(numbers, |sorted, sorting| {
            if sorted.next == NONE {
                is_full |= sorted.tree.join(id, sorting);
            }
        });
        // The trees are made again.
        if is_full {
            *self = Self::default();
        }
    }

    /// A number has left the queue, in which `behind` was behind it. O(log n).
    pub(in crate::numpool) fn left(&mut self, id: u32, behind: u32, numbers: Numbers<'_>) {
        self.each(numbers, |sorted, sorting| {
            if id == sorted.next {
                sorted.next = behind;
            } else if sorted.next == NONE || sorted.tree.contains(id) {
                sorted.tree.leave(id, sorting);
            }
        });
    }

    #[inline]
    fn each(&mut self, numbers: Numbers<'_>, mut change: impl FnMut(&mut Sorted, &Sorting<'_>)) {
        if let Some(sorted) = &mut self.by_digits {
            change(sorted, &Sorting { numbers, by_peer: false });
        }
        if let Some(sorted) = &mut self.by_peer {
            change(sorted, &Sorting { numbers, by_peer: true });
        }
    }

    /// The number that was used least, or `NONE`; `None` without a whole tree. O(1).
    pub(in crate::numpool) fn least_used(&self) -> Option<u32> {
        self.by_digits.as_ref().filter(|sorted| sorted.next == NONE).map(|sorted| sorted.tree.least_used())
    }

    /// The best of the numbers with a prefix, of those that called a peer last if one is given. O(log n).
    pub(in crate::numpool) fn best(&self, prefix: Number, peer: Option<u32>, numbers: Numbers<'_>) -> Best {
        let sorted = if peer.is_some() { &self.by_peer } else { &self.by_digits };
        let Some(sorted) = sorted.as_ref().expected("there is a tree for a choice by prefix") else {
            return Best::default();
        };
        let (least, greatest) = prefix.beginning_with();
        let keys = [least, greatest].map(|number| (peer.unwrap_or(0), number));
        sorted.tree.best(keys, &Sorting { numbers, by_peer: peer.is_some() })
    }

    /// The number with a prefix at a place, counted from 0 in the order of digits. O(log n).
    pub(in crate::numpool) fn at(&self, prefix: Number, place: u32, numbers: Numbers<'_>) -> u32 {
        let sorted = self.by_digits.as_ref();
        sorted.map_or(NONE, |sorted| sorted.tree.at((0, prefix), place, &Sorting { numbers, by_peer: false }))
    }

    /// Bytes allocated.
    pub(in crate::numpool) fn allocated(&self) -> usize {
        let trees = [&self.by_digits, &self.by_peer].into_iter().flatten();
        trees.map(|sorted| size_of::<Sorted>() + sorted.tree.allocated()).sum()
    }

    /// Checks the trees against the queue. O(n log n).
    ///
    /// # Errors
    /// The first contradiction.
    pub(in crate::numpool) fn check(&self, queue: List, numbers: Numbers<'_>) -> Checked {
        let queue = queue.iter(numbers.directory);
        for (sorted, by_peer) in [(&self.by_digits, false), (&self.by_peer, true)] {
            let Some(sorted) = sorted else { continue };
            let next = sorted.next;
            ensure!(next == NONE || queue.clone().any(|id| id == next), "the next number is not free");
            let joined = queue.clone().take_while(|&id| id != next);
            sorted.tree.check(joined, &Sorting { numbers, by_peer })?;
        }
        Ok(())
    }
}
