//! Events of one account: logins, use, and freezes; and how an account goes from one instance to another. Every change of
//! an account goes through `Book::change`, which updates shares, levels and totals. When the login of a revoked account
//! ends, the account goes to its goal without an event of its own, because that depends on the state alone.

use super::counters::Counter;
use crate::account::model::place::Presence;
use crate::account::model::record::{Account, AccountState, Epoch, Goal, Login, Stay};
use crate::account::model::state::Book;
use crate::account::model::tariff::MAX_COUNT;
use crate::events;
use crate::shared::codec::{Damaged, ensure};
use crate::shared::invariant::Expected;
use crate::shared::list::NONE;
use crate::shared::{Bytes, Millis};

events! {
    /// A change of one account.
    pub enum AccountEvent counted by Counter {
        /// A login begins.
        LoggedIn {
            /// Terminal of the login.
            terminal: Bytes,
            /// Until when.
            until: Millis,
        } = 1, notice c"allot.account.login", count (Counter::Logins, 1);
        /// A login is renewed.
        Renewed {
            /// Until when.
            until: Millis,
        } = 2, notice c"allot.account.renewed";
        /// A login ends, or a revoked account was returned.
        LoggedOut {
            /// Whether the login ended at its deadline.
            lapsed: bool,
        } = 3,
            notice if *lapsed { c"allot.account.lapsed" } else { c"allot.account.logout" },
            count lapsed.then_some((Counter::Lapsed, 1));
        /// Instructions are counted.
        Used {
            /// How many.
            count: u64,
        } = 4, notice c"allot.account.used", count (Counter::Used, *count);
        /// An instance has reported its use of an assignment, which may be over.
        Reported {
            /// Epoch of the assignment.
            epoch: Epoch,
            /// How many instructions were not counted before.
            count: u64,
        } = 5, notice c"allot.account.used", count (Counter::Used, *count);
        /// The account is assigned again to its instance, at a new epoch. A login remains.
        Reassigned {
            /// An epoch by which the account was assigned before, and which a failover has lost; 0 if it has lost none.
            lost: Epoch,
        } = 6, notice c"allot.account.assigned";
        /// The platform froze the account, or the end of the freeze changes. A login stays on record until it ends.
        Frozen {
            /// When the account can be used again by itself.
            until: Option<Millis>,
        } = 7, notice c"allot.account.frozen";
        /// The platform thawed the account.
        Thawed = 8, notice c"allot.account.thawed";
        /// The account's own month begins.
        Turned = 9, notice c"allot.account.turned";
    }
}

impl Book {
    pub(super) fn admits_to_account(&self, account: &Account, event: &AccountEvent) -> Result<(), Damaged> {
        let fits = |before: u64, count: u64| before.saturating_add(count) <= MAX_COUNT;
        let assigned = account.state == AccountState::Assigned;
        let is = match event {
            AccountEvent::LoggedIn { .. } => assigned,
            AccountEvent::Reassigned { lost } => {
                assigned && (*lost == 0 || (account.epoch + 1..=self.last_epoch).contains(lost))
            }
            AccountEvent::Renewed { .. } => assigned && account.login.is_some(),
            AccountEvent::LoggedOut { .. } => account.login.is_some(),
            AccountEvent::Used { count } => account.has_room(self.month, *count),
            AccountEvent::Reported { epoch, count } => {
                account.stay_of(*epoch).is_some()
                    && account.reported(*epoch).is_some_and(|before| fits(before, *count))
                    && account.has_room(self.month, *count)
            }
            AccountEvent::Frozen { .. } => account.goal != Some(Goal::Delete),
            AccountEvent::Thawed => account.state == AccountState::Frozen,
            AccountEvent::Turned => account.tally.coming_turn().is_some(),
        };
        ensure(is, "an account is in another state")
    }

