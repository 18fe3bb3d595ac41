//! A window of the day in which subtasks may start, e.g. `22:00-06:00`, in a time zone of its own.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use serde::{Deserialize, Serialize};

use allot_runtime::settings::{time_zone, zone_name};

/// A daily window from one time (included) to another (excluded); it spans midnight if the second is earlier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Window {
    from: Time,
    to: Time,
    zone: TimeZone,
}

impl Window {
    /// Parses `22:00-06:00` in this zone. `Err` holds the reason for people.
    pub fn new(text: &str, zone: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is no window; one looks like 22:00-06:00");
        let (from, to) = text.split_once('-').ok_or_else(wrong)?;
        let time = |text: &str| {
            let (hour, minute) = text.trim().split_once(':').ok_or_else(wrong)?;
            let number = |part: &str| part.parse::<i8>().map_err(|_| wrong());
            Time::new(number(hour)?, number(minute)?, 0, 0).map_err(|_| wrong())
        };
        let (from, to) = (time(from)?, time(to)?);
        if from == to {
            return Err(format!("the window '{text}' is empty; leave it out for the whole day"));
        }
        Ok(Self { from, to, zone: time_zone(zone)? })
    }

    /// Time for which the window stays closed after `now_ms` (milliseconds since 1970); `None` if the window is open.
    pub fn shut_for(&self, now_ms: u64) -> Option<Duration> {
        let now = Timestamp::from_millisecond(i64::try_from(now_ms).ok()?).ok()?.to_zoned(self.zone.clone());
        let time = now.time();
        let open = if self.from < self.to {
            self.from <= time && time < self.to
        } else {
            self.from <= time || time < self.to
        };
        if open {
            return None;
        }
        // If the clocks skip the opening time on that day, the window opens at the time they jump to.
        let day = if time < self.from { now.date() } else { now.date().checked_add(1.day()).ok()? };
        let opens = day.to_datetime(self.from).to_zoned(self.zone.clone()).ok()?;
        let left = opens.timestamp().as_millisecond() - now.timestamp().as_millisecond();
        Some(Duration::from_millis(u64::try_from(left).unwrap_or(0).max(1)))
    }
}

/// The IANA name of this machine's time zone; UTC if it is unknown.
pub fn own_zone() -> String {
    zone_name(&TimeZone::system()).to_owned()
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |time: Time| format!("{:02}:{:02}", time.hour(), time.minute());
        write!(f, "{}-{} {}", time(self.from), time(self.to), zone_name(&self.zone))
    }
}

impl From<Window> for String {
    fn from(window: Window) -> Self {
        window.to_string()
    }
}

impl TryFrom<String> for Window {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Window {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (window, zone) = text.split_once(' ').unwrap_or((text, "UTC"));
        Self::new(window, zone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> u64 {
        text.parse::<Timestamp>().unwrap().as_millisecond() as u64
    }

    fn minutes(window: &str, zone: &str, when: &str) -> u64 {
        let window = Window::new(window, zone).unwrap();
        window.shut_for(at(when)).map_or(0, |left| left.as_secs() / 60)
    }

    #[test]
    fn window_works_within_a_day_and_over_midnight() {
        for (when, left) in [("07:59:00", 1), ("08:00:00", 0), ("17:59:59", 0), ("18:00:00", 14 * 60)] {
            assert_eq!(minutes("08:00-18:00", "UTC", &format!("2026-03-01T{when}Z")), left, "{when}");
        }
        for (when, left) in [("21:59:00", 1), ("22:00:00", 0), ("05:59:59", 0), ("06:00:00", 16 * 60)] {
            assert_eq!(minutes("22:00-06:00", "UTC", &format!("2026-03-01T{when}Z")), left, "{when}");
        }
    }

    #[test]
    fn window_follows_the_zone_and_its_clock_changes() {
        // 22:00 in Berlin is 21:00 UTC in winter and 20:00 in summer.
        assert_eq!(minutes("22:00-06:00", "Europe/Berlin", "2026-01-10T20:00:00Z"), 60);
        assert_eq!(minutes("22:00-06:00", "Europe/Berlin", "2026-07-10T20:00:00Z"), 0);
        // 2026-03-29 has no 02:30 there: clocks go from 02:00 to 03:00, which is 01:00 UTC.
        assert_eq!(minutes("02:30-04:00", "Europe/Berlin", "2026-03-29T00:30:00Z"), 60);
        assert_eq!(minutes("02:30-04:00", "Europe/Berlin", "2026-03-29T01:30:00Z"), 0);
    }

    #[test]
    fn window_round_trips_as_text_and_rejects_bad_input() {
        let window: Window = "22:00-6:05 Europe/Berlin".parse().unwrap();
        assert_eq!(window.to_string(), "22:00-06:05 Europe/Berlin");
        assert_eq!(window.to_string().parse(), Ok(window));
        for (text, zone) in [
            ("", "UTC"),
            ("22-06", "UTC"),
            ("24:00-06:00", "UTC"),
            ("1:00-1:00", "UTC"),
            ("1:00-2:00", "Moon/Base"),
        ] {
            assert!(Window::new(text, zone).is_err(), "{text} {zone}");
        }
    }
}
