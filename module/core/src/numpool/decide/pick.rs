//! Picks a free number for a call.

use crate::invariant;
use crate::numpool::cells::State;
use crate::numpool::model::order::Order;
use crate::numpool::model::tree::{Best, Tree};
use crate::numpool::number::Number;
use crate::numpool::request::{Call, Policy};
use crate::numpool::state::{ByDigits, ByPeer, Pool};
use crate::shared::Millis;
use crate::shared::list::NONE;

/// The conditions and the policy of a choice. For a choice by prefix, the pool was prepared.
#[derive(Clone, Copy, Debug)]
pub(in crate::numpool) struct Selection<'a> {
    pub(super) policy: Policy,
    pub(super) prefix: Option<Number>,
    pub(super) peer: Option<&'a [u8]>,
    pub(super) random: u64,
}

impl<'a> Selection<'a> {
    /// What a call that names no number asks for.
    pub(in crate::numpool) fn of(pool: &Pool, call: &Call<'a>) -> Self {
        let policy = call.pick.unwrap_or(pool.settings.pick);
        Self { policy, prefix: call.prefix, peer: call.peer, random: call.random }
    }
}

impl Pool {
    /// The id of the number for a selection, if one is free: the first choice, unless its registration has lapsed by `now`.
    /// `decide_overdue` ends those in its way before, unless all have lapsed. O(1); by prefix or by use O(log n).
    pub(super) fn pick(&self, selection: &Selection<'_>, now: Millis) -> Option<u32> {
        self.first_choice(selection).filter(|&id| !self.has_lapsed(id, now))
    }

    /// Whether the choice among all numbers in the queue is one whose registration has lapsed.
    pub(in crate::numpool) fn first_choice_has_lapsed(&self, selection: &Selection<'_>, now: Millis) -> bool {
        self.first_choice(selection).is_some_and(|id| self.has_lapsed(id, now))
    }

    /// Whether the registrations of all numbers have lapsed. O(n), about a nanosecond each; usually much less.
    pub(in crate::numpool) fn all_have_lapsed(&self, now: Millis) -> bool {
        let up = self.counted(State::IdleUp) + self.counted(State::BusyUp);
        self.registrations.len() == up as usize && self.registrations.have_all_passed(now)
    }

    /// Whether the registration of a number has passed its deadline.
    pub(in crate::numpool) fn has_lapsed(&self, id: u32, now: Millis) -> bool {
        self.registrations.get(id).is_some_and(|until| until <= now)
    }

    /// The choice among all numbers in the queue.
    pub(super) fn first_choice(&self, selection: &Selection<'_>) -> Option<u32> {
        let id = match selection.policy {
            Policy::Longest => self.oldest(selection.prefix),
            Policy::Random => self.random(selection.prefix, selection.random),
            Policy::LeastUsed => self.least_used(selection.prefix),
            Policy::Sticky => match self.oldest_of_peer(selection.peer, selection.prefix) {
                NONE => self.oldest(selection.prefix),
                id => id,
            },
        };
        (id != NONE).then_some(id)
    }

    /// The order for a choice by prefix, unless no number is free.
    fn whole<'a>(&self, order: Option<&'a Order>) -> Option<&'a Tree> {
        let tree = order.and_then(Order::whole);
        invariant!(tree.is_some() || self.queue.is_empty(), "the order for a choice by prefix is whole");
        tree
    }

    /// The best of the numbers with a prefix.
    fn best(&self, prefix: Number) -> Best {
        let (least, greatest) = prefix.beginning_with();
        let tree = self.whole(self.by_digits.as_deref());
        let best = tree.map(|tree| tree.best((0, least), (0, greatest), &ByDigits(&self.directory)));
        best.unwrap_or_default()
    }

    fn oldest(&self, prefix: Option<Number>) -> u32 {
        prefix.map_or(self.queue.head, |prefix| self.best(prefix).oldest)
    }

    fn least_used(&self, prefix: Option<Number>) -> u32 {
        match prefix {
            Some(prefix) => self.best(prefix).least,
            None => self.least_used_of_all(),
        }
    }

    /// The number used least. O(1); while the order is being made, or there is none, O(numbers), one beside the other in
    /// memory. Then, of those used equally little, the number that has been idle for longest may have joined the queue behind
    /// another.
    fn least_used_of_all(&self) -> u32 {
        let so_far = match self.by_digits.as_deref() {
            Some(order) if order.whole().is_some() => return order.least_used_so_far(),
            order => order.map_or(NONE, Order::least_used_so_far),
        };
        let uses = |id: u32| self.directory.get(id).uses;
        if so_far != NONE && uses(so_far) == 0 {
            return so_far;
        }
        let (mut least, mut since, mut found) = (u32::MAX, Millis::MAX, NONE);
        for (id, record) in self.directory.values().filter(|(_, record)| record.is_queued()) {
            if record.uses < least || record.uses == least && record.since() < since {
                (least, since, found) = (record.uses, record.since(), id);
            }
        }
        // The numbers in the order have waited longer than all others.
        if so_far != NONE && uses(so_far) == least { so_far } else { found }
    }

    /// The longest waiting number whose last peer is this one, or `NONE`.
    fn oldest_of_peer(&self, peer: Option<&[u8]>, prefix: Option<Number>) -> u32 {
        let Some(peer) = peer.and_then(|name| self.peers.find(name)) else { return NONE };
        let Some(prefix) = prefix else {
            return self.peers.get(peer).map_or(NONE, |group| group.members.head);
        };
        let (least, greatest) = prefix.beginning_with();
        let tree = self.whole(self.by_peer.as_deref());
        let best = tree
            .map(|tree| tree.best((peer, least), (peer, greatest), &ByPeer(&self.directory, &self.peers)));
        best.unwrap_or_default().oldest
    }

    fn random(&self, prefix: Option<Number>, random: u64) -> u32 {
        let Some(prefix) = prefix else { return self.random_of_all(random) };
        let (count, (least, _)) = (self.best(prefix).count, prefix.beginning_with());
        let tree = self.whole(self.by_digits.as_deref()).filter(|_| count > 0);
        tree.map_or(NONE, |tree| tree.at((0, least), below(random, count), &ByDigits(&self.directory)))
    }

    /// Any free number. Ids are drawn until one is free, which takes a try or two while a good part of the pool
    /// is; where hardly any is, a walk of a random length along the queue is shorter. O(1) while a fixed share of
    /// the numbers is free, O(sqrt(n)) at worst.
    fn random_of_all(&self, mut random: u64) -> u32 {
        let (slots, free) = (self.directory.slots(), self.queue.len());
        if free == 0 {
            return NONE;
        }
        // Tries are some slots / free; steps some free / 2.
        if u64::from(slots) <= u64::from(free) * u64::from(free) {
            // Forty times as many fail less often than once in 10^17 times.
            for _ in 0..u64::from(slots / free + 1) * 40 {
                let id = below(random, slots);
                if self.directory.get(id).is_queued() {
                    return id;
                }
                random = next(random);
            }
        }
        let chosen = self.queue.iter(&self.directory).nth(below(random, free) as usize);
        invariant!(chosen.is_some(), "as many numbers are in the queue as it counts");
        chosen.unwrap_or(NONE)
    }
}

/// A number below `n` from a random one.
fn below(random: u64, n: u32) -> u32 {
    ((u128::from(random) * u128::from(n)) >> 64) as u32
}

/// The random number after another (SplitMix64, <https://prng.di.unimi.it/splitmix64.c>).
fn next(random: u64) -> u64 {
    let random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (random ^ (random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
