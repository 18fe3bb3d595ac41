//! Deadlines of numbered things, the earliest first.

use super::column::Column;
use super::invariant::Checked;
use super::invariant::Expected;
use crate::ensure;

/// A 4-ary heap of (due, number), with the place of each number in the heap. Columns grow without being copied: a list
/// that doubles at a million deadlines would stop the server for ten milliseconds.
///
/// Deadlines mostly come in rising order (now + the same time to live), for which inserting is O(1); removing
/// and changing are O(log n). A number has at most one deadline.
#[derive(Clone, Debug, Default)]
pub struct Deadlines {
    /// The heap; only the first `len` entries count.
    heap: Column<Entry>,
    len: usize,
    /// The earliest deadline, if there is one: every request asks for it, and it is not always in the processor's cache.
    first: i64,
    /// Place in the heap by number, counted from 1; 0 without a deadline.
    place: Column<u32>,
}

/// A deadline, in two halves so that an entry is not padded to 16 bytes, and the number it belongs to.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    due: [u32; 2],
    id: u32,
}

impl Entry {
    fn new(id: u32, due: i64) -> Self {
        Self { due: [due as u32, (due >> 32) as u32], id }
    }

    #[inline]
    fn due(self) -> i64 {
        let [low, high] = self.due;
        i64::from(low) | i64::from(high) << 32
    }
}

const ARITY: usize = 4;

/// Whether the same numbers have the same deadlines, in whichever order.
impl PartialEq for Deadlines {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.ids().all(|id| self.get(id) == other.get(id))
    }
}

impl Deadlines {
    /// Sets the deadline of `id`, whether it had one or not.
    pub fn set(&mut self, id: u32, due: i64) {
        let at = self.place_of(id).unwrap_or(self.len);
        self.len = self.len.max(at + 1);
        self.put(at, Entry::new(id, due));
        let at = self.rise(at);
        self.sink(at);
    }

    /// Forgets the deadline of `id`, if it has one.
    pub fn remove(&mut self, id: u32) {
        let Some(at) = self.place_of(id) else { return };
        let Some(last) = self
            .len
            .checked_sub(1)
            .and_then(|last| self.entry(last))
            .expected("a deadline that has a place is there")
        else {
            return;
        };
        self.len -= 1;
        self.place.set(id, 0);
        if at < self.len {
            self.put(at, last);
            let at = self.rise(at);
            self.sink(at);
        }
    }

    /// The earliest deadline. O(1).
    #[inline]
    pub fn earliest(&self) -> Option<i64> {
        (self.len > 0).then_some(self.first)
    }

    /// The deadline of `id`, if it has one. O(1).
    pub fn get(&self, id: u32) -> Option<i64> {
        self.entry(self.place_of(id)?).map(Entry::due)
    }

    /// Numbers whose deadline is at or before `now`, earliest first, at most `limit`; O(found log found).
    pub fn due(&self, now: i64, limit: usize) -> Vec<u32> {
        let mut found = Vec::new();
        if self.earliest().is_none_or(|due| due > now) {
            return found;
        }
        // A child is never earlier than its parent, so the deadlines that have passed form a tree at the top.
        let mut front = std::collections::BinaryHeap::new();
        let entry = |at: usize| self.entry(at).map(|entry| std::cmp::Reverse((entry.due(), at, entry.id)));
        front.extend(entry(0));
        while let Some(std::cmp::Reverse((due, at, id))) = front.pop() {
            if due > now || found.len() == limit {
                break;
            }
            found.push(id);
            front.extend((at * ARITY + 1..=at * ARITY + ARITY).filter_map(entry));
        }
        found
    }

    /// How many deadlines are at or before `now`, counted up to `limit`. O(limit).
    pub fn count_passed(&self, now: i64, limit: usize) -> usize {
        // As in `due`, they form a tree at the top.
        let (mut front, mut count) = (vec![0], 0);
        while count < limit
            && let Some(at) = front.pop()
        {
            if self.entry(at).is_some_and(|entry| entry.due() <= now) {
                count += 1;
                front.extend(at * ARITY + 1..=at * ARITY + ARITY);
            }
        }
        count
    }

    /// Checks the heap's order, and that each number's place leads to its deadline and back. O(n).
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Checked {
        self.heap.check()?;
        self.place.check()?;
        let first = self.entry(0).map(Entry::due);
        ensure!(self.earliest() == first, "the first deadline is {first:?}, and not {:?}", self.earliest());
        for (at, entry) in self.entries().enumerate() {
            ensure!(
                self.place_of(entry.id) == Some(at),
                "the deadline of {} is at {at} and not where it is looked for",
                entry.id
            );
            let parent = at.checked_sub(1).and_then(|at| self.entry(at / ARITY));
            ensure!(
                parent.is_none_or(|parent| parent.due() <= entry.due()),
                "the deadline at {at} is before that above it"
            );
        }
        let (placed, len) = (self.place.iter().filter(|&(_, place)| place != 0).count(), self.len);
        ensure!(placed == len, "{placed} numbers have a place among {len} deadlines");
        Ok(())
    }

