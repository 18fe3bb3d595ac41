//! Events of a realm: their definition, their admission on a replica, and what they change. Only events change a realm;
//! they are replicated, written to the AOF, published and replayed. `units` and `conferences` have the events of one
//! unit and of one conference.
//!
//! Applying an event cannot fail, because `decide` made the event for this state, or `admits` has checked it.

mod adoption;
mod conferences;
mod counters;
mod details;
mod losses;
mod telling;
mod units;

pub use self::conferences::{ConferenceEvent, Created};
pub use self::counters::Counter;
pub use self::units::UnitEvent;
use super::model::conference::{Conference, State};
use super::model::epoch::Epoch;
use super::model::messages::is_stream;
use super::model::placement_index::PlacementIndex;
use super::model::settings::{MAX_ROOM, Settings};
use super::model::state::Realm;
use super::model::unit::{MAX_DRAINED, Name, UnitState, check_tags, host_of};
use crate::events;
use crate::shared::codec::{Damaged, ensure};
use crate::shared::invariant::Expected;
use crate::shared::machine;
use crate::shared::token::MAX_TTL;
use crate::shared::{Bytes, Millis};

/// The events of one step; usually one.
pub type Events = machine::Events<Event>;

events! {
    /// One change. Units are named by their identity, conferences by their E.164 number.
    pub enum Event counted by Counter {
        /// The realm opened: the first event of a key.
        Opened {
            /// Settings of the realm.
            settings: Settings,
        } = 1, notice c"allot.conf.realm-opened";
        /// Settings changed.
        Configured {
            /// All settings, changed or not.
            settings: Settings,
        } = 2, notice c"allot.conf.realm-configured";
        /// A scheduler claimed the realm; all leases begin again.
        Claimed {
            /// Name of the scheduler.
            leader: Bytes,
            /// Term of the scheduler.
            term: u64,
        } = 3, notice c"allot.conf.claimed";
        /// A new scheduler began: units that it did not find are down, and open conferences of the other units wait
        /// for a report.
        Restarted {
            /// Units that are down, in order of their names.
            gone: Vec<Name>,
        } = 4, notice c"allot.conf.restarted";
        /// Units are asked to report.
        Asked {
            /// The unit; `None` for all that are not down.
            cmu: Option<Name>,
            /// Whether all details are asked for, instead of the list.
            details: bool,
        } = 5, notice c"allot.cmu.asked";
        /// A unit joined, or joined again. An earlier unit of the same host is replaced, and loses its conferences.
        Joined {
            /// The unit.
            cmu: Name,
            /// Capacity of the unit.
            capacity: u32,
            /// Zone of the unit.
            zone: Option<Name>,
            /// Tags of the unit, in ascending order.
            tags: Vec<Name>,
            /// Length of the lease, in milliseconds.
            lease: Millis,
            /// The machine of the unit, if the unit says it.
            machine: Option<Name>,
        } = 6, notice c"allot.cmu.joined";
        /// A unit changed.
        Unit {
            /// The unit.
            cmu: Name,
            /// The change.
            event: UnitEvent,
        } = 7, notice event.notice(), count event.counted();
        /// A conference is created, and replaces a tombstone of the same number.
        Created(created: Box<Created>) = 8, notice c"allot.conf.created", count (Counter::Created, 1);
        /// A conference changed.
        Conference {
            /// E.164 number of the conference.
            e164: Bytes,
            /// The change.
            event: ConferenceEvent,
        } = 9, notice event.notice(), count event.counted();
        /// A stream was trimmed before a consumer group had read all entries: RESYNC is written instead.
        Missed {
            /// Name of the stream without the name of the key.
            stream: Vec<u8>,
        } = 10, notice c"allot.conf.missed", count (Counter::Missed, 1);
        /// Messages of the outbox were written to their streams.
        Flushed {
            /// How many of the oldest messages were written, by stream in ascending order.
            sent: Vec<(Vec<u8>, u32)>,
            /// The greatest id used (milliseconds, sequence).
            last_id: (u64, u64),
        } = 11;
        /// An operator drains a host (nothing new is placed on its units), or ends this.
        Drained {
            /// The host.
            host: Bytes,
            /// Whether the host drains from now on.
            on: bool,
        } = 12, notice c"allot.cmu.drained";
        /// A unit has a copy of a conference that is not on record, because the realm lost it, or knows that it ended.
        /// The next event says which: the unit adopts it, or it has ended.
        Found(found: Box<Created>) = 13;
        /// An operator dropped the realm: every conference ends, as separate events say.
        Dropped {
            /// Copies up to this epoch are never adopted as lost.
            epoch: Epoch,
        } = 14, notice c"allot.conf.dropped";
        /// A conference is created that starts later, and replaces a tombstone of the same number.
        Scheduled(created: Box<Created>) = 15, notice c"allot.conf.scheduled", count (Counter::Created, 1);
    }
}

