//! Checks whether an event that another server decided fits this realm. `apply` cannot fail on an event that passed.

use super::encoding::check_fields;
use super::event::Event;
use super::model::conference::{Conference, Epoch, MAX_DETAILS, State};
use super::model::ids::{MAX_ROOM, MAX_TIME};
use super::model::state::{LAST_OF_CLOCK, Realm};
use super::model::unit::{UnitState, host_of};
use crate::shared::Millis;
use crate::shared::codec::{Damaged, pairs};
use crate::shared::token::MAX_TTL;

fn ensure(holds: bool, otherwise: &'static str) -> Result<(), Damaged> {
    if holds { Ok(()) } else { Err(Damaged(otherwise)) }
}

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
            Event::Configured { settings } => ensure(settings.check().is_ok(), "a setting is out of range"),
            Event::Claimed { .. } | Event::Asked { cmu: None, .. } | Event::Disowned { .. } => Ok(()),
            Event::Refused { e164, .. } => ensure(self.find(e164).is_some(), "there is no such conference"),
            Event::Joined { cmu, capacity, lease, .. } => {
                ensure(!self.is_replaced(cmu), "a unit that was replaced joins")?;
                ensure(i64::from(*capacity) <= MAX_ROOM, "a unit has too much room")?;
                ensure((1..=MAX_TTL).contains(lease), "a lease is out of range")?;
                let current = self.hosts.get(host_of(cmu)).and_then(|host| host.current);
                let known = self.find_unit(cmu);
                ensure(known.is_none() || known == current, "a unit is not its host's current one")
            }
            Event::Drained { cmu, on } => {
                let unit = self.unit_called(cmu).ok_or(NO_UNIT)?;
                ensure(unit.draining != *on, "a unit already drains, or already does not")
            }
            Event::Lapsed { cmu, to: UnitState::Suspect } => {
                self.unit_is(cmu, |state| state == UnitState::Up)
            }
            Event::Lapsed { cmu, to: UnitState::Unreachable } => {
                self.unit_is(cmu, |state| matches!(state, UnitState::Up | UnitState::Suspect))
            }
            Event::Lapsed { .. } => {
                Err(Damaged("a lease lapses to another state than suspect or unreachable"))
            }
            Event::LoadExpired { cmu } => {
                let unit = self.unit_called(cmu).ok_or(NO_UNIT)?;
                ensure(unit.load.is_some(), "the load of a unit expires that has none")
            }
            Event::Beat { cmu, .. }
            | Event::Reported { cmu, .. }
            | Event::Asked { cmu: Some(cmu), .. }
            | Event::Down { cmu } => self.is_in_service(cmu),
            Event::Forgotten { cmu } => {
                self.unit_is(cmu, |state| state == UnitState::Down)?;
                let idle = self.unit_called(cmu).is_some_and(super::model::unit::Unit::is_idle);
                ensure(idle, "a unit that has conferences is forgotten")
            }
            Event::Restarted { gone } => {
                let rises = gone.is_sorted_by(|cmu, next| cmu < next);
                ensure(rises, "the units that are gone are not in order")?;
                gone.iter().try_for_each(|cmu| self.is_in_service(cmu))
            }
            Event::Created(created) => {
                let conference = self.conference_called(&created.e164);
                ensure(
                    conference.is_none_or(|conference| !conference.is_live()),
                    "a conference is created twice",
                )?;
                self.is_in_service(&created.cmu)?;
                self.is_new(created.epoch)?;
                is_end_time(created.end)?;
                let request = created.called_from.as_ref().and(created.request.as_deref());
                let known = request.and_then(|request| self.asked_for(request));
                ensure(
                    known.is_none_or(|conference| conference.e164 == created.e164),
                    "a request is answered twice",
                )?;
                let size = (1..=MAX_ROOM).contains(&created.size.into());
                ensure(size && i64::from(created.licences) <= MAX_ROOM, "a size is out of range")
            }
            Event::Missed { stream } => ensure(
                super::model::messages::is_stream(stream),
                "a message is for a stream that the realm does not have",
            ),
            Event::Flushed { sent, .. } => {
                let rises = sent.is_sorted_by(|(stream, _), (next, _)| stream < next);
                ensure(rises, "the streams of the outbox are not in order")?;
                for (stream, count) in sent {
                    let waiting = self.outbox.len_of(stream);
                    let fits = (1..=waiting).contains(&(*count as usize));
                    ensure(fits, "more messages were written than wait")?;
                }
                Ok(())
            }
            _ => self.admits_to_conference(event),
        }
    }

    fn admits_to_conference(&self, event: &Event) -> Result<(), Damaged> {
        let conference = event.e164().and_then(|e164| self.conference_called(e164));
        let conference = conference.ok_or(Damaged("there is no such conference"))?;
        let is =
            |states: &[State]| ensure(states.contains(&conference.state), "a conference is in another state");
        let owned = [State::Waiting, State::Creating, State::Open];
        match event {
            Event::Removed { .. } => is(&[State::Ended]),
            Event::Ended { .. } => is(&[State::Waiting, State::Creating, State::Open, State::Pending]),
            Event::Granted { cmu, epoch, .. } => {
                is(&[State::Pending])?;
                self.is_in_service(cmu)?;
                self.is_new(*epoch)
            }
            Event::Acked { .. } | Event::AskedAgain { .. } => is(&[State::Waiting, State::Creating]),
            Event::Failed { .. } => {
                is(&[State::Creating])?;
                ensure(conference.recovering, "a first creation that failed is tried again")?;
                Self::may_wait(conference)
            }
            Event::Pending { .. } => {
                is(&owned)?;
                if conference.moving.is_some() { Ok(()) } else { Self::may_wait(conference) }
            }
            Event::Ending { .. } => {
                ensure(conference.ending.is_none(), "a conference ends twice")?;
                is(&owned)
            }
            Event::EpochAgain { .. } => is(&owned),
            Event::Adopted { cmu, old, epoch, .. } => {
                ensure(
                    conference.is_live() && conference.ending.is_none(),
                    "a conference that has ended is adopted",
                )?;
                let copy = conference.assignment(cmu, *old).ok_or(Damaged("an unknown copy is adopted"))?;
                ensure(copy.may_come_back(), "a copy is adopted that its unit did not lose, or was to end")?;
                self.is_in_service(cmu)?;
                let unit = self.find_unit(cmu);
                let elsewhere = conference.owner != unit && conference.moving.map(|moving| moving.to) != unit;
                ensure(elsewhere, "a unit adopts a conference that it has")?;
                self.is_new(*epoch)
            }
            Event::Moving { to, epoch, .. } => {
                is(&[State::Open])?;
                let free = conference.moving.is_none()
                    && conference.ending.is_none()
                    && conference.owner != self.find_unit(to);
                ensure(free, "a conference that cannot move is moved")?;
                self.is_in_service(to)?;
                self.is_new(*epoch)
            }
            Event::Moved { .. } | Event::MoveFailed { .. } => {
                ensure(conference.moving.is_some(), "a conference does not move")
            }
            Event::Extended { end, .. } => {
                let goes_on = conference.is_live() && conference.ending.is_none();
                ensure(goes_on, "a conference that has ended is extended")?;
                is_end_time(Some(*end))
            }
            Event::Set { seq, fields: bytes, .. } => {
                is(&owned)?;
                check_fields(bytes)?;
                let mut new = std::collections::BTreeSet::new();
                for (field, _) in pairs(bytes) {
                    match conference.place_of(field).map(|at| conference.details.get(at)) {
                        Ok(known) => {
                            let newer = known.is_some_and(|detail| detail.seq < *seq);
                            ensure(newer, "a write of a detail is not newer than the last one")?;
                        }
                        Err(_) => ensure(new.insert(field), "a detail is written twice")?,
                    }
                }
                ensure(
                    conference.details.len() + new.len() <= MAX_DETAILS,
                    "a conference has too many details",
                )
            }
            _ => Err(Damaged("an event is not about a conference")),
        }
    }

    fn may_wait(conference: &Conference) -> Result<(), Damaged> {
        ensure(
            conference.recoverable && conference.ending.is_none(),
            "a conference that cannot be recovered waits for recovery",
        )
    }

    fn unit_is(&self, cmu: &[u8], state: impl Fn(UnitState) -> bool) -> Result<(), Damaged> {
        let unit = self.unit_called(cmu).ok_or(NO_UNIT)?;
        ensure(state(unit.state), "a unit is in another state")
    }

    /// Whether a unit joined and is not down.
    fn is_in_service(&self, cmu: &[u8]) -> Result<(), Damaged> {
        self.unit_is(cmu, |state| state != UnitState::Down)
    }

    fn is_new(&self, epoch: Epoch) -> Result<(), Damaged> {
        ensure(epoch > self.last_epoch, "an epoch was given out before")?;
        let follows = epoch <= LAST_OF_CLOCK.max(self.last_epoch + 1);
        ensure(follows, "an epoch is later than any clock")
    }
}

const NO_UNIT: Damaged = Damaged("there is no such unit");

fn is_end_time(end: Option<Millis>) -> Result<(), Damaged> {
    ensure(end.is_none_or(|end| end <= MAX_TIME), "an end time is out of range")
}
