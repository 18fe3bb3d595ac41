//! The state machine of a number as a table: five states, six events, thirty cells ("The model" in docs/numbers.md).

use crate::words;
use State::{BusyDown, BusyUp, IdleDown, IdleUp, NoData};

words! {
    /// The state of a number. The values are part of the encoding and never change.
    #[derive(Default, Hash)]
    pub enum State {
        /// It is not in the pool.
        #[default]
        NoData = 0 => "nodata",
        /// Registered and free: it can be called, once it has cooled down.
        IdleUp = 1 => "idle+up",
        /// Free, and not registered.
        IdleDown = 2 => "idle+down",
        /// Registered, and carries a call.
        BusyUp = 3 => "busy+up",
        /// Carries a call, and is not registered any more.
        BusyDown = 4 => "busy+down",
    }
}

impl State {
    /// Whether it is registered.
    pub const fn is_up(self) -> bool {
        matches!(self, IdleUp | BusyUp)
    }

    /// Whether it carries a call.
    pub const fn is_busy(self) -> bool {
        matches!(self, BusyUp | BusyDown)
    }
}

/// The events of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// It is put into the pool.
    Add = 0,
    /// It is taken out of the pool.
    Del = 1,
    /// A switch registered it.
    Reg = 2,
    /// Its registration ended.
    Unreg = 3,
    /// It is given to a caller.
    Call = 4,
    /// Its call ended.
    HangUp = 5,
}

/// What else a transition does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The number joins the queue at its tail, at once or when it has cooled down.
    Join,
    /// The number leaves the queue, if it has cooled down and is there.
    Leave,
    /// The number's lease begins.
    Lease,
    /// The number's lease ends.
    Drop,
    /// The number is forgotten with all that was known of it.
    Forget,
}

/// A cell of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// The number changes to this state, with these actions.
    To(State, &'static [Action]),
    /// Nothing changes, and the request succeeds.
    Same,
    /// Refused: there is no such number.
    NotFound,
    /// Refused: its state does not allow it.
    BadState,
}

use Action::{Drop, Forget, Join, Lease, Leave};
use Cell::{BadState, NotFound, Same, To};

/// The table. Rows are states, columns events.
#[rustfmt::skip]
const TABLE: [[Cell; 6]; 5] = [
    //              ADD                 DEL                          REG                   UNREG                    CALL                         HANGUP
    /* nodata    */ [To(IdleDown, &[]), Same,                        NotFound,             NotFound,                NotFound,                    NotFound],
    /* idle+up   */ [Same,              To(NoData, &[Leave, Forget]), Same,                To(IdleDown, &[Leave]),  To(BusyUp, &[Leave, Lease]), BadState],
    /* idle+down */ [Same,              To(NoData, &[Forget]),       To(IdleUp, &[Join]),  Same,                    BadState,                    BadState],
    /* busy+up   */ [Same,              To(NoData, &[Drop, Forget]), Same,                 To(BusyDown, &[]),       BadState,                    To(IdleUp, &[Drop, Join])],
    /* busy+down */ [Same,              To(NoData, &[Drop, Forget]), To(BusyUp, &[]),      Same,                    BadState,                    To(IdleDown, &[Drop])],
];

/// What an event does to a number in a state.
pub const fn cell(state: State, trigger: Trigger) -> Cell {
    #[allow(clippy::indexing_slicing, reason = "both enums are as long as the table is")]
    TABLE[state as usize][trigger as usize]
}
