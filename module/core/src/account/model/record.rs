//! The record of an account: instance, login, use.

use std::sync::Arc;

use super::tariff::{Amount, MAX_COUNT, Tariff};
use crate::shared::codec::{Damaged, LAST_COUNT, ensure};
use crate::shared::list::NONE;
use crate::shared::{Bytes, Millis};
use crate::{fields, words};

/// The number of an assignment or a login: unique in its book, and greater than all earlier ones.
pub type Epoch = u64;
/// A name that many records share.
pub type Name = Arc<[u8]>;

/// The most stays that are kept of an account. Beyond that, the oldest is dropped.
pub const MAX_HISTORY: usize = 32;
/// The greatest number of a month.
pub(in crate::account) const LAST_MONTH: u32 = u32::MAX / 2;
/// The most assignments whose reports are kept. Only the latest assignments of an account are still reported.
const MAX_REPORTS: usize = 4;
/// The most past months that are kept.
pub const MONTHS: usize = 12;
/// The last day of a month on which an account can turn: each month of a calendar has it.
pub(in crate::account) const LAST_TURN: u32 = 28;

/// A day, in milliseconds.
pub(in crate::account) const DAY: Millis = 24 * 3_600_000;

/// The day of a time, counted from 1970.
pub(in crate::account) fn day_of(at: Millis) -> i32 {
    i32::try_from(at / DAY).unwrap_or(i32::MAX)
}

words! {
    /// The states of an account. The numbers are part of the encoding.
    #[derive(Default, PartialOrd, Ord)]
    pub enum AccountState {
        /// No instance has the account.
        #[default]
        Free = 0 => "free",
        /// An instance has the account.
        Assigned = 1 => "assigned",
        /// The account leaves its instance when its login ends.
        Revoking = 2 => "revoking",
        /// The platform froze the account.
        Frozen = 3 => "frozen",
    }
}

/// The goal of a revoked account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The account becomes free, and is assigned again.
    Reassign,
    /// The account goes to this instance.
    Place(u32),
    /// The account goes to this module.
    Module(u32),
    /// The account is deleted.
    Delete,
}

impl Goal {
    /// The target instance, if there is one.
    pub fn place(self) -> Option<u32> {
        match self {
            Self::Place(place) => Some(place),
            Self::Reassign | Self::Module(_) | Self::Delete => None,
        }
    }
}

/// The order in which accounts are picked: the greatest first. The next instruction is cheapest, and of equal prices
/// the price holds for the most instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// Rises as the price of the next instruction falls; 0 if the cap is reached.
    cheapness: u64,
    /// Instructions at this price, and below the cap.
    left: u64,
}

impl Rank {
    /// The rank of an account that has reached the cap.
    const CLOSED: Self = Self { cheapness: 0, left: 0 };

    /// Whether the account may send another instruction.
    pub fn is_open(self) -> bool {
        self != Self::CLOSED
    }
}

fields! {
    /// A login.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Login {
        /// Terminal of the login.
        pub terminal: Bytes,
        /// Epoch of the login.
        pub epoch: Epoch,
        /// When the login ends, unless it is renewed.
        pub until: Millis,
    }

    /// One stay of an account with an instance.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Stay {
        /// Epoch of the assignment.
        pub epoch: Epoch,
        /// The module.
        pub module: Name,
        /// The instance.
        pub instance: Name,
        /// When the stay began.
        pub from: Millis,
        /// When the stay ended; `None` while it lasts.
        pub to: Option<Millis>,
    }

    /// The instructions that were counted from reports of instances: totals since the assignment, each counted once.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Reports {
        /// Epoch of each assignment, in ascending order, and its total. At least one, at most [`MAX_REPORTS`].
        totals: Vec<(u64, u64)>,
    } checked by Reports::is_sound;

    /// What an account has sent in a month, and what that cost.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct MonthUse {
        /// The month.
        pub month: u32,
        /// Instructions in the month.
        pub used: u64,
        /// Their cost beyond the flat price, each at the tariff of the account when it was counted.
        pub cost: Amount,
    }

    /// The use of an account by month of the book, and since its own month began.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Tally {
        /// How many days after each month of the book the account's own month begins; 0 if it is that of the book.
        turn: u32,
        /// Whether its own month has begun in the current month of the book; false if `turn` is 0.
        turned: bool,
        /// Instructions of its own month; 0 if `turn` is 0.
        sent: u64,
        /// The last month in which the account was added or used.
        last: MonthUse,
        /// Earlier months with use, in ascending order. At most [`MONTHS`].
        past: Vec<MonthUse>,
    } checked by Tally::is_sound;

    /// An account.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Account {
        /// Name on the platform (pid).
        pub name: Bytes,
        /// State.
        pub state: AccountState,
        /// Epoch of the last assignment; 0 if there was none.
        pub epoch: Epoch,
        /// When the account came to its instance, or became free.
        pub since: Millis,
        /// Whether the account was frozen when its deletion began, which waits for the end of its login.
        pub was_frozen: bool,
        /// While frozen, also if deletion has begun since: when the account can be used again by itself.
        pub frozen_until: Option<Millis>,
        /// The most instructions in a month; 0 for no limit but that of the book.
        pub cap: u64,
        /// The login, if there is one.
        pub login: Option<Box<Login>>,
        /// The use by month.
        pub tally: Tally,
        /// The use that was counted from reports of instances; `None` if none was reported.
        pub reports: Option<Box<Reports>>,
        /// The day of the last moves by rebalancing, and their number.
        pub moved: (i32, u32),
        /// Stays, oldest first. At most [`MAX_HISTORY`].
        pub history: Vec<Stay>,
    } computed {
        /// Module of the account.
        pub module: u32,
        /// Tariff of the account.
        pub tariff: Arc<Tariff>,
        /// The instance that has the account; `NONE` if there is none. While revoking, the instance that must give it
        /// up.
        pub instance: u32,
        /// While revoking: the goal of the account.
        pub goal: Option<Goal>,
    } checked by Account::is_sound;
}

