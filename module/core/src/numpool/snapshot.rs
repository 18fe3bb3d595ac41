//! Encodes a pool as bytes, for RDB files, `DUMP`, AOF rewrites and digests; and decodes them.
//!
//! Pools with equal events have equal bytes. Ids of numbers and leases are kept, so cursors stay valid. Decoding
//! trusts nothing: every number, id and reference is checked before it is used.

use super::causes::{self, MAX_CAUSES, Rule};
use super::cells::State;
use super::directory::MAX_NUMBERS;
use super::groups::Groups;
use super::leases::{Lease, Leases, lease};
use super::model::causes::read_word;
use super::model::history::Entry;
use super::number::Number;
use super::record::{LATEST, Place, Record};
use super::request::Policy;
use super::state::{Pool, RestReason};
use crate::invariant;
use crate::shared::codec::{Damaged, Reader, Writer};
use crate::shared::list::NONE;
use crate::shared::outbox::Outbox;
use crate::shared::{Bytes, Millis};
use hashbrown::HashMap;
use std::collections::VecDeque;

/// Version of the encoding. Version 1, which has neither caps nor causes, can be decoded too; a payload of another
/// version is refused.
pub const VERSION: u64 = 2;

/// What a number's flags say beside its state, which is in the lowest three bits.
const DRAINING: u64 = 1 << 3;
const LAPSES: u64 = 1 << 4;
const RESTS: u64 = 1 << 5;
const HAS_SWITCH: u64 = 1 << 6;
const HAS_PEER: u64 = 1 << 7;
const ALL_FLAGS: u64 = (1 << 8) - 1;

/// Names of groups, written once and then told by their place.
struct Names {
    sorted: Vec<Bytes>,
    places: HashMap<u32, u64>,
}

impl Names {
    fn of(groups: &Groups) -> Self {
        let mut named: Vec<(Bytes, u32)> =
            groups.iter().map(|(id, group)| (group.name.clone(), id)).collect();
        named.sort_unstable();
        let places = named.iter().enumerate().map(|(place, &(_, id))| (id, place as u64)).collect();
        Self { sorted: named.into_iter().map(|(name, _)| name).collect(), places }
    }

    fn write(&self, out: &mut Writer) {
        out.unsigned(self.sorted.len() as u64);
        self.sorted.iter().for_each(|name| out.string(name));
    }

    fn read(reader: &mut Reader<'_>) -> Result<Vec<Bytes>, Damaged> {
        let mut names: Vec<Bytes> = Vec::new();
        for _ in 0..reader.unsigned()? {
            let name = reader.identifier()?;
            if names.last().is_some_and(|last| *last >= name) {
                return Err(Damaged("names are not in order"));
            }
            names.push(name);
        }
        Ok(names)
    }

    fn place(&self, group: u32) -> u64 {
        let place = self.places.get(&group).copied();
        invariant!(place.is_some(), "a group that is referred to has a name");
        place.unwrap_or(0)
    }
}

/// The name at a place that was read.
fn name_at(names: &[Bytes], place: u64) -> Result<&[u8], Damaged> {
    names.get(place as usize).map(|name| &name[..]).ok_or(Damaged("a name is not there"))
}

fn ensure(fits: bool, what: &'static str) -> Result<(), Damaged> {
    if fits { Ok(()) } else { Err(Damaged(what)) }
}

