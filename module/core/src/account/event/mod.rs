//! Events of a book: their definition, their admission on a replica, and what they change. Only events change a book; they
//! are replicated, written to the AOF, published and replayed. `instances` and `accounts` have the events of one
//! instance and of one account.
//!
//! Applying an event cannot fail, because `decide` made the event for this state, or `admits` has checked it.

mod accounts;
mod counters;
mod instances;

pub use self::accounts::AccountEvent;
pub use self::counters::Counter;
pub use self::instances::InstanceEvent;
use super::messages::STREAM;
use super::model::place::{Instance, MAX_PLACES, Module, Policy};
use super::model::record::{Account, AccountState, Epoch, Goal, LAST_MONTH, LAST_TURN, Name};
use super::model::state::{Book, Budget, Settings};
use super::model::tariff::{MAX_COUNT, Tariff};
use crate::events;
use crate::shared::codec::{Damaged, ensure};
use crate::shared::counter;
use crate::shared::invariant::Expected;
use crate::shared::machine;
use crate::shared::{Bytes, Millis};
use std::collections::BTreeSet;

/// The events of one decision.
pub type Events = machine::Events<Event>;

events! {
    /// One change.
    pub enum Event counted by Counter {
        /// The book opens: the first event of a key.
        Opened(settings: Settings) = 1, notice c"allot.account.book-opened";
        /// Settings change.
        Configured(settings: Settings) = 2, notice c"allot.account.book-configured";
        /// A leader claims the book.
        Claimed {
            /// Its name.
            leader: Bytes,
            /// Its term.
            term: u64,
        } = 3, notice c"allot.account.claimed";
        /// A month ends.
        MonthTurned = 4, notice c"allot.account.month-turned";
        /// The next epochs are greater than this one: an epoch that a failover has lost was published.
        EpochRaised {
            /// An epoch above the last one.
            epoch: Epoch,
        } = 5, notice c"allot.account.epoch-raised";
        /// The budget of a department changes.
        DepartmentCapped {
            /// The department.
            department: Name,
            /// The most instructions in a month; 0 for no limit.
            cap: u64,
        } = 6, notice c"allot.account.department-capped";
        /// A module is defined or changed.
        Defined {
            /// The module.
            module: Name,
            /// Department of the module.
            department: Name,
            /// How many instances of the module hold a share at once.
            places: u32,
            /// Weight of the module when accounts are distributed over modules.
            weight: u32,
            /// How many accounts are kept free for replacements.
            reserve: u32,
            /// How its accounts are divided and exchanged.
            policy: Policy,
        } = 7, notice c"allot.account.module-defined";
        /// A module without accounts and instances is removed.
        ModuleRemoved {
            /// The module.
            module: Name,
        } = 8, notice c"allot.account.module-removed";
        /// An instance is attached, or comes back.
        Attached {
            /// Its module.
            module: Name,
            /// Its name.
            instance: Name,
            /// Whether it has a place.
            active: bool,
        } = 9, notice c"allot.account.attached";
        /// An instance changes, or accounts go to it.
        Instance {
            /// Its module.
            module: Name,
            /// Its name.
            instance: Name,
            /// The change.
            event: InstanceEvent,
        } = 10, notice event.notice(), count event.counted();
        /// Accounts are added to a module.
        Added {
            /// The module.
            module: Name,
            /// Tariff of each account.
            tariff: Tariff,
            /// Their names.
            accounts: Vec<Bytes>,
        } = 11, notice c"allot.account.added";
        /// Accounts are deleted. An account with a login is deleted when the login ends.
        Deleted {
            /// Their names.
            accounts: Vec<Bytes>,
        } = 12, notice c"allot.account.deleted";
        /// Accounts move to another module. An account with a login moves when the login ends.
        Rehomed {
            /// The new module.
            module: Name,
            /// Their names.
            accounts: Vec<Bytes>,
        } = 13, notice c"allot.account.moved";
        /// Accounts get another tariff.
        Repriced {
            /// The tariff of each account.
            tariff: Tariff,
            /// Their names.
            accounts: Vec<Bytes>,
        } = 14, notice c"allot.account.repriced";
        /// Accounts get a cap of their own.
        Limited {
            /// The most instructions of each account in a month; 0 for none but that of the book.
            cap: u64,
            /// Their names.
            accounts: Vec<Bytes>,
        } = 18, notice c"allot.account.limited";
        /// The own months of accounts begin on another day.
        TurnSet {
            /// The day of each month of the book, counted from 1.
            day: u32,
            /// Their names.
            accounts: Vec<Bytes>,
        } = 19, notice c"allot.account.turn-set";
        /// Accounts are taken from instances without a place, or were returned. An account without a login is free at
        /// once.
        Withdrawn {
            /// Their names.
            accounts: Vec<Bytes>,
        } = 15, notice c"allot.account.revoked";
        /// An account changes.
        Account {
            /// Its name.
            account: Bytes,
            /// The change.
            event: AccountEvent,
        } = 16, notice event.notice(), count event.counted();
        /// Messages of the outbox were written to the event stream.
        Flushed {
            /// How many, oldest first.
            count: u32,
            /// The id of the last (milliseconds, sequence).
            last_id: (u64, u64),
        } = 17;
    }
}

