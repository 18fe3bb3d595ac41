//! Requests of managers, operators and schedulers: creation and end of conferences, claims, drains, recovery, moves.

use super::lookups::{known_unit, no_conference, up_unit};
use crate::conf::event::{ConferenceEvent, Created, Event, Events, UnitEvent};
use crate::conf::model::conference::{CalledFrom, Cause, Conference, State, Wishes};
use crate::conf::model::queues::QueueKey;
use crate::conf::model::reservations::{Area, Ask, MAX_AREAS, MAX_SCHEDULED};
use crate::conf::model::settings::MAX_ROOM;
use crate::conf::model::state::{Realm, Settings};
use crate::conf::model::transitions::{Transition, Trigger, transition};
use crate::conf::model::unit::{MAX_DRAINED, MAX_TAGS, Name, Unit, UnitState, host_of};
use crate::conf::model::wishes::Need;
use crate::conf::outcome::{Decided, Decision, Grant, PlannedMove, Reply, decided, refuse, unchanged};
use crate::conf::request::{Changes, Claim, Create, DrainOf, WishesRequest};
use crate::invariant;
use crate::shared::fence::{self, MAX_TIME};
use crate::shared::refusal::{Code, Refusal};
use crate::shared::text::quoted;
use crate::shared::token::{MAX_TTL, check_identifier};
use crate::shared::{Bytes, Millis};
use std::collections::BTreeSet;

/// The most conferences that one request places or moves.
pub const MAX_STEP: i64 = 1000;

impl Settings {
    /// These settings with the given changes.
    ///
    /// # Errors
    /// `ERR` if a setting is out of range.
    pub fn with(&self, changes: &Changes) -> Result<Self, Refusal> {
        let licences = match changes.licences {
            None => self.licences,
            Some(licences) => u64::try_from(licences).map_err(|_| {
                Refusal::new(Code::Err, format!("LICENCES must be 0 to {MAX_ROOM}, not {licences}"))
            })?,
        };
        let settings = Self {
            licences,
            retry: changes.retry.unwrap_or(self.retry),
            window: changes.window.unwrap_or(self.window),
            policy: changes.policy.unwrap_or(self.policy),
            create_timeout: changes.create_timeout.unwrap_or(self.create_timeout),
            release_timeout: changes.release_timeout.unwrap_or(self.release_timeout),
            wait_timeout: changes.wait_timeout.unwrap_or(self.wait_timeout),
            tombstone: changes.tombstone.unwrap_or(self.tombstone),
            placement: changes.placement.unwrap_or(self.placement),
            tries: changes.tries.unwrap_or(self.tries),
            failures: changes.failures.unwrap_or(self.failures),
            warn: changes.warn.unwrap_or(self.warn),
            ramp: changes.ramp.unwrap_or(self.ramp),
        };
        settings.check()?;
        Ok(settings)
    }
}

pub(super) fn decide_claim(realm: &Realm, claim: Claim<'_>) -> Decided {
    let Claim { term, leader, force } = claim;
    let leader = fence::check_claim((realm.term, realm.leader.as_deref()), (term, leader), force)?;
    decided(Event::Claimed { term, leader }, Reply::Realm)
}