    pub(super) fn apply_to_account(&mut self, at: Millis, id: u32, event: &AccountEvent) {
        match event {
            AccountEvent::LoggedIn { terminal, until } => self.log_in(at, id, terminal, *until),
            AccountEvent::Renewed { until } => {
                let login = self.accounts.get_mut(id).and_then(|account| account.login.as_mut());
                if let Some(login) = login.expected("a login that is renewed is there") {
                    login.until = *until;
                    self.logins.set(id, *until);
                }
            }
            AccountEvent::LoggedOut { .. } => self.log_out(at, id),
            AccountEvent::Used { count } => {
                let instance = self.indexed(id).map_or(NONE, |account| account.instance);
                self.count(at, id, instance, *count);
            }
            AccountEvent::Reported { epoch, count } => self.report(at, id, *epoch, *count),
            AccountEvent::Reassigned { lost } => {
                let Some(account) = self.indexed_mut(id) else { return };
                let (since, place) = (account.since, account.instance);
                if *lost > 0
                    && let Some(stay) = account.history.last().cloned()
                {
                    account.begin_stay(Stay { epoch: *lost, from: at, ..stay });
                }
                self.assign(at, id, place);
                self.change(id, |account| account.since = since);
            }
            AccountEvent::Frozen { until } => {
                if self.indexed(id).is_some_and(|account| account.state == AccountState::Frozen) {
                    self.change(id, |account| account.frozen_until = *until);
                    return;
                }
                // An account on its way to another module belongs to that module from now on.
                let home = self.indexed(id).and_then(|account| self.destination(account));
                let Some(home) = home.expected("an account that is frozen is not being deleted") else {
                    return;
                };
                self.change(id, |account| {
                    account.end_stay(at);
                    account.module = home;
                    (account.state, account.instance, account.goal, account.since) =
                        (AccountState::Frozen, NONE, None, at);
                    account.frozen_until = *until;
                });
                self.tell_of("frozen", id, |message, _| message);
            }
            AccountEvent::Thawed => {
                self.change(id, |account| (account.state, account.since) = (AccountState::Free, at));
            }
            AccountEvent::Turned => self.turn_account(id),
        }
    }

    /// Gives an account a new goal. The account moves there at once, or when its login ends.
    pub(super) fn go_on(&mut self, at: Millis, id: u32, goal: Goal) {
        let Some(account) = self.indexed(id) else { return };
        let before = account.goal;
        // An account that was frozen in use has no instance; only its deletion waits for the end of the login.
        if account.login.is_some() && (account.instance != NONE || goal == Goal::Delete) {
            if let Some(Goal::Place(missed)) = before.filter(|before| *before != goal) {
                self.call_off(id, missed);
            }
            self.change(id, |account| {
                account.was_frozen |= account.state == AccountState::Frozen;
                (account.state, account.goal) = (AccountState::Revoking, Some(goal));
            });
            self.tell_of("revoked", id, |message, _| message);
        } else {
            self.arrive(at, id, goal);
        }
    }

    /// Moves an account without a login to its goal.
    fn arrive(&mut self, at: Millis, id: u32, goal: Goal) {
        let active = |&place: &u32| {
            self.indexed_instance(place).is_some_and(|place| place.presence == Presence::Active)
        };
        let place = goal.place().filter(active);
        if let (Goal::Place(missed), None) = (goal, place) {
            self.call_off(id, missed);
        }
        match (goal, place) {
            (Goal::Delete, _) => self.remove(at, id),
            (_, Some(place)) => self.assign(at, id, place),
            (goal, None) => self.change(id, |account| {
                account.end_stay(at);
                if let Goal::Module(module) = goal {
                    account.module = module;
                }
                // A frozen account stays frozen in its new module.
                if account.state != AccountState::Frozen {
                    (account.state, account.since) = (AccountState::Free, at);
                }
                (account.instance, account.goal) = (NONE, None);
            }),
        }
    }

