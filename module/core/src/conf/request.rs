//! What can be asked of a realm (docs/conferences.md, Commands), with every argument already parsed.

use super::model::conference::Epoch;
use super::model::state::Policy;
use crate::shared::Millis;

/// A request that may change a realm. All byte strings are the caller's. `term` is the scheduler's, where it is
/// given; any but the claimed one is `STALE`.
#[derive(Clone, Debug)]
pub enum Request<'a> {
    /// `CONF.REALM` on a realm that exists.
    Configure(Changes),
    /// `CONF.TERM`.
    Claim {
        /// The scheduler's term.
        term: u64,
        /// Its name.
        leader: &'a [u8],
        /// Whether it may be lower than the last one.
        force: bool,
    },
    /// `CMU.JOIN`.
    Join {
        /// The unit.
        cmu: &'a [u8],
        /// Room that it has.
        capacity: i64,
        /// Its zone.
        zone: Option<&'a [u8]>,
        /// Length of its lease.
        lease: Millis,
    },
    /// `CMU.BEAT`.
    Beat {
        /// The unit.
        cmu: &'a [u8],
        /// Its load.
        load: Option<i64>,
    },
    /// `CMU.REPORT`.
    Report(Report<'a>),
    /// `CMU.ASK`.
    Ask {
        /// The unit; all where absent.
        cmu: Option<&'a [u8]>,
        /// All details again, and not the list.
        details: bool,
    },
    /// `CMU.DRAIN`.
    Drain {
        /// The unit.
        cmu: &'a [u8],
        /// On or off.
        on: bool,
        /// Whether its conferences are moved as well.
        moves: bool,
        /// The scheduler's term.
        term: Option<u64>,
    },
    /// `CMU.DOWN`.
    Down {
        /// The unit.
        cmu: &'a [u8],
        /// The scheduler's term.
        term: Option<u64>,
    },
    /// `CONF.CREATE`.
    Create(Create<'a>),
    /// `CONF.ACK`.
    Ack(Word<'a>),
    /// `CONF.NACK`, with the unit's reason.
    Nack(Word<'a>, Option<&'a [u8]>),
    /// `CONF.ENDED`.
    Ended(Word<'a>, End),
    /// `CONF.RELEASE`.
    Release {
        /// The conference.
        e164: &'a [u8],
    },
    /// `CONF.EXTEND`.
    Extend {
        /// The conference.
        e164: &'a [u8],
        /// Its new end.
        end: Millis,
    },
    /// `CONF.SET`.
    Set(Set<'a>),
    /// `CONF.RECOVER`.
    Recover {
        /// How many conferences at most.
        count: i64,
        /// The scheduler's term.
        term: Option<u64>,
    },
    /// `CONF.RESTART`.
    Restart {
        /// Units that the scheduler found.
        live: Vec<&'a [u8]>,
        /// The scheduler's term.
        term: Option<u64>,
    },
    /// `CONF.MOVE`.
    Move {
        /// The conference.
        e164: &'a [u8],
        /// The unit that is to take over; the best one where absent.
        to: Option<&'a [u8]>,
        /// The scheduler's term.
        term: Option<u64>,
    },
}

/// Settings to change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "as in Settings")]
pub struct Changes {
    pub licences: Option<i64>,
    pub retry: Option<Millis>,
    pub window: Option<Millis>,
    pub policy: Option<Policy>,
    pub create_timeout: Option<Millis>,
    pub release_timeout: Option<Millis>,
    pub wait_timeout: Option<Millis>,
    pub tombstone: Option<Millis>,
}

/// A unit's word on an assignment.
#[derive(Clone, Copy, Debug)]
pub struct Word<'a> {
    /// The conference.
    pub e164: &'a [u8],
    /// The unit that says it.
    pub cmu: &'a [u8],
    /// At which epoch it has, or had, the conference.
    pub epoch: Epoch,
}

/// Why a unit no longer has its copy of a conference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// People ended the conference.
    People,
    /// The unit gave the copy up because it was told RELEASE: this ends no conference that nobody ended.
    Released,
}

/// `CMU.REPORT key cmu HIGHEST epoch [ENDED n e164 epoch ...] [e164 epoch ...]`
#[derive(Clone, Debug)]
pub struct Report<'a> {
    /// The unit.
    pub cmu: &'a [u8],
    /// The highest epoch whose CREATE or EPOCH it had handled when it took the list.
    pub highest: Epoch,
    /// Conferences that people ended on it, and at which epochs it had them.
    pub ended: Vec<(&'a [u8], Epoch)>,
    /// All that it has.
    pub list: Vec<(&'a [u8], Epoch)>,
}

/// `CONF.CREATE key e164 ...`
#[derive(Clone, Copy, Debug)]
pub struct Create<'a> {
    /// Its number.
    pub e164: &'a [u8],
    /// Its planned end.
    pub end: Option<Millis>,
    /// Room that it takes.
    pub size: i64,
    /// Licences that it takes.
    pub licences: i64,
    /// Who is recovered first: greater before smaller.
    pub priority: i64,
    /// Where it must be placed.
    pub zone: Option<&'a [u8]>,
    /// Whether it may be recovered.
    pub recoverable: bool,
    /// The creation's id.
    pub request: Option<&'a [u8]>,
    /// The pool in which its number is being called, and the token of that call.
    pub called_from: Option<(&'a [u8], &'a [u8])>,
}

/// `CONF.SET key e164 cmu epoch seq field value ...`
#[derive(Clone, Debug)]
pub struct Set<'a> {
    /// The conference.
    pub e164: &'a [u8],
    /// The unit that says it.
    pub cmu: &'a [u8],
    /// Its epoch.
    pub epoch: Epoch,
    /// Number of the write; rises with each.
    pub seq: u64,
    /// Fields and values by turns.
    pub fields: &'a [&'a [u8]],
}
