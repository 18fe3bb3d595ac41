//! The record of a conference, with its assignments and details.

pub use super::assignment::{Assignment, AssignmentEnd, Ending, Moving};
pub use super::epoch::Epoch;
use super::settings::{MAX_ROOM, Settings};
use super::unit::Name;
use super::wishes::Need;
pub use super::wishes::Wishes;
use crate::shared::codec::{Damaged, ensure};
use crate::shared::fence::MAX_TIME;
use crate::shared::field::Any;
use crate::shared::invariant::Expected;
use crate::shared::{Bytes, Millis};
use crate::{fields, words};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// The most assignments that are kept of a conference. Beyond that, the oldest is dropped.
pub const MAX_HISTORY: usize = 64;
/// The most fields of details of a conference.
pub const MAX_DETAILS: usize = 256;
/// Names that no detail may have, because entries of streams begin with fields of these names. A client that reads an
/// entry as a map would take the detail for such a field.
pub const RESERVED_DETAILS: [&str; 5] = ["event", "e164", "cmu", "epoch", "seq"];
/// The longest value of a detail, in bytes.
pub const MAX_VALUE: usize = 65_536;
/// The most units that may have failed to create one conference.
const MAX_TRIED: usize = 100_000;

words! {
    /// The states of a conference. The numbers are part of the encoding.
    #[derive(Default, Hash)]
    pub enum State {
        /// A new scheduler took over, and the unit was asked whether it still has the conference.
        Waiting = 0 => "waiting",
        /// The unit was told to create the conference.
        #[default]
        Creating = 1 => "creating",
        /// The unit has the conference open.
        Open = 2 => "open",
        /// The conference lost its unit and waits for another.
        Pending = 3 => "pending",
        /// The conference has ended; its record stays as a tombstone.
        Ended = 4 => "ended",
        /// The conference starts later. Room is reserved for it, and it has no unit yet.
        Scheduled = 5 => "scheduled",
    }
}

impl State {
    /// The settings on which deadlines of conferences in this state depend.
    pub(in crate::conf) fn times(self, settings: &Settings) -> [Millis; 3] {
        let own = match self {
            Self::Ended => return [settings.tombstone, 0, 0],
            Self::Creating => settings.create_timeout,
            Self::Waiting => settings.wait_timeout,
            Self::Pending => settings.window,
            Self::Open => settings.warn,
            Self::Scheduled => 0,
        };
        // Those of a move, and of a unit that was told to end the conference.
        [own, settings.create_timeout, settings.release_timeout]
    }
}

words! {
    /// Why a conference changed, as in the stream `evt` and in the record. The numbers are part of the encoding.
    #[derive(Default, Hash)]
    pub enum Cause {
        /// A manager asked for the change.
        #[default]
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
        /// The program of the conference failed on the unit.
        Failed = 13 => "failed",
        /// The planned end is near.
        EndNear = 14 => "end-near",
    }
}

fields! {
    /// One detail: the last value that the unit wrote to a field.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Detail {
        /// The field.
        pub field: Bytes,
        /// Number of the write, by which older writes are recognised.
        pub seq: u64,
        /// The value, at most [`MAX_VALUE`] bytes.
        pub value: Any<Bytes>,
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
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Conference {
        /// E.164 number, which a later conference may use again.
        pub e164: Bytes,
        /// State.
        pub state: State,
        /// Epoch of the creation, which distinguishes conferences of the same number.
        pub origin_epoch: Epoch,
        /// When the conference was created.
        pub created: Millis,
        /// When the conference was first open.
        pub opened: Option<Millis>,
        /// Planned start of a conference that was scheduled. It stays after the start.
        pub start: Option<Millis>,
        /// Planned end.
        pub end: Option<Millis>,
        /// The number of the last UPDATE, from the counter of epochs; 0 if there was none. Copies of an earlier epoch
        /// were told to change.
        pub last_update: Epoch,
        /// Whether the last UPDATE says that the planned end is near.
        pub end_is_near: bool,
        /// When the state began, or when the unit of a waiting conference was last asked.
        pub since: Millis,
        /// When the conference ended. If it was waiting for recovery, when it lost its unit.
        pub ended: Option<Millis>,
        /// Since when the conference waits for recovery; failed tries do not change it.
        pub pending_since: Option<Millis>,
        /// Since when people may have been without the conference: the last sign of life of the unit that was lost.
        pub out_since: Option<Millis>,
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
        /// Licences that the conference takes from its start until its end.
        pub licences: u32,
        /// Which units may take the conference.
        pub wishes: Box<Wishes>,
        /// Whether the conference has waited for its zone and host for so long that it may go elsewhere.
        pub elsewhere: bool,
        /// Id of the creation, by which a repeated request is recognised.
        pub request: Option<Bytes>,
        /// The call by which the conference has its number, if any.
        pub called_from: Option<Box<CalledFrom>>,
        /// Why the conference is in its state.
        pub cause: Cause,
        /// Assignments, oldest first: epochs increase. None before a scheduled conference has its first unit, at most
        /// [`MAX_HISTORY`].
        pub history: Vec<Assignment>,
        /// Details, in the order of their fields. At most [`MAX_DETAILS`].
        pub details: Vec<Detail>,
    } computed {
        /// The unit that owns the conference; `None` in the states pending and ended.
        pub owner: Option<u32>,
        /// Epoch of the latest assignment; before the first, of the creation.
        pub epoch: Epoch,
        /// The epoch at which the copy of the owner was first created.
        pub copy_epoch: Epoch,
    } checked by Conference::is_sound;
}

