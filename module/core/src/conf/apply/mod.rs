//! Applies events to a realm. This cannot fail, because `decide` made the event for this state, or `admits` has
//! checked it.
//!
//! Every change of a conference goes through `change`, which updates room, licences, queues and deadlines to the new
//! record.

mod units;

use crate::conf::event::{Created, Event};
use crate::conf::model::conference::{Assignment, AssignmentEnd, Cause, Conference, Detail, Moving, State};
use crate::conf::model::messages::hang_up;
use crate::conf::model::placement_index::PlacementIndex;
use crate::conf::model::state::Realm;
use crate::conf::model::unit::{Load, Name, Unit, UnitState};
use crate::invariant;
use crate::shared::codec::{LAST_COUNT, pairs};
use crate::shared::field::Any;
use crate::shared::{Bytes, Millis};

impl Realm {
    /// Applies an event at its time. O(log conferences). Events about a whole unit: O(conferences of the unit log
    /// conferences). `Set`: O(fields log details).
    pub fn apply(&mut self, at: Millis, event: &Event) {
        self.applied = self.applied.max(at);
        match event {
            Event::Opened { .. } => {}
            Event::Set { e164, seq, fields } => self.set_details(e164, *seq, fields),
            Event::Flushed { sent, last_id } => {
                for (stream, count) in sent {
                    self.outbox.sent_to(stream, *count as usize, *last_id);
                }
            }
            Event::Configured { settings } => self.configure(*settings),
            Event::Claimed { term, leader } => {
                (self.term, self.leader) = (*term, Some(leader.clone()));
                for number in self.unit_names.values().copied().collect::<Vec<_>>() {
                    self.renew(number, at);
                }
                self.publish_unit("claimed", leader, &term.to_string());
            }
            Event::Joined { cmu, capacity, zone, lease } => {
                self.join(at, cmu, *capacity, zone.clone(), *lease);
            }
            Event::Beat { cmu, load } => {
                let Some(number) = self.admitted_unit(cmu) else { return };
                if let Some(Any(value)) = *load {
                    self.change_unit(number, |unit| unit.load = Some(Load { value, at }));
                    self.place_unit(number);
                }
                self.renew(number, at);
            }
            Event::LoadExpired { cmu } => {
                let Some(number) = self.admitted_unit(cmu) else { return };
                self.change_unit(number, |unit| unit.load = None);
                self.relink_unit(number);
            }
            Event::Lapsed { cmu, to } => {
                let Some(number) = self.admitted_unit(cmu) else { return };
                self.change_unit(number, |unit| {
                    unit.state = *to;
                    // The load was reported with a heartbeat, so it is at least as old as the lease.
                    unit.load = unit.load.filter(|_| *to == UnitState::Suspect);
                });
                self.relink_unit(number);
                self.publish_unit(to.word(), cmu, to.word());
            }
            Event::Reported { cmu, highest } => {
                let Some(number) = self.admitted_unit(cmu) else { return };
                let is_plausible = Self::is_plausible(*highest, self.applied);
                self.change_unit(number, |unit| unit.reported = is_plausible);
                self.take_epoch(self.last_with(*highest, self.applied));
                self.renew(number, at);
                self.relink_unit(number);
            }
            Event::Asked { cmu: Some(cmu), details } => self.tell_report(cmu, *details),
            Event::Asked { cmu: None, details } => {
                let up = |unit: &&Unit| unit.state != UnitState::Down;
                for cmu in self.units().filter(up).map(|unit| unit.cmu.clone()).collect::<Vec<_>>() {
                    self.tell_report(&cmu, *details);
                }
            }
            Event::Drained { cmu, on } => {
                let Some(number) = self.admitted_unit(cmu) else { return };
                self.change_unit(number, |unit| unit.draining = *on);
                self.relink_unit(number);
                let word = self.indexed_unit(number).map_or("", Unit::word);
                self.publish_unit(if *on { "draining" } else { "undrained" }, cmu, word);
            }
            Event::Down { cmu } => self.lose_unit(at, cmu, Cause::Down),
            Event::Forgotten { cmu } => {
                let Some(number) = self.admitted_unit(cmu) else { return };
                self.end_stream(cmu);
                self.remove_unit(number);
                self.publish_unit("forgotten", cmu, "");
            }
            Event::Restarted { gone } => self.restart(at, gone),
            Event::Missed { stream } => self.tell_resync(stream),
            Event::Refused { e164, cmu, epoch, reason } => self.publish_refusal(e164, cmu, *epoch, reason),
            // The realm may have no record of the conference.
            Event::Disowned { e164, cmu, epoch } => {
                self.tell_release(cmu, e164, *epoch);
                if let Some(conference) = self.find(e164).and_then(|id| self.conferences.get_mut(id)) {
                    // No index depends on `disowned`.
                    conference.disown(cmu, *epoch);
                }
            }
            Event::Created(created) => self.create(at, created),
            _ => self.apply_to_conference(at, event),
        }
    }

