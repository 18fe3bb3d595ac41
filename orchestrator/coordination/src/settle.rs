//! Read-back of a write whose answer was lost, instead of sending the write again.
//!
//! A `sync` precedes each read. On the session that sent the write, the `sync` comes after the write. On a later session
//! the write can no longer be carried out, because the service has closed the session that sent it.

use tokio::time::{Duration, Instant, sleep, timeout_at};
use tracing::debug;

use super::error::Error;
use super::node::{Kind, Node, Op};

/// Pause between two attempts to read back.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// Reads of the tree behind a `sync`, on the session that there is now.
pub(super) trait ReadBack {
    /// A node, or `None` if it does not exist.
    fn node(&self, path: &str) -> impl Future<Output = Result<Option<Node>, Error>> + Send;
    /// The names of a node's children.
    fn names(&self, dir: &str) -> impl Future<Output = Result<Vec<String>, Error>> + Send;
}

/// The evidence of a node about an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Applied,
    NotApplied,
    Refused(Error),
    Unknown,
}

/// Finds out whether these operations were carried out, all or none. `sender` is the session that sent them.
pub(super) async fn settle(
    tree: &impl ReadBack,
    limit: Duration,
    ops: &[Op],
    sender: Option<i64>,
) -> Result<(), Error> {
    let what = describe(ops);
    let mut ordered: Vec<&Op> = ops.iter().filter(|op| !matches!(op, Op::Check { .. })).collect();
    // A version proves most; a missing node proves least, since another client may have deleted it.
    ordered.sort_by_key(|op| match op {
        Op::Set { .. } => 0,
        Op::Create { .. } => 1,
        Op::Check { .. } | Op::Delete { .. } => 2,
    });
    let deadline = Instant::now() + limit;
    let outcome = timeout_at(deadline, async {
        loop {
            match read_back(tree, &ordered, sender, ops.len() == 1).await {
                Err(error) if error.is_transient() => sleep(RETRY_PAUSE).await,
                outcome => return outcome,
            }
        }
    })
    .await
    .unwrap_or_else(|_| Err(Error::Unanswered(what.clone())))?;
    debug!(what, ?outcome, "read back a write whose answer was lost");
    match outcome {
        Outcome::Applied => Ok(()),
        Outcome::NotApplied => Err(Error::NotApplied(what)),
        Outcome::Refused(error) => Err(error),
        Outcome::Unknown => Err(Error::Unanswered(what)),
    }
}

/// Reads the nodes of the operations once.
async fn read_back(
    tree: &impl ReadBack,
    ops: &[&Op],
    sender: Option<i64>,
    alone: bool,
) -> Result<Outcome, Error> {
    for op in ops {
        let node = tree.node(op.path()).await?;
        match outcome_of(op, node.as_ref(), sender, alone) {
            Outcome::Unknown => {}
            known => return Ok(known),
        }
    }
    Ok(Outcome::Unknown)
}

/// Finds a sequential node again by its prefix.
pub(super) async fn settle_sequential(
    tree: &impl ReadBack,
    limit: Duration,
    dir: &str,
    prefix: &str,
) -> Result<String, Error> {
    let what = format!("create {dir}/{prefix}");
    let deadline = Instant::now() + limit;
    let names = timeout_at(deadline, async {
        loop {
            match tree.names(dir).await {
                Err(error) if error.is_transient() => sleep(RETRY_PAUSE).await,
                listed => return listed,
            }
        }
    })
    .await
    .unwrap_or_else(|_| Err(Error::Unanswered(what.clone())))?;
    names.into_iter().find(|name| name.starts_with(prefix)).ok_or(Error::NotApplied(what))
}

