//! The plan of a show as the module reads it: JSON, with the short form of rows whose seats are numbered.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::draft::{Area, Draft, Place, Row, Seat, Where};

/// Positions a row may have, and so what a range of the short form may span.
pub(crate) const MAX_POSITIONS: usize = 4096;

/// A show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    areas: Vec<PlanArea>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limits: Option<Limits>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    events: Option<u32>,
}

/// What a user may have; absent ones are left to the module.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Limits {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) seats_per_user: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) holds_per_user: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_hold_ms: Option<u32>,
}

/// The order in which an area's seats are taken within a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Rule {
    /// Left to right.
    #[default]
    Ltr,
    /// Right to left.
    Rtl,
    /// From the middle of the row.
    Center,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanArea {
    id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default = "first")]
    priority: i32,
    #[serde(default)]
    rule: Rule,
    rows: Vec<PlanRow>,
}

fn first() -> i32 {
    1
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanRow {
    label: String,
    rank: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tier: Option<String>,
    seats: PlanSeats,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "seats are a list of seats and nulls, or a text like \"1-12,|,13-24\"")]
enum PlanSeats {
    Short(String),
    List(Vec<Option<PlanSeat>>),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanSeat {
    label: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tier: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    flags: Vec<String>,
}

/// Reads a plan; an error names the place in it.
pub(crate) fn read(text: &str) -> Result<Draft> {
    let mut json = serde_json::Deserializer::from_str(text);
    let plan: Plan = serde_path_to_error::deserialize(&mut json)
        .with_context(|| "not a seating plan (see docs/seats.md, Plan)")?;
    json.end().context("not a seating plan: there is more after its end")?;
    let mut draft = Draft { limits: plan.limits, events: plan.events, ..Draft::default() };
    for (area_index, area) in plan.areas.into_iter().enumerate() {
        let mut rows = Vec::with_capacity(area.rows.len());
        for (row_index, row) in area.rows.into_iter().enumerate() {
            let at = format!("areas[{area_index}].rows[{row_index}]");
            rows.push(read_row(row, &at)?);
        }
        let name = area.name.unwrap_or_else(|| area.id.clone());
        draft.areas.push(Area { id: area.id, name, priority: area.priority, rule: area.rule, rows });
    }
    Ok(draft)
}

fn read_row(row: PlanRow, at: &str) -> Result<Row> {
    let labels = match row.seats {
        PlanSeats::Short(text) => read_short(&text).with_context(|| format!("{at}.seats"))?,
        PlanSeats::List(seats) => {
            let mut list = Vec::with_capacity(seats.len());
            for seat in seats {
                list.push(seat.map(|seat| (seat.label, seat.tier, seat.flags)));
            }
            list
        }
    };
    let mut places = Vec::with_capacity(labels.len());
    for label in labels {
        let Some((label, tier, flags)) = label else {
            places.push(Place::Break);
            continue;
        };
        let Some(tier) = tier.or_else(|| row.tier.clone()) else {
            bail!("{at}: seat '{label}' has no tier, and its row has none either");
        };
        places.push(Place::Seat(Seat { label, tier, flags, sold: false, line: None }));
    }
    Ok(Row { label: row.label, rank: row.rank, at: Where::Path(at.to_owned()), places })
}

type Labelled = (String, Option<String>, Vec<String>);

fn read_short(text: &str) -> Result<Vec<Option<Labelled>>> {
    let mut labels = Vec::new();
    let seat = |label: String| Some((label, None, Vec::new()));
    for item in text.split(',').map(str::trim) {
        match item.split_once('-') {
            _ if item.is_empty() => bail!("there is an empty item in '{text}'"),
            _ if item == "|" => labels.push(None),
            None => labels.push(seat(item.to_owned())),
            Some((from, to)) => {
                let (Some(from), Some(to)) = (number(from.trim()), number(to.trim())) else {
                    bail!("'{item}' is no range of plain numbers");
                };
                if from.abs_diff(to) as usize >= MAX_POSITIONS {
                    bail!("'{item}' is more than the {MAX_POSITIONS} positions a row may have");
                }
                if from <= to {
                    labels.extend((from..=to).map(|number| seat(number.to_string())));
                } else {
                    labels.extend((to..=from).rev().map(|number| seat(number.to_string())));
                }
            }
        }
    }
    Ok(labels)
}

/// The number that a label is, if it is written as numbers are written.
fn number(label: &str) -> Option<u32> {
    label.parse().ok().filter(|number: &u32| number.to_string() == label)
}

/// Writes a plan, each row in the shorter of its two notations.
pub(crate) fn write(draft: &Draft) -> Result<String> {
    let areas = draft.areas.iter().map(|area| PlanArea {
        id: area.id.clone(),
        name: Some(area.name.clone()),
        priority: area.priority,
        rule: area.rule,
        rows: area.rows.iter().map(write_row).collect(),
    });
    let plan = Plan { areas: areas.collect(), limits: draft.limits, events: draft.events };
    serde_json::to_string(&plan).context("a plan that cannot be written")
}

fn write_row(row: &Row) -> PlanRow {
    let default = commonest_tier(row);
    let short = write_short(row);
    let seats = short.map_or_else(
        || {
            let entry = |place: &Place| match place {
                Place::Break => None,
                Place::Seat(seat) => Some(PlanSeat {
                    label: seat.label.clone(),
                    tier: (Some(&seat.tier) != default.as_ref()).then(|| seat.tier.clone()),
                    flags: seat.flags.clone(),
                }),
            };
            PlanSeats::List(row.places.iter().map(entry).collect())
        },
        PlanSeats::Short,
    );
    PlanRow { label: row.label.clone(), rank: row.rank, tier: default, seats }
}

/// The tier of most of the row's seats, which the others need not repeat; of equally many the first.
fn commonest_tier(row: &Row) -> Option<String> {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for seat in row.seats() {
        match counts.iter_mut().find(|(tier, _)| *tier == seat.tier) {
            Some((_, count)) => *count += 1,
            None => counts.push((&seat.tier, 1)),
        }
    }
    counts.iter().rev().max_by_key(|(_, count)| *count).map(|(tier, _)| (*tier).to_owned())
}

/// The short form of a row of numbered seats of one tier without flags.
fn write_short(row: &Row) -> Option<String> {
    let tier = &row.seats().next()?.tier;
    let mut items: Vec<String> = Vec::new();
    let mut run: Option<(u32, u32)> = None;
    let item = |(from, to): (u32, u32)| if from == to { from.to_string() } else { format!("{from}-{to}") };
    for place in &row.places {
        match place {
            Place::Break => {
                items.extend(run.take().map(item));
                items.push("|".to_owned());
            }
            Place::Seat(seat) => {
                let number = number(&seat.label).filter(|_| seat.tier == *tier && seat.flags.is_empty())?;
                run = match run {
                    Some((from, to)) if to.checked_add(1) == Some(number) => Some((from, number)),
                    other => {
                        items.extend(other.map(item));
                        Some((number, number))
                    }
                };
            }
        }
    }
    items.extend(run.map(item));
    Some(items.join(","))
}

#[cfg(test)]
mod tests {
    use super::super::testdata;
    use super::*;

