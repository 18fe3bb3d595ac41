//! A time zone by its name in the IANA database.

use std::str::FromStr;

use jiff::tz::TimeZone;
use serde::Deserialize;

/// The time zone of this name: one of the IANA database, or `UTC`. `Err` holds the reason for people.
pub fn time_zone(name: &str) -> Result<TimeZone, String> {
    TimeZone::get(name).map_err(|_| {
        format!("'{name}' is no time zone; write one as the IANA database has it, e.g. Europe/Berlin, or UTC")
    })
}

/// The name of a time zone in the IANA database.
pub fn zone_name(zone: &TimeZone) -> &str {
    zone.iana_name().unwrap_or("UTC")
}

/// A time zone as a setting.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub struct Zone(pub(super) TimeZone);

impl FromStr for Zone {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        time_zone(name).map(Self)
    }
}

impl TryFrom<String> for Zone {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        name.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_time_zone_is_refused_with_an_example() {
        assert!(time_zone("Berlin").unwrap_err().contains("Europe/Berlin"));
    }
}
