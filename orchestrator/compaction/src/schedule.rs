//! The times at which the rounds of a task begin, as a cron expression in a time zone of its own.

use std::fmt;
use std::str::FromStr;

use cronexpr::Crontab;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use allot_runtime::settings::{time_zone, zone_name};

/// Number of fields of a cron expression.
const FIELDS: usize = 5;
/// The names that cron has for some expressions.
const NAMED: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];
/// No zone has ever put its clocks forward by more in a night.
const LONGEST_SKIP: SignedDuration = SignedDuration::from_hours(3);

/// A cron expression, e.g. `0 2 * * *`, in a time zone.
///
/// Where the clock is changed, an expression that names hours runs once for each time that it names: a time that the clock
/// skips comes as much later as the clock jumps, and a time that the clock repeats counts the first time only. An
/// expression whose hours begin with `*` follows the clock, so that a task of every hour has no pause of two hours.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Schedule {
    expression: String,
    zone: TimeZone,
    /// In UTC if it names hours, and otherwise in the zone.
    crontab: Crontab,
    names_hours: bool,
}

impl Schedule {
    /// Parses a cron expression of five fields. `Err` holds the reason for people.
    pub fn new(expression: &str, zone: &str) -> Result<Self, String> {
        let known = NAMED.iter().find(|(name, _)| *name == expression.trim());
        let expression = known.map_or(expression, |(_, expression)| *expression);
        let fields: Vec<&str> = expression.split_whitespace().collect();
        if fields.len() != FIELDS {
            return Err(format!(
                "'{expression}' has {} fields; a cron expression has {FIELDS}: minute, hour, day of month, month, day of \
                 week",
                fields.len()
            ));
        }
        let names_hours = !fields.get(1).is_some_and(|hours| hours.starts_with('*'));
        let zone = time_zone(zone)?;
        let expression = fields.join(" ");
        let of = if names_hours { "UTC" } else { zone_name(&zone) };
        let crontab = cronexpr::parse_crontab(&format!("{expression} {of}"))
            .map_err(|error| format!("'{expression}' is no cron expression: {error}"))?;
        Ok(Self { expression, zone, crontab, names_hours })
    }

    /// The first time after `now_ms`, both in milliseconds since 1970; `None` if there is none within four years.
    pub fn next(&self, now_ms: u64) -> Option<u64> {
        let now = Timestamp::from_millisecond(i64::try_from(now_ms).ok()?).ok()?;
        let next = if self.names_hours { self.next_named(now)? } else { self.find(now)? };
        u64::try_from(next.as_millisecond()).ok()
    }

    /// The next time of an expression that names hours. The expression is evaluated on the clock's face, which has each time
    /// of a day once.
    fn next_named(&self, now: Timestamp) -> Option<Timestamp> {
        let face = on_face(now.to_zoned(self.zone.clone()).datetime())?;
        // A clock that was put forward shows a later time than some of those that it has skipped and that are still to
        // come.
        let mut face = face.checked_sub(LONGEST_SKIP).ok()?;
        loop {
            face = self.find(face)?;
            let time = face.to_zoned(TimeZone::UTC).datetime().to_zoned(self.zone.clone()).ok()?.timestamp();
            // A time that the clock repeats may already have been.
            if time > now {
                return Some(time);
            }
        }
    }

    fn find(&self, after: Timestamp) -> Option<Timestamp> {
        let next = self.crontab.find_next(cronexpr::MakeTimestamp(after)).ok()?;
        Some(next.timestamp())
    }
}

/// The time at which a clock in UTC shows this.
fn on_face(time: DateTime) -> Option<Timestamp> {
    Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

impl PartialEq for Schedule {
    fn eq(&self, other: &Self) -> bool {
        (&self.expression, &self.zone) == (&other.expression, &other.zone)
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.expression, zone_name(&self.zone))
    }
}

impl From<Schedule> for String {
    fn from(schedule: Schedule) -> Self {
        schedule.to_string()
    }
}

