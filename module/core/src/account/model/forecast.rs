//! Forecasts of use until the end of the month.

use super::record::{Account, DAY, MAX_HISTORY};
use crate::shared::Millis;

/// The shortest time after which a pace says something, in milliseconds.
pub(super) const EVIDENCE: Millis = 3_600_000;

/// How much of a month that begins and ends at these times has passed, and how much is to come.
pub(super) fn parts(now: Millis, (start, end): (Millis, Millis)) -> (Millis, Millis) {
    (now.saturating_sub(start).max(0), end.saturating_sub(now).max(0))
}

/// A count of a span of time, scaled to another span.
pub(super) fn scaled(count: u128, to: Millis, from: Millis) -> u64 {
    let (to, from) = (u128::from(to.max(0).unsigned_abs()), u128::from(from.max(1).unsigned_abs()));
    u64::try_from(count.saturating_mul(to) / from).unwrap_or(u64::MAX)
}

/// Whether so much use over so long a time says something: an hour, or 1 % of the quota.
pub(super) fn is_evidence(seen: Millis, used: u64, quota: u128) -> bool {
    seen >= EVIDENCE || used > 0 && u128::from(used) * 100 >= quota
}

/// How many instructions are to come: what the pace of this month and the use of the last month say, weighted by the
/// parts of the month that have passed and are to come. `None` if there is neither.
pub(super) fn blend(pace: Option<u64>, last: Option<u64>, (gone, ahead): (Millis, Millis)) -> Option<u64> {
    let (Some(pace), Some(last)) = (pace, last) else { return pace.or(last) };
    let weigh = |number: u64, weight: Millis| u128::from(number) * u128::from(weight.unsigned_abs());
    let whole = u128::from((gone + ahead).unsigned_abs()).max(1);
    Some(u64::try_from((weigh(pace, gone) + weigh(last, ahead)) / whole).unwrap_or(u64::MAX))
}

impl Account {
    /// How many instructions the account will still send in `month`, which begins and ends at the times `span`: what
    /// its average pace of this month and its use of the last month say. The last month began at `last`, if that is
    /// kept. `None` if the account was not there for a day of the last month, nor for an hour of this month, and has
    /// not used 1 % of its quota.
    pub(in crate::account) fn forecast(
        &self,
        now: Millis,
        (month, span): (u32, (Millis, Millis)),
        last: Option<Millis>,
    ) -> Option<u64> {
        // When it was first assigned. Of a long history the first assignment is not kept.
        let begun = match self.history.first() {
            None => self.since,
            Some(_) if self.history.len() >= MAX_HISTORY => 0,
            Some(first) => first.from,
        };
        let (gone, ahead) = parts(now, span);
        let seen = now.saturating_sub(span.0.max(begun));
        let used = self.used_in(month);
        let pace = is_evidence(seen, used, self.tariff.quota.into())
            .then(|| scaled(used.into(), ahead, seen.max(EVIDENCE)));
        let last = last.zip(month.checked_sub(1)).and_then(|(start, month)| {
            let there = span.0.saturating_sub(start.max(begun));
            (there >= DAY).then(|| scaled(self.used_in(month).into(), ahead, there))
        });
        blend(pace, last, (gone, ahead))
    }
}
