//! Times and lengths of time, as people write them and as they are shown.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Milliseconds since 1970, now.
pub(crate) fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// Reads a length of time: `500ms`, `10m`, `1h30m`.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    let parsed: Result<allot_runtime::settings::Span, String> = text.parse();
    parsed.map(|span| span.0)
}

/// Reads a time of RFC 3339, or a length of time from now, as milliseconds since 1970.
pub(crate) fn instant(text: &str) -> Result<i64, String> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time.as_millisecond());
    }
    let from_now = span(text).map_err(|_| {
        format!(
            "'{text}' is no time; write 2026-11-21T18:00:00+01:00, or a length of time from now, 90m or 1h30m"
        )
    })?;
    Ok(now().saturating_add(i64::try_from(from_now.as_millis()).unwrap_or(i64::MAX)))
}

/// Reads a time as [`instant`], which is not over.
pub(crate) fn ahead(text: &str) -> Result<i64, String> {
    instant(text).and_then(|time| if time > now() { Ok(time) } else { Err("this time is over".to_owned()) })
}

/// Reads a time limit.
pub(crate) fn limit(text: &str) -> Result<Duration, String> {
    span(text)
        .and_then(|limit| if limit.is_zero() { Err("it is longer than 0s".to_owned()) } else { Ok(limit) })
}

/// A time of RFC 3339 in UTC; a number that is no time remains a number.
pub(crate) fn utc(ms: i64) -> String {
    Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |time| format!("{time:.3}"))
}

/// A time in the zone of this machine, with the zone.
pub(crate) fn local(ms: i64) -> String {
    match Timestamp::from_millisecond(ms) {
        Ok(time) => time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S %Z").to_string(),
        Err(_) => ms.to_string(),
    }
}

/// A length of time in milliseconds, for people.
pub(crate) fn length(ms: i64) -> String {
    let length = Duration::from_millis(ms.unsigned_abs());
    // Milliseconds of a long time are of no use to people.
    let length = if length.as_secs() > 60 { Duration::from_secs(length.as_secs()) } else { length };
    humantime::format_duration(length).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_rfc_3339_and_lengths_are_read() {
        for text in ["2023-11-14T22:13:20Z", "2023-11-14t23:13:20.000+01:00", "2023-11-14 22:13:20Z"] {
            assert_eq!(instant(text), Ok(1_700_000_000_000), "{text}");
        }
        for (text, ms) in [("10m", 600_000), ("1h30m", 5_400_000), ("1h 30m", 5_400_000)] {
            let ahead = instant(text).unwrap() - now();
            assert!((ms - 1000..=ms).contains(&ahead), "{text}: {ahead}");
        }
        assert!(instant("soon").unwrap_err().contains("90m"));
        assert!(ahead("2023-11-14T22:13:20Z").is_err() && ahead("1h").is_ok());
        assert!(limit("0s").is_err() && limit("1s").is_ok());
        assert_eq!(utc(1_700_000_000_000), "2023-11-14T22:13:20.000Z");
        assert_eq!((length(1500), length(3_600_500)), ("1s 500ms".into(), "1h".into()));
    }
}
