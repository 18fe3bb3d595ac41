//! All that commands print goes through here. Names and the output of runners come from other people, and may hold
//! sequences that move a terminal's cursor or hide text: control characters are written as `\uXXXX`, which in JSON is the
//! same value.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

use anyhow::{Context, Result};

/// Characters that a terminal does not simply show: control characters, and marks that change the direction of text.
fn is_hidden(character: char) -> bool {
    let changes_direction = matches!(
        character,
        '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    character.is_control() || changes_direction
}

fn escaped_where(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_escaped(character) {
            // Writing to a string cannot fail. None of these characters is above U+FFFF.
            let _ = write!(out, "\\u{:04x}", u32::from(character));
        } else {
            out.push(character);
        }
    }
    Cow::Owned(out)
}

/// A text of several lines without anything that a terminal would obey.
fn escaped(text: &str) -> Cow<'_, str> {
    escaped_where(text, |character| is_hidden(character) && !matches!(character, '\n' | '\t'))
}

/// One value within a line: as [`escaped`], and without ends of lines and tabs.
pub(crate) fn value(text: &str) -> Cow<'_, str> {
    escaped_where(text, is_hidden)
}

/// Writes text or JSON to standard output, escaped.
pub(crate) fn write(text: &str) -> Result<()> {
    write_data(&escaped(text))
}

/// Writes to standard output as it is: a file for programs, or text with colours whose values were escaped. A reader that
/// closes the pipe early, such as `head`, is no error.
pub(crate) fn write_data(text: &str) -> Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("standard output"),
    }
}

/// Writes to standard output, escaped, as `print!` does; an output that is gone is no reason to stop.
pub(crate) fn print(text: &str) {
    let _ = write(text);
}

/// Writes to standard error, escaped.
pub(crate) fn print_error(text: &str) {
    let _ = io::stderr().lock().write_all(escaped(text).as_bytes());
}

/// As `println!`, escaped.
macro_rules! outln {
    ($($text:tt)*) => { $crate::terminal::print(&format!("{}\n", format_args!($($text)*))) };
}

/// As `print!`, escaped.
macro_rules! out {
    ($($text:tt)*) => { $crate::terminal::print(&format!($($text)*)) };
}

/// As `eprintln!`, escaped.
macro_rules! errln {
    ($($text:tt)*) => { $crate::terminal::print_error(&format!("{}\n", format_args!($($text)*))) };
}
pub(crate) use {errln, out, outln};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_sequence_reaches_the_terminal() {
        let hostile = "a\u{1b}[2J\u{9b}31m\r\u{7}\u{202e}b\u{7f}\nc\tz";
        assert_eq!(escaped(hostile), "a\\u001b[2J\\u009b31m\\u000d\\u0007\\u202eb\\u007f\nc\tz");
        assert_eq!(value("a\nb\tc"), "a\\u000ab\\u0009c");
        assert!(matches!(escaped("zoë — 東京"), Cow::Borrowed(_)));
    }

    #[test]
    fn json_keeps_its_value() {
        let value = serde_json::json!({"name\u{9b}": "a\u{1b}[2J\u{85}\u{202e}\n"});
        let written = value.to_string();
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped(&written)).ok(), Some(value));
    }

    /// Whether a file of the command line prints without this module.
    #[test]
    fn everything_is_printed_here() {
        fn files(dir: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
            for entry in std::fs::read_dir(dir).expect("a folder").flatten() {
                let path = entry.path();
                if path.is_dir() { files(&path, found) } else { found.push(path) }
            }
        }
        let mut all = Vec::new();
        files(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut all);
        for path in all.iter().filter(|path| !path.ends_with("terminal.rs") && !path.ends_with("testdata.rs"))
        {
            let text = std::fs::read_to_string(path).expect("a file");
            for raw in ["println!(", " print!(", "eprint!(", "io::stdout().lock()", "io::stderr().lock()"] {
                assert!(!text.contains(raw), "{} prints with {raw}", path.display());
            }
        }
    }
}
