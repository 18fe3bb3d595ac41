//! A show that is being imported, in the same form for every source: the parts of a plan, each with its place in the
//! source. The module's own code decides whether a plan is valid; this file only translates the places in errors.

use std::collections::{BTreeMap, HashMap, HashSet};

use allot_core::seat::Show;
pub use allot_core::seat::plan::Rule;
use allot_core::seat::plan::{Limits, Plan, PlanArea, PlanRow, PlanSeat, PlanSeats, Point};
use allot_core::shared::MAX_IDENTIFIER;
use serde::{Deserialize, Deserializer};

use super::places::{Place, RowPlaces};

/// Order reference of seats that were sold before the import, where the source names none.
const IMPORTED: &str = "imported";

/// A show that may still have problems.
#[derive(Debug, Clone, Default)]
pub struct Draft {
    pub areas: Vec<Area>,
    pub limits: Limits,
    /// Length of the event stream, 0 for none.
    pub events: u32,
    /// Whether breaks have an entry of their own among the seats of the source.
    pub lists_breaks: bool,
    /// The middle of what all look at, as a plan has it.
    pub focus: Option<Point>,
    /// Where the source shows a stage, and what it was known by.
    pub stage: Option<(Place, String)>,
    /// Problems that the import solved, in plain words.
    pub notes: Vec<String>,
}

/// Rows that share a priority and a rule, or standing places.
#[derive(Debug, Clone, Default)]
pub struct Area {
    pub id: String,
    pub name: String,
    pub priority: i32,
    pub rule: Rule,
    /// The area's own focus, as a plan has it.
    pub focus: Option<Point>,
    /// Number and tier of standing places, as a plan has them.
    pub standing: (Option<u32>, Option<String>),
    pub rows: Vec<Row>,
}

/// Positions in physical order; `None` is an aisle, a pillar or a missing seat.
#[derive(Debug, Clone)]
pub struct Row {
    pub label: String,
    pub rank: i32,
    /// The place in the source: a line, or a path such as `zones[0].rows[3]`.
    pub source: String,
    pub positions: Vec<Option<Seat>>,
}

/// A seat.
#[derive(Debug, Clone, PartialEq)]
pub struct Seat {
    /// The seat as a plan has it.
    pub plan: PlanSeat,
    /// Where it is, if the source says so.
    pub at: Option<Place>,
    /// Whether it is to be sold before the show is opened.
    pub sold: bool,
    /// The order under which it is sold, if the source names one.
    pub order: Option<String>,
    /// The seat's own line in the source, if it has one.
    pub line: Option<u64>,
}

impl Seat {
    /// A free seat without flags.
    pub fn new(label: String, tier: String) -> Self {
        let plan = PlanSeat { label, id: None, tier: Some(tier), flags: Vec::new() };
        Self { plan, at: None, sold: false, order: None, line: None }
    }
}

impl Row {
    /// The row's seats, in physical order.
    pub fn seats(&self) -> impl Iterator<Item = &Seat> {
        self.positions.iter().flatten()
    }

    fn plan(&self) -> PlanRow {
        let seats = self.positions.iter().map(|seat| seat.as_ref().map(|seat| seat.plan.clone()));
        let numbered = self.positions.iter().enumerate();
        let places: Vec<_> = numbered.filter_map(|(at, seat)| Some((at, seat.as_ref()?.at))).collect();
        let RowPlaces { at, step, points } = RowPlaces::of(&places, self.positions.len());
        PlanRow {
            label: self.label.clone(),
            rank: self.rank,
            tier: None,
            at,
            step,
            points,
            seats: PlanSeats::List(seats.collect()),
        }
    }
}

/// The id of a seat: its own, or `area-row-label`.
pub fn seat_id(area: &str, row: &str, seat: &PlanSeat) -> String {
    seat.id.clone().unwrap_or_else(|| format!("{area}-{row}-{}", seat.label))
}

/// Reads a name, which some systems write as a number; null is empty.
pub(super) fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Name {
        Text(String),
        Number(i64),
        Null(()),
    }
    Ok(match Name::deserialize(deserializer)? {
        Name::Text(text) => text,
        Name::Number(number) => number.to_string(),
        Name::Null(()) => String::new(),
    })
}

impl Draft {
    /// All rows, with their areas.
    pub fn rows(&self) -> impl Iterator<Item = (&Area, &Row)> {
        self.areas.iter().flat_map(|area| area.rows.iter().map(move |row| (area, row)))
    }

    /// All seats.
    pub fn seats(&self) -> impl Iterator<Item = &Seat> {
        self.rows().flat_map(|(_, row)| row.seats())
    }

    /// Ids of the seats that are sold before the show is opened, by their order.
    pub fn sold(&self) -> BTreeMap<&str, Vec<String>> {
        let mut sold: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (area, row) in self.rows() {
            for seat in row.seats().filter(|seat| seat.sold) {
                let order = seat.order.as_deref().unwrap_or(IMPORTED);
                sold.entry(order).or_default().push(seat_id(&area.id, &row.label, &seat.plan));
            }
        }
        sold
    }