    /// Numbers that have a deadline, in no order.
    pub fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        self.entries().map(|entry| entry.id)
    }

    /// Number of deadlines.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no deadlines.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes allocated.
    pub fn allocated(&self) -> usize {
        self.heap.allocated() + self.place.allocated()
    }

    fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        self.heap.iter().map(|(_, entry)| entry).take(self.len)
    }

    #[inline]
    fn entry(&self, at: usize) -> Option<Entry> {
        (at < self.len).then(|| self.heap.get(at as u32))
    }

    #[inline]
    fn place_of(&self, id: u32) -> Option<usize> {
        self.place.find(id)?.checked_sub(1).map(|at| at as usize)
    }

    #[inline]
    fn due_at(&self, at: usize) -> i64 {
        self.heap.get(at as u32).due()
    }

    /// Puts an entry to a place, and records the place.
    #[inline]
    fn put(&mut self, at: usize, entry: Entry) {
        if at == 0 {
            self.first = entry.due();
        }
        self.heap.set(at as u32, entry);
        self.place.set(entry.id, at as u32 + 1);
    }

    /// Moves the entry at `at` up to where no parent is later. Returns its place.
    fn rise(&mut self, mut at: usize) -> usize {
        let entry = self.heap.get(at as u32);
        let from = at;
        while let Some(above) = at.checked_sub(1) {
            let parent = self.heap.get((above / ARITY) as u32);
            if parent.due() <= entry.due() {
                break;
            }
            self.put(at, parent);
            at = above / ARITY;
        }
        if at != from {
            self.put(at, entry);
        }
        at
    }

    /// Moves the entry at `at` down to where no child is earlier.
    fn sink(&mut self, mut at: usize) {
        let entry = self.heap.get(at as u32);
        let from = at;
        loop {
            let first = at * ARITY + 1;
            let last = (first + ARITY).min(self.len);
            let Some(child) = (first..last).min_by_key(|&child| self.due_at(child)) else { break };
            if entry.due() <= self.due_at(child) {
                break;
            }
            self.put(at, self.heap.get(child as u32));
            at = child;
        }
        if at != from {
            self.put(at, entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn check_finds_damaged_deadlines() {
        let mut sound = Deadlines::default();
        (0..30).for_each(|id| sound.set(id, i64::from(id * 7 % 31)));
        sound.remove(4);
        assert_eq!(sound.check(), Ok(()));
        let damages: [fn(&mut Deadlines); 6] = [
            |deadlines| deadlines.first -= 1,
            |deadlines| deadlines.heap.at(20).due = deadlines.heap.get(0).due,
            |deadlines| deadlines.heap.at(20).id = 0,
            |deadlines| deadlines.place.set(4, 4),
            |deadlines| deadlines.place.set(5, 0),
            |deadlines| deadlines.len -= 1,
        ];
        for damage in damages {
            let mut deadlines = sound.clone();
            damage(&mut deadlines);
            assert!(deadlines.check().is_err());
        }
    }

    #[test]
    fn deadlines_that_grow_are_not_copied() {
        let mut deadlines = Deadlines::default();
        (0..1 << 18).for_each(|id| deadlines.set(id, i64::from(id) - 1000));
        let before = deadlines.allocated();
        deadlines.set(1 << 18, 5);
        assert!(deadlines.allocated() - before < 1 << 16);
        assert_eq!((deadlines.earliest(), deadlines.get(0)), (Some(-1000), Some(-1000)));
        assert_eq!(deadlines.check(), Ok(()));
    }

    proptest! {
        #[test]
        fn it_equals_a_sorted_map(steps in prop::collection::vec((0u32..40, prop::option::of(0i64..50)), 1..300)) {
            let mut deadlines = Deadlines::default();
            let mut model = BTreeMap::new();
            for (id, due) in steps {
                if let Some(due) = due {
                    deadlines.set(id, due);
                    model.insert(id, due);
                } else {
                    deadlines.remove(id);
                    model.remove(&id);
                }
                prop_assert_eq!(deadlines.check(), Ok(()));
                prop_assert_eq!(deadlines.earliest(), model.values().min().copied());
                prop_assert_eq!(deadlines.len(), model.len());
                prop_assert_eq!(deadlines.get(id), model.get(&id).copied());
                let found = deadlines.due(25, usize::MAX);
                prop_assert!(found.windows(2).all(|pair| model[&pair[0]] <= model[&pair[1]]));
                let mut found = found;
                found.sort_unstable();
                let expected: Vec<u32> =
                    model.iter().filter(|(_, due)| **due <= 25).map(|(&id, _)| id).collect();
                prop_assert_eq!(&found, &expected);
                prop_assert!(deadlines.due(25, 3).len() <= 3);
                prop_assert_eq!(deadlines.count_passed(25, usize::MAX), found.len());
            }
        }
    }
}