/// The kinds of deadlines of a conference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::conf) enum Due {
    Start,
    EndTime,
    EndNear,
    Create,
    Wait,
    Window,
    ZoneFall,
    Move,
    Release,
    Tombstone,
}

impl Conference {
    /// Checks the fields that agree with each other in every state. `Realm::check_conference` checks the others.
    fn is_sound(&self) -> Result<(), Damaged> {
        ensure(self.end.is_none_or(|end| end <= MAX_TIME), "an end time is out of range")?;
        let in_time = |start: Millis| self.end.is_some_and(|end| start < end);
        ensure(self.start.is_none_or(in_time), "a conference that was scheduled ends before its start")?;
        let may_be_near = self.end.is_some() && self.last_update > 0;
        ensure(may_be_near || !self.end_is_near, "the end of a conference is near that has none")?;
        ensure((1..=MAX_ROOM).contains(&self.size.into()), "a size is out of range")?;
        ensure(i64::from(self.licences) <= MAX_ROOM, "a number of licences is out of range")?;
        let tried: BTreeSet<&Name> = self.tried.iter().collect();
        ensure(tried.len() == self.tried.len() && tried.len() <= MAX_TRIED, "a unit was tried twice")?;
        let may_be_empty = self.start.is_some();
        ensure(may_be_empty || !self.history.is_empty(), "a conference has no assignment")?;
        ensure(self.history.len() <= MAX_HISTORY, "a history is too long")?;
        let rises = self.history.is_sorted_by(|entry, next| entry.epoch < next.epoch);
        let began = self.history.iter().all(|entry| entry.copy_epoch >= self.origin_epoch);
        ensure(rises && began, "the epochs of a history are not in order")?;
        let mut earlier = self.history.iter().rev().skip(1);
        ensure(earlier.all(|entry| entry.ended.is_some()), "an assignment goes on beside a later one")?;
        ensure(self.details.len() <= MAX_DETAILS, "a conference has too many details")?;
        let rises = self.details.is_sorted_by(|detail, next| detail.field < next.field);
        ensure(rises, "the details are not in order")?;
        ensure(self.details.iter().all(|detail| detail.value.0.len() <= MAX_VALUE), "a detail is too long")
    }

    /// All deadlines. If several have passed, the first in the list applies first. They depend on the settings of
    /// `State::times`.
    fn deadlines(&self, settings: &Settings) -> [Option<(Due, Millis)>; 3] {
        let since = |length: Millis| self.since.saturating_add(length);
        if self.state == State::Ended {
            return [Some((Due::Tombstone, since(settings.tombstone))), None, None];
        }
        // The unit was told to end the conference; no other deadline applies any more.
        if let Some(ending) = self.ending {
            return [Some((Due::Release, ending.saturating_add(settings.release_timeout))), None, None];
        }
        let own = match self.state {
            State::Creating => Some((Due::Create, since(settings.create_timeout))),
            State::Waiting => Some((Due::Wait, since(settings.wait_timeout))),
            State::Pending => {
                self.pending_since.map(|since| (Due::Window, since.saturating_add(settings.window)))
            }
            State::Open if settings.warn > 0 && !self.end_is_near => {
                self.end.map(|end| (Due::EndNear, end.saturating_sub(settings.warn)))
            }
            State::Scheduled => self.start.map(|start| (Due::Start, start)),
            State::Open | State::Ended => None,
        };
        let moving = |moving: &Moving| (Due::Move, moving.since.saturating_add(settings.create_timeout));
        let other = match self.state {
            State::Pending => self.zone_falls_at().map(|at| (Due::ZoneFall, at)),
            State::Waiting | State::Creating | State::Open | State::Ended | State::Scheduled => {
                self.moving.as_ref().map(moving)
            }
        };
        [self.end.map(|end| (Due::EndTime, end)), own, other]
    }

