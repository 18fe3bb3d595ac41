//! Deadlines: when something happens to a conference or a unit that nobody asks for, and what.

use super::conference::{Cause, Conference, State};
use super::event::{Event, Events};
use super::rows::{Cell, Row, cell};
use super::state::{Realm, Settings};
use super::unit::{Standing, Unit};
use crate::invariant;
use crate::shared::Millis;
use std::borrow::Cow;

/// What a conference waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    EndTime,
    Create,
    Wait,
    Window,
    Move,
    Release,
    Tombstone,
}

impl Conference {
    /// All its deadlines; where several have passed, the first in the list comes first.
    fn deadlines(&self, settings: &Settings) -> [Option<(Due, Millis)>; 3] {
        let since = |length: Millis| self.since.saturating_add(length);
        if self.state == State::Ended {
            return [Some((Due::Tombstone, since(settings.tombstone))), None, None];
        }
        // Its unit is to end it; nothing else matters any more.
        if let Some(ending) = self.ending {
            return [Some((Due::Release, ending.saturating_add(settings.release_timeout))), None, None];
        }
        let own = match self.state {
            State::Creating => Some((Due::Create, since(settings.create_timeout))),
            State::Waiting => Some((Due::Wait, since(settings.wait_timeout))),
            State::Pending => {
                self.pending_since.map(|since| (Due::Window, since.saturating_add(settings.window)))
            }
            State::Open | State::Ended => None,
        };
        let moving = |moving: super::conference::Moving| {
            (Due::Move, moving.since.saturating_add(settings.create_timeout))
        };
        [self.end.map(|end| (Due::EndTime, end)), own, self.moving.map(moving)]
    }

    /// Its earliest deadline.
    pub(super) fn next_due(&self, settings: &Settings) -> Option<Millis> {
        self.deadlines(settings).into_iter().flatten().map(|(_, due)| due).min()
    }

    fn due(&self, settings: &Settings, now: Millis) -> Option<Due> {
        self.deadlines(settings).into_iter().flatten().find(|&(_, due)| due <= now).map(|(due, _)| due)
    }
}

impl Unit {
    /// Its earliest deadline; `waited_for` says whether pending conferences remember it as the last to have them.
    pub(super) fn next_due(&self, settings: &Settings, waited_for: bool) -> Option<Millis> {
        match self.standing {
            Standing::Up => Some(self.suspect_at()),
            Standing::Suspect => Some(self.lease_ends()),
            Standing::Unreachable => None,
            Standing::Down => {
                (self.is_idle() && !waited_for).then(|| self.down_since.saturating_add(settings.tombstone))
            }
        }
    }
}

/// What is due at `now`, at most `limit` events; more may be due. O(due log conferences).
pub fn decide_due(realm: &Realm, now: Millis, limit: usize) -> Events {
    let mut events = Events::new();
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
        let Some(one) = realm.indexed(id) else { continue };
        let due = one.due(&realm.settings, now);
        invariant!(due.is_some(), "a conference whose deadline has passed waits for something");
        events.extend(due.and_then(|due| realm.happens(one, due, now)));
    }
    events
}

impl Realm {
    /// A conference as it stands once all is done that is due by `now`, whether or not it is yet; `None` for a record that
    /// is to be forgotten. O(1), or a copy of it where something is due.
    pub fn as_of<'a>(&self, one: &'a Conference, now: Millis) -> Option<Cow<'a, Conference>> {
        let mut seen = Cow::Borrowed(one);
        // Deadlines begin anew with each step, so that no more than two follow each other at one time.
        for _ in 0..4 {
            let Some(due) = seen.due(&self.settings, now) else { break };
            let Some(event) = self.happens(&seen, due, now) else { break };
            let one = seen.to_mut();
            match event {
                Event::Removed { .. } => return None,
                Event::Ended { cause, .. } => one.ends(now, cause),
                Event::Ending { cause, .. } => one.is_to_end(now, cause),
                Event::Failed { next_retry, cause, .. } => one.fails(now, next_retry, cause),
                Event::MoveFailed { .. } => one.moving = None,
                Event::Pending { cause, .. } => match one.moving {
                    Some(moving) => {
                        let entry = self.assignment(moving.to, moving.epoch, moving.epoch, now);
                        one.goes_on(now, moving, entry, cause);
                    }
                    None => one.loses(now, cause),
                },
                Event::AskedAgain { .. } => one.since = now,
                _ => invariant!("every event that a deadline brings is foreseen"),
            }
        }
        Some(seen)
    }

    /// What happens to a conference at its deadline.
    fn happens(&self, one: &Conference, due: Due, now: Millis) -> Option<Event> {
        let e164 = one.e164.clone();
        let column = Some(one.state);
        let ended = |cause, release| Some(Event::Ended { e164: one.e164.clone(), cause, release });
        let unexpected = || {
            invariant!("a deadline brings what the table of transitions says of it");
            None
        };
        match due {
            Due::Tombstone => Some(Event::Removed { e164 }),
            Due::Release => ended(one.cause, false),
            Due::Move => Some(Event::MoveFailed { e164, cause: Cause::Timeout, release: true }),
            Due::Window => match cell(Row::Window, column) {
                Cell::Ended => ended(Cause::Window, false),
                _ => unexpected(),
            },
            Due::EndTime => match cell(Row::EndTime, column) {
                Cell::Ending => Some(Event::Ending { e164, cause: Cause::EndTime }),
                Cell::Ended => ended(Cause::EndTime, false),
                _ => unexpected(),
            },
            Due::Create => match cell(Row::Nack, column) {
                Cell::Failed => Some(self.failed(one, Cause::Timeout, now)),
                _ => unexpected(),
            },
            Due::Wait => match cell(Row::WaitTimeout, column) {
                Cell::AskAgain => {
                    let unit = one.owner.and_then(|owner| self.indexed_unit(owner));
                    let good = unit.is_some_and(|unit| {
                        matches!(unit.standing, Standing::Up | Standing::Suspect) && unit.lease_ends() > now
                    });
                    if good {
                        return Some(Event::AskedAgain { e164 });
                    }
                    match Self::outcome(one, Cell::Pending) {
                        // Or the unit that it moves to goes on.
                        _ if one.moving.is_some() => Some(Event::Pending { e164, cause: Cause::Timeout }),
                        Cell::Pending => Some(Event::Pending { e164, cause: Cause::Timeout }),
                        _ => ended(Cause::Timeout, true),
                    }
                }
                _ => unexpected(),
            },
        }
    }

    /// What comes of a creation that failed: the end of a first one; of a recovery, the next unit, or the same ones later.
    pub(super) fn failed(&self, one: &Conference, cause: Cause, now: Millis) -> Event {
        let e164 = one.e164.clone();
        let release = cause == Cause::Timeout || one.ending.is_some() || one.moving.is_some();
        if !one.recovering || Self::outcome(one, Cell::Pending) == Cell::Ended {
            return Event::Ended { e164, cause, release };
        }
        Event::Failed { e164, cause, release, next_retry: now.saturating_add(self.settings.retry) }
    }
}