impl TryFrom<String> for Schedule {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (expression, zone) = text.rsplit_once(' ').unwrap_or((text, "UTC"));
        Self::new(expression, zone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next times after `from`, as UTC.
    fn times(expression: &str, from: &str, count: usize) -> Vec<String> {
        let schedule = Schedule::new(expression, "Europe/Berlin").unwrap();
        let mut now = from.parse::<Timestamp>().unwrap().as_millisecond() as u64;
        let next = |_| {
            now = schedule.next(now).unwrap();
            Timestamp::from_millisecond(now as i64).unwrap().to_string()
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn schedule_follows_its_zone() {
        let expected = ["2026-01-10T01:00:00Z", "2026-01-11T01:00:00Z"];
        assert_eq!(times("0 2 * * *", "2026-01-10T00:59:59Z", 2), expected);
        assert_eq!(times("0 2 * * *", "2026-07-10T00:00:00Z", 1), ["2026-07-11T00:00:00Z"]);
        assert_eq!(times("15 4 1 * MON", "2026-01-02T00:00:00Z", 1), ["2026-01-05T03:15:00Z"]);
    }

    #[test]
    fn no_night_is_missed_or_repeated_when_the_clock_changes() {
        // 2026-03-29 has no 02:30 in Berlin: clocks go from 02:00 to 03:00, which is 01:00 UTC.
        let expected = ["2026-03-28T01:30:00Z", "2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"];
        assert_eq!(times("30 2 * * *", "2026-03-27T12:00:00Z", 3), expected);
        // The round before ended at 03:05 of the new time, so the skipped 02:30 is still to come.
        assert_eq!(times("30 1,2 * * *", "2026-03-29T01:05:00Z", 1), ["2026-03-29T01:30:00Z"]);
        // 2026-10-25 has 02:30 twice, at 00:30 and 01:30 UTC.
        let expected = ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"];
        assert_eq!(times("30 2 * * *", "2026-10-24T12:00:00Z", 2), expected);
        // The round of the first 02:30 ended while the clock showed 02:10 again.
        assert_eq!(times("30 2 * * *", "2026-10-25T01:10:00Z", 1), ["2026-10-26T01:30:00Z"]);
    }

    #[test]
    fn task_of_every_hour_has_the_same_pause_when_the_clock_changes() {
        let expected = ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"];
        assert_eq!(times("30 * * * *", "2026-10-25T00:00:00Z", 3), expected);
        let expected = ["2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z"];
        assert_eq!(times("30 * * * *", "2026-03-29T00:00:00Z", 2), expected);
    }

    #[test]
    fn names_of_cron_are_expressions() {
        let name = |name: &str| Schedule::new(name, "UTC").unwrap().to_string();
        assert_eq!((name("@daily"), name("@hourly")), ("0 0 * * * UTC".into(), "0 * * * * UTC".into()));
        assert!(NAMED.iter().all(|(name, _)| Schedule::new(name, "UTC").is_ok()));
        assert!(Schedule::new("@reboot", "UTC").is_err());
    }

    #[test]
    fn schedule_round_trips_as_text_and_rejects_bad_input() {
        let schedule: Schedule = "0  2 * * * Europe/Berlin".parse().unwrap();
        assert_eq!(schedule.to_string(), "0 2 * * * Europe/Berlin");
        assert_eq!(schedule.to_string().parse(), Ok(schedule));
        for (expression, zone) in [
            ("", "UTC"),
            ("0 2 * *", "UTC"),
            ("0 2 * * * *", "UTC"),
            ("60 2 * * *", "UTC"),
            ("0 2 * * *", "Moon/Base"),
        ] {
            assert!(Schedule::new(expression, zone).is_err(), "{expression} {zone}");
        }
        assert_eq!(Schedule::new("0 0 30 2 *", "UTC").unwrap().next(0), None);
    }
}
