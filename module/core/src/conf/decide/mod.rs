//! Decides requests: checks every condition and limit, and returns events and a reply, or a refusal. Nothing changes
//! before the events are applied. This file decides the messages of units, except their reports (`reconcile_report`), and
//! the requests that concern a unit or the settings; `creation` decides creations and wishes, and `manager_commands` the
//! other requests of clients and schedulers.

mod creation;
mod due;
mod lookups;
mod manager_commands;
mod rebalance;
mod reconcile_report;
mod recovery_plan;

pub use self::due::decide_due;
use self::lookups::{
    disowned, is_down, known_unit, no_conference, not_owner, out_of_date, replaced, same_copy, stale, up_unit,
};
pub use self::manager_commands::MAX_STEP;
pub use self::recovery_plan::LossForecast;
use crate::conf::event::{ConferenceEvent, Event, Events, UnitEvent};
use crate::conf::model::conference::{
    Cause, Conference, Epoch, MAX_DETAILS, MAX_VALUE, RESERVED_DETAILS, State,
};
use crate::conf::model::settings::MAX_ROOM;
use crate::conf::model::state::Realm;
use crate::conf::model::transitions::{Transition, Trigger, transition};
use crate::conf::model::unit::{CONFLICT_NOTED, Conflict, MAX_UNITS, Name, Unit, host_of};
use crate::conf::outcome::{Decided, Decision, Reply, decided, refuse, unchanged};
use crate::conf::request::{
    AssignmentNotice, ClientRequest, End, Request, SchedulerRequest, Set, UnitRequest,
};
use crate::invariant;
use crate::shared::codec::Writer;
use crate::shared::fence;
use crate::shared::field::Any;
use crate::shared::refusal::{Code, Refusal};
use crate::shared::text::quoted;
use crate::shared::token::{MAX_TTL, check_identifier};
use crate::shared::{Bytes, MAX_IDENTIFIER, Millis};

/// Decides a request at `now`, which is not before the last time applied. A request that names a unit or a conference
/// whose deadline has passed and was not carried out is refused with `TRYAGAIN`. Complexity: see each request in
/// docs/conferences.md.
///
/// # Errors
/// A refusal, with its error code and text.
pub fn decide(realm: &Realm, now: Millis, request: &Request<'_>) -> Decided {
    realm.epochs().check_room()?;
    if realm.next_due().is_some_and(|due| due <= now) {
        due::check_named(realm, now, request)?;
    }
    match request {
        Request::Unit(request) => decide_for_unit(realm, now, request),
        Request::Client(request) => decide_for_client(realm, now, request),
        Request::Scheduler { term, request } => {
            fence::check_term(realm.term, *term)?;
            decide_for_scheduler(realm, now, request)
        }
        Request::Claim(claim) => manager_commands::decide_claim(realm, *claim),
    }
}

fn decide_for_unit(realm: &Realm, now: Millis, request: &UnitRequest<'_>) -> Decided {
    match request {
        UnitRequest::Set(set) => decide_set(realm, set),
        UnitRequest::Ack(notice) => decide_ack(realm, *notice),
        UnitRequest::Nack(notice, reason) => decide_failure(realm, now, *notice, *reason, Trigger::Nack),
        UnitRequest::Failed(notice, reason) => decide_failure(realm, now, *notice, *reason, Trigger::Failed),
        UnitRequest::Ended(notice, end) => decide_ended(realm, now, *notice, *end),
        UnitRequest::Beat { cmu, load } => {
            let unit = up_unit(realm, cmu)?;
            let cmu = realm.name_of(unit);
            decided(UnitEvent::Beat { load: load.map(Any) }.of(cmu.clone()), Reply::Unit(cmu))
        }
        UnitRequest::Join { cmu, capacity, zone, tags, lease, machine } => {
            decide_join(realm, now, cmu, (*capacity, *lease), (*zone, *machine), tags)
        }
        UnitRequest::Leave { cmu } => manager_commands::decide_leave(realm, now, cmu),
        UnitRequest::Report(report) => reconcile_report::decide_report(realm, now, report),
    }
}

