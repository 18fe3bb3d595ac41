//! What can go wrong between us and the coordination service, sorted by what a caller can do about it.

use std::fmt;

/// Why a request to the tree did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// There is no connected session now; nothing was sent.
    Offline,
    /// The coordinator was closed; nothing was sent, and nothing will be.
    Closed,
    /// Too many calls are in flight and none ended in time; nothing was sent.
    Busy,
    /// Larger than the service takes without cutting the connection; nothing was sent.
    TooLarge {
        /// What is too large.
        what: String,
        /// Its size in bytes, as it is counted.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The node does not exist.
    NoNode(String),
    /// The node exists already.
    Exists(String),
    /// The node has another version than the caller thought.
    BadVersion(String),
    /// The node has children.
    NotEmpty(String),
    /// We do not lead, or no longer: nothing was written.
    NotLeading,
    /// The service refused for another reason and changed nothing.
    Refused {
        /// What was asked.
        what: String,
        /// What it said.
        why: String,
    },
    /// The answer was lost, the node was read back, and what was asked for is not there: it was not carried
    /// out, or somebody has undone it since.
    NotApplied(String),
    /// No answer came; of a write: it could not be read back in time, so whether it was carried out is unknown.
    Unanswered(String),
}

impl Error {
    /// Whether the same question may be answered later, when the session is back.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Offline | Self::Busy | Self::Unanswered(_) | Self::NotApplied(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offline => f.write_str("not connected to the coordination service"),
            Self::Closed => f.write_str("the coordinator is closed"),
            Self::Busy => f.write_str("too many calls to the coordination service are in flight"),
            Self::TooLarge { what, size, limit } => {
                write!(f, "{what} takes {size} bytes; the limit is {limit}")
            }
            Self::NoNode(path) => write!(f, "{path} does not exist"),
            Self::Exists(path) => write!(f, "{path} exists already"),
            Self::BadVersion(path) => write!(f, "{path} has been changed by another"),
            Self::NotEmpty(path) => write!(f, "{path} has children"),
            Self::NotLeading => f.write_str("this process does not lead, or no longer"),
            Self::Refused { what, why } => write!(f, "{what} was refused: {why}"),
            Self::NotApplied(what) => write!(f, "{what} lost its answer and was not carried out"),
            Self::Unanswered(what) => write!(f, "no answer to {what}"),
        }
    }
}

impl std::error::Error for Error {}
