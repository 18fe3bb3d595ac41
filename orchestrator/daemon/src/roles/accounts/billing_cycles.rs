//! Computes when billing months begin (the turns of the month), by the clocks of a time zone, and which turns the
//! leader must send to the book.

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};

/// Number of turns that the book gets in advance.
const AHEAD: usize = 13;
/// The largest difference between two time zones, in milliseconds: a month begins everywhere on earth within this
/// time.
const APART: i64 = 26 * 3_600_000;
/// Two turns that are further apart than this, in milliseconds, belong to two different months.
const TWO_MONTHS: i64 = 15 * 24 * 3_600_000;

/// The next turns after `now`: the instants at which the first day of a month begins. All values are milliseconds
/// since 1970.
pub(super) fn after(now: i64, zone: &TimeZone) -> Vec<i64> {
    let Ok(now) = Timestamp::from_millisecond(now) else { return Vec::new() };
    let first = now.to_zoned(zone.clone()).date().first_of_month();
    let begin = |months: usize| {
        let date = first.checked_add((months as i64).months()).ok()?;
        // In a zone whose clocks skip midnight the day begins later.
        let begin = date.to_zoned(zone.clone()).ok()?.start_of_day().ok()?;
        Some(begin.timestamp().as_millisecond())
    };
    (1..=AHEAD).filter_map(begin).collect()
}

/// The turns that the leader must send to the book; `None` if the book needs none. `wanted` are the turns after `now`
/// by this process's clock and zone, `known` are those that the book has, and `began` is when the book's month began,
/// if it has turned before. Each month turns exactly once, although the two clocks may differ, and although the zone
/// may be changed while a month has begun in one zone only.
pub(super) fn choose(known: &[i64], began: Option<i64>, wanted: Vec<i64>, now: i64) -> Option<Vec<i64>> {
    let next = known.first().copied();
    // The clock of Redis is behind, and the book will turn the month itself.
    if next.is_some_and(|next| next <= now) {
        return None;
    }
    let mut turns = wanted;
    // The book has turned this month already: by the previous zone, or by a clock ahead of this one.
    if began.zip(turns.first()).is_some_and(|(began, first)| first - began < APART) {
        turns.remove(0);
    }
    // By the new zone the month has turned, but the book has not turned it yet.
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
    use allot_runtime::settings::time_zone as zone;

    fn ms(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_millisecond()
    }

    #[test]
    fn months_begin_at_local_midnight() {
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
    fn month_begins_at_one_where_midnight_is_skipped() {
        // Clocks went from midnight to one on the first of October 2017 in Paraguay.
        let asuncion = zone("America/Asuncion").unwrap();
        assert_eq!(after(ms("2017-09-15T12:00:00Z"), &asuncion)[0], ms("2017-10-01T04:00:00Z"));
    }

    /// The turns that a book has after a daemon of this zone has run its task at this instant.
    fn turns_after_task(known: &[i64], began: Option<i64>, zone_name: &str, at: &str) -> Vec<i64> {
        let now = ms(at);
        let chosen = choose(known, began, after(now, &zone(zone_name).unwrap()), now);
        let turns = chosen.unwrap_or_else(|| known.to_vec());
        assert_eq!(
            choose(&turns, began, after(now, &zone(zone_name).unwrap()), now),
            None,
            "the same turns are not sent twice"
        );
        turns
    }

    #[test]
    fn clock_ahead_of_redis_removes_no_turn() {
        let known = turns_after_task(&[], None, "UTC", "2026-11-30T23:59:58Z");
        assert_eq!(known[0], ms("2026-12-01T00:00:00Z"));
        assert_eq!(turns_after_task(&known, None, "UTC", "2026-12-01T00:00:00Z"), known);
        assert_eq!(turns_after_task(&known, None, "UTC", "2026-12-01T00:00:01Z"), known);
        // The book has turned the month, too, and needs one more turn.
        let began = Some(known[0]);
        let turns = turns_after_task(&known[1..], began, "UTC", "2026-12-01T00:00:02Z");
        assert_eq!((turns[0], turns.len()), (ms("2027-01-01T00:00:00Z"), AHEAD));
    }

    #[test]
    fn clock_behind_redis_repeats_no_turn() {
        let known = turns_after_task(&[], None, "UTC", "2026-11-30T23:59:58Z");
        let turned = &known[1..];
        assert_eq!(turns_after_task(turned, Some(known[0]), "UTC", "2026-11-30T23:59:59Z"), turned);
    }

    #[test]
    fn month_begun_only_in_new_zone_keeps_its_announced_turn() {
        let known = turns_after_task(&[], None, "UTC", "2026-11-30T23:29:59Z");
        let turns = turns_after_task(
            &known,
            Some(ms("2026-11-01T00:00:00Z")),
            "Europe/Berlin",
            "2026-11-30T23:30:00Z",
        );
        assert_eq!(turns[..2], [ms("2026-12-01T00:00:00Z"), ms("2026-12-31T23:00:00Z")]);
        let turns = turns_after_task(&turns[1..], Some(turns[0]), "Europe/Berlin", "2026-12-01T00:00:01Z");
        assert_eq!(turns[..2], [ms("2026-12-31T23:00:00Z"), ms("2027-01-31T23:00:00Z")]);
    }

    #[test]
    fn month_begun_in_old_zone_does_not_turn_again() {
        let began = Some(ms("2026-11-30T23:00:00Z"));
        let known = turns_after_task(&[], began, "Europe/Berlin", "2026-11-30T23:29:59Z");
        let turns = turns_after_task(&known, began, "UTC", "2026-11-30T23:30:00Z");
        assert_eq!(turns[0], ms("2027-01-01T00:00:00Z"));
        assert_eq!(turns_after_task(&turns, began, "UTC", "2026-12-01T00:00:01Z")[0], turns[0]);
    }

    #[test]
    fn turns_that_differ_from_the_zone_are_replaced() {
        // The zone changes in the middle of a month; then an operator has set the turns by hand.
        let known = turns_after_task(&[], None, "UTC", "2026-11-15T12:00:00Z");
        let turns = turns_after_task(&known, None, "Europe/Berlin", "2026-11-15T12:00:01Z");
        assert_eq!(turns[0], ms("2026-11-30T23:00:00Z"));
        let by_hand = [ms("2026-11-12T00:00:00Z"), ms("2026-12-12T00:00:00Z")];
        assert_eq!(
            turns_after_task(&by_hand, None, "UTC", "2026-11-10T00:00:00Z")[0],
            ms("2026-12-01T00:00:00Z")
        );
    }
}
