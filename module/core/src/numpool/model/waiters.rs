//! Calls that wait for a number: the higher priority first, then in the order in which they came.
//!
//! A waiter is a connection of one server. Waiters are no part of the state of a pool: they are neither saved nor
//! replicated nor copied.

use super::number::Number;
use super::settings::Policy;
use crate::invariant;
use crate::shared::names::NameIndex;
use crate::shared::table::Table;
use crate::shared::{Bytes, Millis};
use hashbrown::HashMap;
use smallvec::{SmallVec, smallvec};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Who comes first: the higher priority, then the earlier arrival.
type Rank = (Reverse<i32>, u64);

/// Numbers that a waiter takes. Waiters of one class are served in their order, and each freed number concerns few
/// classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Class {
    Any,
    Prefix(Number),
    Number(Number),
}

/// The request of a waiter: a call that owns its words.
#[derive(Clone, Debug)]
pub(in crate::numpool) struct Wish {
    pub(in crate::numpool) number: Option<Number>,
    pub(in crate::numpool) ttl: Option<Millis>,
    pub(in crate::numpool) token: Bytes,
    /// Whether the caller chose the token.
    pub(in crate::numpool) chosen: bool,
    pub(in crate::numpool) switch: Option<Bytes>,
    pub(in crate::numpool) peer: Option<Bytes>,
    pub(in crate::numpool) prefixes: SmallVec<[Number; 1]>,
    pub(in crate::numpool) pick: Option<Policy>,
}

impl Wish {
    /// The classes of the waiter: one, or one for each of its prefixes.
    fn classes(&self) -> SmallVec<[Class; 1]> {
        match self.number {
            Some(number) => smallvec![Class::Number(number)],
            None if self.prefixes.is_empty() => smallvec![Class::Any],
            None => self.prefixes.iter().map(|&prefix| Class::Prefix(prefix)).collect(),
        }
    }
}

/// A call that waits.
#[derive(Clone, Debug)]
pub(in crate::numpool) struct Waiter {
    pub(in crate::numpool) id: u64,
    pub(in crate::numpool) wish: Wish,
    rank: Rank,
}

/// The waiters of a pool. A pool without waiters keeps only an empty pointer.
#[derive(Debug, Default)]
pub(in crate::numpool) struct Waiters(Option<Box<Queues>>);

