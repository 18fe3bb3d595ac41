//! The waiting list: users who wait for seats, in queues of equal wishes, and how far it was examined for seats that became
//! free.
//!
//! A seat that becomes free while somebody waits is *queued*: it is given to nobody else until no wish that waits can have
//! it. The queues are examined in the order of their first waiters. A wish that free seats did not meet before can only be
//! met by seats that have changed since, so a queue looks at these alone; a queue that is *unsearched* looks at all seats.

#![allow(clippy::indexing_slicing, reason = "numbers of waiters and queues come from the tables themselves")]

use super::venue::Seat;
use super::wish::{LastingWish, Orphans};
use crate::shared::codec::Writer;
use crate::shared::deadlines::Deadlines;
use crate::shared::invariant::Checked;
use crate::shared::invariant::Expected;
use crate::shared::names::NameIndex;
use crate::shared::table::Table;
use crate::shared::{Bytes, Millis};
use crate::{ensure, invariant};
use hashbrown::HashMap;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The most waiters of a show.
pub const MAX_WAITERS: usize = 1_000_000;

/// The most different wishes of a show's waiters. A seat that becomes free is compared with each.
pub const MAX_QUEUES: usize = 1000;

/// The most changed seats that are listed; of more, every wish is searched for among all seats.
const MAX_CHANGED: usize = 100_000;

/// The most changed seats that a queue looks at one by one. To search all seats takes less time than to look at more.
const LOOKED_AT: usize = 500;

/// The most queued seats while others may have seats, whose searches leave each of them out.
const MAX_HIDDEN: usize = 1000;

/// No waiter has a place before this one.
const FIRST: Place = (Reverse(i32::MAX), 0);

/// The place of a waiter: the highest priority first, then the earliest arrival.
pub type Place = (Reverse<i32>, u64);

/// A user who waits.
#[derive(Clone, Debug)]
pub struct Waiter {
    /// Name of the wait, and later of the offered hold.
    pub token: Bytes,
    /// The user.
    pub user: Bytes,
    /// Number of the queue.
    pub(in crate::seat) queue: u32,
    /// Place among all waiters.
    pub place: Place,
    /// When the user began to wait.
    pub since: Millis,
    /// When the user stops waiting.
    pub until: Millis,
    /// Time to live of the offered hold, in milliseconds.
    pub offer: Millis,
    /// Hash of the request, by which a retry is recognised; 0 if the caller chose no token.
    pub fingerprint: u64,
    /// Whether the limits of the show forbid a hold for this user now.
    limited: bool,
}

/// Waiters with one wish, by place.
#[derive(Clone, Debug)]
pub struct Queue {
    /// The wish of each.
    pub wish: LastingWish,
    /// Waiters who may get a hold.
    ready: BTreeMap<Place, u32>,
    /// Waiters whose user may have no further hold or seat now.
    limited: BTreeMap<Place, u32>,
    /// How many changed seats the queue has looked at, counted from the first that ever changed. Like the fields below, it
    /// is not part of the state's bytes: it only saves searches.
    seen: u64,
    /// Whether free seats may meet the wish that are not queued.
    unsearched: bool,
    /// Whether nothing is known of earlier searches: there was none, or the last found seats.
    fresh: bool,
    /// The wish cannot be met before so many seats that it may take have become free; at least 1. Only of a wish that may
    /// split.
    pub(in crate::seat) missing: u32,
}

impl Queue {
    /// The first waiter who may get a hold.
    fn head(&self) -> Option<(Place, u32)> {
        self.ready.first_key_value().map(|(&place, &id)| (place, id))
    }

    /// Waiters of the queue before a place. O(waiters of the queue).
    fn before(&self, place: Place) -> usize {
        self.ready.range(..place).count() + self.limited.range(..place).count()
    }

    fn len(&self) -> usize {
        self.ready.len() + self.limited.len()
    }