impl Pool {
    /// Encodes the pool. O(numbers + leases + names log names).
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.bytes.reserve(self.directory.slots() as usize * 16);
        out.unsigned(VERSION);
        out.signed(self.applied);
        out.field(&self.settings);
        let (switches, peers) = (Names::of(&self.switches), Names::of(&self.peers));
        switches.write(&mut out);
        peers.write(&mut out);
        out.unsigned(self.directory.slots().into());
        let mut since = 0;
        for id in 0..self.directory.slots() {
            match self.directory.name(id) {
                None => out.unsigned(0),
                Some(number) => self.encode_number(id, number, &mut since, &switches, &peers, &mut out),
            }
        }
        write_ids(&mut out, self.directory.free().iter().copied());
        write_ids(&mut out, self.queue.iter(&self.directory));
        let table = self.leases.table();
        out.unsigned(table.slots().into());
        for id in 0..table.slots() {
            match table.get(id) {
                None => out.unsigned(0),
                Some(lease) => {
                    out.unsigned(1);
                    out.string(&lease.token);
                    out.unsigned(lease.number.into());
                    out.unsigned(if lease.switch == NONE { 0 } else { switches.place(lease.switch) + 1 });
                    out.signed(lease.since);
                    out.field(&self.leases.until(id));
                    out.unsigned(lease.has_peer.into());
                }
            }
        }
        write_ids(&mut out, table.free().iter().copied());
        self.outbox.encode(&mut out);
        self.encode_history(&mut out);
        out.bytes
    }

    fn encode_history(&self, out: &mut Writer) {
        out.field(&self.caps);
        out.unsigned(self.causes.list.len() as u64);
        for cause in &self.causes.list {
            out.string(&cause.word);
            out.unsigned(cause.count);
            out.field(&cause.rule);
        }
        out.unsigned(self.causes.other);
        let last: Vec<(u32, u8)> = self.causes.all_last().collect();
        write_ids(out, last.iter().map(|&(id, _)| id));
        last.iter().for_each(|&(_, place)| out.unsigned(place.into()));
        out.unsigned(self.history.len() as u64);
        for entry in self.history.iter() {
            out.unsigned(entry.number.into());
            write_times(out, &entry.starts);
            out.unsigned(entry.ends.len() as u64);
            for (cause, times) in &entry.ends {
                out.unsigned((*cause).into());
                write_times(out, times);
            }
        }
    }

    fn encode_number(
        &self,
        id: u32,
        number: Number,
        since: &mut Millis,
        switches: &Names,
        peers: &Names,
        out: &mut Writer,
    ) {
        let record = self.directory.get(id);
        let (lapses, rests) = (self.registrations.get(id), self.rest_of(id));
        let (switch, peer) = (self.switches.of(id), self.peers.of(id));
        let flag = |flag: u64, set: bool| if set { flag } else { 0 };
        out.unsigned(
            record.state().number()
                | flag(DRAINING, record.place == Place::LastCall)
                | flag(LAPSES, lapses.is_some())
                | flag(RESTS, rests.is_some())
                | flag(HAS_SWITCH, switch != NONE)
                | flag(HAS_PEER, peer != NONE),
        );
        out.field(&number);
        out.signed(record.since() - *since);
        *since = record.since();
        out.unsigned(record.uses.into());
        lapses.into_iter().for_each(|until| out.signed(until));
        if let Some((until, reason)) = rests {
            out.signed(until);
            out.field(&reason);
        }
        if switch != NONE {
            out.unsigned(switches.place(switch));
        }
        if peer != NONE {
            out.unsigned(peers.place(peer));
        }
    }

    /// Decodes a pool.
    ///
    /// # Errors
    /// Bytes that `encode` never writes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damaged> {
        let mut reader = Reader::new(bytes);
        let version = reader.unsigned()?;
        ensure((1..=VERSION).contains(&version), "the version of the encoding is unknown")?;
        let applied = reader.reached()?;
        let mut pool = Self::new(reader.field()?, applied);
        let (switches, peers) = (Names::read(&mut reader)?, Names::read(&mut reader)?);
        let slots = reader.number()?;
        ensure(slots <= MAX_NUMBERS, "the pool has too many numbers")?;
        let mut names = Vec::new();
        let mut since = 0;
        for id in 0..slots {
            names.push(match reader.unsigned()? {
                0 => None,
                flags => Some(pool.decode_number(
                    id,
                    version,
                    flags,
                    &mut since,
                    &switches,
                    &peers,
                    &mut reader,
                )?),
            });
        }
        let free = read_ids(&mut reader)?;
        pool.directory.name_all(&names, free).ok_or(Damaged("the numbers do not fit their places"))?;
        pool.decode_queue(&mut reader)?;
        pool.decode_leases(&switches, &mut reader)?;
        ensure(pool.switches.iter().count() == switches.len(), "a switch is named for nothing")?;
        ensure(pool.peers.iter().count() == peers.len(), "a peer is named for nothing")?;
        pool.outbox = Outbox::decode(&mut reader, &[b"evt"])?;
        if version > 1 {
            pool.decode_history(&mut reader)?;
        }
        reader.finish()?;
        // While a server loads, nobody waits for it.
        if pool.settings.pick == Policy::LeastUsed {
            pool.prepare(None, None);
        }
        Ok(pool)
    }

    fn decode_history(&mut self, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        self.caps = reader.field()?;
        for _ in 0..reader.unsigned()? {
            let (word, count, rule): (_, u64, Option<Rule>) =
                (read_word(reader)?, reader.unsigned()?, reader.field()?);
            ensure(rule.is_none_or(|rule| rule.is_sound()), "a rule is out of range")?;
            ensure(self.causes.list.len() < MAX_CAUSES, "there are too many causes")?;
            ensure(self.causes.find(&word).is_none(), "a cause is there twice")?;
            self.causes.list.push(causes::Cause { word, count, rule });
        }
        self.causes.other = reader.unsigned()?;
        let mut before = None;
        for id in read_ids(reader)? {
            ensure(before.replace(id).is_none_or(|before| before < id), "last causes are not in order")?;
            let place = u8::try_from(reader.unsigned()?).map_err(|_| Damaged("a last cause is unknown"))?;
            ensure(self.directory.name(id).is_some(), "a last cause is of no number")?;
            ensure(self.causes.restore_last(id, place), "a last cause is unknown")?;
        }
        for _ in 0..reader.unsigned()? {
            let entry = self.decode_entry(reader)?;
            self.history.restore(entry).ok_or(Damaged("the times of a number are not in order"))?;
        }
        let limited = |id: u32| self.limited_until(id).is_some();
        ensure(!self.queue.iter(&self.directory).any(limited), "a number is free that its caps forbid")
    }

    fn decode_entry(&self, reader: &mut Reader<'_>) -> Result<Entry, Damaged> {
        let number = reader.number()?;
        ensure(self.directory.name(number).is_some(), "a history is of no number")?;
        let mut entry = Entry::of(number);
        entry.starts = read_times(reader)?;
        for _ in 0..reader.unsigned()? {
            let cause = u8::try_from(reader.unsigned()?).map_err(|_| Damaged("a cause is unknown"))?;
            let known = usize::from(cause) < self.causes.list.len() && entry.ends_with(cause).is_none();
            ensure(known, "a cause is unknown")?;
            entry.ends.push((cause, read_times(reader)?));
        }
        Ok(entry)
    }

    #[allow(clippy::too_many_arguments, reason = "what is shared by all numbers of a snapshot")]
    fn decode_number(
        &mut self,
        id: u32,
        version: u64,
        flags: u64,
        since: &mut Millis,
        switches: &[Bytes],
        peers: &[Bytes],
        reader: &mut Reader<'_>,
    ) -> Result<Number, Damaged> {
        let state = State::from_number(flags & 7).filter(|&state| state != State::NoData);
        let state = state.ok_or(Damaged("a state is unknown"))?;
        ensure(flags <= ALL_FLAGS, "a flag is unknown")?;
        let has = |flag: u64| flags & flag != 0;
        ensure(state.is_busy() || !has(DRAINING), "a number without a call is draining")?;
        ensure(!state.is_busy() || !has(RESTS), "a number rests and carries a call")?;
        ensure(state.is_up() || !has(LAPSES | HAS_SWITCH), "a number that is not up has a registration")?;
        let number: Number = reader.field()?;
        *since = since.saturating_add(reader.signed()?);
        ensure((0..=LATEST).contains(since), "a time is out of range")?;
        let mut record = Record::new(*since);
        record.set_state(state);
        record.uses = reader.number()?;
        if has(DRAINING) {
            record.put(Place::LastCall, NONE);
            self.draining += 1;
        } else if state.is_busy() {
            record.put(Place::Call, NONE);
        }
        *self.directory.at(id) = record;
        *self.count(state) += 1;
        if has(LAPSES) {
            self.registrations.set(id, reader.time()?);
        }
        if has(RESTS) {
            let until = reader.time()?;
            let reason = if version > 1 { reader.field()? } else { RestReason::CoolDown };
            self.rest(id, until, reason);
        }
        if has(HAS_SWITCH) {
            self.switches.assign(id, Some(name_at(switches, reader.unsigned()?)?));
            self.switches.list(id);
        }
        if has(HAS_PEER) {
            self.peers.assign(id, Some(name_at(peers, reader.unsigned()?)?));
        }
        Ok(number)
    }

    fn decode_queue(&mut self, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        for id in read_ids(reader)? {
            ensure(self.directory.name(id).is_some(), "a number is in the queue that is not there")?;
            let record = self.directory.get(id);
            let waits = record.state() == State::IdleUp && record.place == Place::Nowhere;
            ensure(waits, "a number is in the queue that cannot be there")?;
            self.join(id);
        }
        let [_, idle_up, ..] = self.counts;
        let resting =
            self.cooling.iter().filter(|(_, rest)| self.directory.get(rest.number).state() == State::IdleUp);
        ensure(
            self.queue.len() as usize + resting.count() == idle_up as usize,
            "a free number is not in the queue",
        )
    }

    fn decode_leases(&mut self, switches: &[Bytes], reader: &mut Reader<'_>) -> Result<(), Damaged> {
        let count = reader.number()?;
        let mut slots: Vec<Option<(Lease, Option<Millis>)>> = Vec::new();
        for id in 0..count {
            slots.push(match reader.unsigned()? {
                0 => None,
                1 => Some(self.decode_lease(id, switches, reader)?),
                _ => return Err(Damaged("a lease flag is unknown")),
            });
        }
        let free = read_ids(reader)?;
        self.leases = Leases::restore(slots, free).ok_or(Damaged("the leases do not fit their places"))?;
        let [.., busy_up, busy_down] = self.counts;
        ensure(self.leases.len() == (busy_up + busy_down) as usize, "a number carries a call without a lease")
    }

    fn decode_lease(
        &mut self,
        id: u32,
        switches: &[Bytes],
        reader: &mut Reader<'_>,
    ) -> Result<(Lease, Option<Millis>), Damaged> {
        let token = reader.identifier()?;
        let number = reader.number()?;
        ensure(self.directory.name(number).is_some(), "a lease is of no number")?;
        let record = self.directory.get(number);
        ensure(
            record.state().is_busy() && record.lease() == NONE,
            "a lease is of a number that is not called",
        )?;
        self.directory.at(number).put(record.place, id);
        let switch = match reader.unsigned()?.checked_sub(1) {
            None => None,
            Some(place) => Some(name_at(switches, place)?),
        };
        let since = reader.time()?;
        let until: Option<Millis> = reader.field()?;
        let has_peer = match reader.unsigned()? {
            0 => false,
            1 if self.peers.of(number) != NONE => true,
            _ => return Err(Damaged("a lease has a peer that its number has not")),
        };
        Ok((lease(token, number, switch, since, has_peer, &mut self.switches), until))
    }
}

