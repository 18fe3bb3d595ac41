//! Encodes a pool as bytes, for RDB files, `DUMP`, AOF rewrites and digests; and decodes them.
//!
//! Pools with equal events have equal bytes. Ids of numbers, leases and groups are kept, so cursors stay valid. Decoding
//! trusts nothing: every number, id and reference is checked before it is used.

use super::causes::{Cause, Causes};
use super::cells::State;
use super::directory::MAX_NUMBERS;
use super::heartbeats::{MAX_HEARTBEATS, SavedHeartbeat};
use super::leases::{Leases, SavedLease};
use super::model::history::{MAX_TIMES, STARTS, Times};
use super::model::last_numbers::LastNumbers;
use super::number::Number;
use super::record::{LATEST, Place, Record};
use super::request::{Cap, Policy};
use super::settings::are_sound;
use super::state::{Pool, Rest, RestReason};
use super::suspensions::Suspension;
use crate::fields;
use crate::shared::Millis;
use crate::shared::codec::{Damaged, Reader, Writer, ensure};
use crate::shared::list::NONE;
use crate::shared::outbox::Outbox;
use crate::shared::table::Table;

/// Version of the encoding. A payload of another version is refused.
pub const VERSION: u64 = 1;

fields! {
    /// A number as a snapshot has it.
    #[derive(Clone, Debug)]
    struct SavedNumber {
        number: Number,
        state: State,
        /// Whether the number goes when its call ends.
        is_draining: bool,
        since: Millis,
        uses: u32,
        registered_until: Option<Millis>,
        rest: Option<Rest>,
        suspension: Option<Suspension>,
        switch: Option<u32>,
        peer: Option<u32>,
        /// The last cause.
        cause: Option<u32>,
        /// Its own caps.
        caps: Vec<Cap>,
    }
}

