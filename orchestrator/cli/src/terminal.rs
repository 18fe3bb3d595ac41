//! All that commands print goes through here. Names and the output of runners come from other people, and may hold
//! sequences that move a terminal's cursor or hide text: control characters are written as `\uXXXX`, which in JSON is the
//! same value.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use unicode_width::UnicodeWidthStr as _;

/// Whether the process began without a standard output, `>&-`.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// The standard library opens /dev/null in the place of a closed standard output before it calls `main`. What is written
/// there is lost without an error, so that only a look before that can tell.
#[used]
#[allow(unsafe_code, reason = "the section whose functions run before `main`")]
// SAFETY: the section takes functions of this form. This one asks the system about a descriptor, and sets a flag.
#[unsafe(link_section = ".init_array")]
static LOOK_BEFORE_MAIN: extern "C" fn() = {
    extern "C" fn look() {
        IS_CLOSED.store(rustix::io::fcntl_getfd(io::stdout()).is_err(), Ordering::Relaxed);
    }
    look
};

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

/// Standard output. To write to one that is closed is an error.
pub(crate) struct Standard;

impl Write for Standard {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if IS_CLOSED.load(Ordering::Relaxed) {
            return Err(io::Error::other("it is closed"));
        }
        io::stdout().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}

/// Standard output, buffered. Whoever writes names and other values escapes them first.
pub(crate) fn output() -> BufWriter<Standard> {
    BufWriter::with_capacity(1 << 16, Standard)
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

/// The columns and lines of the terminal on standard output; `None` where that is no terminal.
pub(crate) fn size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok().filter(|_| io::stdout().is_terminal())?;
    let or = |told: u16, usual| if told > 0 { usize::from(told) } else { usual };
    Some((or(size.ws_col, 80), or(size.ws_row, 24)))
}

/// Breaks a text between words, so that no line is wider than the terminal. The lines are `indent` cells to the right of
/// its left edge; the first one stands there already. A wider word has a line of its own.
pub(crate) fn folded(text: &str, indent: usize, width: Option<usize>) -> String {
    let Some(width) = width else { return text.to_owned() };
    let (mut folded, mut used) = (String::new(), indent);
    for word in text.split(' ') {
        if used > indent && used + 1 + word.width() > width {
            let _ = write!(folded, "\n{:indent$}", "");
            used = indent;
        } else if used > indent {
            folded.push(' ');
            used += 1;
        }
        folded += word;
        used += word.width();
    }
    folded
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
    fn texts_are_folded_between_words() {
        assert_eq!(folded("ab 田中 cdefgh ij", 2, Some(10)), "ab 田中\n  cdefgh\n  ij");
        assert_eq!(folded("a-word-too-long b", 2, Some(6)), "a-word-too-long\n  b");
        assert_eq!(folded("ab cd", 9, None), "ab cd");
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
