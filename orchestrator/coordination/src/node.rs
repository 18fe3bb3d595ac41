//! The vocabulary of the tree: nodes, versions, operations, and how large they may be.

use super::error::Error;

/// Most bytes of one node's data.
pub const NODE_LIMIT: usize = 512 * 1024;
/// Most bytes of one multi, paths and what the wire adds included. ZooKeeper cuts the connection at 1 MiB, and
/// fails all that is in flight on it, so the guard stands far below.
pub const MULTI_LIMIT: usize = 256 * 1024;
/// What the wire adds to an operation, rounded up: headers, lengths, flags and the access list.
const OVERHEAD: usize = 80;

/// How often a node's data was changed; the key of compare-and-set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Version(pub i32);

impl Version {
    /// Of a node that was just created.
    pub const FIRST: Self = Self(0);

    /// After one more change.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

/// How long a node lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Until it is removed.
    Persistent,
    /// As long as the session that made it.
    Ephemeral,
}

/// A node as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// What it holds.
    pub data: Vec<u8>,
    /// How often that was changed.
    pub version: Version,
    /// The session it lives with, if it is ephemeral.
    pub owner: Option<i64>,
    /// The number of the change that created it (ZooKeeper's czxid): grows over the whole tree, so it tells
    /// a node from an earlier one of the same path, and serves as a fencing token.
    pub created: i64,
}

/// One operation of a multi.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// The node exists and, where one is given, has this version.
    Check {
        /// Which node.
        path: String,
        /// The version it must have.
        version: Option<Version>,
    },
    /// Creates a node.
    Create {
        /// Which node.
        path: String,
        /// What it holds.
        data: Vec<u8>,
        /// How long it lives.
        kind: Kind,
    },
    /// Writes a node.
    Set {
        /// Which node.
        path: String,
        /// What it shall hold.
        data: Vec<u8>,
        /// The version it must have.
        version: Version,
    },
    /// Removes a node.
    Delete {
        /// Which node.
        path: String,
        /// The version it must have, if that matters.
        version: Option<Version>,
    },
}

impl Op {
    /// The node it is about.
    pub fn path(&self) -> &str {
        match self {
            Self::Check { path, .. }
            | Self::Create { path, .. }
            | Self::Set { path, .. }
            | Self::Delete { path, .. } => path,
        }
    }

    /// What it takes of [`MULTI_LIMIT`].
    pub fn size(&self) -> usize {
        let data = match self {
            Self::Create { data, .. } | Self::Set { data, .. } => data.len(),
            Self::Check { .. } | Self::Delete { .. } => 0,
        };
        self.path().len() + data + OVERHEAD
    }
}

/// Refuses data that no node may hold.
pub(crate) fn admit_node(path: &str, data: &[u8]) -> Result<(), Error> {
    admit(path, data.len(), NODE_LIMIT)
}

/// Refuses a multi that the service might not take.
pub(crate) fn admit_multi(ops: &[Op]) -> Result<(), Error> {
    admit("the multi", ops.iter().map(Op::size).sum(), MULTI_LIMIT)
}

fn admit(what: &str, size: usize, limit: usize) -> Result<(), Error> {
    if size > limit { Err(Error::TooLarge { what: what.to_owned(), size, limit }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_hold_at_the_last_byte() {
        assert!(admit_node("/n", &vec![0; NODE_LIMIT]).is_ok());
        let over = admit_node("/n", &vec![0; NODE_LIMIT + 1]);
        assert_eq!(over, Err(Error::TooLarge { what: "/n".into(), size: NODE_LIMIT + 1, limit: NODE_LIMIT }));
        let op = |bytes| Op::Set { path: "/n".into(), data: vec![0; bytes], version: Version::FIRST };
        let room = MULTI_LIMIT - op(0).size();
        assert!(admit_multi(&[op(room)]).is_ok());
        assert!(admit_multi(&[op(room + 1)]).is_err());
        let check = Op::Check { path: "/n".into(), version: None };
        assert!(admit_multi(&vec![check.clone(); MULTI_LIMIT / check.size()]).is_ok());
        assert!(admit_multi(&vec![check.clone(); MULTI_LIMIT / check.size() + 1]).is_err());
    }
}
