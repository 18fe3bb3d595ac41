//! Decisions at deadlines: expired leases, timeouts, end times and tombstones.

use crate::conf::event::{ConferenceEvent, Events, UnitEvent};
use crate::conf::model::conference::{Cause, Conference, Due, Epoch, State};
use crate::conf::model::placement_index::PlacementIndex;
use crate::conf::model::reservations::{Area, Ask, MAX_SCHEDULED};
use crate::conf::model::state::Realm;
use crate::conf::model::transitions::{Transition, Trigger, effective, transition};
use crate::conf::model::unit::{Name, UnitState};
use crate::conf::request::Request;
use crate::invariant;
use crate::shared::Millis;
use crate::shared::invariant::Expected;
use crate::shared::machine::Machine as _;
use crate::shared::refusal::{Refusal, try_again};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// How many planned starts and ends are looked at in one call, before the starts that are left wait for the next: about
/// two milliseconds.
const WALKED_AT_ONCE: usize = 50_000;

/// The events of deadlines that have passed by `now`, at most `limit`. Call again until none are left. O(events log
/// conferences), and for starts the walks of `Reservations::full`, of which few are done in one call.
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
            _ if unit.backoff_until.is_some_and(|until| until <= now) => UnitEvent::BackoffEnded,
            _ if unit.ramp_due(&realm.settings).is_some_and(|due| due <= now) => UnitEvent::Ramped,
            _ if unit.conflict_ends().is_some_and(|ends| ends <= now) => UnitEvent::ConflictOver,
            _ => UnitEvent::LoadExpired,
        };
        events.push(event.of(unit.cmu.clone()));
    }
    let (index, failures) = (None, BTreeMap::new());
    let mut retries = Retries { realm, now, index, failures, epoch: realm.next_epoch(now), walked: 0 };
    for id in realm.conferences_due(now, limit.saturating_sub(events.len())) {
        let Some(conference) = realm.indexed(id) else { continue };
        // Only starts are left, and the next step goes on with them.
        if retries.walked >= WALKED_AT_ONCE && conference.turn_to_start().is_some() {
            break;
        }
        let due = conference.due(&realm.settings, now);
        let Some(due) = due.expected("a conference in the index of deadlines has a deadline") else {
            continue;
        };
        let number = retries.epoch;
        let event = realm.event_at(conference, due, now, number, |conference| retries.place(conference));
        let Some(event) = event else { continue };
        if matches!(event, ConferenceEvent::EndNear { .. }) {
            retries.epoch += 1;
        }
        let failed = realm.unit_that_failed(conference, &event, now);
        events.push(conference.event(event));
        if let Some(unit) = failed {
            events.push(UnitEvent::Failed.of(realm.name_of(unit)));
            retries.note_failure(unit);
        }
    }
    events
}

/// Places the conferences whose start has come, and on other units the creations that failed at their deadlines. Room,
/// trials and epochs that one of them takes are not free for the next, and a unit that fails too often gets none.
struct Retries<'a> {
    realm: &'a Realm,
    now: Millis,
    index: Option<PlacementIndex>,
    /// How many creations failed on each unit at these deadlines.
    failures: BTreeMap<u32, i64>,
    /// The next epoch to give out.
    epoch: Epoch,
    /// How many planned starts and ends were looked at so far, to keep what is reserved for others.
    walked: usize,
}

