//! Seating plans in files and caches: their formats, the draft of a show that they give, and its creation.

pub mod caches;
mod create;
mod csv;
mod difference;
pub mod draft;
#[cfg(test)]
mod drawings;
mod focus;
pub mod places;
mod plan;
mod plan_order;
mod pretix;
pub mod side;
mod stage;
#[cfg(test)]
mod testdata;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

pub use create::{create, hash_tag};
pub use difference::Difference;
use draft::Draft;
pub use plan_order::PlanOrder;

use crate::table::Problems;

/// A format of seating plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// The module's own, JSON.
    Plan,
    /// A seating plan of pretix, JSON.
    Pretix,
    /// A table: area,row,seat,tier and perhaps break_after, id, state, order, x and y.
    Csv,
}

impl Format {
    /// Reads a file of this format, with the problems of its lines.
    pub fn read(self, text: &str) -> Result<(Draft, Problems)> {
        let text = text.trim_start_matches('\u{feff}');
        match self {
            Self::Plan => plan::read(text).map(|draft| (draft, Problems::default())),
            Self::Pretix => pretix::read(text).map(|draft| (draft, Problems::default())),
            Self::Csv => csv::read(text),
        }
    }

    /// The format of a text: a table, or JSON, by its first level.
    pub fn guess(text: &str) -> Result<Self> {
        let text = text.trim_start_matches('\u{feff}');
        if !text.trim_start().starts_with('{') {
            let header = text.lines().next().unwrap_or_default().to_ascii_lowercase();
            if header.contains("area") && header.contains([',', ';', '\t']) {
                return Ok(Self::Csv);
            }
            bail!("neither JSON nor a table with a column 'area'; --from says what it is");
        }
        let json: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(text).context("not JSON")?;
        if json.contains_key("zones") {
            Ok(Self::Pretix)
        } else if json.contains_key("areas") || json.contains_key("plan") {
            Ok(Self::Plan)
        } else {
            bail!("JSON without 'areas' (a plan) or 'zones' (pretix)")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_guessed_from_the_content() {
        let guess = |text: &str| Format::guess(text).map_err(|e| e.to_string());
        assert_eq!(guess("Area;row\n"), Ok(Format::Csv));
        assert_eq!(guess(r#" {"zones":[]}"#), Ok(Format::Pretix));
        assert_eq!(guess(r#"{"areas":[]}"#), Ok(Format::Plan));
        assert_eq!(guess("\u{feff}{\"areas\":[]}"), Ok(Format::Plan));
        let plan = "\u{feff}{\"areas\":[{\"id\":\"a\",\"rows\":[{\"label\":\"1\",\"rank\":1,\"tier\":\"t\",\"seats\":\"1-3\"}]}]}";
        assert_eq!(Format::Plan.read(plan).unwrap().0.seats().count(), 3);
        assert!(guess("{}").unwrap_err().contains("'zones'"));
        assert!(guess("{").unwrap_err().contains("not JSON"));
        assert!(guess("hello").unwrap_err().contains("--from"));
    }
}