/// The most instructions in a month of an account with a cap, if the book allows so many to each account.
pub(in crate::account) fn limited(cap: u64, of_book: u64) -> u64 {
    if cap == 0 { of_book } else { of_book.min(cap) }
}

impl Reports {
    fn is_sound(&self) -> Result<(), Damaged> {
        let fits = (1..=MAX_REPORTS).contains(&self.totals.len())
            && self.totals.is_sorted_by(|(epoch, _), (next, _)| epoch < next)
            && self.totals.iter().all(|&(epoch, total)| epoch <= LAST_COUNT && total <= MAX_COUNT);
        ensure(fits, "the reports of an account are not in order")
    }

    /// What was counted of an assignment; `None` if the assignment is older than all that are kept, so that its
    /// total may have been dropped.
    fn counted(&self, epoch: Epoch) -> Option<u64> {
        if let Some(&(_, total)) = self.totals.iter().find(|&&(known, _)| known == epoch) {
            return Some(total);
        }
        let oldest = self.totals.first().is_some_and(|&(oldest, _)| epoch < oldest);
        (self.totals.len() < MAX_REPORTS || !oldest).then_some(0)
    }

    /// Adds to the total of an assignment. If there is no room, the oldest assignment is dropped.
    pub(in crate::account) fn count(&mut self, epoch: Epoch, count: u64) {
        if let Some((_, total)) = self.totals.iter_mut().find(|(known, _)| *known == epoch) {
            *total = total.saturating_add(count).min(MAX_COUNT);
            return;
        }
        let place = self.totals.partition_point(|&(known, _)| known < epoch);
        self.totals.insert(place, (epoch, count));
        if self.totals.len() > MAX_REPORTS {
            self.totals.remove(0);
        }
    }

    fn allocated(&self) -> usize {
        size_of::<Self>() + self.totals.capacity() * size_of::<(u64, u64)>()
    }
}

impl Tally {
    fn is_sound(&self) -> Result<(), Damaged> {
        let rises = self.past.is_sorted_by(|past, next| past.month < next.month);
        let before = self.past.last().is_none_or(|past| past.month < self.last.month);
        let fits = rises && before && self.past.len() <= MONTHS;
        ensure(fits, "the months of an account are not in order, or too many")?;
        let own = self.turn > 0 || !self.turned && self.sent == 0;
        ensure(own && self.turn < LAST_TURN, "an account's own month is out of range")
    }

    /// No use, of an account that is added in this month.
    pub(in crate::account) fn since(month: u32) -> Self {
        Self { last: MonthUse { month, ..MonthUse::default() }, ..Self::default() }
    }

    /// What was sent in a month.
    pub fn of(&self, month: u32) -> MonthUse {
        if month == self.last.month {
            return self.last;
        }
        let past = self.past.iter().find(|past| past.month == month);
        past.copied().unwrap_or(MonthUse { month, ..MonthUse::default() })
    }

    /// The last month of the tally.
    pub(in crate::account) fn month(&self) -> u32 {
        self.last.month
    }

    /// Whether nothing was sent in any month, and the account's month is that of the book.
    pub(in crate::account) fn is_empty(&self) -> bool {
        self.last.used == 0 && self.past.is_empty() && self.turn == 0
    }

