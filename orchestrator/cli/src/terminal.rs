//! All that commands print goes through here. Names and the output of runners come from other people, and may hold
//! sequences that move a terminal's cursor or hide text: control characters are written as `\uXXXX`, which in JSON is the
//! same value.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, BufWriter, IsTerminal as _, Write as _};

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
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    escaped_where(text, |character| is_hidden(character) && !matches!(character, '\n' | '\t'))
}

/// One value within a line: as [`escaped`], and without ends of lines and tabs.
pub(crate) fn value(text: &str) -> Cow<'_, str> {
    escaped_where(text, is_hidden)
}

/// Writes a line to standard error, escaped. If standard error is gone, there is nobody to tell.
pub(crate) fn note(text: &str) {
    let _ = io::stderr().lock().write_all(format!("{}\n", escaped(text)).as_bytes());
}

/// Standard output, buffered. Whoever writes names and other values escapes them first.
pub(crate) fn output() -> BufWriter<io::Stdout> {
    BufWriter::with_capacity(1 << 16, io::stdout())
}

/// The command line of this process, as a shell takes it.
pub(crate) fn command_line() -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_./:=,@%+-".contains(letter);
    let quoted = |word: String| {
        let is_plain = !word.is_empty() && word.chars().all(is_plain);
        if is_plain { word } else { format!("'{}'", word.replace('\'', "'\\''")) }
    };
    let words = std::env::args_os().skip(1).map(|word| quoted(word.to_string_lossy().into_owned()));
    std::iter::once("allot".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// The columns of the terminal on standard output; `None` where that is no terminal.
pub(crate) fn width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok().filter(|_| io::stdout().is_terminal())?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0).or(Some(80))
}

/// Reads a line from the terminal on standard input; `None` where that is no terminal.
pub(crate) fn ask(question: &str) -> Option<String> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return None;
    }
    let _ = io::stderr().lock().write_all(escaped(question).as_bytes());
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).ok()?;
    Some(answer)
}

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
        for path in all.iter().filter(|path| !path.ends_with("terminal.rs")) {
            let text = std::fs::read_to_string(path).expect("a file");
            for raw in ["println!(", " print!(", "eprint!(", "io::stdout()", "io::stderr()"] {
                assert!(!text.contains(raw), "{} prints with {raw}", path.display());
            }
        }
    }
}
