//! Client bytes made fit for an error message or a log line, and numbers as text.

use smallvec::SmallVec;
use std::fmt::{Display, Write};

/// How many bytes of a client's text a message repeats.
const SHOWN: usize = 80;

/// `bytes` between single quotes, printable ASCII as it is and everything else as `\xNN`, cut after 80 bytes.
///
/// Error replies are one line of the protocol and pass through C strings on the way, so no byte of a client's
/// may reach them raw.
pub fn quoted(bytes: impl AsRef<[u8]>) -> String {
    let bytes = bytes.as_ref();
    let mut out = String::with_capacity(bytes.len().min(SHOWN) + 2);
    out.push('\'');
    push_printable(&mut out, bytes.get(..SHOWN).unwrap_or(bytes));
    if bytes.len() > SHOWN {
        out.push_str("...");
    }
    out.push('\'');
    out
}

/// Text of one or two numbers, without an allocation.
pub type Written = SmallVec<[u8; 48]>;

/// What a number is written as.
pub fn written(value: impl Display) -> Written {
    struct Text(Written);
    impl Write for Text {
        fn write_str(&mut self, part: &str) -> std::fmt::Result {
            self.0.extend_from_slice(part.as_bytes());
            Ok(())
        }
    }
    let mut text = Text(Written::new());
    // Writing to it cannot fail.
    let _ = write!(text, "{value}");
    text.0
}

/// A whole message made printable in the same way, uncut and unquoted.
pub fn printable(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    push_printable(&mut out, message.as_bytes());
    out
}

fn push_printable(out: &mut String, bytes: &[u8]) {
    for &byte in bytes {
        if (0x20..0x7f).contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_ascii_and_escapes_the_rest() {
        assert_eq!(quoted("A-1"), "'A-1'");
        assert_eq!(quoted("\u{100}\0\r\n"), "'\\xc4\\x80\\x00\\x0d\\x0a'");
    }

    #[test]
    fn it_cuts_long_text() {
        assert_eq!(quoted(vec![b'a'; 500]).len(), 80 + 5);
    }
}
