//! The table of transitions: what each event means for a conference in each state, row by row and cell by cell as
//! in docs/conferences.md. Everything that decides asks here first.
//!
//! Two rules stand above the table, and [`Realm::outcome`](super::Realm) keeps them: while a conference is ending,
//! every `Pending`, `Waiting` and `Adopt` is `Ended`; where it may not be recovered, every `Pending` is `Ended`.

use super::conference::State;

/// What happens to a conference: a row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Row {
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
    /// The report of its owner lacks it.
    Lacks,
    /// Its owner, at its epoch, says that people ended it.
    EndedByUnit,
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
pub enum Cell {
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
    /// Ended, if the sender is the one who had it last; else stale.
    EndedIfLast,
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
const fn row(row: Row) -> [Cell; 5] {
    use Cell::{
        Adopt, AskAgain, Creating, Ended, EndedIfLast, Ending, EpochAgain, Exists, Failed, Nothing, Open,
        Pending, ReleaseSender, Stale, Stays, Waiting,
    };
    #[rustfmt::skip]
    let cells = match row {
        //                   none/ended     waiting        creating       open           pending
        Row::Create       => [Creating,      Exists,        Exists,        Exists,        Exists],
        Row::Ack          => [Nothing,       Open,          Open,          Stays,         Nothing],
        Row::StaleAck     => [ReleaseSender, ReleaseSender, ReleaseSender, ReleaseSender, ReleaseSender],
        Row::Nack         => [Nothing,       Failed,        Failed,        Stale,         Stale],
        Row::Lost         => [Nothing,       Pending,       Pending,       Pending,       Stays],
        Row::Has          => [Nothing,       Open,          Open,          Stays,         Nothing],
        Row::HasOlder     => [Nothing,       EpochAgain,    EpochAgain,    EpochAgain,    Nothing],
        Row::HasOther     => [ReleaseSender, Adopt,         Adopt,         Adopt,         Adopt],
        Row::LacksUnheard => [Nothing,       Stays,         Stays,         Stays,         Nothing],
        Row::Lacks        => [Nothing,       Ended,         Failed,        Ended,         EndedIfLast],
        Row::EndedByUnit  => [Nothing,       Ended,         Ended,         Ended,         EndedIfLast],
        Row::Recover      => [Nothing,       Nothing,       Nothing,       Nothing,       Creating],
        Row::EndTime      => [Nothing,       Ending,        Ending,        Ending,        Ended],
        Row::Window       => [Nothing,       Nothing,       Nothing,       Nothing,       Ended],
        Row::Release      => [Stays,         Ending,        Ending,        Ending,        Ended],
        Row::RestartAlive => [Nothing,       Stays,         Stays,         Waiting,       Nothing],
        Row::RestartGone  => [Nothing,       Pending,       Pending,       Pending,       Stays],
        Row::WaitTimeout  => [Nothing,       AskAgain,      Nothing,       Nothing,       Nothing],
    };
    cells
}

/// What an event means for a conference in that state; `None` stands for no conference.
pub const fn cell(event: Row, state: Option<State>) -> Cell {
    let [none, waiting, creating, open, pending] = row(event);
    match state {
        None | Some(State::Ended) => none,
        Some(State::Waiting) => waiting,
        Some(State::Creating) => creating,
        Some(State::Open) => open,
        Some(State::Pending) => pending,
    }
}
