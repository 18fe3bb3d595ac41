//! What changes if an open show gets another plan: for people, and as the argument of `SEAT.ALTER`.

use std::collections::{BTreeMap, HashMap, HashSet};

use allot_core::seat::plan::{self, Limits, Plan, PlanArea, PlanPart, PlanRow, Point};
use allot_core::seat::venue::{Area, Row, Seat, Venue};
use allot_core::seat::{Request, Show, decide};
use allot_core::shared::refusal::Refusal;
use allot_core::shared::text::quoted;
use anyhow::{Result, anyhow};
use serde_json::{Map, Value, json};

/// Seats that one change names; further ones are counted.
const NAMED: usize = 5;

/// The way from the plan of a show to another one.
#[derive(Debug)]
pub struct Difference {
    /// The changes in words: those of the show, then area by area.
    pub changes: Vec<String>,
    /// What `SEAT.ALTER` cannot change even if all seats are free.
    pub impossible: Vec<String>,
    /// The argument of `SEAT.ALTER` that makes all changes in one step.
    pub part: String,
    /// Seats that are removed, or have another tier or other flags, by id, with what would happen to them.
    touched: HashMap<String, &'static str>,
}

impl Difference {
    /// The difference between two plans in JSON; `None` if they make the same show. O(seats).
    ///
    /// # Errors
    /// One of them is no plan.
    pub fn between(old: &str, new: &str) -> Result<Option<Self>> {
        let open = |plan: &str| Show::open(plan, 0).map_err(|refusal| anyhow!("{refusal}"));
        let (mut show, wanted) = (open(old)?, open(new)?);
        let changes = changes(&show, &wanted);
        if changes.is_empty() {
            return Ok(None);
        }
        let touched = touched(&show, &wanted);
        let part = part(&show.plan(), &wanted.plan()).to_string();
        // The code of the module makes the change on an empty show; what is left is what it cannot do.
        let impossible = match alter(&mut show, &part) {
            Ok(()) => self::changes(&show, &wanted),
            Err(refusal) => vec![refusal.text],
        };
        Ok(Some(Self { changes, impossible, part, touched }))
    }

    /// Whether the change depends on which seats are held and sold.
    pub fn needs_free_seats(&self) -> bool {
        !self.touched.is_empty()
    }

    /// Why a seat that is held or sold forbids the change.
    pub fn forbidden_by(&self, seat: &str, state: &str) -> Option<String> {
        self.touched.get(seat).map(|what| format!("seat {} is {state}; {what}", quoted(seat)))
    }
}

fn alter(show: &mut Show, part: &str) -> Result<(), Refusal> {
    let part: PlanPart = plan::parse(part.as_bytes())?;
    let decision = decide(show, 0, &Request::Alter(part))?;
    decision.events.iter().for_each(|event| show.apply(0, event));
    Ok(())
}

/// The changes in words.
fn changes(old: &Show, new: &Show) -> Vec<String> {
    let (before, after) = (old.plan(), new.plan());
    let mut found = Vec::new();
    for ((name, old), (_, new)) in limits(before.limits).into_iter().zip(limits(after.limits)) {
        found.extend(instead(name, &old, &new));
    }
    found.extend(instead("events", &before.events.to_string(), &after.events.to_string()));
    found.extend(instead("focus", &point(before.focus), &point(after.focus)));
    for (number, area) in (0..).zip(&before.areas) {
        let id = quoted(&area.id);
        match (0..).zip(&after.areas).find(|(_, other)| other.id == area.id) {
            None => found.push(format!("area {id} is gone: {}", seats(count(old, number, area)))),
            Some((_, other)) if other == area => {}
            Some((other_number, other)) => {
                let sides = (Side::of(old, number, area), Side::of(new, other_number, other));
                found.extend(
                    changes_of_area(&sides.0, &sides.1).into_iter().map(|what| format!("area {id}{what}")),
                );
            }
        }
    }
    let is_new = |area: &PlanArea| before.areas.iter().all(|other| other.id != area.id);
    for (number, area) in (0..).zip(&after.areas).filter(|(_, area)| is_new(area)) {
        found.push(format!("area {} is new: {}", quoted(&area.id), seats(count(new, number, area))));
    }
    let stays = |area: &&PlanArea| after.areas.iter().any(|other| other.id == area.id);
    let added = after.areas.iter().filter(|area| is_new(area));
    let usual = before.areas.iter().filter(stays).chain(added);
    if !usual.map(|area| &area.id).eq(after.areas.iter().map(|area| &area.id)) {
        found.push("the areas are in another order".to_owned());
    }
    found
}

