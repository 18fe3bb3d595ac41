//! Lookups, checks and refusals that many requests share.

use crate::conf::event::{ConferenceEvent, Event, Events, UnitEvent};
use crate::conf::model::conference::{Cause, Conference, Epoch, State};
use crate::conf::model::state::Realm;
use crate::conf::model::transitions::{Transition, Trigger, effective, transition};
use crate::conf::model::unit::{Name, UnitState, host_of};
use crate::conf::outcome::refuse;
use crate::conf::request::AssignmentNotice;
use crate::invariant;
use crate::shared::refusal::{Code, Refusal};
use crate::shared::text::quoted;
use crate::shared::{Bytes, Millis};

/// The number of a unit that joined, down or not.
pub(super) fn known_unit(realm: &Realm, cmu: &[u8]) -> Result<u32, Refusal> {
    match realm.find_unit(cmu) {
        Some(unit) => Ok(unit),
        None if realm.is_replaced(cmu) => replaced(realm, cmu),
        None => refuse(Code::NotFound, format!("unit {} has not joined", quoted(cmu))),
    }
}

/// The number of a unit that joined and is not down.
pub(super) fn up_unit(realm: &Realm, cmu: &[u8]) -> Result<u32, Refusal> {
    let number = known_unit(realm, cmu)?;
    if is_down(realm, number) {
        let text = format!("unit {} is down; it must join and report again", quoted(cmu));
        return refuse(Code::NotFound, text);
    }
    Ok(number)
}

/// Whether a unit is down.
pub(super) fn is_down(realm: &Realm, unit: u32) -> bool {
    realm.indexed_unit(unit).is_some_and(|unit| unit.state == UnitState::Down)
}

/// Refuses an identity that was replaced.
pub(super) fn replaced<T>(realm: &Realm, cmu: &[u8]) -> Result<T, Refusal> {
    // The host's last unit may have been forgotten.
    let current = realm.hosts.get(host_of(cmu)).and_then(|host| realm.indexed_unit(host.current?));
    let by = current.map_or_else(String::new, |unit| format!(" by {}", quoted(&unit.cmu)));
    refuse(Code::Stale, format!("unit {} was replaced{by}; it must stop its conferences", quoted(cmu)))
}

/// Refuses an E.164 number that has no conference.
pub(super) fn no_conference<T>(e164: &[u8]) -> Result<T, Refusal> {
    refuse(Code::NotFound, format!("there is no conference {}", quoted(e164)))
}

/// Refuses a unit that does not own the conference.
pub(super) fn not_owner<T>(realm: &Realm, e164: &[u8], cmu: &[u8]) -> Result<T, Refusal> {
    let owner = realm.conference_called(e164).and_then(|conference| conference.owner);
    let owner = owner.and_then(|owner| realm.indexed_unit(owner));
    let owner = owner.map_or_else(|| "nobody's".to_owned(), |owner| format!("{}'s", quoted(&owner.cmu)));
    refuse(Code::NotOwner, format!("conference {} is {owner}, not {}'s", quoted(e164), quoted(cmu)))
}

/// Refuses an epoch that is not the conference's current epoch.
pub(super) fn stale<T>(e164: &[u8], current: Epoch, epoch: Epoch) -> Result<T, Refusal> {
    refuse(Code::Stale, format!("conference {} is at epoch {current}, not {epoch}", quoted(e164)))
}

/// Refuses a notice that does not match the record: it comes from another unit, or has another epoch, or the
/// conference is in another state.
pub(super) fn out_of_date<T>(
    realm: &Realm,
    conference: &Conference,
    notice: AssignmentNotice<'_>,
) -> Result<T, Refusal> {
    let unit = realm.find_unit(notice.cmu);
    if conference.matches(unit, notice.epoch) {
        let text = format!("conference {} is {}", quoted(&conference.e164), conference.state.word());
        return refuse(Code::BadState, text);
    }
    if conference.owner.is_some() && conference.owner == unit {
        return stale(notice.e164, conference.epoch, notice.epoch);
    }
    if conference.state == State::Ended {
        let text =
            format!("conference {} is ended, and this was not its last assignment", quoted(&conference.e164));
        return refuse(Code::Stale, text);
    }
    not_owner(realm, notice.e164, notice.cmu)
}

/// The event that sends RELEASE to the sending unit, with the epoch of its notice.
pub(super) fn disowned(realm: &Realm, notice: AssignmentNotice<'_>) -> Event {
    let cmu = realm.find_unit(notice.cmu).map_or_else(|| Name::from(notice.cmu), |unit| realm.name_of(unit));
    UnitEvent::Disowned { e164: Bytes::from_slice(notice.e164), epoch: notice.epoch }.of(cmu)
}

