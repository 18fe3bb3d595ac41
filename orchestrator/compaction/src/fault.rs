//! The error of all operations on tasks.

use std::fmt;

use allot_coordination::Error;

/// The reason that an operation on a task failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// ZooKeeper failed, or another process made a change first.
    Tree(Error),
    /// A node's data are not valid.
    Odd(String),
    /// The operation is refused, for a reason that people understand. Repeating it does not help.
    Refused(String),
    /// The operation is refused as things stand now, for a reason that people understand. Later it may succeed.
    Busy(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tree(error) => error.fmt(f),
            Self::Odd(why) | Self::Refused(why) | Self::Busy(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Fault {}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Tree(error)
    }
}

impl Fault {
    /// Whether another process made a change first: read again.
    pub fn is_race(&self) -> bool {
        use Error::{BadVersion, Exists, NoNode, NotEmpty};
        matches!(self, Self::Tree(BadVersion(_) | NoNode(_) | Exists(_) | NotEmpty(_)))
    }

    /// Whether the error concerns the node that was read, and no other.
    pub fn is_node_specific(&self) -> bool {
        matches!(self, Self::Odd(_) | Self::Tree(Error::Refused { .. }))
    }

    /// Whether the same command may succeed later, without any change.
    pub fn may_pass_later(&self) -> bool {
        matches!(self, Self::Busy(_)) || self.is_passing()
    }

    /// Whether a retry may succeed soon.
    pub fn is_passing(&self) -> bool {
        self.is_race() || matches!(self, Self::Tree(error) if error.is_transient())
    }
}
