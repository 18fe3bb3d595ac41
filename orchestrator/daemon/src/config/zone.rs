//! A time zone by its name in the IANA database.

use std::str::FromStr;

use anyhow::{Context as _, Result};
use jiff::tz::TimeZone;
use serde::Deserialize;

use allot_runtime::settings::Setting;

/// The time zone of this name: one of the IANA database, or `UTC`.
pub(crate) fn time_zone(name: &str) -> Result<TimeZone> {
    TimeZone::get(name).with_context(|| {
        format!("'{name}' is no time zone; write one as the IANA database has it, e.g. Europe/Berlin, or UTC")
    })
}

/// A time zone as a setting.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub struct Zone(TimeZone);

impl FromStr for Zone {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        time_zone(name).map(Self).map_err(|error| error.to_string())
    }
}

impl TryFrom<String> for Zone {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        name.parse()
    }
}

impl Setting for Zone {
    type Value = TimeZone;

    fn read(text: &str) -> Result<Self, String> {
        text.parse()
    }

    fn value(self) -> TimeZone {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_time_zone_is_refused_with_an_example() {
        assert!(time_zone("Berlin").unwrap_err().to_string().contains("Europe/Berlin"));
    }
}
