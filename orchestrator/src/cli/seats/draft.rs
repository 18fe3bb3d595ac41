//! A show on its way in, the same for every source: areas, rows, seats, and where each stood in the source,
//! so that whatever is wrong with it can be pointed at.

use std::collections::{HashMap, HashSet};
use std::fmt;

use super::plan::{Limits, MAX_POSITIONS, Rule};

const MAX_AREAS: usize = 4096;
const MAX_SEATS: usize = 2_000_000;
const MAX_ID: usize = 256;

/// A show that may still have problems.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Draft {
    pub(crate) areas: Vec<Area>,
    pub(crate) limits: Option<Limits>,
    /// Length of the event stream, where the source says.
    pub(crate) events: Option<u32>,
}

/// Rows that share a priority and a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Area {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) priority: i32,
    pub(crate) rule: Rule,
    pub(crate) rows: Vec<Row>,
}

/// Places in physical order.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) label: String,
    pub(crate) rank: i32,
    pub(crate) at: Where,
    pub(crate) places: Vec<Place>,
}

// Where a row stood is no part of what it is.
impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        (&self.label, self.rank, &self.places) == (&other.label, other.rank, &other.places)
    }
}

impl Eq for Row {}

/// One position of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// An aisle, a pillar, a missing seat.
    Break,
    Seat(Seat),
}

/// A seat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seat {
    pub(crate) label: String,
    pub(crate) tier: String,
    pub(crate) flags: Vec<String>,
    /// To be sold before the show is opened.
    pub(crate) sold: bool,
    /// Its own line in the source, where it has one.
    pub(crate) line: Option<u64>,
}

/// A place in the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Where {
    /// In a tree, e.g. `zones[0].rows[3]`.
    Path(String),
    /// The line on which it began.
    Line(u64),
}

impl fmt::Display for Where {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => f.write_str(path),
            Self::Line(line) => write!(f, "line {line}"),
        }
    }
}

impl Row {
    /// Its seats, in physical order.
    pub(crate) fn seats(&self) -> impl Iterator<Item = &Seat> {
        self.places.iter().filter_map(|place| if let Place::Seat(seat) = place { Some(seat) } else { None })
    }

    fn seats_mut(&mut self) -> impl Iterator<Item = &mut Seat> {
        self.places
            .iter_mut()
            .filter_map(|place| if let Place::Seat(seat) = place { Some(seat) } else { None })
    }

    fn place(&self, seat: &Seat, index: usize) -> String {
        seat.line.map_or_else(|| format!("{}.seats[{index}]", self.at), |line| format!("line {line}"))
    }
}

/// The id of a seat.
pub(crate) fn seat_id(area: &str, row: &str, seat: &str) -> String {
    format!("{area}-{row}-{seat}")
}