/// Whether people can still end the conference on a unit that lost this assignment. They cannot if another unit had the
/// conference open since, or if the unit was told RELEASE for its copy: then the copy ends because of RELEASE.
pub(super) fn had_it_last(conference: &Conference, cmu: &[u8], epoch: Epoch) -> bool {
    conference.last_copies().any(|lost| lost.epoch == epoch && *lost.cmu == *cmu)
}

/// Whether this epoch is one of the epochs of the owner's copy. An adoption gives a copy a new epoch, so a copy may
/// have had several.
pub(super) fn same_copy(conference: &Conference, cmu: &[u8], epoch: Epoch) -> bool {
    conference.assignment(cmu, epoch).is_some_and(|entry| entry.copy_epoch == conference.copy_epoch)
}

/// The event that ends a conference whose copy on the sender has ended. During a move, or with `release`, the owner and
/// the target of the move get RELEASE.
pub(super) fn ended_by_unit(conference: &Conference, cause: Cause, release: bool) -> ConferenceEvent {
    let cause = if conference.ending.is_some() { conference.cause } else { cause };
    let release = release || conference.moving.is_some();
    ConferenceEvent::Ended { cause, release }
}

pub(super) fn bad_state<T>(conference: &Conference) -> Result<T, Refusal> {
    let state = if conference.ending.is_some() { "ending" } else { conference.state.word() };
    refuse(Code::BadState, format!("conference {} is {state}", quoted(&conference.e164)))
}

/// The conference, if its end was not requested and it has not ended.
pub(super) fn lasting<'a>(realm: &'a Realm, e164: &[u8]) -> Result<&'a Conference, Refusal> {
    let Some(conference) = realm.conference_called(e164) else { return no_conference(e164) };
    if !conference.is_live() || conference.ending.is_some() {
        return bad_state(conference);
    }
    Ok(conference)
}

impl Realm {
    /// The events that follow when people ended a conference on a unit that had it at this epoch. `None` if an end on
    /// this unit has no effect. The unit may be a replaced identity.
    pub(super) fn ended_by_people(
        &self,
        conference: &Conference,
        cmu: &[u8],
        epoch: Epoch,
        now: Millis,
    ) -> Option<Events> {
        let unit = self.find_unit(cmu);
        if unit.is_some() && conference.moves_to(unit, epoch) {
            // People were on the target, so the move was done; a failover may have lost the target's CONF.ACK.
            let ended = ConferenceEvent::Ended { cause: Cause::Unit, release: false };
            let both = [ConferenceEvent::Moved, ended];
            return Some(both.map(|event| conference.event(event)).into_iter().collect());
        }
        let owns = conference.owner.is_some() && conference.owner == unit;
        let trigger = if owns && same_copy(conference, cmu, epoch) {
            Trigger::EndedByUnit
        } else if had_it_last(conference, cmu, epoch) {
            Trigger::EndedByLastUnit
        } else if (unit.is_some() || self.is_replaced(cmu))
            && self.has_lost(cmu, epoch, now)
            && conference.may_have_lost(epoch)
        {
            Trigger::EndedByUnknownCopy
        } else {
            return None;
        };
        let ends = transition(trigger, Some(conference.state)) == Transition::Ended;
        let release = trigger != Trigger::EndedByUnit;
        ends.then(|| smallvec::smallvec![conference.event(ended_by_unit(conference, Cause::Unit, release))])
    }

    /// The event that follows when the owner of a conference has no copy of it, and people did not end it: the
    /// conference is recovered if it may be, and otherwise ends. `None` if the record does not change.
    pub(super) fn gone(
        &self,
        conference: &Conference,
        trigger: Trigger,
        cause: Cause,
        now: Millis,
    ) -> Option<Event> {
        let place = |one: &Conference| {
            Some((self.next_unit(one, now, &self.placement_index, &mut 0)?, self.next_epoch(now)))
        };
        let event = match effective(conference, transition(trigger, Some(conference.state))) {
            Transition::Stays | Transition::Nothing => return None,
            Transition::Failed => self.failed(conference, cause, now, place),
            // The target of the move takes over.
            _ if conference.moving.is_some() => ConferenceEvent::Pending { cause },
            Transition::Missed if conference.recovering => self.failed(conference, cause, now, place),
            Transition::Missed | Transition::Pending => ConferenceEvent::Pending { cause },
            Transition::Ended => ended_by_unit(conference, cause, false),
            _ => {
                invariant!("a conference that its unit no longer has is recovered or ends");
                return None;
            }
        };
        Some(conference.event(event))
    }
}