    /// Whether every waiter of the queue is before a place.
    fn ends_before(&self, place: Place) -> bool {
        let before =
            |list: &BTreeMap<Place, u32>| list.last_key_value().is_none_or(|(&last, _)| last < place);
        before(&self.ready) && before(&self.limited)
    }
}

/// All waiters of a show.
#[derive(Clone, Debug, Default)]
pub struct Waiters {
    pub(in crate::seat) table: Table<Waiter>,
    queues: Table<Queue>,
    by_token: NameIndex,
    by_user: HashMap<Bytes, SmallVec<[u32; 2]>>,
    by_wish: NameIndex,
    pub(in crate::seat) deadlines: Deadlines,
    /// Arrivals so far.
    pub(in crate::seat) arrivals: u64,
    /// Whether the list is to be examined: the show has changed since nobody could be served.
    pub(in crate::seat) unserved: bool,
    /// Free seats that are given to nobody who does not wait. They are part of the state's bytes.
    queued: BTreeSet<Seat>,
    /// The place of the first ready waiter of each queue, and the queue.
    heads: BTreeSet<(Place, u32)>,
    /// The queues before this place have been examined; any place while nobody waits.
    next: Place,
    /// Seats that changed since the list was last examined to its end, the earliest first. Seats that were taken are among
    /// them if somebody waits who forbids orphans: such a wish may become possible when others take seats.
    changed: Vec<Seat>,
    /// How many seats changed before those.
    changed_before: u64,
    /// Number of queues that are unsearched.
    unsearched: usize,
    /// Number of queues whose wish forbids orphans.
    forbidding: usize,
}

impl Waiters {
    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Number of waiters.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// The waiter of that token.
    pub fn find(&self, token: &[u8]) -> Option<u32> {
        if self.is_empty() {
            return None;
        }
        self.by_token.find(token, |id| self.table[id].token[..] == *token)
    }

    /// The waiter of that number, which must exist.
    pub fn get(&self, id: u32) -> &Waiter {
        &self.table[id]
    }

    /// The queue of a waiter.
    pub fn queue_of(&self, waiter: &Waiter) -> &Queue {
        &self.queues[waiter.queue]
    }

    /// Number of queues.
    pub fn queues(&self) -> usize {
        self.queues.len()
    }

    /// Waiters of a user.
    pub fn of_user(&self, user: &[u8]) -> &[u32] {
        self.by_user.get(user).map_or(&[], |waits| &waits[..])
    }

    /// Whether some waiter has this wish.
    pub fn has_queue(&self, wish: &LastingWish) -> bool {
        self.queue_for(wish).is_some()
    }

    fn queue_for(&self, wish: &LastingWish) -> Option<u32> {
        self.by_wish.find(&encoded(wish), |id| self.queues[id].wish == *wish)
    }

    /// Seats that are free for nobody who does not wait.
    pub fn queued(&self) -> &BTreeSet<Seat> {
        &self.queued
    }

    /// Whether a free seat is kept for those who wait.
    #[inline]
    pub fn is_queued(&self, seat: Seat) -> bool {
        !self.queued.is_empty() && self.queued.contains(&seat)
    }

    /// Whether nobody else may have any seat before the list is examined: seats that are free to all may meet a wish that
    /// waits, or too many seats are queued.
    pub fn is_closed(&self) -> bool {
        self.unsearched > 0 || self.unserved && self.forbidding > 0 || self.queued.len() > MAX_HIDDEN
    }

    /// The seats that have changed since a queue was last examined; `None` if all seats are to be searched.
    pub(in crate::seat) fn changed_for(&self, queue: &Queue) -> Option<&[Seat]> {
        // A queue without a ready waiter may have missed changes.
        let seen =
            queue.seen.checked_sub(self.changed_before).filter(|_| !queue.unsearched && !queue.fresh)?;
        self.changed.get(seen as usize..).filter(|changed| changed.len() <= LOOKED_AT)
    }

