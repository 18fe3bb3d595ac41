//! Whether an event that another server decided fits this realm. Once it passes, `apply` cannot go wrong.

use super::conference::{Conference, Epoch, MAX_DETAILS, State};
use super::decide::MAX_ROOM;
use super::encoding::check_fields;
use super::event::Event;
use super::state::Realm;
use super::unit::{Standing, host_of};
use crate::shared::codec::{Damaged, pairs};
use crate::shared::token::MAX_TTL;

fn ensure(holds: bool, otherwise: &'static str) -> Result<(), Damaged> {
    if holds { Ok(()) } else { Err(Damaged(otherwise)) }
}

impl Realm {
    /// Holds a foreign event against this realm. O(log conferences + what the event names).
    ///
    /// # Errors
    /// An event that no decision on this realm could have made; the realm differs from its master's.
    pub fn admits(&self, event: &Event) -> Result<(), Damaged> {
        match event {
            Event::Opened { .. } => Err(Damaged("the realm is open already")),
            Event::Configured { settings } => ensure(settings.check().is_ok(), "a setting is out of range"),
            Event::Claimed { .. }
            | Event::Asked { cmu: None, .. }
            | Event::Disowned { .. }
            | Event::Refused { .. } => Ok(()),
            Event::Joined { cmu, capacity, lease, .. } => {
                ensure(!self.is_replaced(cmu), "a unit that was replaced joins")?;
                ensure(i64::from(*capacity) <= MAX_ROOM, "a unit has too much room")?;
                ensure((1..=MAX_TTL).contains(lease), "a lease is out of range")?;
                let current = self.hosts.get(host_of(cmu)).and_then(|host| host.current);
                let known = self.find_unit(cmu);
                ensure(known.is_none() || known == current, "a unit is not its host's current one")
            }
            Event::Beat { cmu, .. } | Event::Reported { cmu, .. } | Event::Drained { cmu, .. } => {
                self.unit_is(cmu, |_| true)
            }
            Event::Asked { cmu: Some(cmu), .. } => self.unit_is(cmu, |_| true),
            Event::Lapsed { cmu, to } => {
                ensure(matches!(to, Standing::Suspect | Standing::Unreachable), "a lease lapses otherwise")?;
                self.unit_is(cmu, |standing| standing != Standing::Down)
            }
            Event::Down { cmu } => self.unit_is(cmu, |standing| standing != Standing::Down),
            Event::Forgotten { cmu } => {
                self.unit_is(cmu, |standing| standing == Standing::Down)?;
                let idle = self.unit_called(cmu).is_some_and(super::unit::Unit::is_idle);
                ensure(idle, "a unit that has conferences is forgotten")
            }
            Event::Restarted { gone } => {
                gone.iter().try_for_each(|cmu| self.unit_is(cmu, |standing| standing != Standing::Down))
            }
            Event::Created(created) => {
                let one = self.conference_called(&created.e164);
                ensure(one.is_none_or(|one| !one.is_live()), "a conference is created twice")?;
                self.unit_is(&created.cmu, |standing| standing != Standing::Down)?;
                self.is_new(created.epoch)?;
                let request = created.called_from.as_ref().and(created.request.as_deref());
                let known = request.and_then(|request| self.asked_for(request));
                ensure(known.is_none_or(|one| one.e164 == created.e164), "a request is answered twice")?;
                let size = (1..=MAX_ROOM).contains(&created.size.into());
                ensure(size && i64::from(created.licences) <= MAX_ROOM, "a size is out of range")
            }
            Event::Missed { stream } => {
                ensure(super::mail::is_stream(stream), "a message is for a stream that the family has not")
            }
            Event::Flushed { sent, .. } => {
                for (stream, count) in sent {
                    let waiting = self.outbox.len_of(stream);
                    ensure(*count as usize <= waiting, "there are not so many messages")?;
                }
                Ok(())
            }
            _ => self.admits_to_conference(event),
        }
    }

    fn admits_to_conference(&self, event: &Event) -> Result<(), Damaged> {
        let one = event.e164().and_then(|e164| self.conference_called(e164));
        let one = one.ok_or(Damaged("there is no such conference"))?;
        let is = |states: &[State]| ensure(states.contains(&one.state), "a conference is in another state");
        let owned = [State::Waiting, State::Creating, State::Open];
        match event {
            Event::Removed { .. } => is(&[State::Ended]),
            Event::Ended { .. } => is(&[State::Waiting, State::Creating, State::Open, State::Pending]),
            Event::Granted { cmu, epoch, .. } => {
                is(&[State::Pending])?;
                self.unit_is(cmu, |standing| standing != Standing::Down)?;
                self.is_new(*epoch)
            }
            Event::Acked { .. } => is(&[State::Waiting, State::Creating]),
            Event::AskedAgain { .. } => is(&[State::Waiting]),
            Event::Failed { .. } => {
                is(&[State::Waiting, State::Creating])?;
                Self::may_wait(one)
            }
            Event::Pending { .. } => {
                is(&owned)?;
                if one.moving.is_some() { Ok(()) } else { Self::may_wait(one) }
            }
            Event::Ending { .. } | Event::EpochAgain { .. } => is(&owned),
            Event::Adopted { cmu, old, epoch, .. } => {
                ensure(one.is_live() && one.ending.is_none(), "what is over is adopted")?;
                ensure(one.assignment(cmu, *old).is_some(), "an unknown copy is adopted")?;
                self.unit_is(cmu, |standing| standing != Standing::Down)?;
                let unit = self.find_unit(cmu);
                let elsewhere = one.owner != unit && one.moving.map(|moving| moving.to) != unit;
                ensure(elsewhere || one.owner.is_none(), "a unit adopts what it has")?;
                self.is_new(*epoch)
            }
            Event::Moving { to, epoch, .. } => {
                is(&[State::Open])?;
                let free = one.moving.is_none() && one.ending.is_none() && one.owner != self.find_unit(to);
                ensure(free, "a conference moves that cannot")?;
                self.unit_is(to, |standing| standing != Standing::Down)?;
                self.is_new(*epoch)
            }
            Event::Moved { .. } | Event::MoveFailed { .. } => {
                ensure(one.moving.is_some(), "a conference does not move")
            }
            Event::Extended { .. } => ensure(one.is_live(), "what is over is extended"),
            Event::Set { fields: bytes, .. } => {
                is(&owned)?;
                check_fields(bytes)?;
                let new = pairs(bytes).filter(|(field, _)| one.place_of(field).is_err()).count();
                ensure(one.details.len() + new <= MAX_DETAILS, "a conference has too many details")
            }
            _ => Err(Damaged("this is no event of a conference")),
        }
    }

    fn may_wait(one: &Conference) -> Result<(), Damaged> {
        ensure(one.recoverable && one.ending.is_none(), "a conference waits that cannot be recovered")
    }

    fn unit_is(&self, cmu: &[u8], standing: impl Fn(Standing) -> bool) -> Result<(), Damaged> {
        let unit = self.unit_called(cmu).ok_or(Damaged("there is no such unit"))?;
        ensure(standing(unit.standing), "a unit is in another state")
    }

    fn is_new(&self, epoch: Epoch) -> Result<(), Damaged> {
        ensure(epoch > self.last_epoch, "an epoch was given out before")
    }
}
