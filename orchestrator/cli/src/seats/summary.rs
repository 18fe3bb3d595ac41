//! Summarises a show in a few lines: areas, tiers, counts, problems.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter, Write as _};

use allot_tools::seats::draft::Rule;
use allot_tools::seats::draft::{Area, Draft, Row};

/// Problems beyond this many are only counted.
const SHOWN: usize = 20;

/// Prints a draft as a table.
pub(crate) struct Summary<'a>(pub(crate) &'a Draft);

impl Display for Summary<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let draft = self.0;
        let width = draft.areas.iter().map(|area| area.id.chars().count()).max().unwrap_or(0).max(4);
        writeln!(f, "{:<width$}  prio  rule    rows   seats  tiers", "area")?;
        for area in &draft.areas {
            let rule = match area.rule {
                Rule::Ltr => "ltr",
                Rule::Rtl => "rtl",
                Rule::Center => "center",
            };
            let seats: u64 = tiers(std::slice::from_ref(area)).values().sum();
            let (id, priority, rows) = (&area.id, area.priority, area.rows.len());
            write!(f, "{id:<width$}  {priority:>4}  {rule:<6}  {rows:>4}  {seats:>6}")?;
            writeln!(f, "  {}", listed(&tiers(std::slice::from_ref(area))))?;
        }
        let all = tiers(&draft.areas);
        let (areas, rows, seats) = (draft.areas.len(), draft.rows().count(), all.values().sum::<u64>());
        writeln!(f, "in all: {areas} areas, {rows} rows, {seats} seats: {}", listed(&all))?;
        match draft.seats().filter(|seat| seat.sold).count() {
            0 => Ok(()),
            sold => writeln!(f, "sold beforehand (gaps): {sold}"),
        }
    }
}

fn tiers(areas: &[Area]) -> BTreeMap<&str, u64> {
    let mut counts = BTreeMap::new();
    for (places, tier) in areas.iter().map(|area| &area.standing) {
        if let (Some(places), Some(tier)) = (places, tier) {
            *counts.entry(tier.as_str()).or_default() += u64::from(*places);
        }
    }
    for seat in areas.iter().flat_map(|area| &area.rows).flat_map(Row::seats) {
        *counts.entry(seat.plan.tier.as_deref().unwrap_or("(none)")).or_default() += 1;
    }
    counts
}

fn listed(tiers: &BTreeMap<&str, u64>) -> String {
    tiers.iter().map(|(tier, count)| format!("{tier} {count}")).collect::<Vec<_>>().join(", ")
}

/// Problems as text for people: the first ones, the number of all, and a way to solve them.
pub(crate) fn problems(problems: &[String]) -> String {
    let mut text =
        format!("{} {}:\n", problems.len(), if problems.len() == 1 { "problem" } else { "problems" });
    for problem in problems.iter().take(SHOWN) {
        let _ = writeln!(text, "  {problem}");
    }
    if let Some(more) = problems.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        let _ = writeln!(text, "  ... and {more} more");
    }
    if problems.iter().any(|problem| problem.contains("occurs")) {
        text += "names that occur twice can be numbered: --disambiguate\n";
    }
    text
}

/// Problems that the import solved, all of them: each says which seats are named differently than in the source.
pub(crate) fn notes(notes: &[String]) -> String {
    let mut text = format!("{} ids of the source were not kept:\n", notes.len());
    for note in notes {
        let _ = writeln!(text, "  {note}");
    }
    text
}

#[cfg(test)]
mod tests {
    use allot_tools::seats::Format;

    use super::*;

    #[test]
    fn a_summary_counts_areas_and_tiers() {
        let draft = Format::Csv.read("area,row,seat,tier\na,1,1,gold\na,1,2,silver\nb,1,1,gold\n").unwrap();
        let text = Summary(&draft).to_string();
        assert!(text.contains("in all: 2 areas, 2 rows, 3 seats: gold 2, silver 1"), "{text}");
        assert!(!text.contains("beforehand"), "{text}");
    }

    #[test]
    fn summary_of_a_plan_counts_standing_places() {
        let plan = r#"{"areas": [{"id": "floor", "standing": 5000, "tier": "pit"}]}"#;
        let draft = Format::Plan.read(plan).unwrap();
        assert!(draft.build().is_ok());
        let text = Summary(&draft).to_string();
        assert!(text.contains("in all: 1 areas, 0 rows, 5000 seats: pit 5000"), "{text}");
    }

    #[test]
    fn only_the_first_problems_are_listed_but_all_are_counted() {
        let many: Vec<String> = (0..25).map(|n| format!("id {n} occurs twice")).collect();
        let text = problems(&many);
        assert!(
            text.starts_with("25 problems:") && text.contains("id 19 ") && !text.contains("id 20 "),
            "{text}"
        );
        assert!(text.contains("and 5 more") && text.contains("--disambiguate"), "{text}");
    }
}
