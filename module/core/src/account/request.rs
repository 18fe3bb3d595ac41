//! Requests to a book, with parsed arguments. docs/accounts.md describes the commands.

use super::model::place::Share;
use super::model::record::Epoch;
use super::model::tariff::{Amount, Tariff};
use crate::shared::Millis;

/// A request that may change a book. All byte strings are the caller's.
#[derive(Clone, Debug)]
pub enum Request<'a> {
    /// A request of a manager, with the term of the leader that sends it. A term other than the claimed one is refused
    /// with `STALE`; without a term the request comes from a person.
    Manager(Option<u64>, ManagerRequest<'a>),
    /// A request of an instance, which works with the accounts that it has.
    Instance(InstanceRequest<'a>),
}

/// A request of the managers of a book: the leader and operators.
#[derive(Clone, Debug)]
pub enum ManagerRequest<'a> {
    /// `ACCOUNT.BOOK` on a book that exists.
    Configure(Changes),
    /// `ACCOUNT.TERM`.
    Claim {
        /// The leader's term.
        term: u64,
        /// Name of the leader.
        leader: &'a [u8],
        /// Whether the term may be lower than the claimed one.
        force: bool,
    },
    /// `ACCOUNT.MODULE`.
    Module(ModuleSettings<'a>),
    /// `ACCOUNT.DELMODULE`.
    RemoveModule {
        /// The module.
        module: &'a [u8],
    },
    /// `ACCOUNT.DEPARTMENT`.
    Department {
        /// The department.
        department: &'a [u8],
        /// The most instructions in a month; 0 for no limit.
        cap: i64,
    },
    /// `ACCOUNT.TARIFF`.
    Reprice {
        /// The new tariff of each account.
        tariff: Tariff,
        /// Their names.
        accounts: Vec<&'a [u8]>,
    },
    /// `ACCOUNT.ADD`.
    Add {
        /// The module; `None` to distribute the accounts over the modules by need and weight.
        module: Option<&'a [u8]>,
        /// Without a module: the department over whose modules the accounts are distributed; `None` for all modules.
        department: Option<&'a [u8]>,
        /// Tariff of each account.
        tariff: Tariff,
        /// The day on which the own month of each account begins; `None` for the month of the book.
        turn: Option<i64>,
        /// Their names.
        accounts: Vec<&'a [u8]>,
    },
    /// `ACCOUNT.DEL`.
    Del {
        /// Their names.
        accounts: Vec<&'a [u8]>,
    },
    /// `ACCOUNT.MOVE`.
    Move {
        /// The new module.
        module: &'a [u8],
        /// Their names.
        accounts: Vec<&'a [u8]>,
    },
    /// `ACCOUNT.FREEZE`.
    Freeze {
        /// The account.
        account: &'a [u8],
        /// Whether the account is frozen or thawed.
        on: bool,
        /// When the account can be used again by itself; `None` until a request says so.
        until: Option<Millis>,
    },
    /// `ACCOUNT.LIMIT`.
    Limit {
        /// The most instructions of each account in a month; 0 for no limit but that of the book. `None` keeps it.
        cap: Option<i64>,
        /// The day on which the own month of each account begins; `None` keeps it.
        turn: Option<i64>,
        /// Their names.
        accounts: Vec<&'a [u8]>,
    },
    /// `ACCOUNT.ATTACH`.
    Attach {
        /// The module.
        module: &'a [u8],
        /// The instance.
        instance: &'a [u8],
    },
    /// `ACCOUNT.DETACH`.
    Detach {
        /// The module.
        module: &'a [u8],
        /// The instance.
        instance: &'a [u8],
        /// How long the place is kept, in milliseconds.
        grace: Millis,
    },
    /// `ACCOUNT.RAISE`.
    Raise {
        /// The next epochs are greater than this one.
        epoch: Epoch,
        /// An account whose assignment gets a new epoch if its epoch is not greater.
        account: Option<&'a [u8]>,
    },
    /// `ACCOUNT.REBALANCE`.
    Rebalance {
        /// Whether the moves are only computed.
        dry_run: bool,
        /// The most moves.
        max_moves: i64,
    },
}

/// A request of an instance or a terminal, which uses accounts.
#[derive(Clone, Debug)]
pub enum InstanceRequest<'a> {
    /// `ACCOUNT.LOGIN`.
    Login {
        /// The account.
        account: &'a [u8],
        /// The instance that has the account.
        instance: &'a [u8],
        /// The terminal.
        terminal: &'a [u8],
        /// Length of the login, in milliseconds.
        ttl: Millis,
    },
    /// `ACCOUNT.RENEW`.
    Renew {
        /// The account.
        account: &'a [u8],
        /// Epoch of the login.
        epoch: Epoch,
        /// Length of the login from now, in milliseconds.
        ttl: Millis,
    },
    /// `ACCOUNT.LOGOUT`.
    Logout {
        /// The account.
        account: &'a [u8],
        /// Epoch of the login, or of the assignment.
        epoch: Epoch,
        /// Whether the instance returns an account that was not revoked, by the epoch of the assignment.
        back: bool,
        /// The leader's term.
        term: Option<u64>,
    },
    /// `ACCOUNT.PICK`.
    Pick {
        /// The module.
        module: &'a [u8],
        /// The instance.
        instance: &'a [u8],
        /// The most accounts.
        count: usize,
    },
    /// `ACCOUNT.USE`.
    Use {
        /// The account.
        account: &'a [u8],
        /// Epoch of the login, or of the assignment.
        epoch: Epoch,
        /// Number of instructions.
        count: i64,
    },
    /// `ACCOUNT.REPORT`.
    Report {
        /// The account.
        account: &'a [u8],
        /// Epoch of the assignment.
        epoch: Epoch,
        /// Number of instructions since the assignment.
        total: u64,
    },
}

