//! Errors of the coordination service, distinguished by what a caller can do about them.

use std::fmt;

/// The reason that a request to the tree failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// No session is connected now; nothing was sent.
    Offline,
    /// No session could be opened, for this reason; nothing was sent.
    NoSession(String),
    /// The coordinator was closed; nothing was sent, and nothing will be sent.
    Closed,
    /// Too many calls are in flight, and none completed in time; nothing was sent.
    Busy,
    /// The request is larger than the service accepts without closing the connection; nothing was sent.
    TooLarge {
        /// The part of the request that is too large.
        what: String,
        /// Size of that part in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The node does not exist.
    NoNode(String),
    /// The node exists already.
    Exists(String),
    /// The node does not have the expected version.
    BadVersion(String),
    /// The node has children.
    NotEmpty(String),
    /// This process does not lead (any more); nothing was written.
    NotLeading,
    /// The service refused for another reason and changed nothing.
    Refused {
        /// The request.
        what: String,
        /// The reason that the service gave.
        why: String,
    },
    /// The answer was lost, and the node that was read back shows no effect of the request: the request was not carried
    /// out, or its effect was undone since.
    NotApplied(String),
    /// No answer came. A write could not be read back in time either: whether it was carried out is unknown.
    Unanswered(String),
}

/// What a caller can do after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Repeat the request after a pause: the service did not answer.
    Pause,
    /// Read again first: another client made a change.
    Reread,
    /// Repeat the request after something else has changed: as things stand now, it cannot succeed.
    Later,
    /// Wait for a person: permissions, data or settings have to change before the request can succeed.
    Refused,
    /// Stop: the coordinator is closed, or this process no longer leads.
    Over,
}

/// An error that says what a caller can do.
pub trait Retryable: fmt::Display {
    /// What a caller can do after this error.
    fn retry(&self) -> Retry;
}

impl Retryable for Error {
    fn retry(&self) -> Retry {
        match self {
            Self::Offline | Self::NoSession(_) | Self::Busy | Self::Unanswered(_) | Self::NotApplied(_) => {
                Retry::Pause
            }
            Self::NoNode(_) | Self::Exists(_) | Self::BadVersion(_) | Self::NotEmpty(_) => Retry::Reread,
            Self::Refused { .. } | Self::TooLarge { .. } => Retry::Refused,
            Self::NotLeading | Self::Closed => Retry::Over,
        }
    }
}

impl Error {
    /// Whether the same request may succeed later, without any change, when the session is back.
    pub fn is_transient(&self) -> bool {
        self.retry() == Retry::Pause
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offline => f.write_str("not connected to the coordination service"),
            Self::NoSession(why) => f.write_str(why),
            Self::Closed => f.write_str("the coordinator is closed"),
            Self::Busy => f.write_str("too many calls to the coordination service are in flight"),
            Self::TooLarge { what, size, limit } => {
                write!(f, "{what} takes {size} bytes; the limit is {limit}")
            }
            Self::NoNode(path) => write!(f, "{path} does not exist"),
            Self::Exists(path) => write!(f, "{path} exists already"),
            Self::BadVersion(path) => write!(f, "{path} was changed by another client; read it again"),
            Self::NotEmpty(path) => write!(f, "{path} has children"),
            Self::NotLeading => f.write_str("this process does not lead (any more)"),
            Self::Refused { what, why } => write!(f, "{what} was refused: {why}"),
            Self::NotApplied(what) => {
                write!(f, "{what}: the answer was lost, and the request was not carried out")
            }
            Self::Unanswered(what) => write!(f, "no answer to {what}"),
        }
    }
}

impl std::error::Error for Error {}
