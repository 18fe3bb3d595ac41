//! What happens to a book: results, which are all that ever changes one. `encoding` writes and reads them.

use smallvec::SmallVec;

use super::model::record::Name;
use super::model::state::Settings;
use super::model::tariff::Tariff;
use crate::shared::{Bytes, Millis};

/// The events of one decision.
pub type Events = SmallVec<[Event; 1]>;

/// Something that happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The book begins.
    Opened(Settings),
    /// Settings change.
    Configured(Settings),
    /// A leader claims the book.
    Claimed {
        /// Its term.
        term: u64,
        /// Its name.
        leader: Bytes,
    },
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
    },
    /// Accounts are added to a module.
    Added {
        /// The module.
        module: Name,
        /// What each costs.
        tariff: Tariff,
        /// Their names.
        accounts: Vec<Bytes>,
    },
    /// Accounts are deleted; those that somebody is logged in with as soon as nobody is.
    Deleted {
        /// Their names.
        accounts: Vec<Bytes>,
    },
    /// Accounts go to another module; those that somebody is logged in with as soon as nobody is.
    Rehomed {
        /// The module that they go to.
        module: Name,
        /// Their names.
        accounts: Vec<Bytes>,
    },
    /// The platform froze an account that nobody is logged in with.
    Frozen {
        /// Its name.
        account: Bytes,
    },
    /// The platform froze an account that somebody is logged in with, who has it until the login is over.
    Halted {
        /// Its name.
        account: Bytes,
    },
    /// It can be used again.
    Thawed {
        /// Its name.
        account: Bytes,
    },
    /// An instance comes, or is back.
    Attached {
        /// Its module.
        module: Name,
        /// Its name.
        instance: Name,
        /// Whether it has a place.
        active: bool,
    },
    /// An instance gets a place, or loses it.
    Placed {
        /// Its module.
        module: Name,
        /// Its name.
        instance: Name,
        /// Whether it has a place.
        active: bool,
    },
    /// An instance is gone for the time being.
    Away {
        /// Its module.
        module: Name,
        /// Its name.
        instance: Name,
        /// Until when its place is kept.
        until: Millis,
    },
    /// An instance is gone for good; it is forgotten when its accounts are elsewhere.
    Detached {
        /// Its module.
        module: Name,
        /// Its name.
        instance: Name,
    },
    /// Accounts are taken from instances that have no place, or were given back: those that nobody is logged in with are
    /// free.
    Withdrawn {
        /// Their names.
        accounts: Vec<Bytes>,
    },
    /// Accounts that nobody is logged in with go to an instance of their module, each in a deal of its own. The instance
    /// may be away where one replaces what was frozen.
    Dealt {
        /// The module.
        module: Name,
        /// The instance.
        instance: Name,
        /// Their names.
        accounts: Vec<Bytes>,
    },
    /// Accounts that somebody is logged in with are to go to an instance of their module.
    Recalled {
        /// The module.
        module: Name,
        /// The instance.
        instance: Name,
        /// Their names.
        accounts: Vec<Bytes>,
    },
    /// Rebalancing moves an account to an instance, of its module or of another of the department.
    Shifted {
        /// The account.
        account: Bytes,
        /// The module.
        module: Name,
        /// The instance.
        instance: Name,
    },
    /// Somebody works with an account.
    LoggedIn {
        /// The account.
        account: Bytes,
        /// Where.
        terminal: Bytes,
        /// Until when.
        until: Millis,
    },
    /// A login lasts longer.
    Renewed {
        /// The account.
        account: Bytes,
        /// Until when.
        until: Millis,
    },
    /// A login is over, or an account that is revoked was given back.
    LoggedOut {
        /// The account.
        account: Bytes,
        /// Whether nobody said so in time.
        lapsed: bool,
    },
    /// Instructions are sent.
    Used {
        /// The account.
        account: Bytes,
        /// How many.
        count: u64,
    },
    /// A month is over.
    MonthTurned,
}
