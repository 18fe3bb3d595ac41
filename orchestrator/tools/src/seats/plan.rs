//! Reads the plan of a show in the module's own format, by the module's own code.

use allot_core::seat::labels::parse_short_form;
use allot_core::seat::plan::{Plan, PlanRow, PlanSeat, PlanSeats, parse};
use allot_core::shared::refusal::Refusal;
use anyhow::{Context, Result, anyhow};
use serde::Deserialize;

use super::draft::{Area, Draft, Row, Seat};

/// The file that `allot show export --format json` writes.
#[derive(Deserialize)]
struct Export {
    plan: serde_json::Value,
}

/// Reads a plan, also from an export; an error names the place in it.
pub(super) fn read(text: &str) -> Result<Draft> {
    // An export has the plan beside the seats.
    let export: Option<Export> = serde_json::from_str(text).ok();
    let text = export.map_or_else(|| text.to_owned(), |export| export.plan.to_string());
    let plan: Plan = parse(text.as_bytes())
        .map_err(|refusal| anyhow!(refusal.text))
        .context("not a seating plan (see docs/seats.md, section The plan)")?;
    let mut areas = Vec::with_capacity(plan.areas.len());
    for (number, area) in plan.areas.into_iter().enumerate() {
        let rows = area.rows.into_iter().enumerate();
        let rows = rows.map(|(row_number, row)| read_row(row, format!("areas[{number}].rows[{row_number}]")));
        let name = area.name.unwrap_or_else(|| area.id.clone());
        let rows = rows.collect::<Result<_>>()?;
        let (id, priority, rule, focus) = (area.id, area.priority, area.rule, area.focus);
        areas.push(Area { id, name, priority, rule, focus, standing: (area.standing, area.tier), rows });
    }
    let (limits, events, focus) = (plan.limits, plan.events, plan.focus);
    Ok(Draft { areas, limits, events, focus, lists_breaks: true, ..Draft::default() })
}

fn read_row(row: PlanRow, place: String) -> Result<Row> {
    let seats = match &row.seats {
        PlanSeats::List(seats) => seats.clone(),
        PlanSeats::Short(text) => {
            let labels = parse_short_form(text).map_err(|what| anyhow!("{place}.seats: {what}"))?;
            let seat = |label| PlanSeat { label, id: None, tier: None, flags: Vec::new() };
            labels.into_iter().map(|label| label.map(seat)).collect()
        }
    };
    let of_plan = |refusal: Refusal| anyhow!("{}", refusal.text.trim_start_matches("plan: "));
    let places = row.places(seats.len(), &|| place.clone()).map_err(of_plan)?;
    let point = |at: usize| places.map(|places| places.point(at));
    let seat = |at: usize, mut plan: PlanSeat| {
        plan.tier = plan.tier.or_else(|| row.tier.clone());
        Seat { plan, at: point(at), sold: false, order: None, line: None }
    };
    let positions = seats.into_iter().enumerate();
    let positions = positions.map(|(at, position)| position.map(|plan| seat(at, plan))).collect();
    Ok(Row { label: row.label, rank: row.rank, source: place, positions })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = r#"{ "areas": [
      { "id": "stalls", "name": "Stalls", "priority": 2, "rule": "center",
        "rows": [ { "label": "A", "rank": 1, "tier": "gold", "seats": "1-12,|,13-24" },
                  { "label": "B", "rank": 2, "seats": [ null, {"label": "1", "tier": "gold"},
                    {"label": "2", "tier": "gold", "flags": ["wheelchair"]}, null, null, {"label": "3", "tier": "silver"} ] } ] } ],
      "limits": { "seats_per_user": 6, "max_hold_ms": 1800000 } }"#;

    fn problems(text: &str) -> String {
        match read(text) {
            Err(error) => format!("{error:#}"),
            Ok(draft) => draft.build().unwrap_err().join("\n"),
        }
    }

    #[test]
    fn the_example_of_the_manual_is_read() {
        let draft = read(EXAMPLE).unwrap();
        let rows = &draft.areas[0].rows;
        assert_eq!(rows[0].seats().count(), 24);
        assert_eq!(rows[0].positions[12], None);
        let label =
            |seat: &Option<Seat>| seat.as_ref().map_or("|".to_owned(), |seat| seat.plan.label.clone());
        assert_eq!(rows[1].positions.iter().map(label).collect::<String>(), "|12||3");
    }

    #[test]
    fn plan_is_sent_as_the_module_reads_the_file() {
        let (sent, plan) =
            (read(EXAMPLE).unwrap().build().unwrap(), parse::<Plan>(EXAMPLE.as_bytes()).unwrap());
        assert_eq!(sent.plan(), allot_core::seat::Show::new(&plan, 0).unwrap().plan());
        assert_eq!(read(&sent.plan_json()).unwrap().build().unwrap().plan(), sent.plan());
    }

    #[test]
    fn hold_of_more_than_seven_weeks_is_accepted_as_by_the_module() {
        let plan = EXAMPLE.replace("1800000", "5000000000");
        assert_eq!(read(&plan).unwrap().build().unwrap().limits().max_hold_ms, 5_000_000_000);
        assert!(problems(&EXAMPLE.replace("1800000", "500000000000")).contains("ten years"));
    }

    #[test]
    fn more_flags_than_the_module_takes_are_refused() {
        let flags: Vec<String> = (0..70).map(|number| format!("\"f{number}\"")).collect();
        let problem = problems(&EXAMPLE.replace("\"wheelchair\"", &flags.join(",")));
        assert_eq!(problem, "areas[0].rows[1].seats[2]: the plan has more than 64 flags");
    }

    #[test]
    fn errors_name_the_place() {
        let plan = |row: &str| format!(r#"{{"areas":[{{"id":"a","rows":[{{"label":"A",{row}}}]}}]}}"#);
        assert!(problems(&plan(r#""seats":"1""#)).contains("areas[0].rows[0]"));
        let none = problems(&plan(r#""rank":1,"seats":"1""#));
        assert_eq!(none, "areas[0].rows[0].seats[0]: has no tier, and its row has none");
        for form in ["", "1,,2", "1-", "a-b", "01-12", "1-99999"] {
            let problem = problems(&plan(&format!(r#""rank":1,"tier":"t","seats":"{form}""#)));
            assert!(problem.contains("areas[0].rows[0].seats"), "{form}: {problem}");
        }
        let places = problems(&plan(r#""rank":1,"tier":"t","seats":"1-3","at":[0,0]"#));
        assert_eq!(places, "areas[0].rows[0]: has only one of at and step; write both");
        assert!(problems(r#"{"areas":[],"limit":{}}"#).contains("limit"));
        assert!(problems("{} {}").contains("seating plan"));
    }
}
