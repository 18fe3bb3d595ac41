//! `SEAT.ALTER`: the new plan.

use super::rules::Decided;
use crate::invariant;
use crate::seat::event::{Arrangement, Event, Events};
use crate::seat::labels::parse_short_form;
use crate::seat::moves::Moves;
use crate::seat::outcome::{Decision, Reply};
use crate::seat::plan::{
    Limits, PartArea, PartRow, Plan, PlanArea, PlanPart, PlanRow, PlanSeat, PlanSeats, Rule, identifier,
    wrong,
};
use crate::seat::state::Show;
use crate::seat::venue::{Row, Seat, Venue};
use crate::shared::Millis;
use crate::shared::decision::{decided, unchanged};
use crate::shared::invariant::Expected;
use crate::shared::refusal::{Code, Refusal};
use crate::shared::text::quoted;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Decides a change of the plan. O(areas of the part) if only limits, names, priorities or order rules other than `focus`
/// change, otherwise O(seats of the show).
///
/// # Errors
/// `NOTFOUND` for an unknown area, row or seat; `ERR` for an invalid part; `BADSTATE` if a held or sold seat would be
/// removed or change its tier or flags, or if no seat would have a flag that a waiter needs.
pub(super) fn decide_alter(show: &Show, now: Millis, part: &PlanPart) -> Decided {
    if !part.changes_seats() && !changes_order_of_rows(show, part) {
        let limits = altered_limits(show.limits, part);
        limits.check()?;
        let events = part.events.unwrap_or(show.events);
        let areas = arranged_areas(show, part)?;
        if areas.is_empty() && (limits, events) == (show.limits, show.events) {
            return unchanged(Reply::Ok);
        }
        return decided(Event::Arranged { limits, events, areas }, Reply::Ok);
    }
    let (plan, venue) = altered_plan(show, part)?;
    if plan == show.plan() {
        return unchanged(Reply::Ok);
    }
    let mut events = check_change(show, now, &venue)?;
    events.push(Event::Altered { plan: plan.to_json() });
    Ok(Decision { events, reply: Reply::Ok })
}

/// Whether the part changes a focus, or gives an area the rule `focus` or another in its place: its rows are numbered by
/// nearness then, or no longer.
fn changes_order_of_rows(show: &Show, part: &PlanPart) -> bool {
    let is_by_focus = |id: &str| {
        let area = show.venue.area_called(id.as_bytes());
        area.is_some_and(|area| show.venue.area(area).rule == Rule::Focus)
    };
    let of_area = |area: &PartArea| {
        let rules = area.rule.map(|rule| (rule == Rule::Focus, is_by_focus(&area.id)));
        area.focus.is_some() || rules.is_some_and(|(is, was)| is != was)
    };
    part.focus.is_some() || part.areas.iter().any(of_area)
}

/// Checks that the plan of `show` may become `venue`. Returns the ends of those waits that would forbid it, but whose time
/// is over.
fn check_change(show: &Show, now: Millis, venue: &Venue) -> Result<Events, Refusal> {
    let mut events = Events::new();
    let Some(moves) = Moves::between(&show.venue, venue).expected("a part of a plan changes no area's id")
    else {
        return Err(wrong("areas", "an area is missing"));
    };
    show.keeps_taken_seats(venue, &moves)?;
    for (waiter, flag) in show.waiters_for_lost_flags(&moves) {
        if waiter.until > now {
            let (token, flag) = (quoted(&waiter.token[..]), quoted(flag));
            let what = format!("the wait {token} needs flag {flag}, and no seat would have it");
            return Err(Refusal::new(Code::BadState, what));
        }
        events.push(Event::Unwaited { token: waiter.token.clone(), expired: true });
    }
    Ok(events)
}

/// The whole plan of `show` after `part`, in its normal form, and its venue. O(seats of the show).
fn altered_plan(show: &Show, part: &PlanPart) -> Result<(Plan, Venue), Refusal> {
    let mut plan = show.plan();
    plan.limits = altered_limits(plan.limits, part);
    plan.limits.check()?;
    plan.events = part.events.unwrap_or(plan.events);
    plan.focus = part.focus.or(plan.focus);
    remove_seats(&show.venue, &mut plan.areas, &part.remove_seats)?;
    for (number, change) in part.areas.iter().enumerate() {
        let place = format!("areas[{number}]");
        let Some(area) = plan.areas.iter_mut().find(|area| area.id == change.id) else {
            return Err(no_area(&place, &change.id));
        };
        change_area(area, change, &place)?;
    }
    if let Some(area) = plan.areas.iter().find(|area| area.rows.is_empty() && area.standing.is_none()) {
        let what = "would have no row, and areas cannot be removed; block its seats instead";
        return Err(wrong("areas", &format!("area {} {what}", quoted(&area.id))));
    }
    plan.areas.extend(part.add_areas.iter().cloned());
    // Building checks the names, and brings the rows into their normal form.
    let venue = Venue::build(&plan)?;
    plan.areas = venue.areas_as_plan();
    Ok((plan, venue))
}

