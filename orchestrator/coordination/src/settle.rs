//! After a write's answer was lost: reading back what became of it, instead of sending it again.
//!
//! A `sync` goes before each look. On the session that sent the write it stands behind it; on a later session
//! the write can no longer be carried out, since the service has closed the one that it came from.

use tokio::time::{Duration, Instant, sleep, timeout_at};
use tracing::debug;

use super::error::Error;
use super::node::{Kind, Node, Op};
use super::tree::Tree;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// What a look at a node tells about an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    Applied,
    NotApplied,
    Refused(Error),
    Unclear,
}

/// Finds out what became of these operations, of which all or none were carried out. `sender` is the session
/// that sent them.
pub(super) async fn settle(tree: &Tree, ops: &[Op], sender: Option<i64>) -> Result<(), Error> {
    let what = describe(ops);
    let mut ordered: Vec<&Op> = ops.iter().filter(|op| !matches!(op, Op::Check { .. })).collect();
    // A version tells most; that a node is absent tells least, since others may have removed it.
    ordered.sort_by_key(|op| match op {
        Op::Set { .. } => 0,
        Op::Create { .. } => 1,
        Op::Check { .. } | Op::Delete { .. } => 2,
    });
    let deadline = Instant::now() + tree.shared.settle;
    let verdict = timeout_at(deadline, async {
        loop {
            match look(tree, &ordered, sender, ops.len() == 1).await {
                Err(error) if error.is_transient() => sleep(PAUSE).await,
                looked => return looked,
            }
        }
    })
    .await
    .unwrap_or_else(|_| Err(Error::Unanswered(what.clone())))?;
    debug!(what, ?verdict, "a lost answer was read back");
    match verdict {
        Verdict::Applied => Ok(()),
        Verdict::NotApplied => Err(Error::NotApplied(what)),
        Verdict::Refused(error) => Err(error),
        Verdict::Unclear => Err(Error::Unanswered(what)),
    }
}

/// One look at what the operations were about.
async fn look(tree: &Tree, ops: &[&Op], sender: Option<i64>, alone: bool) -> Result<Verdict, Error> {
    tree.shared.up().await?;
    tree.sync().await?;
    for op in ops {
        let node = tree.get(op.path()).await?;
        match verdict(op, node.as_ref(), sender, alone) {
            Verdict::Unclear => {}
            clear => return Ok(clear),
        }
    }
    Ok(Verdict::Unclear)
}

/// Finds a sequential node again by its prefix.
pub(super) async fn settle_sequential(tree: &Tree, dir: &str, prefix: &str) -> Result<String, Error> {
    let what = format!("create {dir}/{prefix}");
    let deadline = Instant::now() + tree.shared.settle;
    let names = timeout_at(deadline, async {
        loop {
            match list(tree, dir).await {
                Err(error) if error.is_transient() => sleep(PAUSE).await,
                listed => return listed,
            }
        }
    })
    .await
    .unwrap_or_else(|_| Err(Error::Unanswered(what.clone())))?;
    names.into_iter().find(|name| name.starts_with(prefix)).ok_or(Error::NotApplied(what))
}

async fn list(tree: &Tree, dir: &str) -> Result<Vec<String>, Error> {
    tree.shared.up().await?;
    tree.sync().await?;
    tree.children(dir).await
}

fn verdict(op: &Op, node: Option<&Node>, sender: Option<i64>, alone: bool) -> Verdict {
    match (op, node) {
        (Op::Create { data, kind: Kind::Persistent, .. }, Some(node)) if node.data == *data => {
            Verdict::Applied
        }
        (Op::Create { kind: Kind::Ephemeral, .. }, Some(node))
            if node.owner.is_some() && node.owner == sender =>
        {
            Verdict::Applied
        }
        (Op::Create { path, .. }, Some(_)) => Verdict::Refused(Error::Exists(path.clone())),
        // In a multi it may have been created and, by others, removed since; another operation may tell.
        (Op::Create { .. }, None) if alone => Verdict::NotApplied,
        (Op::Set { version, .. }, Some(node)) if node.version == *version => Verdict::NotApplied,
        (Op::Set { data, version, .. }, Some(node)) if node.version == version.next() => {
            // Written once since: by us, or by one who was faster.
            if node.data == *data {
                Verdict::Applied
            } else {
                Verdict::Refused(Error::BadVersion(op.path().to_owned()))
            }
        }
        // Gone is what was asked for.
        (Op::Delete { .. }, None) if alone => Verdict::Applied,
        (Op::Delete { version, .. }, Some(node)) if version.is_none_or(|version| version == node.version) => {
            Verdict::NotApplied
        }
        (Op::Delete { path, .. }, Some(_)) => Verdict::Refused(Error::BadVersion(path.clone())),
        _ => Verdict::Unclear,
    }
}

fn describe(ops: &[Op]) -> String {
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
    fn a_set_is_told_by_its_version_and_data() {
        let set = Op::Set { path: "/n".into(), data: b"new".to_vec(), version: Version(3) };
        let look = |node: Option<&Node>| verdict(&set, node, Some(7), true);
        assert_eq!(look(Some(&node(b"old", 3, None))), Verdict::NotApplied);
        assert_eq!(look(Some(&node(b"new", 4, None))), Verdict::Applied);
        let refused = Verdict::Refused(Error::BadVersion("/n".into()));
        assert_eq!(look(Some(&node(b"other", 4, None))), refused);
        assert_eq!(look(Some(&node(b"new", 5, None))), Verdict::Unclear);
        assert_eq!(look(None), Verdict::Unclear);
    }

    #[test]
    fn an_ephemeral_create_is_told_by_its_session_and_not_by_its_data() {
        let create = Op::Create { path: "/n".into(), data: b"me".to_vec(), kind: Kind::Ephemeral };
        let look = |node: Option<&Node>| verdict(&create, node, Some(7), true);
        assert_eq!(look(Some(&node(b"me", 0, Some(7)))), Verdict::Applied);
        assert_eq!(look(Some(&node(b"me", 0, Some(8)))), Verdict::Refused(Error::Exists("/n".into())));
        assert_eq!(look(None), Verdict::NotApplied);
    }

    #[test]
    fn absence_tells_nothing_in_a_multi() {
        let create = Op::Create { path: "/n".into(), data: vec![], kind: Kind::Persistent };
        let delete = Op::Delete { path: "/n".into(), version: Some(Version(2)) };
        assert_eq!(verdict(&create, None, Some(7), false), Verdict::Unclear);
        assert_eq!(verdict(&delete, None, Some(7), false), Verdict::Unclear);
        assert_eq!(verdict(&delete, None, Some(7), true), Verdict::Applied);
        assert_eq!(verdict(&delete, Some(&node(b"", 2, None)), Some(7), true), Verdict::NotApplied);
    }
}