    /// Seats have become free, or have changed in another way.
    pub(in crate::seat) fn note_changed(&mut self, seats: &[Seat], free: bool) {
        if self.is_empty() {
            return;
        }
        if free {
            self.queued.extend(seats);
        } else if !self.queued.is_empty() {
            seats.iter().for_each(|seat| _ = self.queued.remove(seat));
        }
        if !free && self.forbidding == 0 {
            return;
        }
        self.changed.extend(seats);
        self.examine_from_first();
        if self.changed.len() > MAX_CHANGED {
            self.forget_changed();
            self.search_all(|_| true);
        }
    }

    /// All seats are searched again for the wishes that `which` chooses. O(queues).
    pub(in crate::seat) fn search_all(&mut self, which: impl Fn(&LastingWish) -> bool) {
        for number in 0..self.queues.slots() {
            if self.queues.get(number).is_some_and(|queue| which(&queue.wish)) {
                self.search_for(number);
            }
        }
    }

    /// All seats are searched again for the wish of a queue.
    pub(in crate::seat) fn search_for(&mut self, queue: u32) {
        let before = std::mem::replace(&mut self.queues[queue].unsearched, true);
        self.unsearched += usize::from(!before);
        self.examine_from_first();
    }

    fn examine_from_first(&mut self) {
        self.unserved = true;
        self.next = FIRST;
    }

    /// The waiter to examine next: the first of a queue that has not seen all changes. `None` once nobody who waits can be
    /// served. O(log queues), and O(1) for each queue that need not be examined.
    pub(in crate::seat) fn next_to_examine(&mut self) -> Option<u32> {
        let is_to_do = |queue: &Queue| self.changed_for(queue).is_none_or(|changed| !changed.is_empty());
        let mut heads = self.heads.range((self.next, 0)..);
        let &(place, queue) = heads.find(|&&(_, queue)| is_to_do(&self.queues[queue]))?;
        self.next = place;
        self.queues[queue]
            .ready
            .get(&place)
            .copied()
            .expected("the head of a queue is its first ready waiter")
    }

    /// A waiter is about to get seats.
    pub(in crate::seat) fn note_served(&mut self, id: u32) {
        let queue = self.table[id].queue;
        self.queues[queue].fresh = true;
    }

    /// No seats meet the wish of a waiter, which `missing` more may do.
    pub(in crate::seat) fn note_in_vain(&mut self, id: u32, missing: u32) {
        let end = self.changed_before + self.changed.len() as u64;
        let queue = &mut self.queues[self.table[id].queue];
        self.unsearched -= usize::from(queue.unsearched);
        (queue.seen, queue.unsearched, queue.fresh, queue.missing) = (end, false, false, missing);
    }

    /// No wish that waits can be met. O(1), and O(queues) if queues without a ready waiter were to be searched for.
    pub(in crate::seat) fn note_examined(&mut self) {
        self.forget_changed();
        self.unserved = false;
        if self.unsearched == 0 {
            return;
        }
        self.unsearched = 0;
        for number in 0..self.queues.slots() {
            if let Some(queue) = self.queues.get_mut(number) {
                queue.unsearched = false;
            }
        }
    }

    fn forget_changed(&mut self) {
        self.changed_before += self.changed.len() as u64;
        self.changed.clear();
        self.changed.shrink_to(LOOKED_AT);
    }

    /// Seats have other numbers, or other rules apply: each wish is searched for among all seats, and until then nobody else
    /// may have any.
    pub(in crate::seat) fn search_anew(&mut self) {
        self.forget_changed();
        self.free_queued();
        self.search_all(|_| true);
    }

    /// Queued seats are free to all. O(1).
    pub(in crate::seat) fn free_queued(&mut self) {
        self.queued.clear();
    }

    /// Queued seats of a snapshot.
    pub(in crate::seat) fn set_queued(&mut self, seats: &[Seat]) {
        self.queued = seats.iter().copied().collect();
    }