/// A copy of a pool has no connections.
impl Clone for Waiters {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Waiters lie in a table in the order of their arrival, and all else refers to their places there: serving the first
/// of many touches little memory.
#[derive(Debug, Default)]
struct Queues {
    waiters: Table<Waiter>,
    places: HashMap<u64, u32>,
    classes: HashMap<Class, BTreeMap<Rank, u32>>,
    by_token: NameIndex,
    /// How many classes are prefixes.
    prefixes: usize,
    arrivals: u64,
    /// Classes for which a number may be free, each with the rank of its first waiter at that time.
    open: BTreeSet<(Rank, Class)>,
    /// Until when the rate of the pool forbids a call: classes that are open stay open until then.
    held_until: Option<Millis>,
    /// Waiters whose answer is certain: another request began a lease with their token, or their number is gone.
    certain: BTreeSet<(Rank, u32)>,
    /// Waiters, by their ids, that wait only until the work is done, the first to be answered first.
    for_work: VecDeque<u64>,
    /// Whether a waiter was looked at while work went on in slices on which its answer depends.
    await_work: bool,
}

impl Waiters {
    /// How many calls wait. O(1).
    pub(in crate::numpool) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |queues| queues.waiters.len())
    }

    /// Whether a waiter may be served now.
    #[inline]
    pub(in crate::numpool) fn are_pending(&self) -> bool {
        self.0.as_ref().is_some_and(|queues| {
            let have_waited = !queues.await_work && !queues.for_work.is_empty();
            let are_open = !queues.open.is_empty() && queues.held_until.is_none();
            are_open || !queues.certain.is_empty() || have_waited
        })
    }

    /// The rate of the pool lets no call begin until then, or any.
    #[inline]
    pub(in crate::numpool) fn hold(&mut self, until: Option<Millis>) {
        if let Some(queues) = &mut self.0 {
            queues.held_until = until;
        }
    }

    /// When the rate of the pool lets a call begin for which a number may be free.
    #[inline]
    pub(in crate::numpool) fn held_until(&self) -> Option<Millis> {
        self.0.as_ref().filter(|queues| !queues.open.is_empty())?.held_until
    }

    /// Has a call wait under an id. A call with the token of an earlier waiter replaces this waiter, and keeps its
    /// place if the priorities are equal; the id of the earlier waiter is returned. `may_be_served` opens its class.
    /// O(log n).
    pub(in crate::numpool) fn join(
        &mut self,
        id: u64,
        wish: Wish,
        priority: i32,
        may_be_served: bool,
    ) -> Option<u64> {
        let queues = self.0.get_or_insert_default();
        let replaced = queues.with_token(&wish.token).and_then(|place| queues.remove(place));
        queues.arrivals += 1;
        let before = replaced.as_ref().map(|waiter| waiter.rank).filter(|rank| rank.0.0 == priority);
        let rank = before.unwrap_or((Reverse(priority), queues.arrivals));
        let classes = wish.classes();
        queues.insert(Waiter { id, wish, rank });
        if may_be_served {
            classes.into_iter().for_each(|class| queues.open(class));
        }
        replaced.map(|waiter| waiter.id)
    }

    /// Takes a waiter out, if it still waits. O(log n).
    pub(in crate::numpool) fn leave(&mut self, id: u64) {
        if let Some(queues) = &mut self.0
            && let Some(&place) = queues.places.get(&id)
        {
            queues.remove(place);
            self.trim();
        }
    }

    /// Puts a waiter back into its place.
    pub(in crate::numpool) fn put_back(&mut self, waiter: Waiter) {
        self.0.get_or_insert_default().insert(waiter);
    }

    /// Frees the memory when no call waits any more.
    fn trim(&mut self) {
        if self.0.as_ref().is_some_and(|queues| queues.waiters.is_empty()) {
            self.0 = None;
        }
    }

    /// Forgets all waiters.
    pub(in crate::numpool) fn clear(&mut self) {
        self.0 = None;
    }

    /// A number became free: the waiters that it concerns may be served.
    #[inline]
    pub(in crate::numpool) fn touch(&mut self, number: impl FnOnce() -> Number) {
        if let Some(queues) = &mut self.0 {
            queues.touch(number());
        }
    }

    /// A number was deleted: those who wait for it need not wait for anything else.
    pub(in crate::numpool) fn number_is_gone(&mut self, number: Number) {
        if let Some(queues) = &mut self.0 {
            let waiters = queues.classes.get(&Class::Number(number)).into_iter().flatten();
            queues.certain.extend(waiters.map(|(&rank, &place)| (rank, place)));
        }
    }

    /// A lease with this token began: a waiter with the same token gets its record.
    #[inline]
    pub(in crate::numpool) fn lease_began(&mut self, token: &Bytes) {
        if let Some(queues) = &mut self.0
            && let Some(place) = queues.with_token(token)
            && let Some(waiter) = queues.waiters.get(place)
        {
            queues.certain.insert((waiter.rank, place));
        }
    }

    /// All waiters are to be looked at again when the work is done that goes on in slices.
    pub(in crate::numpool) fn set_await_work(&mut self) {
        if let Some(queues) = &mut self.0 {
            queues.await_work = true;
        }
    }

    /// A waiter waits only until this work is done.
    pub(in crate::numpool) fn wait_for_work(&mut self, id: u64) {
        if let Some(queues) = &mut self.0 {
            queues.for_work.push_back(id);
        }
    }

    /// Takes the next waiter out that has waited only for work, which is done.
    pub(in crate::numpool) fn next_after_work(&mut self) -> Option<u64> {
        let queues = self.0.as_mut().filter(|queues| !queues.await_work)?;
        let mut found = None;
        while found.is_none()
            && let Some(id) = queues.for_work.pop_front()
        {
            let place = queues.places.get(&id).copied();
            found = place.and_then(|place| queues.remove(place)).map(|waiter| waiter.id);
        }
        self.trim();
        found
    }

    /// Whether they are.
    #[inline]
    pub(in crate::numpool) fn await_work(&self) -> bool {
        self.0.as_ref().is_some_and(|queues| queues.await_work)
    }

    /// The work is done: any number may concern any waiter now. O(classes log classes).
    pub(in crate::numpool) fn open_all(&mut self) {
        if let Some(queues) = &mut self.0 {
            queues.await_work = false;
            let classes: Vec<Class> = queues.classes.keys().copied().collect();
            classes.into_iter().for_each(|class| queues.open(class));
        }
    }

    /// Takes the next waiter to serve out; its class is closed until it is opened again. While no number at all is free,
    /// classes that leave the choice of the number are closed at once. O(log n) in all for each number that was freed.
    pub(in crate::numpool) fn next(&mut self, some_are_free: bool) -> Option<Waiter> {
        self.0.as_mut()?.next(some_are_free)
    }

    /// A waiter that was taken does not come back: the next one of each of its classes may be served, too.
    pub(in crate::numpool) fn follow(&mut self, waiter: &Waiter) {
        if let Some(queues) = &mut self.0 {
            waiter.wish.classes().into_iter().for_each(|class| queues.open(class));
        }
        self.trim();
    }

    /// Ids of all waiters, the first to be served first.
    pub(in crate::numpool) fn in_order(&self) -> Vec<u64> {
        let waiters = self.0.iter().flat_map(|queues| queues.waiters.iter());
        let mut ranked: Vec<(Rank, u64)> = waiters.map(|(_, waiter)| (waiter.rank, waiter.id)).collect();
        ranked.sort_unstable();
        ranked.into_iter().map(|(_, id)| id).collect()
    }
}

