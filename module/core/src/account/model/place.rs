//! Modules, to which accounts belong, and their instances, which work with accounts.

use std::collections::{BTreeMap, BTreeSet};

use super::forecast::{EVIDENCE, blend, is_evidence, parts, scaled};
use super::record::{DAY, Name, Rank};
use super::supply::Supply;
use super::tariff::MAX_COUNT;
use super::usage::{PastUsage, Usage};
use crate::invariant;
use crate::shared::Millis;
use crate::shared::token::MAX_TTL;
use crate::words;

/// An hour, in milliseconds.
pub const HOUR: Millis = 3_600_000;
/// Length of the time over which a pace is measured, in hours.
pub const WINDOW: usize = 24;
/// The limit of a module's places, weight and reserve.
pub const MAX_PLACES: i64 = 1_000_000;
/// The greatest offset of an instance, positive or negative. Further moves by rebalancing do not change the offset.
pub(in crate::account) const MAX_OFFSET: i64 = 1 << 40;

/// The limit of the number of accounts that an instance keeps.
pub const MAX_MIN: u32 = 10_000;

words! {
    /// How the accounts of a module are divided.
    pub enum Share {
        /// Into as many equal shares as the module has places. The share of an empty place is kept free.
        Places = 0 => "places",
        /// Among the instances that are present.
        Present = 1 => "present",
    }
}

/// The usual `lend` of a new module.
const USUAL_LEND: Millis = 10 * 60_000;

/// How the accounts of a module are divided and exchanged: settings of the module that rebalancing and assignment
/// obey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Rebalancing leaves an active instance at least so many accounts; 0 to [`MAX_MIN`].
    pub min: u32,
    /// How the accounts are divided.
    pub share: Share,
    /// How long an account is free before rebalancing lends it to another instance, in milliseconds.
    pub lend: Millis,
    /// The most instructions of the module in a month; 0 for no limit.
    pub cap: u64,
}

/// The settings of a module that an earlier version defined.
impl Default for Policy {
    fn default() -> Self {
        Self { min: 1, share: Share::Present, lend: USUAL_LEND, cap: 0 }
    }
}

impl Policy {
    /// Whether an event or a snapshot may bring these settings.
    pub(in crate::account) fn is_sound(&self) -> bool {
        self.min <= MAX_MIN && (0..=MAX_TTL).contains(&self.lend) && self.cap <= MAX_COUNT
    }
}

/// A module: a business system of the company.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its name.
    pub name: Name,
    /// Department of the module.
    pub department: Name,
    /// How many instances of the module hold a share at once.
    pub places: u32,
    /// Weight of the module when accounts are distributed over modules. With 0 the module also exchanges no accounts
    /// with other modules of its department.
    pub weight: u32,
    /// How many accounts are kept free for replacements.
    pub reserve: u32,
    /// Further settings.
    pub policy: Policy,
    /// Instances, in the order of their arrival.
    pub(in crate::account) instances: BTreeSet<(u64, u32)>,
    /// Numbers of its instances, by name.
    pub(in crate::account) names: BTreeMap<Name, u32>,
    /// Active instances, by level and by number of the place.
    pub(in crate::account) levels: BTreeSet<Level>,
    /// Numbers of the places that are taken.
    pub(in crate::account) taken: BTreeSet<u32>,
    /// Sum of the offsets of the instances.
    pub(in crate::account) offsets: i64,
    /// Active instances that have more than `floor` accounts, by level.
    pub(in crate::account) givers: BTreeSet<(i64, u32)>,
    /// How many accounts an active instance keeps when accounts are assigned evenly (see `computed_floor`).
    pub(in crate::account) floor: u32,
    /// Accounts that are in the module or on their way to it, without those that are frozen or on their way out.
    pub(in crate::account) expected: usize,
    /// All accounts of the module.
    pub(in crate::account) accounts: BTreeSet<u32>,
    /// Accounts that are free to be assigned.
    pub(in crate::account) free: BTreeSet<u32>,
    /// The free accounts that an instance had before, by the name of the last one.
    pub(in crate::account) free_of: BTreeMap<Name, BTreeSet<u32>>,
    /// Use and cost of the module's accounts in the current month.
    pub(in crate::account) sums: Usage,
    /// Use and cost of the module's accounts in past months, by month; without months in which they sent nothing.
    pub(in crate::account) past: BTreeMap<u32, PastUsage>,
    /// Number of accounts that are free, but still have a login that began before they were frozen.
    pub(in crate::account) barred: usize,
}