    /// The position of a waiter in its queue, from 1. O(waiters of the queue); O(log waiters) for the last.
    pub fn position(&self, id: u32) -> usize {
        let waiter = &self.table[id];
        let queue = &self.queues[waiter.queue];
        let next = (waiter.place.0, waiter.place.1 + 1);
        if queue.ends_before(next) { queue.len() } else { queue.before(waiter.place) + 1 }
    }

    /// The position that a new waiter with this wish and priority would have. As `position`.
    pub fn next_position(&self, wish: &LastingWish, priority: i32) -> usize {
        let Some(queue) = self.queue_for(wish) else { return 1 };
        let (queue, place) = (&self.queues[queue], (Reverse(priority), u64::MAX));
        let before = if queue.ends_before(place) { queue.len() } else { queue.before(place) };
        before + 1
    }

    /// Adds a waiter whose token is not in use. The waiter is ready. `times` are the beginning and the end of the wait,
    /// and the time to live of the offer.
    pub(in crate::seat) fn add(
        &mut self,
        token: Bytes,
        user: Bytes,
        wish: &LastingWish,
        place: Place,
        times: [Millis; 3],
        fingerprint: u64,
    ) -> u32 {
        let queue = self.queue_or_new(wish);
        let [since, until, offer] = times;
        let waiter = Waiter { token, user, queue, place, since, until, offer, fingerprint, limited: false };
        let id = self.table.insert(waiter);
        let waiter = &self.table[id];
        self.by_token.insert(&waiter.token, id);
        self.by_user.entry(waiter.user.clone()).or_default().push(id);
        self.deadlines.set(id, until);
        self.next = self.next.min(place);
        let other = self.change_queue(queue, |queue| queue.ready.insert(place, id));
        invariant!(other.is_none(), "each waiter has a place of its own");
        id
    }

    /// Changes who waits in a queue.
    fn change_queue<T>(&mut self, number: u32, change: impl FnOnce(&mut Queue) -> T) -> T {
        let queue = &mut self.queues[number];
        let before = queue.head();
        let done = change(queue);
        let after = queue.head();
        if before != after {
            if let Some((place, _)) = before {
                self.heads.remove(&(place, number));
            }
            if let Some((place, _)) = after {
                self.heads.insert((place, number));
            }
        }
        done
    }

    /// Removes a waiter.
    pub(in crate::seat) fn remove(&mut self, id: u32) {
        let Some(waiter) = self.table.remove(id).expected("a waiter who leaves is on the list") else {
            return;
        };
        self.by_token.remove(&waiter.token, id);
        self.deadlines.remove(id);
        match self.by_user.get_mut(&waiter.user) {
            Some(waits) => waits.retain(|other| *other != id),
            None => invariant!("a waiter is among those of a user"),
        }
        if self.of_user(&waiter.user).is_empty() {
            self.by_user.remove(&waiter.user);
        }
        let removed = self.change_queue(waiter.queue, |queue| {
            let list = if waiter.limited { &mut queue.limited } else { &mut queue.ready };
            list.remove(&waiter.place)
        });
        invariant!(removed == Some(id), "a waiter is in a queue");
        let queue = &self.queues[waiter.queue];
        if queue.len() == 0 {
            self.unsearched -= usize::from(queue.unsearched);
            self.forbidding -= usize::from(queue.wish.orphans == Orphans::Forbid);
            self.by_wish.remove(&encoded(&queue.wish), waiter.queue);
            self.queues.remove(waiter.queue);
        }
        if self.is_empty() {
            self.note_examined();
            self.free_queued();
        }
    }

    /// Records whether the limits forbid a hold for a waiter. Returns whether the waiter became ready.
    pub(in crate::seat) fn set_limited(&mut self, id: u32, limited: bool) -> bool {
        let waiter = &mut self.table[id];
        if waiter.limited == limited {
            return false;
        }
        waiter.limited = limited;
        let (place, queue) = (waiter.place, waiter.queue);
        let removed = self.change_queue(queue, |queue| {
            let (from, to) = if limited {
                (&mut queue.ready, &mut queue.limited)
            } else {
                (&mut queue.limited, &mut queue.ready)
            };
            to.insert(place, id);
            from.remove(&place)
        });
        invariant!(removed == Some(id), "a waiter is in a queue");
        !limited
    }

