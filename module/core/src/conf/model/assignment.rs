//! One assignment of a conference to a unit, and a move that is to become one.

use super::epoch::Epoch;
use super::unit::Name;
use crate::shared::Millis;
use crate::shared::codec::{Damaged, ensure};
use crate::{fields, words};

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

fields! {
    /// When and how an assignment ended.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Ending {
        /// When.
        pub at: Millis,
        /// How.
        pub how: AssignmentEnd,
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
        /// `None` if this is the owner's assignment.
        pub ended: Option<Ending>,
        /// Whether the unit was told RELEASE for this copy after it had lost the assignment, or has no copy any more.
        /// Such a copy is never adopted, and its end does not count as an end by people.
        pub disowned: bool,
    } checked by Assignment::is_sound;

    /// A move in progress.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Moving {
        /// Identity of the target unit.
        pub cmu: Name,
        /// The epoch of the conference on the target unit.
        pub epoch: Epoch,
        /// When the move began.
        pub since: Millis,
    } computed {
        /// Number of the target unit.
        pub to: u32,
    }
}

impl Moving {
    /// The assignment of the conference to the target unit.
    pub(in crate::conf) fn assignment(&self) -> Assignment {
        Assignment::new(self.cmu.clone(), self.epoch, self.since)
    }
}

impl Assignment {
    /// An assignment of a new copy.
    pub(in crate::conf) fn new(cmu: Name, epoch: Epoch, from: Millis) -> Self {
        Self { epoch, copy_epoch: epoch, cmu, from, opened: None, ended: None, disowned: false }
    }

    fn is_sound(&self) -> Result<(), Damaged> {
        ensure(self.copy_epoch <= self.epoch, "the epoch of a copy is after that of its assignment")?;
        ensure(!self.disowned || self.ended_as_lost(), "a unit was told to end a copy that it did not lose")
    }

    pub(super) fn ended_as_lost(&self) -> bool {
        self.ended.is_some_and(|ending| ending.how == AssignmentEnd::Lost)
    }

    /// Whether the unit may still run a copy that is the conference's own: the assignment was lost, and the unit was not
    /// told to end the copy.
    pub fn is_lost(&self) -> bool {
        self.ended_as_lost() && !self.disowned
    }

    /// Whether a copy of this assignment may take its conference back: it was open, and it is lost.
    pub fn may_come_back(&self) -> bool {
        self.opened.is_some() && self.is_lost()
    }
}
