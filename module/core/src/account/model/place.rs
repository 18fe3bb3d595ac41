//! Where accounts are: modules, which they belong to, and instances, which work with them.

use std::collections::{BTreeMap, BTreeSet};

use super::record::Name;
use super::usage::Usage;
use crate::invariant;
use crate::shared::Millis;
use crate::words;

/// An hour, in milliseconds.
pub const HOUR: Millis = 3_600_000;
/// Over how many hours a pace is taken.
pub const WINDOW: usize = 24;
/// The most places, and the most accounts kept back, of a module.
pub const MAX_PLACES: i64 = 1_000_000;
/// The greatest offset of an instance, up and down. More moves by rebalancing than that change it no further.
pub(in crate::account) const MAX_OFFSET: i64 = 1 << 40;

/// A business system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its name.
    pub name: Name,
    /// The department that it is of.
    pub department: Name,
    /// How many of its instances hold a share at once.
    pub places: u32,
    /// Its part where accounts without a module are distributed. With 0 it also neither gives accounts to other modules
    /// of its department nor takes theirs.
    pub weight: u32,
    /// How many accounts are kept back for replacements.
    pub reserve: u32,
    /// Its instances, in the order of their arrival.
    pub(in crate::account) instances: BTreeSet<(u64, u32)>,
    /// Numbers of its instances, by name.
    pub(in crate::account) names: BTreeMap<Name, u32>,
    /// Its instances that are active, by their level.
    pub(in crate::account) levels: BTreeSet<(i64, u32)>,
    /// Those of them that have an account to give, by their level.
    pub(in crate::account) givers: BTreeSet<(i64, u32)>,
    /// All its accounts.
    pub(in crate::account) accounts: BTreeSet<u32>,
    /// Those that are free to be dealt.
    pub(in crate::account) free: BTreeSet<u32>,
    /// Use and cost of its accounts in the running month.
    pub(in crate::account) sums: Usage,
    /// How many are free but for a login from before they were frozen, which is not over yet.
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
            instances: BTreeSet::new(),
            names: BTreeMap::new(),
            levels: BTreeSet::new(),
            givers: BTreeSet::new(),
            sums: Usage::default(),
            accounts: BTreeSet::new(),
            free: BTreeSet::new(),
            barred: 0,
        }
    }

    /// Numbers of its instances, in the order of their arrival.
    pub fn instances(&self) -> impl Iterator<Item = u32> {
        self.instances.iter().map(|&(_, id)| id)
    }

    /// How many accounts it has, and how many of them are free.
    pub fn counts(&self) -> (usize, usize) {
        (self.accounts.len(), self.free.len() + self.barred)
    }
}

words! {
    /// Whether an instance takes part. The numbers are part of the encoding.
    pub enum Presence {
        /// It has a place and a share.
        Active = 0 => "active",
        /// It waits for a place.
        Standby = 1 => "standby",
        /// It is gone for the time being, and its place and share wait for it.
        Away = 2 => "away",
        /// It is gone, and its accounts are being taken back.
        Leaving = 3 => "leaving",
    }
}

/// Instructions by the hour over the last day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The hour that the last bucket is of.
    pub(in crate::account) hour: i64,
    /// The hour in which counting began.
    pub(in crate::account) first: i64,
    /// By the hour modulo 24.
    pub(in crate::account) buckets: [u64; WINDOW],
}

impl Pace {
    pub(in crate::account) fn since(at: Millis) -> Self {
        Self { hour: at / HOUR, first: at / HOUR, buckets: [0; WINDOW] }
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
        // What is older than a day is forgotten.
        for passed in (self.hour + 1..=hour).take(WINDOW) {
            self.change(passed, |bucket| *bucket = 0);
        }
        self.hour = self.hour.max(hour);
        self.change(self.hour, |bucket| *bucket = bucket.saturating_add(count));
    }

    /// How many instructions the pace of the last day makes in so many milliseconds.
    pub fn forecast(&self, now: Millis, ahead: Millis) -> u64 {
        let hour = (now / HOUR).max(self.hour);
        let gone = (hour - self.hour).clamp(0, WINDOW as i64);
        let mut sum = 0u128;
        for age in 0..WINDOW as i64 - gone {
            let at = (self.hour - age).rem_euclid(WINDOW as i64) as usize;
            let bucket = self.buckets.get(at).copied();
            invariant!(bucket.is_some(), "each hour of a day has a bucket");
            sum += u128::from(bucket.unwrap_or(0));
        }
        // The hour that is running counts by its part.
        let known = (now - self.first * HOUR)
            .clamp(HOUR / 4, (WINDOW as i64 - 1) * HOUR + now.rem_euclid(HOUR).max(1));
        let ahead = u128::from(ahead.max(0).unsigned_abs());
        u64::try_from(sum * ahead / u128::from(known.unsigned_abs())).unwrap_or(u64::MAX)
    }
}

/// A server of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Its name, of its own choice.
    pub name: Name,
    /// Its module.
    pub module: u32,
    /// Whether it takes part.
    pub presence: Presence,
    /// Until when its place is kept; while away.
    pub away_until: Option<Millis>,
    /// Its turn among those that arrived.
    pub(in crate::account) arrived: u64,
    /// When it came.
    pub since: Millis,
    /// Accounts that it has, those that are being revoked among them.
    pub accounts: BTreeSet<u32>,
    /// How many of them are dealt.
    pub dealt: u32,
    /// How many accounts are on their way to it.
    pub incoming: u32,
    /// How many more accounts than an even deal rebalancing gave it.
    pub offset: i64,
    /// Accounts that nobody is logged in with, by their room (`Account::room`): what can be picked comes last.
    pub(in crate::account) ready: BTreeSet<(Option<u64>, u32)>,
    /// The month and the limit that the order is of.
    pub(in crate::account) ready_order: (u32, u64),
    /// How fast it works.
    pub pace: Pace,
}

impl Instance {
    /// One that comes, without accounts.
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
            offset: 0,
            ready: BTreeSet::new(),
            // Of no month: it is put in order with the first account.
            ready_order: (0, 0),
            pace: Pace::since(at),
        }
    }

    /// Whether it has, or is kept, one of its module's places.
    pub fn has_place(&self) -> bool {
        matches!(self.presence, Presence::Active | Presence::Away)
    }

    /// What dealing evens out: accounts dealt and on their way, over what rebalancing gave.
    pub fn level(&self) -> i64 {
        i64::from(self.dealt) + i64::from(self.incoming) - self.offset
    }
}
