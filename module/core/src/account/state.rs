//! A book: modules, instances, accounts, and the indexes by which they are found.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::invariant;

use super::place::{HOUR, Instance, Module, Presence};
use super::record::{Account, Epoch, Goal, MONTHS, Name, Standing};
use super::tariff::{MAX_COUNT, Tariff};
use crate::shared::deadlines::Deadlines;
use crate::shared::list::NONE;
use crate::shared::names::NameIndex;
use crate::shared::table::Table;
use crate::shared::{Bytes, Millis};

/// How far ahead use is projected where no turn of the month is known.
const MONTH: Millis = 30 * 24 * HOUR;

/// What the operator set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The most instructions of an account in a month; 0 = no limit.
    pub cap: u64,
    /// How long an account stays with an instance at least before rebalancing moves it.
    pub dwell: Millis,
    /// The most moves by rebalancing of an account in a day.
    pub max_moves: u32,
    /// The next instants at which the month turns, rising.
    pub turns: Vec<Millis>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { cap: 0, dwell: 30 * 60_000, max_moves: 2, turns: Vec::new() }
    }
}

impl Settings {
    /// The most instructions of an account in a month.
    pub fn limit(&self) -> u64 {
        if self.cap == 0 { MAX_COUNT } else { self.cap }
    }
}

/// A book.
#[derive(Clone, Debug)]
pub struct Book {
    pub(super) settings: Settings,
    /// The last time applied.
    pub(super) applied: Millis,
    pub(super) term: u64,
    pub(super) leader: Option<Bytes>,
    pub(super) last_epoch: Epoch,
    /// The running month, counted from 0, and when each of the kept months began.
    pub(super) month: u32,
    pub(super) month_starts: Vec<Millis>,
    pub(super) arrivals: u64,
    pub(super) modules: Table<Module>,
    pub(super) module_names: BTreeMap<Name, u32>,
    pub(super) instances: Table<Instance>,
    pub(super) accounts: Table<Account>,
    pub(super) names: NameIndex,
    /// Each tariff once, and how many accounts have it.
    pub(super) tariffs: BTreeMap<Arc<Tariff>, usize>,
    /// Live logins, by when they are over.
    pub(super) logins: Deadlines,
    /// Instances that are away, by when their place is given up.
    pub(super) away: Deadlines,
    /// Instances without a place that have accounts to give back.
    pub(super) draining: BTreeSet<u32>,
    /// Modules whose deal is not even.
    pub(super) uneven: BTreeSet<u32>,
    /// Numbers of accounts by standing.
    pub(super) totals: [usize; 4],
}

impl Book {
    /// A book of nothing, opened at that time.
    pub fn open(settings: Settings, at: Millis) -> Self {
        Self {
            settings,
            applied: at,
            term: 0,
            leader: None,
            last_epoch: 0,
            month: 0,
            month_starts: vec![at],
            arrivals: 0,
            modules: Table::default(),
            module_names: BTreeMap::new(),
            instances: Table::default(),
            accounts: Table::default(),
            names: NameIndex::default(),
            tariffs: BTreeMap::new(),
            logins: Deadlines::default(),
            away: Deadlines::default(),
            draining: BTreeSet::new(),
            uneven: BTreeSet::new(),
            totals: [0; 4],
        }
    }

    /// What the operator set.
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

    /// The month that runs at `now`, whether or not its turn was applied.
    pub fn month_at(&self, now: Millis) -> u32 {
        let turns = self.settings.turns.iter().take_while(|&&turn| turn <= now).count();
        self.month.saturating_add(u32::try_from(turns).unwrap_or(u32::MAX))
    }

    /// When a month began, if it is kept.
    pub fn month_start(&self, month: u32) -> Option<Millis> {
        let age = self.month.checked_sub(month)? as usize;
        let place = self.month_starts.len().checked_sub(age + 1)?;
        self.month_starts.get(place).copied()
    }

