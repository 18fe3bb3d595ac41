//! Events of a book. Only events change a book; they are replicated, written to the AOF, published and replayed.

use super::model::place::Policy;
use super::model::record::Name;
use super::model::state::{BookPolicy, Settings};
use super::model::tariff::Tariff;
use crate::shared::machine;
use crate::shared::{Bytes, Millis};
use crate::{events, words};

/// The events of one decision.
pub type Events = machine::Events<Event>;

words! {
    /// Counters of books in `INFO`.
    pub enum Counter {
        /// Accounts assigned to instances.
        Dealt => "account_dealt",
        /// Moves by rebalancing.
        Shifted => "account_shifted",
        /// Logins granted.
        Logins => "account_logins",
        /// Logins that ended at their deadlines.
        Lapsed => "account_lapsed",
        /// Instructions counted.
        Used => "account_used",
    }
}

events! {
    /// One change.
    pub enum Event counted by Counter {
        /// The book opens: the first event of a key.
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
            /// Department of the module.
            department: Name,
            /// How many instances of the module hold a share at once.
            places: u32,
            /// Weight of the module when accounts are distributed over modules.
            weight: u32,
            /// How many accounts are kept free for replacements.
            reserve: u32,
        } = 3, notice c"allot.account.module-defined";
        /// Accounts are added to a module.
        Added {
            /// The module.
            module: Name,
            /// Tariff of each account.
            tariff: Tariff,
            /// Their names.
            accounts: Vec<Bytes>,
        } = 4, notice c"allot.account.added";
        /// Accounts are deleted. An account with a login is deleted when the login ends.
        Deleted {
            /// Their names.
            accounts: Vec<Bytes>,
        } = 5, notice c"allot.account.deleted";
        /// Accounts move to another module. An account with a login moves when the login ends.
        Rehomed {
            /// The new module.
            module: Name,
            /// Their names.
            accounts: Vec<Bytes>,
        } = 6, notice c"allot.account.moved";
        /// The platform froze an account without a login.
        Frozen {
            /// Its name.
            account: Bytes,
        } = 7, notice c"allot.account.frozen";
        /// The platform thawed an account.
        Thawed {
            /// Its name.
            account: Bytes,
        } = 8, notice c"allot.account.thawed";
        /// An instance is attached, or comes back.
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
        /// An instance is away; its place is kept.
        Away {
            /// Its module.
            module: Name,
            /// Its name.
            instance: Name,
            /// Until when the place is kept.
            until: Millis,
        } = 11, notice c"allot.account.away";
        /// An instance is detached. Its record is removed when it has no accounts left.
        Detached {
            /// Its module.
            module: Name,
            /// Its name.
            instance: Name,
        } = 12, notice c"allot.account.detached";
        /// Accounts are taken from instances without a place, or were returned. An account without a login is free at
        /// once.
        Withdrawn {
            /// Their names.
            accounts: Vec<Bytes>,
        } = 13, notice c"allot.account.revoked";
        /// Accounts without a login are assigned to an instance of their module, each at a new epoch. The instance
        /// may be away if an account replaces a frozen one.
        Dealt {
            /// The module.
            module: Name,
            /// The instance.
            instance: Name,
            /// Their names.
            accounts: Vec<Bytes>,
        } = 14, notice c"allot.account.dealt", count (Counter::Dealt, accounts.len() as u64);
        /// Accounts with a login must go to another instance of their module when the login ends.
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
        /// A login begins.
        LoggedIn {
            /// The account.
            account: Bytes,
            /// Terminal of the login.
            terminal: Bytes,
            /// Until when.
            until: Millis,
        } = 17, notice c"allot.account.login", count (Counter::Logins, 1);
        /// A login is renewed.
        Renewed {
            /// The account.
            account: Bytes,
            /// Until when.
            until: Millis,
        } = 18, notice c"allot.account.renewed";
        /// A login ends, or a revoked account was returned.
        LoggedOut {
            /// The account.
            account: Bytes,
            /// Whether the login ended at its deadline.
            lapsed: bool,
        } = 19,
            notice if *lapsed { c"allot.account.lapsed" } else { c"allot.account.logout" },
            count lapsed.then_some((Counter::Lapsed, 1));
        /// Instructions are counted.
        Used {
            /// The account.
            account: Bytes,
            /// How many.
            count: u64,
        } = 20, notice c"allot.account.used", count (Counter::Used, *count);
        /// A month ends.
        MonthTurned = 21, notice c"allot.account.month-turned";
        /// The platform froze an account with a login. The login stays on record until it ends.
        Halted {
            /// Its name.
            account: Bytes,
        } = 22, notice c"allot.account.frozen";
        /// The further settings of a module change.
        ModuleTuned {
            /// The module.
            module: Name,
            /// The settings.
            policy: Policy,
        } = 23, notice c"allot.account.module-tuned";
        /// The further settings of the book change.
        BookTuned(policy: BookPolicy) = 24, notice c"allot.account.book-tuned";
        /// The next epochs are greater than this one: an epoch that a failover has lost was published.
        EpochRaised {
            /// An epoch above the last one.
            epoch: u64,
        } = 30, notice c"allot.account.epoch-raised";
        /// An account is assigned again to its instance, at a new epoch. A login remains.
        Reassigned {
            /// Its name.
            account: Bytes,
        } = 31, notice c"allot.account.dealt";
        /// An instance has reported its use of an assignment, which may be over.
        Reported {
            /// The account.
            account: Bytes,
            /// Epoch of the assignment.
            epoch: u64,
            /// How many instructions were not counted before.
            count: u64,
        } = 32, notice c"allot.account.used", count (Counter::Used, *count);
    }
}
