//! Deadlines: when something happens to a conference or a unit that nobody asks for, and what.

use crate::conf::event::{Event, Events};
use crate::conf::model::conference::{Cause, Conference};
use crate::conf::model::due::Due;
use crate::conf::model::state::Realm;
use crate::conf::model::transitions::{Transition, Trigger, effective, transition};
use crate::conf::model::unit::Standing;
use crate::invariant;
use crate::shared::Millis;
use std::borrow::Cow;

/// What is due at `now`, at most `limit` events; more may be due. O(due log conferences).
pub fn decide_due(realm: &Realm, now: Millis, limit: usize) -> Events {
    let mut events = Events::new();
    if !realm.epochs().has_room() {
        return events;
    }
    for number in realm.unit_due.due(now, limit) {
        let Some(unit) = realm.indexed_unit(number) else { continue };
        let cmu = unit.cmu.clone();
        invariant!(unit.standing != Standing::Unreachable, "an unreachable unit waits for no time");
        events.push(match unit.standing {
            Standing::Down => Event::Forgotten { cmu },
            _ if unit.lease_ends() <= now => Event::Lapsed { cmu, to: Standing::Unreachable },
            _ => Event::Lapsed { cmu, to: Standing::Suspect },
        });
    }
    for id in realm.conference_due.due(now, limit.saturating_sub(events.len())) {
        let Some(conference) = realm.indexed(id) else { continue };
        let due = conference.due(&realm.settings, now);
        invariant!(due.is_some(), "a conference whose deadline has passed waits for something");
        events.extend(due.and_then(|due| realm.happens(conference, due, now)));
    }
    events
}

impl Realm {
    /// A conference as it stands once all is done that is due by `now`, whether or not it is yet; `None` for a record that
    /// is to be forgotten. O(1), or a copy of it where something is due.
    pub fn as_of<'a>(&self, conference: &'a Conference, now: Millis) -> Option<Cow<'a, Conference>> {
        let mut seen = Cow::Borrowed(conference);
        // Deadlines begin again with each step, so that no more than two follow each other at one time.
        for _ in 0..4 {
            let Some(due) = seen.due(&self.settings, now) else { break };
            let Some(event) = self.happens(&seen, due, now) else { break };
            let conference = seen.to_mut();
            match event {
                Event::Removed { .. } => return None,
                Event::Ended { cause, .. } => conference.ends(now, cause),
                Event::Ending { cause, .. } => conference.is_to_end(now, cause),
                Event::Failed { next_retry, cause, .. } => conference.fails(now, next_retry, cause),
                Event::MoveFailed { .. } => conference.moving = None,
                Event::Pending { cause, .. } => match conference.moving {
                    Some(moving) => {
                        let entry = self.assignment(moving.to, moving.epoch, moving.epoch, now);
                        conference.goes_on(now, moving, entry, cause);
                    }
                    None => conference.loses(now, cause),
                },
                Event::AskedAgain { .. } => conference.since = now,
                _ => invariant!("every event that a deadline brings is foreseen"),
            }
        }
        Some(seen)
    }

    /// What happens to a conference at its deadline.
    fn happens(&self, conference: &Conference, due: Due, now: Millis) -> Option<Event> {
        let e164 = conference.e164.clone();
        let column = Some(conference.state);
        let ended = |cause, release| Some(Event::Ended { e164: conference.e164.clone(), cause, release });
        let unexpected = || {
            invariant!("a deadline brings what the table of transitions says of it");
            None
        };
        match due {
            Due::Tombstone => Some(Event::Removed { e164 }),
            Due::Release => ended(conference.cause, false),
            Due::Move => Some(Event::MoveFailed { e164, cause: Cause::Timeout, release: true }),
            Due::Window => match transition(Trigger::Window, column) {
                Transition::Ended => ended(Cause::Window, false),
                _ => unexpected(),
            },
            Due::EndTime => match transition(Trigger::EndTime, column) {
                Transition::Ending => Some(Event::Ending { e164, cause: Cause::EndTime }),
                Transition::Ended => ended(Cause::EndTime, false),
                _ => unexpected(),
            },
            Due::Create => match transition(Trigger::Nack, column) {
                Transition::Failed => Some(self.failed(conference, Cause::Timeout, now)),
                _ => unexpected(),
            },
            Due::Wait => match transition(Trigger::WaitTimeout, column) {
                Transition::AskAgain => {
                    let unit = conference.owner.and_then(|owner| self.indexed_unit(owner));
                    let good = unit.is_some_and(|unit| {
                        matches!(unit.standing, Standing::Up | Standing::Suspect) && unit.lease_ends() > now
                    });
                    if good {
                        return Some(Event::AskedAgain { e164 });
                    }
                    match effective(conference, Transition::Pending) {
                        // Or the unit that it moves to goes on.
                        _ if conference.moving.is_some() => {
                            Some(Event::Pending { e164, cause: Cause::Timeout })
                        }
                        Transition::Pending => Some(Event::Pending { e164, cause: Cause::Timeout }),
                        _ => ended(Cause::Timeout, true),
                    }
                }
                _ => unexpected(),
            },
        }
    }

    /// What comes of a creation that failed: the end of a first one; of a recovery, the next unit, or the same ones later.
    pub(super) fn failed(&self, conference: &Conference, cause: Cause, now: Millis) -> Event {
        let e164 = conference.e164.clone();
        let release = cause == Cause::Timeout || conference.ending.is_some() || conference.moving.is_some();
        if !conference.recovering || effective(conference, Transition::Pending) == Transition::Ended {
            return Event::Ended { e164, cause, release };
        }
        Event::Failed { e164, cause, release, next_retry: now.saturating_add(self.settings.retry) }
    }
}
