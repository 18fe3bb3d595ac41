//! Single words of a call: keywords, identifiers and numbers, and the error messages about them.

use allot_core::shared::MAX_IDENTIFIER;
use allot_core::shared::refusal::{Code, Refusal};
use allot_core::shared::text::quoted;

/// A refusal of a malformed call.
pub(super) fn fault(text: impl Into<String>) -> Refusal {
    Refusal::new(Code::Err, text)
}

/// A refusal because words are missing.
pub(super) fn wrong_number(words: &[&[u8]]) -> Refusal {
    let command = String::from_utf8_lossy(words.first().copied().unwrap_or_default()).to_lowercase();
    Refusal::new(Code::Err, format!("wrong number of arguments for {} command", quoted(command)))
}

/// A refusal of a value that an option does not have.
pub(super) fn not_one_of(
    option: &[u8],
    value: &[u8],
    words: impl ExactSizeIterator<Item = &'static str>,
) -> Refusal {
    let mut list = String::new();
    let last = words.len().saturating_sub(1);
    for (place, word) in words.enumerate() {
        list.push_str(match place {
            0 => "",
            _ if place == last => " or ",
            _ => ", ",
        });
        list.push_str(word);
    }
    fault(format!("{} takes {list}, not {}", quoted(option), quoted(value)))
}

/// Whether a word is that keyword, in any case. Keywords are written in capitals.
#[inline]
pub(super) fn is(word: &[u8], keyword: &str) -> bool {
    let keyword = keyword.as_bytes();
    // Most options differ in their length or their first letter.
    word.len() == keyword.len()
        && word.first().map(u8::to_ascii_uppercase) == keyword.first().copied()
        && (word == keyword || word.eq_ignore_ascii_case(keyword))
}

/// Whether a word is 1 to 256 bytes long.
pub(super) fn is_identifier(word: &[u8]) -> bool {
    (1..=MAX_IDENTIFIER).contains(&word.len())
}

/// A whole number from 0 to 2^53: an epoch, a sequence number, a term, a cursor.
pub(crate) fn natural(what: &str, word: &[u8]) -> Result<u64, Refusal> {
    natural_number(word).ok_or_else(|| not_natural(what, word))
}

/// As `natural`, without a message. No time and no count is greater (docs/replication.md).
pub(super) fn natural_number(word: &[u8]) -> Option<u64> {
    let number = integer(word).and_then(|number| u64::try_from(number).ok());
    number.filter(|&number| number < 1 << 53)
}

/// A whole number, negative or not.
pub(crate) fn whole(what: &str, word: &[u8]) -> Result<i64, Refusal> {
    integer(word).ok_or_else(|| fault(format!("{what} must be a whole number, not {}", quoted(word))))
}

/// A refusal of a word that is no number from 0 to 2^53.
pub(super) fn not_natural(what: &str, word: &[u8]) -> Refusal {
    fault(format!("{what} must be a whole number from 0 to 2^53, not {}", quoted(word)))
}

/// A whole number as Redis reads one: decimal, no space, no plus, no leading zero.
pub(crate) fn integer(word: &[u8]) -> Option<i64> {
    let (negative, digits) = match word.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, word),
    };
    match *digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] => {}
        _ => return None,
    }
    // Downwards, since there is one more number below 0 than above.
    let value = digits.iter().try_fold(0i64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit < 10 { value.checked_mul(10)?.checked_sub(digit.into()) } else { None }
    })?;
    if negative { Some(value) } else { value.checked_neg() }
}
