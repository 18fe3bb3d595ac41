//! Encodes a realm as bytes, for RDB files, `DUMP`, AOF rewrites and digests; and decodes them.
//!
//! The encoding is canonical: equal realms have equal bytes. Decoding trusts nothing: every number, name and
//! cross-reference is checked before it is used. Data that follows from other fields (indexes, room and licences in
//! use) is not encoded, but computed.

use super::decide::{MAX_ROOM, MAX_TIME};
use super::model::conference::{
    Assignment, AssignmentEnd, Conference, Detail, Epoch, MAX_DETAILS, MAX_HISTORY, MAX_VALUE, Moving, State,
};
use super::model::state::{Realm, Settings};
use super::model::unit::{Host, Load, MAX_FORGOTTEN, MAX_REPLACED, Name, Unit, UnitState, host_of};
use crate::shared::codec::{Damaged, Reader, Writer};
use crate::shared::field::Any;
use crate::shared::outbox::Outbox;
use crate::shared::token::MAX_TTL;
use crate::shared::{Bytes, Millis};
use std::collections::{BTreeSet, VecDeque};

/// Version of the encoding. A payload of a later version is refused.
pub const VERSION: u64 = 3;

/// The oldest version that is read: it has no placement by load, no time at which a load was reported, and no count of
/// ended conferences.
const OLDEST: u64 = 2;

/// The most units that may have failed to create one conference.
const MAX_TRIED: u64 = 100_000;

fn ensure(holds: bool, otherwise: &'static str) -> Result<(), Damaged> {
    if holds { Ok(()) } else { Err(Damaged(otherwise)) }
}

