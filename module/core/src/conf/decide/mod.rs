//! What a request comes to: looks, searches, checks every limit, and changes nothing. Here are the words of units
//! and the requests on units; `managing` has those of managers and schedulers, `reports` a unit's list.

mod due;
mod lookups;
mod manager_commands;
pub mod placing;
pub mod reconcile_report;

pub use self::due::decide_due;
use self::lookups::{
    check_term, disowned, ended_by_unit, had_it_last, is_down, known_unit, no_conference, not_owner,
    out_of_date, replaced, stale, up_unit,
};
pub use self::manager_commands::MAX_STEP;
use crate::conf::event::{Event, Events};
use crate::conf::model::conference::{Cause, Conference, Epoch, MAX_DETAILS, MAX_VALUE, State};
pub use crate::conf::model::ids::{MAX_ROOM, MAX_TIME};
use crate::conf::model::state::Realm;
use crate::conf::model::transitions::{Transition, Trigger, transition};
use crate::conf::model::unit::{MAX_UNITS, Name, host_of};
use crate::conf::outcome::{Decided, Decision, Reply, decided, refuse, unchanged};
use crate::conf::request::{Request, Set, Word};
use crate::invariant;
use crate::shared::codec::Writer;
use crate::shared::field::Any;
use crate::shared::refusal::Code;
use crate::shared::text::quoted;
use crate::shared::token::{MAX_TTL, check_identifier};
use crate::shared::{Bytes, MAX_IDENTIFIER, Millis};

/// Decides a request at `now`, which is not before the last time applied. What is due by `now` was applied.
///
/// # Errors
/// A refusal; the realm stays as it is.
pub fn decide(realm: &Realm, now: Millis, request: &Request<'_>) -> Decided {
    realm.epochs().check_room()?;
    match request {
        Request::Set(set) => decide_set(realm, set),
        Request::Ack(word) => decide_ack(realm, *word),
        Request::Nack(word, reason) => decide_nack(realm, now, *word, *reason),
        Request::Ended(word) => decide_ended(realm, *word),
        Request::Beat { cmu, load } => {
            let unit = up_unit(realm, cmu)?;
            let cmu = realm.name_of(unit);
            decided(Event::Beat { cmu: cmu.clone(), load: load.map(Any) }, Reply::Unit(cmu))
        }
        Request::Join { cmu, capacity, zone, lease } => decide_join(realm, cmu, *capacity, *zone, *lease),
        Request::Report(report) => reconcile_report::decide_report(realm, now, report),
        Request::Ask { cmu: None, details } => {
            decided(Event::Asked { cmu: None, details: *details }, Reply::Ok)
        }
        Request::Ask { cmu: Some(cmu), details } => {
            let cmu = Some(realm.name_of(up_unit(realm, cmu)?));
            decided(Event::Asked { cmu, details: *details }, Reply::Ok)
        }
        Request::Down { cmu, term } => {
            check_term(realm, *term)?;
            let unit = known_unit(realm, cmu)?;
            let cmu = realm.name_of(unit);
            let reply = Reply::Unit(cmu.clone());
            if is_down(realm, unit) {
                return unchanged(reply);
            }
            decided(Event::Down { cmu }, reply)
        }
        Request::Configure(changes) => {
            let settings = realm.settings.with(changes)?;
            if settings == realm.settings {
                return unchanged(Reply::Realm);
            }
            decided(Event::Configured { settings }, Reply::Realm)
        }
        Request::Claim { term, leader, force } => {
            manager_commands::decide_claim(realm, *term, leader, *force)
        }
        Request::Create(create) => manager_commands::decide_create(realm, now, create),
        Request::Release { e164 } => manager_commands::decide_release(realm, e164),
        Request::Extend { e164, end } => manager_commands::decide_extend(realm, now, e164, *end),
        Request::Recover { count, term } => {
            check_term(realm, *term)?;
            manager_commands::decide_recover(realm, now, *count)
        }
        Request::Restart { live, term } => {
            check_term(realm, *term)?;
            manager_commands::decide_restart(realm, now, live)
        }
        Request::Move { e164, to, term } => {
            check_term(realm, *term)?;
            manager_commands::decide_move(realm, now, e164, *to)
        }
        Request::Drain { cmu, on, moves, term } => {
            check_term(realm, *term)?;
            manager_commands::decide_drain(realm, now, cmu, *on, *moves)
        }
    }
}

/// Why a write of details is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFault {
    /// There is no such conference.
    Unknown,
    /// It is over.
    State,
    /// Another unit owns it, or none.
    Owner,
    /// The unit owns it by another assignment, the one of this epoch.
    Epoch(Epoch),
}

