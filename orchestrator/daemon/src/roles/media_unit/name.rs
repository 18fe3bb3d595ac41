//! Names of conferences as text. A name may have any bytes; inside the unit, and in its log, it is a text from which
//! these bytes can be read back.

use std::fmt::Write as _;

use allot_runtime::invariant;

/// A name as text: bytes that are not UTF-8, and `\`, are written as `\xNN`.
pub(crate) fn text(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    let escaped = |text: &mut String, byte: u8| {
        // Writing to a String cannot fail.
        let _ = write!(text, "\\x{byte:02x}");
    };
    for chunk in name.utf8_chunks() {
        for (at, part) in chunk.valid().split('\\').enumerate() {
            if at > 0 {
                escaped(&mut text, b'\\');
            }
            text.push_str(part);
        }
        chunk.invalid().iter().for_each(|&byte| escaped(&mut text, byte));
    }
    text
}

/// The bytes of a name that `text` wrote.
pub(crate) fn bytes(text: &str) -> Vec<u8> {
    let mut parts = text.split("\\x");
    let mut name = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let byte = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        invariant(byte.is_some(), "two digits follow each escape");
        name.extend(byte);
        name.extend_from_slice(part.get(2..).unwrap_or_default().as_bytes());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_can_be_read_back_from_its_text() {
        let names: [(&[u8], &str); 6] = [
            (b"4930123", "4930123"),
            ("münchen".as_bytes(), "münchen"),
            (b"\xff7\x00", "\\xff7\0"),
            (b"a\\b\\", "a\\x5cb\\x5c"),
            (b"\\xff", "\\x5cxff"),
            (b"\xc3", "\\xc3"),
        ];
        for (name, expected) in names {
            assert_eq!(text(name), expected);
            assert_eq!(bytes(expected), name, "{expected}");
        }
    }
}
