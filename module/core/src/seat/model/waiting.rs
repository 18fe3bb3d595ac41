//! The waiting list: users who wait for seats, in queues of equal wishes.

#![allow(clippy::indexing_slicing, reason = "numbers of waiters and queues come from the tables themselves")]

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
use std::collections::BTreeMap;

/// The most waiters of a show.
pub const MAX_WAITERS: usize = 1_000_000;

/// The most different wishes of a show's waiters. Freeing a seat costs a search for each.
pub const MAX_QUEUES: usize = 1000;

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
    /// Whether a search has found no seats for the wish since seats last became free. Not part of the state's bytes: it
    /// only saves searches.
    searched_in_vain: bool,
}

impl Queue {
    /// Whether a search may find seats for the wish. A wish that must strand no seat may become possible when others
    /// take seats; all others only when seats become free.
    pub(in crate::seat) fn may_be_served(&self) -> bool {
        !self.searched_in_vain || self.wish.orphans == Orphans::Forbid
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
    /// Whether somebody may be servable: the show has changed since the last time that nobody was.
    pub(in crate::seat) unserved: bool,
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

    /// The first ready waiter of each queue, by place.
    pub(in crate::seat) fn heads(&self) -> Vec<(Place, u32)> {
        let head = |queue: &Queue| queue.ready.first_key_value().map(|(&place, &id)| (place, id));
        let mut heads: Vec<(Place, u32)> = self.queues.iter().filter_map(|(_, queue)| head(queue)).collect();
        heads.sort_unstable();
        heads
    }

    /// Records that there are no seats for the wish of a waiter.
    pub(in crate::seat) fn searched_in_vain(&mut self, id: u32) {
        let queue = self.table[id].queue;
        self.queues[queue].searched_in_vain = true;
    }

    /// Seats may have become free: every wish is searched again; those for seats of a block only if `in_blocks` is set,
    /// because each of these searches looks at all seats of its block. O(queues).
    pub(in crate::seat) fn search_again(&mut self, in_blocks: bool) {
        for number in 0..self.queues.slots() {
            if let Some(queue) = self.queues.get_mut(number)
                && (in_blocks || queue.wish.from.is_none())
            {
                queue.searched_in_vain = false;
            }
        }
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
        let other = self.queues[queue].ready.insert(place, id);
        invariant!(other.is_none(), "each waiter has a place of its own");
        id
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
        let queue = &mut self.queues[waiter.queue];
        let list = if waiter.limited { &mut queue.limited } else { &mut queue.ready };
        let removed = list.remove(&waiter.place);
        invariant!(removed == Some(id), "a waiter is in a queue");
        if queue.len() == 0 {
            self.by_wish.remove(&encoded(&queue.wish), waiter.queue);
            self.queues.remove(waiter.queue);
        }
    }

    /// Records whether the limits forbid a hold for a waiter. Returns whether the waiter became ready.
    pub(in crate::seat) fn set_limited(&mut self, id: u32, limited: bool) -> bool {
        let waiter = &mut self.table[id];
        if waiter.limited == limited {
            return false;
        }
        waiter.limited = limited;
        let (place, queue) = (waiter.place, &mut self.queues[waiter.queue]);
        let (from, to) = if limited {
            (&mut queue.ready, &mut queue.limited)
        } else {
            (&mut queue.limited, &mut queue.ready)
        };
        let removed = from.remove(&place);
        invariant!(removed == Some(id), "a waiter is in a queue");
        to.insert(place, id);
        !limited
    }

    /// Changes the wishes of all waiters. Queues whose wishes become equal become one. O(waiters log waiters).
    pub(in crate::seat) fn change_wishes(&mut self, change: impl Fn(&mut LastingWish)) {
        let queues = std::mem::take(&mut self.queues);
        self.by_wish = NameIndex::default();
        for (_, queue) in queues.iter() {
            let mut wish = queue.wish.clone();
            change(&mut wish);
            let id = self.queue_or_new(&wish);
            let joined = &mut self.queues[id];
            joined.ready.extend(&queue.ready);
            joined.limited.extend(&queue.limited);
            for &waiter in queue.ready.values().chain(queue.limited.values()) {
                self.table[waiter].queue = id;
            }
        }
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
        }
        let wishes: Vec<(u32, Vec<u8>)> =
            self.queues.iter().map(|(id, queue)| (id, encoded(&queue.wish))).collect();
        self.by_wish.check(wishes.iter().map(|(id, wish)| (*id, &wish[..])))
    }

    /// Bytes allocated, the nodes of the queues estimated.
    pub fn allocated(&self) -> usize {
        // A node of a B-tree of 11 entries is two thirds full.
        const ENTRY: usize = 36;
        let spilled = |bytes: &Bytes| if bytes.spilled() { bytes.capacity() } else { 0 };
        let texts = |waiter: &Waiter| spilled(&waiter.token) + 2 * spilled(&waiter.user);
        self.table.allocated()
            + self.table.iter().map(|(_, waiter)| texts(waiter)).sum::<usize>()
            + self.table.len() * ENTRY
            + self.queues.allocated()
            + self.by_token.allocated()
            + self.by_user.allocation_size()
            + self.by_wish.allocated()
            + self.deadlines.allocated()
    }

    fn queue_or_new(&mut self, wish: &LastingWish) -> u32 {
        if let Some(queue) = self.queue_for(wish) {
            return queue;
        }
        let queue = Queue {
            wish: wish.clone(),
            ready: BTreeMap::new(),
            limited: BTreeMap::new(),
            searched_in_vain: false,
        };
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
