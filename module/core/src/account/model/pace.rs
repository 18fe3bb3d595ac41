//! The use of instances and accounts over time, and forecasts of use until the end of the month.

use super::record::{Account, DAY, MAX_HISTORY};
use super::tariff::MAX_COUNT;
use crate::fields;
use crate::shared::Millis;
use crate::shared::codec::{Damaged, ensure};
use crate::shared::invariant::Expected;

/// The end of all times that an encoding has.
const LAST_TIME: Millis = (1 << 53) - 1;
/// An hour, in milliseconds.
pub const HOUR: Millis = 3_600_000;
/// Length of the time over which a pace is measured, in hours.
pub const WINDOW: usize = 24;

/// The shortest time after which a pace says something, in milliseconds.
const EVIDENCE: Millis = 3_600_000;

/// How much of a month that begins and ends at these times has passed, and how much is to come.
fn parts(now: Millis, (start, end): (Millis, Millis)) -> (Millis, Millis) {
    (now.saturating_sub(start).max(0), end.saturating_sub(now).max(0))
}

/// A count of a span of time, scaled to another span.
pub(in crate::account) fn scaled(count: u128, to: Millis, from: Millis) -> u64 {
    let (to, from) = (u128::from(to.max(0).unsigned_abs()), u128::from(from.max(1).unsigned_abs()));
    u64::try_from(count.saturating_mul(to) / from).unwrap_or(u64::MAX)
}

/// Whether so much use over so long a time says something: an hour, or 1 % of the quota.
fn is_evidence(seen: Millis, used: u64, quota: u128) -> bool {
    seen >= EVIDENCE || used > 0 && u128::from(used) * 100 >= quota
}

/// How many instructions are to come: what the pace of this month and the use of the last month say, weighted by the
/// parts of the month that have passed and are to come. `None` if there is neither.
fn blend(pace: Option<u64>, last: Option<u64>, (gone, ahead): (Millis, Millis)) -> Option<u64> {
    let (Some(pace), Some(last)) = (pace, last) else { return pace.or(last) };
    let weigh = |number: u64, weight: Millis| u128::from(number) * u128::from(weight.unsigned_abs());
    let whole = u128::from((gone + ahead).unsigned_abs()).max(1);
    Some(u64::try_from((weigh(pace, gone) + weigh(last, ahead)) / whole).unwrap_or(u64::MAX))
}

fields! {
    /// The use of an instance: by hours over the last day, in this month, and in the month before.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Pace {
        /// The hour of the latest count, since 1970.
        pub(in crate::account) hour: i64,
        /// When counting began.
        pub(in crate::account) begun: Millis,
        /// Counts by hour modulo 24.
        pub(in crate::account) buckets: [u64; WINDOW],
        /// Instructions of the current month.
        pub(in crate::account) month: u64,
        /// Instructions of the month before, and over how many milliseconds the instance counted them; `None` if that was
        /// less than a day.
        pub(in crate::account) last_month: Option<(u64, Millis)>,
    } checked by Pace::is_sound;
}

impl Pace {
    fn is_sound(&self) -> Result<(), Damaged> {
        let hours = self.begun / HOUR..=LAST_TIME / HOUR;
        ensure(hours.contains(&self.hour), "the hours of an instance are out of range")
    }

    pub(in crate::account) fn since(at: Millis) -> Self {
        Self { hour: at / HOUR, begun: at, ..Self::default() }
    }

    /// Changes the count of an hour.
    fn change(&mut self, hour: i64, change: impl FnOnce(&mut u64)) {
        let bucket = self.buckets.get_mut(hour.rem_euclid(WINDOW as i64) as usize);
        bucket.expected("each hour of a day has a bucket").map(change);
    }

    pub(in crate::account) fn count(&mut self, at: Millis, count: u64) {
        let hour = at / HOUR;
        // Counts older than a day are dropped.
        for passed in (self.hour + 1..=hour).take(WINDOW) {
            self.change(passed, |bucket| *bucket = 0);
        }
        self.hour = self.hour.max(hour);
        self.change(self.hour, |bucket| *bucket = bucket.saturating_add(count).min(MAX_COUNT));
        self.month = self.month.saturating_add(count).min(MAX_COUNT);
    }

    /// A month that began at `start` ends.
    pub(in crate::account) fn turn_month(&mut self, start: Millis, end: Millis) {
        let span = end.saturating_sub(start.max(self.begun));
        self.last_month = (span >= DAY).then_some((self.month, span));
        self.month = 0;
    }

    /// How many instructions the instance will send until the month ends: what the pace of the last day and the use of
    /// the last month say, weighted by the part of the month that has passed. `None` if there is neither: the instance
    /// counted nothing in the last month, is younger than an hour, and has used less than 1 % of its `quota`.
    pub fn forecast(&self, now: Millis, span: (Millis, Millis), quota: u128) -> Option<u64> {
        let (gone, ahead) = parts(now, span);
        let last = self.last_month.map(|(used, span)| scaled(used.into(), ahead, span));
        let seen = is_evidence(now.saturating_sub(self.begun), self.month, quota);
        blend(seen.then(|| self.at_pace(now, ahead)), last, (gone, ahead))
    }

    /// What rebalancing expects of the instance; `None` if `forecast` knows too little.
    pub(in crate::account) fn outlook(
        &self,
        now: Millis,
        (start, end): (Millis, Millis),
        quota: u128,
    ) -> Option<Outlook> {
        let forecast = self.forecast(now, (start, end), quota)?;
        let ahead = end.saturating_sub(now).max(0);
        let day = ahead.min(DAY);
        let next_day = scaled(forecast.into(), day, ahead).max(self.at_pace(now, day));
        let seen = now.saturating_sub(start.max(self.begun)).max(EVIDENCE);
        let average = scaled(self.month.into(), ahead, seen);
        Some(Outlook {
            month: forecast.max(next_day),
            next_day,
            cautious: forecast.max(next_day).max(average),
        })
    }

    /// How many instructions are sent in `ahead` milliseconds at the pace of the last day.
    fn at_pace(&self, now: Millis, ahead: Millis) -> u64 {
        let hour = (now / HOUR).max(self.hour);
        let gone = (hour - self.hour).clamp(0, WINDOW as i64);
        let mut sum = 0u128;
        for age in 0..WINDOW as i64 - gone {
            let at = (self.hour - age).rem_euclid(WINDOW as i64) as usize;
            let bucket = self.buckets.get(at).expected("each hour of a day has a bucket");
            sum += bucket.map_or(0, |&count| u128::from(count));
        }
        // The current hour counts by the part that has passed.
        let longest = (WINDOW as i64 - 1) * HOUR + now.rem_euclid(HOUR).max(1);
        scaled(sum, ahead, now.saturating_sub(self.begun).clamp(EVIDENCE, longest))
    }
}

/// The instructions that an instance is expected to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::account) struct Outlook {
    /// Until the month ends.
    pub(in crate::account) month: u64,
    /// In the next day, or until the month ends: as forecast, or at the pace of the last day if that is more.
    pub(in crate::account) next_day: u64,
    /// Until the month ends if the instance works again as much as on average in this month, or `month` if that is
    /// more. What it has beyond this, the instance can give.
    pub(in crate::account) cautious: u64,
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
