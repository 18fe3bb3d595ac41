//! Requests to a realm, with parsed arguments. docs/conferences.md describes the commands.

use super::model::conference::Epoch;
use super::model::state::{Placement, Policy};
use crate::shared::Millis;

/// A request that may change a realm, by the kind of sender. All byte strings are borrowed from the caller.
#[derive(Clone, Debug)]
pub enum Request<'a> {
    /// A request of a client of the realm.
    Client(ClientRequest<'a>),
    /// A request of a unit.
    Unit(UnitRequest<'a>),
    /// A request of a scheduler or an operator.
    Scheduler {
        /// The scheduler's term; `None` if the command has no `TERM`. Any term except the claimed one is `STALE`.
        term: Option<u64>,
        /// The request itself.
        request: SchedulerRequest<'a>,
    },
    /// The claim of a newly elected scheduler.
    Claim(Claim<'a>),
}

impl<'a> Request<'a> {
    /// The unit and the conference that the request names.
    pub(super) fn named(&self) -> (Option<&'a [u8]>, Option<&'a [u8]>) {
        match self {
            Self::Client(request) => match request {
                ClientRequest::Create(create) => (None, Some(create.e164)),
                ClientRequest::Release { e164 }
                | ClientRequest::Extend { e164, .. }
                | ClientRequest::Resize { e164, .. }
                | ClientRequest::Alter { e164, .. } => (None, Some(e164)),
                ClientRequest::Ask { cmu, .. } => (*cmu, None),
                ClientRequest::Configure(_) | ClientRequest::Drop => (None, None),
            },
            Self::Unit(request) => match request {
                UnitRequest::Join { cmu, .. }
                | UnitRequest::Beat { cmu, .. }
                | UnitRequest::Leave { cmu } => (Some(cmu), None),
                UnitRequest::Report(report) => (Some(report.cmu), None),
                UnitRequest::Ack(notice)
                | UnitRequest::Nack(notice, _)
                | UnitRequest::Failed(notice, _)
                | UnitRequest::Ended(notice, _) => (Some(notice.cmu), Some(notice.e164)),
                UnitRequest::Set(set) => (Some(set.cmu), Some(set.e164)),
            },
            Self::Scheduler { request, .. } => match request {
                SchedulerRequest::Drain { of: DrainOf::Unit(cmu), .. } | SchedulerRequest::Down { cmu } => {
                    (Some(cmu), None)
                }
                SchedulerRequest::Move { e164, to } => (*to, Some(e164)),
                SchedulerRequest::Recover { .. }
                | SchedulerRequest::Rebalance { .. }
                | SchedulerRequest::Restart { .. }
                | SchedulerRequest::Drain { of: DrainOf::Host(_), .. } => (None, None),
            },
            Self::Claim(_) => (None, None),
        }
    }
}

/// A request of a client: a manager of conferences, an operator, or a data proxy that misses details.
#[derive(Clone, Debug)]
pub enum ClientRequest<'a> {
    /// `CONF.REALM` on a realm that exists.
    Configure(Changes),
    /// `CONF.REALM key DROP`.
    Drop,
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
        /// Whether only to say what the change would reply.
        dry_run: bool,
    },
    /// `CONF.RESIZE`.
    Resize {
        /// The conference.
        e164: &'a [u8],
        /// Its new size.
        size: i64,
    },
    /// `CONF.ALTER`.
    Alter {
        /// The conference.
        e164: &'a [u8],
        /// What changes.
        wishes: WishesRequest<'a>,
    },
    /// `CMU.ASK`.
    Ask {
        /// The unit; `None` asks all units.
        cmu: Option<&'a [u8]>,
        /// Whether the unit must send all details again, instead of its list.
        details: bool,
    },
}