    /// The day of the month of the book on which the account's own month begins, counted from 1.
    pub fn day(&self) -> u32 {
        self.turn + 1
    }

    /// Whether the account's own month is not that of the book.
    pub(in crate::account) fn has_turn(&self) -> bool {
        self.turn > 0
    }

    /// How many days after the current month of the book the account's own month begins, if that is to come.
    pub(in crate::account) fn coming_turn(&self) -> Option<u32> {
        (self.has_turn() && !self.turned).then_some(self.turn)
    }

    /// Has the own month begin on another day. `turned` tells whether this day of the current month has come.
    pub(in crate::account) fn set_day(&mut self, month: u32, day: u32, turned: bool) {
        let sent = self.sent(month);
        self.turn = day.saturating_sub(1);
        (self.turned, self.sent) = if self.turn > 0 { (turned, sent) } else { (false, 0) };
    }

    /// The own month of the account begins.
    pub(in crate::account) fn turn(&mut self) {
        (self.turned, self.sent) = (true, 0);
    }

    /// A month of the book ends, and with it the own month of an account that has not turned in it. Returns whether an
    /// own month goes on.
    pub(in crate::account) fn end_month(&mut self) -> bool {
        let goes_on = self.turned;
        self.turned = false;
        if !goes_on {
            self.sent = 0;
        }
        goes_on
    }

    /// The instructions of the account's own month, if the current month of the book is `month`.
    fn sent(&self, month: u32) -> u64 {
        if self.has_turn() { self.sent } else { self.of(month).used }
    }

    fn count(&mut self, month: u32, count: u64, cost: Amount) {
        self.begin(month);
        (self.last.used, self.last.cost) = (self.last.used.saturating_add(count), cost);
        if self.has_turn() {
            self.sent = self.sent.saturating_add(count);
        }
    }

    /// Begins a month that is not before the last one.
    fn begin(&mut self, month: u32) {
        if month == self.last.month {
            return;
        }
        if self.last.used > 0 {
            self.past.push(self.last);
        }
        self.last = MonthUse { month, ..MonthUse::default() };
        let oldest = month.saturating_sub(MONTHS as u32);
        self.past.retain(|past| past.month >= oldest);
    }

    pub(in crate::account) fn allocated(&self) -> usize {
        self.past.capacity() * size_of::<MonthUse>()
    }
}

impl Account {
    /// Checks the fields that agree with each other in every state. `Book::check_account` checks the others.
    fn is_sound(&self) -> Result<(), Damaged> {
        let frozen = self.state == AccountState::Frozen;
        let thaws = self.frozen_until.is_none() || frozen || self.was_frozen;
        let waits = !self.was_frozen || self.state == AccountState::Revoking;
        ensure(
            thaws && waits && self.cap <= MAX_COUNT,
            "an account thaws that is not frozen, or has too large a cap",
        )?;
        let rises = self.history.is_sorted_by(|stay, next| stay.epoch < next.epoch);
        ensure(rises && self.history.len() <= MAX_HISTORY, "a history is not in order, or too long")?;
        let mut earlier = self.history.iter().rev().skip(1);
        ensure(earlier.all(|stay| stay.to.is_some()), "a stay before the last one has not ended")
    }

    /// A new account without a module, in this month.
    pub(in crate::account) fn new(name: Bytes, month: u32) -> Self {
        Self { name, module: NONE, instance: NONE, tally: Tally::since(month), ..Self::default() }
    }

    /// The account without its module, as the book keeps it in the month in which it is deleted.
    pub(in crate::account) fn deleted(mut self, at: Millis) -> Self {
        self.end_stay(at);
        let frozen = self.was_frozen || self.state == AccountState::Frozen;
        let state = if frozen { AccountState::Frozen } else { AccountState::Free };
        Self { state, was_frozen: false, module: NONE, instance: NONE, goal: None, ..self }
    }

    /// Whether a deleted account has something that it has again if it is added again: use, assignments whose use can
    /// still be reported, a cap, or a freeze.
    pub(in crate::account) fn is_worth_keeping(&self) -> bool {
        let used = !self.tally.is_empty() || !self.history.is_empty();
        used || self.cap > 0 || self.state == AccountState::Frozen
    }

    /// When the account can be used again by itself, if it is frozen until a time.
    pub(in crate::account) fn thaws_at(&self) -> Option<Millis> {
        self.frozen_until.filter(|_| self.state == AccountState::Frozen)
    }

    /// Instructions in a month.
    pub fn used_in(&self, month: u32) -> u64 {
        self.tally.of(month).used
    }

    /// Cost of a month beyond the flat price.
    pub fn cost_in(&self, month: u32) -> Amount {
        self.tally.of(month).cost
    }

