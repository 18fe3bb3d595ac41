//! Picks a free number for a call.

use crate::invariant;
use crate::numpool::model::sorted_free::Numbers;
use crate::numpool::model::tree::Best;
use crate::numpool::number::Number;
use crate::numpool::request::{Call, Policy};
use crate::numpool::state::Pool;
use crate::shared::Millis;
use crate::shared::list::NONE;

impl Pool {
    /// The id of the number for a call that names none, if one is free and its registration has not lapsed by `now`. O(1); by
    /// prefix or by use O(log n) for each prefix, and the free numbers are sorted.
    pub(super) fn pick(&self, call: &Call<'_>, now: Millis) -> Option<u32> {
        let first = |choose: &dyn Fn(Option<Number>) -> u32| match call.prefixes {
            [] => choose(None),
            prefixes => {
                let mut chosen = prefixes.iter().map(|&prefix| choose(Some(prefix)));
                chosen.find(|&id| id != NONE).unwrap_or(NONE)
            }
        };
        let id = match call.pick.unwrap_or(self.settings.pick) {
            Policy::Longest => first(&|prefix| self.oldest(prefix)),
            Policy::Random => first(&|prefix| self.random(prefix, call.random)),
            Policy::LeastUsed => first(&|prefix| self.least_used(prefix)),
            // The number of the peer may have any of the prefixes.
            Policy::Sticky => match first(&|prefix| self.of_peer(call.peer, prefix, now)) {
                NONE => first(&|prefix| self.oldest(prefix)),
                id => id,
            },
        };
        (id != NONE && !self.has_lapsed(id, now)).then_some(id)
    }

    /// Whether the registration of a number has passed its deadline.
    pub(super) fn has_lapsed(&self, id: u32, now: Millis) -> bool {
        self.registrations.get(id).is_some_and(|until| until <= now)
    }

    /// Whether a lease has passed its deadline.
    pub(super) fn has_expired(&self, lease: u32, now: Millis) -> bool {
        self.lease_end(lease).is_some_and(|until| until <= now)
    }

    /// Whether a number goes because the lease of its last call has passed its deadline.
    pub(super) fn is_gone(&self, number: Number, now: Millis) -> bool {
        let id = self.directory.find(number).filter(|&id| self.is_draining(id));
        id.is_some_and(|id| self.has_expired(self.directory.get(id).lease(), now))
    }

    /// The best of the numbers with a prefix.
    fn best(&self, prefix: Number, peer: Option<u32>) -> Best {
        let numbers = Numbers { directory: &self.directory, peers: &self.peers };
        self.sorted.best(prefix, peer, numbers)
    }

    fn oldest(&self, prefix: Option<Number>) -> u32 {
        prefix.map_or(self.queue.head, |prefix| self.best(prefix, None).oldest)
    }

    fn least_used(&self, prefix: Option<Number>) -> u32 {
        let least = match prefix {
            Some(prefix) => Some(self.best(prefix, None).least),
            None => self.sorted.least_used(),
        };
        invariant!(least.is_some(), "there is a whole tree for a choice by use");
        least.unwrap_or(NONE)
    }

    /// The last number of a peer, if the pool remembers it and it is free; or `NONE`.
    fn last_of_peer(&self, peer: &[u8], prefix: Option<Number>, now: Millis) -> u32 {
        let number = self.last_numbers.find(peer, self.settings.peerttl, now);
        let number = number.filter(|&number| {
            let range = prefix.map(Number::beginning_with);
            range.is_none_or(|(least, greatest)| (least..=greatest).contains(&number))
        });
        let id = number.and_then(|number| self.directory.find(number));
        id.filter(|&id| self.directory.get(id).is_queued()).unwrap_or(NONE)
    }

    /// The last number of a peer; or, in a pool that remembers no peers, the longest waiting number whose last peer is this
    /// one. `NONE` if there is none.
    fn of_peer(&self, peer: Option<&[u8]>, prefix: Option<Number>, now: Millis) -> u32 {
        let Some(name) = peer else { return NONE };
        if self.settings.peers > 0 {
            return self.last_of_peer(name, prefix, now);
        }
        let Some(peer) = self.peers.find(name) else { return NONE };
        match prefix {
            Some(prefix) => self.best(prefix, Some(peer)).oldest,
            None => self.peers.get(peer).map_or(NONE, |group| group.members.head),
        }
    }

    fn random(&self, prefix: Option<Number>, random: u64) -> u32 {
        let Some(prefix) = prefix else { return self.random_of_all(random) };
        let count = self.best(prefix, None).count;
        let numbers = Numbers { directory: &self.directory, peers: &self.peers };
        if count == 0 { NONE } else { self.sorted.at(prefix, below(random, count), numbers) }
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
