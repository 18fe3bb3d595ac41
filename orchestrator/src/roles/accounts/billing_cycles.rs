//! When months turn, by the clocks of a time zone.

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};

/// How many turns are told ahead.
const AHEAD: usize = 13;
/// No two places on earth are further apart by their clocks, in milliseconds: one month turns everywhere within this.
const APART: i64 = 26 * 3_600_000;
/// Two turns that are further apart than this begin two months, in milliseconds.
const TWO_MONTHS: i64 = 15 * 24 * 3_600_000;

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

/// What the book is to be told, if anything: `wanted` are the turns after `now` by our clock and zone, `known` those that
/// the book has, and `began` is when its month began, if it has turned before. Every month turns once, whatever the two
/// clocks are, and where the zone was changed while one month turned in the one and not yet in the other.
pub(super) fn choose(known: &[i64], began: Option<i64>, wanted: Vec<i64>, now: i64) -> Option<Vec<i64>> {
    let next = known.first().copied();
    // The book's clock is behind ours, and it turns by itself.
    if next.is_some_and(|next| next <= now) {
        return None;
    }
    let mut turns = wanted;
    // This month has turned already: by the zone before, or by a clock ahead of ours.
    if began.zip(turns.first()).is_some_and(|(began, first)| first - began < APART) {
        turns.remove(0);
    }
    // By the new zone the month has turned, and in the book it has not.
    if let (Some(next), Some(first)) = (next, turns.first())
        && next - now < APART
        && first - next > TWO_MONTHS
    {
        turns.insert(0, next);
    }
    (!turns.is_empty() && !known.starts_with(&turns)).then_some(turns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::time_zone as zone;

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

    /// The turns that a book has after a daemon of this zone has looked at this instant.
    fn look(known: &[i64], began: Option<i64>, zone_name: &str, at: &str) -> Vec<i64> {
        let now = ms(at);
        let chosen = choose(known, began, after(now, &zone(zone_name).unwrap()), now);
        let turns = chosen.unwrap_or_else(|| known.to_vec());
        assert_eq!(
            choose(&turns, began, after(now, &zone(zone_name).unwrap()), now),
            None,
            "nothing is told twice"
        );
        turns
    }

    #[test]
    fn a_daemon_whose_clock_is_ahead_takes_no_turn_from_the_book() {
        let known = look(&[], None, "UTC", "2026-11-30T23:59:58Z");
        assert_eq!(known[0], ms("2026-12-01T00:00:00Z"));
        assert_eq!(look(&known, None, "UTC", "2026-12-01T00:00:00Z"), known);
        assert_eq!(look(&known, None, "UTC", "2026-12-01T00:00:01Z"), known);
        // It has turned there, too: one more is told.
        let began = Some(known[0]);
        let turns = look(&known[1..], began, "UTC", "2026-12-01T00:00:02Z");
        assert_eq!((turns[0], turns.len()), (ms("2027-01-01T00:00:00Z"), AHEAD));
    }

    #[test]
    fn a_daemon_whose_clock_is_behind_turns_no_month_again() {
        let known = look(&[], None, "UTC", "2026-11-30T23:59:58Z");
        let turned = &known[1..];
        assert_eq!(look(turned, Some(known[0]), "UTC", "2026-11-30T23:59:59Z"), turned);
    }

    #[test]
    fn a_month_that_has_turned_by_the_new_zone_only_turns_as_it_was_told() {
        let known = look(&[], None, "UTC", "2026-11-30T23:29:59Z");
        let turns = look(&known, Some(ms("2026-11-01T00:00:00Z")), "Europe/Berlin", "2026-11-30T23:30:00Z");
        assert_eq!(turns[..2], [ms("2026-12-01T00:00:00Z"), ms("2026-12-31T23:00:00Z")]);
        let turns = look(&turns[1..], Some(turns[0]), "Europe/Berlin", "2026-12-01T00:00:01Z");
        assert_eq!(turns[..2], [ms("2026-12-31T23:00:00Z"), ms("2027-01-31T23:00:00Z")]);
    }

    #[test]
    fn a_month_that_has_turned_by_the_old_zone_does_not_turn_again() {
        let began = Some(ms("2026-11-30T23:00:00Z"));
        let known = look(&[], began, "Europe/Berlin", "2026-11-30T23:29:59Z");
        let turns = look(&known, began, "UTC", "2026-11-30T23:30:00Z");
        assert_eq!(turns[0], ms("2027-01-01T00:00:00Z"));
        assert_eq!(look(&turns, began, "UTC", "2026-12-01T00:00:01Z")[0], turns[0]);
    }

    #[test]
    fn what_was_told_otherwise_is_told_anew() {
        // In the middle of a month, by the other zone; and what somebody set by hand.
        let known = look(&[], None, "UTC", "2026-11-15T12:00:00Z");
        let turns = look(&known, None, "Europe/Berlin", "2026-11-15T12:00:01Z");
        assert_eq!(turns[0], ms("2026-11-30T23:00:00Z"));
        let by_hand = [ms("2026-11-12T00:00:00Z"), ms("2026-12-12T00:00:00Z")];
        assert_eq!(look(&by_hand, None, "UTC", "2026-11-10T00:00:00Z")[0], ms("2026-12-01T00:00:00Z"));
    }
}
