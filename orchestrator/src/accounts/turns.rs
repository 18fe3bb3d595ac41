//! When months turn, by the clocks of a time zone.

use anyhow::{Context as _, Result};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};

/// How many turns are told ahead.
const AHEAD: usize = 13;

/// The time zone of this name: one of the IANA database, or `UTC`.
pub(crate) fn zone(name: &str) -> Result<TimeZone> {
    TimeZone::get(name).with_context(|| {
        format!("'{name}' is no time zone; write one as the IANA database has it, e.g. Europe/Berlin, or UTC")
    })
}

/// The next turns of the month after an instant, all in milliseconds since 1970: when the first day of a month begins.
pub(super) fn after(now: i64, zone: &TimeZone) -> Vec<i64> {
    let Ok(now) = Timestamp::from_millisecond(now) else { return Vec::new() };
    let first = now.to_zoned(zone.clone()).date().first_of_month();
    let begin = |months: usize| {
        let date = first.checked_add((months as i64).months()).ok()?;
        // Where there is no midnight the day begins later.
        let begin = date.to_zoned(zone.clone()).ok()?.start_of_day().ok()?;
        Some(begin.timestamp().as_millisecond())
    };
    (1..=AHEAD).filter_map(begin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_millisecond()
    }

    #[test]
    fn months_turn_at_midnight_of_the_place() {
        let berlin = zone("Europe/Berlin").unwrap();
        let turns = after(ms("2026-11-21T18:00:00Z"), &berlin);
        assert_eq!(turns.len(), AHEAD);
        assert_eq!(turns[0], ms("2026-11-30T23:00:00Z"));
        // Summer time.
        assert_eq!(turns[5], ms("2027-04-30T22:00:00Z"));
        assert!(turns.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(after(ms("2026-11-30T23:00:00Z"), &berlin)[0], ms("2026-12-31T23:00:00Z"));
        assert_eq!(after(ms("2026-11-30T22:59:59Z"), &berlin)[0], ms("2026-11-30T23:00:00Z"));
        assert_eq!(after(ms("2026-01-31T12:00:00Z"), &zone("UTC").unwrap())[0], ms("2026-02-01T00:00:00Z"));
    }

    #[test]
    fn a_month_may_begin_at_one_oclock() {
        // Clocks went from midnight to one on the first of October 2017 in Paraguay.
        let asuncion = zone("America/Asuncion").unwrap();
        assert_eq!(after(ms("2017-09-15T12:00:00Z"), &asuncion)[0], ms("2017-10-01T04:00:00Z"));
    }

    #[test]
    fn what_is_no_time_zone_is_refused_with_a_way_out() {
        assert!(zone("Berlin").unwrap_err().to_string().contains("Europe/Berlin"));
    }
}