    const EXAMPLE: &str = r#"{ "areas": [
      { "id": "stalls", "name": "Stalls", "priority": 2, "rule": "center",
        "rows": [ { "label": "A", "rank": 1, "tier": "gold", "seats": "1-12,|,13-24" },
                  { "label": "B", "rank": 2, "seats": [ null, {"label": "1", "tier": "gold"},
                    {"label": "2", "tier": "gold", "flags": ["wheelchair"]}, null, null, {"label": "3", "tier": "silver"} ] } ] } ],
      "limits": { "seats_per_user": 6, "max_hold_ms": 1800000 } }"#;

    #[test]
    fn the_example_of_the_manual_is_read() {
        let draft = read(EXAMPLE).unwrap();
        let rows = &draft.areas[0].rows;
        assert_eq!(rows[0].seats().count(), 24);
        assert!(matches!(rows[0].places[12], Place::Break));
        let drawn: Vec<&str> = rows[1]
            .places
            .iter()
            .map(|p| if let Place::Seat(s) = p { s.label.as_str() } else { "|" })
            .collect();
        assert_eq!(drawn, ["|", "1", "2", "|", "|", "3"]);
    }

    #[test]
    fn what_is_written_reads_back_as_the_same_show() {
        let draft = read(EXAMPLE).unwrap();
        let text = write(&draft).unwrap();
        assert!(text.contains(r#""seats":"1-12,|,13-24""#), "{text}");
        assert!(text.contains(r#""tier":"gold","seats":[null,{"label":"1"}"#), "{text}");
        assert!(!text.contains("holds_per_user"), "{text}");
        assert_eq!(read(&text).unwrap(), draft);
        assert_eq!(testdata::accepted(&text), 27);
    }

    #[test]
    fn the_short_form_keeps_order_jumps_and_breaks() {
        for form in ["1-3", "7", "|,1-2,|,|,5,9-12,|", "2,4,6,|,1,3", "1-2,2", "4294967295"] {
            let row = format!(
                r#"{{"areas":[{{"id":"a","rows":[{{"label":"A","rank":1,"tier":"t","seats":"{form}"}}]}}]}}"#
            );
            assert_eq!(write_short(&read(&row).unwrap().areas[0].rows[0]).as_deref(), Some(form));
        }
    }

    #[test]
    fn labels_that_are_no_plain_numbers_are_listed() {
        let row = r#"{"areas":[{"id":"a","rows":[{"label":"A","rank":1,"tier":"t","seats":[{"label":"01"},{"label":"02"}]}]}]}"#;
        let written = write(&read(row).unwrap()).unwrap();
        assert!(written.contains(r#""seats":[{"label":"01"},{"label":"02"}]"#), "{written}");
    }

    #[test]
    fn errors_name_the_place() {
        let error = |text: &str| format!("{:#}", read(text).unwrap_err());
        assert!(
            error(r#"{"areas":[{"id":"a","rows":[{"label":"A","seats":"1"}]}]}"#)
                .contains("areas[0].rows[0]")
        );
        let none = error(r#"{"areas":[{"id":"a","rows":[{"label":"A","rank":1,"seats":"1"}]}]}"#);
        assert!(none.contains("areas[0].rows[0]: seat '1' has no tier"), "{none}");
        for form in ["", "1,,2", "1-", "a-b", "01-12", "1-99999"] {
            let row = format!(
                r#"{{"areas":[{{"id":"a","rows":[{{"label":"A","rank":1,"tier":"t","seats":"{form}"}}]}}]}}"#
            );
            assert!(error(&row).contains("areas[0].rows[0].seats"), "{form}");
        }
        assert!(error(r#"{"areas":[],"limit":{}}"#).contains("limit"));
        assert!(error("{} {}").contains("seating plan"));
    }
}