    /// Assigns an account to an instance: a stay begins.
    pub(super) fn assign(&mut self, at: Millis, id: u32, place: u32) {
        let Some(instance) = self.indexed_instance(place) else { return };
        let (module, name) = (instance.module, instance.name.clone());
        let epoch = self.next_epoch(at);
        let stay = Stay { epoch, module: self.module_name(module), instance: name, from: at, to: None };
        self.change(id, |account| {
            account.begin_stay(stay);
            (account.module, account.state, account.instance, account.goal) =
                (module, AccountState::Assigned, place, None);
            (account.epoch, account.since) = (epoch, at);
        });
        self.tell_of("assigned", id, |message, _| message.with_number("epoch", epoch));
    }

    fn log_in(&mut self, at: Millis, id: u32, terminal: &Bytes, until: Millis) {
        let epoch = self.next_epoch(at);
        self.set_ready(id, false);
        let account = self.accounts.get_mut(id);
        let Some(account) = account.expected("an account that is logged in is there") else { return };
        let login = Login { terminal: terminal.clone(), epoch, until };
        account.login = Some(Box::new(login.clone()));
        self.logins.set(id, until);
        self.tell_of_login("login", id, &login);
    }

    /// Ends a login, and moves a revoked account to its goal.
    fn log_out(&mut self, at: Millis, id: u32) {
        let login = self.indexed(id).and_then(|account| account.login.clone());
        let Some(login) = login.expected("a login that ends was there") else { return };
        self.tell_of_login("logout", id, &login);
        self.logins.remove(id);
        let Some(account) = self.indexed_mut(id) else { return };
        if account.state == AccountState::Free {
            self.change(id, |account| account.login = None);
        } else {
            account.login = None;
            self.set_ready(id, true);
        }
        if let Some(goal) = self.indexed(id).and_then(|account| account.goal) {
            self.arrive(at, id, goal);
        }
    }

    /// Counts instructions of an account, which an instance has sent.
    fn count(&mut self, at: Millis, id: u32, instance: u32, count: u64) {
        self.set_ready(id, false);
        self.count_use(id, count);
        self.set_ready(id, true);
        self.with_instance(instance, |instance| instance.pace.count(at, count));
        self.tell_of_use(id, count);
    }

    /// Counts instructions that the instance of an assignment has reported.
    fn report(&mut self, at: Millis, id: u32, epoch: Epoch, count: u64) {
        let account = self.accounts.get_mut(id);
        let Some(account) = account.expected("an account whose use is reported is there") else { return };
        account.reports.get_or_insert_default().count(epoch, count);
        let stay = account.stay_of(epoch).cloned();
        let instance = stay.map_or(NONE, |stay| self.holder_in(&stay));
        self.count(at, id, instance, count);
    }

    /// Counts instructions that the instance of an assignment has reported after the account was deleted. They belong to
    /// the module of the assignment.
    pub(super) fn report_of_deleted(&mut self, at: Millis, name: &[u8], epoch: Epoch, count: u64) {
        let month = self.month;
        let turns = self.deleted.get(name).and_then(|account| self.turns_at(account));
        let Some(account) = self.deleted.get_mut(name) else { return };
        if turns.is_some_and(|turns| turns <= at) {
            account.tally.turn();
        }
        account.reports.get_or_insert_default().count(epoch, count);
        let (stay, cost) = (account.stay_of(epoch).cloned(), account.count(month, count));
        let Some(stay) = stay.expected("the use of an assignment that was is reported") else { return };
        let module = self.find_module(&stay.module);
        let Some(module) = module.expected("use is counted in a module that is there") else { return };
        self.spend(module, count, cost);
        let instance = self.holder_in(&stay);
        self.with_instance(instance, |instance| instance.pace.count(at, count));
        self.tell_of_budgets(module, count);
    }

    /// The instance of a stay; `NONE` if it has gone, so that it needs no pace any more.
    fn holder_in(&self, stay: &Stay) -> u32 {
        self.find_place(&stay.module, &stay.instance).unwrap_or(NONE)
    }
}
