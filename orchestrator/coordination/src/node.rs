//! Nodes, versions and operations of the tree, and their size limits.

use super::error::Error;

/// The most bytes of a node's data.
pub const NODE_LIMIT: usize = 512 * 1024;
/// The most bytes of one multi, including paths and protocol overhead. ZooKeeper closes the connection at 1 MiB, which
/// fails all requests in flight, so the limit is far below.
pub const MULTI_LIMIT: usize = 256 * 1024;
/// Protocol overhead of an operation, rounded up: headers, lengths, flags and the access control list.
const OVERHEAD: usize = 80;

/// The number of changes of a node's data, which compare-and-set compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Version(pub i32);

impl Version {
    /// The version of a new node.
    pub const FIRST: Self = Self(0);

    /// The version after one more change.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

/// The lifetime of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Until the node is deleted.
    Persistent,
    /// As long as the session that created the node.
    Ephemeral,
}

/// A node as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The node's data.
    pub data: Vec<u8>,
    /// The number of changes of the data.
    pub version: Version,
    /// The session that an ephemeral node belongs to.
    pub owner: Option<i64>,
    /// The number of the change that created the node (ZooKeeper's czxid). It increases over the whole tree, so it
    /// distinguishes a node from an earlier node of the same path, and serves as a fencing token.
    pub created: i64,
}

/// One operation of a multi.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Checks that the node exists and, if one is given, has this version.
    Check {
        /// Path of the node.
        path: String,
        /// The version that the node must have.
        version: Option<Version>,
    },
    /// Creates a node.
    Create {
        /// Path of the node.
        path: String,
        /// The node's data.
        data: Vec<u8>,
        /// The lifetime of the node.
        kind: Kind,
    },
    /// Writes a node.
    Set {
        /// Path of the node.
        path: String,
        /// The new data.
        data: Vec<u8>,
        /// The version that the node must have.
        version: Version,
    },
    /// Removes a node.
    Delete {
        /// Path of the node.
        path: String,
        /// The version that the node must have; `None` for any version.
        version: Option<Version>,
    },
}

impl Op {
    /// Path of the node.
    pub fn path(&self) -> &str {
        match self {
            Self::Check { path, .. }
            | Self::Create { path, .. }
            | Self::Set { path, .. }
            | Self::Delete { path, .. } => path,
        }
    }

    /// Bytes that count towards [`MULTI_LIMIT`].
    pub fn size(&self) -> usize {
        let data = match self {
            Self::Create { data, .. } | Self::Set { data, .. } => data.len(),
            Self::Check { .. } | Self::Delete { .. } => 0,
        };
        self.path().len() + data + OVERHEAD
    }
}

/// Refuses data that is too large for a node.
pub(crate) fn admit_node(path: &str, data: &[u8]) -> Result<(), Error> {
    admit(path, data.len(), NODE_LIMIT)
}

/// Refuses a multi that is too large. One operation alone may have as much data as a node.
pub(crate) fn admit_multi(ops: &[Op]) -> Result<(), Error> {
    match ops {
        [_] => Ok(()),
        ops => admit("the multi", ops.iter().map(Op::size).sum(), MULTI_LIMIT),
    }
}

fn admit(what: &str, size: usize, limit: usize) -> Result<(), Error> {
    if size > limit { Err(Error::TooLarge { what: what.to_owned(), size, limit }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_limits_are_exact_to_the_byte() {
        assert!(admit_node("/n", &vec![0; NODE_LIMIT]).is_ok());
        let over = admit_node("/n", &vec![0; NODE_LIMIT + 1]);
        assert_eq!(over, Err(Error::TooLarge { what: "/n".into(), size: NODE_LIMIT + 1, limit: NODE_LIMIT }));
        let op = |bytes| Op::Set { path: "/n".into(), data: vec![0; bytes], version: Version::FIRST };
        let check = Op::Check { path: "/n".into(), version: None };
        let room = MULTI_LIMIT - op(0).size() - check.size();
        assert!(admit_multi(&[check.clone(), op(room)]).is_ok());
        assert!(admit_multi(&[check.clone(), op(room + 1)]).is_err());
        assert!(admit_multi(&[op(NODE_LIMIT)]).is_ok(), "alone");
        assert!(admit_multi(&vec![check.clone(); MULTI_LIMIT / check.size()]).is_ok());
        assert!(admit_multi(&vec![check.clone(); MULTI_LIMIT / check.size() + 1]).is_err());
    }
}
