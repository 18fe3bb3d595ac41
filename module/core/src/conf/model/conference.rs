//! The record of a conference, with its assignments and details.

pub use super::ids::Epoch;
use super::ids::Name;
use crate::invariant;
use crate::shared::{Bytes, Millis};
use crate::words;

/// The most assignments that are kept of a conference. Beyond that, the oldest is dropped.
pub const MAX_HISTORY: usize = 64;
/// The most fields of details of a conference.
pub const MAX_DETAILS: usize = 256;
/// Names that no detail may have, because entries of streams begin with fields of these names. A client that reads an
/// entry as a map would take the detail for such a field.
pub const RESERVED_DETAILS: [&str; 5] = ["event", "e164", "cmu", "epoch", "seq"];
/// The longest value of a detail, in bytes.
pub const MAX_VALUE: usize = 65_536;

words! {
    /// The states of a conference. The numbers are part of the encoding.
    #[derive(Hash)]
    pub enum State {
        /// A new scheduler took over, and the unit was asked whether it still has the conference.
        Waiting = 0 => "waiting",
        /// The unit was told to create the conference.
        Creating = 1 => "creating",
        /// The unit has the conference open.
        Open = 2 => "open",
        /// The conference lost its unit and waits for another.
        Pending = 3 => "pending",
        /// The conference has ended; its record stays as a tombstone.
        Ended = 4 => "ended",
    }
}

words! {
    /// Why a conference changed, as in the stream `evt` and in the record. The numbers are part of the encoding.
    #[derive(Hash)]
    pub enum Cause {
        /// A manager asked for the change.
        Manager = 0 => "manager",
        /// The end time has passed.
        EndTime = 1 => "end-time",
        /// People ended the conference, as its unit reported.
        Unit = 2 => "unit",
        /// The unit could not create the conference.
        Refused = 3 => "refused",
        /// The unit did not answer in time.
        Timeout = 4 => "timeout",
        /// The report of the unit does not contain the conference.
        Missing = 5 => "missing",
        /// The unit went down.
        Down = 6 => "down",
        /// The unit restarted: another incarnation replaced it.
        Replaced = 7 => "replaced",
        /// A new scheduler did not find the unit.
        Restart = 8 => "restart",
        /// The conference waited for recovery for the whole window.
        Window = 9 => "window",
        /// An older copy was reported again.
        Adopted = 10 => "adopted",
        /// Recovery placed the conference.
        Recovery = 11 => "recovery",
        /// The unit ended its copy because it was told RELEASE.
        Released = 12 => "released",
    }
}

words! {
    /// How an assignment ended. The numbers are part of the encoding.
    #[derive(Hash)]
    pub enum AssignmentEnd {
        /// The unit was lost.
        Lost = 0 => "lost",
        /// An older copy took over.
        Released = 1 => "released",
        /// The conference was moved.
        Moved = 2 => "moved",
        /// The conference ended.
        Ended = 3 => "ended",
        /// The unit did not create the conference.
        Failed = 4 => "failed",
    }
}

/// One assignment of a conference to a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Epoch.
    pub epoch: Epoch,
    /// The epoch at which this copy was first created on the unit; adoption does not change it.
    pub copy_epoch: Epoch,
    /// Identity of the unit.
    pub cmu: Name,
    /// When the assignment was granted.
    pub from: Millis,
    /// When the unit first had the conference open; `None` if it never had.
    pub opened: Option<Millis>,
    /// When and how the assignment ended; `None` if it is the owner's assignment.
    pub ended: Option<(Millis, AssignmentEnd)>,
    /// Whether the unit was told RELEASE for this copy after it had lost the assignment. Such a copy is never adopted,
    /// and its end does not count as an end by people.
    pub disowned: bool,
}

impl Assignment {
    /// Whether the unit may still run a copy that is the conference's own: the assignment was lost, and the unit was not
    /// told to end the copy.
    pub fn is_lost(&self) -> bool {
        matches!(self.ended, Some((_, AssignmentEnd::Lost))) && !self.disowned
    }

    /// Whether a copy of this assignment may take its conference back: it was open, and it is lost.
    pub fn may_come_back(&self) -> bool {
        self.opened.is_some() && self.is_lost()
    }
}

