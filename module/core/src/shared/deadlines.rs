//! Deadlines of numbered things, the earliest first.

use super::invariant::Checked;
use crate::{ensure, invariant};

/// A 4-ary heap of (due, number), with the place of each number in the heap.
///
/// Deadlines mostly come in rising order (now + the same time to live), for which inserting is O(1); removing
/// and changing are O(log n). A number has at most one deadline.
#[derive(Clone, Debug, Default)]
pub struct Deadlines {
    /// The heap's deadlines, and the numbers they belong to: two lists, since pairs would be padded to 16 bytes.
    dues: Vec<i64>,
    ids: Vec<u32>,
    /// Place in the heap by number; `NOWHERE` without a deadline.
    place: Vec<u32>,
}

const ARITY: usize = 4;
const NOWHERE: u32 = u32::MAX;

impl Deadlines {
    /// Sets the deadline of `id`, whether it had one or not.
    pub fn set(&mut self, id: u32, due: i64) {
        if self.place.len() <= id as usize {
            self.place.resize(id as usize + 1, NOWHERE);
        }
        let at = self.place_of(id).unwrap_or(self.dues.len());
        if let Some(entry) = self.dues.get_mut(at) {
            *entry = due;
        } else {
            self.dues.push(due);
            self.ids.push(id);
            self.note(at);
        }
        let at = self.rise(at);
        self.sink(at);
    }

    /// Forgets the deadline of `id`, if it has one.
    pub fn remove(&mut self, id: u32) {
        let Some(at) = self.place_of(id) else { return };
        if !invariant!(at < self.dues.len(), "a deadline that has a place is there") {
            return;
        }
        self.dues.swap_remove(at);
        self.ids.swap_remove(at);
        if let Some(place) = self.place.get_mut(id as usize) {
            *place = NOWHERE;
        }
        if at < self.dues.len() {
            self.note(at);
            let at = self.rise(at);
            self.sink(at);
        }
    }

    /// The earliest deadline.
    pub fn earliest(&self) -> Option<i64> {
        self.dues.first().copied()
    }

    /// The deadline of `id`, if it has one. O(1).
    pub fn get(&self, id: u32) -> Option<i64> {
        self.dues.get(self.place_of(id)?).copied()
    }

    /// Numbers whose deadline is at or before `now`, earliest first, at most `limit`; O(found log found).
    pub fn due(&self, now: i64, limit: usize) -> Vec<u32> {
        let mut found = Vec::new();
        if self.earliest().is_none_or(|due| due > now) {
            return found;
        }
        // A child is never earlier than its parent, so the deadlines that have passed form a tree at the top.
        let mut front = std::collections::BinaryHeap::new();
        let entry = |at: usize| Some(std::cmp::Reverse((*self.dues.get(at)?, at, *self.ids.get(at)?)));
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

    /// Checks the heap's order, and that each number's place leads to its deadline and back. O(n).
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Checked {
        let len = self.dues.len();
        ensure!(self.ids.len() == len, "there are {len} deadlines of {} numbers", self.ids.len());
        for (at, (due, id)) in self.dues.iter().zip(&self.ids).enumerate() {
            ensure!(
                self.place_of(*id) == Some(at),
                "the deadline of {id} is at {at} and not where it is looked for"
            );
            let parent = at.checked_sub(1).and_then(|at| self.dues.get(at / ARITY));
            ensure!(
                parent.is_none_or(|parent| parent <= due),
                "the deadline at {at} is before that above it"
            );
        }
        let placed = self.place.iter().filter(|&&place| place != NOWHERE).count();
        ensure!(placed == len, "{placed} numbers have a place among {len} deadlines");
        Ok(())
    }

    /// Numbers that have a deadline, in no order.
    pub fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        self.ids.iter().copied()
    }

    /// Number of deadlines.
    pub fn len(&self) -> usize {
        self.dues.len()
    }

    /// Whether no deadline is after `now`. O(n), about a nanosecond each; usually fewer, as the last entries are late.
    pub fn have_all_passed(&self, now: i64) -> bool {
        self.dues.iter().rev().all(|&due| due <= now)
    }

    /// Whether there are no deadlines.
    pub fn is_empty(&self) -> bool {
        self.dues.is_empty()
    }

    /// Bytes allocated.
    pub fn allocated(&self) -> usize {
        self.dues.capacity() * size_of::<i64>()
            + (self.ids.capacity() + self.place.capacity()) * size_of::<u32>()
    }

    fn place_of(&self, id: u32) -> Option<usize> {
        self.place.get(id as usize).copied().filter(|&at| at != NOWHERE).map(|at| at as usize)
    }

    fn due_at(&self, at: usize) -> i64 {
        let due = self.dues.get(at).copied();
        invariant!(due.is_some(), "a place in the heap has a deadline");
        due.unwrap_or(i64::MAX)
    }

    /// Records the place of the entry that is now at `at`.
    fn note(&mut self, at: usize) {
        match self.ids.get(at).and_then(|&id| self.place.get_mut(id as usize)) {
            Some(place) => *place = at as u32,
            None => invariant!("what is in the heap has a place"),
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.dues.swap(a, b);
        self.ids.swap(a, b);
        self.note(a);
        self.note(b);
    }

    fn rise(&mut self, mut at: usize) -> usize {
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if self.due_at(parent) <= self.due_at(at) {
                break;
            }
            self.swap(at, parent);
            at = parent;
        }
        at
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let first = at * ARITY + 1;
            let last = (first + ARITY).min(self.dues.len());
            let Some(child) = (first..last).min_by_key(|&child| self.due_at(child)) else { break };
            if self.due_at(at) <= self.due_at(child) {
                break;
            }
            self.swap(at, child);
            at = child;
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
        let damages: [fn(&mut Deadlines); 5] = [
            |deadlines| deadlines.dues.swap(0, 20),
            |deadlines| deadlines.ids.swap(0, 20),
            |deadlines| deadlines.place[4] = 3,
            |deadlines| deadlines.place[5] = NOWHERE,
            |deadlines| _ = deadlines.dues.pop(),
        ];
        for damage in damages {
            let mut deadlines = sound.clone();
            damage(&mut deadlines);
            assert!(deadlines.check().is_err());
        }
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
                prop_assert_eq!(found, expected);
                prop_assert!(deadlines.due(25, 3).len() <= 3);
            }
        }
    }
}
