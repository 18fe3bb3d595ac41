//! Which number called which peer last, for a choice that is `STICKY` in a pool with `PEERS`: at most 48 bytes a peer.
//!
//! A peer is known by the hash of its name. Two peers with one hash would share a number, which is a choice like any other.
//! A number is known by its digits, so one that is deleted and added again is found again.

use super::number::Number;
use super::record::LATEST;
use crate::shared::Millis;
use crate::shared::codec::{Damaged, Reader, Writer, ensure};
use crate::shared::field::Any;
use crate::shared::index::{Index, Slot};
use crate::shared::invariant::{Checked, Expected};
use crate::shared::list::{List, NONE, links_in_table};
use crate::shared::table::Table;
use crate::{ensure, fields};
use hashbrown::DefaultHashBuilder;
use std::hash::BuildHasher;
use std::num::NonZeroU32;
use xxhash_rust::xxh3::xxh3_64;

/// The most peers that a pool can be set to remember.
pub const MAX_PEERS: u32 = 10_000_000;

/// How many peers a call may have the pool forget.
const FORGOTTEN_AT_ONCE: usize = 2;

fields! {
    /// A peer, and the number that called it last.
    #[derive(Clone, Copy, Debug)]
    struct Known {
        hash: Any<u64>,
        number: Number,
        at: Millis,
    }
}

/// A peer in the list of all, in forty bytes.
#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: [u32; 2],
    /// The digits of the number, of which there is one at least.
    first: NonZeroU32,
    digits: [u32; 3],
    links: [u32; 2],
    at: [u16; 3],
}

const _: () = assert!(size_of::<Option<Entry>>() == 40);

impl Entry {
    fn new(Known { hash: Any(hash), number, at }: Known) -> Option<Self> {
        let (bits, at) = (number.bits(), at.clamp(0, LATEST));
        Some(Self {
            hash: [(hash >> 32) as u32, hash as u32],
            first: NonZeroU32::new((bits >> 96) as u32).expected("a number has a digit")?,
            digits: [(bits >> 64) as u32, (bits >> 32) as u32, bits as u32],
            links: [NONE; 2],
            at: [(at >> 32) as u16, (at >> 16) as u16, at as u16],
        })
    }

    fn known(&self) -> Known {
        let [high, low] = self.hash.map(u64::from);
        let bits = self
            .digits
            .iter()
            .fold(u128::from(self.first.get()), |bits, &part| bits << 32 | u128::from(part));
        let at = self.at.iter().fold(0, |at, &part| at << 16 | Millis::from(part));
        Known { hash: Any(high << 32 | low), number: Number::of_bits(bits), at }
    }
}

links_in_table!(Entry);

/// The place of a peer in the table.
#[derive(Clone, Copy, Debug)]
struct Place(u32);

impl Slot for Place {
    const EMPTY: Self = Self(NONE);

    fn new(_: u64, id: u32) -> Self {
        Self(id)
    }

    fn id(self) -> u32 {
        self.0
    }

    fn is_empty(self) -> bool {
        self.0 == NONE
    }

    fn may_have(self, _: u64) -> bool {
        true
    }
}

/// The last number of each peer.
#[derive(Clone, Debug, Default)]
pub(in crate::numpool) struct LastNumbers {
    entries: Table<Entry>,
    index: Index<Place>,
    /// The peer whose last call is oldest first.
    order: List,
    /// Spreads the hashes of names, which clients can choose.
    hasher: DefaultHashBuilder,
}

impl LastNumbers {
    /// How many peers are known.
    pub(in crate::numpool) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The number that called a peer last, within `ttl` milliseconds if that is not 0. O(1).
    pub(in crate::numpool) fn find(&self, peer: &[u8], ttl: Millis, now: Millis) -> Option<Number> {
        let known = self.entries.get(self.place(xxh3_64(peer))?)?.known();
        is_fresh(known.at, ttl, now).then_some(known.number)
    }

    /// A number calls a peer. Forgets peers that are too many or too old, the oldest first, a few at a time. O(1).
    pub(in crate::numpool) fn remember(
        &mut self,
        peer: &[u8],
        number: Number,
        at: Millis,
        room: u32,
        ttl: Millis,
    ) {
        let hash = xxh3_64(peer);
        self.forget_place(self.place(hash));
        self.enter(Known { hash: Any(hash), number, at });
        for _ in 0..FORGOTTEN_AT_ONCE {
            let oldest = self.entries.get(self.order.head).map_or(at, |oldest| oldest.known().at);
            if self.len() <= room as usize && is_fresh(oldest, ttl, at) {
                return;
            }
            self.forget_place(Some(self.order.head));
        }
    }

    /// Forgets a peer if this number called it last. O(1).
    pub(in crate::numpool) fn forget(&mut self, peer: &[u8], number: Number) {
        let place = self.place(xxh3_64(peer));
        let last = place.and_then(|place| self.entries.get(place)).map(|entry| entry.known().number);
        if last == Some(number) {
            self.forget_place(place);
        }
    }