/// A list of ids, each as its distance from the one before.
fn write_ids(out: &mut Writer, ids: impl Iterator<Item = u32> + Clone) {
    out.unsigned(ids.clone().count() as u64);
    let mut last = 0;
    for id in ids {
        out.signed(i64::from(id) - last);
        last = id.into();
    }
}

fn read_ids(reader: &mut Reader<'_>) -> Result<Vec<u32>, Damaged> {
    let count = reader.unsigned()?;
    // Each id takes at least one byte, so a length beyond the remaining bytes is invalid.
    ensure(count <= reader.rest().len() as u64, "a list is too long")?;
    let mut ids = Vec::with_capacity(count as usize);
    let mut last = 0i64;
    for _ in 0..count {
        last = last.saturating_add(reader.signed()?);
        ids.push(u32::try_from(last).map_err(|_| Damaged("a place is out of range"))?);
    }
    Ok(ids)
}

/// Times in rising order, each as its distance from the one before.
fn write_times(out: &mut Writer, times: &VecDeque<Millis>) {
    out.unsigned(times.len() as u64);
    let mut last = 0;
    for &time in times {
        out.signed(time - last);
        last = time;
    }
}

fn read_times(reader: &mut Reader<'_>) -> Result<VecDeque<Millis>, Damaged> {
    let mut times = VecDeque::new();
    let mut last: Millis = 0;
    for _ in 0..reader.unsigned()? {
        last = last.saturating_add(reader.signed()?);
        ensure((0..=LATEST).contains(&last), "a time is out of range")?;
        times.push_back(last);
    }
    Ok(times)
}