fn outcome_of(op: &Op, node: Option<&Node>, sender: Option<i64>, alone: bool) -> Outcome {
    match (op, node) {
        (Op::Create { data, kind: Kind::Persistent, .. }, Some(node)) if node.data == *data => {
            Outcome::Applied
        }
        (Op::Create { kind: Kind::Ephemeral, .. }, Some(node))
            if node.owner.is_some() && node.owner == sender =>
        {
            Outcome::Applied
        }
        (Op::Create { path, .. }, Some(_)) => Outcome::Refused(Error::Exists(path.clone())),
        // In a multi the node may have been created, and deleted by another client since; another operation may give
        // evidence.
        (Op::Create { .. }, None) if alone => Outcome::NotApplied,
        (Op::Set { version, .. }, Some(node)) if node.version == *version => Outcome::NotApplied,
        (Op::Set { data, version, .. }, Some(node)) if node.version == version.next() => {
            // Written once since: by this write, or by a faster client.
            if node.data == *data {
                Outcome::Applied
            } else {
                Outcome::Refused(Error::BadVersion(op.path().to_owned()))
            }
        }
        // The node was to be deleted, and is gone.
        (Op::Delete { .. }, None) if alone => Outcome::Applied,
        (Op::Delete { version, .. }, Some(node)) if version.is_none_or(|version| version == node.version) => {
            Outcome::NotApplied
        }
        (Op::Delete { path, .. }, Some(_)) => Outcome::Refused(Error::BadVersion(path.clone())),
        _ => Outcome::Unknown,
    }
}

pub(super) fn describe(ops: &[Op]) -> String {
    match ops {
        [Op::Create { path, .. }] => format!("create {path}"),
        [Op::Set { path, .. }] => format!("set {path}"),
        [Op::Delete { path, .. }] => format!("delete {path}"),
        _ => format!("multi of {}", ops.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::node::Version;
    use super::*;

    fn node(data: &[u8], version: i32, owner: Option<i64>) -> Node {
        Node { data: data.to_vec(), version: Version(version), owner, created: 1 }
    }

    #[test]
    fn outcome_of_a_set_follows_from_version_and_data() {
        let set = Op::Set { path: "/n".into(), data: b"new".to_vec(), version: Version(3) };
        let outcome = |node: Option<&Node>| outcome_of(&set, node, Some(7), true);
        assert_eq!(outcome(Some(&node(b"old", 3, None))), Outcome::NotApplied);
        assert_eq!(outcome(Some(&node(b"new", 4, None))), Outcome::Applied);
        let refused = Outcome::Refused(Error::BadVersion("/n".into()));
        assert_eq!(outcome(Some(&node(b"other", 4, None))), refused);
        assert_eq!(outcome(Some(&node(b"new", 5, None))), Outcome::Unknown);
        assert_eq!(outcome(None), Outcome::Unknown);
    }

    #[test]
    fn outcome_of_an_ephemeral_create_follows_from_the_owner() {
        let create = Op::Create { path: "/n".into(), data: b"me".to_vec(), kind: Kind::Ephemeral };
        let outcome = |node: Option<&Node>| outcome_of(&create, node, Some(7), true);
        assert_eq!(outcome(Some(&node(b"me", 0, Some(7)))), Outcome::Applied);
        assert_eq!(outcome(Some(&node(b"me", 0, Some(8)))), Outcome::Refused(Error::Exists("/n".into())));
        assert_eq!(outcome(None), Outcome::NotApplied);
    }

    #[test]
    fn a_missing_node_tells_nothing_about_a_multi() {
        let create = Op::Create { path: "/n".into(), data: vec![], kind: Kind::Persistent };
        let delete = Op::Delete { path: "/n".into(), version: Some(Version(2)) };
        assert_eq!(outcome_of(&create, None, Some(7), false), Outcome::Unknown);
        assert_eq!(outcome_of(&delete, None, Some(7), false), Outcome::Unknown);
        assert_eq!(outcome_of(&delete, None, Some(7), true), Outcome::Applied);
        assert_eq!(outcome_of(&delete, Some(&node(b"", 2, None)), Some(7), true), Outcome::NotApplied);
    }
}
