//! The table of transitions: the effect of each trigger on a conference in each state, as in docs/conferences.md.
//! Every decision looks up this table first.
//!
//! Two rules apply before the table, and `effective` keeps them: while a conference is ending, every `Pending`,
//! `Missed`, `Waiting` and `Adopt` is `Ended`. If it may not be recovered, every `Pending` and `Missed` is `Ended`,
//! unless it was scheduled and was never open.

use super::conference::{Conference, State};

/// The cause of a transition: a row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trigger {
    /// The manager creates the conference.
    Create,
    /// The owner, at the current epoch, says that the conference is open.
    Ack,
    /// Another unit, or the owner at another epoch, says that the conference is open.
    StaleAck,
    /// The owner, at the current epoch, cannot create the conference, or did not answer in time.
    Nack,
    /// The owner has lost its copy: the program of the conference failed again and again.
    Failed,
    /// The owner is down or replaced, or a new scheduler took over and found the owner neither alive nor with a valid
    /// lease.
    Lost,
    /// The owner's report contains the conference, at the current epoch.
    Has,
    /// The owner's report contains the conference, at an older epoch of the same copy.
    HasOlder,
    /// A report contains the conference, at any other epoch or from another unit.
    HasOther,
    /// The owner no longer has the conference, and people did not end it: the owner's report lacks the conference, or
    /// the owner ended its copy because it was told RELEASE.
    Lacks,
    /// The owner says that people ended the conference.
    EndedByUnit,
    /// A unit that lost the conference, and after which no other had it open, says that people ended the conference.
    EndedByLastUnit,
    /// A unit says that people ended the conference, at an epoch that a former master gave out and lost in a failover.
    EndedByUnknownCopy,
    /// The scheduler recovers the conference: the time of its next try has come, and a unit has room.
    Recover,
    /// The start of a scheduled conference has come.
    Start,
    /// The end time has passed.
    EndTime,
    /// The conference has waited for recovery for the whole window.
    Window,
    /// The manager ends the conference.
    Release,
    /// A new scheduler took over; the owner is alive, or its lease has not expired.
    RestartAlive,
    /// The conference has waited for the report of its unit for the whole time-out.
    WaitTimeout,
}

/// The effect: a cell of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transition {
    /// Impossible, or without effect: `–` in the table.
    Nothing,
    /// No change.
    Stays,
    /// The conference exists already.
    Exists,
    /// The sender is told to end its copy.
    ReleaseSender,
    /// The sender is told its current epoch again.
    EpochAgain,
    /// The sender becomes the owner again, if that is allowed; otherwise it is told to end its copy.
    Adopt,
    /// A first creation: `Ended`, or `Pending` if it was scheduled. A recovery: `Pending`, and another unit is tried.
    Failed,
    /// `Pending`. If the assignment was a recovery, the next unit is tried.
    Missed,
    /// If the unit's lease is valid, the unit is asked again. Otherwise: `Pending`.
    AskAgain,
    /// -> creating, or pending if no unit has room.
    Starting,
    /// -> creating.
    Creating,
    /// -> open.
    Open,
    /// -> waiting.
    Waiting,
    /// -> pending.
    Pending,
    /// The conference is `ending`, and RELEASE is sent to its unit.
    Ending,
    /// -> ended.
    Ended,
}

#[allow(clippy::match_same_arms, reason = "a row for each event, as in the specification")]
/// The table. The columns are: none or ended, scheduled, waiting, creating, open, pending.
const fn row(row: Trigger) -> [Transition; 6] {
    use Transition::{
        Adopt, AskAgain, Creating, Ended, Ending, EpochAgain, Exists, Failed, Missed, Nothing, Open, Pending,
        ReleaseSender, Starting, Stays, Waiting,
    };
    #[rustfmt::skip]
    let cells = match row {
        //                   none/ended     scheduled      waiting        creating       open           pending
        Trigger::Create       => [Creating,      Exists,        Exists,        Exists,        Exists,        Exists],
        Trigger::Ack          => [Nothing,       Nothing,       Open,          Open,          Stays,         Nothing],
        Trigger::StaleAck     => [ReleaseSender; 6],
        Trigger::Nack         => [Nothing,       Nothing,       Pending,       Failed,        Nothing,       Nothing],
        Trigger::Failed       => [Nothing,       Nothing,       Pending,       Failed,        Pending,       Nothing],
        Trigger::Lost         => [Nothing,       Nothing,       Pending,       Pending,       Pending,       Stays],
        Trigger::Has          => [Nothing,       Nothing,       Open,          Open,          Stays,         Nothing],
        Trigger::HasOlder     => [Nothing,       Nothing,       EpochAgain,    EpochAgain,    EpochAgain,    Nothing],
        Trigger::HasOther     => [ReleaseSender, Adopt,         Adopt,         Adopt,         Adopt,         Adopt],
        Trigger::Lacks        => [Nothing,       Nothing,       Pending,       Missed,        Pending,       Stays],
        Trigger::EndedByUnit  => [Nothing,       Nothing,       Ended,         Ended,         Ended,         Nothing],
        Trigger::EndedByLastUnit => [Nothing,    Nothing,       Nothing,       Ended,         Nothing,       Ended],
        Trigger::EndedByUnknownCopy => [Nothing, Ended,         Ended,         Ended,         Ended,         Ended],
        Trigger::Recover      => [Nothing,       Nothing,       Nothing,       Nothing,       Nothing,       Creating],
        Trigger::Start        => [Nothing,       Starting,      Nothing,       Nothing,       Nothing,       Nothing],
        Trigger::EndTime      => [Nothing,       Ended,         Ending,        Ending,        Ending,        Ended],
        Trigger::Window       => [Nothing,       Nothing,       Nothing,       Nothing,       Nothing,       Ended],
        Trigger::Release      => [Stays,         Ended,         Ending,        Ending,        Ending,        Ended],
        Trigger::RestartAlive => [Nothing,       Nothing,       Stays,         Stays,         Waiting,       Nothing],
        Trigger::WaitTimeout  => [Nothing,       Nothing,       AskAgain,      Nothing,       Nothing,       Nothing],
    };
    cells
}

/// The cell of the table for a trigger and a state; `None` for a conference that does not exist.
pub const fn transition(event: Trigger, state: Option<State>) -> Transition {
    let [none, scheduled, waiting, creating, open, pending] = row(event);
    match state {
        None | Some(State::Ended) => none,
        Some(State::Scheduled) => scheduled,
        Some(State::Waiting) => waiting,
        Some(State::Creating) => creating,
        Some(State::Open) => open,
        Some(State::Pending) => pending,
    }
}

/// A transition of the table after the two rules that apply before it.
pub(in crate::conf) fn effective(conference: &Conference, transition: Transition) -> Transition {
    match transition {
        Transition::Pending | Transition::Missed if !conference.may_wait() => Transition::Ended,
        Transition::Waiting | Transition::Adopt if conference.ending.is_some() => Transition::Ended,
        transition => transition,
    }
}
