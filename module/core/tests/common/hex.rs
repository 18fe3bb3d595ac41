//! Bytes as text, for files of bytes that are kept for good.

use std::fmt::Write as _;

/// Lines of forty bytes each, in hexadecimal digits.
pub(crate) fn lines(bytes: &[u8]) -> String {
    let mut text = String::new();
    for line in bytes.chunks(40) {
        line.iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
        text.push('\n');
    }
    text
}