/// Makes breaks of seats, and removes rows without seats. `areas` is the plan of `venue`, in its normal form.
fn remove_seats(venue: &Venue, areas: &mut [PlanArea], ids: &[String]) -> Result<(), Refusal> {
    let mut by_row: BTreeMap<Row, Vec<Seat>> = BTreeMap::new();
    for (number, id) in ids.iter().enumerate() {
        let place = format!("remove_seats[{number}]");
        let Some(seat) = venue.find(id.as_bytes()) else {
            let what = format!("{place}: this show has no seat {}", quoted(id));
            return Err(Refusal::new(Code::NotFound, what));
        };
        let row = venue.row_of(seat);
        if venue.is_standing(row) {
            let what = format!("{} is a place of a standing area; change its `standing`", quoted(id));
            return Err(wrong(&place, &what));
        }
        by_row.entry(row).or_default().push(seat - venue.base(row));
    }
    let numbered = areas
        .iter_mut()
        .zip(0..)
        .flat_map(|(area, number)| area.rows.iter_mut().zip(venue.rows_in_plan(number)));
    for (row, number) in numbered {
        let Some(positions) = by_row.remove(&number) else { continue };
        let mut seats = listed(row, "remove_seats")?;
        for position in positions {
            match seats.get_mut(position as usize) {
                Some(seat) => *seat = None,
                None => invariant!("a seat of the venue is in its row of the plan"),
            }
        }
        (row.tier, row.seats) = (None, PlanSeats::List(seats));
    }
    invariant!(by_row.is_empty(), "a row of the venue is in the plan");
    let has_seat = |row: &PlanRow| match &row.seats {
        PlanSeats::List(seats) => seats.iter().any(Option::is_some),
        PlanSeats::Short(_) => true,
    };
    areas.iter_mut().for_each(|area| area.rows.retain(has_seat));
    Ok(())
}

fn change_area(area: &mut PlanArea, change: &PartArea, place: &str) -> Result<(), Refusal> {
    area.name = change.name.clone().or(area.name.take());
    area.priority = change.priority.unwrap_or(area.priority);
    area.rule = change.rule.unwrap_or(area.rule);
    area.focus = change.focus.or(area.focus);
    for label in &change.remove_rows {
        let before = area.rows.len();
        area.rows.retain(|row| row.label != *label);
        if area.rows.len() == before {
            return Err(no_row(&format!("{place}.remove_rows"), label));
        }
    }
    put_rows(&mut area.rows, &change.put_rows, &format!("{place}.put_rows"))?;
    if area.standing.is_none() && (change.standing.is_some() || change.tier.is_some()) {
        let (field, hint) = match change.standing {
            Some(_) => ("standing", "add rows or seats to this one"),
            None => ("tier", "name the tiers of rows or seats"),
        };
        return Err(wrong(place, &format!("{field}: only a standing area has one; {hint}")));
    }
    area.standing = change.standing.or(area.standing);
    area.tier = change.tier.clone().or(area.tier.take());
    for (number, change) in change.rows.iter().enumerate() {
        change_row(&mut area.rows, change, &format!("{place}.rows[{number}]"))?;
    }
    Ok(())
}

/// Adds rows, or puts them in the places of the rows with their labels.
fn put_rows(rows: &mut Vec<PlanRow>, put: &[PlanRow], place: &str) -> Result<(), Refusal> {
    let mut labels = HashSet::new();
    for (number, row) in put.iter().enumerate() {
        let refuse = |what: &str| {
            Err(wrong(&format!("{place}[{number}]"), &format!("row {} {what}", quoted(&row.label))))
        };
        if !labels.insert(&row.label) {
            return refuse("occurs twice");
        }
        let mut same = rows.iter_mut().filter(|other| other.label == row.label);
        match (same.next(), same.next()) {
            (Some(_), Some(_)) => {
                return refuse(
                    "is one of several rows with this label; remove them first with `remove_rows`",
                );
            }
            (Some(other), None) => *other = row.clone(),
            (None, _) => rows.push(row.clone()),
        }
    }
    Ok(())
}

/// The areas that `part` changes, in plan order; it names no rows. O(areas of the part).
///
/// # Errors
/// As `decide_alter`.
fn arranged_areas(show: &Show, part: &PlanPart) -> Result<Vec<Arrangement>, Refusal> {
    let mut areas = BTreeMap::new();
    for (number, change) in part.areas.iter().enumerate() {
        let Some(area) = show.venue.area_called(change.id.as_bytes()) else {
            return Err(no_area(&format!("areas[{number}]"), &change.id));
        };
        let info = show.venue.area(area);
        let arrangement = areas.entry(area).or_insert_with(|| Arrangement {
            area,
            name: info.name.to_string(),
            priority: info.priority,
            rule: info.rule,
        });
        if let Some(name) = &change.name {
            arrangement.name.clone_from(name);
        }
        arrangement.priority = change.priority.unwrap_or(arrangement.priority);
        arrangement.rule = change.rule.unwrap_or(arrangement.rule);
    }
    for arrangement in areas.values() {
        identifier(|| format!("areas[{}].name", arrangement.area), &arrangement.name)?;
    }
    let changes = |arrangement: &Arrangement| {
        let info = show.venue.area(arrangement.area);
        (&*info.name, info.priority, info.rule)
            != (arrangement.name.as_str(), arrangement.priority, arrangement.rule)
    };
    Ok(areas.into_values().filter(changes).collect())
}

