//! An account: where it is, who is logged in, how much it was used.

use std::sync::Arc;

use super::tariff::{Amount, Tariff};
use crate::shared::list::NONE;
use crate::shared::{Bytes, Millis};
use crate::words;

/// The number of a deal or a login. Every one of a book has its own, and later ones are greater.
pub type Epoch = u64;
/// A name that many records share.
pub type Name = Arc<[u8]>;

/// The most stays that are kept of an account; beyond that the oldest goes.
pub const MAX_HISTORY: usize = 32;
/// The last month: each of the future needs a number, too.
pub(in crate::account) const LAST_MONTH: u32 = u32::MAX / 2;
/// How many past months are kept.
pub const MONTHS: usize = 12;

/// A day, in milliseconds.
const DAY: Millis = 24 * 3_600_000;

/// The day of an instant.
pub(in crate::account) fn day_of(at: Millis) -> i32 {
    i32::try_from(at / DAY).unwrap_or(i32::MAX)
}

words! {
    /// The four states. The numbers are part of the encoding.
    #[derive(PartialOrd, Ord)]
    pub enum Standing {
        /// No instance has it.
        Free = 0 => "free",
        /// An instance has it.
        Dealt = 1 => "dealt",
        /// It is to leave its instance as soon as nobody is logged in.
        Revoking = 2 => "revoking",
        /// The platform froze it.
        Frozen = 3 => "frozen",
    }
}

/// What becomes of an account that is revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// It is dealt again, to anybody.
    Deal,
    /// It goes to this instance.
    Place(u32),
    /// It goes to this module.
    Module(u32),
    /// It is deleted.
    Delete,
}

impl Goal {
    /// The instance that an account goes to, if it goes to one.
    pub fn place(self) -> Option<u32> {
        match self {
            Self::Place(place) => Some(place),
            Self::Deal | Self::Module(_) | Self::Delete => None,
        }
    }
}

/// Somebody works with an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// Where.
    pub terminal: Bytes,
    /// Its number.
    pub epoch: Epoch,
    /// When it is over unless it is renewed.
    pub until: Millis,
}

/// A time that an account was with an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stay {
    /// The deal.
    pub epoch: Epoch,
    /// The module.
    pub module: Name,
    /// The instance.
    pub instance: Name,
    /// Since when.
    pub from: Millis,
    /// Until when; `None` while it lasts.
    pub to: Option<Millis>,
}

/// An account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its name on the platform (pid).
    pub name: Bytes,
    /// The module that it belongs to.
    pub module: u32,
    /// What it costs.
    pub tariff: Arc<Tariff>,
    /// Where it stands.
    pub standing: Standing,
    /// The instance that has it; `NONE` where none has. While revoking, the one that is to let it go.
    pub instance: u32,
    /// What follows; while revoking.
    pub goal: Option<Goal>,
    /// Its last deal; 0 if it was never dealt.
    pub epoch: Epoch,
    /// When it came to its instance, or became free.
    pub since: Millis,
    /// Who works with it.
    pub login: Option<Box<Login>>,
    /// The month that `used` is of.
    pub month: u32,
    /// Instructions in that month.
    pub used: u64,
    /// Months before it and the instructions in each; rising, at most [`MONTHS`].
    pub past: Vec<(u32, u64)>,
    /// The day of its last moves by rebalancing, and how many they were.
    pub moved: (i32, u32),
    /// Its stays, oldest first.
    pub history: Vec<Stay>,
}

impl Account {
    /// One that was just added.
    pub(in crate::account) fn new(
        name: Bytes,
        module: u32,
        tariff: Arc<Tariff>,
        month: u32,
        at: Millis,
    ) -> Self {
        Self {
            name,
            module,
            tariff,
            standing: Standing::Free,
            instance: NONE,
            goal: None,
            epoch: 0,
            since: at,
            login: None,
            month,
            used: 0,
            past: Vec::new(),
            moved: (0, 0),
            history: Vec::new(),
        }
    }

    /// Instructions in a month.
    pub fn used_in(&self, month: u32) -> u64 {
        if month == self.month {
            return self.used;
        }
        self.past.iter().find(|&&(past, _)| past == month).map_or(0, |&(_, used)| used)
    }

    /// What a month costs beyond the flat price.
    pub fn cost_in(&self, month: u32) -> Amount {
        self.tariff.cost(self.used_in(month))
    }

    /// Instructions left at the flat price.
    pub fn left(&self, month: u32) -> u64 {
        self.tariff.left(self.used_in(month))
    }

    /// What can be sent at the flat price before the most that a month may have (`Settings::limit`); `None` where nothing
    /// can be sent any more.
    pub fn room(&self, month: u32, limit: u64) -> Option<u64> {
        let used = self.used_in(month);
        (used < limit).then(|| self.tariff.quota.min(limit).saturating_sub(used))
    }

    /// The login that has not run out.
    pub fn live_login(&self, now: Millis) -> Option<&Login> {
        self.login.as_deref().filter(|login| login.until > now)
    }

    /// How often rebalancing moved it that day.
    pub fn moves_on(&self, day: i32) -> u32 {
        if self.moved.0 == day { self.moved.1 } else { 0 }
    }

    /// Counts instructions of a month, which is not before the last one.
    pub(in crate::account) fn count(&mut self, month: u32, count: u64) {
        if month != self.month {
            if self.used > 0 {
                self.past.push((self.month, self.used));
            }
            (self.month, self.used) = (month, 0);
            let oldest = month.saturating_sub(MONTHS as u32);
            self.past.retain(|&(past, _)| past >= oldest);
        }
        self.used = self.used.saturating_add(count);
    }

    /// A stay begins.
    pub(in crate::account) fn begin_stay(&mut self, stay: Stay) {
        self.end_stay(stay.from);
        if self.history.len() >= MAX_HISTORY {
            self.history.remove(0);
        }
        self.history.push(stay);
    }

    /// The stay that lasts, if one does, is over.
    pub(in crate::account) fn end_stay(&mut self, at: Millis) {
        if let Some(stay) = self.history.last_mut()
            && stay.to.is_none()
        {
            stay.to = Some(at);
        }
    }

    /// Whether its instance can work with it: it is dealt, and nobody is logged in.
    pub(in crate::account) fn is_ready(&self) -> bool {
        self.standing == Standing::Dealt && self.login.is_none()
    }

    /// Bytes allocated behind it.
    pub(in crate::account) fn allocated(&self) -> usize {
        let spilled = |bytes: &Bytes| if bytes.spilled() { bytes.capacity() } else { 0 };
        spilled(&self.name)
            + self.login.as_ref().map_or(0, |login| size_of::<Login>() + spilled(&login.terminal))
            + self.past.capacity() * size_of::<(u32, u64)>()
            + self.history.capacity() * size_of::<Stay>()
    }
}