impl<'a> ManagerRequest<'a> {
    /// `ACCOUNT.ADD` without `DEPARTMENT` and `TURN`.
    pub fn add(module: Option<&'a [u8]>, tariff: Tariff, accounts: Vec<&'a [u8]>) -> Self {
        Self::Add { module, department: None, tariff, turn: None, accounts }
    }

    /// This request, sent by the leader of this term, or by a person if `None`.
    #[must_use]
    pub fn in_term(self, term: Option<u64>) -> Request<'a> {
        Request::Manager(term, self)
    }
}

impl<'a> From<ManagerRequest<'a>> for Request<'a> {
    fn from(request: ManagerRequest<'a>) -> Self {
        request.in_term(None)
    }
}

impl<'a> From<InstanceRequest<'a>> for Request<'a> {
    fn from(request: InstanceRequest<'a>) -> Self {
        Self::Instance(request)
    }
}

/// Settings to change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "as in Settings")]
pub struct Changes {
    pub cap: Option<i64>,
    pub dwell: Option<Millis>,
    pub max_moves: Option<i64>,
    /// Ends of months that an operator sets.
    pub turns: Option<Vec<Millis>>,
    /// Ends of calendar months that a leader sets; refused if an operator has set others.
    pub calendar_turns: Option<Vec<Millis>>,
    /// Whether leaders shall set the ends of months again.
    pub months: bool,
    pub margin: Option<Amount>,
    pub lend_level: Option<i64>,
    pub events: Option<i64>,
}

/// `ACCOUNT.MODULE key module ...`
#[derive(Clone, Copy, Debug, Default)]
pub struct ModuleSettings<'a> {
    /// The module.
    pub module: &'a [u8],
    /// Department of the module.
    pub department: &'a [u8],
    /// How many instances of the module hold a share at once.
    pub instances: i64,
    /// Weight of the module when accounts are distributed; `None` keeps the value, or sets 1.
    pub weight: Option<i64>,
    /// How many accounts are kept free for replacements; `None` keeps the value, or sets 0.
    pub reserve: Option<i64>,
    /// How many accounts an active instance keeps; `None` keeps the value, or sets 1.
    pub min: Option<i64>,
    /// How the accounts are divided; `None` keeps the value, or sets `places`.
    pub share: Option<Share>,
    /// How long an account is free before it is lent, in milliseconds; `None` keeps the value, or sets 10 minutes.
    pub lend: Option<Millis>,
    /// The most instructions of the module in a month; `None` keeps the value, or sets 0, which is no limit.
    pub cap: Option<i64>,
    /// How many instructions a month the module needs; `None` keeps the value, or sets 0, which says nothing.
    pub need: Option<i64>,
}
