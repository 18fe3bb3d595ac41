//! A conference: what is on record, its assignments, and its details.

pub use super::ids::Epoch;
use super::ids::Name;
use crate::invariant;
use crate::shared::{Bytes, Millis};
use crate::words;

/// The most assignments that are kept of a conference; beyond that the oldest goes.
pub const MAX_HISTORY: usize = 64;
/// The most details of a conference.
pub const MAX_DETAILS: usize = 256;
/// Names that no detail may have: the fields with which entries of streams begin. A client that reads an entry as a map
/// would take the detail for the field.
pub const RESERVED_DETAILS: [&str; 5] = ["event", "e164", "cmu", "epoch", "seq"];
/// The longest value of a detail, in bytes.
pub const MAX_VALUE: usize = 65_536;

words! {
    /// The five states. The numbers are part of the encoding.
    #[derive(Hash)]
    pub enum State {
        /// Its unit should have it and is asked.
        Waiting = 0 => "waiting",
        /// Its unit was told to create it.
        Creating = 1 => "creating",
        /// Its unit has it.
        Open = 2 => "open",
        /// It lost its unit and waits for another.
        Pending = 3 => "pending",
        /// It is over; the record stays for a while.
        Ended = 4 => "ended",
    }
}

words! {
    /// Why something happened, as it stands in `evt` and on record. The numbers are part of the encoding.
    #[derive(Hash)]
    pub enum Cause {
        /// The manager asked for it.
        Manager = 0 => "manager",
        /// Its end time came.
        EndTime = 1 => "end-time",
        /// People ended it: its unit said so.
        Unit = 2 => "unit",
        /// Its unit could not create it.
        Refused = 3 => "refused",
        /// Its unit said nothing in time.
        Timeout = 4 => "timeout",
        /// Its unit's list has it not.
        Missing = 5 => "missing",
        /// Its unit went down.
        Down = 6 => "down",
        /// Its unit restarted: another incarnation took its place.
        Replaced = 7 => "replaced",
        /// A new scheduler did not find its unit.
        Restart = 8 => "restart",
        /// It waited for recovery as long as it may.
        Window = 9 => "window",
        /// An older copy was heard again.
        Adopted = 10 => "adopted",
        /// Capacity was free for it.
        Recovery = 11 => "recovery",
        /// Its unit gave its copy up, because it was told RELEASE.
        Released = 12 => "released",
    }
}

words! {
    /// How an assignment ended. The numbers are part of the encoding.
    #[derive(Hash)]
    pub enum How {
        /// Its unit went away.
        Lost = 0 => "lost",
        /// An older copy took over.
        Released = 1 => "released",
        /// It was moved.
        Moved = 2 => "moved",
        /// The conference ended.
        Ended = 3 => "ended",
        /// The unit did not create it.
        Failed = 4 => "failed",
    }
}

/// One assignment of a conference to a unit: a segment of the call's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Its number.
    pub epoch: Epoch,
    /// At which epoch this copy was first created on the unit; kept over adoption.
    pub copy_epoch: Epoch,
    /// The unit.
    pub cmu: Name,
    /// When it was granted.
    pub from: Millis,
    /// When the unit had it open, if it ever had.
    pub opened: Option<Millis>,
    /// When and how it ended; `None` for the one that owns the conference.
    pub ended: Option<(Millis, How)>,
    /// Whether its unit was told to end the copy after it had lost the assignment. The copy ends because of that, so it
    /// is neither adopted nor does its end count as an end by people.
    pub disowned: bool,
}

impl Assignment {
    /// Whether a copy of this assignment may take its conference back: it was open, it was lost, and its unit was not
    /// told to end it.
    pub fn may_come_back(&self) -> bool {
        self.opened.is_some() && matches!(self.ended, Some((_, How::Lost))) && !self.disowned
    }
}

/// A move under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moving {
    /// The unit that is to take over.
    pub to: u32,
    /// The epoch at which it will own the conference.
    pub epoch: Epoch,
    /// Since when.
    pub since: Millis,
}

/// One detail: what the unit last said of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    /// The field.
    pub field: Bytes,
    /// Number of the write that wrote it.
    pub seq: u64,
    /// Its value.
    pub value: Bytes,
}

/// Where a conference's number was called, which hangs up when the conference ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalledFrom {
    /// Key of the pool of numbers.
    pub pool: Bytes,
    /// Token of the call.
    pub lease: Bytes,
}