    /// The number of the unit that an event names. Admission refuses events of unknown units, so `None` is a broken
    /// invariant, reported at the caller's line.
    #[track_caller]
    pub(super) fn admitted_unit(&self, cmu: &[u8]) -> Option<u32> {
        let number = self.find_unit(cmu);
        if number.is_none() {
            invariant!("an event that was admitted names a unit that is there");
        }
        number
    }

    fn change_unit(&mut self, number: u32, change: impl FnOnce(&mut Unit)) {
        match self.units.get_mut(number) {
            Some(unit) => change(unit),
            None => invariant!("a unit that changes is there"),
        }
    }

    fn apply_to_conference(&mut self, at: Millis, event: &Event) {
        let Some(id) = event.e164().and_then(|e164| self.find(e164)) else {
            invariant!("an event that was admitted names a conference that is there");
            return;
        };
        match event {
            Event::Acked { .. } => {
                self.change(id, |conference| conference.opens(at));
                self.publish("opened", id, None);
            }
            Event::Granted { cmu, epoch, .. } => {
                let Some(unit) = self.admitted_unit(cmu) else { return };
                let entry = self.assignment(unit, *epoch, *epoch, at);
                self.take_epoch(*epoch);
                self.change(id, |conference| {
                    conference.attempts = conference.attempts.saturating_add(1);
                    // A unit that failed is chosen again only if no other unit could take the conference. From now on
                    // each unit may be tried again.
                    if conference.tried.contains(cmu) {
                        conference.tried.clear();
                    }
                    conference.grants(unit, entry, at);
                });
                self.tell_create(id, unit, *epoch);
                self.publish("granted", id, Some(Cause::Recovery));
            }
            Event::Failed { cause, release, next_retry, .. } => {
                self.release_if(*release, id);
                self.change(id, |conference| conference.fails(at, *next_retry, *cause));
                self.publish("failed", id, Some(*cause));
            }
            Event::Pending { cause, .. } => self.lose(at, id, *cause),
            Event::Ending { cause, .. } => {
                self.release_if(true, id);
                self.cancel_move(id, *cause, false);
                self.change(id, |conference| conference.is_to_end(at, *cause));
                self.publish("ending", id, Some(*cause));
            }
            Event::Ended { cause, release, .. } => {
                self.release_if(*release, id);
                self.cancel_move(id, *cause, false);
                self.end(at, id, *cause);
            }
            Event::Adopted { e164, cmu, old, epoch } => {
                let Some(unit) = self.admitted_unit(cmu) else { return };
                let copy = self.indexed(id).and_then(|conference| conference.assignment(cmu, *old));
                invariant!(copy.is_some(), "a copy that is adopted is on record");
                let copy_epoch = copy.map_or(*old, |entry| entry.copy_epoch);
                let entry = self.assignment(unit, *epoch, copy_epoch, at);
                self.take_epoch(*epoch);
                self.release_if(true, id);
                self.cancel_move(id, Cause::Adopted, false);
                self.change(id, |conference| {
                    conference.close(at, AssignmentEnd::Released);
                    conference.grants(unit, entry, at);
                    conference.opens(at);
                    conference.cause = Cause::Adopted;
                });
                self.tell_epoch(cmu, e164, *old, *epoch);
                self.publish("adopted", id, Some(Cause::Adopted));
            }
            Event::Moving { to, epoch, .. } => {
                let Some(unit) = self.admitted_unit(to) else { return };
                self.take_epoch(*epoch);
                self.change(id, |conference| {
                    conference.moving = Some(Moving { to: unit, epoch: *epoch, since: at });
                });
                self.tell_create(id, unit, *epoch);
                self.publish_of("moving", id, unit, *epoch, None);
            }
            Event::Moved { .. } => {
                let Some(conference) = self.indexed(id) else { return };
                let (Some(moving), Some(owner)) = (conference.moving, conference.owner) else {
                    invariant!("a conference that has moved has an owner and was moving");
                    return;
                };
                let (e164, epoch, source) = (conference.e164.clone(), conference.epoch, self.name_of(owner));
                let mut entry = self.assignment(moving.to, moving.epoch, moving.epoch, at);
                entry.from = moving.since;
                self.tell_release(&source, &e164, epoch);
                self.change(id, |conference| {
                    conference.close(at, AssignmentEnd::Moved);
                    conference.moving = None;
                    conference.grants(moving.to, entry, at);
                    conference.opens(at);
                    conference.cause = Cause::Manager;
                });
                self.publish("moved", id, None);
            }
            Event::MoveFailed { cause, release, .. } => self.cancel_move(id, *cause, *release),
            Event::EpochAgain { old, .. } => {
                let Some(cmu) = self.owner_of(id) else { return };
                let Some(conference) = self.indexed(id) else { return };
                let (e164, epoch) = (conference.e164.clone(), conference.epoch);
                self.tell_epoch(&cmu, &e164, *old, epoch);
            }
            Event::AskedAgain { .. } => {
                self.change(id, |conference| conference.since = at);
                let Some(cmu) = self.owner_of(id) else { return };
                if self.indexed(id).is_some_and(|conference| conference.state == State::Waiting) {
                    self.ask_once(&cmu);
                }
            }
            Event::Extended { end, .. } => {
                self.change(id, |conference| conference.end = Some(*end));
                self.publish("extended", id, None);
            }
            Event::Removed { .. } => self.remove(id),
            _ => invariant!("every kind of event is handled"),
        }
    }

