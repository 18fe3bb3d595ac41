//! Adoption: a unit owns a conference again by a copy that it still runs. The assignment of the copy is on record, or the
//! realm lost it: a failover or an older file took the record away.

use super::conferences::Created;
use crate::conf::model::conference::{Assignment, AssignmentEnd, Cause, Conference, Ending, Epoch, State};
use crate::conf::model::epoch::{epoch_of, is_plausible};
use crate::conf::model::state::Realm;
use crate::conf::model::unit::{Name, host_of};
use crate::shared::Millis;
use crate::shared::codec::{Damaged, ensure};

/// The assignment of a lost copy, which was open.
fn lost_assignment(cmu: Name, epoch: Epoch, at: Millis) -> Assignment {
    let ended = Some(Ending { at, how: AssignmentEnd::Lost });
    Assignment { opened: Some(at), ended, ..Assignment::new(cmu, epoch, at) }
}

/// Whether a conference on record had ended before a copy of this epoch was made: the copy is of a later conference of
/// the same number.
fn ended_before(conference: &Conference, epoch: Epoch) -> bool {
    !conference.is_live() && epoch >= epoch_of(conference.since.saturating_add(1))
}

impl Realm {
    /// Whether this realm sent an epoch to the host of a unit, or compared it with a report of the host.
    pub fn has_sent(&self, cmu: &[u8], epoch: Epoch) -> bool {
        self.hosts.get(host_of(cmu)).is_some_and(|host| host.sent.contains(epoch))
    }

    /// Whether the epoch of a unit is of an assignment that the realm lost: a former master gave it out.
    pub(in crate::conf) fn has_lost(&self, cmu: &[u8], epoch: Epoch, now: Millis) -> bool {
        is_plausible(epoch, now) && epoch > self.adopts_after && !self.has_sent(cmu, epoch)
    }

    /// Whether a copy of a number that has no conference, or one that had ended before, is of a lost conference.
    pub(in crate::conf) fn has_lost_conference(
        &self,
        known: Option<&Conference>,
        cmu: &[u8],
        epoch: Epoch,
        now: Millis,
    ) -> bool {
        let is_absent = known.is_none_or(|conference| ended_before(conference, epoch));
        is_absent && self.has_lost(cmu, epoch, now) && self.is_new_origin(epoch)
    }

    /// Whether no conference on record was created at this epoch: conferences are found by it.
    fn is_new_origin(&self, epoch: Epoch) -> bool {
        !State::ALL.into_iter().any(|state| self.by_state.of(state).contains_key(&epoch))
    }

    pub(super) fn admits_found(&self, found: &Created) -> Result<(), Damaged> {
        let known = self.conference_called(&found.e164);
        let is_absent = known.is_none_or(|conference| ended_before(conference, found.epoch));
        ensure(is_absent, "a conference is found that is on record")?;
        let cmu = found.cmu.as_ref().ok_or(Damaged("a conference is found without a unit"))?;
        self.is_in_service(cmu)?;
        // Earlier events of the step have noted that the epochs of the report are known now.
        let is_lost = found.epoch > self.adopts_after && found.epoch <= self.last_epoch;
        ensure(is_lost && self.is_new_origin(found.epoch), "a copy is found of an epoch that is not lost")?;
        ensure(found.start.is_none(), "a conference is found that starts later")?;
        ensure(found.called_from.is_none(), "a conference is found on a called number")?;
        found.is_in_range()
    }

    pub(super) fn admits_lost_copy(
        &self,
        conference: &Conference,
        cmu: &[u8],
        (old, epoch): (Epoch, Epoch),
    ) -> Result<(), Damaged> {
        let lives = conference.is_live() && conference.ending.is_none();
        ensure(lives, "a conference that has ended is adopted")?;
        let is_lost = conference.may_have_lost(old) && old <= self.last_epoch;
        ensure(is_lost, "a copy is adopted as lost that is known, or not the latest")?;
        self.is_in_service(cmu)?;
        let target = conference.moving.as_ref().map(|moving| moving.to);
        ensure(target != self.find_unit(cmu), "a unit adopts a conference that moves to it")?;
        self.is_new(epoch)
    }

    /// A conference comes on record that a unit runs or ended. It waits for what the next event says: that the unit
    /// adopts it, or that it has ended.
    pub(super) fn find_conference(&mut self, at: Millis, found: &Created) {
        let Some((_, cmu)) = found.cmu.as_ref().and_then(|cmu| self.named_unit(cmu)) else { return };
        let record = self.record(at, found);
        self.enter(Conference {
            state: State::Pending,
            opened: Some(at),
            pending_since: Some(at),
            out_since: Some(at),
            next_retry: Some(at),
            recovering: true,
            cause: Cause::Adopted,
            history: vec![lost_assignment(cmu, found.epoch, at)],
            ..record
        });
    }

    /// A unit owns a conference by a copy of a lost assignment. The unit of the record is told to end its copy, unless
    /// it is the same unit: that copy may have had both epochs. A move of the conference is cancelled.
    pub(super) fn adopt_lost(&mut self, at: Millis, id: u32, cmu: &Name, (old, epoch): (Epoch, Epoch)) {
        let Some((unit, cmu)) = self.named_unit(cmu) else { return };
        if self.indexed(id).is_some_and(|conference| conference.owner != Some(unit)) {
            self.release_owner(id, false);
        }
        self.cancel_move(id, Cause::Adopted, true);
        let lost = lost_assignment(cmu.clone(), old, at);
        let entry = Assignment { copy_epoch: old, ..Assignment::new(cmu, epoch, at) };
        self.adopt(at, id, unit, (old, entry), Some(lost));
    }

    /// A unit owns a conference by a copy that has the epoch `old`. `lost` is the assignment of the copy, if it is not
    /// on record.
    pub(super) fn adopt(
        &mut self,
        at: Millis,
        id: u32,
        unit: u32,
        (old, entry): (Epoch, Assignment),
        lost: Option<Assignment>,
    ) {
        self.raise_last_epoch(entry.epoch);
        self.cancel_move(id, Cause::Adopted, false);
        self.change(id, |conference| {
            conference.close(at, AssignmentEnd::Released);
            lost.into_iter().for_each(|lost| conference.remembers(lost));
            conference.grants(unit, entry, at);
            conference.opens(at);
            conference.cause = Cause::Adopted;
        });
        self.tell_epoch_of(id, old);
        self.tell_update(id);
        self.publish("adopted", id, Some(Cause::Adopted));
    }
}