impl Event {
    /// E.164 number of the conference that the event is about, if any.
    pub fn e164(&self) -> Option<&[u8]> {
        match self {
            Self::Created(created) | Self::Scheduled(created) | Self::Found(created) => Some(&created.e164),
            Self::Conference { e164, .. } | Self::Unit { event: UnitEvent::Disowned { e164, .. }, .. } => {
                Some(e164)
            }
            Self::Opened { .. }
            | Self::Configured { .. }
            | Self::Claimed { .. }
            | Self::Restarted { .. }
            | Self::Asked { .. }
            | Self::Joined { .. }
            | Self::Unit { .. }
            | Self::Missed { .. }
            | Self::Flushed { .. }
            | Self::Drained { .. }
            | Self::Dropped { .. } => None,
        }
    }
}

impl Event {
    /// Whether there may be more room or more licences after the event.
    fn may_free_room(&self) -> bool {
        match self {
            Self::Conference { event, .. } => !matches!(event, ConferenceEvent::Set { .. }),
            // Heartbeats are frequent: `renew` and `apply_to_unit` look whether one changes anything. A ramp changes only which unit comes first.
            Self::Unit { event, .. } => !matches!(
                event,
                UnitEvent::Beat { .. }
                    | UnitEvent::Disowned { .. }
                    | UnitEvent::Ramped
                    | UnitEvent::Conflict { .. }
                    | UnitEvent::ConflictOver
            ),
            Self::Configured { .. }
            | Self::Claimed { .. }
            | Self::Restarted { .. }
            | Self::Joined { .. }
            | Self::Drained { .. }
            | Self::Dropped { .. } => true,
            Self::Opened { .. }
            | Self::Asked { .. }
            | Self::Created(_)
            | Self::Scheduled(_)
            | Self::Found(_)
            | Self::Missed { .. }
            | Self::Flushed { .. } => false,
        }
    }
}

impl UnitEvent {
    /// This event of a unit.
    pub fn of(self, cmu: Name) -> Event {
        Event::Unit { cmu, event: self }
    }
}

impl Conference {
    /// An event of this conference.
    pub(in crate::conf) fn event(&self, event: ConferenceEvent) -> Event {
        Event::Conference { e164: self.e164.clone(), event }
    }
}

const NO_UNIT: Damaged = Damaged("there is no such unit");

impl Realm {
    /// Checks an event of another server against this realm. O(log conferences + units, fields and messages in the
    /// event).
    ///
    /// # Errors
    /// No decision on this realm could have made the event: the realm differs from its master's.
    pub fn admits(&self, event: &Event) -> Result<(), Damaged> {
        self.epochs().check_event()?;
        match event {
            Event::Opened { .. } => Err(Damaged("the realm is open already")),
            Event::Configured { .. } | Event::Claimed { .. } | Event::Asked { cmu: None, .. } => Ok(()),
            Event::Restarted { gone } => {
                let rises = gone.is_sorted_by(|cmu, next| cmu < next);
                ensure(rises, "the units that are gone are not in order")?;
                gone.iter().try_for_each(|cmu| self.is_in_service(cmu))
            }
            Event::Asked { cmu: Some(cmu), .. } => self.is_in_service(cmu),
            Event::Joined { cmu, capacity, lease, tags, .. } => {
                check_tags(tags)?;
                ensure(!self.is_replaced(cmu), "a unit that was replaced joins")?;
                ensure(i64::from(*capacity) <= MAX_ROOM, "a unit has too much room")?;
                ensure((1..=MAX_TTL).contains(lease), "a lease is out of range")?;
                let current = self.hosts.get(host_of(cmu)).and_then(|host| host.current);
                let known = self.find_unit(cmu);
                ensure(known.is_none() || known == current, "a unit is not its host's current one")
            }
            Event::Unit { cmu, event } => self.unit_called(cmu).ok_or(NO_UNIT)?.admits(event),
            Event::Created(created) | Event::Scheduled(created) => {
                let is_scheduled = matches!(event, Event::Scheduled(_));
                ensure(is_scheduled == created.cmu.is_none(), "a scheduled conference has a unit already")?;
                self.admits_creation(created)
            }
            Event::Found(found) => self.admits_found(found),
            Event::Dropped { epoch } => self.is_new(*epoch),
            Event::Conference { e164, event } => {
                let conference =
                    self.conference_called(e164).ok_or(Damaged("there is no such conference"))?;
                self.admits_to_conference(conference, event)
            }
            Event::Missed { stream } => {
                ensure(is_stream(stream), "a message is for a stream that the realm does not have")
            }
            Event::Flushed { sent, .. } => {
                let rises = sent.is_sorted_by(|(stream, _), (next, _)| stream < next);
                ensure(rises, "the streams of the outbox are not in order")?;
                sent.iter().try_for_each(|(stream, count)| {
                    let fits = (1..=self.outbox.len_of(stream)).contains(&(*count as usize));
                    ensure(fits, "more messages were written than wait")
                })
            }
            Event::Drained { host, on } => {
                ensure(
                    self.drained.contains_key(&host[..]) != *on,
                    "a host already drains, or already does not",
                )?;
                ensure(!*on || self.drained.len() < MAX_DRAINED, "too many hosts are drained")
            }
        }
    }