    /// Changes the wishes of all waiters, which are then searched for among all seats. Queues whose wishes become equal
    /// become one. O(waiters log waiters).
    pub(in crate::seat) fn change_wishes(&mut self, change: impl Fn(&mut LastingWish)) {
        let queues = std::mem::take(&mut self.queues);
        self.by_wish = NameIndex::default();
        self.heads.clear();
        (self.unsearched, self.forbidding) = (0, 0);
        for (_, queue) in queues.iter() {
            let mut wish = queue.wish.clone();
            change(&mut wish);
            let id = self.queue_or_new(&wish);
            self.change_queue(id, |joined| {
                joined.ready.extend(&queue.ready);
                joined.limited.extend(&queue.limited);
            });
            for &waiter in queue.ready.values().chain(queue.limited.values()) {
                self.table[waiter].queue = id;
            }
        }
        self.search_all(|_| true);
    }

    /// Checks waiters, queues, names and deadlines against one another. O(waiters).
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Checked {
        self.table.check()?;
        self.queues.check()?;
        self.deadlines.check()?;
        self.by_token.check(self.table.iter().map(|(id, waiter)| (id, &waiter.token[..])))?;
        for (id, waiter) in self.table.iter() {
            let queue = self.queues.get(waiter.queue);
            let list = queue.map(|queue| if waiter.limited { &queue.limited } else { &queue.ready });
            let listed = list.and_then(|list| list.get(&waiter.place));
            ensure!(listed == Some(&id), "waiter {id} is not in its queue");
            ensure!(self.deadlines.get(id) == Some(waiter.until), "waiter {id} has another deadline");
            ensure!(self.of_user(&waiter.user).contains(&id), "waiter {id} is not among its user's");
            ensure!(waiter.place.1 < self.arrivals, "waiter {id} arrived after the last one");
        }
        let (waiters, deadlines) = (self.table.len(), self.deadlines.len());
        ensure!(deadlines == waiters, "{waiters} waiters have {deadlines} deadlines");
        let queued: usize = self.queues.iter().map(|(_, queue)| queue.len()).sum();
        ensure!(queued == waiters, "the queues have {queued} of {waiters} waiters");
        let of_users: usize = self.by_user.values().map(SmallVec::len).sum();
        ensure!(of_users == waiters, "users have {of_users} of {waiters} waiters");
        for (id, queue) in self.queues.iter() {
            ensure!(queue.len() > 0, "queue {id} is empty");
            let listed = queue.head().is_none_or(|(place, _)| self.heads.contains(&(place, id)));
            ensure!(listed, "the first waiter of queue {id} is not among the heads");
        }
        let ready = self.queues.iter().filter(|(_, queue)| !queue.ready.is_empty()).count();
        ensure!(self.heads.len() == ready, "{ready} queues have {} heads", self.heads.len());
        let unsearched = self.queues.iter().filter(|(_, queue)| queue.unsearched).count();
        ensure!(unsearched == self.unsearched, "{unsearched} queues are unsearched, not {}", self.unsearched);
        let forbidding = self.queues.iter().filter(|(_, queue)| queue.wish.orphans == Orphans::Forbid);
        ensure!(forbidding.count() == self.forbidding, "the wishes without orphans are miscounted");
        let is_at_rest = self.changed.is_empty() && self.unsearched == 0;
        ensure!(self.unserved || is_at_rest, "a list that is examined has changed seats");
        ensure!(self.unserved || self.queued.is_empty(), "seats are queued, and nobody is examined");
        ensure!(waiters > 0 || self.queued.is_empty(), "seats are queued for nobody");
        let wishes: Vec<(u32, Vec<u8>)> =
            self.queues.iter().map(|(id, queue)| (id, encoded(&queue.wish))).collect();
        self.by_wish.check(wishes.iter().map(|(id, wish)| (*id, &wish[..])))
    }

