//! Events of one conference. Every change of a conference except a write of details goes through `Realm::change`, which
//! updates room, licences, queues and deadlines to the new record.

use super::counters::Counter;
use crate::conf::model::conference::{
    Assignment, AssignmentEnd, CalledFrom, Cause, Conference, Epoch, Moving, State, Wishes,
};
use crate::conf::model::epoch::LAST_OF_CLOCK;
use crate::conf::model::settings::MAX_ROOM;
use crate::conf::model::state::Realm;
use crate::conf::model::unit::Name;
use crate::shared::codec::{Damaged, ensure};
use crate::shared::fence::MAX_TIME;
use crate::shared::invariant::Expected;
use crate::shared::{Bytes, Millis};
use crate::{events, fields};

fields! {
    /// A conference is created or scheduled.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Created {
        /// E.164 number.
        pub e164: Bytes,
        /// Unit that gets the conference; `None` if it is scheduled.
        pub cmu: Option<Name>,
        /// Epoch of the first assignment; of a scheduled conference, which has none yet, of its creation.
        pub epoch: Epoch,
        /// Planned start of a scheduled conference, in milliseconds since 1970.
        pub start: Option<Millis>,
        /// Planned end, in milliseconds since 1970.
        pub end: Option<Millis>,
        /// Room that the conference takes on a unit.
        pub size: u32,
        /// Licences that the conference takes.
        pub licences: u32,
        /// Order of recovery: the greater priority first.
        pub priority: i32,
        /// Which units may take the conference.
        pub wishes: Wishes,
        /// Whether the conference is recovered when its unit is lost.
        pub recoverable: bool,
        /// Id of the creation, by which a repeated request is recognised.
        pub request: Option<Bytes>,
        /// The pool that the number was called from, if any.
        pub called_from: Option<CalledFrom>,
    }
}

events! {
    /// A change of a conference that is on record.
    pub enum ConferenceEvent counted by Counter {
        /// A pending conference has a new unit.
        Granted {
            /// Unit that gets the conference.
            cmu: Name,
            /// Epoch of the assignment.
            epoch: Epoch,
        } = 1, notice c"allot.conf.granted", count (Counter::Granted, 1);
        /// The conference is open on its unit.
        Acked = 2, notice c"allot.conf.opened", count (Counter::Opened, 1);
        /// A recovery failed: pending again.
        Failed {
            /// The cause.
            cause: Cause,
            /// Whether RELEASE is sent to the unit.
            release: bool,
            /// When the units that failed to create the conference may be tried again.
            next_retry: Millis,
        } = 3, notice c"allot.conf.failed", count (Counter::Failed, 1);
        /// The conference lost its unit.
        Pending {
            /// The cause.
            cause: Cause,
        } = 4, notice c"allot.conf.lost";
        /// The conference must end; its unit is told.
        Ending {
            /// The cause.
            cause: Cause,
        } = 5, notice c"allot.conf.ending";
        /// The conference has ended.
        Ended {
            /// The cause.
            cause: Cause,
            /// Whether RELEASE is sent to the units that have the conference.
            release: bool,
        } = 6, notice c"allot.conf.ended", count (Counter::Ended, 1);
        /// A unit that lost the conference owns it again.
        Adopted {
            /// The unit.
            cmu: Name,
            /// The epoch that the unit reported.
            old: Epoch,
            /// The new epoch of the conference.
            epoch: Epoch,
        } = 7, notice c"allot.conf.adopted", count (Counter::Adopted, 1);
        /// A move begins.
        Moving {
            /// The target unit.
            to: Name,
            /// The epoch of the conference on the target unit.
            epoch: Epoch,
        } = 8, notice c"allot.conf.moving";
        /// A move is done.
        Moved = 9, notice c"allot.conf.moved", count (Counter::Moved, 1);
        /// A move failed.
        MoveFailed {
            /// The cause.
            cause: Cause,
            /// Whether RELEASE is sent to the target unit.
            release: bool,
        } = 10, notice c"allot.conf.move-failed";
        /// EPOCH is sent to the owner again.
        EpochAgain {
            /// The epoch that the unit reported.
            old: Epoch,
        } = 11, notice c"allot.conf.epoch-again";
        /// The time that a unit has for its answer begins again. The unit of a waiting conference is asked again.
        AskedAgain = 12, notice c"allot.conf.asked";
        /// A unit says why it cannot create the conference; the result follows as a separate event.
        Refused {
            /// The unit.
            cmu: Name,
            /// Epoch of the assignment.
            epoch: Epoch,
            /// The text of the unit.
            reason: Bytes,
        } = 13, notice c"allot.conf.refused";
        /// The conference has another end time.
        Extended {
            /// The new end time.
            end: Millis,
            /// Number of the UPDATE.
            number: Epoch,
        } = 14, notice c"allot.conf.extended";
        /// Details were written.
        Set {
            /// Number of the write.
            seq: u64,
            /// Fields and values alternately, in the encoding of the codec.
            fields: Vec<u8>,
        } = 15, notice c"allot.conf.set", count (Counter::Writes, 1);
        /// The record of the conference, which has ended, is deleted.
        Removed = 16, notice c"allot.conf.removed";
        /// A first creation failed; another unit must create the conference.
        Retried {
            /// The cause.
            cause: Cause,
            /// Whether RELEASE is sent to the unit that failed.
            release: bool,
            /// The next unit.
            cmu: Name,
            /// Epoch of the assignment to the next unit.
            epoch: Epoch,
        } = 17, notice c"allot.conf.retried", count (Counter::Retried, 1);
        /// The conference has another size.
        Resized {
            /// The new size.
            size: u32,
            /// Number of the UPDATE.
            number: Epoch,
        } = 18, notice c"allot.conf.resized";
        /// The planned end is near.
        EndNear {
            /// Number of the UPDATE.
            number: Epoch,
        } = 19, notice c"allot.conf.end-near";
        /// The last UPDATE is sent again to the units whose copies are older.
        UpdatedAgain {
            /// Its new number, if a former master told a unit something else later; otherwise `None`.
            number: Option<Epoch>,
        } = 20, notice c"allot.conf.updated-again";
        /// Other units may take the conference.
        Altered {
            /// Which units.
            wishes: Wishes,
        } = 21, notice c"allot.conf.altered";
        /// The conference has waited for its zone and host for so long that it may go elsewhere.
        ZoneFell = 22, notice c"allot.conf.zone-fell";
        /// A unit owns the conference by a copy of an assignment that the realm lost.
        CopyFound {
            /// The unit.
            cmu: Name,
            /// The epoch that the unit reported.
            old: Epoch,
            /// The new epoch of the conference.
            epoch: Epoch,
        } = 23, notice c"allot.conf.found", count (Counter::Adopted, 1);
        /// The start of a scheduled conference has come, and a unit has room.
        Started {
            /// Unit that gets the conference.
            cmu: Name,
            /// Epoch of the assignment.
            epoch: Epoch,
        } = 24, notice c"allot.conf.started";
        /// The start of a scheduled conference has come, and no unit has room: it waits for one.
        Delayed = 25, notice c"allot.conf.delayed";
    }
}