impl Module {
    pub(in crate::account) fn new(name: Name, department: Name) -> Self {
        Self {
            name,
            department,
            places: 0,
            weight: 1,
            reserve: 0,
            policy: Policy::default(),
            instances: BTreeSet::new(),
            names: BTreeMap::new(),
            levels: BTreeSet::new(),
            taken: BTreeSet::new(),
            offsets: 0,
            givers: BTreeSet::new(),
            floor: 0,
            expected: 0,
            sums: Usage::default(),
            past: BTreeMap::new(),
            accounts: BTreeSet::new(),
            free: BTreeSet::new(),
            free_of: BTreeMap::new(),
            barred: 0,
        }
    }

    /// How many accounts an active instance keeps when accounts are assigned evenly: the `min` of the policy. If the
    /// module has too few accounts, it is the even share; but if `min` is not 0, never the last account.
    pub fn floor(&self) -> u32 {
        self.floor
    }

    /// How many accounts the module divides into shares.
    fn shared(&self) -> usize {
        self.expected.saturating_sub(self.reserve as usize)
    }

    /// The instance that gets the next account; `None` if each has its share. O(log instances).
    pub(in crate::account) fn taker(&self, levels: &BTreeSet<Level>) -> Option<Level> {
        let first = levels.first().copied()?;
        if self.policy.share == Share::Present {
            return Some(first);
        }
        let shared = i64::try_from(self.shared()).unwrap_or(i64::MAX).saturating_sub(self.offsets).max(0);
        let places = i64::from(self.places.max(1));
        let even = shared / places;
        if first.0 < even {
            return Some(first);
        }
        // The first places get one account more if the shares do not come out even.
        let more = u32::try_from(shared % places).unwrap_or(0);
        levels.range((even, 0, 0)..(even, more, 0)).next().copied()
    }

    /// Notes that a free account was last with this instance, or that it is not free any more.
    pub(in crate::account) fn note_free(&mut self, holder: &Name, id: u32, on: bool) {
        let known = self.free_of.entry(holder.clone()).or_default();
        let changed = if on { known.insert(id) } else { known.remove(&id) };
        invariant!(changed, "a free account has one last holder");
        if known.is_empty() {
            self.free_of.remove(holder);
        }
    }

    /// The lowest number of a place that is not taken.
    pub(in crate::account) fn empty_place(&self) -> u32 {
        let gap = (0u32..).zip(&self.taken).find(|(number, taken)| number != *taken);
        gap.map_or(self.taken.len() as u32, |(number, _)| number)
    }

    /// The floor, computed from the number of accounts and of active instances.
    pub(in crate::account) fn computed_floor(&self) -> u32 {
        // Instances may also have accounts that rebalancing gave them from the reserve.
        let assigned = self.expected.saturating_sub(self.free.len());
        let even = self.shared().max(assigned).checked_div(self.levels.len()).unwrap_or(0);
        u32::try_from(even).unwrap_or(u32::MAX).max(1).min(self.policy.min)
    }

    /// Numbers of its instances, in the order of their arrival.
    pub fn instances(&self) -> impl Iterator<Item = u32> {
        self.instances.iter().map(|&(_, id)| id)
    }

    /// Use and cost of the module's accounts in the current month.
    pub fn usage(&self) -> &Usage {
        &self.sums
    }

    /// The number of accounts of the module, and of those that are free.
    pub fn counts(&self) -> (usize, usize) {
        (self.accounts.len(), self.free.len() + self.barred)
    }
}