fn limits(limits: Limits) -> [(&'static str, String); 5] {
    let Limits { seats_per_user, holds_per_user, max_hold_ms, waits_per_user, pick_orphans } = limits;
    [
        ("limits.seats_per_user", seats_per_user.to_string()),
        ("limits.holds_per_user", holds_per_user.to_string()),
        ("limits.max_hold_ms", max_hold_ms.to_string()),
        ("limits.waits_per_user", waits_per_user.to_string()),
        ("limits.pick_orphans", pick_orphans.word().to_owned()),
    ]
}

fn point(point: Option<Point>) -> String {
    point.map_or_else(|| "none".to_owned(), |[x, y]| format!("{x},{y}"))
}

fn seats(count: usize) -> String {
    if count == 1 { "1 seat".to_owned() } else { format!("{count} seats") }
}

/// A value that differs.
fn instead(name: &str, old: &str, new: &str) -> Option<String> {
    (old != new).then(|| format!("{name} is {new} instead of {old}"))
}

fn count(show: &Show, number: Area, area: &PlanArea) -> usize {
    let rows = show.venue().rows_in_plan(number);
    area.standing
        .map_or_else(|| rows.map(|row| show.venue().seats_of(row).count()).sum(), |places| places as usize)
}

/// An area of one of the two plans.
struct Side<'a> {
    venue: &'a Venue,
    area: &'a PlanArea,
    /// Rows in the order of the plan, with their numbers.
    rows: Vec<(Row, &'a PlanRow)>,
}

impl<'a> Side<'a> {
    fn of(show: &'a Show, number: Area, area: &'a PlanArea) -> Self {
        let venue = show.venue();
        Self { venue, area, rows: venue.rows_in_plan(number).zip(&area.rows).collect() }
    }

    /// The place of each row, by its label and by how many rows with this label are before it.
    fn places(&self) -> HashMap<(&'a str, usize), usize> {
        let mut before: HashMap<&str, usize> = HashMap::new();
        let place = |(place, (_, row)): (usize, &(Row, &'a PlanRow))| {
            let twins = before.entry(&row.label).or_default();
            *twins += 1;
            ((row.label.as_str(), *twins), place)
        };
        self.rows.iter().enumerate().map(place).collect()
    }
}

/// What follows the name of the area in each line.
fn changes_of_area(old: &Side<'_>, new: &Side<'_>) -> Vec<String> {
    let number = |number: Option<u32>| number.map_or_else(|| "none".to_owned(), |number| number.to_string());
    let text = |text: &Option<String>| text.as_deref().map_or_else(|| "none".to_owned(), quoted);
    let (before, after) = (old.area, new.area);
    let values = [
        instead("name", &text(&before.name), &text(&after.name)),
        instead("priority", &before.priority.to_string(), &after.priority.to_string()),
        instead("rule", before.rule.word(), after.rule.word()),
        instead("focus", &point(before.focus), &point(after.focus)),
        instead("standing", &number(before.standing), &number(after.standing)),
        instead("tier", &text(&before.tier), &text(&after.tier)),
    ];
    let mut found: Vec<String> = values.into_iter().flatten().map(|change| format!(": {change}")).collect();
    let (places_before, places_after) = (old.places(), new.places());
    let mut kept: Vec<(usize, usize)> = Vec::new();
    let mut gone: Vec<(usize, String)> = Vec::new();
    for (key, &place) in &places_before {
        let Some(&(row, plan)) = old.rows.get(place) else { continue };
        let label = quoted(&plan.label);
        let Some(&other) = places_after.get(key) else {
            gone.push((place, format!(", row {label} is gone: {}", seats(old.venue.seats_of(row).count()))));
            continue;
        };
        kept.push((other, place));
        let Some(&(other_row, other_plan)) = new.rows.get(other) else { continue };
        let what = if plan == other_plan {
            vec![]
        } else {
            changes_of_row(old, row, plan, new, other_row, other_plan)
        };
        if !what.is_empty() {
            gone.push((place, format!(", row {label}: {}", what.join("; "))));
        }
    }
    gone.sort_unstable();
    found.extend(gone.into_iter().map(|(_, change)| change));
    kept.sort_unstable();
    let known: HashSet<usize> = kept.iter().map(|&(place, _)| place).collect();
    let added = new.rows.iter().enumerate().filter(|(place, _)| !known.contains(place));
    found.extend(added.map(|(_, (row, plan))| {
        let count = seats(new.venue.seats_of(*row).count());
        format!(", row {} is new: {count}", quoted(&plan.label))
    }));
    let before: Vec<usize> = kept.iter().map(|&(_, place)| place).collect();
    // New rows lie behind all others, or between them.
    let at_the_end = kept.iter().map(|&(place, _)| place).eq(0..kept.len());
    if !before.is_sorted() {
        found.push(": rows are in another order".to_owned());
    } else if !at_the_end {
        found.push(": new rows lie before others".to_owned());
    }
    found
}

fn changes_of_row(
    old: &Side<'_>,
    row: Row,
    plan: &PlanRow,
    new: &Side<'_>,
    other_row: Row,
    other: &PlanRow,
) -> Vec<String> {
    let ids = |venue: &Venue, row: Row| {
        let positions = venue.positions_of(row);
        positions.map(|seat| venue.is_seat(seat).then(|| venue.id(seat))).collect::<Vec<Option<String>>>()
    };
    let (before, after) = (ids(old.venue, row), ids(new.venue, other_row));
    let known: HashSet<&String> = before.iter().flatten().collect();
    let left: HashSet<&String> = after.iter().flatten().collect();
    let mut found: Vec<String> =
        instead("rank", &plan.rank.to_string(), &other.rank.to_string()).into_iter().collect();
    let mut tell = |what: String, some: Vec<&String>| {
        if !some.is_empty() {
            found.push(format!("{what} {}", list(&some)));
        }
    };
    tell("without".to_owned(), before.iter().flatten().filter(|id| !left.contains(id)).collect());
    tell("with".to_owned(), after.iter().flatten().filter(|id| !known.contains(id)).collect());
    let mut tiers: BTreeMap<String, Vec<&String>> = BTreeMap::new();
    let (mut flags, mut labels) = (Vec::new(), Vec::new());
    for id in before.iter().flatten().filter(|id| left.contains(id)) {
        let (Some(seat), Some(now)) = (old.venue.find(id.as_bytes()), new.venue.find(id.as_bytes())) else {
            continue;
        };
        let (tier, new_tier) = (tier(old.venue, seat), tier(new.venue, now));
        if tier != new_tier {
            tiers.entry(new_tier.to_owned()).or_default().push(id);
        }
        if flag_names(old.venue, seat) != flag_names(new.venue, now) {
            flags.push(id);
        }
        if label(old.venue, seat) != label(new.venue, now) {
            labels.push(id);
        }
    }
    for (name, some) in tiers {
        tell(format!("tier {} for", quoted(&name)), some);
    }
    tell("other flags for".to_owned(), flags);
    tell("other labels for".to_owned(), labels);
    if (plan.at, plan.step, &plan.points) != (other.at, other.step, &other.points) {
        found.push("other places in the hall".to_owned());
    }
    let shape = |all: &[Option<String>], common: &HashSet<&String>| {
        let stays = |id: &&Option<String>| id.as_ref().is_none_or(|id| common.contains(id));
        all.iter().filter(stays).cloned().collect::<Vec<_>>()
    };
    if shape(&before, &left) != shape(&after, &known) {
        found.push("other breaks, or another order of seats".to_owned());
    }
    found
}

/// The first seats of a list, and how many more there are.
fn list(ids: &[&String]) -> String {
    let named: Vec<String> = ids.iter().take(NAMED).map(|id| quoted(id.as_str())).collect();
    let more = ids.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}: {}{more}", seats(ids.len()), named.join(", "))
}

fn tier(venue: &Venue, seat: Seat) -> &str {
    venue.tier_of(seat).map(|tier| venue.tier_name(tier)).unwrap_or_default()
}

fn flag_names(venue: &Venue, seat: Seat) -> Vec<&str> {
    let mut names: Vec<&str> = venue.flag_names(venue.flags_of(seat)).collect();
    names.sort_unstable();
    names
}

fn label(venue: &Venue, seat: Seat) -> String {
    let mut label = String::new();
    venue.write_label(seat, &mut label);
    label
}

/// The seats that must be neither held nor sold for the change. O(seats of the areas that change).
fn touched(old: &Show, new: &Show) -> HashMap<String, &'static str> {
    let (before, after, venue) = (old.plan(), new.plan(), old.venue());
    let mut touched = HashMap::new();
    for (number, area) in (0..).zip(&before.areas).filter(|(_, area)| !after.areas.contains(area)) {
        debug_assert_eq!(*venue.area(number).id, *area.id);
        for seat in venue.rows_in_plan(number).flat_map(|row| venue.seats_of(row)) {
            let id = venue.id(seat);
            let what = match new.venue().find(id.as_bytes()) {
                None => "it would be removed",
                Some(now) if tier(venue, seat) != tier(new.venue(), now) => "its tier would change",
                Some(now) if flag_names(venue, seat) != flag_names(new.venue(), now) => {
                    "its flags would change"
                }
                Some(_) => continue,
            };
            touched.insert(id, what);
        }
    }
    touched
}