impl Created {
    pub(super) fn is_in_range(&self) -> Result<(), Damaged> {
        is_end_time(self.end)?;
        let size = (1..=MAX_ROOM).contains(&self.size.into());
        ensure(size && i64::from(self.licences) <= MAX_ROOM, "a size is out of range")
    }
}

impl Realm {
    pub(super) fn admits_creation(&self, created: &Created) -> Result<(), Damaged> {
        let conference = self.conference_called(&created.e164);
        ensure(conference.is_none_or(|conference| !conference.is_live()), "a conference is created twice")?;
        match (&created.cmu, created.start, created.end) {
            (Some(cmu), None, _) => self.is_in_service(cmu)?,
            (None, Some(start), Some(end)) => {
                let is_sound = start < end && created.wishes.host.is_none();
                ensure(is_sound, "a conference is scheduled that ends before its start, or wishes a host")?;
                ensure(self.may_schedule(), "too many conferences are scheduled")?;
            }
            _ => {
                return Err(Damaged("a conference is created without a unit, or scheduled without its time"));
            }
        }
        self.is_new(created.epoch)?;
        created.is_in_range()?;
        let request = created.called_from.as_ref().and(created.request.as_deref());
        let known = request.and_then(|request| self.asked_for(request));
        ensure(known.is_none_or(|conference| conference.e164 == created.e164), "a request is answered twice")
    }