    /// The owner of a waiting, creating or open conference.
    fn owner_of(&self, id: u32) -> Option<Name> {
        let owner = self.indexed(id).and_then(|conference| conference.owner);
        invariant!(owner.is_some(), "a waiting, creating or open conference has an owner");
        owner.map(|owner| self.name_of(owner))
    }

    /// Changes a conference and updates all indexes. If the conference ends, its call in the pool of numbers is hung
    /// up.
    pub(super) fn change(&mut self, id: u32, change: impl FnOnce(&mut Conference)) {
        let before = self.links(id);
        self.link_pending(id, false);
        let Some(conference) = self.conferences.get_mut(id) else {
            invariant!("a conference that changes is there");
            return;
        };
        let was_live = conference.is_live();
        change(conference);
        if was_live
            && !conference.is_live()
            && let Some(from) = &conference.called_from
        {
            self.outbox.push_always(hang_up(from, &conference.e164));
        }
        self.relink(id, before, self.links(id));
        self.link_pending(id, true);
        self.watch(id);
    }

    fn take_epoch(&mut self, epoch: u64) {
        self.last_epoch = self.last_epoch.max(epoch);
    }

    /// If `release` is set, sends RELEASE to the owner of a conference and to the target of its move.
    pub(super) fn release_if(&mut self, release: bool, id: u32) {
        if !release {
            return;
        }
        let Some(conference) = self.indexed(id) else { return };
        let (e164, owner, epoch, moving) =
            (conference.e164.clone(), conference.owner, conference.epoch, conference.moving);
        if let Some(owner) = owner {
            let cmu = self.name_of(owner);
            self.tell_release(&cmu, &e164, epoch);
        }
        if let Some(moving) = moving {
            let cmu = self.name_of(moving.to);
            self.tell_release(&cmu, &e164, moving.epoch);
        }
    }