fn decide_for_client(realm: &Realm, now: Millis, request: &ClientRequest<'_>) -> Decided {
    match request {
        ClientRequest::Configure(changes) => {
            let settings = realm.settings.with(changes)?;
            if settings == realm.settings {
                return unchanged(Reply::Realm);
            }
            decided(Event::Configured { settings }, Reply::Realm)
        }
        ClientRequest::Drop => manager_commands::decide_drop(realm, now),
        ClientRequest::Create(create) => creation::decide_create(realm, now, create),
        ClientRequest::Release { e164 } => manager_commands::decide_release(realm, e164),
        ClientRequest::Extend { e164, end, dry_run } => {
            manager_commands::decide_extend(realm, now, e164, *end, *dry_run)
        }
        ClientRequest::Resize { e164, size } => manager_commands::decide_resize(realm, now, e164, *size),
        ClientRequest::Alter { e164, wishes } => creation::decide_alter(realm, e164, wishes),
        ClientRequest::Ask { cmu, details } => {
            let cmu = cmu.map(|cmu| up_unit(realm, cmu)).transpose()?.map(|unit| realm.name_of(unit));
            decided(Event::Asked { cmu, details: *details }, Reply::Ok)
        }
    }
}

fn decide_for_scheduler(realm: &Realm, now: Millis, request: &SchedulerRequest<'_>) -> Decided {
    match request {
        SchedulerRequest::Recover { count } => manager_commands::decide_recover(realm, now, *count),
        SchedulerRequest::Restart { live } => manager_commands::decide_restart(realm, now, live),
        SchedulerRequest::Move { e164, to } => manager_commands::decide_move(realm, now, e164, *to),
        SchedulerRequest::Rebalance { most, dry_run } => {
            manager_commands::decide_rebalance(realm, now, *most, *dry_run)
        }
        SchedulerRequest::Drain { of, on, moves } => {
            manager_commands::decide_drain(realm, now, *of, *on, *moves)
        }
        SchedulerRequest::Down { cmu } => {
            let unit = known_unit(realm, cmu)?;
            let cmu = realm.name_of(unit);
            let reply = Reply::Unit(cmu.clone());
            if is_down(realm, unit) {
                return unchanged(reply);
            }
            decided(UnitEvent::Down.of(cmu), reply)
        }
    }
}

/// Why a write of details is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFault {
    /// There is no such conference.
    Unknown,
    /// The conference has ended.
    State,
    /// Another unit owns the conference, or none.
    Owner,
    /// The unit owns the conference at another epoch: this one.
    Epoch(Epoch),
}

impl Realm {
    /// Checks that a unit may write details of a conference at this epoch, and returns the conference's id. This
    /// check prevents writes of a unit that lost the conference. O(1).
    pub fn may_write(&self, e164: &[u8], cmu: &[u8], epoch: Epoch) -> Result<u32, WriteFault> {
        let id = self.find(e164).ok_or(WriteFault::Unknown)?;
        let conference = self.indexed(id).ok_or(WriteFault::Unknown)?;
        if conference.state == State::Ended {
            return Err(WriteFault::State);
        }
        let owner = conference.owner.and_then(|owner| self.indexed_unit(owner));
        if owner.is_none_or(|owner| *owner.cmu != *cmu) {
            return Err(WriteFault::Owner);
        }
        if conference.epoch == epoch { Ok(id) } else { Err(WriteFault::Epoch(conference.epoch)) }
    }
}

fn decide_set(realm: &Realm, set: &Set<'_>) -> Decided {
    let name = || quoted(set.e164);
    let id = match realm.may_write(set.e164, set.cmu, set.epoch) {
        Ok(id) => id,
        Err(WriteFault::Unknown) => return no_conference(set.e164),
        Err(WriteFault::State) => {
            return refuse(Code::BadState, format!("conference {} is ended", name()));
        }
        Err(WriteFault::Owner) => return not_owner(realm, set.e164, set.cmu),
        Err(WriteFault::Epoch(current)) => return stale(set.e164, current, set.epoch),
    };
    let Some(conference) = realm.indexed(id) else { return no_conference(set.e164) };
    if set.fields.len() > 2 * MAX_DETAILS {
        return refuse(Code::Limit, format!("conference {} may have {MAX_DETAILS} fields", name()));
    }
    let mut fields = Writer { bytes: Vec::with_capacity(64) };
    let (mut written, mut new) = (0, 0);
    for (place, pair) in set.fields.chunks(2).enumerate() {
        let &[field, value] = pair else {
            return refuse(Code::Err, "each field needs a value, and the last one has none");
        };
        if !(1..=MAX_IDENTIFIER).contains(&field.len()) || value.len() > MAX_VALUE {
            return refuse(
                Code::Err,
                format!("a field must have 1 to {MAX_IDENTIFIER} bytes and its value at most {MAX_VALUE}"),
            );
        }
        if RESERVED_DETAILS.iter().any(|reserved| reserved.as_bytes() == field) {
            let text = format!(
                "{} cannot be the name of a detail: entries of streams begin with such a field",
                quoted(field)
            );
            return refuse(Code::Err, text);
        }
        // If a field occurs twice, the last value counts.
        if set.fields.chunks(2).skip(place + 1).any(|later| later.first() == Some(&field)) {
            continue;
        }
        match conference.place_of(field).map(|at| conference.details.get(at)) {
            Ok(Some(detail)) if detail.seq >= set.seq => continue,
            Ok(_) => {}
            Err(_) => new += 1,
        }
        written += 1;
        fields.string(field);
        fields.string(value);
    }
    if written == 0 {
        let text = format!("seq {} is not newer than the last write of conference {}", set.seq, name());
        return refuse(Code::Stale, text);
    }
    if conference.details.len() + new > MAX_DETAILS {
        return refuse(Code::Limit, format!("conference {} may have {MAX_DETAILS} fields", name()));
    }
    let event = ConferenceEvent::Set { seq: set.seq, fields: fields.bytes };
    decided(conference.event(event), Reply::Integer(written))
}

