//! Reads a seating plan of pretix: zones are areas, categories are tiers, rows and seats keep the order
//! of the file.
//!
//! A row's rank is its place in its zone's list. Rows of one number side by side, such as the left and the right half of a
//! row, have one rank. Every zone gets the rule `center` and, in the order of the zones, the priorities 1, 2, 3; a side file
//! can override them. If a stage is drawn (`stage`), seats near it are the best instead.

use std::collections::{BTreeMap, HashSet};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::draft::{Area, Draft, Row, Seat, name};
use super::places::Place;
use super::stage::{self, Point, Shape};
use allot_core::seat::plan::Rule;

/// A step of more than this many times the row's usual one is an aisle.
const BREAK: f64 = 1.5;

/// Rows of one number are side by side if they are no further apart in depth than this, in the units of pretix, in which
/// seats are about 25 apart.
const SIDE_BY_SIDE: f64 = 10.0;

/// Fields of a seat that say nothing that a plan says.
const PASSED_OVER: [&str; 2] = ["uuid", "radius"];

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
    #[serde(default, deserialize_with = "name")]
    name: String,
    #[serde(default)]
    position: Point,
    #[serde(default)]
    rows: Vec<FileRow>,
    #[serde(default)]
    areas: Vec<Shape>,
}

#[derive(Deserialize)]
struct FileRow {
    #[serde(default, deserialize_with = "name")]
    row_number: String,
    position: Option<Point>,
    #[serde(default)]
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
    #[serde(flatten)]
    others: BTreeMap<String, serde_json::Value>,
}

impl Point {
    /// The distance to another point.
    fn to(self, other: Self) -> f64 {
        (self.x - other.x).hypot(self.y - other.y)
    }
}

/// Reads a plan of pretix; an error names the place in the file.
pub(super) fn read(text: &str) -> Result<Draft> {
    let mut json = serde_json::Deserializer::from_str(text);
    let file: File = serde_path_to_error::deserialize(&mut json).context("not a pretix seating plan")?;
    let categories: HashSet<&str> = file.categories.iter().map(|category| category.name.as_str()).collect();
    let mut draft = Draft::default();
    // Fields that are dropped, and how many seats have them.
    let mut dropped: BTreeMap<String, usize> = BTreeMap::new();
    let mut shapes: Vec<(Point, Shape)> = Vec::new();
    for (zone_index, zone) in file.zones.into_iter().enumerate() {
        let mut rows: Vec<(Row, Option<f64>)> = Vec::with_capacity(zone.rows.len());
        for (row_index, mut row) in zone.rows.into_iter().enumerate() {
            let at = format!("zones[{zone_index}].rows[{row_index}]");
            if row.seats.is_empty() {
                draft.notes.push(format!("{at} has no seat, and is left out"));
                continue;
            }
            for (index, seat) in row.seats.iter_mut().enumerate() {
                check_category(seat, &categories).with_context(|| format!("{at}.seats[{index}]"))?;
                seat.others.retain(|field, _| !PASSED_OVER.contains(&field.as_str()));
            }
            let depth = depth(&row);
            if put_in_order(&mut row.seats) {
                draft
                    .notes
                    .push(format!("the seats of {at} are listed out of order; their positions decide"));
            }
            let origin = row.position.map(|row| [zone.position.x + row.x, zone.position.y + row.y]);
            let positions = positions(row.seats, origin, &mut dropped);
            let label = row.row_number.trim().to_owned();
            let is_beside = |(other, of_other): &&(Row, Option<f64>)| {
                !label.is_empty()
                    && other.label == label
                    && depth.zip(*of_other).is_some_and(|(one, other)| (one - other).abs() <= SIDE_BY_SIDE)
            };
            let rank = rows.iter().find(is_beside).map_or(row_index as i32 + 1, |(other, _)| other.rank);
            rows.push((Row { label, rank, source: at, positions }, depth));
        }
        shapes.extend(zone.areas.into_iter().map(|shape| (zone.position, shape)));
        if rows.is_empty() {
            draft.notes.push(format!("zones[{zone_index}] has no seat, and is left out"));
            continue;
        }
        let priority = zone_index as i32 + 1;
        let id = Some(slug(&zone.name)).filter(|id| !id.is_empty());
        let id = id.unwrap_or_else(|| format!("zone-{}", zone_index + 1));
        let name = if zone.name.is_empty() { id.clone() } else { zone.name };
        let rows = rows.into_iter().map(|(row, _)| row).collect();
        draft.areas.push(Area { id, name, priority, rule: Rule::Center, rows, ..Area::default() });
    }
    draft.stage = stage::find(&shapes);
    draft.drop_unusable_ids();
    if !dropped.is_empty() {
        let fields: Vec<String> =
            dropped.iter().map(|(field, seats)| format!("{field} ({seats} seats)")).collect();
        draft.notes.push(format!("fields that a plan does not have are dropped: {}", fields.join(", ")));
    }
    Ok(draft)
}