/// A request of a unit. It names the unit's identity, and is refused if the identity was replaced.
#[derive(Clone, Debug)]
pub enum UnitRequest<'a> {
    /// `CMU.JOIN`.
    Join {
        /// The unit.
        cmu: &'a [u8],
        /// Capacity of the unit.
        capacity: i64,
        /// Zone of the unit.
        zone: Option<&'a [u8]>,
        /// Tags of the unit.
        tags: &'a [&'a [u8]],
        /// Length of the lease, in milliseconds.
        lease: Millis,
        /// What tells the machine of the unit from other machines.
        machine: Option<&'a [u8]>,
    },
    /// `CMU.BEAT`.
    Beat {
        /// The unit.
        cmu: &'a [u8],
        /// Load of the unit in percent, as the unit measures it; `None` leaves the last load.
        load: Option<i64>,
    },
    /// `CMU.LEAVE`.
    Leave {
        /// The unit.
        cmu: &'a [u8],
    },
    /// `CMU.REPORT`.
    Report(Report<'a>),
    /// `CONF.ACK`.
    Ack(AssignmentNotice<'a>),
    /// `CONF.NACK`, with the unit's reason.
    Nack(AssignmentNotice<'a>, Option<&'a [u8]>),
    /// `CONF.FAILED`, with the unit's reason.
    Failed(AssignmentNotice<'a>, Option<&'a [u8]>),
    /// `CONF.ENDED`.
    Ended(AssignmentNotice<'a>, End),
    /// `CONF.SET`, which a data proxy sends for the unit.
    Set(Set<'a>),
}

/// A request of a scheduler or an operator.
#[derive(Clone, Debug)]
pub enum SchedulerRequest<'a> {
    /// `CMU.DRAIN`.
    Drain {
        /// What is drained.
        of: DrainOf<'a>,
        /// Whether the host starts or stops draining.
        on: bool,
        /// Whether the conferences of its unit are moved as well.
        moves: bool,
    },
    /// `CMU.DOWN`.
    Down {
        /// The unit.
        cmu: &'a [u8],
    },
    /// `CONF.RECOVER`.
    Recover {
        /// The most conferences to place.
        count: i64,
    },
    /// `CONF.RESTART`.
    Restart {
        /// Units whose nodes the scheduler found in ZooKeeper.
        live: Vec<&'a [u8]>,
    },
    /// `CONF.REBALANCE`.
    Rebalance {
        /// The most moves to begin.
        most: i64,
        /// Whether the moves are only planned.
        dry_run: bool,
    },
    /// `CONF.MOVE`.
    Move {
        /// E.164 number of the conference.
        e164: &'a [u8],
        /// The target unit; chosen by the realm if `None`.
        to: Option<&'a [u8]>,
    },
}

/// What `CMU.DRAIN` drains: always a host, with all units that run on it one after another.
#[derive(Clone, Copy, Debug)]
pub enum DrainOf<'a> {
    /// The host of this unit.
    Unit(&'a [u8]),
    /// This host, which need not have a unit.
    Host(&'a [u8]),
}

/// `CONF.TERM key term leader [FORCE]`
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// The scheduler's term.
    pub term: u64,
    /// The scheduler's name.
    pub leader: &'a [u8],
    /// Whether the term may be lower than the claimed one.
    pub force: bool,
}

/// Settings to change; `None` leaves a setting as it is.
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
    pub placement: Option<Placement>,
    pub tries: Option<i64>,
    pub failures: Option<i64>,
    pub warn: Option<Millis>,
    pub ramp: Option<Millis>,
}

/// A unit's message about one assignment: the conference is open (`CONF.ACK`), refused (`CONF.NACK`), failed
/// (`CONF.FAILED`) or ended (`CONF.ENDED`).
#[derive(Clone, Copy, Debug)]
pub struct AssignmentNotice<'a> {
    /// E.164 number of the conference.
    pub e164: &'a [u8],
    /// The sending unit.
    pub cmu: &'a [u8],
    /// Epoch of the assignment.
    pub epoch: Epoch,
}

/// Why a unit no longer has its copy of a conference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// People ended the conference.
    People,
    /// The unit ended the copy because it was told RELEASE. This ends the conference only if its end was requested.
    Released,
}

/// What the program of a conference was told: the record of a conference that the realm lost is made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyParams<'a> {
    /// E.164 number.
    pub e164: &'a [u8],
    /// Planned end, in milliseconds since 1970.
    pub end: Option<Millis>,
    /// Room that the conference takes.
    pub size: i64,
    /// Order of recovery.
    pub priority: i64,
    /// Id of the creation.
    pub request: Option<&'a [u8]>,
}

/// `CMU.REPORT key cmu HIGHEST epoch [ENDED n e164 epoch ...] [STARTING n e164 epoch ...] [PARAMS n e164 end size
/// priority request ...] [e164 epoch ...]`
#[derive(Clone, Debug, Default)]
pub struct Report<'a> {
    /// The unit.
    pub cmu: &'a [u8],
    /// The highest epoch of all CREATE and EPOCH messages that the unit had handled when it made the list.
    pub highest: Epoch,
    /// Conferences that people ended on the unit, each with the epoch at which the unit had it.
    pub ended: Vec<(&'a [u8], Epoch)>,
    /// Conferences that the unit was told to create and that are not open yet, each with its epoch.
    pub starting: Vec<(&'a [u8], Epoch)>,
    /// What the programs of conferences in the list were told.
    pub params: Vec<CopyParams<'a>>,
    /// All conferences that the unit has open, each with the epoch of its copy.
    pub list: Vec<(&'a [u8], Epoch)>,
}

/// `CONF.CREATE key e164 ...`
#[derive(Clone, Copy, Debug)]
pub struct Create<'a> {
    /// E.164 number.
    pub e164: &'a [u8],
    /// Planned start, in milliseconds since 1970; at once if `None`.
    pub start: Option<Millis>,
    /// Planned end, in milliseconds since 1970.
    pub end: Option<Millis>,
    /// Room that the conference takes on a unit.
    pub size: i64,
    /// Licences that the conference takes.
    pub licences: i64,
    /// Order of recovery: the greater priority first.
    pub priority: i64,
    /// Which units may take the conference.
    pub wishes: WishesRequest<'a>,
    /// Whether the conference is recovered when its unit is lost.
    pub recoverable: bool,
    /// Whether it has waited for room, and is decided again.
    pub waits: bool,
    /// Id of the creation, by which a repeated request is recognised.
    pub request: Option<&'a [u8]>,
    /// The pool that the number was called from, and the token of the call.
    pub called_from: Option<(&'a [u8], &'a [u8])>,
}

/// Which units may take a conference. In `CONF.ALTER`, `None` leaves a wish as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WishesRequest<'a> {
    /// Zone of the unit; `Some(None)` for any zone.
    pub zone: Option<Option<&'a [u8]>>,
    /// How long the conference waits for its zone and host before it may go elsewhere, in milliseconds; 0 for ever.
    pub zone_fall: Option<Millis>,
    /// Host of the unit; `Some(None)` for any host.
    pub host: Option<Option<&'a [u8]>>,
    /// Tags that the unit must have.
    pub require: Option<&'a [&'a [u8]]>,
    /// Tags of which the unit should have as many as possible.
    pub prefer: Option<&'a [&'a [u8]]>,
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