fn decide_ack(realm: &Realm, notice: AssignmentNotice<'_>) -> Decided {
    let unit = Some(known_unit(realm, notice.cmu)?);
    let conference = realm.conference_called(notice.e164);
    if let Some(conference) = conference.filter(|conference| conference.moves_to(unit, notice.epoch)) {
        return decided(conference.event(ConferenceEvent::Moved), Reply::Ok);
    }
    let (trigger, reply) = match conference {
        Some(conference) if conference.matches(unit, notice.epoch) => (Trigger::Ack, Reply::Ok),
        _ => (Trigger::StaleAck, Reply::Released),
    };
    match (transition(trigger, conference.map(|conference| conference.state)), conference) {
        (Transition::Open, Some(conference)) => decided(conference.event(ConferenceEvent::Acked), reply),
        (Transition::ReleaseSender, _) => decided(disowned(realm, notice), reply),
        (Transition::Stays, _) => unchanged(reply),
        _ => {
            invariant!("an ACK opens a conference, changes nothing, or is stale");
            unchanged(reply)
        }
    }
}

/// Decides that a unit cannot create a conference, or that the program of its copy failed: by the trigger.
fn decide_failure(
    realm: &Realm,
    now: Millis,
    notice: AssignmentNotice<'_>,
    reason: Option<&[u8]>,
    trigger: Trigger,
) -> Decided {
    let number = known_unit(realm, notice.cmu)?;
    let unit = Some(number);
    let Some(conference) = realm.conference_called(notice.e164) else { return no_conference(notice.e164) };
    let (cause, is_copy) = if trigger == Trigger::Failed {
        let owns = conference.owner == unit;
        (Cause::Failed, owns && same_copy(conference, notice.cmu, notice.epoch))
    } else {
        (Cause::Refused, conference.matches(unit, notice.epoch))
    };
    let is_moving_here = conference.moves_to(unit, notice.epoch);
    let event = if is_moving_here {
        conference.event(ConferenceEvent::MoveFailed { cause, release: false })
    } else if is_copy && let Some(event) = realm.gone(conference, trigger, cause, now) {
        event
    } else {
        return out_of_date(realm, conference, notice);
    };
    let (mut events, cmu) = (Events::new(), realm.name_of(number));
    if let Some(reason) = reason {
        let (cmu, reason) = (cmu.clone(), Bytes::from_slice(reason));
        events.push(conference.event(ConferenceEvent::Refused { cmu, epoch: notice.epoch, reason }));
    }
    events.push(event);
    // A unit that refuses a conference which waits for its report has not failed to create one.
    if is_moving_here || trigger == Trigger::Failed || conference.state == State::Creating {
        events.push(UnitEvent::Failed.of(cmu));
    }
    Ok(Decision { events, reply: Reply::Ok })
}