    /// Asks a unit for its list, unless the last message that waits in the outbox for this unit asks for it already.
    fn ask_once(&mut self, cmu: &Name) {
        let stream = crate::conf::model::messages::command_stream(cmu);
        let last = self.outbox.last_of(&stream);
        let asked = last.is_some_and(|fields| fields.get(b"what") == Some(b"LIST"));
        if !asked {
            self.tell_report(cmu, false);
        }
    }

    pub(super) fn end(&mut self, at: Millis, id: u32, cause: Cause) {
        self.change(id, |conference| conference.ends(at, cause));
        // The encoding of a count has 53 bits.
        self.ends = (self.ends + 1).min(LAST_COUNT);
        self.publish_end(id, cause);
    }

    /// Cancels the move of a conference, if there is one.
    pub(super) fn cancel_move(&mut self, id: u32, cause: Cause, release: bool) {
        let Some(conference) = self.indexed(id) else { return };
        let (Some(moving), e164) = (conference.moving, conference.e164.clone()) else { return };
        if release {
            let cmu = self.name_of(moving.to);
            self.tell_release(&cmu, &e164, moving.epoch);
        }
        self.change(id, |conference| conference.moving = None);
        self.publish_of("move-failed", id, moving.to, moving.epoch, Some(cause));
    }

    fn create(&mut self, at: Millis, created: &Created) {
        let Some(unit) = self.admitted_unit(&created.cmu) else { return };
        if let Some(tombstone) = self.find(&created.e164) {
            self.remove(tombstone);
        }
        let epoch = created.epoch;
        self.take_epoch(epoch);
        let id = self.enter(Conference {
            e164: created.e164.clone(),
            state: State::Creating,
            owner: Some(unit),
            epoch,
            origin_epoch: epoch,
            copy_epoch: epoch,
            created: at,
            opened: None,
            end: created.end,
            since: at,
            ended: None,
            pending_since: None,
            attempts: 0,
            next_retry: None,
            tried: Vec::new(),
            moving: None,
            ending: None,
            recovering: false,
            recoverable: created.recoverable,
            priority: created.priority,
            size: created.size,
            licences: created.licences,
            zone: created.zone.as_ref().map(|zone| self.zone_name(zone)),
            request: created.request.clone(),
            called_from: created.called_from.clone().map(Box::new),
            cause: Cause::Manager,
            history: vec![self.assignment(unit, epoch, epoch, at)],
            details: Vec::new(),
        });
        self.tell_create(id, unit, epoch);
        self.publish("created", id, None);
    }

    fn configure(&mut self, settings: crate::conf::model::state::Settings) {
        if settings.placement != self.settings.placement {
            self.placement_index = PlacementIndex::by(settings.placement);
            for (number, unit) in self.units.iter() {
                self.placement_index.update(number, unit);
            }
        }
        self.settings = settings;
        // Deadlines depend on the settings.
        for (id, conference) in self.conferences.iter() {
            match conference.next_due(&self.settings) {
                Some(due) => self.conference_due.set(id, due),
                None => self.conference_due.remove(id),
            }
        }
        for (number, unit) in self.units.iter() {
            Self::watch_unit(&mut self.unit_due, &self.settings, &self.lost, number, unit);
        }
    }