/// Refuses a seat without a category, or with one that the plan does not have.
fn check_category(seat: &FileSeat, categories: &HashSet<&str>) -> Result<()> {
    if seat.category.is_empty() {
        bail!("the seat has no category");
    }
    if !categories.is_empty() && !categories.contains(&*seat.category) {
        bail!("category '{}' is not among the plan's categories", seat.category);
    }
    Ok(())
}

/// How far from the upper edge of its zone a row is, in the middle; `None` without positions.
fn depth(row: &FileRow) -> Option<f64> {
    let heights: Option<Vec<f64>> = row.seats.iter().map(|seat| Some(seat.position?.y)).collect();
    let heights = heights.filter(|heights| !heights.is_empty())?;
    Some(row.position?.y + heights.iter().sum::<f64>() / heights.len() as f64)
}

/// Puts seats that were listed out of order into the order of their positions along the row, if that makes the way from
/// seat to seat shorter. Returns whether it does.
fn put_in_order(seats: &mut Vec<FileSeat>) -> bool {
    let points: Option<Vec<Point>> = seats.iter().map(|seat| seat.position).collect();
    let Some(points) = points else { return false };
    let farthest = |from: Point| points.iter().copied().max_by(|a, b| from.to(*a).total_cmp(&from.to(*b)));
    let Some((one, other)) =
        points.first().and_then(|&first| farthest(first)).and_then(|one| Some((one, farthest(one)?)))
    else {
        return false;
    };
    let (dx, dy) = (other.x - one.x, other.y - one.y);
    let along = |point: Point| (point.x - one.x) * dx + (point.y - one.y) * dy;
    let mut order: Vec<usize> = (0..points.len()).collect();
    let place = |&at: &usize| points.get(at).map_or(0.0, |&point| along(point));
    order.sort_by(|a, b| place(a).total_cmp(&place(b)));
    // The seat that is listed first stays nearer to the beginning.
    if order.first() > order.last() {
        order.reverse();
    }
    let way = |order: &[usize]| -> f64 {
        let there: Vec<Point> = order.iter().filter_map(|&at| points.get(at).copied()).collect();
        there.windows(2).map(|pair| if let [a, b] = pair { a.to(*b) } else { 0.0 }).sum()
    };
    let listed: Vec<usize> = (0..points.len()).collect();
    // A way that is hardly shorter comes from rounded positions, or from a row in an arc.
    if way(&order) >= way(&listed) * 0.99 {
        return false;
    }
    let mut taken: Vec<Option<FileSeat>> = std::mem::take(seats).into_iter().map(Some).collect();
    *seats = order.into_iter().filter_map(|at| taken.get_mut(at)?.take()).collect();
    true
}

