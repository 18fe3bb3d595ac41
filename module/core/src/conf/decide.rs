//! What a request comes to: looks, searches, checks every limit, and changes nothing. Here are the words of units
//! and the requests on units; `managing` has those of managers and schedulers, `reports` a unit's list.

use super::conference::{Cause, Conference, Epoch, MAX_DETAILS, MAX_VALUE, State};
use super::event::{Event, Events};
use super::managing;
use super::placing::Grant;
use super::reports::Reported;
use super::request::{Request, Set, Word};
use super::rows::{Cell, Row, cell};
use super::state::Realm;
use super::unit::{Name, Standing, host_of};
use crate::invariant;
use crate::shared::codec::Writer;
use crate::shared::field::Any;
use crate::shared::refusal::{Code, Refusal};
use crate::shared::text::quoted;
use crate::shared::token::{MAX_TTL, check_identifier};
use crate::shared::{Bytes, MAX_IDENTIFIER, Millis};
use crate::shared::{decision, fence};

pub(super) use crate::shared::decision::{decided, unchanged};
pub use crate::shared::fence::MAX_TIME;
pub(super) use crate::shared::refusal::refuse;

/// The greatest size, capacity and number of licences.
pub const MAX_ROOM: i64 = 1_000_000_000;
/// The most conferences that one request places or moves.
pub const MAX_STEP: i64 = 1000;

/// What happens, and what the caller is told.
pub type Decision = decision::Decision<Event, Reply>;

/// What the caller hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Done, or no change.
    Ok,
    /// The sender is behind, and is told so by a RELEASE.
    Released,
    /// A count.
    Integer(i64),
    /// The settings.
    Realm,
    /// The record of a conference.
    Conference(Bytes),
    /// The record of a unit.
    Unit(Name),
    /// What came of a report.
    Reported(Reported),
    /// Who got what.
    Grants(Vec<Grant>),
    /// Conferences that move now, and those that do not.
    Moves(i64, i64),
}

/// A decision, or why there is none.
pub type Decided = decision::Decided<Event, Reply>;