    /// Builds the show from this draft, by the module's own code.
    ///
    /// # Errors
    /// The module's first objection, with its place in the source. If ids occur twice, every such id is reported.
    /// O(seats).
    pub fn build(&self) -> Result<Show, Vec<String>> {
        let area = |area: &Area| PlanArea {
            id: area.id.clone(),
            name: Some(area.name.clone()),
            priority: area.priority,
            rule: area.rule,
            standing: area.standing.0,
            tier: area.standing.1.clone(),
            focus: area.focus,
            rows: area.rows.iter().map(Row::plan).collect(),
        };
        let areas = self.areas.iter().map(area).collect();
        let plan = Plan { areas, limits: self.limits, events: self.events, focus: self.focus };
        Show::new(&plan, 0).map_err(|refusal| {
            let duplicates = self.duplicates();
            // The module names the first of them only.
            if refusal.text.contains("seat id") && !duplicates.is_empty() {
                duplicates
            } else {
                vec![self.in_source(&refusal.text)]
            }
        })
    }

    /// The module's objection, with the place in the source for the place in the plan.
    fn in_source(&self, objection: &str) -> String {
        let text = objection.strip_prefix("plan: ").unwrap_or(objection);
        let found = text.split_once(": ").and_then(|(place, what)| {
            let mut numbers = place.split(['[', ']']).filter_map(|part| part.parse::<usize>().ok());
            let row = self.areas.get(numbers.next()?)?.rows.get(numbers.next()?)?;
            let place = numbers.next().map_or_else(|| row.source.clone(), |seat| self.seat_place(row, seat));
            Some(format!("{place}: {what}"))
        });
        found.unwrap_or_else(|| text.to_owned())
    }

    /// The place in the source of the seat at a position of a row.
    fn seat_place(&self, row: &Row, position: usize) -> String {
        let before = row.positions.get(..position).unwrap_or_default();
        let entry = if self.lists_breaks { position } else { before.iter().flatten().count() };
        match row.positions.get(position) {
            Some(Some(Seat { line: Some(line), .. })) => format!("line {line}"),
            _ => format!("{}.seats[{entry}]", row.source),
        }
    }

    /// Every seat whose id an earlier seat has, with both places.
    fn duplicates(&self) -> Vec<String> {
        let mut first_seen: HashMap<String, (&Row, usize)> = HashMap::new();
        let mut duplicates = Vec::new();
        for (area, row) in self.rows() {
            for (position, seat) in row.positions.iter().enumerate() {
                let Some(seat) = seat else { continue };
                let id = seat_id(&area.id, &row.label, &seat.plan);
                if let Some((other, at)) = first_seen.get(&id) {
                    let (here, there) = (self.seat_place(row, position), self.seat_place(other, *at));
                    duplicates.push(format!("{here}: seat id '{id}' occurs already at {there}"));
                } else {
                    first_seen.insert(id, (row, position));
                }
            }
        }
        duplicates
    }

    /// Takes ids of the source away that cannot be ids of seats: an id that several seats share, or that is too long.
    /// These seats get the id `area-row-label`, and a note for each such id says so. O(seats).
    pub fn drop_unusable_ids(&mut self) {
        let mut seats: HashMap<String, usize> = HashMap::new();
        for id in self.seats().filter_map(|seat| seat.plan.id.clone()) {
            *seats.entry(id).or_default() += 1;
        }
        let unusable = |id: &str| {
            let count = seats.get(id).copied().unwrap_or(0);
            count > 1 || !(1..=MAX_IDENTIFIER).contains(&id.len())
        };
        for area in &mut self.areas {
            for row in &mut area.rows {
                for seat in row.positions.iter_mut().flatten() {
                    seat.plan.id = seat.plan.id.take().filter(|id| !unusable(id));
                }
            }
        }
        let mut dropped: Vec<(&String, usize)> =
            seats.iter().filter(|(id, _)| unusable(id)).map(|(id, &count)| (id, count)).collect();
        dropped.sort_unstable();
        let notes = dropped.into_iter().map(|(id, count)| match count {
            1 => format!("id '{id}' of a seat is empty or too long; the seat gets the id area-row-label"),
            _ => format!("{count} seats have the id '{id}'; they get the ids area-row-label"),
        });
        self.notes.extend(notes);
    }

    /// Numbers what is named twice: areas of one id, rows of one label in an area, seats of one label in a
    /// row. The first keeps its name, the next become `A.2`, `A.3`, passing over names that are taken.
    pub fn disambiguate(&mut self) {
        number(self.areas.iter_mut().map(|area| &mut area.id));
        for area in &mut self.areas {
            number(area.rows.iter_mut().map(|row| &mut row.label));
            for row in &mut area.rows {
                number(row.positions.iter_mut().flatten().map(|seat| &mut seat.plan.label));
            }
        }
    }
}

