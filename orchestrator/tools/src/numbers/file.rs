//! Reads numbers from a text with one number per line, or from a column of a table, one after another.

use std::io::{BufRead as _, BufReader, Read};

use anyhow::Result;

use crate::table::Table;

enum Source<R> {
    Text(BufReader<R>, u64),
    Table(Box<Table<BufReader<R>>>),
}

/// The numbers of a file: each number, or what is wrong with its line.
pub struct Numbers<R> {
    source: Source<R>,
    strip: bool,
}

/// Begins to read a text with a number a line, or a table with this column of numbers. `strip` leaves out spaces, dots,
/// dashes, slashes and parentheses inside of numbers.
///
/// # Errors
/// The table lacks the column.
pub fn read<R: Read>(input: R, column: Option<&str>, strip: bool) -> Result<Numbers<R>> {
    let source = match column {
        None => Source::Text(BufReader::with_capacity(1 << 16, input), 0),
        Some(column) => Source::Table(Box::new(Table::open(input, &[column], 1, true)?)),
    };
    Ok(Numbers { source, strip })
}

impl<R: Read> Numbers<R> {
    /// The next line that is not empty.
    fn line(&mut self) -> Option<Result<(u64, String), String>> {
        match &mut self.source {
            Source::Text(input, line) => loop {
                *line += 1;
                let mut text = Vec::new();
                match input.read_until(b'\n', &mut text) {
                    Ok(0) => return None,
                    Err(error) => return Some(Err(format!("line {line}: {error}"))),
                    Ok(_) => {}
                }
                let text = String::from_utf8_lossy(&text);
                let text = text.trim_start_matches('\u{feff}').trim();
                if !text.is_empty() {
                    return Some(Ok((*line, text.to_owned())));
                }
            },
            Source::Table(table) => loop {
                match table.advance()? {
                    Err(why) => return Some(Err(why)),
                    Ok(_) if table.get(0).is_empty() => {}
                    Ok(line) => return Some(Ok((line, table.get(0).to_owned()))),
                }
            },
        }
    }
}

impl<R: Read> Iterator for Numbers<R> {
    type Item = Result<String, String>;

    fn next(&mut self) -> Option<Self::Item> {
        let (line, field) = match self.line()? {
            Ok(line) => line,
            Err(why) => return Some(Err(why)),
        };
        let punctuation =
            |c: &char| !self.strip || !matches!(c, ' ' | '\u{a0}' | '.' | '-' | '/' | '(' | ')');
        let number: String = field.chars().filter(punctuation).collect();
        if let Some(place) = fault(&number) {
            let shown: String = field.chars().take(40).collect();
            return Some(Err(format!(
                "line {line}, column {place}: '{}' is no number",
                shown.escape_debug()
            )));
        }
        Some(Ok(number))
    }
}

/// Where a text stops being a number, from 1; the module accepts 1 to 32 characters of `0-9 + * #`.
fn fault(text: &str) -> Option<usize> {
    let wrong = text.bytes().position(|byte| !byte.is_ascii_digit() && !b"+*#".contains(&byte));
    let long = (!(1..=32).contains(&text.len())).then_some(32);
    wrong.or(long).map(|place| place + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str, column: Option<&str>, strip: bool) -> Vec<Result<String, String>> {
        read(text.as_bytes(), column, strip).unwrap().collect()
    }

    #[test]
    fn a_text_has_a_number_a_line() {
        let found = all("\u{feff}138\n\n +49170 \r\n138\n*#06#\nbob\n", None, false);
        let numbers: Vec<&str> = found.iter().flatten().map(String::as_str).collect();
        assert_eq!(numbers, ["138", "+49170", "138", "*#06#"]);
        assert_eq!(found.last(), Some(&Err("line 6, column 1: 'bob' is no number".into())));
    }

    #[test]
    fn punctuation_is_removed_on_request() {
        let found = |strip| all("+49 (170) 12-34.5/6", None, strip);
        assert_eq!(found(true), [Ok("+49170123456".to_owned())]);
        assert!(found(false)[0].as_ref().unwrap_err().starts_with("line 1, column 4"));
    }

    #[test]
    fn a_table_has_a_column_of_numbers() {
        let table = "site;Number\nmain;138\nside;\nmain;139\nmain\n";
        let found = all(table, Some("number"), false);
        assert_eq!(found.len(), 3);
        assert_eq!(found[2], Err("line 5, column 2: 1 fields under 2 columns".into()));
        assert!(
            read(table.as_bytes(), Some("dn"), false)
                .map(drop)
                .unwrap_err()
                .to_string()
                .contains("no column 'dn'")
        );
    }

    #[test]
    fn accepted_numbers_are_those_of_the_module() {
        for text in ["1", "", "+*#", "a", "12 3", &"1".repeat(32), &"1".repeat(33), "١٢"] {
            let module = allot_core::numpool::Number::parse(text.as_bytes()).is_some();
            assert_eq!(fault(text).is_none(), module, "{text}");
        }
    }
}