impl Pool {
    /// Encodes the pool. O(numbers + leases + names).
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.bytes.reserve(self.directory.slots() as usize * 24);
        out.unsigned(VERSION);
        out.field(&self.applied);
        out.field(&self.settings);
        out.field(&self.causes.list);
        out.field(&self.causes.other);
        out.field(&self.switches);
        out.field(&self.peers);
        out.field(&self.holders);
        out.unsigned(self.directory.slots().into());
        for id in 0..self.directory.slots() {
            out.field(&self.directory.name(id).map(|number| self.saved(id, number)));
        }
        out.field(&self.directory.free().to_vec());
        out.field(&self.queue.iter(&self.directory).collect::<Vec<u32>>());
        out.field(&self.leases.saved());
        out.field(&self.saved_heartbeats());
        out.unsigned(self.history.len() as u64);
        self.history.iter().for_each(|times| out.field(times));
        out.field(&self.starts);
        out.field(&self.least_uses);
        self.last_numbers.encode(&mut out);
        self.outbox.encode(&mut out);
        out.bytes
    }

    fn saved(&self, id: u32, number: Number) -> SavedNumber {
        let record = self.directory.get(id);
        let group = |group: u32| Some(group).filter(|&group| group != NONE);
        SavedNumber {
            number,
            state: record.state(),
            is_draining: record.place == Place::LastCall,
            since: record.since(),
            uses: record.uses,
            registered_until: self.registrations.get(id),
            rest: self.rest_of(id),
            suspension: self.suspensions.get(id),
            switch: group(self.switches.of(id)),
            peer: group(self.peers.of(id)),
            cause: self.causes.kept_last(id),
            caps: self.own_caps.get(id).unwrap_or_default().to_vec(),
        }
    }

    /// Decodes a pool.
    ///
    /// # Errors
    /// Bytes that `encode` never writes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damaged> {
        let mut reader = Reader::new(bytes);
        ensure(reader.unsigned()? == VERSION, "the version of the encoding is unknown")?;
        let applied = reader.reached()?;
        let mut pool = Self::new(reader.field()?, applied);
        let causes: Vec<Cause> = reader.field()?;
        pool.causes = Causes::restore(causes, reader.field()?).ok_or(Damaged("a cause is there twice"))?;
        pool.switches = reader.field()?;
        pool.peers = reader.field()?;
        pool.holders = reader.field()?;
        pool.decode_numbers(&mut reader)?;
        pool.decode_queue(&mut reader)?;
        pool.decode_leases(&mut reader)?;
        let heartbeats: Vec<SavedHeartbeat> = reader.field()?;
        ensure(heartbeats.len() <= MAX_HEARTBEATS, "too many switches have a deadline")?;
        let restored = heartbeats.into_iter().try_for_each(|saved| pool.restore_heartbeat(saved));
        restored.ok_or(Damaged("a switch is not there, or its deadline is not right"))?;
        let groups = [&pool.switches, &pool.holders, &pool.peers];
        let named = groups.iter().all(|groups| groups.are_referred_to());
        ensure(named, "a switch, a holder or a peer is named for nothing")?;
        pool.decode_history(&mut reader)?;
        pool.least_uses = reader.field()?;
        pool.last_numbers = LastNumbers::decode(&mut reader, pool.applied)?;
        let are_wanted = pool.settings.peers > 0 || pool.last_numbers.len() == 0;
        ensure(are_wanted, "peers are known that the pool does not remember")?;
        pool.outbox = Outbox::decode(&mut reader, &[b"evt"])?;
        reader.finish()?;
        // While a server loads, nobody waits for it.
        if pool.settings.pick == Policy::LeastUsed {
            pool.sort_at_once(None, false);
        }
        Ok(pool)
    }

    fn decode_numbers(&mut self, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        let slots = reader.number()?;
        ensure(slots <= MAX_NUMBERS, "the pool has too many numbers")?;
        let mut names = Vec::new();
        for id in 0..slots {
            let saved: Option<SavedNumber> = reader.field()?;
            names.push(saved.as_ref().map(|saved| saved.number));
            saved.map_or(Ok(()), |saved| self.restore_number(id, &saved))?;
        }
        let named = self.directory.name_all(&names, reader.field()?);
        named.ok_or(Damaged("the numbers do not fit their places"))
    }

    fn restore_number(&mut self, id: u32, saved: &SavedNumber) -> Result<(), Damaged> {
        let state = saved.state;
        ensure(state != State::NoData, "a number is in no state")?;
        ensure(state.is_busy() || !saved.is_draining, "a number without a call is draining")?;
        ensure(!state.is_busy() || saved.rest.is_none(), "a number rests and carries a call")?;
        let is_registered = saved.registered_until.is_some() || saved.switch.is_some();
        ensure(state.is_up() || !is_registered, "a number that is not up has a registration")?;
        ensure(saved.since <= LATEST, "a time is out of range")?;
        let mut record = Record::new(saved.since);
        record.set_state(state);
        record.uses = saved.uses;
        if saved.is_draining {
            record.put(Place::LastCall, NONE);
            self.draining += 1;
        } else if state.is_busy() {
            record.put(Place::Call, NONE);
        }
        *self.directory.at(id) = record;
        *self.count(state) += 1;
        saved.registered_until.into_iter().for_each(|until| self.registrations.set(id, until));
        let is_limited = saved.rest.is_some_and(|rest| rest.reason == RestReason::Limit);
        let may_be_limited = state == State::IdleUp && saved.suspension.is_none();
        ensure(!is_limited || may_be_limited, "a number rests for its caps that cannot be called")?;
        saved.rest.into_iter().for_each(|rest| self.rest(id, rest));
        saved.suspension.clone().into_iter().for_each(|suspension| self.suspensions.set(id, suspension));
        if let Some(switch) = saved.switch {
            self.switches.assign_again(id, switch).ok_or(Damaged("a switch is not there"))?;
            self.switches.list(id);
        }
        if let Some(peer) = saved.peer {
            self.peers.assign_again(id, peer).ok_or(Damaged("a peer is not there"))?;
        }
        if let Some(cause) = saved.cause {
            self.causes.restore_last(id, cause).ok_or(Damaged("a last cause is unknown"))?;
        }
        ensure(are_sound(&saved.caps), "the caps of a number are out of range")?;
        self.own_caps.set(id, saved.caps.clone());
        Ok(())
    }

    fn decode_queue(&mut self, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        let queue: Vec<u32> = reader.field()?;
        for id in queue {
            ensure(self.directory.name(id).is_some(), "a number is in the queue that is not in the pool")?;
            let record = self.directory.get(id);
            let waits = record.state() == State::IdleUp && record.place == Place::Nowhere;
            ensure(waits && !self.suspensions.contains(id), "a number is in the queue that cannot be there")?;
            self.join(id);
        }
        let is_up = |number: u32| self.directory.get(number).state() == State::IdleUp;
        let resting = self.cooling.iter().filter(|(_, rest)| is_up(rest.number)).count();
        let is_out = |id: &u32| is_up(*id) && self.directory.get(*id).place == Place::Nowhere;
        let suspended = self.suspensions.ids().filter(is_out).count();
        let free = self.counted(State::IdleUp) as usize;
        ensure(self.queue.len() as usize + resting + suspended == free, "a free number is not in the queue")
    }

    fn decode_leases(&mut self, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        let saved: Table<SavedLease> = reader.field()?;
        for (id, lease) in saved.iter() {
            ensure(self.directory.name(lease.number).is_some(), "a lease is of no number")?;
            let record = self.directory.get(lease.number);
            let is_free = record.state().is_busy() && record.lease() == NONE;
            ensure(is_free, "a lease is of a number that is not called")?;
            self.directory.at(lease.number).put(record.place, id);
            let has_peer = self.peers.of(lease.number) != NONE;
            ensure(has_peer || !lease.has_peer, "a lease has a peer that its number has not")?;
            let referred = lease.switch.map_or(Some(()), |switch| self.switches.refer_again(switch));
            referred.ok_or(Damaged("a switch is not there"))?;
            let referred = lease.holder.map_or(Some(()), |holder| self.holders.refer_again(holder));
            referred.ok_or(Damaged("a holder is not there"))?;
        }
        self.leases = Leases::restore(&saved).ok_or(Damaged("a lease is there twice"))?;
        let busy = self.counted(State::BusyUp) + self.counted(State::BusyDown);
        ensure(self.leases.len() == busy as usize, "a number carries a call without a lease")
    }

    fn decode_history(&mut self, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        for _ in 0..reader.unsigned()? {
            let times: Times = reader.field()?;
            ensure(self.directory.name(times.number).is_some(), "a history is of no number")?;
            let is_known = |what: u32| what == STARTS || (what as usize) < self.causes.list.len();
            let known = times.lists.iter().all(|list| is_known(list.what));
            ensure(known, "a cause is unknown")?;
            ensure(times.latest() <= self.applied, "a time of a number is in the future")?;
            self.history.restore(times).ok_or(Damaged("a number has two histories"))?;
        }
        self.starts = reader.field()?;
        let are_sound = self.starts.len() <= MAX_TIMES && self.starts.iter().is_sorted();
        ensure(are_sound, "the starts of calls are not in order")?;
        let latest = self.starts.back().copied().unwrap_or(0);
        ensure(latest <= self.applied, "a call begins in the future")?;
        ensure(self.settings.rate.is_some() || self.starts.is_empty(), "calls are counted without a rate")?;
        let limited = |id: u32| self.limited_until(id).is_some();
        ensure(!self.queue.iter(&self.directory).any(limited), "a number is free that its caps forbid")
    }
}