    pub(super) fn admits_to_conference(
        &self,
        conference: &Conference,
        event: &ConferenceEvent,
    ) -> Result<(), Damaged> {
        let is =
            |states: &[State]| ensure(states.contains(&conference.state), "a conference is in another state");
        let owned = [State::Waiting, State::Creating, State::Open];
        let may_wait =
            || ensure(conference.may_wait(), "a conference that cannot be recovered waits for recovery");
        let may_change = || {
            let goes_on = conference.is_live() && conference.ending.is_none();
            ensure(goes_on, "a conference that has ended is changed")
        };
        match event {
            ConferenceEvent::Granted { cmu, epoch } => {
                is(&[State::Pending])?;
                self.is_in_service(cmu)?;
                self.is_new(*epoch)
            }
            ConferenceEvent::Started { cmu, epoch } => {
                is(&[State::Scheduled])?;
                self.is_in_service(cmu)?;
                self.is_new(*epoch)
            }
            ConferenceEvent::Delayed => is(&[State::Scheduled]),
            ConferenceEvent::Acked | ConferenceEvent::AskedAgain => is(&[State::Waiting, State::Creating]),
            ConferenceEvent::Failed { .. } => {
                is(&[State::Creating])?;
                let is_kept = conference.recovering || conference.has_yet_to_begin();
                ensure(is_kept, "a first creation that failed is tried again")?;
                may_wait()
            }
            ConferenceEvent::Pending { .. } => {
                is(&owned)?;
                if conference.moving.is_some() { Ok(()) } else { may_wait() }
            }
            ConferenceEvent::Ending { .. } => {
                ensure(conference.ending.is_none(), "a conference ends twice")?;
                is(&owned)
            }
            ConferenceEvent::Ended { .. } => ensure(conference.is_live(), "a conference ends twice"),
            ConferenceEvent::Adopted { cmu, old, epoch } => {
                let lives = conference.is_live() && conference.ending.is_none();
                ensure(lives, "a conference that has ended is adopted")?;
                let copy = conference.assignment(cmu, *old).ok_or(Damaged("an unknown copy is adopted"))?;
                ensure(copy.may_come_back(), "a copy is adopted that its unit did not lose, or was to end")?;
                self.is_in_service(cmu)?;
                let unit = self.find_unit(cmu);
                let elsewhere =
                    conference.owner != unit && conference.moving.as_ref().map(|moving| moving.to) != unit;
                ensure(elsewhere, "a unit adopts a conference that it has")?;
                self.is_new(*epoch)
            }
            ConferenceEvent::CopyFound { cmu, old, epoch } => {
                self.admits_lost_copy(conference, cmu, (*old, *epoch))
            }
            ConferenceEvent::Moving { to, epoch } => {
                is(&[State::Open])?;
                let free = conference.moving.is_none()
                    && conference.ending.is_none()
                    && conference.owner != self.find_unit(to);
                ensure(free, "a conference that cannot move is moved")?;
                self.is_in_service(to)?;
                self.is_new(*epoch)
            }
            ConferenceEvent::Moved | ConferenceEvent::MoveFailed { .. } => {
                ensure(conference.moving.is_some(), "a conference does not move")
            }
            ConferenceEvent::EpochAgain { .. } => is(&owned),
            ConferenceEvent::Refused { .. } => Ok(()),
            ConferenceEvent::Extended { end, number } => {
                may_change()?;
                self.is_new(*number)?;
                let is_later = conference.start.is_none_or(|start| start < *end);
                ensure(is_later, "a conference ends before its start")?;
                is_end_time(Some(*end))
            }
            ConferenceEvent::Resized { size, number } => {
                may_change()?;
                self.is_new(*number)?;
                ensure((1..=MAX_ROOM).contains(&i64::from(*size)), "a size is out of range")
            }
            ConferenceEvent::EndNear { number } => {
                is(&[State::Open])?;
                may_change()?;
                self.is_new(*number)?;
                ensure(conference.end.is_some(), "the end of a conference is near that has none")
            }
            ConferenceEvent::Altered { wishes } => {
                may_change()?;
                let waits = conference.state == State::Scheduled;
                ensure(!waits || wishes.host.is_none(), "a scheduled conference wishes a host")
            }
            ConferenceEvent::ZoneFell => {
                let is_new = conference.state == State::Creating && conference.opened.is_none();
                ensure(
                    is_new || is(&[State::Pending]).is_ok(),
                    "a conference that has its unit goes elsewhere",
                )?;
                ensure(!conference.elsewhere, "a conference may go elsewhere already")
            }
            ConferenceEvent::UpdatedAgain { number } => {
                is(&owned)?;
                number.map_or(Ok(()), |number| self.is_new(number))?;
                let was_sent = conference.last_update > 0 || number.is_some();
                ensure(was_sent, "an UPDATE is sent again that never was")
            }
            ConferenceEvent::Set { seq, fields } => {
                is(&owned)?;
                conference.admits_write(*seq, fields)
            }
            ConferenceEvent::Removed => is(&[State::Ended]),
            ConferenceEvent::Retried { cmu, epoch, .. } => {
                is(&[State::Creating])?;
                let is_first = !conference.recovering && conference.ending.is_none();
                ensure(is_first, "a creation is tried again that is a recovery, or is to end")?;
                let is_other = conference.owner != self.find_unit(cmu) && !conference.tried.contains(cmu);
                ensure(is_other, "a creation is tried again on a unit that failed")?;
                self.is_in_service(cmu)?;
                self.is_new(*epoch)
            }
        }
    }