/// A conference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conference {
    /// Its number, which others may use after it.
    pub e164: Bytes,
    /// Where it stands.
    pub state: State,
    /// The unit that has it; in waiting, creating and open.
    pub owner: Option<u32>,
    /// Its latest assignment.
    pub epoch: Epoch,
    /// Epoch of its creation: tells it from others of the same number.
    pub origin_epoch: Epoch,
    /// At which epoch the owning copy was first created.
    pub copy_epoch: Epoch,
    /// When it was asked for.
    pub created: Millis,
    /// When it was first open.
    pub opened: Option<Millis>,
    /// Its planned end.
    pub end: Option<Millis>,
    /// When its present state began, or its unit was last asked.
    pub since: Millis,
    /// When it ended: its last moment of service, if it was waiting for recovery.
    pub ended: Option<Millis>,
    /// Since when it waits for recovery; survives failed tries.
    pub pending_since: Option<Millis>,
    /// Recoveries tried since then.
    pub attempts: u32,
    /// When units that failed it may be tried again, others at once; while pending.
    pub next_retry: Option<Millis>,
    /// Units that failed it, by name; none once one of them is tried again.
    pub tried: Vec<Name>,
    /// A move under way; in waiting and open.
    pub moving: Option<Moving>,
    /// Since when its end is asked for.
    pub ending: Option<Millis>,
    /// Whether its present assignment, or the one it waits for, recovers it.
    pub recovering: bool,
    /// Whether it may be recovered at all.
    pub recoverable: bool,
    /// Who is recovered first: greater before smaller.
    pub priority: i32,
    /// Room that it takes on a unit.
    pub size: u32,
    /// Licences that it takes until it ends.
    pub licences: u32,
    /// Where it must be placed; anywhere if `None`.
    pub zone: Option<Name>,
    /// The creation's id, by which a repeated one is known.
    pub request: Option<Bytes>,
    /// Where its number comes from, if it was called for it.
    pub called_from: Option<Box<CalledFrom>>,
    /// Why it is in its present state.
    pub cause: Cause,
    /// Every assignment, oldest first; epochs rise.
    pub history: Vec<Assignment>,
    /// Its details, by field.
    pub details: Vec<Detail>,
}

impl Conference {
    /// Whether it is not over.
    pub fn is_live(&self) -> bool {
        self.state != State::Ended
    }

    /// The request by which a conference on a called number is known, for want of the number.
    pub fn asked_for(&self) -> Option<&[u8]> {
        self.called_from.as_ref().and(self.request.as_deref())
    }

    /// Whether the unit with this number owns it, by this very assignment: what the specification calls a match.
    pub fn matches(&self, unit: Option<u32>, epoch: Epoch) -> bool {
        self.owner.is_some() && self.owner == unit && self.epoch == epoch
    }

    /// Whether this is the assignment that a move under way leads to.
    pub fn moves_to(&self, unit: Option<u32>, epoch: Epoch) -> bool {
        self.moving.is_some_and(|moving| Some(moving.to) == unit && moving.epoch == epoch)
    }

    /// The last assignment that was open and ended as lost.
    pub fn last_lost(&self) -> Option<&Assignment> {
        let lost =
            |entry: &&Assignment| entry.opened.is_some() && matches!(entry.ended, Some((_, How::Lost)));
        self.history.iter().rev().find(lost)
    }

    /// When it was last served, if it is since waiting for its recovery or on its way to it.
    pub(in crate::conf) fn last_served(&self) -> Option<Millis> {
        let latest = self.history.iter().rev().find(|entry| entry.opened.is_some())?;
        latest.ended.filter(|(_, how)| *how == How::Lost).map(|(to, _)| to)
    }

    /// The assignment of that unit and epoch, if it is on record.
    pub fn assignment(&self, cmu: &[u8], epoch: Epoch) -> Option<&Assignment> {
        self.history.iter().rev().find(|entry| entry.epoch == epoch && *entry.cmu == *cmu)
    }

    /// The unit of the latest assignment; every conference has had one.
    pub fn last_unit(&self) -> Option<&Name> {
        let entry = self.history.last();
        invariant!(entry.is_some(), "a conference has an assignment");
        entry.map(|entry| &entry.cmu)
    }

    /// Begins an assignment.
    pub(in crate::conf) fn assign(&mut self, entry: Assignment) {
        (self.epoch, self.copy_epoch) = (entry.epoch, entry.copy_epoch);
        if self.history.len() >= MAX_HISTORY {
            // What it learnt of failed tries goes first, and the last loss never: adoption and the end of service hang
            // on it.
            let kept = self.last_lost().map(|entry| entry.epoch);
            let failed = |entry: &Assignment| matches!(entry.ended, Some((_, How::Failed)));
            let oldest = |entry: &Assignment| Some(entry.epoch) != kept;
            let at = self.history.iter().position(failed).or_else(|| self.history.iter().position(oldest));
            invariant!(at.is_some(), "a full history has an assignment that may be forgotten");
            self.history.remove(at.unwrap_or(0));
        }
        self.history.push(entry);
    }

    /// Ends the assignment that owns it, if one does: a pending conference has none.
    pub(in crate::conf) fn close(&mut self, at: Millis, how: How) {
        match self.history.last_mut() {
            Some(entry) => {
                entry.ended.get_or_insert((at, how));
            }
            None => invariant!("a conference has an assignment"),
        }
    }

    /// Ends the assignment that owns it as lost.
    pub(in crate::conf) fn close_lost(&mut self, at: Millis, cause: Cause) {
        self.close(at, How::Lost);
        // A unit that gave up its copy was told to.
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
            entry.disowned |= matches!(entry.ended, Some((_, How::Lost)));
        }
    }

    /// Where a field is among the details, or would be.
    pub(in crate::conf) fn place_of(&self, field: &[u8]) -> Result<usize, usize> {
        self.details.binary_search_by(|detail| detail.field[..].cmp(field))
    }

    /// Bytes allocated behind it.
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
