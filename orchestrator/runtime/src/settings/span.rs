//! A length of time as people write it: `500ms`, `4s`, `2m`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

/// The longest length of time. Its sum with the current time is far from an overflow.
const MAX_LENGTH: Duration = Duration::from_secs(1000 * 31_557_600);

/// A length of time, written as a number and a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Span(pub Duration);

impl Span {
    /// A length of time in milliseconds.
    pub const fn ms(ms: u64) -> Self {
        Self(Duration::from_millis(ms))
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let length = humantime::parse_duration(text).map_err(|error| {
            format!("'{text}' is no length of time ({error}); write a number and a unit, e.g. 500ms, 4s, 2m")
        })?;
        if length > MAX_LENGTH {
            return Err(format!("'{text}' is longer than 1000 years"));
        }
        Ok(Self(length))
    }
}

impl TryFrom<String> for Span {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(self.0).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_time_is_a_number_and_a_unit() {
        assert_eq!("500ms".parse(), Ok(Span::ms(500)));
        assert_eq!("4s".parse(), Ok(Span::ms(4000)));
        assert_eq!("1m 30s".parse(), Ok(Span::ms(90_000)));
        assert!("4".parse::<Span>().unwrap_err().contains("e.g. 500ms"));
        assert!("-4s".parse::<Span>().is_err());
        assert!("1000years".parse::<Span>().is_ok());
        for long in ["1001years", "500000000000years"] {
            assert!(long.parse::<Span>().unwrap_err().contains("1000 years"), "{long}");
        }
        assert_eq!(Span::ms(1500).to_string(), "1s 500ms");
    }
}