    /// Bytes allocated, the nodes of the queues estimated.
    pub fn allocated(&self) -> usize {
        // A node of a B-tree of 11 entries is two thirds full.
        const ENTRY: usize = 36;
        let texts = |waiter: &Waiter| waiter.token.allocated() + 2 * waiter.user.allocated();
        self.table.allocated()
            + self.table.iter().map(|(_, waiter)| texts(waiter)).sum::<usize>()
            + self.table.len() * ENTRY
            + self.queues.allocated()
            + self.by_token.allocated()
            + self.by_user.allocation_size()
            + self.by_wish.allocated()
            + self.deadlines.allocated()
            + self.queued.len() * size_of::<Seat>() * 3 / 2
            + self.changed.capacity() * size_of::<Seat>()
            + self.heads.len() * size_of::<(Place, u32)>() * 3 / 2
    }

    fn queue_or_new(&mut self, wish: &LastingWish) -> u32 {
        if let Some(queue) = self.queue_for(wish) {
            return queue;
        }
        let queue = Queue {
            wish: wish.clone(),
            ready: BTreeMap::new(),
            limited: BTreeMap::new(),
            seen: self.changed_before,
            unsearched: false,
            fresh: true,
            missing: 1,
        };
        self.forbidding += usize::from(wish.orphans == Orphans::Forbid);
        let id = self.queues.insert(queue);
        self.by_wish.insert(&encoded(wish), id);
        id
    }
}

/// A wish as the key of its queue.
fn encoded(wish: &LastingWish) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.field(wish);
    writer.bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seat::wish::{Adjacent, Wish};

    /// Ann and Bob wait for two seats, and the limits forbid Bob a hold; Cid waits for three.
    fn three_waiters() -> Waiters {
        let mut waiters = Waiters::default();
        for (arrival, (user, count)) in [(b"ann", 2), (b"bob", 2), (b"cid", 3)].into_iter().enumerate() {
            let wish = Wish {
                count,
                tier: None,
                areas: vec![],
                adjacent: Adjacent::Prefer,
                orphans: Orphans::Avoid,
                flags: 0,
                needs: vec![],
                preferred: 0,
                from: None,
            };
            let (user, place) = (Bytes::from_slice(user), (Reverse(0), arrival as u64));
            waiters.add(user.clone(), user, &wish, place, [1, 100, 10], 0);
        }
        waiters.arrivals = 3;
        waiters.set_limited(1, true);
        waiters
    }

    #[test]
    fn check_finds_a_damaged_waiting_list() {
        let sound = three_waiters();
        assert_eq!(sound.check(), Ok(()));
        let damages: [fn(&mut Waiters); 13] = [
            |waiters| waiters.table[0].queue = 1,
            |waiters| waiters.table[0].limited = true,
            |waiters| waiters.table[0].place.1 = 7,
            |waiters| waiters.table[0].until = 101,
            |waiters| waiters.table[0].user = Bytes::from_slice(b"bob"),
            |waiters| waiters.arrivals = 2,
            |waiters| _ = waiters.queues[0].ready.insert((Reverse(0), 9), 2),
            |waiters| waiters.queues[1].wish.count = 4,
            |waiters| waiters.by_token.remove(b"ann", 0),
            |waiters| waiters.by_user.entry(Bytes::from_slice(b"ann")).or_default().push(2),
            |waiters| waiters.by_wish.insert(b"", 0),
            |waiters| waiters.deadlines.remove(2),
            |waiters| waiters.deadlines.set(3, 9),
        ];
        for (number, damage) in damages.iter().enumerate() {
            let mut waiters = sound.clone();
            damage(&mut waiters);
            assert!(waiters.check().is_err(), "damage {number} is not found");
        }
    }
}
