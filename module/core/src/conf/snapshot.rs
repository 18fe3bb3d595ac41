//! The whole realm as bytes, for RDB files, `DUMP`, AOF rewrites and digests.
//!
//! The encoding is canonical: equal realms have equal bytes. The records are encoded as they define it. Data that follows
//! from them (indexes, room and licences in use) is not encoded, but computed. Decoding trusts nothing: every number,
//! name and cross-reference is checked before it is used.

use super::model::conference::{Conference, State};
use super::model::messages::capacity;
use super::model::state::Realm;
use super::model::unit::{Name, Unit, host_of};
use crate::shared::codec::{Damaged, Reader, Writer, ensure};
use crate::shared::outbox::Outbox;

/// Version of the encoding. A payload of another version is refused.
pub const VERSION: u64 = 1;

impl Realm {
    /// Encodes the realm. O(size of the realm log conferences).
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.unsigned(VERSION);
        out.signed(self.applied);
        out.field(&self.settings);
        out.field(&self.term);
        out.field(&self.leader);
        out.field(&self.last_epoch);
        out.field(&self.adopts_after);
        out.field(&self.ends);
        out.field(&self.hosts);
        out.field(&self.forgotten);
        out.field(&self.drained);
        out.unsigned(self.units.len() as u64);
        self.units().for_each(|unit| out.field(unit));
        let mut all: Vec<&Conference> = self.conferences.iter().map(|(_, conference)| conference).collect();
        all.sort_unstable_by(|conference, other| conference.e164.cmp(&other.e164));
        out.unsigned(all.len() as u64);
        all.into_iter().for_each(|conference| out.field(conference));
        self.outbox.encode(&mut out);
        out.bytes
    }

    /// The realm of these bytes.
    ///
    /// # Errors
    /// Bytes that `encode` never writes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damaged> {
        Self::decode_into(Self::default(), bytes)
    }

    /// Decodes a realm into an empty one, whose tables number the records.
    pub(in crate::conf) fn decode_into(empty: Self, bytes: &[u8]) -> Result<Self, Damaged> {
        let mut reader = Reader::new(bytes);
        ensure(reader.unsigned()? == VERSION, "the version of the encoding is unknown")?;
        let applied = reader.reached()?;
        let Self { units, conferences, .. } = empty;
        let mut realm = Self { units, conferences, ..Self::open(reader.field()?, applied) };
        (realm.term, realm.leader) = (reader.field()?, reader.field()?);
        ensure(realm.term == 0 || realm.leader.is_some(), "a claimed term has no leader")?;
        (realm.last_epoch, realm.adopts_after, realm.ends) =
            (reader.field()?, reader.field()?, reader.field()?);
        ensure(
            realm.adopts_after <= realm.last_epoch,
            "copies of epochs that were not given out are not adopted",
        )?;
        (realm.hosts, realm.forgotten, realm.drained) = (reader.field()?, reader.field()?, reader.field()?);
        realm.decode_units(&mut reader)?;
        realm.decode_conferences(&mut reader)?;
        realm.outbox = Outbox::decode_lanes(&mut reader, capacity)?;
        reader.finish()?;
        Ok(realm)
    }

    fn decode_units(&mut self, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        let forgotten = self.forgotten.len();
        for _ in 0..reader.unsigned()? {
            let unit: Unit = reader.field()?;
            let last = self.unit_names.last_key_value();
            ensure(last.is_none_or(|(last, _)| *last < unit.cmu), "the units are not in order")?;
            let host = self.hosts.get(host_of(&unit.cmu));
            let is_free = host.is_some_and(|host| host.current.is_none());
            ensure(is_free, "a host is unknown, or runs two units")?;
            self.enter_unit(unit);
        }
        let still = self.forgotten.len() == forgotten && self.check_hosts().is_ok();
        ensure(still, "the hosts contradict the units")
    }

    fn decode_conferences(&mut self, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        let mut last = None;
        for _ in 0..reader.unsigned()? {
            let mut conference: Conference = reader.field()?;
            ensure(last.is_none_or(|last| last < conference.e164), "the conferences are not in order")?;
            last = Some(conference.e164.clone());
            self.resolve(&mut conference)?;
            self.check_conference(&conference)?;
            let known = |state| self.by_state.of(state).contains_key(&conference.origin_epoch);
            ensure(!State::ALL.into_iter().any(known), "an epoch was given out twice")?;
            let known = conference.asked_for().is_some_and(|request| self.requests.contains_key(request));
            ensure(!known, "two conferences were asked for by one request")?;
            let may_enter = conference.state != State::Scheduled || self.may_schedule();
            ensure(may_enter, "too many conferences are scheduled")?;
            self.enter(conference);
        }
        Ok(())
    }

    /// Finds the units of a decoded conference by their names, and shares the names with them.
    fn resolve(&self, conference: &mut Conference) -> Result<(), Damaged> {
        let unit = |cmu: &Name| self.find_unit(cmu).ok_or(Damaged("a conference is on an unknown unit"));
        let (latest, origin) = (conference.history.last(), conference.origin_epoch);
        let epochs = latest.map_or((origin, origin), |latest| (latest.epoch, latest.copy_epoch));
        (conference.epoch, conference.copy_epoch) = epochs;
        let given_out = conference.epoch.max(conference.last_update) <= self.last_epoch;
        ensure(given_out, "an epoch was not given out")?;
        if let Some(latest) = latest.filter(|latest| latest.ended.is_none()) {
            conference.owner = Some(unit(&latest.cmu)?);
        }
        if let Some(moving) = &mut conference.moving {
            moving.to = unit(&moving.cmu)?;
        }
        let moving = conference.moving.iter_mut().map(|moving| &mut moving.cmu);
        let assigned = conference.history.iter_mut().map(|entry| &mut entry.cmu);
        for name in assigned.chain(&mut conference.tried).chain(moving) {
            if let Some(known) = self.unit_called(name) {
                *name = known.cmu.clone();
            }
        }
        *conference.wishes = self.shared_wishes(&conference.wishes);
        Ok(())
    }
}
