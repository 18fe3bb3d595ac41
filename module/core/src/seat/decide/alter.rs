//! `SEAT.ALTER`: the new plan.

use crate::invariant;
use crate::seat::event::Arrangement;
use crate::seat::labels::parse_short_form;
use crate::seat::plan::{Limits, PartRow, Plan, PlanPart, PlanRow, PlanSeat, PlanSeats, identifier, wrong};
use crate::seat::state::Show;
use crate::seat::venue::Venue;
use crate::shared::refusal::{Code, Refusal};
use crate::shared::text::quoted;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The whole plan of `show` after `part`, in its normal form. O(seats of the show).
///
/// # Errors
/// `NOTFOUND` for an unknown area, row or seat; `ERR` for an invalid part; `BADSTATE` if a held or sold seat would
/// change its tier.
pub(super) fn altered_plan(show: &Show, part: &PlanPart) -> Result<Plan, Refusal> {
    let mut plan = show.plan();
    plan.limits = altered_limits(plan.limits, part);
    plan.limits.check()?;
    plan.events = part.events.unwrap_or(plan.events);
    let mut tiers_change = false;
    for (number, change) in part.areas.iter().enumerate() {
        let place = format!("areas[{number}]");
        let Some(area) = plan.areas.iter_mut().find(|area| area.id == change.id) else {
            return Err(no_area(&place, &change.id));
        };
        area.name = change.name.clone().or(area.name.take());
        area.priority = change.priority.unwrap_or(area.priority);
        area.rule = change.rule.unwrap_or(area.rule);
        if let Some(tier) = &change.tier {
            if area.standing.is_none() {
                return Err(wrong(
                    &place,
                    "tier: only a standing area has one; name the tiers of rows or seats",
                ));
            }
            tiers_change = true;
            area.tier = Some(tier.clone());
        }
        for (number, change) in change.rows.iter().enumerate() {
            let place = format!("{place}.rows[{number}]");
            tiers_change = true;
            change_row(&mut area.rows, change, &place)?;
        }
    }
    // Building checks the names, and brings the rows into their normal form.
    let venue = Venue::build(&plan)?;
    if tiers_change {
        check_tiers(show, &venue)?;
    }
    plan.areas = venue.areas_as_plan();
    Ok(plan)
}

/// The areas that `part` changes, in plan order; it names no rows. O(areas of the part).
///
/// # Errors
/// As `altered_plan`.
pub(super) fn arranged_areas(show: &Show, part: &PlanPart) -> Result<Vec<Arrangement>, Refusal> {
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
pub(super) fn altered_limits(limits: Limits, part: &PlanPart) -> Limits {
    Limits {
        seats_per_user: part.limits.seats_per_user.unwrap_or(limits.seats_per_user),
        holds_per_user: part.limits.holds_per_user.unwrap_or(limits.holds_per_user),
        max_hold_ms: part.limits.max_hold_ms.unwrap_or(limits.max_hold_ms),
        waits_per_user: part.limits.waits_per_user.unwrap_or(limits.waits_per_user),
        pick_orphans: part.limits.pick_orphans.unwrap_or(limits.pick_orphans),
    }
}

/// Sets the new tiers of all seats, or of the listed seats, in all rows with that label.
fn change_row(rows: &mut [PlanRow], change: &PartRow, place: &str) -> Result<(), Refusal> {
    let mut wanted = wanted_tiers(change, place)?;
    let mut changed = HashSet::new();
    let mut found = false;
    for row in rows.iter_mut().filter(|row| row.label == change.label) {
        found = true;
        let mut seats = listed(row);
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
                (None, Some(tier)) => seat.tier = Some(tier.clone()),
                (None, None) => return Err(wrong(place, "names neither a tier nor seats")),
            }
        }
        row.tier = None;
        row.seats = PlanSeats::List(seats);
    }
    let missing = |what: String| Err(Refusal::new(Code::NotFound, format!("{place}: {what}")));
    if !found {
        return missing(format!("this area has no row {}", quoted(&change.label)));
    }
    if let Some(label) = wanted.iter().flat_map(HashMap::keys).min() {
        return missing(format!("row {} has no seat {}", quoted(&change.label), quoted(label)));
    }
    Ok(())
}

/// New tiers by seat label; `None` if the whole row changes.
fn wanted_tiers(change: &PartRow, place: &str) -> Result<Option<HashMap<String, String>>, Refusal> {
    let tier_of = |seat: &PlanSeat| {
        if !seat.flags.is_empty() {
            return Err(wrong(place, "flags cannot be changed while a show is open"));
        }
        if seat.id.is_some() {
            return Err(wrong(
                place,
                "ids cannot be changed while a show is open; name the seat by its label",
            ));
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
fn listed(row: &PlanRow) -> Vec<Option<PlanSeat>> {
    match &row.seats {
        PlanSeats::List(seats) => seats.clone(),
        PlanSeats::Short(text) => {
            let labels = parse_short_form(text);
            invariant!(labels.is_ok(), "the short form of a plan that was built is well-formed");
            let seat = |label| PlanSeat { label, id: None, tier: row.tier.clone(), flags: Vec::new() };
            labels.unwrap_or_default().into_iter().map(|label| label.map(seat)).collect()
        }
    }
}

/// Refuses a new tier for a seat that is held or sold.
fn check_tiers(show: &Show, venue: &Venue) -> Result<(), Refusal> {
    let Some(seat) = show.taken_seat_of_other_tier(venue) else { return Ok(()) };
    let state = show.state(seat).word();
    let what = format!("seat {} is {state}; its tier cannot change", quoted(venue.id(seat)));
    Err(Refusal::new(Code::BadState, what))
}