pub(super) fn decide_create(realm: &Realm, now: Millis, create: &Create<'_>) -> Decided {
    check_identifier("e164", create.e164)?;
    let (pool, lease) = create.called_from.unzip();
    let names = [("REQUEST", create.request), ("FROM", pool), ("lease", lease)];
    for (name, value) in names {
        value.map_or(Ok(()), |value| check_identifier(name, value))?;
    }
    check_room("SIZE", create.size, 1)?;
    check_room("LICENCES", create.licences, 0)?;
    let wishes = Wishes::default().with(realm, &create.wishes)?;
    let Ok(priority) = i32::try_from(create.priority) else {
        return refuse(Code::Err, format!("PRIORITY must fit 32 bits, and {} does not", create.priority));
    };
    let e164 = Bytes::from_slice(create.e164);
    let asked = create.called_from.and(create.request).and_then(|request| realm.asked_for(request));
    if let Some(conference) = asked {
        return unchanged(Reply::Conference(conference.e164.clone()));
    }
    let conference = realm.conference_called(create.e164);
    // Before all checks that depend on the time, so that a retry gets the reply that was lost.
    if let Some(conference) = conference
        && create.called_from.is_none()
        && create.request.is_some()
        && conference.request.as_deref() == create.request
    {
        return unchanged(Reply::Conference(e164));
    }
    if let (Transition::Exists, Some(conference)) =
        (transition(Trigger::Create, conference.map(|conference| conference.state)), conference)
    {
        let text = format!(
            "conference {} is there already, and is {}",
            quoted(create.e164),
            conference.state.word()
        );
        return refuse(Code::Exists, text);
    }
    if let Some(end) = create.end {
        check_end(now, end)?;
    }
    let need = Need { size: create.size as u32, wishes: &wishes, elsewhere: false };
    let ask = Ask {
        from: create.start.unwrap_or(now),
        until: create.end,
        size: create.size,
        licences: create.licences,
    };
    let unit = match create.start {
        None => Some(place(realm, need, &ask, create.waits)?),
        Some(start) => {
            check_start(now, start, create.end)?;
            check_schedule(realm, need, &ask)?;
            None
        }
    };
    let created = Created {
        e164: e164.clone(),
        cmu: unit.map(|unit| realm.name_of(unit)),
        epoch: realm.next_epoch(now),
        start: create.start,
        end: create.end,
        size: create.size as u32,
        licences: create.licences as u32,
        priority,
        wishes,
        recoverable: create.recoverable,
        request: create.request.map(Bytes::from_slice),
        called_from: create.called_from.map(|(pool, lease)| CalledFrom {
            pool: Bytes::from_slice(pool),
            lease: Bytes::from_slice(lease),
        }),
    };
    let event = if unit.is_some() { Event::Created } else { Event::Scheduled };
    decided(event(Box::new(created)), Reply::Conference(e164))
}

/// The unit for a conference that is created at once. The conference takes no room and no licences that are reserved
/// for a booked one at any time before its end. As `PlacementIndex::choose`; while conferences are booked, as
/// `Reservations::full` as well. The refusal of one that does not wait names a start that fits, if that takes no look at
/// the whole realm: then as `Reservations::earliest`.
fn place(realm: &Realm, need: Need<'_>, ask: &Ask, waits: bool) -> Result<u32, Refusal> {
    let total = realm.settings.licences;
    if total > 0 && realm.licences + ask.licences as u64 > total {
        let text =
            format!("{} of {total} licences are in use; {} more are not free", realm.licences, ask.licences);
        return refuse(Code::Limit, text);
    }
    let full = realm.reservations.full(ask, |_| true);
    let unit = realm.placement_index.choose(need, |unit, _| realm.is_in_one(unit, &full));
    match unit {
        Some(unit) if realm.has_licences(ask) => Ok(unit),
        None if full.is_empty() || realm.placement_index.choose(need, |_, _| false).is_none() => {
            no_room(need)
        }
        _ => {
            let start = if waits { None } else { realm.known_earliest(&Area::of(need), ask) };
            let start = start.filter(|&start| start > ask.from);
            let hint = start.map_or_else(String::new, |start| format!(" with START {start} it fits;"));
            let text = format!(
                "a conference with SIZE {} and LICENCES {} would take what is reserved for scheduled conferences;\
                 {hint} with an earlier END it may fit now",
                ask.size, ask.licences
            );
            refuse(Code::Limit, text)
        }
    }
}

