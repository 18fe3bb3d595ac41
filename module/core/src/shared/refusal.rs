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

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code.word(), self.text)
    }
}

impl std::error::Error for Refusal {}
