//! Requests of managers, operators and schedulers about what exists: ends, extensions, claims, drains, recovery, moves.

use super::creation::{check_end, check_reserve, check_room, check_start_before, no_room};
use super::lookups::{bad_state, known_unit, lasting, no_conference, up_unit};
use crate::conf::event::{ConferenceEvent, Event, Events, UnitEvent};
use crate::conf::model::conference::{Cause, Conference, State};
use crate::conf::model::queues::QueueKey;
use crate::conf::model::reservations::Ask;
use crate::conf::model::settings::MAX_ROOM;
use crate::conf::model::state::{Realm, Settings};
use crate::conf::model::transitions::{Transition, Trigger, transition};
use crate::conf::model::unit::{MAX_DRAINED, Name, Unit, UnitState, host_of};
use crate::conf::outcome::{Decided, Decision, Grant, PlannedMove, Reply, decided, refuse, unchanged};
use crate::conf::request::{Changes, Claim, DrainOf};
use crate::invariant;
use crate::shared::fence;
use crate::shared::refusal::{Code, Refusal};
use crate::shared::text::quoted;
use crate::shared::token::check_identifier;
use crate::shared::{Bytes, Millis};

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