    pub(super) fn is_new(&self, epoch: Epoch) -> Result<(), Damaged> {
        ensure(epoch > self.last_epoch, "an epoch was given out before")?;
        let follows = epoch <= LAST_OF_CLOCK.max(self.last_epoch + 1);
        ensure(follows, "an epoch is later than any clock")
    }

    /// The record of a conference without its unit, in the place of a tombstone of the same number.
    pub(super) fn record(&mut self, at: Millis, created: &Created) -> Conference {
        if let Some(tombstone) = self.find(&created.e164) {
            self.remove(tombstone);
        }
        let epoch = created.epoch;
        Conference {
            e164: created.e164.clone(),
            epoch,
            origin_epoch: epoch,
            copy_epoch: epoch,
            created: at,
            start: created.start,
            end: created.end,
            since: at,
            recoverable: created.recoverable,
            priority: created.priority,
            size: created.size,
            licences: created.licences,
            wishes: Box::new(self.shared_wishes(&created.wishes)),
            request: created.request.clone(),
            called_from: created.called_from.clone().map(Box::new),
            ..Conference::default()
        }
    }

    pub(super) fn create(&mut self, at: Millis, created: &Created) {
        let epoch = created.epoch;
        self.raise_last_epoch(epoch);
        let Some(cmu) = &created.cmu else {
            let record = self.record(at, created);
            let id = self.enter(Conference { state: State::Scheduled, ..record });
            return self.publish("scheduled", id, None);
        };
        let Some((unit, cmu)) = self.named_unit(cmu) else { return };
        let history = vec![Assignment::new(cmu.clone(), epoch, at)];
        let record = self.record(at, created);
        let id = self.enter(Conference { owner: Some(unit), history, ..record });
        self.tell_create(id, &cmu, epoch);
        self.publish("created", id, None);
        self.begin_trial(at, unit);
    }

