//! Why a request is refused: a code for programs, a sentence for people.

use crate::words;
use std::fmt;

words! {
    /// The first word of an error reply ("Errors" in docs/commands.md).
    #[derive(Hash)]
    pub enum Code {
        /// The call itself is malformed: syntax, range, limit of the format.
        Err => "ERR",
        /// The key holds another type; the text is Redis' own.
        WrongType => "WRONGTYPE",
        /// The key does not exist and this command does not create it.
        NoKey => "NOKEY",
        /// The object to be created exists already, and differs.
        Exists => "EXISTS",
        /// The named object does not exist.
        NotFound => "NOTFOUND",
        /// The named object exists, but its state does not allow this request.
        BadState => "BADSTATE",
        /// The caller is not, or no longer, the owner or holder.
        NotOwner => "NOTOWNER",
        /// The caller's epoch, sequence number or term is older than the one on record.
        Stale => "STALE",
        /// A limit set by the operator would be broken.
        Limit => "LIMIT",
        /// Enough is free, but not side by side, and the caller required it.
        NoAdjacent => "NOADJACENT",
        /// The named wait is over, and does not begin again.
        Ended => "ENDED",
        /// Deadlines that have passed are still being carried out, and the answer may depend on them. The same request
        /// succeeds or is refused for good a moment later.
        TryAgain => "TRYAGAIN",
    }
}

impl Code {
    /// Whether a refusal may be lifted by deadlines that have passed and are not carried out: something is taken, there
    /// already, or used up. A deadline ends things and makes none, so it lifts no `NOTFOUND`; and it gives nobody a thing
    /// or an epoch of another, so it lifts neither `NOTOWNER` nor `STALE`.
    pub fn may_be_lifted(self) -> bool {
        matches!(self, Self::Exists | Self::BadState | Self::Limit | Self::NoAdjacent | Self::TryAgain)
    }
}

/// A refused request. A refused request has changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// For programs.
    pub code: Code,
    /// For people; printable ASCII or UTF-8 without control characters.
    pub text: String,
}

impl Refusal {
    /// A refusal with its sentence.
    pub fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }
}

/// Returns a refusal from a function whose success has any type.
///
/// # Errors
/// Always.
pub fn refuse<T>(code: Code, text: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::new(code, text))
}

/// The most changes that a refusal counts.
const MOST_COUNTED: usize = 1000;

/// The refusal of a request whose answer depends on changes that are due, as of deadlines that have passed, and are not
/// carried out. `count` counts them up to a limit.
///
/// # Errors
/// Always.
pub fn try_again<T>(count: impl FnOnce(usize) -> usize) -> Result<T, Refusal> {
    let left = match count(MOST_COUNTED + 1) {
        0 | 1 => "a due change is".to_owned(),
        left if left > MOST_COUNTED => format!("more than {MOST_COUNTED} due changes are"),
        left => format!("{left} due changes are"),
    };
    refuse(Code::TryAgain, format!("{left} being carried out: send the request again"))
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code.word(), self.text)
    }
}

impl std::error::Error for Refusal {}