/// A move in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moving {
    /// Number of the target unit.
    pub to: u32,
    /// The epoch of the conference on the target unit.
    pub epoch: Epoch,
    /// When the move began.
    pub since: Millis,
}

/// One detail: the last value that the unit wrote to a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    /// The field.
    pub field: Bytes,
    /// Number of the write, by which older writes are recognised.
    pub seq: u64,
    /// The value.
    pub value: Bytes,
}

/// The call by which a conference has its number. The pool hangs up when the conference ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalledFrom {
    /// Key of the pool of numbers.
    pub pool: Bytes,
    /// Token of the call, with which it is hung up.
    pub lease: Bytes,
}

/// A conference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conference {
    /// E.164 number, which a later conference may use again.
    pub e164: Bytes,
    /// State.
    pub state: State,
    /// The unit that owns the conference; `None` in the states pending and ended.
    pub owner: Option<u32>,
    /// Epoch of the latest assignment.
    pub epoch: Epoch,
    /// Epoch of the creation, which distinguishes conferences of the same number.
    pub origin_epoch: Epoch,
    /// The epoch at which the copy of the owner was first created.
    pub copy_epoch: Epoch,
    /// When the conference was created.
    pub created: Millis,
    /// When the conference was first open.
    pub opened: Option<Millis>,
    /// Planned end.
    pub end: Option<Millis>,
    /// When the state began, or when the unit of a waiting conference was last asked.
    pub since: Millis,
    /// When the conference ended. If it was waiting for recovery, when it lost its unit.
    pub ended: Option<Millis>,
    /// Since when the conference waits for recovery; failed tries do not change it.
    pub pending_since: Option<Millis>,
    /// Tries of recovery since then.
    pub attempts: u32,
    /// While pending: when the units in `tried` may be tried again. Others may be tried at once.
    pub next_retry: Option<Millis>,
    /// Names of the units that failed to create the conference. Empty once one of them is tried again.
    pub tried: Vec<Name>,
    /// The move in progress; in the states waiting and open.
    pub moving: Option<Moving>,
    /// Since when the unit is asked to end the conference.
    pub ending: Option<Millis>,
    /// Whether the conference waits for recovery, or its current assignment is a recovery that is not open yet.
    pub recovering: bool,
    /// Whether the conference is recovered when its unit is lost.
    pub recoverable: bool,
    /// Order of recovery: the greater priority first.
    pub priority: i32,
    /// Room that the conference takes on a unit.
    pub size: u32,
    /// Licences that the conference takes until its end.
    pub licences: u32,
    /// Zone of the unit; any zone if `None`.
    pub zone: Option<Name>,
    /// Id of the creation, by which a repeated request is recognised.
    pub request: Option<Bytes>,
    /// The call by which the conference has its number, if any.
    pub called_from: Option<Box<CalledFrom>>,
    /// Why the conference is in its state.
    pub cause: Cause,
    /// Assignments, oldest first: epochs increase. At most [`MAX_HISTORY`].
    pub history: Vec<Assignment>,
    /// Details, in the order of their fields.
    pub details: Vec<Detail>,
}

impl Conference {
    /// Whether the conference has not ended.
    pub fn is_live(&self) -> bool {
        self.state != State::Ended
    }

    /// The id of the request for a conference on a called number. The caller does not know the number yet, so a
    /// repeated request is found by this id.
    pub fn asked_for(&self) -> Option<&[u8]> {
        self.called_from.as_ref().and(self.request.as_deref())
    }

    /// Whether this unit owns the conference at this epoch. docs/conferences.md calls this a match.
    pub fn matches(&self, unit: Option<u32>, epoch: Epoch) -> bool {
        self.owner.is_some() && self.owner == unit && self.epoch == epoch
    }

    /// Whether the conference moves to this unit at this epoch.
    pub fn moves_to(&self, unit: Option<u32>, epoch: Epoch) -> bool {
        self.moving.is_some_and(|moving| Some(moving.to) == unit && moving.epoch == epoch)
    }

    /// The last assignment that was open and ended as lost.
    pub fn last_lost(&self) -> Option<&Assignment> {
        let lost = |entry: &&Assignment| {
            entry.opened.is_some() && matches!(entry.ended, Some((_, AssignmentEnd::Lost)))
        };
        self.history.iter().rev().find(lost)
    }

