//! Checks whether an event that another server decided fits this book. `apply` cannot fail on an event that passed.

use super::encoding::ensure;
use super::event::Event;
use super::model::place::{Instance, MAX_PLACES, Presence};
use super::model::record::{Account, AccountState, Goal, LAST_MONTH};
use super::model::state::Book;
use super::model::tariff::MAX_COUNT;
use crate::shared::Bytes;
use crate::shared::codec::Damaged;
use crate::shared::counter::Counter;
use std::collections::BTreeSet;

impl Book {
    /// Checks an event of another server against this book. O(accounts in the event).
    ///
    /// # Errors
    /// No decision on this book could have made the event: the book differs from its master's.
    pub fn admits(&self, event: &Event) -> Result<(), Damaged> {
        self.counters().iter().try_for_each(Counter::check_event)?;
        match event {
            Event::Opened(_) => Err(Damaged("the book is open already")),
            Event::Configured(_) | Event::BookTuned(_) | Event::Claimed { .. } => Ok(()),
            Event::ModuleTuned { module, .. } => self.module_number(module).map(drop),
            Event::MonthTurned => {
                ensure(!self.settings.turns.is_empty(), "a month turns without a time at which it turns")?;
                ensure(self.month < LAST_MONTH, "there are no more months")
            }
            Event::Defined { places, weight, reserve, .. } => {
                let fits =
                    [places, weight, reserve].into_iter().all(|&number| i64::from(number) <= MAX_PLACES);
                ensure(fits, "a module's number is out of range")
            }
            Event::Added { module, accounts, .. } => {
                self.module_number(module)?;
                ensure(!accounts.is_empty(), "an event names no account")?;
                let mut seen = BTreeSet::new();
                let new = accounts.iter().all(|name| self.find(name).is_none() && seen.insert(name));
                ensure(new, "an account is added twice")
            }
            Event::Deleted { accounts } => self.all_are(accounts, |_| true),
            Event::Withdrawn { accounts } => {
                self.all_are(accounts, |account| account.state == AccountState::Dealt)
            }
            Event::Rehomed { module, accounts } => {
                let module = self.module_number(module)?;
                self.all_are(accounts, |account| self.destination(account).is_some_and(|home| home != module))
            }
            Event::Frozen { account } => self.account_is(account, |account| {
                account.state != AccountState::Frozen && account.login.is_none()
            }),
            Event::Halted { account } => self.account_is(account, |account| {
                account.state != AccountState::Frozen
                    && account.login.is_some()
                    && account.goal != Some(Goal::Delete)
            }),
            Event::Thawed { account } => {
                self.account_is(account, |account| account.state == AccountState::Frozen)
            }
            Event::Attached { module, instance, active } => {
                let module = self.module_number(module)?;
                let known = self.find_instance(module, instance).and_then(|id| self.indexed_instance(id));
                let fits = match known.map(|known| known.presence) {
                    Some(Presence::Active | Presence::Standby) => false,
                    // The place of the instance was kept.
                    Some(Presence::Away) => *active,
                    Some(Presence::Leaving) | None => true,
                };
                ensure(fits, "an instance that is attached comes again")
            }
            Event::Placed { module, instance, active } => {
                let before = if *active { Presence::Standby } else { Presence::Active };
                self.place_is(module, instance, |place| place.presence == before)
            }
            Event::Away { module, instance, .. } => self.is_active(module, instance),
            Event::Detached { module, instance } => {
                self.place_is(module, instance, |place| place.presence != Presence::Leaving)
            }
            Event::Dealt { module, instance, accounts } => {
                self.place_is(module, instance, Instance::has_place)?;
                let module = self.module_number(module)?;
                let can_be_dealt = |account: &Account| {
                    let stands = matches!(account.state, AccountState::Free | AccountState::Dealt);
                    stands && account.login.is_none() && account.module == module
                };
                self.all_are(accounts, can_be_dealt)
            }
            Event::Recalled { module, instance, accounts } => {
                self.is_active(module, instance)?;
                let module = self.module_number(module)?;
                let in_use = |account: &Account| {
                    account.state == AccountState::Dealt
                        && account.login.is_some()
                        && account.module == module
                };
                self.all_are(accounts, in_use)
            }
            Event::Shifted { account, module, instance } => {
                self.is_active(module, instance)?;
                let place = self.find_place(module, instance);
                self.account_is(account, |account| {
                    let from = self.instance(account.instance);
                    let active = from.is_some_and(|from| from.presence == Presence::Active);
                    account.state == AccountState::Dealt && active && Some(account.instance) != place
                })
            }
            Event::LoggedIn { account, .. } => {
                self.account_is(account, |account| account.state == AccountState::Dealt)
            }
            Event::Renewed { account, .. } => self.account_is(account, |account| {
                account.state == AccountState::Dealt && account.login.is_some()
            }),
            Event::LoggedOut { account, .. } => self.account_is(account, |account| account.login.is_some()),
            Event::EpochRaised { epoch } => Counter::new("last epoch", *epoch).check_event(),
            Event::Reassigned { account } => {
                self.account_is(account, |account| account.state == AccountState::Dealt)
            }
            Event::Reported { account, epoch, count } => self.account_is(account, |account| {
                let fits = |before: u64| before.saturating_add(*count) <= MAX_COUNT;
                account.reported(*epoch).is_some_and(fits) && fits(account.used_in(self.month))
            }),
            Event::Used { account, count } => {
                let fits =
                    |account: &Account| account.used_in(self.month).saturating_add(*count) <= MAX_COUNT;
                self.account_is(account, fits)
            }
        }
    }

    fn module_number(&self, module: &[u8]) -> Result<u32, Damaged> {
        self.find_module(module).ok_or(Damaged("a module is not there"))
    }

    fn is_active(&self, module: &[u8], instance: &[u8]) -> Result<(), Damaged> {
        self.place_is(module, instance, |place| place.presence == Presence::Active)
    }

    fn place_is(
        &self,
        module: &[u8],
        instance: &[u8],
        is: impl FnOnce(&Instance) -> bool,
    ) -> Result<(), Damaged> {
        let place = self.find_place(module, instance).and_then(|id| self.indexed_instance(id));
        ensure(is(place.ok_or(Damaged("an instance is not there"))?), "an instance is in another state")
    }

    /// Checks that each account is named once, and that `is` holds for all.
    fn all_are(&self, accounts: &[Bytes], is: impl Fn(&Account) -> bool) -> Result<(), Damaged> {
        ensure(!accounts.is_empty(), "an event names no account")?;
        let mut seen = BTreeSet::new();
        for name in accounts {
            ensure(seen.insert(name), "an event names an account twice")?;
            self.account_is(name, &is)?;
        }
        Ok(())
    }

    fn account_is(&self, name: &[u8], is: impl Fn(&Account) -> bool) -> Result<(), Damaged> {
        let known = self.account_called(name).ok_or(Damaged("an account is not there"))?;
        ensure(is(known), "an account is in another state")
    }
}