    /// No call began later than `now`. O(calls that did).
    pub(in crate::numpool) fn end_at(&mut self, now: Millis) {
        let mut id = self.order.tail();
        while let Some(entry) = self.entries.get_mut(id) {
            let known = entry.known();
            if known.at <= now {
                return;
            }
            let before = entry.links;
            if let Some(earlier) = Entry::new(Known { at: now, ..known }) {
                *entry = Entry { links: before, ..earlier };
            }
            [id, _] = before;
        }
    }

    fn place(&self, hash: u64) -> Option<u32> {
        let has = |id| self.entries.get(id).is_some_and(|entry| entry.known().hash.0 == hash);
        self.index.find(self.hasher.hash_one(hash), has)
    }

    /// Adds a peer that is not known, as the last one.
    fn enter(&mut self, known: Known) {
        let Some(entry) = Entry::new(known) else { return };
        let id = self.entries.insert(entry);
        self.order.join(&mut self.entries, id);
        let (entries, hasher) = (&self.entries, &self.hasher);
        self.index.insert(hasher.hash_one(known.hash.0), id, |place| hash_of(entries, hasher, place));
    }

    fn forget_place(&mut self, place: Option<u32>) {
        let Some(id) = place else { return };
        let Some(hash) =
            self.entries.get(id).map(|entry| entry.known().hash.0).expected("a known peer is there")
        else {
            return;
        };
        let (entries, hasher) = (&self.entries, &self.hasher);
        self.index.remove(hasher.hash_one(hash), id, |place| hash_of(entries, hasher, place));
        self.order.leave(&mut self.entries, id);
        self.entries.remove(id);
    }

    /// Writes all of them, the oldest first. O(n).
    pub(in crate::numpool) fn encode(&self, out: &mut Writer) {
        out.unsigned(self.len() as u64);
        let known = self.order.iter(&self.entries).filter_map(|id| self.entries.get(id)).map(Entry::known);
        known.for_each(|known| out.field(&known));
    }

    /// Reads what `encode` has written, of a pool whose time is `now`.
    ///
    /// # Errors
    /// Bytes that `encode` never writes.
    pub(in crate::numpool) fn decode(reader: &mut Reader<'_>, now: Millis) -> Result<Self, Damaged> {
        let (mut last, mut latest) = (Self::default(), 0);
        for _ in 0..reader.unsigned()? {
            let known: Known = reader.field()?;
            ensure(
                (latest..=LATEST.min(now)).contains(&known.at),
                "the peers are not in the order of their calls",
            )?;
            ensure(last.place(known.hash.0).is_none(), "a peer is there twice")?;
            ensure(last.len() < MAX_PEERS as usize, "too many peers are known")?;
            latest = known.at;
            last.enter(known);
        }
        Ok(last)
    }

    /// Bytes allocated.
    pub(in crate::numpool) fn allocated(&self) -> usize {
        self.entries.allocated() + self.index.allocated()
    }

    /// Checks that each peer is found and listed, in the order of the calls. O(n).
    ///
    /// # Errors
    /// The first contradiction.
    pub(in crate::numpool) fn check(&self) -> Checked {
        self.entries.check()?;
        ensure!(self.order.len() as usize == self.len(), "not all peers are listed");
        self.order.check(&self.entries)?;
        self.index.check(self.len())?;
        let mut latest = 0;
        for id in self.order.iter(&self.entries) {
            let Some(known) = self.entries.get(id).map(Entry::known) else { continue };
            ensure!(self.place(known.hash.0) == Some(id), "peer {id} is not found");
            ensure!(known.at >= latest, "peer {id} is not in the order of the calls");
            latest = known.at;
        }
        Ok(())
    }
}

/// Whether a call at a time is remembered for `ttl` milliseconds, or for ever if that is 0.
fn is_fresh(at: Millis, ttl: Millis, now: Millis) -> bool {
    ttl == 0 || at.saturating_add(ttl) > now
}

/// The hash of the peer at a place, as the index has it.
fn hash_of(entries: &Table<Entry>, hasher: &DefaultHashBuilder, place: Place) -> u64 {
    entries.get(place.id()).map_or(0, |entry| hasher.hash_one(entry.known().hash.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        Number::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn entry_keeps_what_it_was_made_of() {
        for (text, at) in [("1", 0), ("+4930901820901820901820901820901#", LATEST), ("#", 1_795_227_394_791)]
        {
            let known = Known {
                hash: Any(0x0123_4567_89ab_cdef),
                number: number(text.get(..32).unwrap_or(text)),
                at,
            };
            let kept = Entry::new(known).unwrap().known();
            assert_eq!((kept.hash, kept.number, kept.at), (known.hash, known.number, at));
        }
    }

    #[test]
    fn check_finds_damage() {
        let mut sound = LastNumbers::default();
        for (peer, at) in [(b"ann", 1), (b"bob", 2), (b"cid", 3)] {
            sound.remember(peer, number("1"), at, 5, 0);
        }
        assert_eq!(sound.check(), Ok(()));
        let damages: [fn(&mut LastNumbers); 4] = [
            |last| last.order = List::default(),
            |last| last.index = Index::default(),
            |last| _ = last.entries.remove(1),
            |last| last.entries.get_mut(0).unwrap().at = [0, 0, 9],
        ];
        for (number, damage) in damages.iter().enumerate() {
            let mut last = sound.clone();
            damage(&mut last);
            assert!(last.check().is_err(), "damage {number} is not found");
        }
    }
}