fn number<'a>(names: impl Iterator<Item = &'a mut String>) {
    let names: Vec<&mut String> = names.collect();
    let mut taken: HashSet<String> = names.iter().map(|name| (**name).clone()).collect();
    let mut next: HashMap<String, u32> = HashMap::new();
    for name in names {
        let count = next.entry(name.clone()).or_insert(1);
        if *count > 1 {
            let mut fresh = format!("{name}.{count}");
            while !taken.insert(fresh.clone()) {
                *count += 1;
                fresh = format!("{name}.{count}");
            }
            *name = fresh;
        }
        *count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(rows: &[(&str, &[&str])]) -> Draft {
        let rows = rows.iter().zip(1..).map(|((label, seats), rank)| Row {
            label: (*label).to_owned(),
            rank,
            source: format!("rows[{}]", rank - 1),
            positions: seats.iter().map(|seat| Some(Seat::new((*seat).to_owned(), "t".into()))).collect(),
        });
        let area =
            Area { id: "a".into(), name: "A".into(), priority: 1, rows: rows.collect(), ..Area::default() };
        Draft { areas: vec![area], ..Draft::default() }
    }

    fn labels(draft: &Draft) -> Vec<&str> {
        draft.rows().map(|(_, row)| row.label.as_str()).collect()
    }

    #[test]
    fn duplicates_are_pointed_at_in_both_places() {
        let problems = draft(&[("A", &["1", "2"]), ("A", &["2", "3"])]).build().unwrap_err();
        assert_eq!(problems, ["rows[1].seats[0]: seat id 'a-A-2' occurs already at rows[0].seats[1]"]);
    }

    #[test]
    fn shared_ids_of_the_source_are_dropped_with_a_note() {
        let mut shared = draft(&[("A", &["1", "2", "3", "4"])]);
        let ids = ["g-1", "g-2", "g-1", ""];
        for (seat, id) in shared.areas[0].rows[0].positions.iter_mut().flatten().zip(ids) {
            seat.plan.id = Some(id.to_owned());
        }
        shared.drop_unusable_ids();
        let show = shared.build().unwrap();
        let ids: Vec<String> = (0..4).map(|seat| show.venue().id(seat)).collect();
        assert_eq!(ids, ["a-A-1", "g-2", "a-A-3", "a-A-4"]);
        assert_eq!(shared.notes.len(), 2);
        assert!(shared.notes[1].starts_with("2 seats have the id 'g-1'"), "{:?}", shared.notes);
    }

    #[test]
    fn own_id_that_another_seat_has_is_pointed_at_in_both_places() {
        let mut clash = draft(&[("A", &["1", "2"])]);
        clash.areas[0].rows[0].positions[1].as_mut().unwrap().plan.id = Some("a-A-1".into());
        assert_eq!(
            clash.build().unwrap_err(),
            ["rows[0].seats[1]: seat id 'a-A-1' occurs already at rows[0].seats[0]"]
        );
    }

    #[test]
    fn rows_of_one_name_without_a_common_seat_are_fine() {
        assert!(draft(&[("A", &["1", "2"]), ("A", &["3"])]).build().is_ok());
    }

    #[test]
    fn repeated_names_are_numbered_past_those_that_are_taken() {
        let mut twins = draft(&[("A", &["1", "1", "1"]), ("A", &["1"]), ("A.2", &["1"]), ("A", &["1"])]);
        twins.disambiguate();
        assert_eq!(labels(&twins), ["A", "A.3", "A.2", "A.4"]);
        assert_eq!(twins.build().err(), None);
        let first: Vec<_> = twins.areas[0].rows[0].seats().map(|seat| seat.plan.label.as_str()).collect();
        assert_eq!(first, ["1", "1.2", "1.3"]);
    }

    #[test]
    fn names_that_only_meet_in_the_id_are_still_reported() {
        let mut meeting = draft(&[("b-c", &["1"])]);
        let mut other = meeting.areas[0].clone();
        other.id = "a-b".into();
        other.rows[0].label = "c".into();
        meeting.areas.push(other);
        meeting.disambiguate();
        assert_eq!(meeting.build().unwrap_err().len(), 1);
    }

    #[test]
    fn objections_of_the_module_name_the_place_in_the_source() {
        let problem = |draft: &Draft| draft.build().unwrap_err().join("\n");
        assert_eq!(problem(&draft(&[("A", &[])])), "rows[0]: seats: has no seat");
        assert_eq!(problem(&draft(&[("A", &["1", ""])])), "rows[0].seats[1]: is empty");
        assert!(problem(&draft(&[(&"A".repeat(300), &["1"])])).contains("256"));
        let wide = vec!["1"; 4097];
        assert!(problem(&draft(&[("A", &wide)])).contains("4097 positions"));
        let mut broken = draft(&[("A", &["1", ""])]);
        broken.areas[0].rows[0].positions.insert(0, None);
        assert_eq!(problem(&broken), "rows[0].seats[1]: is empty", "the source has no entry for a break");
        broken.lists_breaks = true;
        assert_eq!(problem(&broken), "rows[0].seats[2]: is empty");
        broken.limits.max_hold_ms = u64::MAX;
        assert!(problem(&broken).starts_with("limits.max_hold_ms: is more than"));
    }
}