/// Checks that a conference fits into the room and the licences that are left for it from its start to its end.
fn check_schedule(realm: &Realm, need: Need<'_>, ask: &Ask) -> Result<(), Refusal> {
    check_area(realm, need.wishes)?;
    if realm.count(State::Scheduled) >= MAX_SCHEDULED {
        let text = format!("{MAX_SCHEDULED} conferences of the realm are scheduled already");
        return refuse(Code::Limit, text);
    }
    let earliest = realm.earliest(&Area::of(need), None, ask);
    if earliest == Some(ask.from) {
        return Ok(());
    }
    let hint = match earliest {
        Some(start) => format!("the earliest START that fits is {start}"),
        None => "no later START fits".to_owned(),
    };
    let text = format!(
        "a conference with SIZE {} and LICENCES {} does not fit at START {} beside all others; {hint}",
        ask.size, ask.licences, ask.from
    );
    refuse(Code::Limit, text)
}

/// Checks that a conference with these wishes may be scheduled at all.
fn check_area(realm: &Realm, wishes: &Wishes) -> Result<(), Refusal> {
    if wishes.host.is_some() {
        let text = "the unit of a scheduled conference is chosen at its start: START and UNIT exclude each other; ZONE \
                    and REQUIRE can be wished";
        return refuse(Code::Err, text);
    }
    if realm.may_have_area(wishes) {
        return Ok(());
    }
    let text = format!(
        "the scheduled conferences of the realm wish {MAX_AREAS} combinations of zone and required tags, and may not \
         wish another"
    );
    refuse(Code::Limit, text)
}

fn check_start(now: Millis, start: Millis, end: Option<Millis>) -> Result<(), Refusal> {
    if start <= now {
        return refuse(Code::Err, format!("START {start} is not in the future; it is {now}"));
    }
    match end {
        None => refuse(Code::Err, "a conference with START needs an END: its room is reserved until then"),
        Some(end) => check_start_before(start, end),
    }
}

fn check_start_before(start: Millis, end: Millis) -> Result<(), Refusal> {
    if start < end {
        return Ok(());
    }
    refuse(Code::Err, format!("END {end} must be after the start, {start}"))
}

/// Checks that a conference may take more room, or what it takes for longer, beside all that is scheduled.
fn check_reserve(realm: &Realm, conference: &Conference, ask: &Ask) -> Result<(), Refusal> {
    if realm.has_reserve(conference, ask) {
        return Ok(());
    }
    let text = format!(
        "conference {} would take what is reserved for scheduled conferences before {}",
        quoted(&conference.e164),
        ask.until.map_or_else(|| "its end".to_owned(), |until| until.to_string())
    );
    refuse(Code::Limit, text)
}

fn no_room<T>(need: Need<'_>) -> Result<T, Refusal> {
    let part = |name: &str, value: Option<&Name>| {
        value.map_or_else(String::new, |value| format!(" {name} {}", quoted(value)))
    };
    let (zone, host) = (part("of zone", need.zone()), part("on host", need.host()));
    let tags: Vec<String> = need.wishes.require.iter().map(quoted).collect();
    let tags = if tags.is_empty() { String::new() } else { format!(" with {}", tags.join(" and ")) };
    refuse(Code::Limit, format!("no unit{zone}{host}{tags} has room for a conference of size {}", need.size))
}

/// Tags in ascending order, each once.
pub(super) fn tags(option: &str, tags: &[&[u8]]) -> Result<Vec<Name>, Refusal> {
    tags.iter().try_for_each(|tag| check_identifier(option, tag))?;
    let tags: BTreeSet<&[u8]> = tags.iter().copied().collect();
    if tags.len() > MAX_TAGS {
        return refuse(Code::Limit, format!("{option} has {} tags, more than {MAX_TAGS}", tags.len()));
    }
    Ok(tags.into_iter().map(Name::from).collect())
}

impl Realm {
    /// Whether a creation with these wishes can be placed at all, if a unit has room.
    pub(in crate::conf) fn are_valid(&self, wishes: &WishesRequest<'_>) -> bool {
        Wishes::default().with(self, wishes).is_ok()
    }