/// Decides a request at `now`, which is not before the last time applied. What is due by `now` was applied.
///
/// # Errors
/// A refusal; the realm stays as it is.
pub fn decide(realm: &Realm, now: Millis, request: &Request<'_>) -> Decided {
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
        Request::Report(report) => super::reports::decide_report(realm, now, report),
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
        Request::Claim { term, leader, force } => managing::decide_claim(realm, *term, leader, *force),
        Request::Create(create) => managing::decide_create(realm, now, create),
        Request::Release { e164 } => managing::decide_release(realm, e164),
        Request::Extend { e164, end } => managing::decide_extend(realm, now, e164, *end),
        Request::Recover { count, term } => {
            check_term(realm, *term)?;
            managing::decide_recover(realm, now, *count)
        }
        Request::Restart { live, term } => {
            check_term(realm, *term)?;
            managing::decide_restart(realm, now, live)
        }
        Request::Move { e164, to, term } => {
            check_term(realm, *term)?;
            managing::decide_move(realm, now, e164, *to)
        }
        Request::Drain { cmu, on, moves, term } => {
            check_term(realm, *term)?;
            managing::decide_drain(realm, now, cmu, *on, *moves)
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
    /// that keeps whoever lost a conference from writing into it. O(1).
    pub fn may_write(&self, e164: &[u8], cmu: &[u8], epoch: Epoch) -> Result<u32, WriteFault> {
        let id = self.find(e164).ok_or(WriteFault::Unknown)?;
        let one = self.indexed(id).ok_or(WriteFault::Unknown)?;
        if one.state == State::Ended {
            return Err(WriteFault::State);
        }
        let owner = one.owner.and_then(|owner| self.indexed_unit(owner));
        if owner.is_none_or(|owner| *owner.cmu != *cmu) {
            return Err(WriteFault::Owner);
        }
        if one.epoch == epoch { Ok(id) } else { Err(WriteFault::Epoch(one.epoch)) }
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
    let Some(one) = realm.indexed(id) else { return no_conference(set.e164) };
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
        match one.place_of(field).map(|at| one.details.get(at)) {
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
    if one.details.len() + new > MAX_DETAILS {
        return refuse(Code::Limit, format!("conference {} may have {MAX_DETAILS} fields", name()));
    }
    let event = Event::Set { e164: one.e164.clone(), seq: set.seq, fields: fields.bytes };
    decided(event, Reply::Integer(written))
}

fn decide_ack(realm: &Realm, word: Word<'_>) -> Decided {
    let unit = Some(known_unit(realm, word.cmu)?);
    let one = realm.conference_called(word.e164);
    if let Some(one) = one.filter(|one| one.moves_to(unit, word.epoch)) {
        return decided(Event::Moved { e164: one.e164.clone() }, Reply::Ok);
    }
    let (row, reply) = match one {
        Some(one) if one.matches(unit, word.epoch) => (Row::Ack, Reply::Ok),
        _ => (Row::StaleAck, Reply::Released),
    };
    match cell(row, one.map(|one| one.state)) {
        Cell::Open => decided(Event::Acked { e164: Bytes::from_slice(word.e164) }, reply),
        Cell::ReleaseSender => decided(disowned(realm, word), reply),
        Cell::Stays => unchanged(reply),
        _ => {
            invariant!("the word that a conference is open opens it, changes nothing, or is behind");
            unchanged(reply)
        }
    }
}

/// RELEASE to the sender, with its epoch.
pub(super) fn disowned(realm: &Realm, word: Word<'_>) -> Event {
    let cmu = realm.find_unit(word.cmu).map_or_else(|| Name::from(word.cmu), |unit| realm.name_of(unit));
    Event::Disowned { e164: Bytes::from_slice(word.e164), cmu, epoch: word.epoch }
}

fn decide_nack(realm: &Realm, now: Millis, word: Word<'_>, reason: Option<&[u8]>) -> Decided {
    let number = known_unit(realm, word.cmu)?;
    let unit = Some(number);
    let Some(one) = realm.conference_called(word.e164) else { return no_conference(word.e164) };
    let event = if one.moves_to(unit, word.epoch) {
        Event::MoveFailed { e164: one.e164.clone(), cause: Cause::Refused, release: false }
    } else if one.matches(unit, word.epoch) && cell(Row::Nack, Some(one.state)) == Cell::Failed {
        realm.failed(one, Cause::Refused, now)
    } else {
        return out_of_date(realm, one, word);
    };
    let mut events = Events::new();
    if let Some(reason) = reason {
        let (e164, cmu) = (one.e164.clone(), realm.name_of(number));
        events.push(Event::Refused { e164, cmu, epoch: word.epoch, reason: Bytes::from_slice(reason) });
    }
    events.push(event);
    Ok(Decision { events, reply: Reply::Ok })
}

fn decide_ended(realm: &Realm, word: Word<'_>) -> Decided {
    let unit = realm.find_unit(word.cmu);
    let one = realm.conference_called(word.e164);
    let last = |one: &Conference| {
        one.history.last().is_some_and(|last| last.epoch == word.epoch && *last.cmu == *word.cmu)
    };
    match one.map(|one| (one, cell(Row::EndedByUnit, Some(one.state)))) {
        Some((one, _)) if unit.is_some() && one.moves_to(unit, word.epoch) => {
            let event = Event::MoveFailed { e164: one.e164.clone(), cause: Cause::Unit, release: false };
            return decided(event, Reply::Ok);
        }
        Some((one, Cell::Ended)) if unit.is_some() && one.matches(unit, word.epoch) => {
            return decided(ended_by_unit(one, Cause::Unit), Reply::Ok);
        }
        // Also of one whose place another took: what people ended on it is not to live again.
        Some((one, Cell::EndedIfLast)) if had_it_last(one, word.cmu, word.epoch) => {
            return decided(ended_by_unit(one, Cause::Unit), Reply::Ok);
        }
        // It says again what is on record.
        Some((one, Cell::Nothing)) if last(one) => return unchanged(Reply::Ok),
        // The word is behind, or of nobody who had the conference: which of the two, is said below.
        _ => {}
    }
    known_unit(realm, word.cmu)?;
    one.map_or_else(|| no_conference(word.e164), |one| out_of_date(realm, one, word))
}

/// Whether a pending conference was last open on that unit, by that assignment.
pub(super) fn had_it_last(one: &Conference, cmu: &[u8], epoch: Epoch) -> bool {
    one.last_lost().is_some_and(|lost| lost.epoch == epoch && *lost.cmu == *cmu)
}

/// The end at a unit's word. A copy that a move has begun is ended as well.
pub(super) fn ended_by_unit(one: &Conference, cause: Cause) -> Event {
    let cause = if one.ending.is_some() { one.cause } else { cause };
    Event::Ended { e164: one.e164.clone(), cause, release: one.moving.is_some() }
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
    let name = realm.find_unit(cmu).map_or_else(|| Name::from(cmu), |unit| realm.name_of(unit));
    let zone = zone.map(|zone| realm.zone_name(zone));
    decided(Event::Joined { cmu: name.clone(), capacity: capacity as u32, zone, lease }, Reply::Unit(name))
}

// What many requests check.

/// Refuses a scheduler whose term is not the claimed one.
pub(super) fn check_term(realm: &Realm, term: Option<u64>) -> Result<(), Refusal> {
    fence::check_term(realm.term, term)
}

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

fn is_down(realm: &Realm, unit: u32) -> bool {
    realm.indexed_unit(unit).is_some_and(|unit| unit.standing == Standing::Down)
}

fn replaced<T>(realm: &Realm, cmu: &[u8]) -> Result<T, Refusal> {
    // The host's last unit may have been forgotten.
    let current = realm.hosts.get(host_of(cmu)).and_then(|host| realm.indexed_unit(host.current?));
    let by = current.map_or_else(String::new, |unit| format!(" by {}", quoted(&unit.cmu)));
    refuse(Code::Stale, format!("unit {} was replaced{by}; it must stop its conferences", quoted(cmu)))
}

pub(super) fn no_conference<T>(e164: &[u8]) -> Result<T, Refusal> {
    refuse(Code::NotFound, format!("there is no conference {}", quoted(e164)))
}

fn not_owner<T>(realm: &Realm, e164: &[u8], cmu: &[u8]) -> Result<T, Refusal> {
    let owner = realm.conference_called(e164).and_then(|one| one.owner);
    let owner = owner.and_then(|owner| realm.indexed_unit(owner));
    let owner = owner.map_or_else(|| "nobody's".to_owned(), |owner| format!("{}'s", quoted(&owner.cmu)));
    refuse(Code::NotOwner, format!("conference {} is {owner}, not {}'s", quoted(e164), quoted(cmu)))
}

fn stale<T>(e164: &[u8], current: Epoch, epoch: Epoch) -> Result<T, Refusal> {
    refuse(Code::Stale, format!("conference {} is at epoch {current}, not {epoch}", quoted(e164)))
}

/// A word that does not fit what is on record: of another unit, at another epoch, or in another state.
fn out_of_date<T>(realm: &Realm, one: &Conference, word: Word<'_>) -> Result<T, Refusal> {
    let unit = realm.find_unit(word.cmu);
    if one.matches(unit, word.epoch) {
        let text = format!("conference {} is {}", quoted(&one.e164), one.state.word());
        return refuse(Code::BadState, text);
    }
    if one.owner.is_some() && one.owner == unit {
        return stale(word.e164, one.epoch, word.epoch);
    }
    if one.state == State::Ended {
        let text = format!("conference {} is ended, and this was not its last assignment", quoted(&one.e164));
        return refuse(Code::Stale, text);
    }
    not_owner(realm, word.e164, word.cmu)
}
