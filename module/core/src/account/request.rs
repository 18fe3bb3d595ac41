//! What can be asked of a book (docs/accounts.md, Commands), with every argument already parsed.

use super::model::record::Epoch;
use super::model::tariff::Tariff;
use crate::shared::Millis;

/// A request that may change a book. All byte strings are the caller's. `term` is the leader's, where it is given; any
/// but the claimed one is `STALE`.
#[derive(Clone, Debug)]
pub enum Request<'a> {
    /// `ACCOUNT.BOOK` on a book that exists.
    Configure(Changes),
    /// `ACCOUNT.TERM`.
    Claim {
        /// The leader's term.
        term: u64,
        /// Its name.
        leader: &'a [u8],
        /// Whether it may be lower than the last one.
        force: bool,
    },
    /// `ACCOUNT.MODULE`.
    Module(ModuleWish<'a>),
    /// `ACCOUNT.ADD`.
    Add {
        /// The module; `None` to distribute them over the modules by weight.
        module: Option<&'a [u8]>,
        /// What each costs.
        tariff: Tariff,
        /// Their names.
        accounts: Vec<&'a [u8]>,
        /// The leader's term.
        term: Option<u64>,
    },
    /// `ACCOUNT.DEL`.
    Del {
        /// Their names.
        accounts: Vec<&'a [u8]>,
        /// The leader's term.
        term: Option<u64>,
    },
    /// `ACCOUNT.MOVE`.
    Move {
        /// The module that they go to.
        module: &'a [u8],
        /// Their names.
        accounts: Vec<&'a [u8]>,
        /// The leader's term.
        term: Option<u64>,
    },
    /// `ACCOUNT.FREEZE`.
    Freeze {
        /// The account.
        account: &'a [u8],
        /// On or off.
        on: bool,
        /// The leader's term.
        term: Option<u64>,
    },
    /// `ACCOUNT.ATTACH`.
    Attach {
        /// The module.
        module: &'a [u8],
        /// The instance.
        instance: &'a [u8],
        /// The leader's term.
        term: Option<u64>,
    },
    /// `ACCOUNT.DETACH`.
    Detach {
        /// The module.
        module: &'a [u8],
        /// The instance.
        instance: &'a [u8],
        /// How long its place is kept.
        grace: Millis,
        /// The leader's term.
        term: Option<u64>,
    },
    /// `ACCOUNT.LOGIN`.
    Login {
        /// The account.
        account: &'a [u8],
        /// The instance that has it.
        instance: &'a [u8],
        /// Where.
        terminal: &'a [u8],
        /// For how long.
        ttl: Millis,
    },
    /// `ACCOUNT.RENEW`.
    Renew {
        /// The account.
        account: &'a [u8],
        /// The login.
        epoch: Epoch,
        /// For how long from now.
        ttl: Millis,
    },
    /// `ACCOUNT.LOGOUT`.
    Logout {
        /// The account.
        account: &'a [u8],
        /// The login, or the deal.
        epoch: Epoch,
        /// Whether the instance gives the account back, by the epoch of its deal.
        back: bool,
        /// The leader's term.
        term: Option<u64>,
    },
    /// `ACCOUNT.USE`.
    Use {
        /// The account.
        account: &'a [u8],
        /// The login, or the deal.
        epoch: Epoch,
        /// How many instructions.
        count: i64,
    },
    /// `ACCOUNT.REBALANCE`.
    Rebalance {
        /// Whether nothing is to happen yet.
        dry_run: bool,
        /// The most moves.
        max_moves: i64,
        /// The leader's term.
        term: Option<u64>,
    },
}

/// Settings to change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "as in Settings")]
pub struct Changes {
    pub cap: Option<i64>,
    pub dwell: Option<Millis>,
    pub max_moves: Option<i64>,
    pub turns: Option<Vec<Millis>>,
}

/// `ACCOUNT.MODULE key module ...`
#[derive(Clone, Copy, Debug)]
pub struct ModuleWish<'a> {
    /// The module.
    pub module: &'a [u8],
    /// Its department.
    pub department: &'a [u8],
    /// How many of its instances hold a share at once.
    pub instances: i64,
    /// Its part where accounts are distributed; as it was, or 1, where absent.
    pub weight: Option<i64>,
    /// Accounts kept back; as it was, or 0, where absent.
    pub reserve: Option<i64>,
    /// The leader's term.
    pub term: Option<u64>,
}
