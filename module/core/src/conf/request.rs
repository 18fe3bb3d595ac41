//! What can be asked of a realm (docs/conferences.md, Commands), with every argument already parsed.

use super::model::conference::Epoch;
use super::model::state::Policy;
use crate::shared::Millis;

/// A request that may change a realm, by who may make it. All byte strings are the caller's.
#[derive(Clone, Debug)]
pub enum Request<'a> {
    /// Of a client of the realm.
    Client(ClientRequest<'a>),
    /// Of a unit.
    Unit(UnitRequest<'a>),
    /// Of a scheduler or an operator.
    Scheduler {
        /// The scheduler's term, where it is given; any but the claimed one is `STALE`.
        term: Option<u64>,
        /// What is asked for.
        request: SchedulerRequest<'a>,
    },
    /// Of an elected scheduler that begins.
    Claim(Claim<'a>),
}

/// A request of a client: a manager of conferences, an operator, or a data proxy that misses details.
#[derive(Clone, Debug)]
pub enum ClientRequest<'a> {
    /// `CONF.REALM` on a realm that exists.
    Configure(Changes),
    /// `CONF.CREATE`.
    Create(Create<'a>),
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
    /// `CMU.ASK`.
    Ask {
        /// The unit; all where absent.
        cmu: Option<&'a [u8]>,
        /// All details again, and not the list.
        details: bool,
    },
}

/// A request of a unit, which names itself: an identity that was replaced is refused.
#[derive(Clone, Debug)]
pub enum UnitRequest<'a> {
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
    /// `CONF.ACK`.
    Ack(Word<'a>),
    /// `CONF.NACK`, with the unit's reason.
    Nack(Word<'a>, Option<&'a [u8]>),
    /// `CONF.ENDED`.
    Ended(Word<'a>, End),
    /// `CONF.SET`, which a data proxy sends for the unit.
    Set(Set<'a>),
}

/// A request of a scheduler or an operator.
#[derive(Clone, Debug)]
pub enum SchedulerRequest<'a> {
    /// `CMU.DRAIN`.
    Drain {
        /// The unit.
        cmu: &'a [u8],
        /// On or off.
        on: bool,
        /// Whether its conferences are moved as well.
        moves: bool,
    },
    /// `CMU.DOWN`.
    Down {
        /// The unit.
        cmu: &'a [u8],
    },
    /// `CONF.RECOVER`.
    Recover {
        /// How many conferences at most.
        count: i64,
    },
    /// `CONF.RESTART`.
    Restart {
        /// Units that the scheduler found.
        live: Vec<&'a [u8]>,
    },
    /// `CONF.MOVE`.
    Move {
        /// The conference.
        e164: &'a [u8],
        /// The unit that is to take over; the best one where absent.
        to: Option<&'a [u8]>,
    },
}

/// `CONF.TERM key term leader [FORCE]`
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// The scheduler's term.
    pub term: u64,
    /// Its name.
    pub leader: &'a [u8],
    /// Whether it may be lower than the last one.
    pub force: bool,
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