impl Realm {
    /// Whether details by this unit at this epoch may be written; the number of the conference. This is the check
    /// that keeps a unit which lost a conference from writing into it. O(1).
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
            return refuse(Code::Err, "fields and values come by turns, and the last value is missing");
        };
        if !(1..=MAX_IDENTIFIER).contains(&field.len()) || value.len() > MAX_VALUE {
            return refuse(
                Code::Err,
                format!("a field must have 1 to {MAX_IDENTIFIER} bytes and its value at most {MAX_VALUE}"),
            );
        }
        // Of a field that comes twice the last value counts.
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
        let text = format!("seq {} is not newer than what is written of conference {}", set.seq, name());
        return refuse(Code::Stale, text);
    }
    if conference.details.len() + new > MAX_DETAILS {
        return refuse(Code::Limit, format!("conference {} may have {MAX_DETAILS} fields", name()));
    }
    let event = Event::Set { e164: conference.e164.clone(), seq: set.seq, fields: fields.bytes };
    decided(event, Reply::Integer(written))
}

fn decide_ack(realm: &Realm, word: Word<'_>) -> Decided {
    let unit = Some(known_unit(realm, word.cmu)?);
    let conference = realm.conference_called(word.e164);
    if let Some(conference) = conference.filter(|conference| conference.moves_to(unit, word.epoch)) {
        return decided(Event::Moved { e164: conference.e164.clone() }, Reply::Ok);
    }
    let (row, reply) = match conference {
        Some(conference) if conference.matches(unit, word.epoch) => (Trigger::Ack, Reply::Ok),
        _ => (Trigger::StaleAck, Reply::Released),
    };
    match transition(row, conference.map(|conference| conference.state)) {
        Transition::Open => decided(Event::Acked { e164: Bytes::from_slice(word.e164) }, reply),
        Transition::ReleaseSender => decided(disowned(realm, word), reply),
        Transition::Stays => unchanged(reply),
        _ => {
            invariant!("the word that a conference is open opens it, changes nothing, or is behind");
            unchanged(reply)
        }
    }
}

fn decide_nack(realm: &Realm, now: Millis, word: Word<'_>, reason: Option<&[u8]>) -> Decided {
    let number = known_unit(realm, word.cmu)?;
    let unit = Some(number);
    let Some(conference) = realm.conference_called(word.e164) else { return no_conference(word.e164) };
    let event = if conference.moves_to(unit, word.epoch) {
        Event::MoveFailed { e164: conference.e164.clone(), cause: Cause::Refused, release: false }
    } else if conference.matches(unit, word.epoch)
        && transition(Trigger::Nack, Some(conference.state)) == Transition::Failed
    {
        realm.failed(conference, Cause::Refused, now)
    } else {
        return out_of_date(realm, conference, word);
    };
    let mut events = Events::new();
    if let Some(reason) = reason {
        let (e164, cmu) = (conference.e164.clone(), realm.name_of(number));
        events.push(Event::Refused { e164, cmu, epoch: word.epoch, reason: Bytes::from_slice(reason) });
    }
    events.push(event);
    Ok(Decision { events, reply: Reply::Ok })
}

fn decide_ended(realm: &Realm, word: Word<'_>) -> Decided {
    let unit = realm.find_unit(word.cmu);
    let conference = realm.conference_called(word.e164);
    let last = |conference: &Conference| {
        conference.history.last().is_some_and(|last| last.epoch == word.epoch && *last.cmu == *word.cmu)
    };
    match conference.map(|conference| (conference, transition(Trigger::EndedByUnit, Some(conference.state))))
    {
        Some((conference, _)) if unit.is_some() && conference.moves_to(unit, word.epoch) => {
            let event =
                Event::MoveFailed { e164: conference.e164.clone(), cause: Cause::Unit, release: false };
            return decided(event, Reply::Ok);
        }
        Some((conference, Transition::Ended)) if unit.is_some() && conference.matches(unit, word.epoch) => {
            return decided(ended_by_unit(conference, Cause::Unit), Reply::Ok);
        }
        // Also of one whose place another took: what people ended on it is not to live again.
        Some((conference, Transition::EndedIfLast)) if had_it_last(conference, word.cmu, word.epoch) => {
            return decided(ended_by_unit(conference, Cause::Unit), Reply::Ok);
        }
        // It says again what is on record.
        Some((conference, Transition::Nothing)) if last(conference) => return unchanged(Reply::Ok),
        // The word is behind, or of nobody who had the conference: which of the two, is said below.
        _ => {}
    }
    known_unit(realm, word.cmu)?;
    conference.map_or_else(|| no_conference(word.e164), |conference| out_of_date(realm, conference, word))
}

fn decide_join(realm: &Realm, cmu: &[u8], capacity: i64, zone: Option<&[u8]>, lease: Millis) -> Decided {
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
    if !(1..=MAX_TTL).contains(&lease) {
        return refuse(Code::Err, format!("LEASE must be 1 to {MAX_TTL} ms, not {lease}"));
    }
    // A unit that replaces another of its host takes its place.
    if realm.units.len() >= MAX_UNITS && !realm.hosts.contains_key(host_of(cmu)) {
        return refuse(Code::Limit, format!("a realm has at most {MAX_UNITS} units"));
    }
    let name = realm.find_unit(cmu).map_or_else(|| Name::from(cmu), |unit| realm.name_of(unit));
    let zone = zone.map(|zone| realm.zone_name(zone));
    decided(Event::Joined { cmu: name.clone(), capacity: capacity as u32, zone, lease }, Reply::Unit(name))
}
