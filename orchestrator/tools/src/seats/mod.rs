//! Seating plans in files and caches: their formats, the draft of a show that they give, and its creation.

pub mod caches;
mod create;
mod csv;
pub mod draft;
mod plan;
mod pretix;
pub mod side;
#[cfg(test)]
mod testdata;

use std::ffi::OsStr;
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

pub use create::create;
use draft::Draft;

/// A format of seating plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// The module's own, JSON.
    Plan,
    /// A seating plan of pretix, JSON.
    Pretix,
    /// A table: area,row,seat,tier and perhaps break_after and id.
    Csv,
}

impl Format {
    /// Reads a file of this format.
    pub fn read(self, text: &str) -> Result<Draft> {
        match self {
            Self::Plan => plan::read(text),
            Self::Pretix => pretix::read(text),
            Self::Csv => csv::read(text),
        }
    }

    /// The format of a file: by its extension, and of JSON by its first level.
    pub fn guess(path: &Path, text: &str) -> Result<Self> {
        let extension = path.extension().map(OsStr::to_ascii_lowercase);
        if extension.is_some_and(|extension| extension == "csv") {
            return Ok(Self::Csv);
        }
        if !text.trim_start().starts_with('{') {
            let header = text.lines().next().unwrap_or_default().to_ascii_lowercase();
            if header.contains("area") && header.contains(',') {
                return Ok(Self::Csv);
            }
            bail!("{}: neither JSON nor a table; --format says what it is", path.display());
        }
        let json: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(text).with_context(|| format!("{}: not JSON", path.display()))?;
        if json.contains_key("zones") {
            Ok(Self::Pretix)
        } else if json.contains_key("areas") || json.contains_key("plan") {
            Ok(Self::Plan)
        } else {
            bail!("{}: JSON without 'areas' (a plan) or 'zones' (pretix)", path.display())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_guessed_from_name_and_content() {
        let guess = |name: &str, text: &str| Format::guess(Path::new(name), text).map_err(|e| e.to_string());
        assert_eq!(guess("a.CSV", ""), Ok(Format::Csv));
        assert_eq!(guess("a", "Area,row\n"), Ok(Format::Csv));
        assert_eq!(guess("a.json", r#" {"zones":[]}"#), Ok(Format::Pretix));
        assert_eq!(guess("a.txt", r#"{"areas":[]}"#), Ok(Format::Plan));
        assert!(guess("a.json", "{}").unwrap_err().contains("'zones'"));
        assert!(guess("a.json", "{").unwrap_err().contains("not JSON"));
        assert!(guess("a.txt", "hello").unwrap_err().contains("--format"));
    }
}