impl Realm {
    /// Encodes the realm. O(size of the realm log conferences).
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.unsigned(VERSION);
        out.signed(self.applied);
        out.field(&self.settings);
        out.unsigned(self.term);
        out.optional(self.leader.as_deref());
        out.unsigned(self.last_epoch);
        out.unsigned(self.ends);
        out.unsigned(self.units.len() as u64);
        for unit in self.units() {
            unit.encode(&mut out);
        }
        let hosts =
            || self.hosts.iter().filter(|(_, host)| host.current.is_none() || !host.replaced.is_empty());
        out.unsigned(hosts().count() as u64);
        for (host, Host { replaced, .. }) in hosts() {
            out.string(host);
            out.unsigned(replaced.len() as u64);
            replaced.iter().for_each(|cmu| out.string(cmu));
        }
        out.unsigned(self.forgotten.len() as u64);
        self.forgotten.iter().for_each(|host| out.string(host));
        let mut all: Vec<&Conference> = self.conferences.iter().map(|(_, conference)| conference).collect();
        all.sort_unstable_by(|conference, other| conference.e164.cmp(&other.e164));
        out.unsigned(all.len() as u64);
        for conference in all {
            self.encode_conference(conference, &mut out);
        }
        self.outbox.encode(&mut out);
        out.bytes
    }

    fn encode_conference(&self, conference: &Conference, out: &mut Writer) {
        out.string(&conference.e164);
        out.field(&conference.state);
        out.unsigned(conference.origin_epoch);
        out.signed(conference.created);
        out.field(&conference.opened);
        out.field(&conference.end);
        out.signed(conference.since);
        out.field(&conference.ended);
        out.field(&conference.pending_since);
        out.unsigned(conference.attempts.into());
        out.field(&conference.next_retry);
        out.unsigned(conference.tried.len() as u64);
        conference.tried.iter().for_each(|cmu| out.string(cmu));
        match conference.moving {
            None => out.unsigned(0),
            Some(moving) => {
                out.unsigned(1);
                out.string(&self.name_of(moving.to));
                out.unsigned(moving.epoch);
                out.signed(moving.since);
            }
        }
        out.field(&conference.ending);
        out.unsigned(u64::from(conference.recovering) | u64::from(conference.recoverable) << 1);
        out.signed(conference.priority.into());
        out.unsigned(conference.size.into());
        out.unsigned(conference.licences.into());
        out.optional(conference.zone.as_deref());
        out.optional(conference.request.as_deref());
        out.field(&conference.called_from);
        out.field(&conference.cause);
        out.unsigned(conference.history.len() as u64);
        for entry in &conference.history {
            out.unsigned(entry.epoch);
            out.unsigned(entry.copy_epoch);
            out.string(&entry.cmu);
            out.signed(entry.from);
            out.field(&entry.opened);
            match entry.ended {
                None => out.unsigned(0),
                Some((to, how)) => {
                    out.unsigned(1 + how.number());
                    out.signed(to);
                }
            }
            out.field(&entry.disowned);
        }
        out.unsigned(conference.details.len() as u64);
        for detail in &conference.details {
            out.string(&detail.field);
            out.unsigned(detail.seq);
            out.string(&detail.value);
        }
    }

    /// The realm of these bytes.
    ///
    /// # Errors
    /// Bytes that `encode` never writes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damaged> {
        let mut reader = Reader::new(bytes);
        let version = reader.unsigned()?;
        ensure((OLDEST..=VERSION).contains(&version), "the version of the encoding is unknown")?;
        let applied = reader.reached()?;
        let settings = if version > OLDEST { reader.field()? } else { Settings::decode_first(&mut reader)? };
        let mut realm = Self::open(settings, applied);
        realm.term = reader.count()?;
        realm.leader = reader.optional_identifier()?;
        ensure(realm.term == 0 || realm.leader.is_some(), "a claimed term has no leader")?;
        realm.last_epoch = reader.count()?;
        realm.ends = if version > OLDEST { reader.count()? } else { 0 };
        let mut last: Option<Name> = None;
        for _ in 0..reader.unsigned()? {
            let unit = Unit::decode(&mut reader, version)?;
            ensure(last.is_none_or(|last| last < unit.cmu), "the units are not in order")?;
            ensure(!realm.hosts.contains_key(host_of(&unit.cmu)), "a host runs two units")?;
            last = Some(unit.cmu.clone());
            realm.enter_unit(unit);
        }
        realm.decode_hosts(&mut reader)?;
        let mut last = Bytes::new();
        for _ in 0..reader.unsigned()? {
            let conference = realm.decode_conference(&mut reader)?;
            ensure(conference.e164 > last, "the conferences are not in order")?;
            last.clone_from(&conference.e164);
            let twice = State::ALL
                .into_iter()
                .any(|state| realm.by_state.of(state).contains_key(&conference.origin_epoch));
            ensure(!twice, "an epoch was given out twice")?;
            let known = conference.asked_for().is_some_and(|request| realm.requests.contains_key(request));
            ensure(!known, "two conferences were asked for by one request")?;
            realm.enter(conference);
        }
        realm.outbox = Outbox::decode_lanes(&mut reader, super::model::messages::capacity)?;
        reader.finish()?;
        Ok(realm)
    }

    /// Decodes the hosts that have replaced identities, or no current unit.
    fn decode_hosts(&mut self, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        let mut last: Vec<u8> = Vec::new();
        for _ in 0..reader.unsigned()? {
            let host = reader.string()?;
            ensure(last.is_empty() || *host > last[..], "the hosts are not in order")?;
            last = host.to_vec();
            let count = reader.unsigned()?;
            ensure(count <= MAX_REPLACED as u64, "a host has too many identities")?;
            let mut replaced = VecDeque::new();
            for _ in 0..count {
                let cmu = reader.field::<Name>()?;
                ensure(host_of(&cmu) == host, "an identity is of another host")?;
                let twice = replaced.contains(&cmu) || self.find_unit(&cmu).is_some();
                ensure(!twice, "an identity is replaced twice, or is a current unit")?;
                replaced.push_back(cmu);
            }
            ensure(
                count > 0 || !self.hosts.contains_key(host),
                "a host without replaced identities has a current unit",
            )?;
            let known = self.hosts.entry(host.into());
            known.or_insert_with(|| Host { current: None, replaced: VecDeque::new() }).replaced = replaced;
        }
        let count = reader.unsigned()?;
        ensure(count <= MAX_FORGOTTEN as u64, "too many hosts are remembered")?;
        for _ in 0..count {
            let host = reader.string()?;
            let is_idle = self.hosts.get(host).is_some_and(|host| host.current.is_none());
            let twice = self.forgotten.iter().any(|known| **known == *host);
            ensure(is_idle && !twice, "a remembered host runs a unit, or is unknown")?;
            self.forgotten.push_back(host.into());
        }
        let idle = self.hosts.values().filter(|host| host.current.is_none()).count();
        ensure(idle == self.forgotten.len(), "a host without a unit is not among the remembered")
    }

    fn decode_conference(&self, reader: &mut Reader<'_>) -> Result<Conference, Damaged> {
        let e164 = reader.identifier()?;
        let state: State = reader.field()?;
        let origin_epoch = reader.count()?;
        let created = reader.time()?;
        let opened = reader.field()?;
        let end: Option<Millis> = reader.field()?;
        ensure(end.is_none_or(|end| end <= MAX_TIME), "an end time is out of range")?;
        let since = reader.time()?;
        let ended = reader.field()?;
        let pending_since = reader.field()?;
        let attempts = reader.number()?;
        let next_retry = reader.field()?;
        let tried_count = reader.unsigned()?;
        ensure(tried_count <= MAX_TRIED, "too many units were tried")?;
        let mut tried = Vec::new();
        let mut seen = BTreeSet::new();
        for _ in 0..tried_count {
            let name = self.shared_name(reader)?;
            ensure(seen.insert(name.clone()), "a unit was tried twice")?;
            tried.push(name);
        }
        let moving = if reader.field()? {
            let cmu = reader.field::<Name>()?;
            let to = self.find_unit(&cmu).ok_or(Damaged("a conference moves to an unknown unit"))?;
            Some(Moving { to, epoch: reader.count()?, since: reader.time()? })
        } else {
            None
        };
        let ending = reader.field()?;
        let flags = reader.unsigned()?;
        ensure(flags < 4, "a flag is unknown")?;
        let priority = reader.field()?;
        let (size, licences) = (reader.number()?, reader.number()?);
        ensure((1..=MAX_ROOM).contains(&size.into()), "a size is out of range")?;
        ensure(i64::from(licences) <= MAX_ROOM, "a number of licences is out of range")?;
        let zone = reader.field::<Option<Name>>()?.map(|zone| self.zone_name(&zone));
        let request = reader.optional_identifier()?;
        let called_from = reader.field()?;
        let cause = reader.field()?;
        let history = self.decode_history(reader, origin_epoch)?;
        let details = decode_details(reader)?;
        let Some(entry) = history.last() else { return Err(Damaged("a conference has no assignment")) };
        let (epoch, copy_epoch) = (entry.epoch, entry.copy_epoch);
        let owner = match entry.ended {
            None => Some(self.find_unit(&entry.cmu).ok_or(Damaged("a conference is on an unknown unit"))?),
            Some(_) => None,
        };
        let conference = Conference {
            e164,
            state,
            owner,
            epoch,
            origin_epoch,
            copy_epoch,
            created,
            opened,
            end,
            since,
            ended,
            pending_since,
            attempts,
            next_retry,
            tried,
            moving,
            ending,
            recovering: flags & 1 != 0,
            recoverable: flags & 2 != 0,
            priority,
            size,
            licences,
            zone,
            request,
            called_from,
            cause,
            history,
            details,
        };
        self.check_conference(&conference)?;
        Ok(conference)
    }

    fn decode_history(&self, reader: &mut Reader<'_>, origin: Epoch) -> Result<Vec<Assignment>, Damaged> {
        let count = reader.unsigned()?;
        ensure(count <= MAX_HISTORY as u64, "a history is too long")?;
        let mut history: Vec<Assignment> = Vec::new();
        for place in 0..count {
            let (epoch, copy_epoch) = (reader.count()?, reader.count()?);
            let cmu = self.shared_name(reader)?;
            let rises = history.last().map_or(origin <= epoch, |last| last.epoch < epoch);
            ensure(rises && epoch <= self.last_epoch, "the epochs of a history do not rise")?;
            ensure(
                (origin..=epoch).contains(&copy_epoch),
                "the epoch of a copy is not between those of its conference and its assignment",
            )?;
            let (from, opened) = (reader.time()?, reader.field()?);
            let ended = match reader.unsigned()? {
                0 => None,
                how => {
                    let how = AssignmentEnd::from_number(how - 1);
                    Some((reader.time()?, how.ok_or(Damaged("the end of an assignment is unknown"))?))
                }
            };
            ensure(ended.is_some() || place + 1 == count, "an assignment goes on beside a later one")?;
            let disowned: bool = reader.field()?;
            let was_lost = matches!(ended, Some((_, AssignmentEnd::Lost)));
            ensure(was_lost || !disowned, "a unit was told to end a copy that it did not lose")?;
            history.push(Assignment { epoch, copy_epoch, cmu, from, opened, ended, disowned });
        }
        Ok(history)
    }

    /// The name of a unit, shared with its record if there is one.
    fn shared_name(&self, reader: &mut Reader<'_>) -> Result<Name, Damaged> {
        let name = reader.field::<Name>()?;
        Ok(self.find_unit(&name).map_or(name, |unit| self.name_of(unit)))
    }
}

