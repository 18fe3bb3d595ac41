//! Modules, to which accounts belong, and their instances, which work with accounts.

use std::collections::{BTreeMap, BTreeSet};

use super::pace::Pace;
use super::record::{Name, Rank};
use super::supply::Supply;
use super::usage::Usage;
use super::worth::{ByWorth, QuotaCounts, Spare, Worth};
use crate::shared::Millis;
use crate::shared::codec::{Damaged, ensure};
use crate::shared::token::MAX_TTL;
use crate::{fields, words};

/// The limit of a module's places, weight and reserve.
pub const MAX_PLACES: i64 = 1_000_000;
/// The greatest offset of an instance, positive or negative. Further moves by rebalancing do not change the offset.
pub(in crate::account) const MAX_OFFSET: Worth = 1 << 80;

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

fields! {
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
        /// How many instructions a month the module needs when accounts are distributed over modules; 0 if that is not
        /// known.
        pub need: u64,
    } checked by Policy::is_sound;
}

impl Default for Policy {
    fn default() -> Self {
        Self { min: 1, share: Share::Places, lend: USUAL_LEND, cap: 0, need: 0 }
    }
}

impl Policy {
    fn is_sound(&self) -> Result<(), Damaged> {
        ensure(self.min <= MAX_MIN && self.lend <= MAX_TTL, "a setting of a module is out of range")
    }
}

fields! {
    /// A module: a business system of the company.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    } computed {
        /// Instances, in the order of their arrival.
        pub(in crate::account) instances: BTreeSet<(u64, u32)>,
        /// Numbers of its instances, by name.
        pub(in crate::account) names: BTreeMap<Name, u32>,
        /// Active instances, by level and by number of the place.
        pub(in crate::account) levels: BTreeSet<Level>,
        /// Numbers of the places that are taken.
        pub(in crate::account) taken: BTreeSet<u32>,
        /// Sum of the offsets of the instances.
        pub(in crate::account) offsets: Worth,
        /// Active instances that have more than `floor` accounts, by the level without their smallest account.
        pub(in crate::account) givers: BTreeSet<(Worth, u32)>,
        /// How many accounts an active instance keeps when accounts are assigned evenly (see `computed_floor`).
        pub(in crate::account) floor: u32,
        /// Accounts that are in the module or on their way to it, without those that are frozen or on their way out.
        pub(in crate::account) expected: usize,
        /// What the `expected` accounts are worth.
        pub(in crate::account) worth: Worth,
        /// The `expected` accounts, by worth.
        pub(in crate::account) quotas: QuotaCounts,
        /// All accounts of the module.
        pub(in crate::account) accounts: BTreeSet<u32>,
        /// Accounts that are free to be assigned.
        pub(in crate::account) free: ByWorth,
        /// The free accounts that an instance had before, by the name of the last one.
        pub(in crate::account) free_of: BTreeMap<Name, ByWorth>,
        /// The accounts of the module, and what it has spent in the current month in its present department. What it
        /// has spent is not computed, but encoded beside the module.
        pub(in crate::account) sums: Usage,
        /// What the module has spent in the current month before it came to its department, or before it was deleted.
        pub(in crate::account) elsewhere: u128,
        /// Number of accounts that are free, but still have a login that began before they were frozen.
        pub(in crate::account) barred: usize,
        /// Number of accounts that become free when the login ends that they have at an instance without a place.
        pub(in crate::account) returning: usize,
    } checked by Module::is_sound;
}

impl Module {
    fn is_sound(&self) -> Result<(), Damaged> {
        let numbers = [self.places, self.weight, self.reserve];
        ensure(numbers.iter().all(|&n| i64::from(n) <= MAX_PLACES), "a module's number is out of range")
    }

