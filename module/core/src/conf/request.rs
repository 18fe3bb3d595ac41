//! Requests to a realm (docs/conferences.md, Commands), with parsed arguments.

use super::model::conference::Epoch;
use super::model::state::Policy;
use crate::shared::Millis;

/// A request that may change a realm. `term` is the term of the scheduler that sends the request; a term other than
/// the claimed one is refused with `STALE`.
#[derive(Clone, Debug)]
pub enum Request<'a> {
    /// `CONF.REALM` on a realm that exists.
    Configure(Changes),
    /// `CONF.TERM`.
    Claim {
        /// Term of the sending scheduler.
        term: u64,
        /// Name of the scheduler.
        leader: &'a [u8],
        /// Whether the term may be lower than the last one.
        force: bool,
    },
    /// `CMU.JOIN`.
    Join {
        /// The unit.
        cmu: &'a [u8],
        /// Capacity of the unit.
        capacity: i64,
        /// Zone of the unit.
        zone: Option<&'a [u8]>,
        /// Length of the lease, in milliseconds.
        lease: Millis,
    },
    /// `CMU.BEAT`.
    Beat {
        /// The unit.
        cmu: &'a [u8],
        /// Number that the unit gives as its load.
        load: Option<i64>,
    },
    /// `CMU.REPORT`.
    Report(Report<'a>),
    /// `CMU.ASK`.
    Ask {
        /// The unit; `None` for all units.
        cmu: Option<&'a [u8]>,
        /// Whether all details are asked for, instead of the list.
        details: bool,
    },
    /// `CMU.DRAIN`.
    Drain {
        /// The unit.
        cmu: &'a [u8],
        /// Whether the unit starts or stops draining.
        on: bool,
        /// Whether the conferences of the unit are moved as well.
        moves: bool,
        /// Term of the sending scheduler.
        term: Option<u64>,
    },
    /// `CMU.DOWN`.
    Down {
        /// The unit.
        cmu: &'a [u8],
        /// Term of the sending scheduler.
        term: Option<u64>,
    },
    /// `CONF.CREATE`.
    Create(Create<'a>),
    /// `CONF.ACK`.
    Ack(AssignmentNotice<'a>),
    /// `CONF.NACK`, with the text of the unit.
    Nack(AssignmentNotice<'a>, Option<&'a [u8]>),
    /// `CONF.ENDED`.
    Ended(AssignmentNotice<'a>),
    /// `CONF.RELEASE`.
    Release {
        /// E.164 number of the conference.
        e164: &'a [u8],
    },
    /// `CONF.EXTEND`.
    Extend {
        /// E.164 number of the conference.
        e164: &'a [u8],
        /// The new end time.
        end: Millis,
    },
    /// `CONF.SET`.
    Set(Set<'a>),
    /// `CONF.RECOVER`.
    Recover {
        /// The most conferences to place.
        count: i64,
        /// Term of the sending scheduler.
        term: Option<u64>,
    },
    /// `CONF.RESTART`.
    Restart {
        /// Units whose nodes the scheduler found in ZooKeeper.
        live: Vec<&'a [u8]>,
        /// Term of the sending scheduler.
        term: Option<u64>,
    },
    /// `CONF.MOVE`.
    Move {
        /// E.164 number of the conference.
        e164: &'a [u8],
        /// The target unit; chosen by the realm if `None`.
        to: Option<&'a [u8]>,
        /// Term of the sending scheduler.
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

/// What a unit says about one assignment: it was opened (`CONF.ACK`), refused (`CONF.NACK`) or ended (`CONF.ENDED`).
#[derive(Clone, Copy, Debug)]
pub struct AssignmentNotice<'a> {
    /// E.164 number of the conference.
    pub e164: &'a [u8],
    /// The sending unit.
    pub cmu: &'a [u8],
    /// Epoch of the assignment.
    pub epoch: Epoch,
}

/// `CMU.REPORT key cmu HIGHEST epoch [e164 epoch ...]`
#[derive(Clone, Debug)]
pub struct Report<'a> {
    /// The unit.
    pub cmu: &'a [u8],
    /// The highest epoch of all CREATE and EPOCH messages that the unit had handled when it made the list.
    pub highest: Epoch,
    /// All conferences on the unit, with their epochs.
    pub list: Vec<(&'a [u8], Epoch)>,
}

/// `CONF.CREATE key e164 ...`
#[derive(Clone, Copy, Debug)]
pub struct Create<'a> {
    /// E.164 number.
    pub e164: &'a [u8],
    /// Planned end, in milliseconds since 1970.
    pub end: Option<Millis>,
    /// Room that the conference takes on a unit.
    pub size: i64,
    /// Licences that the conference takes.
    pub licences: i64,
    /// Order of recovery: the greater priority first.
    pub priority: i64,
    /// Zone of the unit; any zone if `None`.
    pub zone: Option<&'a [u8]>,
    /// Whether the conference is recovered when its unit is lost.
    pub recoverable: bool,
    /// Id of the creation, by which a repeated request is recognised.
    pub request: Option<&'a [u8]>,
    /// The pool that the number was called from, and the token of the call.
    pub called_from: Option<(&'a [u8], &'a [u8])>,
}

/// `CONF.SET key e164 cmu epoch seq field value ...`
#[derive(Clone, Debug)]
pub struct Set<'a> {
    /// E.164 number of the conference.
    pub e164: &'a [u8],
    /// The sending unit.
    pub cmu: &'a [u8],
    /// Epoch of the assignment.
    pub epoch: Epoch,
    /// Number of the write; increases with each write.
    pub seq: u64,
    /// Fields and values alternately.
    pub fields: &'a [&'a [u8]],
}