fn decode_details(reader: &mut Reader<'_>) -> Result<Vec<Detail>, Damaged> {
    let count = reader.unsigned()?;
    ensure(count <= MAX_DETAILS as u64, "a conference has too many details")?;
    let mut details: Vec<Detail> = Vec::new();
    for _ in 0..count {
        let field = reader.identifier()?;
        ensure(details.last().is_none_or(|last| last.field < field), "the details are not in order")?;
        let (seq, value) = (reader.count()?, Bytes::from_slice(reader.string()?));
        ensure(value.len() <= MAX_VALUE, "a detail is too long")?;
        details.push(Detail { field, seq, value });
    }
    Ok(details)
}

impl Unit {
    fn encode(&self, out: &mut Writer) {
        out.string(&self.cmu);
        out.optional(self.zone.as_deref());
        out.unsigned(self.capacity.into());
        out.field(&self.state);
        out.unsigned(u64::from(self.draining) | u64::from(self.reported) << 1);
        out.signed(self.lease);
        out.signed(self.renewed);
        out.signed(self.joined);
        out.signed(self.down_since);
        out.field(&self.load.map(|load| Any(load.value)));
        out.field(&self.load.map(|load| load.at));
    }

    fn decode(reader: &mut Reader<'_>, version: u64) -> Result<Self, Damaged> {
        let (cmu, zone, capacity) =
            (reader.field::<Name>()?, reader.field::<Option<Name>>()?, reader.number()?);
        ensure(i64::from(capacity) <= MAX_ROOM, "a unit has too much room")?;
        let state: UnitState = reader.field()?;
        let flags = reader.unsigned()?;
        ensure(flags < 4, "a flag is unknown")?;
        let lease: Millis = reader.time()?;
        ensure((1..=MAX_TTL).contains(&lease), "a lease is out of range")?;
        let (renewed, joined, down_since) = (reader.time()?, reader.time()?, reader.time()?);
        let load = reader.field::<Option<Any<i64>>>()?;
        let at = if version > OLDEST { reader.field()? } else { load.map(|_| renewed) };
        ensure(load.is_some() == at.is_some(), "a load has no time, or a time no load")?;
        let load = load.zip(at).map(|(Any(value), at)| Load { value, at });
        // A unit whose lease has expired has no load, and version 2 kept it.
        let load = load.filter(|_| matches!(state, UnitState::Up | UnitState::Suspect));
        Ok(Self {
            cmu,
            zone,
            capacity,
            used: 0,
            state,
            draining: flags & 1 != 0,
            reported: flags & 2 != 0,
            lease,
            renewed,
            joined,
            down_since,
            load,
            owned: BTreeSet::new(),
            targets: BTreeSet::new(),
        })
    }
}