    pub(super) fn apply_to_conference(&mut self, at: Millis, id: u32, event: &ConferenceEvent) {
        match event {
            ConferenceEvent::Granted { cmu, epoch } => {
                let Some((unit, cmu)) = self.named_unit(cmu) else { return };
                self.raise_last_epoch(*epoch);
                self.change(id, |conference| {
                    conference.attempts = conference.attempts.saturating_add(1);
                    // A unit that failed is chosen again only if no other unit could take the conference. From now on
                    // each unit may be tried again.
                    if conference.tried.contains(&cmu) {
                        conference.tried.clear();
                    }
                    conference.grants(unit, Assignment::new(cmu.clone(), *epoch, at), at);
                });
                self.tell_create(id, &cmu, *epoch);
                self.publish("granted", id, Some(Cause::Recovery));
                self.begin_trial(at, unit);
            }
            ConferenceEvent::Started { cmu, epoch } => {
                let Some((unit, cmu)) = self.named_unit(cmu) else { return };
                self.raise_last_epoch(*epoch);
                let entry = Assignment::new(cmu.clone(), *epoch, at);
                self.change(id, |conference| conference.starts(at, unit, entry));
                self.tell_create(id, &cmu, *epoch);
                self.publish("created", id, None);
                self.begin_trial(at, unit);
            }
            ConferenceEvent::Delayed => {
                self.change(id, |conference| conference.is_delayed(at));
                self.publish("delayed", id, None);
            }
            ConferenceEvent::Acked => {
                let creating = self.indexed(id).filter(|conference| conference.state == State::Creating);
                let creator = creating.and_then(|conference| conference.owner);
                self.change(id, |conference| conference.opens(at));
                self.publish("opened", id, None);
                creator.into_iter().for_each(|unit| self.end_trial(unit));
            }
            ConferenceEvent::Failed { cause, release, next_retry } => {
                if *release {
                    self.release(id, false);
                }
                self.change(id, |conference| conference.fails(at, *next_retry, *cause));
                self.publish("failed", id, Some(*cause));
            }
            ConferenceEvent::Pending { cause } => self.lose(at, id, *cause),
            ConferenceEvent::Ending { cause } => {
                self.release(id, true);
                self.cancel_move(id, *cause, false);
                self.change(id, |conference| conference.is_to_end(at, *cause));
                self.publish("ending", id, Some(*cause));
            }
            ConferenceEvent::Ended { cause, release } => {
                if *release {
                    self.release(id, true);
                }
                self.cancel_move(id, *cause, false);
                self.end(at, id, *cause);
            }
            ConferenceEvent::Adopted { cmu, old, epoch } => {
                let Some((unit, cmu)) = self.named_unit(cmu) else { return };
                let copy = self.indexed(id).and_then(|conference| conference.assignment(&cmu, *old));
                let copy_epoch =
                    copy.expected("a copy that is adopted is on record").map(|copy| copy.copy_epoch);
                let copy_epoch = copy_epoch.unwrap_or(*old);
                self.release(id, false);
                let entry = Assignment { copy_epoch, ..Assignment::new(cmu, *epoch, at) };
                self.adopt(at, id, unit, (*old, entry), None);
            }
            ConferenceEvent::CopyFound { cmu, old, epoch } => self.adopt_lost(at, id, cmu, (*old, *epoch)),
            ConferenceEvent::Moving { to, epoch } => {
                let Some((to, cmu)) = self.named_unit(to) else { return };
                self.raise_last_epoch(*epoch);
                let moving = Moving { cmu: cmu.clone(), epoch: *epoch, since: at, to };
                self.change(id, |conference| conference.moving = Some(moving));
                self.tell_create(id, &cmu, *epoch);
                self.publish_of("moving", id, &cmu, *epoch, None);
                self.begin_trial(at, to);
            }
            ConferenceEvent::Moved => {
                let moving = self.indexed(id).and_then(|conference| conference.moving.clone());
                let Some(moving) = moving.expected("a conference that has moved was moving") else { return };
                self.release_owner(id, false);
                self.change(id, |conference| {
                    conference.close(at, AssignmentEnd::Moved);
                    conference.moving = None;
                    conference.grants(moving.to, moving.assignment(), at);
                    conference.opens(at);
                    conference.cause = Cause::Manager;
                });
                self.publish("moved", id, None);
                self.end_trial(moving.to);
            }
            ConferenceEvent::MoveFailed { cause, release } => self.cancel_move(id, *cause, *release),
            ConferenceEvent::EpochAgain { old } => {
                self.tell_epoch_of(id, *old);
                self.tell_update(id);
            }
            ConferenceEvent::AskedAgain => {
                self.change(id, |conference| conference.since = at);
                let waiting = |conference: &&Conference| conference.state == State::Waiting;
                let unit = self.indexed(id).filter(waiting).and_then(Conference::last_unit).cloned();
                if let Some(cmu) = unit {
                    self.ask_once(&cmu);
                }
            }
            ConferenceEvent::Refused { cmu, epoch, reason } => {
                self.publish_refusal(id, cmu, *epoch, reason);
            }
            ConferenceEvent::Extended { end, number } => {
                self.update(id, *number, |conference| conference.end = Some(*end));
                self.publish("extended", id, None);
            }
            ConferenceEvent::Resized { size, number } => {
                self.update(id, *number, |conference| conference.size = *size);
                self.publish("resized", id, None);
            }
            ConferenceEvent::EndNear { number } => {
                self.update(id, *number, |conference| conference.end_is_near = true);
                self.publish("ending", id, Some(Cause::EndNear));
            }
            ConferenceEvent::UpdatedAgain { number } => {
                if let Some(number) = *number {
                    self.raise_last_epoch(number);
                    self.change(id, |conference| conference.last_update = number);
                }
                self.tell_update(id);
            }
            ConferenceEvent::Altered { wishes } => {
                let wishes = Box::new(self.shared_wishes(wishes));
                self.change(id, |conference| (conference.wishes, conference.elsewhere) = (wishes, false));
                self.publish("altered", id, None);
            }
            ConferenceEvent::ZoneFell => {
                self.change(id, |conference| conference.elsewhere = true);
                self.publish("zone-fell", id, None);
            }
            ConferenceEvent::Set { seq, fields } => self.set_details(id, *seq, fields),
            ConferenceEvent::Removed => self.remove(id),
            ConferenceEvent::Retried { cause, release, cmu, epoch } => {
                let Some((unit, cmu)) = self.named_unit(cmu) else { return };
                if *release {
                    self.release(id, false);
                }
                self.publish("failed", id, Some(*cause));
                self.raise_last_epoch(*epoch);
                self.change(id, |conference| {
                    conference.retries(at, unit, Assignment::new(cmu.clone(), *epoch, at), *cause);
                });
                self.tell_create(id, &cmu, *epoch);
                self.publish("granted", id, Some(*cause));
                self.begin_trial(at, unit);
            }
        }
    }
}

fn is_end_time(end: Option<Millis>) -> Result<(), Damaged> {
    ensure(end.is_none_or(|end| end <= MAX_TIME), "an end time is out of range")
}
