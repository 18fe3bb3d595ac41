//! Whether an event that another server decided fits this book. Once it passes, `apply` cannot go wrong.

use super::encoding::ensure;
use super::event::Event;
use super::place::{Instance, MAX_PLACES, Presence};
use super::record::{Account, Goal, Standing};
use super::state::Book;
use super::tariff::MAX_COUNT;
use crate::shared::Bytes;
use crate::shared::codec::Damaged;

impl Book {
    /// Holds a foreign event against this book. O(what the event names).
    ///
    /// # Errors
    /// An event that no decision on this book could have made; the book differs from its master's.
    pub fn admits(&self, event: &Event) -> Result<(), Damaged> {
        match event {
            Event::Opened(_) => Err(Damaged("the book is open already")),
            Event::Configured(_) | Event::Claimed { .. } => Ok(()),
            Event::MonthTurned => ensure(self.month < u32::MAX, "there are no more months"),
            Event::Defined { places, weight, reserve, .. } => {
                let fits =
                    [places, weight, reserve].into_iter().all(|&number| i64::from(number) <= MAX_PLACES);
                ensure(fits, "a module's number is out of range")
            }
            Event::Added { module, accounts, .. } => {
                ensure(self.find_module(module).is_some(), "a module is not there")?;
                let mut seen = std::collections::BTreeSet::new();
                let new = accounts.iter().all(|name| self.find(name).is_none() && seen.insert(name));
                ensure(new, "an account is added twice")
            }
            Event::Deleted { accounts } | Event::Withdrawn { accounts } => self.are_there(accounts),
            Event::Rehomed { module, accounts } => {
                ensure(self.find_module(module).is_some(), "a module is not there")?;
                self.are_there(accounts)
            }
            Event::Frozen { account } => self.account_is(account, |one| one.standing != Standing::Frozen),
            Event::Halted { account } => self.account_is(account, |one| {
                one.standing != Standing::Frozen && one.login.is_some() && one.goal != Some(Goal::Delete)
            }),
            Event::Thawed { account } => self.account_is(account, |one| one.standing == Standing::Frozen),
            Event::Attached { module, .. } => {
                ensure(self.find_module(module).is_some(), "a module is not there")
            }
            Event::Placed { module, instance, .. }
            | Event::Away { module, instance, .. }
            | Event::Detached { module, instance } => {
                ensure(self.find_place(module, instance).is_some(), "an instance is not there")
            }
            Event::Dealt { module, instance, accounts } => {
                self.place_is(module, instance, Instance::has_place)?;
                self.are_there(accounts)?;
                let idle = |name: &Bytes| self.account_called(name).is_some_and(|one| one.login.is_none());
                ensure(accounts.iter().all(idle), "an account is dealt that somebody is logged in with")
            }
            Event::Recalled { module, instance, accounts } => {
                self.is_active(module, instance)?;
                self.are_there(accounts)
            }
            Event::Shifted { account, module, instance } => {
                self.is_active(module, instance)?;
                self.account_is(account, |one| one.standing == Standing::Dealt)
            }
            Event::LoggedIn { account, .. } => {
                self.account_is(account, |one| one.standing == Standing::Dealt)
            }
            Event::Renewed { account, .. } => self.account_is(account, |one| one.login.is_some()),
            Event::LoggedOut { account, .. } => self.account_is(account, |_| true),
            Event::Used { account, count } => {
                ensure(*count <= MAX_COUNT, "a count is out of range")?;
                self.account_is(account, |_| true)
            }
        }
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
        let place = self.find_place(module, instance).and_then(|id| self.instance(id));
        ensure(place.is_some_and(is), "an account goes to an instance that has no place")
    }

    fn are_there(&self, accounts: &[Bytes]) -> Result<(), Damaged> {
        accounts.iter().try_for_each(|name| self.account_is(name, |_| true))
    }

    fn account_is(&self, name: &[u8], is: impl Fn(&Account) -> bool) -> Result<(), Damaged> {
        let known = self.account_called(name).ok_or(Damaged("an account is not there"))?;
        ensure(is(known), "an account stands otherwise")
    }
}