fn no_area(place: &str, id: &str) -> Refusal {
    Refusal::new(Code::NotFound, format!("{place}: this show has no area {}", quoted(id)))
}

/// The limits after `part`.
fn altered_limits(limits: Limits, part: &PlanPart) -> Limits {
    Limits {
        seats_per_user: part.limits.seats_per_user.unwrap_or(limits.seats_per_user),
        holds_per_user: part.limits.holds_per_user.unwrap_or(limits.holds_per_user),
        max_hold_ms: part.limits.max_hold_ms.unwrap_or(limits.max_hold_ms),
        waits_per_user: part.limits.waits_per_user.unwrap_or(limits.waits_per_user),
        pick_orphans: part.limits.pick_orphans.unwrap_or(limits.pick_orphans),
    }
}

fn no_row(place: &str, label: &str) -> Refusal {
    Refusal::new(Code::NotFound, format!("{place}: this area has no row {}", quoted(label)))
}

/// Sets the rank of all rows with that label, and the new tiers of all their seats or of the listed ones.
fn change_row(rows: &mut [PlanRow], change: &PartRow, place: &str) -> Result<(), Refusal> {
    let mut wanted = wanted_tiers(change, place)?;
    let mut changed = HashSet::new();
    let mut found = false;
    for row in rows.iter_mut().filter(|row| row.label == change.label) {
        found = true;
        row.rank = change.rank.unwrap_or(row.rank);
        if wanted.is_none() && change.tier.is_none() {
            if change.rank.is_none() {
                return Err(wrong(place, "names neither a rank nor a tier nor seats"));
            }
            continue;
        }
        let mut seats = listed(row, place)?;
        for seat in seats.iter_mut().flatten() {
            match (&mut wanted, &change.tier) {
                (Some(_), _) if changed.contains(&seat.label) => {
                    let what = "has several seats with label";
                    let (row, label) = (quoted(&change.label), quoted(&seat.label));
                    return Err(wrong(
                        place,
                        &format!("row {row} {what} {label}; change the tier of the whole row"),
                    ));
                }
                (Some(wanted), _) => {
                    if let Some(tier) = wanted.remove(&seat.label) {
                        seat.tier = Some(tier);
                        changed.insert(seat.label.clone());
                    }
                }
                (None, tier) => seat.tier = tier.clone().or(seat.tier.take()),
            }
        }
        (row.tier, row.seats) = (None, PlanSeats::List(seats));
    }
    if !found {
        return Err(no_row(place, &change.label));
    }
    if let Some(label) = wanted.iter().flat_map(HashMap::keys).min() {
        let what = format!("{place}: row {} has no seat {}", quoted(&change.label), quoted(label));
        return Err(Refusal::new(Code::NotFound, what));
    }
    Ok(())
}

/// New tiers by seat label; `None` if the whole row changes.
fn wanted_tiers(change: &PartRow, place: &str) -> Result<Option<HashMap<String, String>>, Refusal> {
    let tier_of = |seat: &PlanSeat| {
        if !seat.flags.is_empty() {
            return Err(wrong(
                place,
                "flags change only with the whole row; put the row again with `put_rows`",
            ));
        }
        if seat.id.is_some() {
            return Err(wrong(place, "ids change only with the whole row; name the seat by its label"));
        }
        seat.tier
            .clone()
            .or(change.tier.clone())
            .ok_or_else(|| wrong(place, &format!("seat {} has no tier", quoted(&seat.label))))
    };
    let labels = match &change.seats {
        None => return Ok(None),
        Some(PlanSeats::List(seats)) => {
            let named = seats.iter().flatten().map(|seat| Ok((seat.label.clone(), tier_of(seat)?)));
            return named.collect::<Result<_, _>>().map(Some);
        }
        Some(PlanSeats::Short(text)) => parse_short_form(text).map_err(|what| wrong(place, &what))?,
    };
    let Some(tier) = &change.tier else { return Err(wrong(place, "names seats but no tier")) };
    Ok(Some(labels.into_iter().flatten().map(|label| (label, tier.clone())).collect()))
}

/// The seats of a row in the long notation, each with its own tier.
fn listed(row: &PlanRow, place: &str) -> Result<Vec<Option<PlanSeat>>, Refusal> {
    let tier = |own: Option<String>| own.or(row.tier.clone());
    Ok(match &row.seats {
        PlanSeats::List(seats) => {
            let seat = |seat: &PlanSeat| PlanSeat { tier: tier(seat.tier.clone()), ..seat.clone() };
            seats.iter().map(|found| found.as_ref().map(seat)).collect()
        }
        PlanSeats::Short(text) => {
            let labels = parse_short_form(text).map_err(|what| wrong(place, &what))?;
            let seat = |label| PlanSeat { label, id: None, tier: tier(None), flags: Vec::new() };
            labels.into_iter().map(|label| label.map(seat)).collect()
        }
    })
}