/// The argument of `SEAT.ALTER` for the way from one plan to another, each in its normal form.
fn part(before: &Plan, after: &Plan) -> Value {
    let mut part = Map::new();
    if before.limits != after.limits {
        let Limits { seats_per_user, holds_per_user, max_hold_ms, waits_per_user, pick_orphans } =
            after.limits;
        let limits = json!({
            "seats_per_user": seats_per_user, "holds_per_user": holds_per_user, "max_hold_ms": max_hold_ms,
            "waits_per_user": waits_per_user, "pick_orphans": pick_orphans,
        });
        part.insert("limits".to_owned(), limits);
    }
    if before.events != after.events {
        part.insert("events".to_owned(), json!(after.events));
    }
    if before.focus != after.focus {
        part.insert("focus".to_owned(), json!(after.focus));
    }
    let (mut areas, mut added) = (Vec::new(), Vec::new());
    for area in &after.areas {
        match before.areas.iter().find(|other| other.id == area.id) {
            None => added.push(area),
            Some(old) if old == area => {}
            Some(old) => areas.push(part_of_area(old, area)),
        }
    }
    part.insert("areas".to_owned(), areas.into());
    part.insert("add_areas".to_owned(), json!(added));
    part.into()
}

fn part_of_area(old: &PlanArea, new: &PlanArea) -> Value {
    let (remove_rows, put_rows) = rows_to_change(&old.rows, &new.rows);
    let focus = new.focus.filter(|focus| old.focus != Some(*focus));
    let rule = (old.rule != new.rule).then_some(new.rule);
    json!({
        "id": new.id, "name": new.name, "priority": new.priority, "rule": rule, "focus": focus,
        "standing": new.standing, "tier": new.tier, "remove_rows": remove_rows, "put_rows": put_rows,
    })
}