impl InstanceEvent {
    /// This event of an instance.
    pub fn of(self, module: Name, instance: Name) -> Event {
        Event::Instance { module, instance, event: self }
    }
}

impl Account {
    /// An event of this account.
    pub(in crate::account) fn event(&self, event: AccountEvent) -> Event {
        Event::Account { account: self.name.clone(), event }
    }
}

impl Book {
    /// Checks an event of another server against this book. O(accounts in the event).
    ///
    /// # Errors
    /// No decision on this book could have made the event: the book differs from its master's.
    pub fn admits(&self, event: &Event) -> Result<(), Damaged> {
        self.counters().iter().try_for_each(counter::Counter::check_event)?;
        match event {
            Event::Opened(_) => Err(Damaged("the book is open already")),
            Event::Configured(_) | Event::Claimed { .. } => Ok(()),
            Event::MonthTurned => {
                ensure(!self.settings.turns.is_empty(), "a month turns without a time at which it turns")?;
                ensure(self.month < LAST_MONTH, "there are no more months")
            }
            Event::EpochRaised { epoch } => counter::Counter::new("last epoch", *epoch).check_event(),
            Event::DepartmentCapped { cap, .. } => ensure(*cap <= MAX_COUNT, "a budget is out of range"),
            Event::Defined { places, weight, reserve, .. } => {
                let fits =
                    [places, weight, reserve].into_iter().all(|&number| i64::from(number) <= MAX_PLACES);
                ensure(fits, "a module's number is out of range")
            }
            Event::ModuleRemoved { module } => {
                let module = self.module_number(module)?;
                ensure(self.is_unused(module), "a module that is removed has accounts or instances")
            }
            Event::Attached { module, instance, active } => {
                let module = self.module_number(module)?;
                let known = self.find_instance(module, instance).and_then(|id| self.indexed_instance(id));
                ensure(known.is_none_or(|known| known.may_come(*active)), "an instance comes again")
            }
            Event::Instance { module, instance, event } => {
                let id = self.find_place(module, instance).ok_or(Damaged("an instance is not there"))?;
                let known = self.indexed_instance(id).ok_or(Damaged("an instance is not there"))?;
                self.admits_to_instance(id, known, event)
            }
            Event::Added { module, accounts, .. } => {
                self.module_number(module)?;
                ensure(!accounts.is_empty(), "an event names no account")?;
                let mut seen = BTreeSet::new();
                let new = accounts.iter().all(|name| self.find(name).is_none() && seen.insert(name));
                ensure(new, "an account is added twice")
            }
            Event::Deleted { accounts } | Event::Repriced { accounts, .. } => {
                self.all_are(accounts, |_| true)
            }
            Event::Limited { cap, accounts } => {
                ensure(*cap <= MAX_COUNT, "a cap is out of range")?;
                self.all_are(accounts, |_| true)
            }
            Event::TurnSet { day, accounts } => {
                ensure((1..=LAST_TURN).contains(day), "a day is out of range")?;
                self.all_are(accounts, |_| true)
            }
            Event::Rehomed { module, accounts } => {
                let module = self.module_number(module)?;
                self.all_are(accounts, |account| self.moves_to(account, module))
            }
            Event::Withdrawn { accounts } => {
                self.all_are(accounts, |account| account.state == AccountState::Assigned)
            }
            Event::Account { account, event } => {
                let known = match event {
                    AccountEvent::Reported { epoch, .. } => self.reported(account, *epoch),
                    _ => self.account_called(account),
                };
                self.admits_to_account(known.ok_or(Damaged("an account is not there"))?, event)
            }
            Event::Flushed { count, .. } => {
                ensure(*count as usize <= self.outbox.len(), "more messages were written than wait")
            }
        }
    }

