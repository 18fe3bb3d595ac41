//! The error of all operations on tasks.

use std::fmt;

use allot_coordination::{Error, Retry, Retryable};

/// The reason that an operation on a task failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// ZooKeeper failed, or another process made a change first.
    Tree(Error),
    /// A node's data are not valid.
    Corrupt(String),
    /// The request itself is wrong: no state of the tasks would make it right.
    Wrong(String),
    /// There is no such task, compaction node or processing cluster.
    Absent(String),
    /// The operation is refused, for a reason that people understand. Repeating it does not help.
    Refused(String),
    /// The operation is refused as things stand now, for a reason that people understand. Later it may succeed.
    Busy(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tree(error) => error.fmt(f),
            Self::Corrupt(why)
            | Self::Wrong(why)
            | Self::Absent(why)
            | Self::Refused(why)
            | Self::Busy(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Fault {}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Tree(error)
    }
}

impl Retryable for Fault {
    fn retry(&self) -> Retry {
        match self {
            Self::Tree(error) => error.retry(),
            Self::Corrupt(_) | Self::Wrong(_) | Self::Refused(_) => Retry::Refused,
            Self::Absent(_) | Self::Busy(_) => Retry::Later,
        }
    }
}
