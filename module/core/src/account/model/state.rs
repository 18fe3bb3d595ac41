//! A book: modules, instances, accounts, and the indexes over them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::pace::HOUR;
use super::place::{Instance, Module};
use super::record::{Account, DAY, Epoch, LAST_MONTH, Name, Stay};
use super::tariff::{Amount, MAX_COUNT, Tariff};
use super::usage::{LedgerKey, LedgerLine, Usage};
use crate::fields;
use crate::shared::codec::{Damaged, ensure};
use crate::shared::counter::Counter;
use crate::shared::deadlines::Deadlines;
use crate::shared::invariant::Expected;
use crate::shared::list::NONE;
use crate::shared::names::NameIndex;
use crate::shared::outbox::Outbox;
use crate::shared::table::Table;
use crate::shared::token::MAX_TTL;
use crate::shared::{Bytes, Millis};

/// Expected length of a month whose end is not set, in milliseconds.
const MONTH: Millis = 30 * 24 * HOUR;

/// A deadline that does not come.
const NEVER: Millis = Millis::MAX;

/// The most future ends of months that a book keeps.
pub(in crate::account) const MAX_TURNS: usize = 120;
pub(in crate::account) use crate::shared::fence::MAX_TIME;

fields! {
    /// The settings of a book, which operators change.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Settings {
        /// The most instructions of an account in a month; 0 for no limit.
        pub cap: u64,
        /// How long an account stays with an instance before rebalancing may move it, in milliseconds.
        pub dwell: Millis,
        /// The most moves by rebalancing of an account in a day.
        pub max_moves: u32,
        /// Rebalancing makes a move only if the move avoids a cost, and at least this cost.
        pub margin: Amount,
        /// Modules exchange accounts if so many levels of their departments are the same; 0 for all levels, up to
        /// `MAX_LEVEL`.
        pub lend_level: u32,
        /// About how many entries the event stream keeps; 0 for no event stream.
        pub events: u32,
        /// Whether leaders set `turns` to the beginnings of calendar months; false if an operator has set `turns`.
        pub calendar: bool,
        /// The next times at which the month turns, in ascending order.
        pub turns: Vec<Millis>,
    } checked by Settings::is_sound;

    /// The budget of a department with all departments in it.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Budget {
        /// The most instructions in a month.
        pub cap: u64,
    } computed {
        /// Instructions of the current month.
        pub used: u128,
    } checked by Budget::is_sound;
}

impl Budget {
    fn is_sound(&self) -> Result<(), Damaged> {
        ensure(self.cap > 0, "a budget has no limit")
    }
}

impl Default for Settings {
    fn default() -> Self {
        let (margin, turns) = (Amount::default(), Vec::new());
        let (dwell, calendar) = (30 * 60_000, true);
        Self { cap: 0, dwell, max_moves: 2, margin, lend_level: 0, events: 0, calendar, turns }
    }
}

impl Settings {
    /// The most instructions of an account in a month.
    pub fn limit(&self) -> u64 {
        if self.cap == 0 { MAX_COUNT } else { self.cap }
    }

    fn is_sound(&self) -> Result<(), Damaged> {
        let rises = self.turns.is_sorted_by(|turn, next| turn < next);
        let within = self.turns.last().is_none_or(|&turn| turn <= MAX_TIME);
        ensure(rises && within && self.turns.len() <= MAX_TURNS, "the ends of months are out of range")?;
        let fits = self.dwell <= MAX_TTL
            && self.max_moves <= MAX_DAILY_MOVES
            && self.margin.is_price()
            && self.lend_level <= MAX_LEVEL;
        ensure(fits, "a setting is out of range")
    }
}

/// The greatest `max_moves`.
pub(in crate::account) const MAX_DAILY_MOVES: u32 = 1000;
/// The greatest `lend_level`.
pub(in crate::account) const MAX_LEVEL: u32 = 16;

/// The name of a department and of the departments that contain it, from the outermost one: `a`, `a/b`, `a/b/c`.
pub(in crate::account) fn levels_of(department: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = department.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end);
    ends.chain([department.len()]).filter_map(|end| department.get(..end))
}