/// The positions of a row, with breaks; seats lie relative to `origin`, if the row has a place. `dropped` counts fields that a
/// plan does not have.
fn positions(
    seats: Vec<FileSeat>,
    origin: Option<Place>,
    dropped: &mut BTreeMap<String, usize>,
) -> Vec<Option<Seat>> {
    let step = |pair: &[FileSeat]| match pair {
        [FileSeat { position: Some(a), .. }, FileSeat { position: Some(b), .. }] => Some(a.to(*b)),
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
        imported.at = origin.zip(seat.position).map(|([x, y], seat)| [x + seat.x, y + seat.y]);
        imported.plan.id = Some(seat.seat_guid.trim().to_owned()).filter(|guid| !guid.is_empty());
        for (field, value) in seat.others {
            match (field.as_str(), value) {
                ("wheelchair", serde_json::Value::Bool(is_set)) => {
                    imported.plan.flags.extend(is_set.then_some(field));
                }
                _ => *dropped.entry(field).or_default() += 1,
            }
        }
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
    use super::super::draft::seat_id;
    use super::super::testdata;
    use super::*;
    use allot_core::seat::wish::{Adjacent, NamedWish, Orphans};

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
        let error = |text: &str| format!("{:#}", read(text).unwrap_err());
        assert!(error(&text).starts_with("zones[0].rows[0].seats[0]: category 'c'"), "{}", error(&text));
        let none = row(&[0.0]).replace(r#""category":"c""#, r#""category":"""#);
        assert_eq!(error(&none), "zones[0].rows[0].seats[0]: the seat has no category");
        let text = error(r#"{"zones":[{"name":"Z","rows":[{"seats":7}]}]}"#);
        assert!(text.contains("zones[0].rows[0]"), "{text}");
    }

    #[test]
    fn seats_that_are_listed_out_of_order_are_taken_by_their_positions() {
        let text = row(&[0.0, 25.0, 50.0, 100.0, 125.0, 75.0]);
        assert_eq!(drawn(&text), "......");
        let draft = read(&text).unwrap();
        let labels: Vec<&str> = draft.seats().map(|seat| seat.plan.label.as_str()).collect();
        assert_eq!(labels, ["1", "2", "3", "6", "4", "5"]);
        assert_eq!(
            draft.notes,
            ["the seats of zones[0].rows[0] are listed out of order; their positions decide"]
        );
        // A row in an arc, from one end to the other.
        let arc: Vec<String> = (0..20)
            .map(|n| {
                let (x, y) = (f64::from(n) * 0.3).sin_cos();
                let (x, y) = (100.0 * x, 100.0 * y);
                format!(r#"{{"seat_number":{n},"category":"c","position":{{"x":{x},"y":{y}}}}}"#)
            })
            .collect();
        let arc = format!(r#"{{"zones":[{{"name":"Z","rows":[{{"seats":[{}]}}]}}]}}"#, arc.join(","));
        assert!(read(&arc).unwrap().notes.is_empty());
    }

    #[test]
    fn halves_of_a_row_have_one_rank() {
        let half = |label: &str, x: i32, y: i32| {
            format!(
                r#"{{"row_number":"{label}","position":{{"x":{x},"y":{y}}},"seats":[{{"seat_number":1,"category":"c","position":{{"x":0,"y":0}}}}]}}"#
            )
        };
        let rows =
            [half("A", 0, 0), half("B", 0, 25), half("A", 300, 4), half("B", 300, 25), half("A", 0, 500)];
        let draft = read(&format!(r#"{{"zones":[{{"name":"Z","rows":[{}]}}]}}"#, rows.join(","))).unwrap();
        let ranks: Vec<i32> = draft.areas[0].rows.iter().map(|row| row.rank).collect();
        assert_eq!(ranks, [1, 2, 1, 2, 5]);
    }

    #[test]
    fn zones_and_rows_without_seats_are_left_out_and_dropped_fields_are_told() {
        let seat = r#"{"seat_number":"1","category":"c","wheelchair":true,"standing":40,"uuid":"u"}"#;
        let zones = [
            r#"{"name":"Stage"}"#.to_owned(),
            format!(
                r#"{{"name":"★","rows":[{{"row_number":"A","seats":[]}},{{"row_number":"B","seats":[{seat}]}}]}}"#
            ),
        ];
        let draft = read(&format!(r#"{{"zones":[{}]}}"#, zones.join(","))).unwrap();
        let [area] = &draft.areas[..] else { panic!("{:?}", draft.areas) };
        assert_eq!((area.id.as_str(), area.name.as_str(), area.rows.len()), ("zone-2", "★", 1));
        assert_eq!(draft.seats().next().unwrap().plan.flags, ["wheelchair"]);
        assert_eq!(
            draft.notes,
            [
                "zones[0] has no seat, and is left out",
                "zones[1].rows[0] has no seat, and is left out",
                "fields that a plan does not have are dropped: standing (1 seats)"
            ]
        );
        assert_eq!(draft.build().unwrap().venue().seat_count(), 1);
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
        // The stage is the only shape, in the middle of the hall, and has no text.
        draft.look_at(None);
        assert_eq!(draft.focus.map(|focus| focus.map(f32::round)), Some([1035.0, 836.0]));
        assert!(draft.notes[0].starts_with("the only shape of the plan"), "{:?}", draft.notes[0]);
        first_pair_of_each_category_is_nearest(&draft);
    }

    /// The first pair of each category is the pair nearest the focus among that category and zone.
    fn first_pair_of_each_category_is_nearest(draft: &Draft) {
        let show = draft.build().unwrap();
        let focus = draft.focus.unwrap().map(f64::from);
        // How far the middle of two seats side by side is, to a thousandth.
        let distance = |pair: &[Option<Seat>]| {
            let [Some(one), Some(other)] = pair else { return None };
            let ([x, y], [to_x, to_y]) = (one.at?, other.at?);
            let away = (f64::midpoint(x, to_x) - focus[0]).hypot(f64::midpoint(y, to_y) - focus[1]);
            (one.plan.tier == other.plan.tier).then_some((away * 1000.0).round() as i64)
        };
        for tier in show.venue().tiers() {
            let wish = NamedWish {
                count: 2,
                tier: Some(tier.as_bytes()),
                areas: vec![],
                adjacent: Adjacent::Require,
                orphans: Orphans::Allow,
                flags: vec![],
                needs: vec![],
                preferred: vec![],
                from: None,
            };
            let found = show.find(&wish, 1).unwrap();
            let ids: Vec<String> = found[0].iter().map(|&seat| show.venue().id(seat)).collect();
            let area = show.only_area(&found[0]).unwrap();
            let rows = draft.rows().filter(|(of, _)| of.id == area);
            let pairs = rows.flat_map(|(of, row)| row.positions.windows(2).map(move |pair| (of, row, pair)));
            let of_tier = |pair: &[Option<Seat>]| {
                pair.iter().flatten().all(|seat| seat.plan.tier.as_deref() == Some(&**tier))
            };
            let rated = pairs.filter(|(.., pair)| of_tier(pair));
            let rated: Vec<(i64, String)> = rated
                .filter_map(|(of, row, pair)| {
                    let first = pair[0].as_ref()?;
                    Some((distance(pair)?, seat_id(&of.id, &row.label, &first.plan)))
                })
                .collect();
            let best = rated.iter().map(|(distance, _)| *distance).min().unwrap();
            let got = rated.iter().find(|(_, id)| *id == ids[0]).map(|(distance, _)| *distance);
            assert_eq!(got, Some(best), "{tier}: {ids:?}");
        }
    }
}