    /// Applies an event at its time. O(log conferences). Events about a whole unit: O(conferences of the unit log
    /// conferences). `Set`: O(fields log details).
    pub fn apply(&mut self, at: Millis, event: &Event) {
        self.applied = self.applied.max(at);
        match event {
            Event::Opened { .. } => {}
            Event::Configured { settings } => self.configure(*settings),
            Event::Claimed { term, leader } => {
                (self.term, self.leader) = (*term, Some(leader.clone()));
                for number in self.unit_names.values().copied().collect::<Vec<_>>() {
                    self.renew(number, at);
                }
                self.publish_unit("claimed", leader, &term.to_string());
            }
            Event::Restarted { gone } => self.restart(at, gone),
            Event::Asked { cmu: Some(cmu), details } => self.tell_report(cmu, *details),
            Event::Asked { cmu: None, details } => {
                let up = self.units().filter(|unit| unit.state != UnitState::Down);
                for cmu in up.map(|unit| unit.cmu.clone()).collect::<Vec<_>>() {
                    self.tell_report(&cmu, *details);
                }
            }
            Event::Joined { cmu, capacity, zone, tags, lease, machine } => {
                self.join(at, cmu, (*capacity, *lease), (zone.as_ref(), machine.as_ref()), tags);
            }
            Event::Unit { cmu, event } => {
                if let Some((number, cmu)) = self.named_unit(cmu) {
                    self.apply_to_unit(at, number, &cmu, event);
                }
            }
            Event::Created(created) | Event::Scheduled(created) => self.create(at, created),
            Event::Found(found) => self.find_conference(at, found),
            Event::Dropped { epoch } => {
                self.raise_last_epoch(*epoch);
                self.adopts_after = *epoch;
            }
            Event::Conference { e164, event } => {
                let id = self.find(e164);
                if let Some(id) = id.expected("an event that was admitted names a conference that is there") {
                    self.apply_to_conference(at, id, event);
                }
            }
            Event::Missed { stream } => self.tell_resync(stream),
            Event::Flushed { sent, last_id } => {
                for (stream, count) in sent {
                    self.outbox.sent_to(stream, *count as usize, *last_id);
                }
            }
            Event::Drained { host, on } => self.drain(at, host, *on),
        }
        if event.may_free_room() {
            self.waiters.open();
        }
    }

    /// Whether a unit joined and is not down.
    fn is_in_service(&self, cmu: &[u8]) -> Result<(), Damaged> {
        let unit = self.unit_called(cmu).ok_or(NO_UNIT)?;
        ensure(unit.state != UnitState::Down, "a unit is down")
    }

    /// The number and the shared name of the unit that an event names. Admission refuses events of unknown units.
    #[track_caller]
    fn named_unit(&self, cmu: &[u8]) -> Option<(u32, Name)> {
        let number = self.find_unit(cmu).expected("an event that was admitted names a unit that is there")?;
        Some((number, self.name_of(number)))
    }

    /// Later epochs are greater than this one.
    fn raise_last_epoch(&mut self, epoch: Epoch) {
        self.last_epoch = self.last_epoch.max(epoch);
    }

    fn configure(&mut self, settings: Settings) {
        let placing = |settings: &Settings| (settings.placement, settings.failures);
        if placing(&settings) != placing(&self.settings) {
            self.placement_index = PlacementIndex::by(settings);
            for (number, unit) in self.units.iter() {
                self.placement_index.update(number, unit);
            }
        }
        self.placement_index.settings = settings;
        let before = std::mem::replace(&mut self.settings, settings);
        // Deadlines depend on the settings.
        let differs = |state: &State| state.times(&before) != state.times(&settings);
        for state in State::ALL.into_iter().filter(differs) {
            for &id in self.by_state.of(state).values() {
                match self.conferences.get(id).and_then(|conference| conference.next_due(&settings)) {
                    Some(due) => self.conference_due.set(id, due),
                    None => self.conference_due.remove(id),
                }
            }
        }
        for (number, unit) in self.units.iter() {
            Self::watch_unit(&mut self.unit_due, &self.settings, &self.lost, number, unit);
        }
    }
}
