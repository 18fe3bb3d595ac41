//! Reads a seating plan of pretix: zones are areas, categories are tiers, rows and seats keep the order
//! of the file.
//!
//! A row's rank is its place in its zone's list, front first: the format has no stage, and coordinates
//! alone do not show the front of a hall that is built around its stage. Every zone gets the rule `center` and,
//! in the order of the zones, the priorities 1, 2, 3; a side file can override them.

use std::collections::HashSet;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::draft::{Area, Draft, Row, Seat, name};
use allot_core::seat::plan::Rule;

/// A step of more than this many times the row's usual one is an aisle.
const BREAK: f64 = 1.5;

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    categories: Vec<Category>,
    zones: Vec<Zone>,
}

#[derive(Deserialize)]
struct Category {
    name: String,
}

#[derive(Deserialize)]
struct Zone {
    name: String,
    #[serde(default)]
    rows: Vec<FileRow>,
}

#[derive(Deserialize)]
struct FileRow {
    #[serde(default, deserialize_with = "name")]
    row_number: String,
    seats: Vec<FileSeat>,
}

#[derive(Deserialize)]
struct FileSeat {
    #[serde(default, deserialize_with = "name")]
    seat_number: String,
    /// The seat's identity in pretix; several seats may share one.
    #[serde(default, deserialize_with = "name")]
    seat_guid: String,
    #[serde(default)]
    category: String,
    position: Option<Point>,
}

#[derive(Deserialize, Clone, Copy)]
struct Point {
    x: f64,
    y: f64,
}

/// Reads a plan of pretix; an error names the place in the file.
pub(super) fn read(text: &str) -> Result<Draft> {
    let mut json = serde_json::Deserializer::from_str(text);
    let file: File = serde_path_to_error::deserialize(&mut json).context("not a pretix seating plan")?;
    let categories: HashSet<&str> = file.categories.iter().map(|category| category.name.as_str()).collect();
    let mut draft = Draft::default();
    for (zone_index, zone) in file.zones.into_iter().enumerate() {
        let mut rows = Vec::with_capacity(zone.rows.len());
        for (row_index, row) in zone.rows.into_iter().enumerate() {
            let at = format!("zones[{zone_index}].rows[{row_index}]");
            for (index, seat) in row.seats.iter().enumerate() {
                if !categories.is_empty()
                    && !seat.category.is_empty()
                    && !categories.contains(&*seat.category)
                {
                    bail!(
                        "{at}.seats[{index}]: category '{}' is not among the plan's categories",
                        seat.category
                    );
                }
            }
            let positions = positions(row.seats);
            let rank = row_index as i32 + 1;
            let (label, source) = (row.row_number.trim().to_owned(), at);
            rows.push(Row { label, rank, source, positions });
        }
        let priority = zone_index as i32 + 1;
        let (id, name, rule) = (slug(&zone.name), zone.name, Rule::Center);
        draft.areas.push(Area { id, name, priority, rule, rows, ..Area::default() });
    }
    draft.drop_unusable_ids();
    Ok(draft)
}

fn positions(seats: Vec<FileSeat>) -> Vec<Option<Seat>> {
    let step = |pair: &[FileSeat]| match pair {
        [FileSeat { position: Some(a), .. }, FileSeat { position: Some(b), .. }] => {
            Some((a.x - b.x).hypot(a.y - b.y))
        }
        _ => None,
    };
    let steps: Vec<Option<f64>> = seats.windows(2).map(step).collect();
    // If all seats have the same coordinates, their distances are unknown.
    let usual = median(steps.iter().flatten().copied()).filter(|usual| *usual > 0.0);
    let mut before = std::iter::once(None).chain(steps);
    let mut positions = Vec::with_capacity(seats.len());
    for seat in seats {
        if let (Some(Some(step)), Some(usual)) = (before.next(), usual)
            && step > usual * BREAK
        {
            positions.push(None);
        }
        let mut imported = Seat::new(seat.seat_number.trim().to_owned(), seat.category);
        imported.plan.id = Some(seat.seat_guid.trim().to_owned()).filter(|guid| !guid.is_empty());
        positions.push(Some(imported));
    }
    positions
}

