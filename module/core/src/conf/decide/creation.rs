//! Creations, at once or for a later start: where they fit, and the wishes of conferences.

use super::lookups::lasting;
use crate::conf::event::{ConferenceEvent, Created, Event};
use crate::conf::model::conference::{CalledFrom, Conference, State, Wishes};
use crate::conf::model::reservations::{Area, Ask, MAX_AREAS, MAX_SCHEDULED};
use crate::conf::model::settings::MAX_ROOM;
use crate::conf::model::state::Realm;
use crate::conf::model::transitions::{Transition, Trigger, transition};
use crate::conf::model::unit::{MAX_TAGS, Name};
use crate::conf::model::wishes::Need;
use crate::conf::outcome::{Decided, Reply, decided, refuse, unchanged};
use crate::conf::request::{Create, WishesRequest};
use crate::shared::fence::MAX_TIME;
use crate::shared::refusal::{Code, Refusal};
use crate::shared::text::quoted;
use crate::shared::token::{MAX_TTL, check_identifier};
use crate::shared::{Bytes, Millis};
use std::collections::BTreeSet;
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
    let full = realm.reservations.full(ask, |_| true, &mut 0);
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

pub(super) fn check_start_before(start: Millis, end: Millis) -> Result<(), Refusal> {
    if start < end {
        return Ok(());
    }
    refuse(Code::Err, format!("END {end} must be after the start, {start}"))
}

/// Checks that a conference may take more room, or what it takes for longer, beside all that is scheduled.
pub(super) fn check_reserve(realm: &Realm, conference: &Conference, ask: &Ask) -> Result<(), Refusal> {
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

pub(super) fn no_room<T>(need: Need<'_>) -> Result<T, Refusal> {
    let part = |name: &str, value: Option<&Name>| {
        value.map_or_else(String::new, |value| format!(" {name} {}", quoted(value)))
    };
    let (zone, host) = (part("of zone", need.zone()), part("on host", need.host()));
    let tags: Vec<String> = need.wishes.require.iter().map(quoted).collect();
    let tags = if tags.is_empty() { String::new() } else { format!(" with {}", tags.join(" and ")) };
    refuse(Code::Limit, format!("no unit{zone}{host}{tags} has room for a conference of size {}", need.size))
}

pub(super) fn check_room(name: &str, value: i64, least: i64) -> Result<(), Refusal> {
    if (least..=MAX_ROOM).contains(&value) {
        return Ok(());
    }
    refuse(Code::Err, format!("{name} must be {least} to {MAX_ROOM}, not {value}"))
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

pub(super) fn check_end(now: Millis, end: Millis) -> Result<(), Refusal> {
    if end > MAX_TIME {
        return refuse(Code::Err, format!("END must be at most {MAX_TIME}, not {end}"));
    }
    if end <= now {
        return refuse(Code::Err, format!("END {end} is not in the future; it is {now}"));
    }
    Ok(())
}
