//! Decisions at deadlines: expired leases, timeouts, end times and tombstones.

use crate::conf::event::{ConferenceEvent, Events, UnitEvent};
use crate::conf::model::conference::{Cause, Conference, Due};
use crate::conf::model::state::Realm;
use crate::conf::model::transitions::{Transition, Trigger, effective, transition};
use crate::conf::model::unit::UnitState;
use crate::conf::request::Request;
use crate::invariant;
use crate::shared::Millis;
use crate::shared::invariant::Expected;
use crate::shared::machine::Machine as _;
use crate::shared::refusal::{Refusal, try_again};
use std::borrow::Cow;

/// The events of deadlines that have passed by `now`, at most `limit`. Call again until none are left. O(events log
/// conferences).
pub fn decide_due(realm: &Realm, now: Millis, limit: usize) -> Events {
    let mut events = Events::new();
    if !realm.epochs().has_room() {
        return events;
    }
    for number in realm.unit_due.due(now, limit) {
        let Some(unit) = realm.indexed_unit(number) else { continue };
        invariant!(unit.state != UnitState::Unreachable, "an unreachable unit has no deadline");
        let event = match unit.state {
            UnitState::Down => UnitEvent::Forgotten,
            _ if unit.lease_ends() <= now => UnitEvent::Lapsed { to: UnitState::Unreachable },
            UnitState::Up if unit.suspect_at() <= now => UnitEvent::Lapsed { to: UnitState::Suspect },
            _ => UnitEvent::LoadExpired,
        };
        events.push(event.of(unit.cmu.clone()));
    }
    for id in realm.conference_due.due(now, limit.saturating_sub(events.len())) {
        let Some(conference) = realm.indexed(id) else { continue };
        let due = conference.due(&realm.settings, now);
        let due = due.expected("a conference in the index of deadlines has a deadline");
        let event = due.and_then(|due| realm.event_at(conference, due, now));
        events.extend(event.map(|event| conference.event(event)));
    }
    events
}

/// Refuses a request that names a unit or a conference whose deadline has passed and was not carried out.
#[cold]
pub(super) fn check_named(realm: &Realm, now: Millis, request: &Request<'_>) -> Result<(), Refusal> {
    let (cmu, e164) = request.named();
    let has_passed = |due: Option<Millis>| due.is_some_and(|due| due <= now);
    let unit = cmu.and_then(|cmu| realm.find_unit(cmu)).and_then(|id| realm.unit_due.get(id));
    let conference = e164.and_then(|e164| realm.find(e164)).and_then(|id| realm.conference_due.get(id));
    if has_passed(unit) || has_passed(conference) {
        return try_again(|limit| realm.count_overdue(now, limit));
    }
    Ok(())
}

impl Realm {
    /// A conference as it will be after all deadlines up to `now`, whether or not they were applied yet; `None` if
    /// the record is deleted by then. O(1), or O(size of the conference) if a deadline has passed.
    pub fn as_of<'a>(&self, conference: &'a Conference, now: Millis) -> Option<Cow<'a, Conference>> {
        let mut seen = Cow::Borrowed(conference);
        // Each event restarts the deadlines, so at most two follow each other at one time.
        for _ in 0..4 {
            let Some(due) = seen.due(&self.settings, now) else { break };
            let Some(event) = self.event_at(&seen, due, now) else { break };
            let conference = seen.to_mut();
            match event {
                ConferenceEvent::Removed => return None,
                ConferenceEvent::Ended { cause, .. } => conference.ends(now, cause),
                ConferenceEvent::Ending { cause } => conference.is_to_end(now, cause),
                ConferenceEvent::Failed { next_retry, cause, .. } => conference.fails(now, next_retry, cause),
                ConferenceEvent::MoveFailed { .. } => conference.moving = None,
                ConferenceEvent::Pending { cause } => match conference.moving.clone() {
                    Some(moving) => conference.goes_on(now, &moving, cause),
                    None => conference.loses(now, cause),
                },
                ConferenceEvent::AskedAgain => conference.since = now,
                ConferenceEvent::Granted { .. }
                | ConferenceEvent::Acked
                | ConferenceEvent::Adopted { .. }
                | ConferenceEvent::Moving { .. }
                | ConferenceEvent::Moved
                | ConferenceEvent::EpochAgain { .. }
                | ConferenceEvent::Refused { .. }
                | ConferenceEvent::Extended { .. }
                | ConferenceEvent::Set { .. } => invariant!("no deadline causes such an event"),
            }
        }
        Some(seen)
    }

    /// The event that follows when a deadline of a conference has passed.
    fn event_at(&self, conference: &Conference, due: Due, now: Millis) -> Option<ConferenceEvent> {
        let (state, cause) = (Some(conference.state), Cause::Timeout);
        let ended = |cause, release| Some(ConferenceEvent::Ended { cause, release });
        let unexpected = || {
            invariant!("the table of transitions has an event for each deadline");
            None
        };
        match due {
            Due::Tombstone => Some(ConferenceEvent::Removed),
            // The unit never answered RELEASE, perhaps because the entry was lost. It gets RELEASE again.
            Due::Release => ended(conference.cause, true),
            Due::Move => Some(ConferenceEvent::MoveFailed { cause, release: true }),
            Due::Window => match transition(Trigger::Window, state) {
                Transition::Ended => ended(Cause::Window, false),
                _ => unexpected(),
            },
            Due::EndTime => match transition(Trigger::EndTime, state) {
                Transition::Ending => Some(ConferenceEvent::Ending { cause: Cause::EndTime }),
                Transition::Ended => ended(Cause::EndTime, false),
                _ => unexpected(),
            },
            Due::Create => match transition(Trigger::Nack, state) {
                // The unit cannot answer: Redis or the unit was away. Either the unit comes back, or it is declared down.
                Transition::Failed if !self.owner_has_lease(conference, now) => {
                    Some(ConferenceEvent::AskedAgain)
                }
                Transition::Failed => Some(self.failed(conference, cause, now)),
                _ => unexpected(),
            },
            Due::Wait => match transition(Trigger::WaitTimeout, state) {
                Transition::AskAgain if self.owner_has_lease(conference, now) => {
                    Some(ConferenceEvent::AskedAgain)
                }
                Transition::AskAgain => {
                    let pending = effective(conference, Transition::Pending) == Transition::Pending;
                    // The target unit of a move takes over at once.
                    if pending || conference.moving.is_some() {
                        Some(ConferenceEvent::Pending { cause })
                    } else {
                        ended(cause, true)
                    }
                }
                _ => unexpected(),
            },
        }
    }

    /// Whether the lease of the conference's unit is valid.
    fn owner_has_lease(&self, conference: &Conference, now: Millis) -> bool {
        let unit = conference.owner.and_then(|owner| self.indexed_unit(owner));
        unit.is_some_and(|unit| unit.has_lease(now))
    }

    /// The event of a failed creation: a first creation ends; a recovery waits for another unit, or for its next try.
    pub(super) fn failed(&self, conference: &Conference, cause: Cause, now: Millis) -> ConferenceEvent {
        let release = cause == Cause::Timeout || conference.ending.is_some() || conference.moving.is_some();
        if !conference.recovering || effective(conference, Transition::Pending) == Transition::Ended {
            return ConferenceEvent::Ended { cause, release };
        }
        let next_retry = now.saturating_add(self.settings.retry);
        ConferenceEvent::Failed { cause, release, next_retry }
    }
}
