//! The side file adds to a foreign seating plan: priorities, rules and names of areas, corrections of single
//! seats, and limits.
//!
//! ```json
//! { "areas":  { "ground-floor": { "priority": 1, "rule": "ltr", "name": "Parkett" } },
//!   "seats":  { "ground-floor-A-1": { "tier": "gold", "flags": ["wheelchair"], "break_after": true } },
//!   "limits": { "seats_per_user": 6 } }
//! ```
//! Ids are the ids of the created show, after `--disambiguate`.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::draft::{Draft, Seat, seat_id};
use allot_core::seat::plan::{Limits, Rule};

/// The contents of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Side {
    #[serde(default)]
    areas: BTreeMap<String, AreaFix>,
    #[serde(default)]
    seats: BTreeMap<String, SeatFix>,
    limits: Option<Limits>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AreaFix {
    priority: Option<i32>,
    rule: Option<Rule>,
    name: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SeatFix {
    tier: Option<String>,
    flags: Option<Vec<String>>,
    break_after: Option<bool>,
}

/// Reads a side file; an error names the place in it.
pub fn read(text: &str) -> Result<Side> {
    let mut json = serde_json::Deserializer::from_str(text);
    let side = serde_path_to_error::deserialize(&mut json).context("not a side file")?;
    json.end().context("not a side file: there is more after its end")?;
    Ok(side)
}

impl Side {
    /// Changes the draft. Every area and seat that the file names must exist.
    pub fn apply(mut self, draft: &mut Draft) -> Result<()> {
        for area in &mut draft.areas {
            if let Some(fix) = self.areas.remove(&area.id) {
                area.priority = fix.priority.unwrap_or(area.priority);
                area.rule = fix.rule.unwrap_or(area.rule);
                area.name = fix.name.unwrap_or_else(|| std::mem::take(&mut area.name));
            }
        }
        if let Some(id) = self.areas.keys().next() {
            let known: Vec<&str> = draft.areas.iter().take(20).map(|area| area.id.as_str()).collect();
            bail!("side file: areas.{id}: there is no such area; there are: {}", known.join(", "));
        }
        self.fix_seats(draft);
        if let Some(id) = self.seats.keys().next() {
            bail!("side file: seats.{id}: there is no such seat in the plan");
        }
        draft.limits = self.limits.unwrap_or(draft.limits);
        Ok(())
    }

    fn fix_seats(&mut self, draft: &mut Draft) {
        if self.seats.is_empty() {
            return;
        }
        for area in &mut draft.areas {
            for row in &mut area.rows {
                let mut positions = std::mem::take(&mut row.positions).into_iter().peekable();
                while let Some(mut position) = positions.next() {
                    let mut fixed_break = None;
                    if let Some(Seat { plan: seat, .. }) = &mut position
                        && let Some(fix) = self.seats.remove(&seat_id(&area.id, &row.label, seat))
                    {
                        seat.tier = fix.tier.or_else(|| seat.tier.take());
                        seat.flags = fix.flags.unwrap_or_else(|| std::mem::take(&mut seat.flags));
                        fixed_break = fix.break_after;
                    }
                    row.positions.push(position);
                    match (fixed_break, positions.peek()) {
                        (Some(true), Some(Some(_))) => row.positions.push(None),
                        (Some(false), _) => while positions.next_if_eq(&None).is_some() {},
                        _ => {}
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan;
    use super::*;

    const PLAN: &str =
        r#"{"areas":[{"id":"a","name":"A","rows":[{"label":"1","rank":1,"tier":"t","seats":"1-3,|,4"}]}]}"#;

    fn fixed(side: &str) -> Result<String> {
        let mut draft = plan::read(PLAN)?;
        read(side)?.apply(&mut draft)?;
        Ok(draft.build().unwrap().plan_json())
    }

    #[test]
    fn areas_seats_and_limits_are_fixed() {
        let plan = fixed(
            r#"{"areas":{"a":{"priority":3,"rule":"rtl","name":"Arena"}},"limits":{"seats_per_user":4},
                "seats":{"a-1-1":{"break_after":true},"a-1-2":{"tier":"u","flags":["wheelchair"]},"a-1-3":{"break_after":false}}}"#,
        )
        .unwrap();
        assert!(plan.contains(r#""name":"Arena","priority":3,"rule":"rtl""#), "{plan}");
        assert!(plan.contains(r#"[{"label":"1","tier":"t"},null,{"label":"2","tier":"u","flags":["wheelchair"]},{"label":"3","tier":"t"},{"label":"4","tier":"t"}]"#), "{plan}");
        assert!(plan.contains(r#""limits":{"seats_per_user":4,"#), "{plan}");
    }

    #[test]
    fn fix_for_a_missing_place_is_refused() {
        let error = |side: &str| format!("{:#}", fixed(side).unwrap_err());
        assert!(error(r#"{"areas":{"b":{}}}"#).contains("areas.b: there is no such area; there are: a"));
        assert!(error(r#"{"seats":{"a-1-9":{}}}"#).contains("seats.a-1-9: there is no such seat"));
        assert!(error(r#"{"areas":{"a":{"rule":"up"}}}"#).contains("areas.a.rule"));
        assert!(error(r#"{"area":{}}"#).contains("area"));
    }
}