    /// Applies an event at its time. O(log accounts) for each account in the event.
    pub fn apply(&mut self, at: Millis, event: &Event) {
        self.applied = self.applied.max(at);
        match event {
            Event::Opened(_) => {}
            Event::Configured(settings) => {
                self.settings = settings.clone();
                if settings.events == 0 {
                    self.outbox.forget(STREAM.as_bytes());
                }
            }
            Event::Claimed { term, leader } => (self.term, self.leader) = (*term, Some(leader.clone())),
            Event::MonthTurned => {
                let turns = &mut self.settings.turns;
                let at = (!turns.is_empty()).then(|| turns.remove(0));
                if let Some(at) = at.expected("a month turns at its time") {
                    self.turn_month(at);
                }
            }
            Event::EpochRaised { epoch } => self.last_epoch = self.last_epoch.max(*epoch),
            Event::DepartmentCapped { department, cap } => {
                let used = self.used_by_department(department);
                if *cap == 0 {
                    self.departments.remove(department);
                } else {
                    self.departments.insert(department.clone(), Budget { cap: *cap, used });
                }
            }
            Event::Defined { module, department, places, weight, reserve, policy } => {
                let department = self.department_name(department);
                let id = self
                    .find_module(module)
                    .unwrap_or_else(|| self.enter_module(Module::new(module.clone(), department.clone())));
                if self.indexed_module(id).is_some_and(|module| module.department != department) {
                    self.close_line(id);
                }
                let Some(module) = self.indexed_module_mut(id) else { return };
                let renumbers = module.places != *places;
                (module.department, module.policy) = (department, *policy);
                (module.places, module.weight, module.reserve) = (*places, *weight, *reserve);
                if renumbers {
                    self.number_places(id);
                }
                self.look_at(id);
            }
            Event::ModuleRemoved { module } => {
                if let Some(id) = self.named_module(module) {
                    self.close_line(id);
                    self.remove_module(id);
                }
            }
            Event::Attached { module, instance, active } => {
                if let Some(module) = self.named_module(module) {
                    self.attach(at, module, instance, *active);
                }
            }
            Event::Instance { module, instance, event } => {
                if let Some(id) = self.named_place(module, instance) {
                    self.apply_to_instance(at, id, event);
                }
            }
            Event::Added { module, tariff, accounts } => {
                let Some(module) = self.named_module(module) else { return };
                let tariff = self.shared_tariff(tariff);
                for name in accounts {
                    let deleted = self.deleted.remove(name);
                    let account = deleted.unwrap_or_else(|| Account::new(name.clone(), self.month));
                    self.enter(Account { module, tariff: tariff.clone(), since: at, ..account });
                }
            }
            Event::Deleted { accounts } => self.each(accounts, |book, id| book.go_on(at, id, Goal::Delete)),
            Event::Rehomed { module, accounts } => {
                let Some(home) = self.named_module(module) else { return };
                self.each(accounts, |book, id| book.tell_of_move(id, module, None));
                self.each(accounts, |book, id| book.go_on(at, id, Goal::Module(home)));
            }
            Event::Repriced { tariff, accounts } => {
                let (tariff, before) = (self.shared_tariff(tariff), self.worth_by_module(accounts));
                self.each(accounts, |book, id| book.set_tariff(id, tariff.clone()));
                before.into_iter().for_each(|(module, before)| self.scale_offsets(module, before));
            }
            Event::Limited { cap, accounts } => {
                self.each(accounts, |book, id| book.change(id, |account| account.cap = *cap));
            }
            Event::TurnSet { day, accounts } => {
                self.each(accounts, |book, id| book.set_turn(at, id, *day));
            }
            Event::Withdrawn { accounts } => {
                self.each(accounts, |book, id| book.go_on(at, id, Goal::Reassign));
            }
            Event::Account { account, event: AccountEvent::Reported { epoch, count } }
                if self.deleted.contains_key(account) =>
            {
                self.report_of_deleted(at, account, *epoch, *count);
            }
            Event::Account { account, event } => {
                if let Some(id) = self.named(account) {
                    self.apply_to_account(at, id, event);
                }
            }
            Event::Flushed { count, last_id } => self.outbox.sent(*count as usize, *last_id),
        }
    }

    fn module_number(&self, module: &[u8]) -> Result<u32, Damaged> {
        self.find_module(module).ok_or(Damaged("a module is not there"))
    }

    /// Checks that each account is named once, and that `is` holds for all.
    fn all_are(&self, accounts: &[Bytes], is: impl Fn(&Account) -> bool) -> Result<(), Damaged> {
        ensure(!accounts.is_empty(), "an event names no account")?;
        let mut seen = BTreeSet::new();
        for name in accounts {
            ensure(seen.insert(name), "an event names an account twice")?;
            let known = self.account_called(name).ok_or(Damaged("an account is not there"))?;
            ensure(is(known), "an account is in another state")?;
        }
        Ok(())
    }

    /// The number of the account that an event names. Admission refuses events of unknown accounts. The same holds for
    /// modules and instances below.
    #[track_caller]
    fn named(&self, account: &[u8]) -> Option<u32> {
        self.find(account).expected("an event that was admitted names an account that is there")
    }

    #[track_caller]
    fn named_module(&self, module: &[u8]) -> Option<u32> {
        self.find_module(module).expected("an event that was admitted names a module that is there")
    }

    #[track_caller]
    fn named_place(&self, module: &[u8], instance: &[u8]) -> Option<u32> {
        let id = self.find_place(module, instance);
        id.expected("an event that was admitted names an instance that is there")
    }

    /// Changes each of the accounts that an event names.
    fn each(&mut self, accounts: &[Bytes], change: impl Fn(&mut Self, u32)) {
        for name in accounts {
            if let Some(id) = self.named(name) {
                change(self, id);
            }
        }
    }
}

impl Instance {
    /// Whether an instance that is known may be attached again.
    fn may_come(&self, active: bool) -> bool {
        use super::model::place::Presence;
        match self.presence {
            Presence::Active | Presence::Standby => false,
            // The place of the instance was kept.
            Presence::Away => active,
            Presence::Leaving => true,
        }
    }
}
