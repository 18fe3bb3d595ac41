//! Reads numbers from a text with one number per line, or from a column of a table.

use std::collections::HashSet;

use anyhow::{Context, Result};
use clap::ValueEnum;

/// A format of files of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One number per line.
    Text,
    /// A table with a column of numbers.
    Csv,
}

/// The contents of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// The numbers, each once, in the order of the file.
    pub numbers: Vec<String>,
    /// Number of repetitions.
    pub repeated: usize,
    /// Problems: every field that is no number, with its line.
    pub problems: Vec<String>,
}

/// Reads a file. With `strip`, spaces, dots, dashes, slashes and parentheses inside of numbers are left out.
pub fn read(text: &str, format: Format, column: &str, strip: bool) -> Result<Contents> {
    let text = text.trim_start_matches('\u{feff}');
    let mut contents = Contents::default();
    let mut seen = HashSet::new();
    let mut take = |line: u64, field: &str| {
        let field = field.trim();
        if field.is_empty() {
            return;
        }
        let punctuation = |c: &char| !strip || !matches!(c, ' ' | '\u{a0}' | '.' | '-' | '/' | '(' | ')');
        let number: String = field.chars().filter(punctuation).collect();
        if !is_number(&number) {
            contents.problems.push(format!("line {line}: '{}' is no number", field.escape_debug()));
        } else if seen.insert(number.clone()) {
            contents.numbers.push(number);
        } else {
            contents.repeated += 1;
        }
    };
    match format {
        Format::Text => text.lines().zip(1..).for_each(|(field, line)| take(line, field)),
        Format::Csv => {
            let mut reader = ::csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
            let header = reader.headers().context("line 1")?;
            let place = header.iter().position(|name| name.trim().eq_ignore_ascii_case(column));
            let place = place.with_context(|| {
                let names: Vec<&str> = header.iter().collect();
                format!("line 1: no column '{column}' among {}; --column names another", names.join(", "))
            })?;
            for record in reader.records() {
                let record = record.context("not a table")?;
                let line = record.position().map_or(0, ::csv::Position::line);
                take(line, record.get(place).unwrap_or_default());
            }
        }
    }
    Ok(contents)
}

/// Whether the module accepts this text as a number: 1 to 32 characters of `0-9 + * #`.
fn is_number(text: &str) -> bool {
    (1..=32).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit() || b"+*#".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_a_number_a_line() {
        let found =
            read("\u{feff}138\n\n +49170 \r\n138\n*#06#\nbob\n", Format::Text, "number", false).unwrap();
        assert_eq!(found.numbers, ["138", "+49170", "*#06#"]);
        assert_eq!(found.repeated, 1);
        assert_eq!(found.problems, ["line 6: 'bob' is no number"]);
    }

    #[test]
    fn punctuation_is_removed_on_request() {
        let found = |strip| read("+49 (170) 12-34.5/6", Format::Text, "number", strip).unwrap();
        assert_eq!(found(true).numbers, ["+49170123456"]);
        assert_eq!(found(false).problems.len(), 1);
    }

    #[test]
    fn a_table_has_a_column_of_numbers() {
        let table = "site,Number\nmain,138\nside,\nother\nmain,139\n";
        assert_eq!(read(table, Format::Csv, "number", false).unwrap().numbers, ["138", "139"]);
        assert!(read(table, Format::Csv, "dn", false).unwrap_err().to_string().contains("--column"));
    }

    #[test]
    fn accepted_numbers_are_those_of_the_module() {
        for text in ["1", "", "+*#", "a", "12 3", &"1".repeat(32), &"1".repeat(33), "١٢"] {
            let module = allot_core::numpool::Number::parse(text.as_bytes()).is_some();
            assert_eq!(is_number(text), module, "{text}");
        }
    }
}