    /// Writes details. This bypasses `change`, because it is the most frequent event and no index depends on details.
    fn set_details(&mut self, e164: &[u8], seq: u64, bytes: &[u8]) {
        let Some(conference) = self.find(e164).and_then(|id| self.conferences.get_mut(id)) else {
            invariant!("an event that was admitted names a conference that is there");
            return;
        };
        for (field, value) in pairs(bytes) {
            match conference.place_of(field) {
                Ok(at) => {
                    let Some(detail) = conference.details.get_mut(at) else {
                        invariant!("a field that was found has a place");
                        continue;
                    };
                    detail.seq = seq;
                    detail.value.clear();
                    detail.value.extend_from_slice(value);
                }
                Err(at) => {
                    let detail =
                        Detail { field: Bytes::from_slice(field), seq, value: Bytes::from_slice(value) };
                    conference.details.insert(at, detail);
                }
            }
        }
    }
}

impl Conference {
    /// Begins a new assignment: the unit must create the conference.
    pub(super) fn grants(&mut self, unit: u32, entry: Assignment, since: Millis) {
        self.state = State::Creating;
        self.owner = Some(unit);
        self.since = since;
        self.next_retry = None;
        self.recovering = true;
        self.cause = Cause::Recovery;
        // The details of the last unit are no longer valid; the new unit sends all details again.
        self.details = Vec::new();
        self.assign(entry);
    }

    /// Records that the owner has the conference open.
    fn opens(&mut self, at: Millis) {
        self.state = State::Open;
        self.since = at;
        self.opened.get_or_insert(at);
        match self.history.last_mut() {
            Some(entry) => {
                entry.opened.get_or_insert(at);
            }
            None => invariant!("a conference has an assignment"),
        }
        (self.recovering, self.attempts, self.pending_since) = (false, 0, None);
        self.tried = Vec::new();
    }

    /// Records that the unit could not create the conference.
    pub(super) fn fails(&mut self, at: Millis, next_retry: Millis, cause: Cause) {
        self.close(at, AssignmentEnd::Failed);
        let unit = self.last_unit().cloned();
        self.tried.extend(unit.filter(|unit| !self.tried.contains(unit)));
        self.waits_for_recovery(at, next_retry, cause);
    }

    /// Records that the unit is lost; the conference waits for recovery.
    pub(super) fn loses(&mut self, at: Millis, cause: Cause) {
        self.close_lost(at, cause);
        self.waits_for_recovery(at, at, cause);
    }

    /// Records that the unit is lost, and that the target of the move takes over with this assignment.
    pub(super) fn goes_on(&mut self, at: Millis, moving: Moving, mut entry: Assignment, cause: Cause) {
        entry.from = moving.since;
        self.close_lost(at, cause);
        self.moving = None;
        self.pending_since.get_or_insert(at);
        self.grants(moving.to, entry, moving.since);
        self.cause = cause;
    }

    /// Records that the units that have the conference were told to end it.
    pub(super) fn is_to_end(&mut self, at: Millis, cause: Cause) {
        (self.moving, self.ending, self.cause) = (None, Some(at), cause);
    }

    fn waits_for_recovery(&mut self, at: Millis, next_retry: Millis, cause: Cause) {
        self.state = State::Pending;
        self.owner = None;
        self.since = at;
        self.recovering = true;
        self.pending_since.get_or_insert(at);
        self.next_retry = Some(next_retry);
        self.cause = cause;
    }

    pub(super) fn ends(&mut self, at: Millis, cause: Cause) {
        // A conference that was lost and not recovered ended when its last open assignment ended, not after the
        // failed tries.
        let served = self.last_served();
        let unopened = self.history.last().is_some_and(|entry| entry.opened.is_none());
        let failed = unopened && (self.opened.is_some() || self.ending.is_none());
        self.close(at, if failed { AssignmentEnd::Failed } else { AssignmentEnd::Ended });
        self.ended = Some(served.unwrap_or(at));
        self.state = State::Ended;
        self.since = at;
        (self.owner, self.moving, self.ending, self.next_retry) = (None, None, None, None);
        (self.recovering, self.tried) = (false, Vec::new());
        self.cause = cause;
    }
}