    /// Whether a creation finds a unit and licences now, if nothing is reserved.
    pub(in crate::conf) fn has_room(&self, create: &Create<'_>) -> bool {
        let total = self.settings.licences;
        let has_licences = total == 0 || self.licences + create.licences as u64 <= total;
        let wishes = Wishes::default().with(self, &create.wishes);
        has_licences
            && wishes.is_ok_and(|wishes| {
                let need = Need { size: create.size as u32, wishes: &wishes, elsewhere: false };
                self.placement_index.choose(need, |_, _| false).is_some()
            })
    }
}

impl Wishes {
    /// These wishes with the given changes.
    fn with(self, realm: &Realm, changes: &WishesRequest<'_>) -> Result<Self, Refusal> {
        let named = |option, name: Option<Option<&[u8]>>| {
            name.flatten().map_or(Ok(()), |name| check_identifier(option, name))
        };
        named("ZONE", changes.zone)?;
        named("UNIT", changes.host)?;
        if let Some(fall) = changes.zone_fall.filter(|fall| !(0..=MAX_TTL).contains(fall)) {
            return refuse(Code::Err, format!("ZONEFALL must be 0 to {MAX_TTL} ms, not {fall}"));
        }
        let require = changes.require.map(|list| tags("REQUIRE", list)).transpose()?;
        let prefer = changes.prefer.map(|list| tags("PREFER", list)).transpose()?;
        Ok(Self {
            zone: changes.zone.map_or(self.zone, |zone| zone.map(|zone| realm.zone_name(zone))),
            zone_fall: changes.zone_fall.map_or(self.zone_fall, |fall| Some(fall).filter(|&fall| fall > 0)),
            host: changes.host.map_or(self.host, |host| host.map(Name::from)),
            require: require.unwrap_or(self.require),
            prefer: prefer.unwrap_or(self.prefer),
        })
    }
}

pub(super) fn decide_alter(realm: &Realm, e164: &[u8], changes: &WishesRequest<'_>) -> Decided {
    let conference = lasting(realm, e164)?;
    let wishes = Wishes::clone(&conference.wishes).with(realm, changes)?;
    let reply = Reply::Conference(conference.e164.clone());
    if wishes == *conference.wishes {
        return unchanged(reply);
    }
    if conference.state == State::Scheduled {
        check_area(realm, &wishes)?;
        let area = Area::of(Need { wishes: &wishes, ..conference.need() });
        let before = Area::of(conference.need());
        let (from, until) = (conference.start.unwrap_or(0), conference.end);
        let ask = Ask { from, until, size: conference.size.into(), licences: 0 };
        // The areas that contain both have its room already.
        if realm.earliest(&area, Some(&before), &ask) != Some(from) {
            let text =
                format!("conference {} does not fit with these wishes beside all others", quoted(e164));
            return refuse(Code::Limit, text);
        }
    }
    decided(conference.event(ConferenceEvent::Altered { wishes }), reply)
}

pub(super) fn check_room(name: &str, value: i64, least: i64) -> Result<(), Refusal> {
    if (least..=MAX_ROOM).contains(&value) {
        return Ok(());
    }
    refuse(Code::Err, format!("{name} must be {least} to {MAX_ROOM}, not {value}"))
}

fn check_end(now: Millis, end: Millis) -> Result<(), Refusal> {
    if end > MAX_TIME {
        return refuse(Code::Err, format!("END must be at most {MAX_TIME}, not {end}"));
    }
    if end <= now {
        return refuse(Code::Err, format!("END {end} is not in the future; it is {now}"));
    }
    Ok(())
}

pub(super) fn decide_release(realm: &Realm, e164: &[u8]) -> Decided {
    let Some(conference) = realm.conference_called(e164) else { return no_conference(e164) };
    let (reply, cause) = (Reply::Conference(conference.e164.clone()), Cause::Manager);
    let event = match transition(Trigger::Release, Some(conference.state)) {
        Transition::Ending if conference.ending.is_none() => ConferenceEvent::Ending { cause },
        Transition::Ended => ConferenceEvent::Ended { cause, release: false },
        _ => return unchanged(reply),
    };
    decided(conference.event(event), reply)
}