impl Queues {
    fn with_token(&self, token: &[u8]) -> Option<u32> {
        let is = |place| self.waiters.get(place).is_some_and(|waiter| waiter.wish.token[..] == *token);
        self.by_token.find(token, is)
    }

    fn insert(&mut self, waiter: Waiter) {
        let (id, rank, classes) = (waiter.id, waiter.rank, waiter.wish.classes());
        let place = self.waiters.insert(waiter);
        for class in classes {
            let queue = self.classes.entry(class).or_default();
            if queue.is_empty() && matches!(class, Class::Prefix(_)) {
                self.prefixes += 1;
            }
            queue.insert(rank, place);
        }
        self.places.insert(id, place);
        if let Some(waiter) = self.waiters.get(place) {
            self.by_token.insert(&waiter.wish.token, place);
        }
    }

    fn remove(&mut self, place: u32) -> Option<Waiter> {
        let waiter = self.waiters.remove(place);
        invariant!(waiter.is_some(), "a waiter that is taken out is in the table");
        let waiter = waiter?;
        for class in waiter.wish.classes() {
            // A prefix that the waiter names twice is one class.
            let Some(queue) = self.classes.get_mut(&class) else { continue };
            queue.remove(&waiter.rank);
            if queue.is_empty() {
                self.classes.remove(&class);
                self.prefixes -= usize::from(matches!(class, Class::Prefix(_)));
            }
        }
        self.by_token.remove(&waiter.wish.token, place);
        self.places.remove(&waiter.id);
        self.certain.remove(&(waiter.rank, place));
        Some(waiter)
    }

    fn touch(&mut self, number: Number) {
        self.open(Class::Any);
        self.open(Class::Number(number));
        if self.prefixes > 0 {
            number.prefixes().for_each(|prefix| self.open(Class::Prefix(prefix)));
        }
    }

    fn first(&self, class: Class) -> Option<(Rank, u32)> {
        let first = self.classes.get(&class).and_then(BTreeMap::first_key_value);
        first.map(|(&rank, &place)| (rank, place))
    }

    fn open(&mut self, class: Class) {
        if let Some((rank, _)) = self.first(class) {
            self.open.insert((rank, class));
        }
    }

    fn next(&mut self, some_are_free: bool) -> Option<Waiter> {
        if let Some((_, place)) = self.certain.pop_first() {
            return self.remove(place);
        }
        if self.held_until.is_some() {
            return None;
        }
        loop {
            let (rank, class) = self.open.pop_first()?;
            if !some_are_free && !matches!(class, Class::Number(_)) {
                continue;
            }
            match self.first(class) {
                Some((first, place)) if first == rank => return self.remove(place),
                // Its first waiter has left, or another came before it.
                _ => self.open(class),
            }
        }
    }
}