/// The median, and the smaller of two values in the middle, since an aisle can only make a step longer.
fn median(steps: impl Iterator<Item = f64>) -> Option<f64> {
    let mut steps: Vec<f64> = steps.collect();
    steps.sort_by(f64::total_cmp);
    steps.get(steps.len().checked_sub(1)? / 2).copied()
}

/// A name as part of an id: lower case, words joined by `-`. Letters of every script stay.
fn slug(name: &str) -> String {
    let lower = name.to_lowercase();
    lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::super::testdata;
    use super::*;

    #[test]
    fn a_zone_name_becomes_an_id() {
        assert_eq!(slug("Ground floor"), "ground-floor");
        assert_eq!(slug("  1. Rang (links) "), "1-rang-links");
        assert_eq!(slug("二楼"), "二楼");
    }

    fn row(xs: &[f64]) -> String {
        let seats: Vec<String> = xs
            .iter()
            .zip(1..)
            .map(|(x, n)| format!(r#"{{"seat_number":{n},"category":"c","position":{{"x":{x},"y":0}}}}"#))
            .collect();
        format!(r#"{{"zones":[{{"name":"Z","rows":[{{"row_number":"A","seats":[{}]}}]}}]}}"#, seats.join(","))
    }

    fn drawn(text: &str) -> String {
        let positions = &read(text).unwrap().areas[0].rows[0].positions;
        positions.iter().map(|seat| if seat.is_none() { '|' } else { '.' }).collect()
    }

    #[test]
    fn a_long_step_is_a_break_whichever_way_the_row_runs() {
        assert_eq!(drawn(&row(&[0.0, 25.0, 50.0, 100.0, 125.0])), "...|..");
        assert_eq!(drawn(&row(&[125.0, 100.0, 50.0, 25.0, 0.0])), "..|...");
        assert_eq!(drawn(&row(&[0.0, 25.0, 62.5, 100.0])), "....", "1.5 times is not more than 1.5 times");
        assert_eq!(drawn(&row(&[0.0, 25.0, 100.0])), "..|.");
        assert_eq!(drawn(&row(&[7.0, 7.0, 7.0, 50.0])), "....");
        assert_eq!(drawn(&row(&[0.0])), ".");
    }

    #[test]
    fn an_unknown_category_is_refused_with_its_place() {
        let text = row(&[0.0]).replace(r#""zones""#, r#""categories":[{"name":"d"}],"zones""#);
        assert!(read(&text).unwrap_err().to_string().starts_with("zones[0].rows[0].seats[0]: category 'c'"));
        let error = format!("{:#}", read(r#"{"zones":[{"name":"Z","rows":[{}]}]}"#).unwrap_err());
        assert!(error.contains("zones[0].rows[0]"), "{error}");
    }

    #[test]
    fn the_real_theatre_is_refused_for_its_duplicates_and_loads_numbered() {
        let Some(text) = testdata::real("theatre.pretix.json") else { return };
        let mut draft = read(&text).unwrap();
        assert_eq!(
            draft.areas.iter().map(|area| area.id.as_str()).collect::<Vec<_>>(),
            ["ground-floor", "first-floor"]
        );
        assert_eq!(draft.seats().count(), 738);
        assert_eq!(
            draft.build().unwrap_err().len(),
            738 - 318,
            "every seat beyond the distinct ids is a duplicate"
        );
        draft.disambiguate();
        assert_eq!(draft.seats().count(), 738);
        assert_eq!(draft.rows().count(), 90);
        let rows: Vec<_> = draft.areas[0].rows.iter().filter(|row| row.label.starts_with('A')).collect();
        assert_eq!(
            rows.iter().take(3).map(|row| row.label.as_str()).collect::<Vec<_>>(),
            ["A", "A.2", "A.3"]
        );
        assert_eq!(draft.build().unwrap().venue().seat_count(), 738);
        let kept = draft.seats().filter(|seat| seat.plan.id.is_some()).count();
        assert_eq!(kept, 192, "each guid of one seat is kept");
        assert_eq!(draft.notes.len(), 318 - 192, "each guid of several seats has a note");
        assert!(draft.notes[0].contains("seats have the id 'FirstFloor-"), "{}", draft.notes[0]);
    }
}