/// A book.
#[derive(Clone, Debug, Default)]
pub struct Book {
    pub(in crate::account) settings: Settings,
    /// The last time applied.
    pub(in crate::account) applied: Millis,
    pub(in crate::account) term: u64,
    pub(in crate::account) leader: Option<Bytes>,
    pub(in crate::account) last_epoch: Epoch,
    /// The current month, counted from 0, and when each of the kept months began.
    pub(in crate::account) month: u32,
    pub(in crate::account) month_starts: Vec<Millis>,
    pub(in crate::account) arrivals: u64,
    pub(in crate::account) modules: Table<Module>,
    pub(in crate::account) module_names: BTreeMap<Name, u32>,
    pub(in crate::account) instances: Table<Instance>,
    pub(in crate::account) accounts: Table<Account>,
    pub(in crate::account) names: NameIndex,
    /// Each tariff once, and how many accounts have it.
    pub(in crate::account) tariffs: BTreeMap<Arc<Tariff>, usize>,
    /// Deadlines of logins.
    pub(in crate::account) logins: Deadlines,
    /// When frozen accounts can be used again.
    pub(in crate::account) thaws: Deadlines,
    /// When accounts with an own month turn; never for those that have turned in the current month.
    pub(in crate::account) cycles: Deadlines,
    /// Deadlines of the kept places of instances that are away.
    pub(in crate::account) away: Deadlines,
    /// Instances without a place that still have accounts.
    pub(in crate::account) draining: BTreeSet<u32>,
    /// Modules whose assignment is not even.
    pub(in crate::account) uneven: BTreeSet<u32>,
    /// Number of accounts by state.
    pub(in crate::account) totals: [usize; 4],
    /// Budgets of departments, by name.
    pub(in crate::account) departments: BTreeMap<Name, Budget>,
    /// What was spent by month, department and module: all lines of past months, and the lines of the current month to
    /// which nothing is added any more, because the module is in another department now, or was deleted.
    pub(in crate::account) ledger: BTreeMap<LedgerKey, Usage>,
    /// Accounts that were deleted this month, or whose own month goes on since then: what an account that is added
    /// again has again. Their use can be reported.
    pub(in crate::account) deleted: BTreeMap<Bytes, Account>,
    /// Messages for the event stream.
    pub(in crate::account) outbox: Outbox,
}

