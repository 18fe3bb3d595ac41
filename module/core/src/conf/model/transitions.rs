//! The table of transitions: what each event means for a conference in each state, row by row and cell by cell as
//! in docs/conferences.md. Everything that decides asks here first.
//!
//! Two rules apply before the table, and `effective` keeps them: while a conference is ending, every `Pending`,
//! `Missed`, `Waiting` and `Adopt` is `Ended`; where it may not be recovered, every `Pending` and `Missed` is `Ended`.

use super::conference::{Conference, State};

/// What happens to a conference: a row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trigger {
    /// The manager creates it.
    Create,
    /// Its owner, at its epoch, says that it is open.
    Ack,
    /// Anybody else says so.
    StaleAck,
    /// Its owner, at its epoch, cannot create it, or said nothing in time.
    Nack,
    /// Its unit is down or replaced.
    Lost,
    /// The report of its owner has it, at its epoch.
    Has,
    /// The report of its owner has it at an older epoch of the same copy.
    HasOlder,
    /// A report has it in any other way.
    HasOther,
    /// The report of its owner lacks it, and was made before the unit had heard of it.
    LacksUnheard,
    /// Its owner no longer has it, and people did not end it: the owner's report lacks it, or the owner gave it up when
    /// it was told RELEASE.
    Lacks,
    /// Its owner says that people ended it.
    EndedByUnit,
    /// The unit that was the last to have it open, and lost it, says that people ended it.
    EndedByLastUnit,
    /// Its time for recovery has come, there is room, and the scheduler recovers.
    Recover,
    /// Its end time is there.
    EndTime,
    /// It has been waiting for recovery as long as it may.
    Window,
    /// The manager ends it.
    Release,
    /// A new scheduler took over and its unit is alive, or its lease is good.
    RestartAlive,
    /// A new scheduler took over and its unit is neither.
    RestartGone,
    /// It has been waiting for its unit's word as long as it may.
    WaitTimeout,
}

/// What comes of it: a cell of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transition {
    /// Cannot be, or says nothing: `–`.
    Nothing,
    /// No change.
    Stays,
    /// The sender is behind: it is told so.
    Stale,
    /// There is one already.
    Exists,
    /// The sender is told to end its copy.
    ReleaseSender,
    /// The sender is told its newer epoch again.
    EpochAgain,
    /// The sender becomes the owner again, if that is allowed; else it is told to end its copy.
    Adopt,
    /// A first creation: `Ended`. A recovery: `Pending`, and the next unit.
    Failed,
    /// A first creation: `Pending`. A recovery: `Pending`, and the next unit.
    Missed,
    /// Its unit is asked again while its lease is good; else `Pending`.
    AskAgain,
    /// -> creating.
    Creating,
    /// -> open.
    Open,
    /// -> waiting.
    Waiting,
    /// -> pending.
    Pending,
    /// Its end is asked for: `ending`, and RELEASE to its unit.
    Ending,
    /// -> ended.
    Ended,
}

#[allow(clippy::match_same_arms, reason = "a row for each event, as in the specification")]
/// The table. The columns are: none or ended, waiting, creating, open, pending.
const fn row(row: Trigger) -> [Transition; 5] {
    use Transition::{
        Adopt, AskAgain, Creating, Ended, Ending, EpochAgain, Exists, Failed, Missed, Nothing, Open, Pending,
        ReleaseSender, Stale, Stays, Waiting,
    };
    #[rustfmt::skip]
    let cells = match row {
        //                   none/ended     waiting        creating       open           pending
        Trigger::Create       => [Creating,      Exists,        Exists,        Exists,        Exists],
        Trigger::Ack          => [Nothing,       Open,          Open,          Stays,         Nothing],
        Trigger::StaleAck     => [ReleaseSender, ReleaseSender, ReleaseSender, ReleaseSender, ReleaseSender],
        Trigger::Nack         => [Nothing,       Failed,        Failed,        Stale,         Stale],
        Trigger::Lost         => [Nothing,       Pending,       Pending,       Pending,       Stays],
        Trigger::Has          => [Nothing,       Open,          Open,          Stays,         Nothing],
        Trigger::HasOlder     => [Nothing,       EpochAgain,    EpochAgain,    EpochAgain,    Nothing],
        Trigger::HasOther     => [ReleaseSender, Adopt,         Adopt,         Adopt,         Adopt],
        Trigger::LacksUnheard => [Nothing,       Stays,         Stays,         Stays,         Nothing],
        Trigger::Lacks        => [Nothing,       Pending,       Missed,        Pending,       Stays],
        Trigger::EndedByUnit  => [Nothing,       Ended,         Ended,         Ended,         Nothing],
        Trigger::EndedByLastUnit => [Nothing,    Stale,         Ended,         Stale,         Ended],
        Trigger::Recover      => [Nothing,       Nothing,       Nothing,       Nothing,       Creating],
        Trigger::EndTime      => [Nothing,       Ending,        Ending,        Ending,        Ended],
        Trigger::Window       => [Nothing,       Nothing,       Nothing,       Nothing,       Ended],
        Trigger::Release      => [Stays,         Ending,        Ending,        Ending,        Ended],
        Trigger::RestartAlive => [Nothing,       Stays,         Stays,         Waiting,       Nothing],
        Trigger::RestartGone  => [Nothing,       Pending,       Pending,       Pending,       Stays],
        Trigger::WaitTimeout  => [Nothing,       AskAgain,      Nothing,       Nothing,       Nothing],
    };
    cells
}

/// What an event means for a conference in that state; `None` stands for no conference.
pub const fn transition(event: Trigger, state: Option<State>) -> Transition {
    let [none, waiting, creating, open, pending] = row(event);
    match state {
        None | Some(State::Ended) => none,
        Some(State::Waiting) => waiting,
        Some(State::Creating) => creating,
        Some(State::Open) => open,
        Some(State::Pending) => pending,
    }
}

/// A transition of the table under the two rules that apply before it.
pub(in crate::conf) fn effective(conference: &Conference, transition: Transition) -> Transition {
    match transition {
        Transition::Pending | Transition::Missed if !conference.recoverable => Transition::Ended,
        Transition::Pending | Transition::Missed | Transition::Waiting | Transition::Adopt
            if conference.ending.is_some() =>
        {
            Transition::Ended
        }
        transition => transition,
    }
}