fn decide_ended(realm: &Realm, now: Millis, word: AssignmentNotice<'_>, end: End) -> Decided {
    let conference = realm.conference_called(word.e164);
    let events = conference.and_then(|conference| match end {
        End::People => realm.ended_by_people(conference, word.cmu, word.epoch, now),
        End::Released => given_up(realm, now, conference, word).map(|event| smallvec::smallvec![event]),
    });
    if let Some(events) = events {
        return Ok(Decision { events, reply: Reply::Ok });
    }
    // A repeated notice: the record already says that the conference ended by this assignment.
    let ended_there = |conference: &Conference| {
        let last = conference.history.last();
        let sender_had_it = last.is_some_and(|last| last.epoch == word.epoch && *last.cmu == *word.cmu);
        conference.state == State::Ended && sender_had_it
    };
    if conference.is_some_and(ended_there) {
        return unchanged(Reply::Ok);
    }
    // The notice is late, or the sender never had the conference. The refusal says which.
    known_unit(realm, word.cmu)?;
    conference.map_or_else(|| no_conference(word.e164), |conference| out_of_date(realm, conference, word))
}

/// The event that follows when a unit ended its copy of this epoch because it was told RELEASE. `None` if the copy is
/// neither the owner's, at its present epoch or an earlier one, nor the target's of a move.
fn given_up(
    realm: &Realm,
    now: Millis,
    conference: &Conference,
    word: AssignmentNotice<'_>,
) -> Option<Event> {
    let unit = realm.find_unit(word.cmu);
    if conference.moves_to(unit, word.epoch) {
        let failed = ConferenceEvent::MoveFailed { cause: Cause::Released, release: false };
        return Some(conference.event(failed));
    }
    let owns = conference.owner.is_some() && conference.owner == unit;
    if owns && same_copy(conference, word.cmu, word.epoch) {
        realm.gone(conference, Trigger::Lacks, Cause::Released, now)
    } else {
        None
    }
}

fn decide_join(
    realm: &Realm,
    now: Millis,
    cmu: &[u8],
    (capacity, lease): (i64, Millis),
    (zone, machine): (Option<&[u8]>, Option<&[u8]>),
    tags: &[&[u8]],
) -> Decided {
    check_identifier("cmu", cmu)?;
    if realm.is_replaced(cmu) {
        return replaced(realm, cmu);
    }
    if !(0..=MAX_ROOM).contains(&capacity) {
        return refuse(Code::Err, format!("CAPACITY must be 0 to {MAX_ROOM}, not {capacity}"));
    }
    if let Some(zone) = zone {
        check_identifier("ZONE", zone)?;
    }
    if let Some(machine) = machine {
        check_identifier("MACHINE", machine)?;
    }
    if !(1..=MAX_TTL).contains(&lease) {
        return refuse(Code::Err, format!("LEASE must be 1 to {MAX_TTL} ms, not {lease}"));
    }
    let current = realm.unit_of_host(host_of(cmu)).and_then(|unit| realm.indexed_unit(unit));
    if let Some(current) = current
        && let Some(kept_by) = current.keeps_host_from(machine, now)
    {
        return refuse_second_machine(current, kept_by, machine, now);
    }
    // A unit that replaces another unit of its host does not add to the number of units.
    if realm.units.len() >= MAX_UNITS && current.is_none() {
        return refuse(Code::Limit, format!("a realm has at most {MAX_UNITS} units"));
    }
    let name = realm.find_unit(cmu).map_or_else(|| Name::from(cmu), |unit| realm.name_of(unit));
    let (zone, tags) = (zone.map(|zone| realm.zone_name(zone)), creation::tags("TAGS", tags)?);
    let machine = machine.map(Name::from);
    decided(
        Event::Joined { cmu: name.clone(), capacity: capacity as u32, zone, tags, lease, machine },
        Reply::Unit(name),
    )
}

/// Refuses a unit because another machine has a unit of its host. What runs there goes on, and is told of the conflict.
fn refuse_second_machine(current: &Unit, kept_by: &Name, machine: Option<&[u8]>, now: Millis) -> Decided {
    let text = format!(
        "host {} belongs to unit {} on machine {}, which is {}; give one of the two units another host \
         (media-unit.host), or wait until that unit has ended",
        quoted(host_of(&current.cmu)),
        quoted(&current.cmu),
        quoted(kept_by),
        current.word()
    );
    let is_known = |conflict: &Conflict| {
        Some(&conflict.machine[..]) == machine && now < conflict.at.saturating_add(CONFLICT_NOTED)
    };
    match machine {
        Some(machine) if current.has_lease(now) && !current.conflict.as_ref().is_some_and(is_known) => {
            let event = UnitEvent::Conflict { machine: Name::from(machine) };
            decided(event.of(current.cmu.clone()), Reply::Refused(Refusal::new(Code::Exists, text)))
        }
        _ => refuse(Code::Exists, text),
    }
}