impl Book {
    /// An empty book, opened at that time.
    pub fn open(settings: Settings, at: Millis) -> Self {
        Self { settings, applied: at, month_starts: vec![at], ..Self::default() }
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The term of the leader that claimed the book, and its name.
    pub fn leader(&self) -> (u64, Option<&[u8]>) {
        (self.term, self.leader.as_deref())
    }

    /// The latest epoch given out.
    pub fn last_epoch(&self) -> Epoch {
        self.last_epoch
    }

    /// The running month, counted from 0.
    pub fn month(&self) -> u32 {
        self.month
    }

    /// The month at `now`, whether or not its turn was applied yet.
    pub fn month_at(&self, now: Millis) -> u32 {
        let turns = self.settings.turns.iter().take_while(|&&turn| turn <= now).count();
        self.month.saturating_add(u32::try_from(turns).unwrap_or(u32::MAX))
    }

    /// When a month began, if the month is still kept.
    pub fn month_start(&self, month: u32) -> Option<Millis> {
        let age = self.month.checked_sub(month)? as usize;
        let place = self.month_starts.len().checked_sub(age + 1)?;
        self.month_starts.get(place).copied()
    }

    /// When the current month ends. If no future turn is set, this is an estimate: 30 days after the month began, or 30
    /// days from now if these have passed.
    pub fn month_end(&self, now: Millis) -> Millis {
        let start = self.month_starts.last().expected("the running month has begun");
        let start = start.copied().unwrap_or(self.applied);
        let turn = self.settings.turns.iter().copied().find(|&turn| turn > now);
        turn.unwrap_or(if start + MONTH > now { start + MONTH } else { now + MONTH })
    }

    /// The time of this book: the greater of the clock and the last time applied.
    pub fn now(&self, clock: Millis) -> Millis {
        clock.max(self.applied)
    }

    /// The counters that only grow. If one of them is at its limit, the book refuses every change.
    pub(in crate::account) fn counters(&self) -> [Counter; 3] {
        let (step, event) = (MAX_TURNS as u64, 1);
        let (what, value, last) = ("month", self.month.into(), LAST_MONTH.into());
        [
            Counter::new("last epoch", self.last_epoch),
            Counter::new("number of arrivals", self.arrivals),
            Counter { what, value, last, step, event },
        ]
    }

    /// Whether each counter has room for another step.
    pub(in crate::account) fn has_room(&self) -> bool {
        self.counters().iter().all(Counter::has_room)
    }

    /// The earliest deadline.
    pub fn next_due(&self) -> Option<Millis> {
        if !self.has_room() {
            return None;
        }
        if !self.is_even() {
            return Some(self.applied);
        }
        let deadlines = [&self.logins, &self.thaws, &self.cycles, &self.away].map(Deadlines::earliest);
        let turn = self.settings.turns.first().copied();
        turn.into_iter().chain(deadlines.into_iter().flatten()).min().filter(|&due| due < NEVER)
    }

    /// When a day of the current month begins, counted from 1. A day has 24 hours.
    pub(in crate::account) fn day_start(&self, day: u32) -> Millis {
        let start = self.month_start(self.month).expected("the running month has begun").unwrap_or(0);
        start.saturating_add(i64::from(day.saturating_sub(1)) * DAY)
    }

    /// When an account with an own month turns: `NEVER` if it has turned in the current month.
    pub(in crate::account) fn turns_at(&self, account: &Account) -> Option<Millis> {
        let turn = account.tally.coming_turn().map_or(NEVER, |days| self.day_start(days + 1));
        account.tally.has_turn().then_some(turn)
    }

    /// Whether no account must be assigned or moved.
    pub fn is_even(&self) -> bool {
        self.uneven.is_empty() && self.draining.is_empty()
    }

    /// Number of logins.
    pub fn live_logins(&self) -> usize {
        self.logins.len()
    }

    /// Number of accounts by state, and of instances and modules.
    pub fn totals(&self) -> ([usize; 4], usize, usize) {
        (self.totals, self.instances.len(), self.modules.len())
    }

    /// The budget of a department; `None` if it has none.
    pub fn budget(&self, department: &[u8]) -> Option<Budget> {
        self.departments.get(department).copied()
    }

    /// The instructions of a department and of all departments in it this month. O(modules).
    pub fn used_by_department(&self, department: &[u8]) -> u128 {
        let within = |line: &LedgerLine<'_>| levels_of(line.department).any(|level| *level == *department);
        self.ledger_of(self.month).filter(within).map(|line| line.usage.used).sum()
    }

    /// The messages that wait for the event stream.
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// The number of an account. O(1).
    pub fn find(&self, name: &[u8]) -> Option<u32> {
        self.names.find(name, |id| self.indexed(id).is_some_and(|account| *account.name == *name))
    }

    /// The account of a number in an index. `None` is a broken invariant, reported at the caller's line.
    #[track_caller]
    pub(in crate::account) fn indexed(&self, id: u32) -> Option<&Account> {
        self.accounts.get(id).expected("an index has only accounts that exist")
    }

    /// The instance of a number in an index or an account. `None` is a broken invariant, reported at the caller's
    /// line.
    #[track_caller]
    pub(in crate::account) fn indexed_instance(&self, id: u32) -> Option<&Instance> {
        self.instances.get(id).expected("indexes and accounts name instances that are there")
    }

    /// The module of a number in an index, an instance or an account. `None` is a broken invariant, reported at the
    /// caller's line.
    #[track_caller]
    pub(in crate::account) fn indexed_module(&self, id: u32) -> Option<&Module> {
        self.modules.get(id).expected("indexes, instances and accounts name modules that are there")
    }

    /// As `indexed_module`, mutable.
    #[track_caller]
    pub(in crate::account) fn indexed_module_mut(&mut self, id: u32) -> Option<&mut Module> {
        self.modules.get_mut(id).expected("indexes, instances and accounts name modules that are there")
    }

    /// As `indexed`, mutable.
    #[track_caller]
    pub(in crate::account) fn indexed_mut(&mut self, id: u32) -> Option<&mut Account> {
        self.accounts.get_mut(id).expected("an index has only accounts that exist")
    }

    /// An account by its number.
    pub fn account(&self, id: u32) -> Option<&Account> {
        self.accounts.get(id)
    }

    /// An account by its name. O(1).
    pub fn account_called(&self, name: &[u8]) -> Option<&Account> {
        self.find(name).and_then(|id| self.indexed(id))
    }

    /// The account whose use since an assignment is reported: one that is there, or one that was deleted this month, as
    /// long as the module of the assignment is there.
    pub(in crate::account) fn reported(&self, name: &[u8], epoch: Epoch) -> Option<&Account> {
        let counts = |stay: &Stay| self.find_module(&stay.module).is_some();
        let deleted = || self.deleted.get(name).filter(|one| one.stay_of(epoch).is_none_or(counts));
        self.account_called(name).or_else(deleted)
    }

    /// The number of a module. O(log modules).
    pub fn find_module(&self, name: &[u8]) -> Option<u32> {
        self.module_names.get(name).copied()
    }

    /// A module by its number.
    pub fn module(&self, id: u32) -> Option<&Module> {
        self.modules.get(id)
    }

    /// All modules, by name.
    pub fn modules(&self) -> impl Iterator<Item = &Module> {
        self.module_names.values().filter_map(|&id| self.indexed_module(id))
    }

    /// The number of an instance. O(log instances).
    pub fn find_instance(&self, module: u32, name: &[u8]) -> Option<u32> {
        self.modules.get(module).and_then(|module| module.names.get(name).copied())
    }

    /// The number of an instance by its names.
    pub(in crate::account) fn find_place(&self, module: &[u8], instance: &[u8]) -> Option<u32> {
        self.find_module(module).and_then(|module| self.find_instance(module, instance))
    }

    /// An instance by its number.
    pub fn instance(&self, id: u32) -> Option<&Instance> {
        self.instances.get(id)
    }

    /// A module's name.
    pub fn module_name(&self, id: u32) -> Name {
        self.indexed_module(id).map(|module| module.name.clone()).unwrap_or_default()
    }

    /// An instance's name; empty for none.
    pub fn instance_name(&self, id: u32) -> Name {
        let instance = if id == NONE { None } else { self.indexed_instance(id) };
        instance.map(|instance| instance.name.clone()).unwrap_or_default()
    }

    /// Bytes allocated, approximately, from a sample of the accounts. O(modules + instances).
    pub fn allocated(&self) -> usize {
        let sampled = self.accounts.iter().take(64).map(|(_, account)| account.allocated());
        let (count, bytes) = sampled.fold((0usize, 0usize), |(count, sum), bytes| (count + 1, sum + bytes));
        // An account is in two sets, with about 6 bytes each, and in the order of ready accounts, with about 34.
        self.accounts.allocated()
            + self.accounts.len() * 46
            + bytes.checked_div(count).map_or(0, |each| each * self.accounts.len())
            + self.names.allocated()
            + self.logins.allocated()
            + self.thaws.allocated()
            + self.cycles.allocated()
            + self.instances.allocated()
            + self.instances.iter().map(|(_, instance)| instance.supply.allocated()).sum::<usize>()
            + self.modules.allocated()
            + self.ledger.len() * (size_of::<(LedgerKey, Usage)>() + 8)
            + self
                .deleted
                .values()
                .map(|account| size_of::<(Bytes, Account)>() + account.allocated())
                .sum::<usize>()
            + self.outbox.allocated()
    }

    /// Approximate number of allocations. Redis frees a value with many allocations in a background thread.
    pub fn free_effort(&self) -> usize {
        self.accounts.len() + self.deleted.len()
    }
}