words! {
    /// The presence of an instance. The numbers are part of the encoding.
    pub enum Presence {
        /// The instance has a place and a share.
        Active = 0 => "active",
        /// The instance waits for a place.
        Standby = 1 => "standby",
        /// The instance is away; its place and share are kept.
        Away = 2 => "away",
        /// The instance was detached, and its accounts are being taken back.
        Leaving = 3 => "leaving",
    }
}

/// An active instance among those of its module: its level, the number of its place, its own number.
pub(in crate::account) type Level = (i64, u32, u32);

/// The use of an instance: by hours over the last day, in this month, and in the month before.
#[derive(Clone, Debug, PartialEq, Eq)]
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
}

impl Pace {
    pub(in crate::account) fn since(at: Millis) -> Self {
        Self { hour: at / HOUR, begun: at, buckets: [0; WINDOW], month: 0, last_month: None }
    }

    /// Changes the count of an hour.
    fn change(&mut self, hour: i64, change: impl FnOnce(&mut u64)) {
        match self.buckets.get_mut(hour.rem_euclid(WINDOW as i64) as usize) {
            Some(count) => change(count),
            None => invariant!("each hour of a day has a bucket"),
        }
    }

    pub(in crate::account) fn count(&mut self, at: Millis, count: u64) {
        let hour = at / HOUR;
        // Counts older than a day are dropped.
        for passed in (self.hour + 1..=hour).take(WINDOW) {
            self.change(passed, |bucket| *bucket = 0);
        }
        self.hour = self.hour.max(hour);
        self.change(self.hour, |bucket| *bucket = bucket.saturating_add(count));
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
            let bucket = self.buckets.get(at).copied();
            invariant!(bucket.is_some(), "each hour of a day has a bucket");
            sum += u128::from(bucket.unwrap_or(0));
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

/// An instance: one server of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Name, chosen by the instance.
    pub name: Name,
    /// Its module.
    pub module: u32,
    /// Presence.
    pub presence: Presence,
    /// While away: until when the place is kept.
    pub away_until: Option<Millis>,
    /// Number of the arrival: increases with each instance of the book.
    pub(in crate::account) arrived: u64,
    /// When the instance was attached.
    pub since: Millis,
    /// Accounts of the instance, including those that are being revoked.
    pub accounts: BTreeSet<u32>,
    /// Number of accounts in the state `dealt`.
    pub dealt: u32,
    /// How many accounts are in transit to the instance.
    pub incoming: u32,
    /// The number of its place; `None` without a place.
    pub(in crate::account) place: Option<u32>,
    /// Offset from rebalancing: how many accounts more than an even share it gave to the instance.
    pub offset: i64,
    /// Accounts without a login, in the order in which they are picked, the last first.
    pub(in crate::account) ready: BTreeSet<(Rank, u32)>,
    /// The month and the limit for which `ready` was sorted.
    pub(in crate::account) ready_order: (u32, u64),
    /// What its accounts may still send: those that it has, without those that leave it, and those in transit to it.
    pub(in crate::account) supply: Supply,
    /// Pace of the instance.
    pub pace: Pace,
}

impl Instance {
    /// A new instance without accounts.
    pub(in crate::account) fn new(
        name: Name,
        module: u32,
        presence: Presence,
        arrived: u64,
        at: Millis,
    ) -> Self {
        Self {
            name,
            module,
            presence,
            away_until: None,
            arrived,
            since: at,
            accounts: BTreeSet::new(),
            dealt: 0,
            incoming: 0,
            place: None,
            offset: 0,
            ready: BTreeSet::new(),
            // No month: the order is made with the first account.
            ready_order: (0, 0),
            supply: Supply::default(),
            pace: Pace::since(at),
        }
    }

    /// Whether the instance has a place, or its place is kept.
    pub fn has_place(&self) -> bool {
        matches!(self.presence, Presence::Active | Presence::Away)
    }

    /// The level, which assignment evens out: accounts assigned and in transit, minus the offset from rebalancing.
    pub fn level(&self) -> i64 {
        i64::from(self.dealt) + i64::from(self.incoming) - self.offset
    }
}