    /// When the running month ends. Where no turn is known that is yet to come, a month has 30 days; where those are over
    /// as well, it is taken to end 30 days from now: use goes on, and is projected as far.
    pub fn month_end(&self, now: Millis) -> Millis {
        let start = self.month_starts.last().copied();
        invariant!(start.is_some(), "the running month has begun");
        let start = start.unwrap_or(self.applied);
        let turn = self.settings.turns.iter().copied().find(|&turn| turn > now);
        turn.unwrap_or(if start + MONTH > now { start + MONTH } else { now + MONTH })
    }

    /// *Now* of this book: the greater of the clock and the last time applied.
    pub fn now(&self, clock: Millis) -> Millis {
        clock.max(self.applied)
    }

    /// The time at which something is due that nobody asks for.
    pub fn next_due(&self) -> Option<Millis> {
        if !self.is_even() {
            return Some(self.applied);
        }
        let times = [self.settings.turns.first().copied(), self.logins.earliest(), self.away.earliest()];
        times.into_iter().flatten().min()
    }

    /// Whether there is nothing to deal.
    pub fn is_even(&self) -> bool {
        self.uneven.is_empty() && self.draining.is_empty()
    }

    /// How many logins are live.
    pub fn live_logins(&self) -> usize {
        self.logins.len()
    }

    /// How many accounts there are by standing, and how many instances and modules.
    pub fn totals(&self) -> ([usize; 4], usize, usize) {
        (self.totals, self.instances.len(), self.modules.len())
    }

    /// The number of an account. O(1).
    pub fn find(&self, name: &[u8]) -> Option<u32> {
        self.names.find(name, |id| self.indexed(id).is_some_and(|one| *one.name == *name))
    }

    /// An account that an index names. `None` breaks an invariant, which is reported where this is called.
    #[track_caller]
    pub(super) fn indexed(&self, id: u32) -> Option<&Account> {
        let account = self.accounts.get(id);
        if account.is_none() {
            invariant!("an index names accounts that are there");
        }
        account
    }

    /// An instance that an index or an account names. `None` breaks an invariant, which is reported where this is
    /// called.
    #[track_caller]
    pub(super) fn indexed_instance(&self, id: u32) -> Option<&Instance> {
        let instance = self.instances.get(id);
        if instance.is_none() {
            invariant!("indexes and accounts name instances that are there");
        }
        instance
    }

    /// A module that an index, an instance or an account names. `None` breaks an invariant, which is reported where
    /// this is called.
    #[track_caller]
    pub(super) fn indexed_module(&self, id: u32) -> Option<&Module> {
        let module = self.modules.get(id);
        if module.is_none() {
            invariant!("indexes, instances and accounts name modules that are there");
        }
        module
    }

    /// As `indexed_module`, to be changed.
    #[track_caller]
    pub(super) fn indexed_module_mut(&mut self, id: u32) -> Option<&mut Module> {
        let module = self.modules.get_mut(id);
        if module.is_none() {
            invariant!("indexes, instances and accounts name modules that are there");
        }
        module
    }

    /// An account by its number.
    pub fn account(&self, id: u32) -> Option<&Account> {
        self.accounts.get(id)
    }