/// The labels of rows to remove, and the rows to put in their places or behind all others.
fn rows_to_change<'a>(old: &'a [PlanRow], new: &'a [PlanRow]) -> (Vec<&'a str>, Vec<&'a PlanRow>) {
    let mut twins: HashMap<&str, usize> = HashMap::new();
    new.iter().for_each(|row| *twins.entry(&row.label).or_default() += 1);
    if new.len() >= old.len() && old.iter().zip(new).all(|(old, new)| old.label == new.label) {
        let changed = new.iter().enumerate().filter(|&(place, row)| old.get(place) != Some(row));
        let put: Vec<&PlanRow> = changed.map(|(_, row)| row).collect();
        if put.iter().all(|row| twins.get(row.label.as_str()) == Some(&1)) {
            return (Vec::new(), put);
        }
    }
    // From the first row that differs on, all are removed and put again, and with them those of equal labels.
    let mut same = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    loop {
        let (old_rest, new_rest) = (old.iter().skip(same), new.iter().skip(same));
        let labels: HashSet<&str> =
            old_rest.clone().chain(new_rest.clone()).map(|row| row.label.as_str()).collect();
        if let Some(earlier) = old.iter().take(same).position(|row| labels.contains(row.label.as_str())) {
            same = earlier;
            continue;
        }
        let mut remove: Vec<&str> = old_rest.map(|row| row.label.as_str()).collect();
        let mut seen = HashSet::new();
        remove.retain(|label| seen.insert(*label));
        return (remove, new_rest.collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(label: &str, rank: i32, seats: &str) -> Value {
        json!({"label": label, "rank": rank, "tier": "gold", "seats": seats})
    }

    fn area(id: &str, rows: &[Value]) -> Value {
        json!({"id": id, "rows": rows})
    }

    fn plan(areas: &[Value]) -> Value {
        json!({"areas": areas})
    }

    fn hall(rows: &[Value]) -> Value {
        plan(&[area("hall", rows)])
    }

    fn between(old: &Value, new: &Value) -> Difference {
        Difference::between(&old.to_string(), &new.to_string()).unwrap().unwrap()
    }

    /// The changes, which one request makes.
    fn changes(old: &Value, new: &Value) -> Vec<String> {
        let found = between(old, new);
        assert_eq!(found.impossible, [""; 0], "{}", found.part);
        let mut show = Show::open(&old.to_string(), 0).unwrap();
        alter(&mut show, &found.part).unwrap();
        assert_eq!(show.plan(), Show::open(&new.to_string(), 0).unwrap().plan(), "{}", found.part);
        found.changes
    }

    #[test]
    fn same_plan_in_another_notation_is_no_difference() {
        let [one, two] = ["1", "2"].map(|label| json!({"label": label, "tier": "gold"}));
        let list = json!({"label": "A", "rank": 1, "seats": [one, null, two]});
        let (short, list) = (hall(&[row("A", 1, "1,|,2")]), hall(&[list]));
        assert!(Difference::between(&short.to_string(), &list.to_string()).unwrap().is_none());
        assert!(Difference::between("{}", &list.to_string()).is_err());
    }

    #[test]
    fn values_of_show_and_areas_are_told_and_changed() {
        let old = json!({"areas": [area("hall", &[row("A", 1, "1-4")]), {"id": "pit", "standing": 9, "tier": "pit"}],
            "limits": {"seats_per_user": 6}, "events": 5});
        let hall = json!({"id": "hall", "name": "Hall", "priority": 2, "rule": "center", "rows": [row("A", 1, "1-4")]});
        let new = json!({"areas": [hall, {"id": "pit", "standing": 7, "tier": "floor"}, 
            area("box", &[row("1", 1, "1-3")])], "limits": {"seats_per_user": 8, "pick_orphans": "forbid", "waits_per_user": 3}, "events": 9});
        let expected = [
            "limits.seats_per_user is 8 instead of 6",
            "limits.waits_per_user is 3 instead of 1",
            "limits.pick_orphans is forbid instead of allow",
            "events is 9 instead of 5",
            "area 'hall': name is 'Hall' instead of 'hall'",
            "area 'hall': priority is 2 instead of 1",
            "area 'hall': rule is center instead of ltr",
            "area 'pit': standing is 7 instead of 9",
            "area 'pit': tier is 'floor' instead of 'pit'",
            "area 'box' is new: 3 seats",
        ];
        assert_eq!(changes(&old, &new), expected);
    }

    #[test]
    fn rows_and_seats_are_told_and_changed() {
        let flagged = json!({"label": "B", "rank": 2, "tier": "gold", "seats":
            [{"label": "1"}, {"label": "2", "tier": "silver"}, {"label": "3", "flags": ["view"]}]});
        let old = hall(&[row("A", 1, "1-4"), row("B", 2, "1-3"), row("C", 3, "1-2")]);
        let new = hall(&[row("A", 5, "2-9"), flagged, row("D", 3, "1")]);
        let expected = [
            "area 'hall', row 'A': rank is 5 instead of 1; without 1 seat: 'hall-A-1'; with 5 seats: 'hall-A-5', \
             'hall-A-6', 'hall-A-7', 'hall-A-8', 'hall-A-9'",
            "area 'hall', row 'B': tier 'silver' for 1 seat: 'hall-B-2'; other flags for 1 seat: 'hall-B-3'",
            "area 'hall', row 'C' is gone: 2 seats",
            "area 'hall', row 'D' is new: 1 seat",
        ];
        assert_eq!(changes(&old, &new), expected);
        let many = changes(&hall(&[row("A", 1, "1-2")]), &hall(&[row("A", 1, "1-9")]));
        assert!(many[0].ends_with("'hall-A-7' and 2 more"), "{many:?}");
        let breaks = changes(&hall(&[row("A", 1, "1-4")]), &hall(&[row("A", 1, "1-2,|,3-4")]));
        assert_eq!(breaks, ["area 'hall', row 'A': other breaks, or another order of seats"]);
    }

    #[test]
    fn places_are_told_and_changed() {
        let at = |x: i32| json!({"label": "A", "rank": 1, "tier": "gold", "at": [x, 0], "step": [1, 0], "seats": "1"});
        let [old, new] = [(1, 3), (2, 4)]
            .map(|(x, focus)| json!({"areas": [area("hall", &[at(x)])], "focus": [focus, 0]}));
        let expected = ["focus is 4,0 instead of 3,0", "area 'hall', row 'A': other places in the hall"];
        assert_eq!(changes(&old, &new), expected);
    }

    #[test]
    fn rows_get_the_order_of_the_new_plan() {
        let rows = |labels: &str| {
            hall(&labels.chars().map(|label| row(&label.to_string(), 1, "1-2")).collect::<Vec<_>>())
        };
        for (old, new, told) in [
            ("ABC", "CAB", ": rows are in another order"),
            ("ABC", "AXBC", ": new rows lie before others"),
            ("ABC", "ABCX", ", row 'X' is new"),
            ("ABCD", "BD", ", row 'C' is gone"),
        ] {
            let found = changes(&rows(old), &rows(new));
            assert!(found.iter().any(|change| change.contains(told)), "{old} {new}: {found:?}");
        }
    }

    #[test]
    fn what_alter_cannot_do_is_impossible() {
        let one = area("one", &[row("A", 1, "1-2")]);
        let two = area("two", &[row("A", 1, "1-2")]);
        let gone = between(&plan(&[one.clone(), two.clone()]), &plan(std::slice::from_ref(&one)));
        assert_eq!(
            (&gone.changes, &gone.impossible),
            (&vec!["area 'two' is gone: 2 seats".to_owned()], &gone.changes)
        );
        let turned = between(&plan(&[one.clone(), two.clone()]), &plan(&[two, one]));
        assert_eq!(turned.impossible, ["the areas are in another order"]);
        let twins = between(&hall(&[row("A", 1, "1-2")]), &hall(&[row("A", 1, "1-3"), row("A", 2, "4-5")]));
        assert!(twins.impossible[0].contains("occurs twice"), "{:?}", twins.impossible);
        let standing = between(
            &hall(&[row("A", 1, "1-2")]),
            &plan(&[json!({"id": "hall", "standing": 5, "tier": "t"})]),
        );
        assert_eq!(standing.impossible.len(), 1, "{:?}", standing.impossible);
    }

    #[test]
    fn seats_that_are_held_or_sold_forbid_what_would_change_them() {
        let flagged = json!({"label": "B", "rank": 2, "tier": "gold", "seats":
            [{"label": "1"}, {"label": "2", "tier": "silver"}, {"label": "3", "flags": ["view"]}]});
        let old = hall(&[row("A", 1, "1-4"), row("B", 2, "1-3")]);
        let found = between(&old, &hall(&[row("A", 7, "2-4"), flagged]));
        let why = |seat: &str| found.forbidden_by(seat, "sold").unwrap_or_default();
        assert_eq!(why("hall-A-1"), "seat 'hall-A-1' is sold; it would be removed");
        assert!(why("hall-B-2").ends_with("its tier would change"));
        assert!(why("hall-B-3").ends_with("its flags would change"));
        assert_eq!((why("hall-A-2"), why("hall-B-1")), (String::new(), String::new()));
        assert!(found.needs_free_seats());
        assert!(!between(&old, &hall(&[row("A", 1, "1-4"), row("B", 3, "1-3")])).needs_free_seats());
    }
}