/// Every conference ends, and no copy of an epoch up to now is adopted again.
pub(super) fn decide_drop(realm: &Realm, now: Millis) -> Decided {
    let mut events = Events::new();
    for state in State::ALL {
        for &id in realm.by_state.of(state).values() {
            let Some(conference) = realm.indexed(id) else { continue };
            events.extend(decide_release(realm, &conference.e164)?.events);
        }
    }
    events.push(Event::Dropped { epoch: realm.next_epoch(now) });
    Ok(Decision { events, reply: Reply::Realm })
}

fn bad_state<T>(conference: &Conference) -> Result<T, Refusal> {
    let state = if conference.ending.is_some() { "ending" } else { conference.state.word() };
    refuse(Code::BadState, format!("conference {} is {state}", quoted(&conference.e164)))
}

/// The conference, if its end was not requested and it has not ended.
fn lasting<'a>(realm: &'a Realm, e164: &[u8]) -> Result<&'a Conference, Refusal> {
    let Some(conference) = realm.conference_called(e164) else { return no_conference(e164) };
    if !conference.is_live() || conference.ending.is_some() {
        return bad_state(conference);
    }
    Ok(conference)
}

pub(super) fn decide_extend(realm: &Realm, now: Millis, e164: &[u8], end: Millis, dry_run: bool) -> Decided {
    let conference = lasting(realm, e164)?;
    check_end(now, end)?;
    if let Some(start) = conference.start {
        check_start_before(start, end)?;
    }
    let reply = Reply::Conference(conference.e164.clone());
    if conference.end == Some(end) {
        return unchanged(reply);
    }
    if let Some(from) = conference.end.filter(|&before| before < end) {
        let (size, licences) = (conference.size.into(), conference.licences.into());
        check_reserve(realm, conference, &Ask { from, until: Some(end), size, licences })?;
    }
    if dry_run {
        return unchanged(reply);
    }
    decided(conference.event(ConferenceEvent::Extended { end, number: realm.next_epoch(now) }), reply)
}

pub(super) fn decide_resize(realm: &Realm, now: Millis, e164: &[u8], size: i64) -> Decided {
    let conference = lasting(realm, e164)?;
    check_room("the size", size, 1)?;
    let (size, reply) = (size as u32, Reply::Conference(conference.e164.clone()));
    if conference.size == size {
        return unchanged(reply);
    }
    // A conference that is not new may grow on a unit on which nothing new is placed.
    let more = u64::from(size.saturating_sub(conference.size));
    let target = conference.moving.as_ref().map(|moving| moving.to);
    for unit in conference.owner.into_iter().chain(target).filter_map(|unit| realm.indexed_unit(unit)) {
        let free = u64::from(unit.capacity).saturating_sub(unit.used);
        if free < more {
            let text = format!(
                "conference {} would take {more} more of unit {}, which has {free} free; move the conference first",
                quoted(e164),
                quoted(&unit.cmu)
            );
            return refuse(Code::Limit, text);
        }
    }
    if more > 0 {
        let from = conference.start.map_or(now, |start| start.max(now));
        let ask = Ask { from, until: conference.end, size: more as i64, licences: 0 };
        check_reserve(realm, conference, &ask)?;
    }
    decided(conference.event(ConferenceEvent::Resized { size, number: realm.next_epoch(now) }), reply)
}

pub(super) fn decide_recover(realm: &Realm, now: Millis, count: i64) -> Decided {
    if !(1..=MAX_STEP).contains(&count) {
        return refuse(Code::Err, format!("COUNT must be 1 to {MAX_STEP}, not {count}"));
    }
    let (mut events, mut grants) = (Events::new(), Vec::new());
    let mut epoch = realm.next_epoch(now);
    for (id, unit) in realm.plan_recovery(now, count as usize) {
        let Some(conference) = realm.indexed(id) else { continue };
        let recovers = transition(Trigger::Recover, Some(conference.state)) == Transition::Creating;
        if !invariant!(recovers, "a conference that is recovered was pending") {
            continue;
        }
        let grant = Grant { e164: conference.e164.clone(), cmu: realm.name_of(unit), epoch };
        events.push(conference.event(ConferenceEvent::Granted { cmu: grant.cmu.clone(), epoch }));
        grants.push(grant);
        epoch += 1;
    }
    Ok(Decision { events, reply: Reply::Grants(grants) })
}