    pub(in crate::account) fn new(name: Name, department: Name) -> Self {
        Self { name, department, weight: 1, ..Self::default() }
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

    /// The free accounts that are not in reserve; `None` if there are none. The reserve is the smallest ones. O(different
    /// worths in the reserve).
    pub(in crate::account) fn spare(&self) -> Option<Spare> {
        self.free.without_smallest(self.reserve as usize)
    }

    /// Which accounts an instance may get from other instances. All of them, if the accounts are divided among the
    /// instances that are present, or if no place is empty; otherwise those within the share of its place. O(different
    /// worths in the reserve).
    pub(in crate::account) fn room(&self, (level, place, _): Level) -> Room {
        let complete = self.levels.len() >= self.places as usize && self.free.len() >= self.reserve as usize;
        if complete || self.policy.share == Share::Present {
            return Room::ANY;
        }
        let places = Worth::from(self.places.max(1));
        let shared = self.worth - self.quotas.worth_of_smallest(self.reserve) - self.offsets;
        let missing = shared.max(0) - places * level;
        // The first places round up if the shares do not come out even.
        Room { fits: part(missing, places), most: part(missing, places.min(Worth::from(place) + 1)) }
    }

    /// Which free accounts an instance takes, if free accounts of this sum are spare. If accounts differ in worth, each
    /// empty place keeps as much of them as the instance then has, so that an instance that comes back finds what it
    /// had; but an instance without an account takes the largest, unless a place before its own is empty.
    pub(in crate::account) fn room_for_free(&self, taker: Level, spare: Worth) -> Room {
        let (room, (level, place, _)) = (self.room(taker), taker);
        let empty = Worth::from(self.places) - self.taken.len() as Worth;
        if empty <= 0 || self.quotas.are_equal() || room == Room::ANY {
            return room;
        }
        if level <= 0 && place < self.empty_place() {
            return Room::ANY;
        }
        let most = part(spare - level * empty, empty + 1);
        Room { fits: room.fits.min(most), most: room.most.min(most) }
    }

    /// Whether an instance gives accounts to one that has less than its share. With shares by place, the share of an
    /// instance that arrives is free, or becomes free when logins of the instance before it end.
    pub(in crate::account) fn evens_out(&self) -> bool {
        self.policy.share == Share::Present || self.returning == 0
    }

    /// Notes that a free account was last with this instance, or that it is not free any more.
    pub(in crate::account) fn note_free(&mut self, holder: &Name, (worth, id): (u64, u32), on: bool) {
        let known = self.free_of.entry(holder.clone()).or_default();
        known.set(worth, id, on);
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

    /// The instructions of the module in the current month.
    pub(in crate::account) fn used(&self) -> u128 {
        self.sums.used.saturating_add(self.elsewhere)
    }

    /// The number of accounts of the module, and of those that are free.
    pub fn counts(&self) -> (usize, usize) {
        (self.accounts.len(), self.free.len() + self.barred)
    }
}

/// A part of a sum of worths; 0 of a negative sum.
fn part(sum: Worth, of: Worth) -> u64 {
    u64::try_from((sum / of).max(0)).unwrap_or(u64::MAX)
}

words! {
    /// The presence of an instance. The numbers are part of the encoding.
    #[derive(Default)]
    pub enum Presence {
        /// The instance has a place and a share.
        Active = 0 => "active",
        /// The instance waits for a place.
        #[default]
        Standby = 1 => "standby",
        /// The instance is away; its place and share are kept.
        Away = 2 => "away",
        /// The instance was detached, and its accounts are being taken back.
        Leaving = 3 => "leaving",
    }
}

/// An active instance among those of its module: its level, the number of its place, its own number.
pub(in crate::account) type Level = (Worth, u32, u32);

/// Which accounts an instance takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::account) struct Room {
    /// The most that an account may be worth that is within the share.
    pub(in crate::account) fits: u64,
    /// The most that an account may be worth that goes beyond the share, if none is within it.
    pub(in crate::account) most: u64,
}

impl Room {
    const ANY: Self = Self { fits: u64::MAX, most: u64::MAX };
}

fields! {
    /// An instance: one server of a module.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Instance {
        /// Name, chosen by the instance.
        pub name: Name,
        /// Presence.
        pub presence: Presence,
        /// While away: until when the place is kept.
        pub away_until: Option<Millis>,
        /// Number of the arrival: increases with each instance of the book.
        pub(in crate::account) arrived: u64,
        /// When the instance was attached.
        pub since: Millis,
        /// The number of its place; `None` without a place.
        pub(in crate::account) place: Option<u32>,
        /// Offset from rebalancing: how much more than an even share it gave to the instance, in instructions.
        pub offset: i128,
        /// Pace of the instance.
        pub pace: Pace,
    } computed {
        /// Its module.
        pub module: u32,
        /// Accounts of the instance, including those that are being revoked.
        pub accounts: BTreeSet<u32>,
        /// Number of accounts in the state `assigned`.
        pub assigned: u32,
        /// How many accounts are in transit to the instance.
        pub incoming: u32,
        /// What the accounts in the state `assigned`, and those in transit to the instance, are worth.
        pub worth: i128,
        /// The accounts in the state `assigned`, by worth.
        pub(in crate::account) quotas: QuotaCounts,
        /// Accounts without a login, in the order in which they are picked, the last first.
        pub(in crate::account) ready: BTreeSet<(Rank, u32)>,
        /// The month and the limit for which `ready` was sorted. No limit is 0: the order is made with the first account.
        pub(in crate::account) ready_order: (u32, u64),
        /// What its accounts may still send: those that it has, without those that leave it, and those in transit to it.
        pub(in crate::account) supply: Supply,
    } checked by Instance::is_sound;
}

impl Instance {
    fn is_sound(&self) -> Result<(), Damaged> {
        let away = self.presence == Presence::Away;
        ensure(away == self.away_until.is_some(), "an instance is away without an end, or has one")?;
        ensure(self.place.is_some() == self.has_place(), "an instance has no number of its place")?;
        ensure(self.offset == 0 || self.has_place(), "an instance without a place has an offset")?;
        ensure(self.offset.unsigned_abs() <= MAX_OFFSET.unsigned_abs(), "an offset is out of range")
    }

    /// A new instance without accounts.
    pub(in crate::account) fn new(
        name: Name,
        module: u32,
        presence: Presence,
        arrived: u64,
        at: Millis,
    ) -> Self {
        let pace = Pace::since(at);
        Self { name, module, presence, arrived, since: at, pace, ..Self::default() }
    }

    /// Whether the instance has a place, or its place is kept.
    pub fn has_place(&self) -> bool {
        matches!(self.presence, Presence::Active | Presence::Away)
    }

    /// The level, which assignment evens out: what the accounts assigned and in transit are worth, minus the offset from
    /// rebalancing.
    pub fn level(&self) -> i128 {
        self.worth - self.offset
    }

    /// The level after the instance gives its smallest account; `None` if it keeps all that it has.
    pub fn level_of_giver(&self, floor: u32) -> Option<i128> {
        let least = self.quotas.least().filter(|_| self.assigned > floor)?;
        Some(self.level() - Worth::from(least))
    }
}
