//! What happens to a book: results, which are all that ever changes one.

use super::record::Name;
use super::state::Settings;
use super::tariff::Tariff;
use crate::shared::machine;
use crate::shared::{Bytes, Millis};
use crate::{events, words};

/// The events of one decision.
pub type Events = machine::Events<Event>;

words! {
    /// What `INFO` counts of books.
    pub enum Counter {
        /// Accounts dealt to instances.
        Dealt => "account_dealt",
        /// Moves by rebalancing.
        Shifted => "account_shifted",
        /// Logins granted.
        Logins => "account_logins",
        /// Logins whose deadline passed.
        Lapsed => "account_lapsed",
        /// Instructions counted.
        Used => "account_used",
    }
}

events! {
    /// Something that happens.
    pub enum Event counted by Counter {
        /// The book begins.
        Opened(settings: Settings) = 0, notice c"allot.account.book-opened";
        /// Settings change.
        Configured(settings: Settings) = 1, notice c"allot.account.book-configured";
        /// A leader claims the book.
        Claimed {
            /// Its name.
            leader: Bytes,
            /// Its term.
            term: u64,
        } = 2, notice c"allot.account.claimed";
        /// A module is defined or changed.
        Defined {
            /// The module.
            module: Name,
            /// Its department.
            department: Name,
            /// How many of its instances hold a share at once.
            places: u32,
            /// Its part where accounts are distributed.
            weight: u32,
            /// Accounts kept back.
            reserve: u32,
        } = 3, notice c"allot.account.module-defined";
        /// Accounts are added to a module.
        Added {
            /// The module.
            module: Name,
            /// What each costs.
            tariff: Tariff,
            /// Their names.
            accounts: Vec<Bytes>,
        } = 4, notice c"allot.account.added";
        /// Accounts are deleted; those that somebody is logged in with as soon as nobody is.
        Deleted {
            /// Their names.
            accounts: Vec<Bytes>,
        } = 5, notice c"allot.account.deleted";
        /// Accounts go to another module; those that somebody is logged in with as soon as nobody is.
        Rehomed {
            /// The module that they go to.
            module: Name,
            /// Their names.
            accounts: Vec<Bytes>,
        } = 6, notice c"allot.account.moved";
        /// The platform froze an account that nobody is logged in with.
        Frozen {
            /// Its name.
            account: Bytes,
        } = 7, notice c"allot.account.frozen";
        /// It can be used again.
        Thawed {
            /// Its name.
            account: Bytes,
        } = 8, notice c"allot.account.thawed";
        /// An instance comes, or is back.
        Attached {
            /// Its module.
            module: Name,
            /// Its name.
            instance: Name,
            /// Whether it has a place.
            active: bool,
        } = 9, notice c"allot.account.attached";
        /// An instance gets a place, or loses it.
        Placed {
            /// Its module.
            module: Name,
            /// Its name.
            instance: Name,
            /// Whether it has a place.
            active: bool,
        } = 10, notice if *active { c"allot.account.promoted" } else { c"allot.account.demoted" };
        /// An instance is gone for the time being.
        Away {
            /// Its module.
            module: Name,
            /// Its name.
            instance: Name,
            /// Until when its place is kept.
            until: Millis,
        } = 11, notice c"allot.account.away";
        /// An instance is gone for good; it is forgotten when its accounts are elsewhere.
        Detached {
            /// Its module.
            module: Name,
            /// Its name.
            instance: Name,
        } = 12, notice c"allot.account.detached";
        /// Accounts are taken from instances that have no place, or were given back: those that nobody is logged in with are
        /// free.
        Withdrawn {
            /// Their names.
            accounts: Vec<Bytes>,
        } = 13, notice c"allot.account.revoked";
        /// Accounts that nobody is logged in with go to an instance of their module, each in a deal of its own. The instance
        /// may be away where one replaces what was frozen.
        Dealt {
            /// The module.
            module: Name,
            /// The instance.
            instance: Name,
            /// Their names.
            accounts: Vec<Bytes>,
        } = 14, notice c"allot.account.dealt", count (Counter::Dealt, accounts.len() as u64);
        /// Accounts that somebody is logged in with are to go to an instance of their module.
        Recalled {
            /// The module.
            module: Name,
            /// The instance.
            instance: Name,
            /// Their names.
            accounts: Vec<Bytes>,
        } = 15, notice c"allot.account.revoked";
        /// Rebalancing moves an account to an instance, of its module or of another of the department.
        Shifted {
            /// The account.
            account: Bytes,
            /// The module.
            module: Name,
            /// The instance.
            instance: Name,
        } = 16, notice c"allot.account.shifted", count (Counter::Shifted, 1);
        /// Somebody works with an account.
        LoggedIn {
            /// The account.
            account: Bytes,
            /// Where.
            terminal: Bytes,
            /// Until when.
            until: Millis,
        } = 17, notice c"allot.account.login", count (Counter::Logins, 1);
        /// A login lasts longer.
        Renewed {
            /// The account.
            account: Bytes,
            /// Until when.
            until: Millis,
        } = 18, notice c"allot.account.renewed";
        /// A login is over, or an account that is revoked was given back.
        LoggedOut {
            /// The account.
            account: Bytes,
            /// Whether nobody said so in time.
            lapsed: bool,
        } = 19,
            notice if *lapsed { c"allot.account.lapsed" } else { c"allot.account.logout" },
            count lapsed.then_some((Counter::Lapsed, 1));
        /// Instructions are sent.
        Used {
            /// The account.
            account: Bytes,
            /// How many.
            count: u64,
        } = 20, notice c"allot.account.used", count (Counter::Used, *count);
        /// A month is over.
        MonthTurned = 21, notice c"allot.account.month-turned";
        /// The platform froze an account that somebody is logged in with, who has it until the login is over.
        Halted {
            /// Its name.
            account: Bytes,
        } = 22, notice c"allot.account.frozen";
    }
}