    /// When the conference may go elsewhere, if it is pending then.
    pub(in crate::conf) fn zone_falls_at(&self) -> Option<Millis> {
        let is_bound = !self.elsewhere && (self.wishes.zone.is_some() || self.wishes.host.is_some());
        Some(self.pending_since.filter(|_| is_bound)?.saturating_add(self.wishes.zone_fall?))
    }

    /// What a unit must have to take the conference.
    pub(in crate::conf) fn need(&self) -> Need<'_> {
        Need { elsewhere: self.elsewhere, size: self.size, wishes: &self.wishes }
    }

    /// The earliest deadline.
    pub(in crate::conf) fn next_due(&self, settings: &Settings) -> Option<Millis> {
        self.deadlines(settings).into_iter().flatten().map(|(_, due)| due).min()
    }

    /// The first deadline that has passed by `now`.
    pub(in crate::conf) fn due(&self, settings: &Settings, now: Millis) -> Option<Due> {
        self.deadlines(settings).into_iter().flatten().find(|&(_, due)| due <= now).map(|(due, _)| due)
    }

    /// Whether the conference has not ended.
    pub fn is_live(&self) -> bool {
        self.state != State::Ended
    }

    /// Whether the conference takes its licences now: from its start until its end.
    pub(in crate::conf) fn takes_licences(&self) -> bool {
        !matches!(self.state, State::Ended | State::Scheduled)
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
        self.moving.as_ref().is_some_and(|moving| Some(moving.to) == unit && moving.epoch == epoch)
    }

    /// The last assignment that was open and ended as lost.
    pub fn last_lost(&self) -> Option<&Assignment> {
        self.history.iter().rev().find(|entry| entry.opened.is_some() && entry.ended_as_lost())
    }

    /// Lost assignments whose units can still end the conference when people end it there: those after which no other
    /// copy was open. An assignment that was never acknowledged is among them, because the unit may have been lost
    /// before its `CONF.ACK` arrived; and so are the earlier ones of the last copy that was open, because the unit may
    /// have been lost before it read the `EPOCH` of the adoption.
    pub fn last_copies(&self) -> impl Iterator<Item = &Assignment> {
        let open = self.history.iter().rposition(|entry| entry.opened.is_some());
        let copy = open.and_then(|at| self.history.get(at)).map(|entry| entry.copy_epoch);
        let all = self.history.iter().enumerate();
        let last = all.filter(move |(at, entry)| Some(*at) >= open || Some(entry.copy_epoch) == copy);
        last.map(|(_, entry)| entry).filter(|entry| entry.is_lost())
    }

    /// Whether an assignment of this epoch, which is not on record, is later than all copies that were open.
    pub fn may_have_lost(&self, epoch: Epoch) -> bool {
        let is_known = self.history.iter().any(|entry| entry.epoch == epoch);
        let opened = self.history.iter().filter(|entry| entry.opened.is_some());
        !is_known && epoch > opened.map(|entry| entry.copy_epoch).max().unwrap_or(self.origin_epoch)
    }

    /// When the last open assignment ended, if its unit was lost.
    pub(in crate::conf) fn last_served(&self) -> Option<Millis> {
        let latest = self.history.iter().rev().find(|entry| entry.opened.is_some())?;
        latest.ended.filter(|_| latest.ended_as_lost()).map(|ending| ending.at)
    }

    /// The assignment of that unit and epoch, if it is known.
    pub fn assignment(&self, cmu: &[u8], epoch: Epoch) -> Option<&Assignment> {
        self.history.iter().rev().find(|entry| entry.epoch == epoch && *entry.cmu == *cmu)
    }

    /// The unit of the latest assignment. A conference that was scheduled has none before the first.
    pub fn last_unit(&self) -> Option<&Name> {
        self.history.last().map(|entry| &entry.cmu)
    }

    /// Changes what the units of the conference are told: this is the change of that number.
    pub(in crate::conf) fn updates(&mut self, number: Epoch, change: impl FnOnce(&mut Self)) {
        (self.last_update, self.end_is_near) = (number, false);
        change(self);
    }

    /// Appends an assignment and makes it the current one.
    fn assign(&mut self, entry: Assignment) {
        (self.epoch, self.copy_epoch) = (entry.epoch, entry.copy_epoch);
        // The unit of a new copy is told again that the end is near.
        self.end_is_near &= self.last_update > entry.copy_epoch;
        self.make_room();
        self.history.push(entry);
    }

    /// Puts an assignment that ended, and was not on record, into its place in the history.
    pub(in crate::conf) fn remembers(&mut self, lost: Assignment) {
        self.make_room();
        let at = self.history.partition_point(|entry| entry.epoch < lost.epoch);
        self.history.insert(at, lost);
    }

    /// Drops an assignment of a full history.
    fn make_room(&mut self) {
        if self.history.len() >= MAX_HISTORY {
            // Failed tries are dropped first. The last loss is never dropped: adoption and the time of the end depend
            // on it.
            let kept = self.last_lost().map(|entry| entry.epoch);
            let failed =
                |entry: &Assignment| entry.ended.is_some_and(|ending| ending.how == AssignmentEnd::Failed);
            let oldest = |entry: &Assignment| Some(entry.epoch) != kept;
            let at = self.history.iter().position(failed).or_else(|| self.history.iter().position(oldest));
            self.history.remove(at.expected("a full history has an entry that may be dropped").unwrap_or(0));
        }
    }

    /// Ends the current assignment, if there is one: a conference that is pending or scheduled has none.
    pub(in crate::conf) fn close(&mut self, at: Millis, how: AssignmentEnd) {
        if let Some(entry) = self.history.last_mut() {
            entry.ended.get_or_insert(Ending { at, how });
        }
    }

    /// Ends the owner's assignment as lost.
    fn close_lost(&mut self, at: Millis, cause: Cause) {
        self.close(at, AssignmentEnd::Lost);
        // The unit has no copy any more: it was told RELEASE, or its program failed.
        if matches!(cause, Cause::Released | Cause::Failed)
            && let Some(entry) = self.history.last_mut()
        {
            entry.disowned = true;
        }
    }

    /// Notes that the unit of a lost assignment was told to end its copy.
    pub(in crate::conf) fn disown(&mut self, cmu: &[u8], epoch: Epoch) {
        let Some(copy) = self.assignment(cmu, epoch).map(|entry| entry.copy_epoch) else { return };
        for entry in self.history.iter_mut().filter(|entry| entry.copy_epoch == copy) {
            entry.disowned |= entry.ended_as_lost();
        }
    }

    /// Begins a new assignment: the unit must create the conference.
    pub(in crate::conf) fn grants(&mut self, unit: u32, entry: Assignment, since: Millis) {
        self.state = State::Creating;
        self.owner = Some(unit);
        self.since = since;
        self.next_retry = None;
        self.recovering = true;
        self.cause = Cause::Recovery;
        // The details of the last unit are no longer valid; the new unit sends all details again.
        self.details = Vec::new();
        self.assign(entry);
    }

    /// The start has come: the unit must create the conference.
    pub(in crate::conf) fn starts(&mut self, at: Millis, unit: u32, entry: Assignment) {
        (self.state, self.owner, self.since) = (State::Creating, Some(unit), at);
        self.assign(entry);
    }

    /// The start has come, and the conference waits for a unit that has room.
    pub(in crate::conf) fn is_delayed(&mut self, at: Millis) {
        self.waits_for_recovery(at, at, at, self.cause);
    }

    /// Records that the owner has the conference open.
    pub(in crate::conf) fn opens(&mut self, at: Millis) {
        self.state = State::Open;
        self.since = at;
        self.opened.get_or_insert(at);
        if let Some(entry) = self.history.last_mut().expected("a conference has an assignment") {
            entry.opened.get_or_insert(at);
        }
        (self.recovering, self.attempts, self.pending_since, self.out_since) = (false, 0, None, None);
        (self.tried, self.elsewhere) = (Vec::new(), false);
    }

    /// Records that the unit could not create the conference.
    pub(in crate::conf) fn fails(&mut self, at: Millis, next_retry: Millis, cause: Cause) {
        self.notes_failed_try(at);
        self.waits_for_recovery(at, at, next_retry, cause);
    }

    /// Records that the unit could not create the new conference, and that another unit is to create it.
    pub(in crate::conf) fn retries(&mut self, at: Millis, unit: u32, entry: Assignment, cause: Cause) {
        self.notes_failed_try(at);
        (self.owner, self.since, self.cause) = (Some(unit), at, cause);
        self.details = Vec::new();
        self.assign(entry);
    }

    fn notes_failed_try(&mut self, at: Millis) {
        self.close(at, AssignmentEnd::Failed);
        let unit = self.last_unit().cloned();
        self.tried.extend(unit.filter(|unit| !self.tried.contains(unit)));
    }

    /// Records that the unit is lost, of which the last sign of life came at `heard`; the conference waits for recovery.
    pub(in crate::conf) fn loses(&mut self, at: Millis, heard: Millis, cause: Cause) {
        self.close_lost(at, cause);
        self.waits_for_recovery(at, heard, at, cause);
    }

    /// Records that the program of the conference failed on the unit; the conference waits for recovery on another.
    pub(in crate::conf) fn fails_on_its_unit(&mut self, at: Millis, next_retry: Millis) {
        self.close_lost(at, Cause::Failed);
        self.tried.extend(self.last_unit().cloned());
        self.waits_for_recovery(at, at, next_retry, Cause::Failed);
    }

    /// Records that the unit is lost, and that the target of the move takes over.
    pub(in crate::conf) fn goes_on(&mut self, at: Millis, heard: Millis, moving: &Moving, cause: Cause) {
        self.close_lost(at, cause);
        self.moving = None;
        self.pending_since.get_or_insert(at);
        self.out_since.get_or_insert(heard);
        self.grants(moving.to, moving.assignment(), moving.since);
        self.cause = cause;
    }

    /// Records that the units that have the conference were told to end it.
    pub(in crate::conf) fn is_to_end(&mut self, at: Millis, cause: Cause) {
        self.moving = None;
        (self.ending, self.cause) = (Some(at), cause);
    }

    fn waits_for_recovery(&mut self, at: Millis, heard: Millis, next_retry: Millis, cause: Cause) {
        self.state = State::Pending;
        self.owner = None;
        self.since = at;
        self.recovering = true;
        self.pending_since.get_or_insert(at);
        if !self.has_yet_to_begin() {
            self.out_since.get_or_insert(heard);
        }
        self.next_retry = Some(next_retry);
        self.cause = cause;
    }

    pub(in crate::conf) fn ends(&mut self, at: Millis, cause: Cause) {
        // A conference that was lost and not recovered ended when its last open assignment ended, not after the
        // failed tries.
        let served = self.last_served();
        let unopened = self.history.last().is_some_and(|entry| entry.opened.is_none());
        let failed = unopened && (self.opened.is_some() || self.ending.is_none());
        self.close(at, if failed { AssignmentEnd::Failed } else { AssignmentEnd::Ended });
        self.ended = Some(served.unwrap_or(at));
        self.state = State::Ended;
        self.since = at;
        (self.owner, self.moving, self.ending, self.next_retry) = (None, None, None, None);
        (self.recovering, self.tried, self.elsewhere) = (false, Vec::new(), false);
        self.cause = cause;
    }

    /// Whether it was scheduled and was never open: nobody was in it, so nobody is out.
    pub(in crate::conf) fn has_yet_to_begin(&self) -> bool {
        self.start.is_some() && self.opened.is_none()
    }

    /// The order of scheduled conferences whose starts have come.
    pub(in crate::conf) fn turn_to_start(&self) -> Option<(Millis, Reverse<i32>, Epoch)> {
        let start = self.start.filter(|_| self.state == State::Scheduled)?;
        Some((start, Reverse(self.priority), self.origin_epoch))
    }

    /// Whether room is reserved for it: it is scheduled, or its start has come and it still waits for its first unit.
    pub(in crate::conf) fn is_booked(&self) -> bool {
        match self.state {
            State::Scheduled => true,
            State::Pending => self.has_yet_to_begin(),
            State::Waiting | State::Creating | State::Open | State::Ended => false,
        }
    }

    /// Whether it waits for another unit if it loses its unit, instead of ending.
    pub(in crate::conf) fn may_wait(&self) -> bool {
        (self.recoverable || self.has_yet_to_begin()) && self.ending.is_none()
    }

    /// Where a field is among the details, or would be.
    pub(in crate::conf) fn place_of(&self, field: &[u8]) -> Result<usize, usize> {
        self.details.binary_search_by(|detail| detail.field[..].cmp(field))
    }

    /// Bytes allocated for the fields of the conference.
    pub(in crate::conf) fn allocated(&self) -> usize {
        self.e164.allocated()
            + self.request.as_ref().map_or(0, Bytes::allocated)
            + self
                .called_from
                .as_ref()
                .map_or(0, |from| size_of::<CalledFrom>() + from.pool.allocated() + from.lease.allocated())
            + size_of::<Wishes>()
            + (self.wishes.require.capacity() + self.wishes.prefer.capacity()) * size_of::<Name>()
            + self.tried.capacity() * size_of::<Name>()
            + self.history.capacity() * size_of::<Assignment>()
            + self.details.capacity() * size_of::<Detail>()
            + self
                .details
                .iter()
                .map(|detail| detail.field.allocated() + detail.value.0.allocated())
                .sum::<usize>()
    }
}