pub(super) fn decide_rebalance(realm: &Realm, now: Millis, most: i64, dry_run: bool) -> Decided {
    if !(1..=MAX_STEP).contains(&most) {
        return refuse(Code::Err, format!("MAXMOVES must be 1 to {MAX_STEP}, not {most}"));
    }
    let (mut events, mut moves) = (Events::new(), Vec::new());
    let mut epoch = realm.next_epoch(now);
    for (id, to) in realm.plan_rebalance(most as usize) {
        let Some(conference) = realm.indexed(id) else { continue };
        let to = realm.name_of(to);
        let from = conference.last_unit().cloned().unwrap_or_default();
        moves.push(PlannedMove { e164: conference.e164.clone(), from, to: to.clone() });
        if !dry_run {
            events.push(conference.event(ConferenceEvent::Moving { to, epoch }));
            epoch += 1;
        }
    }
    Ok(Decision { events, reply: Reply::Rebalanced(moves) })
}

pub(super) fn decide_restart(realm: &Realm, now: Millis, live: &[&[u8]]) -> Decided {
    let found: std::collections::HashSet<&[u8]> = live.iter().copied().collect();
    let gone: Vec<Name> = realm
        .units()
        .filter(|unit| {
            unit.state != UnitState::Down && !unit.has_lease(now) && !found.contains(&unit.cmu[..])
        })
        .map(|unit| unit.cmu.clone())
        .collect();
    decided(Event::Restarted { gone }, Reply::Realm)
}

pub(super) fn decide_move(realm: &Realm, now: Millis, e164: &[u8], to: Option<&[u8]>) -> Decided {
    let conference = lasting(realm, e164)?;
    let recovers = transition(Trigger::Recover, Some(conference.state)) == Transition::Creating;
    if !recovers && conference.state != State::Open {
        return bad_state(conference);
    }
    if let Some(moving) = &conference.moving {
        if to.is_none_or(|to| *moving.cmu == *to) {
            return unchanged(Reply::Conference(conference.e164.clone()));
        }
        let text = format!("conference {} moves to {} already", quoted(e164), quoted(&moving.cmu));
        return refuse(Code::BadState, text);
    }
    let unit = match to {
        None if recovers => {
            let again = conference.next_retry.is_none_or(|retry| retry <= now);
            QueueKey::of(conference).choose(&realm.placement_index, again)
        }
        None => realm.placement_index.choose(conference.need(), |unit, _| Some(unit) == conference.owner),
        Some(to) => {
            let unit = known_unit(realm, to)?;
            if conference.owner == Some(unit) {
                let text = format!("conference {} is on unit {} already", quoted(e164), quoted(to));
                return refuse(Code::BadState, text);
            }
            if !realm.placement_index.takes(unit) {
                let word = realm.indexed_unit(unit).map_or("gone", |unit| match unit.backoff_until {
                    _ if !unit.reported => "yet to report",
                    Some(_) if unit.takes_but_for_backoff() => "in back-off: creations failed on it",
                    _ => unit.word(),
                });
                return refuse(Code::BadState, format!("unit {} is {word}", quoted(to)));
            }
            if let Some(text) = realm.indexed_unit(unit).and_then(|unit| unmet(conference, unit)) {
                return refuse(Code::BadState, text);
            }
            (realm.placement_index.room(unit) >= u64::from(conference.size)).then_some(unit)
        }
    };
    let Some(unit) = unit else { return no_room(conference.need()) };
    let (cmu, epoch) = (realm.name_of(unit), realm.next_epoch(now));
    let event = if recovers {
        ConferenceEvent::Granted { cmu, epoch }
    } else {
        ConferenceEvent::Moving { to: cmu, epoch }
    };
    decided(conference.event(event), Reply::Conference(conference.e164.clone()))
}

