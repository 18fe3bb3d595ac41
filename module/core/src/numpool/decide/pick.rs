//! Picks a free number for a call.

use crate::invariant;
use crate::numpool::cells::State;
use crate::numpool::model::tree::Tree;
use crate::numpool::number::Number;
use crate::numpool::request::{Call, Policy};
use crate::numpool::state::{ByDigits, ByPeer, Pool};
use crate::shared::Millis;
use crate::shared::list::{List, NONE};

/// The conditions and the policy of a choice.
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
    /// The id of the number for a selection, if one is free and its registration has not lapsed by `now`. O(1); by
    /// prefix or by use O(log n) in a pool that was prepared for it, otherwise a walk along the queue. Also a walk if
    /// the registration of the first choice has lapsed and the timer has not ended it yet.
    pub(super) fn pick(&self, selection: &Selection<'_>, now: Millis) -> Option<u32> {
        let id = self.pick_with_lapsed(selection)?;
        if !self.has_lapsed(id, now) {
            return Some(id);
        }
        if self.all_have_lapsed(now) {
            return None;
        }
        let mut registered = self.walk(selection.prefix).filter(|&id| !self.has_lapsed(id, now));
        match selection.policy {
            Policy::Longest => registered.next(),
            Policy::LeastUsed => registered.min_by_key(|&id| self.directory.get(id).uses),
            Policy::Random => {
                let all: Vec<u32> = registered.collect();
                all.get(below(selection.random, all.len() as u32) as usize).copied()
            }
            Policy::Sticky => {
                let mut of_peer = self.of_peer(selection.peer, selection.prefix);
                of_peer.find(|&id| !self.has_lapsed(id, now)).or_else(|| registered.next())
            }
        }
    }

    /// Whether the choice among all numbers in the queue is one whose registration has lapsed.
    pub(in crate::numpool) fn first_choice_has_lapsed(&self, selection: &Selection<'_>, now: Millis) -> bool {
        self.pick_with_lapsed(selection).is_some_and(|id| self.has_lapsed(id, now))
    }

    /// Whether the registrations of all numbers have lapsed. O(n), about a nanosecond each; usually much less.
    pub(in crate::numpool) fn all_have_lapsed(&self, now: Millis) -> bool {
        let up = self.counted(State::IdleUp) + self.counted(State::BusyUp);
        self.registrations.len() == up as usize && self.registrations.have_all_passed(now)
    }

    /// Whether the registration of a number has passed its deadline.
    pub(super) fn has_lapsed(&self, id: u32, now: Millis) -> bool {
        self.registrations.get(id).is_some_and(|until| until <= now)
    }

    /// The choice among all numbers in the queue.
    fn pick_with_lapsed(&self, selection: &Selection<'_>) -> Option<u32> {
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

    /// Free numbers with a prefix, the longest waiting first, by a walk along the queue.
    fn walk(&self, prefix: Option<Number>) -> impl Iterator<Item = u32> + '_ {
        let fits = move |id: &u32| prefix.is_none_or(|prefix| self.number(*id).begins_with(prefix));
        self.queue.iter(&self.directory).filter(fits)
    }

    fn by_digits(&self) -> Option<&Tree> {
        self.by_digits.as_ref()?.whole()
    }

    fn oldest(&self, prefix: Option<Number>) -> u32 {
        let Some(prefix) = prefix else { return self.queue.head };
        match self.by_digits() {
            Some(tree) => {
                let (least, greatest) = prefix.beginning_with();
                tree.best((0, least), (0, greatest), &ByDigits(&self.directory)).oldest
            }
            None => self.walk(Some(prefix)).next().unwrap_or(NONE),
        }
    }

    fn least_used(&self, prefix: Option<Number>) -> u32 {
        let uses = |id: &u32| self.directory.get(*id).uses;
        match (self.by_digits(), prefix) {
            (Some(tree), None) => tree.least_used(),
            (Some(tree), Some(prefix)) => {
                let (least, greatest) = prefix.beginning_with();
                tree.best((0, least), (0, greatest), &ByDigits(&self.directory)).least
            }
            (None, None) => self.least_used_without_order(),
            (None, Some(_)) => self.walk(prefix).min_by_key(uses).unwrap_or(NONE),
        }
    }

    /// The number used least while the order is being made, or there is none. O(numbers), one beside the other in memory.
    /// If several were used least, also a walk along the queue, from the first number that is not in the order yet to the
    /// first of them.
    fn least_used_without_order(&self) -> u32 {
        let uses = |id: u32| self.directory.get(id).uses;
        let (ordered, next) =
            self.by_digits.as_ref().map_or((NONE, self.queue.head), |order| order.least_used_so_far());
        if ordered != NONE && uses(ordered) == 0 {
            return ordered;
        }
        let (mut least, mut found, mut is_alone) = (u32::MAX, NONE, true);
        for (id, record) in self.directory.values().filter(|(_, record)| record.is_queued()) {
            if found == NONE || record.uses < least {
                (least, found, is_alone) = (record.uses, id, true);
            } else if record.uses == least {
                is_alone = false;
            }
        }
        // The numbers in the order have waited longer than all others.
        if ordered != NONE && uses(ordered) == least {
            return ordered;
        }
        if is_alone {
            return found;
        }
        let mut others = List::iter_from(next, &self.directory);
        others.find(|&id| uses(id) == least).unwrap_or(NONE)
    }

    /// The longest waiting number whose last peer is this one, or `NONE`.
    fn oldest_of_peer(&self, peer: Option<&[u8]>, prefix: Option<Number>) -> u32 {
        let Some((name, peer)) = peer.and_then(|name| Some((name, self.peers.find(name)?))) else {
            return NONE;
        };
        let Some(prefix) = prefix else {
            return self.peers.get(peer).map_or(NONE, |group| group.members.head);
        };
        if let Some(tree) = self.by_peer.as_ref().and_then(|order| order.whole()) {
            let (least, greatest) = prefix.beginning_with();
            tree.best((peer, least), (peer, greatest), &ByPeer(&self.directory, &self.peers)).oldest
        } else {
            self.of_peer(Some(name), Some(prefix)).next().unwrap_or(NONE)
        }
    }

    /// Free numbers whose last peer is this one, the longest waiting first, by a walk.
    fn of_peer(&self, peer: Option<&[u8]>, prefix: Option<Number>) -> impl Iterator<Item = u32> + '_ {
        let peer = peer.and_then(|peer| self.peers.find(peer)).unwrap_or(NONE);
        let fits = move |id: &u32| prefix.is_none_or(|prefix| self.number(*id).begins_with(prefix));
        self.peers.listed(peer).filter(fits)
    }

    fn random(&self, prefix: Option<Number>, random: u64) -> u32 {
        let Some(prefix) = prefix else { return self.random_of_all(random) };
        if let Some(tree) = self.by_digits() {
            let (least, greatest) = prefix.beginning_with();
            let data = ByDigits(&self.directory);
            match tree.best((0, least), (0, greatest), &data).count {
                0 => NONE,
                count => tree.at((0, least), below(random, count), &data),
            }
        } else {
            let count = self.walk(Some(prefix)).count() as u32;
            if count == 0 {
                return NONE;
            }
            self.nth(Some(prefix), below(random, count))
        }
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
        self.nth(None, below(random, free))
    }

    /// The number at a place of those with a prefix, counted from 0, the longest waiting first; it is there.
    fn nth(&self, prefix: Option<Number>, place: u32) -> u32 {
        let id = self.walk(prefix).nth(place as usize);
        invariant!(id.is_some(), "as many numbers are in the queue as were counted");
        id.unwrap_or(NONE)
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