    /// Lost assignments whose units can still end the conference when people end it there: those after which no other
    /// was open. An assignment that was never acknowledged is among them, because the unit may have been lost before
    /// its `CONF.ACK` arrived.
    pub fn last_copies(&self) -> impl Iterator<Item = &Assignment> {
        let open = self.history.iter().rposition(|entry| entry.opened.is_some()).unwrap_or(0);
        self.history.iter().skip(open).filter(|entry| entry.is_lost())
    }

    /// When the last open assignment ended, if its unit was lost.
    pub(in crate::conf) fn last_served(&self) -> Option<Millis> {
        let latest = self.history.iter().rev().find(|entry| entry.opened.is_some())?;
        latest.ended.filter(|(_, how)| *how == AssignmentEnd::Lost).map(|(to, _)| to)
    }

    /// The assignment of that unit and epoch, if it is known.
    pub fn assignment(&self, cmu: &[u8], epoch: Epoch) -> Option<&Assignment> {
        self.history.iter().rev().find(|entry| entry.epoch == epoch && *entry.cmu == *cmu)
    }

    /// The unit of the latest assignment; every conference has had one.
    pub fn last_unit(&self) -> Option<&Name> {
        let entry = self.history.last();
        invariant!(entry.is_some(), "a conference has an assignment");
        entry.map(|entry| &entry.cmu)
    }

    /// Appends an assignment and makes it the current one.
    pub(in crate::conf) fn assign(&mut self, entry: Assignment) {
        (self.epoch, self.copy_epoch) = (entry.epoch, entry.copy_epoch);
        if self.history.len() >= MAX_HISTORY {
            // Failed tries are dropped first. The last loss is never dropped: adoption and the time of the end depend
            // on it.
            let kept = self.last_lost().map(|entry| entry.epoch);
            let failed = |entry: &Assignment| matches!(entry.ended, Some((_, AssignmentEnd::Failed)));
            let oldest = |entry: &Assignment| Some(entry.epoch) != kept;
            let at = self.history.iter().position(failed).or_else(|| self.history.iter().position(oldest));
            invariant!(at.is_some(), "a full history has an assignment that may be dropped");
            self.history.remove(at.unwrap_or(0));
        }
        self.history.push(entry);
    }

    /// Ends the current assignment, if there is one: a pending conference has none.
    pub(in crate::conf) fn close(&mut self, at: Millis, how: AssignmentEnd) {
        match self.history.last_mut() {
            Some(entry) => {
                entry.ended.get_or_insert((at, how));
            }
            None => invariant!("a conference has an assignment"),
        }
    }

    /// Ends the owner's assignment as lost.
    pub(in crate::conf) fn close_lost(&mut self, at: Millis, cause: Cause) {
        self.close(at, AssignmentEnd::Lost);
        // The unit ended its copy because it was told RELEASE.
        if cause == Cause::Released
            && let Some(entry) = self.history.last_mut()
        {
            entry.disowned = true;
        }
    }

    /// Notes that the unit of a lost assignment was told to end its copy.
    pub(in crate::conf) fn disown(&mut self, cmu: &[u8], epoch: Epoch) {
        let told = |entry: &&mut Assignment| entry.epoch == epoch && *entry.cmu == *cmu;
        if let Some(entry) = self.history.iter_mut().rev().find(told) {
            entry.disowned |= matches!(entry.ended, Some((_, AssignmentEnd::Lost)));
        }
    }

    /// Where a field is among the details, or would be.
    pub(in crate::conf) fn place_of(&self, field: &[u8]) -> Result<usize, usize> {
        self.details.binary_search_by(|detail| detail.field[..].cmp(field))
    }

    /// Bytes allocated for the fields of the conference.
    pub(in crate::conf) fn allocated(&self) -> usize {
        let spilled = |bytes: &Bytes| if bytes.spilled() { bytes.capacity() } else { 0 };
        spilled(&self.e164)
            + self.request.as_ref().map_or(0, spilled)
            + self
                .called_from
                .as_ref()
                .map_or(0, |from| size_of::<CalledFrom>() + spilled(&from.pool) + spilled(&from.lease))
            + self.tried.capacity() * size_of::<Name>()
            + self.history.capacity() * size_of::<Assignment>()
            + self.details.capacity() * size_of::<Detail>()
            + self.details.iter().map(|detail| spilled(&detail.field) + spilled(&detail.value)).sum::<usize>()
    }
}