    /// The number of the last instruction in the account's own month, which the prices and the caps go by. `month` is
    /// the current month of the book.
    pub fn position(&self, month: u32) -> u64 {
        self.tally.sent(month)
    }

    /// Cost of a month after further instructions at the present tariff.
    pub(in crate::account) fn cost_with(&self, month: u32, count: u64) -> Amount {
        let position = self.position(month);
        let more = self.tariff.cost(position.saturating_add(count)).0 - self.tariff.cost(position).0;
        Amount(self.cost_in(month).0.wrapping_add(more))
    }

    /// Instructions left at the flat price.
    pub fn left(&self, month: u32) -> u64 {
        self.tariff.left(self.position(month))
    }

    /// Whether further instructions can be counted in the current month of the book and of the account.
    pub(in crate::account) fn has_room(&self, month: u32, count: u64) -> bool {
        self.used_in(month).max(self.position(month)).saturating_add(count) <= MAX_COUNT
    }

    /// The most instructions in a month, if the book allows so many to each account.
    pub(in crate::account) fn limit(&self, of_book: u64) -> u64 {
        limited(self.cap, of_book)
    }

    /// The place of the account in the order in which accounts are picked, if the book allows so many instructions in a
    /// month to each account.
    pub fn rank(&self, month: u32, of_book: u64) -> Rank {
        let (used, limit) = (self.position(month), self.limit(of_book));
        if used >= limit {
            return Rank::CLOSED;
        }
        let price = u64::try_from(self.tariff.next_price(used).0).unwrap_or(u64::MAX);
        let end = self.tariff.end_of_price(used).unwrap_or(u64::MAX);
        Rank { cheapness: u64::MAX - price.min(u64::MAX - 1), left: end.min(limit) - used }
    }

    /// The login, if its deadline has not passed.
    pub fn live_login(&self, now: Millis) -> Option<&Login> {
        self.login.as_deref().filter(|login| login.until > now)
    }

    /// How often rebalancing moved the account on that day.
    pub fn moves_on(&self, day: i32) -> u32 {
        if self.moved.0 == day { self.moved.1 } else { 0 }
    }

    /// Counts instructions of a month, which is not before the last counted month. Returns their cost.
    pub(in crate::account) fn count(&mut self, month: u32, count: u64) -> Amount {
        let (before, cost) = (self.cost_in(month), self.cost_with(month, count));
        self.tally.count(month, count, cost);
        Amount(cost.0.wrapping_sub(before.0))
    }

    /// The instructions that were counted from reports of an assignment; `None` if the assignment is older than those
    /// whose reports are kept.
    pub fn reported(&self, epoch: Epoch) -> Option<u64> {
        self.reports.as_ref().map_or(Some(0), |reports| reports.counted(epoch))
    }

    /// The stay of the assignment of this epoch, if the history still has it.
    pub(in crate::account) fn stay_of(&self, epoch: Epoch) -> Option<&Stay> {
        let place = self.history.binary_search_by_key(&epoch, |stay| stay.epoch).ok()?;
        self.history.get(place)
    }

    /// Ends the current stay, and begins a new one.
    pub(in crate::account) fn begin_stay(&mut self, stay: Stay) {
        self.end_stay(stay.from);
        if self.history.len() >= MAX_HISTORY {
            self.history.remove(0);
        }
        self.history.push(stay);
    }

    /// Ends the current stay, if there is one.
    pub(in crate::account) fn end_stay(&mut self, at: Millis) {
        if let Some(stay) = self.history.last_mut()
            && stay.to.is_none()
        {
            stay.to = Some(at);
        }
    }

    /// The instance that had the account last.
    pub(in crate::account) fn last_holder(&self) -> Option<&Name> {
        self.history.last().map(|stay| &stay.instance)
    }

    /// The instance that can count on the account: the one that has it, or will get it.
    pub(in crate::account) fn supplied(&self) -> Option<u32> {
        match self.state {
            AccountState::Assigned => Some(self.instance),
            _ => self.goal.and_then(Goal::place),
        }
    }

    /// Whether a login is possible: the account is assigned to an instance, and has no login.
    pub(in crate::account) fn is_ready(&self) -> bool {
        self.state == AccountState::Assigned && self.login.is_none()
    }

    /// Bytes allocated for the fields of the account.
    pub(in crate::account) fn allocated(&self) -> usize {
        self.name.allocated()
            + self.login.as_ref().map_or(0, |login| size_of::<Login>() + login.terminal.allocated())
            + self.tally.allocated()
            + self.history.capacity() * size_of::<Stay>()
            + self.reports.as_ref().map_or(0, |reports| reports.allocated())
    }
}