impl Retries<'_> {
    fn index(&mut self) -> &mut PlacementIndex {
        self.index.get_or_insert_with(|| self.realm.placement_index.clone())
    }

    /// Notes that a creation failed on a unit. If the unit gets a back-off by that, nothing more is placed on it.
    fn note_failure(&mut self, unit: u32) {
        let before = self.realm.indexed_unit(unit).map_or(0, |unit| i64::from(unit.failures));
        let failures = self.failures.entry(unit).or_default();
        *failures += 1;
        if before + *failures >= self.realm.settings.failures {
            self.index().strike(unit);
        }
    }

    fn place(&mut self, conference: &Conference) -> Option<(u32, Epoch)> {
        let (realm, now) = (self.realm, self.now);
        let mut walked = self.walked;
        let index = self.index();
        let unit = realm.next_unit(conference, now, index, &mut walked);
        self.walked = walked;
        let unit = unit?;
        self.index().reserve(unit, conference.size);
        let epoch = self.epoch;
        self.epoch += 1;
        Some((unit, epoch))
    }
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
    /// Conferences whose deadlines have passed, at most `limit`. Those that start come last, in their order.
    fn conferences_due(&self, now: Millis, limit: usize) -> Vec<u32> {
        let turn = |&id: &u32| self.indexed(id).and_then(Conference::turn_to_start);
        let mut due = self.conference_due.due(now, limit);
        if due.len() == limit && due.iter().any(|id| turn(id).is_some()) {
            // Of conferences that start at one time, the first may not be among these.
            due = self.conference_due.due(now, limit.saturating_add(MAX_SCHEDULED));
        }
        due.sort_by_key(turn);
        due.truncate(limit);
        due
    }

    /// A conference as it will be after all deadlines up to `now`, whether or not they were applied yet; `None` if the
    /// record is deleted by then. A creation that will be tried on another unit, or a start that a unit has room for,
    /// is shown as it is: its next epoch is not given out yet. O(1), or O(size of the conference + units passed over)
    /// if a deadline has passed.
    pub fn as_of<'a>(&self, conference: &'a Conference, now: Millis) -> Option<Cow<'a, Conference>> {
        let mut seen = Cow::Borrowed(conference);
        // Each event restarts the deadlines, so at most two follow each other at one time.
        for _ in 0..4 {
            let Some(due) = seen.due(&self.settings, now) else { break };
            let place =
                |one: &Conference| Some((self.next_unit(one, now, &self.placement_index, &mut 0)?, 0));
            let Some(event) = self.event_at(&seen, due, now, 0, place) else { break };
            let heard = self.last_heard(&seen, now, Cause::Timeout);
            let conference = seen.to_mut();
            match event {
                ConferenceEvent::Removed => return None,
                ConferenceEvent::Ended { cause, .. } => conference.ends(now, cause),
                ConferenceEvent::Ending { cause } => conference.is_to_end(now, cause),
                ConferenceEvent::Failed { next_retry, cause, .. } => conference.fails(now, next_retry, cause),
                ConferenceEvent::MoveFailed { .. } => conference.moving = None,
                ConferenceEvent::Pending { cause } => match conference.moving.clone() {
                    Some(moving) => conference.goes_on(now, heard, &moving, cause),
                    None => conference.loses(now, heard, cause),
                },
                ConferenceEvent::AskedAgain => conference.since = now,
                ConferenceEvent::EndNear { .. } => conference.end_is_near = true,
                ConferenceEvent::ZoneFell => conference.elsewhere = true,
                ConferenceEvent::Delayed => conference.is_delayed(now),
                ConferenceEvent::Retried { .. } | ConferenceEvent::Started { .. } => break,
                ConferenceEvent::Granted { .. }
                | ConferenceEvent::Acked
                | ConferenceEvent::Adopted { .. }
                | ConferenceEvent::CopyFound { .. }
                | ConferenceEvent::Moving { .. }
                | ConferenceEvent::Moved
                | ConferenceEvent::EpochAgain { .. }
                | ConferenceEvent::Refused { .. }
                | ConferenceEvent::Extended { .. }
                | ConferenceEvent::Resized { .. }
                | ConferenceEvent::UpdatedAgain { .. }
                | ConferenceEvent::Altered { .. }
                | ConferenceEvent::Set { .. } => invariant!("no deadline causes such an event"),
            }
        }
        Some(seen)
    }

    /// The event that follows when a deadline of a conference has passed. `number` is the next epoch, for an UPDATE.
    fn event_at(
        &self,
        conference: &Conference,
        due: Due,
        now: Millis,
        number: Epoch,
        place: impl FnOnce(&Conference) -> Option<(u32, Epoch)>,
    ) -> Option<ConferenceEvent> {
        let (state, cause) = (Some(conference.state), Cause::Timeout);
        let ended = |cause, release| Some(ConferenceEvent::Ended { cause, release });
        let unexpected = || {
            invariant!("the table of transitions has an event for each deadline");
            None
        };
        match due {
            Due::Start => match (transition(Trigger::Start, state), place(conference)) {
                (Transition::Starting, Some((unit, epoch))) => {
                    Some(ConferenceEvent::Started { cmu: self.name_of(unit), epoch })
                }
                (Transition::Starting, None) => Some(ConferenceEvent::Delayed),
                _ => unexpected(),
            },
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
            Due::EndNear => Some(ConferenceEvent::EndNear { number }),
            Due::ZoneFall => Some(ConferenceEvent::ZoneFell),
            Due::Create => match transition(Trigger::Nack, state) {
                // The unit cannot answer: Redis or the unit was away. Either the unit comes back, or it is declared down.
                // A unit that misses heartbeats may have opened the conference, and its answer may be lost.
                Transition::Failed if !self.owner_sends_heartbeats(conference, now) => {
                    Some(ConferenceEvent::AskedAgain)
                }
                Transition::Failed => Some(self.failed(conference, cause, now, place)),
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

    /// Whether the conference's unit is up and not suspect.
    fn owner_sends_heartbeats(&self, conference: &Conference, now: Millis) -> bool {
        let unit = conference.owner.and_then(|owner| self.indexed_unit(owner));
        unit.is_some_and(|unit| unit.has_lease(now) && unit.suspect_at() > now)
    }

    /// Whether the lease of the conference's unit is valid.
    fn owner_has_lease(&self, conference: &Conference, now: Millis) -> bool {
        let unit = conference.owner.and_then(|owner| self.indexed_unit(owner));
        unit.is_some_and(|unit| unit.has_lease(now))
    }

    /// The unit on which a first creation that failed is tried next: one that did not fail it. `None` if there is no
    /// such unit with room, or if `TRIES` units have failed. Of a scheduled conference, the unit on which it starts;
    /// `walked` rises by the planned starts and ends that were looked at for that. O(log units + units passed over).
    pub(super) fn next_unit(
        &self,
        conference: &Conference,
        now: Millis,
        index: &PlacementIndex,
        walked: &mut usize,
    ) -> Option<u32> {
        if conference.state == State::Scheduled {
            return self.first_unit(conference, now, index, walked);
        }
        let is_first = !conference.recovering && conference.ending.is_none();
        if !is_first || conference.tried.len() as i64 + 1 >= self.settings.tries {
            return None;
        }
        let failed = |unit, name: &Name| conference.owner == Some(unit) || conference.tried.contains(name);
        index.choose(conference.need(), failed)
    }

    /// The unit on which a scheduled conference starts. If there is another, one that is not reserved for conferences
    /// with further wishes. As `Reservations::full`, and O(log units + units passed over).
    fn first_unit(
        &self,
        conference: &Conference,
        now: Millis,
        index: &PlacementIndex,
        walked: &mut usize,
    ) -> Option<u32> {
        let (need, own) = (conference.need(), Area::of(conference.need()));
        let ask = Ask { from: now, until: conference.end, size: conference.size.into(), licences: 0 };
        let full = self.reservations.full(&ask, |area| !area.contains(&own), walked);
        let unit = index.choose(need, |unit, _| self.is_in_one(unit, &full));
        unit.or_else(|| index.choose(need, |_, _| false))
    }

    /// The unit on which a creation fails by this event at a deadline, if its failures count: a unit without a lease
    /// could not answer.
    fn unit_that_failed(&self, conference: &Conference, event: &ConferenceEvent, now: Millis) -> Option<u32> {
        let unit = match event {
            ConferenceEvent::Retried { .. } | ConferenceEvent::Failed { .. } => conference.owner,
            ConferenceEvent::Ended { cause: Cause::Timeout, .. } if conference.state == State::Creating => {
                conference.owner
            }
            ConferenceEvent::MoveFailed { .. } => conference.moving.as_ref().map(|moving| moving.to),
            _ => None,
        };
        unit.filter(|&unit| self.indexed_unit(unit).is_some_and(|unit| unit.has_lease(now)))
    }

    /// The event of a failed creation: a first creation is tried on another unit, which `place` finds, or ends. A
    /// recovery, and a conference that was scheduled, waits for another unit, or for its next try.
    pub(super) fn failed(
        &self,
        conference: &Conference,
        cause: Cause,
        now: Millis,
        place: impl FnOnce(&Conference) -> Option<(u32, Epoch)>,
    ) -> ConferenceEvent {
        let release = cause == Cause::Timeout || conference.ending.is_some() || conference.moving.is_some();
        if let Some((unit, epoch)) = place(conference) {
            return ConferenceEvent::Retried { cause, release, cmu: self.name_of(unit), epoch };
        }
        let may_wait = conference.recovering || conference.has_yet_to_begin();
        if !may_wait || effective(conference, Transition::Pending) == Transition::Ended {
            return ConferenceEvent::Ended { cause, release };
        }
        let next_retry = now.saturating_add(self.settings.retry);
        ConferenceEvent::Failed { cause, release, next_retry }
    }
}