impl Draft {
    /// All rows, with their areas.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&Area, &Row)> {
        self.areas.iter().flat_map(|area| area.rows.iter().map(move |row| (area, row)))
    }

    /// All seats.
    pub(crate) fn seats(&self) -> impl Iterator<Item = &Seat> {
        self.rows().flat_map(|(_, row)| row.seats())
    }

    /// Ids of the seats that are sold before the show is opened.
    pub(crate) fn sold(&self) -> Vec<String> {
        let of = |(area, row): (&Area, &Row)| {
            let id = |seat: &Seat| seat_id(&area.id, &row.label, &seat.label);
            row.seats().filter(|seat| seat.sold).map(id).collect::<Vec<_>>()
        };
        self.rows().flat_map(of).collect()
    }

    /// Everything for which the module would refuse it, each with its place.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.areas.len() > MAX_AREAS {
            problems.push(format!("{} areas; a show has at most {MAX_AREAS}", self.areas.len()));
        }
        let seats = self.seats().count();
        match seats {
            0 => problems.push("there is not one seat".to_owned()),
            1..=MAX_SEATS => {}
            _ => problems.push(format!("{seats} seats; a show has at most {MAX_SEATS}")),
        }
        let mut areas = HashSet::new();
        for area in &self.areas {
            if !areas.insert(&area.id) {
                problems.push(format!("area id '{}' occurs twice ('{}')", area.id, area.name));
            }
            if area.rows.is_empty() {
                problems.push(format!("area '{}' has no rows", area.id));
            }
            if area.id.is_empty() {
                problems.push(format!("area '{}' has an empty id", area.name));
            }
        }
        for (_, row) in self.rows() {
            if row.places.len() > MAX_POSITIONS {
                let count = row.places.len();
                problems.push(format!("{}: {count} positions; a row has at most {MAX_POSITIONS}", row.at));
            }
            if row.label.is_empty() {
                problems.push(format!("{}: the row has no label", row.at));
            }
            if row.seats().next().is_none() {
                problems.push(format!("{}: the row has no seats", row.at));
            }
        }
        self.check_seats(&mut problems);
        problems
    }

    fn check_seats(&self, problems: &mut Vec<String>) {
        let mut first_seen: HashMap<String, (&Row, &Seat, usize)> = HashMap::new();
        for (area, row) in self.rows() {
            for (index, seat) in row.seats().enumerate() {
                if seat.label.is_empty() || seat.tier.is_empty() {
                    let missing = if seat.label.is_empty() { "label" } else { "tier" };
                    problems.push(format!("{}: the seat has no {missing}", row.place(seat, index)));
                    continue;
                }
                let id = seat_id(&area.id, &row.label, &seat.label);
                if id.len() > MAX_ID {
                    let place = row.place(seat, index);
                    problems.push(format!("{place}: seat id '{id}' is longer than {MAX_ID} bytes"));
                }
                if let Some((other, twin, at)) = first_seen.get(&id) {
                    let (here, there) = (row.place(seat, index), other.place(twin, *at));
                    problems.push(format!("{here}: seat id '{id}' occurs already at {there}"));
                } else {
                    first_seen.insert(id, (row, seat, index));
                }
            }
        }
    }

    /// Numbers what is named twice: areas of one id, rows of one label in an area, seats of one label in a
    /// row. The first keeps its name, the next become `A.2`, `A.3`, passing over names that are taken.
    pub(crate) fn disambiguate(&mut self) {
        number(self.areas.iter_mut().map(|area| &mut area.id));
        for area in &mut self.areas {
            number(area.rows.iter_mut().map(|row| &mut row.label));
            for row in &mut area.rows {
                number(row.seats_mut().map(|seat| &mut seat.label));
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
            at: Where::Path(format!("rows[{}]", rank - 1)),
            places: seats
                .iter()
                .map(|seat| {
                    Place::Seat(Seat {
                        label: (*seat).to_owned(),
                        tier: "t".into(),
                        flags: vec![],
                        sold: false,
                        line: None,
                    })
                })
                .collect(),
        });
        let area =
            Area { id: "a".into(), name: "A".into(), priority: 1, rule: Rule::Ltr, rows: rows.collect() };
        Draft { areas: vec![area], ..Draft::default() }
    }

    fn labels(draft: &Draft) -> Vec<&str> {
        draft.rows().map(|(_, row)| row.label.as_str()).collect()
    }

    #[test]
    fn duplicates_are_pointed_at_both_places() {
        let problems = draft(&[("A", &["1", "2"]), ("A", &["2", "3"])]).problems();
        assert_eq!(problems, ["rows[1].seats[0]: seat id 'a-A-2' occurs already at rows[0].seats[1]"]);
    }

    #[test]
    fn rows_of_one_name_without_a_common_seat_are_fine() {
        assert!(draft(&[("A", &["1", "2"]), ("A", &["3"])]).problems().is_empty());
    }

    #[test]
    fn repeated_names_are_numbered_past_those_that_are_taken() {
        let mut twins = draft(&[("A", &["1", "1", "1"]), ("A", &["1"]), ("A.2", &["1"]), ("A", &["1"])]);
        twins.disambiguate();
        assert_eq!(labels(&twins), ["A", "A.3", "A.2", "A.4"]);
        assert!(twins.problems().is_empty(), "{:?}", twins.problems());
        let first: Vec<_> = twins.areas[0].rows[0].seats().map(|seat| seat.label.as_str()).collect();
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
        assert_eq!(meeting.problems().len(), 1);
    }

    #[test]
    fn what_the_module_would_refuse_is_said_beforehand() {
        assert_eq!(draft(&[]).problems().len(), 2);
        assert!(draft(&[("A", &[])]).problems().iter().any(|p| p == "rows[0]: the row has no seats"));
        assert!(draft(&[("A", &[""])]).problems()[0].contains("no label"));
        assert!(draft(&[(&"A".repeat(300), &["1"])]).problems()[0].contains("256"));
        let wide = vec!["1"; 4097];
        assert!(draft(&[("A", &wide)]).problems()[0].contains("4097 positions"));
    }
}