    /// An account by its name. O(1).
    pub fn account_called(&self, name: &[u8]) -> Option<&Account> {
        self.find(name).and_then(|id| self.indexed(id))
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

    /// An instance by its number.
    pub fn instance(&self, id: u32) -> Option<&Instance> {
        self.instances.get(id)
    }

    /// A module's name.
    pub fn module_name(&self, id: u32) -> Name {
        self.indexed_module(id).map_or_else(|| Name::from(&b""[..]), |module| module.name.clone())
    }

    /// An instance's name; empty for none.
    pub fn instance_name(&self, id: u32) -> Name {
        let instance = if id == NONE { None } else { self.indexed_instance(id) };
        instance.map_or_else(|| Name::from(&b""[..]), |instance| instance.name.clone())
    }

    /// Bytes allocated. O(modules + instances), of the accounts a sample.
    pub fn allocated(&self) -> usize {
        let sampled = self.accounts.iter().take(64).map(|(_, one)| one.allocated());
        let (count, bytes) = sampled.fold((0usize, 0usize), |(count, sum), bytes| (count + 1, sum + bytes));
        // A number in a set takes some 6 bytes, and each account is in two of them; and some 34 by its room.
        self.accounts.allocated()
            + self.accounts.len() * 46
            + bytes.checked_div(count).map_or(0, |each| each * self.accounts.len())
            + self.names.allocated()
            + self.logins.allocated()
            + self.instances.allocated()
            + self.modules.allocated()
    }

    /// How much there is to free.
    pub fn free_effort(&self) -> usize {
        self.accounts.len()
    }

    // What follows keeps the indexes in step.

    /// A name that others have already, if others have it.
    pub(super) fn department_name(&self, name: &[u8]) -> Name {
        let same = self.modules().find(|module| *module.department == *name);
        same.map_or_else(|| Name::from(name), |module| module.department.clone())
    }

    /// The tariff that is equal to this and that other accounts have, if some have it.
    pub(super) fn shared_tariff(&self, tariff: &Tariff) -> Arc<Tariff> {
        let known = self.tariffs.get_key_value(tariff);
        known.map_or_else(|| Arc::new(tariff.clone()), |(known, _)| known.clone())
    }

    /// The next epoch: `max(last + 1, now)`, *now* in microseconds, so that epochs still grow after a failover to a
    /// replica that had not heard of the last ones.
    pub(super) fn take_epoch(&mut self, at: Millis) -> Epoch {
        /// Year 2112: however far ahead a clock is, as many epochs follow as anybody can give.
        const LAST_OF_CLOCK: u64 = 1 << 52;
        let now = at.max(0).unsigned_abs().saturating_mul(1000).min(LAST_OF_CLOCK);
        self.last_epoch = (self.last_epoch + 1).max(now);
        self.last_epoch
    }

    /// Changes an instance with its module's levels in step; `NONE` is none.
    pub(super) fn with_instance(&mut self, id: u32, change: impl FnOnce(&mut Instance)) {
        if id == NONE {
            return;
        }
        let Some(instance) = self.instances.get_mut(id) else {
            invariant!("an instance that changes is there");
            return;
        };
        let level = |one: &Instance| (one.presence == Presence::Active).then(|| (one.level(), one.dealt > 0));
        let before = level(instance);
        change(instance);
        let after = level(instance);
        let module = instance.module;
        if !instance.has_place() && instance.dealt > 0 {
            self.draining.insert(id);
        } else {
            self.draining.remove(&id);
        }
        if before == after {
            return;
        }
        if let Some(module) = self.indexed_module_mut(module) {
            if let Some((level, gave)) = before {
                let was_there =
                    module.levels.remove(&(level, id)) && module.givers.remove(&(level, id)) == gave;
                invariant!(was_there, "an active instance has a place among the levels");
            }
            if let Some((level, gives)) = after {
                let is_new =
                    module.levels.insert((level, id)) && (!gives || module.givers.insert((level, id)));
                invariant!(is_new, "an active instance has one place among the levels");
            }
        }
        // An account on its way may belong to another module, which nobody else would look at.
        self.look_at(module);
    }

    /// What the order of ready accounts depends on beside them: the running month, and the most that it may have.
    pub(super) fn order(&self) -> (u32, u64) {
        (self.month, self.settings.limit())
    }

    /// Brings the order of an instance's ready accounts to the running month and the cap of today. Whether it was not.
    fn refresh(&mut self, instance: u32) -> bool {
        let order @ (month, limit) = self.order();
        let Some(instance) = self.instances.get_mut(instance) else {
            invariant!("an account that is dealt has an instance");
            return false;
        };
        if instance.ready_order == order {
            return false;
        }
        let ready = |&id: &u32| {
            let one = self.accounts.get(id);
            invariant!(one.is_some(), "an instance has accounts that are there");
            one.filter(|one| one.is_ready()).map(|one| (one.room(month, limit), id))
        };
        instance.ready = instance.accounts.iter().filter_map(ready).collect();
        instance.ready_order = order;
        true
    }

    /// Enters an account among those that can be picked, or takes it out, if it is one of those.
    pub(super) fn set_ready(&mut self, id: u32, on: bool) {
        let Some(one) = self.indexed(id) else { return };
        if !one.is_ready() {
            return;
        }
        let (month, limit) = self.order();
        let (instance, key) = (one.instance, (one.room(month, limit), id));
        let refreshed = self.refresh(instance);
        let Some(instance) = self.instances.get_mut(instance) else { return };
        if on {
            let is_new = instance.ready.insert(key);
            // An order that was made just now may have it already.
            invariant!(is_new || refreshed, "an account is ready once");
        } else {
            let was_there = instance.ready.remove(&key);
            invariant!(was_there, "an account that is ready has a place in the order");
        }
    }

    /// Enters an account in all indexes that depend on where it stands, or takes it out. Its module stays.
    fn link(&mut self, id: u32, on: bool) {
        let Some(one) = self.indexed(id) else { return };
        let (standing, instance, goal, module) = (one.standing, one.instance, one.goal, one.module);
        let barred = one.login.is_some();
        match self.totals.get_mut(standing as usize) {
            Some(total) => step(total, on),
            None => invariant!("there is a total for each standing"),
        }
        if standing == Standing::Free
            && let Some(module) = self.indexed_module_mut(module)
        {
            if barred {
                step(&mut module.barred, on);
            } else {
                let changed = if on { module.free.insert(id) } else { module.free.remove(&id) };
                invariant!(changed, "a module has its free accounts, each once");
            }
        }
        self.set_ready(id, on);
        self.with_instance(instance, |instance| {
            let changed = if on { instance.accounts.insert(id) } else { instance.accounts.remove(&id) };
            invariant!(changed, "an instance has its accounts, each once");
            if standing == Standing::Dealt {
                step(&mut instance.dealt, on);
            }
        });
        if let Some(Goal::Place(place)) = goal {
            self.with_instance(place, |place| step(&mut place.incoming, on));
        }
    }

    /// Enters an account among those of a module, or takes it out.
    fn set_home(&mut self, module: u32, id: u32, on: bool) {
        let (Some(module), Some(one)) = (self.modules.get_mut(module), self.accounts.get(id)) else {
            invariant!("an account and its module are there");
            return;
        };
        let changed = if on {
            module.sums.add(one, self.month);
            module.accounts.insert(id)
        } else {
            module.sums.take(one, self.month);
            module.accounts.remove(&id)
        };
        invariant!(changed, "a module has its accounts, each once");
    }

    /// Counts instructions of an account in the running month, with the sums of its module in step.
    pub(super) fn count_use(&mut self, id: u32, count: u64) {
        let month = self.month;
        let Some(one) = self.accounts.get_mut(id) else {
            invariant!("an account that is used is there");
            return;
        };
        let Some(module) = self.modules.get_mut(one.module) else {
            invariant!("an account has a module");
            return;
        };
        module.sums.take(one, month);
        one.count(month, count);
        module.sums.add(one, month);
    }

    /// Changes an account with all indexes in step.
    pub(super) fn change(&mut self, id: u32, change: impl FnOnce(&mut Account)) {
        let Some(one) = self.indexed(id) else { return };
        let (before, left) = (one.module, one.instance);
        let passed = Self::place_of(one.goal).unwrap_or(NONE);
        self.link(id, false);
        let Some(one) = self.accounts.get_mut(id) else { return };
        change(one);
        let after = one.module;
        if before != after {
            self.set_home(before, id, false);
            self.set_home(after, id, true);
            self.look_at(before);
        }
        self.link(id, true);
        self.look_at(after);
        self.forget_if_empty(left);
        self.forget_if_empty(passed);
    }

    /// Enters a new account.
    pub(super) fn enter(&mut self, account: Account) -> u32 {
        let (name, module) = (account.name.clone(), account.module);
        *self.tariffs.entry(account.tariff.clone()).or_default() += 1;
        let id = self.accounts.insert(account);
        self.names.insert(&name, id);
        self.set_home(module, id, true);
        self.link(id, true);
        self.look_at(module);
        id
    }

    /// Forgets an account.
    pub(super) fn remove(&mut self, id: u32) {
        self.link(id, false);
        self.logins.remove(id);
        let Some(home) = self.indexed(id).map(|one| one.module) else { return };
        self.set_home(home, id, false);
        let Some(one) = self.accounts.remove(id) else { return };
        self.names.remove(&one.name, id);
        self.look_at(one.module);
        self.forget_tariff(&one.tariff);
        self.forget_if_empty(one.instance);
    }

    /// An account that had a tariff is gone, and the tariff with the last of them.
    fn forget_tariff(&mut self, tariff: &Tariff) {
        let Some(count) = self.tariffs.get_mut(tariff) else {
            invariant!("the tariff of an account is known");
            return;
        };
        step(count, false);
        if *count == 0 {
            self.tariffs.remove(tariff);
        }
    }

    /// Forgets an instance that is gone, once it has nothing and nothing is on its way to it.
    pub(super) fn forget_if_empty(&mut self, id: u32) {
        let gone = |one: &Instance| {
            one.presence == Presence::Leaving && one.accounts.is_empty() && one.incoming == 0
        };
        // There is none, or it was forgotten a moment ago.
        if self.instances.get(id).is_some_and(gone) {
            self.remove_instance(id);
        }
    }

    /// Notes whether a module's deal is even.
    pub(super) fn look_at(&mut self, module: u32) {
        if self.is_uneven(module) {
            self.uneven.insert(module);
        } else {
            self.uneven.remove(&module);
        }
    }

    /// A new month begins.
    pub(super) fn turn_month(&mut self, at: Millis) {
        self.month += 1;
        for &id in self.module_names.values() {
            match self.modules.get_mut(id) {
                Some(module) => module.sums.begin_month(),
                None => invariant!("the names of modules are of modules that are there"),
            }
        }
        self.month_starts.push(at);
        let kept = self.month_starts.len().saturating_sub(MONTHS + 1);
        self.month_starts.drain(..kept);
    }

    /// Enters an instance, which has no accounts yet.
    pub(super) fn enter_instance(&mut self, instance: Instance) -> u32 {
        let (module, name, arrived) = (instance.module, instance.name.clone(), instance.arrived);
        let presence = instance.presence;
        // Its place among the levels comes with the change below.
        let id = self.instances.insert(Instance { presence: Presence::Standby, ..instance });
        if let Some(module) = self.indexed_module_mut(module) {
            let is_new = module.names.insert(name, id).is_none() && module.instances.insert((arrived, id));
            invariant!(is_new, "a module has its instances, each once");
        }
        self.with_instance(id, |instance| instance.presence = presence);
        id
    }

    /// Forgets an instance that has no accounts and no place.
    fn remove_instance(&mut self, id: u32) {
        self.away.remove(id);
        let Some(instance) = self.instances.remove(id) else {
            invariant!("an instance that is forgotten was there");
            return;
        };
        invariant!(!self.draining.contains(&id), "an instance that is forgotten has nothing to give back");
        if let Some(module) = self.indexed_module_mut(instance.module) {
            let was_there = module.names.remove(&instance.name) == Some(id)
                && module.instances.remove(&(instance.arrived, id));
            invariant!(was_there, "a module has its instances");
        }
    }
}

/// A count that goes up and down by one.
trait Count: Copy {
    fn next(self, up: bool) -> Option<Self>;
}

impl Count for u32 {
    fn next(self, up: bool) -> Option<Self> {
        if up { self.checked_add(1) } else { self.checked_sub(1) }
    }
}

impl Count for usize {
    fn next(self, up: bool) -> Option<Self> {
        if up { self.checked_add(1) } else { self.checked_sub(1) }
    }
}

/// One more, or one less.
fn step(count: &mut impl Count, up: bool) {
    match count.next(up) {
        Some(next) => *count = next,
        None => invariant!("a count is that of what is there"),
    }
}