/// Why a unit may not take a conference, by the wishes of the conference.
fn unmet(conference: &Conference, unit: &Unit) -> Option<String> {
    let need = conference.need();
    let place = match (need.zone(), need.host(), need.wishes.missing(&unit.tags)) {
        (Some(zone), ..) if unit.zone.as_ref() != Some(zone) => format!("be in zone {}", quoted(zone)),
        (_, Some(host), _) if **host != *host_of(&unit.cmu) => format!("be on host {}", quoted(host)),
        (.., Some(tag)) => format!("be on a unit with tag {}", quoted(tag)),
        _ => return None,
    };
    let (e164, cmu) = (quoted(&conference.e164), quoted(&unit.cmu));
    Some(format!("conference {e164} must {place}, and unit {cmu} is another; CONF.ALTER changes that"))
}

pub(super) fn decide_drain(realm: &Realm, now: Millis, of: DrainOf<'_>, on: bool, moves: bool) -> Decided {
    let (host, unit, reply) = match of {
        DrainOf::Unit(cmu) => {
            let unit = known_unit(realm, cmu)?;
            (host_of(cmu), Some(unit), Reply::Unit(realm.name_of(unit)))
        }
        DrainOf::Host(host) => {
            check_identifier("host", host)?;
            (host, realm.unit_of_host(host), Reply::Host(Bytes::from_slice(host)))
        }
    };
    let mut events = Events::new();
    if realm.drained.contains_key(host) != on {
        if on && realm.drained.len() >= MAX_DRAINED {
            let text = format!("{MAX_DRAINED} hosts are drained: end the draining of hosts that are gone");
            return refuse(Code::Limit, text);
        }
        events.push(Event::Drained { host: Bytes::from_slice(host), on });
    }
    if !moves {
        return Ok(Decision { events, reply });
    }
    let (moved, left) = unit.map_or((0, 0), |unit| move_away(realm, now, unit, &mut events));
    Ok(Decision { events, reply: Reply::Moves(moved, left) })
}

/// The unit itself is about to end: its conferences move away, and nothing new is placed on this run of the unit.
pub(super) fn decide_leave(realm: &Realm, now: Millis, cmu: &[u8]) -> Decided {
    let number = up_unit(realm, cmu)?;
    let mut events = Events::new();
    let stays = |unit: &&Unit| !unit.leaving;
    if let Some(unit) = realm.indexed_unit(number).filter(stays) {
        events.push(UnitEvent::Leaving.of(unit.cmu.clone()));
    }
    let (moved, left) = move_away(realm, now, number, &mut events);
    Ok(Decision { events, reply: Reply::Moves(moved, left) })
}

/// Adds the moves of the conferences of a unit to other units, at most [`MAX_STEP`]. Returns how many move, and how many
/// stay for now.
fn move_away(realm: &Realm, now: Millis, number: u32, events: &mut Events) -> (i64, i64) {
    let Some(unit) = realm.indexed_unit(number) else { return (0, 0) };
    let mut index = realm.placement_index.clone();
    index.strike(number);
    let mut epoch = realm.next_epoch(now);
    let (mut moved, mut left) = (0, 0);
    for conference in unit.owned.iter().filter_map(|&(_, id)| realm.indexed(id)) {
        if conference.ending.is_some() || conference.moving.is_some() {
            continue;
        }
        let open = conference.state == State::Open && moved < MAX_STEP;
        let to = if open { index.choose(conference.need(), |_, _| false) } else { None };
        let Some(to) = to else {
            left += 1;
            continue;
        };
        index.reserve(to, conference.size);
        events.push(conference.event(ConferenceEvent::Moving { to: realm.name_of(to), epoch }));
        epoch += 1;
        moved += 1;
    }
    (moved, left)
}
