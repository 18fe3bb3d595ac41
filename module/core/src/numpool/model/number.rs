//! A telephone number: 1 to 32 characters of `0-9 + * #`, in sixteen bytes.

use smallvec::SmallVec;

/// The most characters of a number.
pub const MAX_LEN: usize = 32;

/// The characters, in the order of their codes; a number keeps their places here, from 1.
const SYMBOLS: &[u8; 13] = b"#*+0123456789";

/// Stands for a code that no character has; `unpacked` meets such in damaged bytes, and refuses the text.
const NO_SYMBOL: u8 = b'?';

/// A number, four bits a character from the most significant on, 0 behind the last. So numbers are in the order of
/// their texts, and those with one prefix follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Number(u128);

/// The text of a number.
pub type Text = SmallVec<[u8; MAX_LEN]>;

/// Place of a character in `SYMBOLS`, from 1; 0 for any other.
const fn code(byte: u8) -> u8 {
    match byte {
        b'#' => 1,
        b'*' => 2,
        b'+' => 3,
        b'0'..=b'9' => byte - b'0' + 4,
        _ => 0,
    }
}

impl Number {
    /// Before all numbers.
    pub(in crate::numpool) const LEAST: Self = Self(0);

    /// The number of a text; `None` for a text that is none. O(characters).
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text.is_empty() || text.len() > MAX_LEN {
            return None;
        }
        let mut bits = 0u128;
        for &byte in text {
            let code = code(byte);
            if code == 0 {
                return None;
            }
            bits = bits << 4 | u128::from(code);
        }
        Some(Self(bits << (4 * (MAX_LEN - text.len()))))
    }

    /// Whether a word is made as a number is, of any length: the keywords of a command never are.
    pub fn is_like(text: &[u8]) -> bool {
        text.first().is_some_and(|&byte| code(byte) > 0)
    }

    /// Its text.
    pub fn text(self) -> Text {
        let mut text = [0; MAX_LEN];
        let mut len = 0;
        let mut bits = self.0;
        for byte in &mut text {
            if bits == 0 {
                break;
            }
            len += 1;
            let code = (bits >> 124) as usize;
            let symbol = code.checked_sub(1).and_then(|at| SYMBOLS.get(at));
            *byte = symbol.copied().unwrap_or(NO_SYMBOL);
            bits <<= 4;
        }
        Text::from_buf_and_len(text, len)
    }

    /// The least and the greatest number that begin with this one.
    pub fn beginning_with(self) -> (Self, Self) {
        let unused = self.0.trailing_zeros() / 4 * 4;
        let rest = if unused == 0 { 0 } else { u128::MAX >> (128 - unused) };
        (self, Self(self.0 | rest))
    }

    /// All prefixes of the number, the shortest first; the number itself is the last.
    pub(in crate::numpool) fn prefixes(self) -> impl Iterator<Item = Self> {
        let len = 32 - self.0.trailing_zeros() / 4;
        (1..=len).map(move |characters| Self(self.0 & (u128::MAX << (128 - 4 * characters))))
    }

    /// Its bytes as far as they are used, two characters each, and how many these are.
    pub(in crate::numpool) fn packed(self) -> ([u8; 16], usize) {
        let used = 128 - self.0.trailing_zeros() as usize;
        (self.0.to_be_bytes(), used.div_ceil(8).min(16))
    }

    /// The number of bytes that `packed` gave; `None` for others.
    pub(in crate::numpool) fn unpacked(bytes: &[u8]) -> Option<Self> {
        let mut all = [0; 16];
        all.get_mut(..bytes.len())?.copy_from_slice(bytes);
        let number = Self(u128::from_be_bytes(all));
        let text = number.text();
        (Self::parse(&text) == Some(number) && number.packed().1 == bytes.len()).then_some(number)
    }

    /// Its sixteen bytes as a number.
    pub(in crate::numpool) fn bits(self) -> u128 {
        self.0
    }

    /// The number of these bits, which `bits` gave.
    pub(in crate::numpool) fn of_bits(bits: u128) -> Self {
        Self(bits)
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.text().iter().try_for_each(|&byte| write!(f, "{}", char::from(byte)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_its_text(a in "[0-9+*#]{1,32}", b in "[0-9+*#]{1,32}") {
            let (x, y) = (Number::parse(a.as_bytes()).unwrap(), Number::parse(b.as_bytes()).unwrap());
            prop_assert_eq!(x.to_string(), a.clone());
            prop_assert_eq!(x.cmp(&y), a.cmp(&b));
            let begins_with = |prefix: Number| {
                let (least, greatest) = prefix.beginning_with();
                (least..=greatest).contains(&x)
            };
            prop_assert_eq!(begins_with(y), a.starts_with(&b));
            let head = Number::parse(&a.as_bytes()[..a.len().div_ceil(2)]).unwrap();
            prop_assert!(begins_with(head));
            let prefixes: Vec<String> = x.prefixes().map(|prefix| prefix.to_string()).collect();
            let expected: Vec<String> = (1..=a.len()).map(|len| a[..len].to_owned()).collect();
            prop_assert_eq!(prefixes, expected);
            let (bytes, used) = x.packed();
            prop_assert_eq!(Number::unpacked(&bytes[..used]), Some(x));
        }

        #[test]
        fn what_is_no_number_is_refused(text in any::<Vec<u8>>()) {
            let good = !text.is_empty() && text.len() <= 32 && text.iter().all(|byte| b"0123456789+*#".contains(byte));
            prop_assert_eq!(Number::parse(&text).is_some(), good);
            if let Some(number) = Number::unpacked(&text) {
                let (bytes, used) = number.packed();
                prop_assert_eq!(&bytes[..used], &text[..]);
            }
        }
    }
}
