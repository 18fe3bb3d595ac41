//! Reads the nodes of instances and accounts, and takes them over into the observed tree.

use std::collections::{BTreeMap, BTreeSet};

use tracing::warn;

use super::observed_tree::{Alloc, InstanceId, ObservedInstance, ObservedTree, Presence, PublishedAccount};
use super::paths;
use super::protocol::{AccountNode, ClientReport, State};
use allot_coordination::{Error, Node, Version};

/// Most bytes of an instance's name, as in the book.
const MAX_NAME_BYTES: usize = 256;
/// The most accounts that one warning names.
const MAX_NAMES: usize = 5;

/// Which account nodes this leader may have deleted since it last knew them.
#[derive(Clone, Copy)]
pub(super) enum Withdrawn<'a> {
    /// None, and it wrote none either.
    Nothing,
    /// These; it may have written others.
    Accounts(&'a BTreeSet<String>),
}

impl Withdrawn<'_> {
    fn has(self, account: &str) -> bool {
        matches!(self, Self::Accounts(accounts) if accounts.contains(account))
    }
}

/// The nodes of an instance as they were read.
pub(super) struct InstanceNodes {
    pub(super) present: Option<Presence>,
    pub(super) alloc: Option<Node>,
    pub(super) accounts: Vec<(String, Result<Node, Error>)>,
}

/// Takes over the nodes of an instance. Returns whether another program certainly changed something.
pub(super) fn merge(
    tree: &mut ObservedTree,
    id: &InstanceId,
    nodes: InstanceNodes,
    withdrawn: Withdrawn<'_>,
) -> bool {
    let is_audit = matches!(withdrawn, Withdrawn::Nothing);
    let (dir, instance) = (&id.dir, &id.instance);
    let observed = tree.at(id);
    let known = observed.present.map(|known| known.created);
    observed.present = match nodes.present {
        // An instance that has learnt where its accounts are may write its own node.
        Some(present) if Some(present.created) == known => {
            Some(Presence { introduced: present.introduced || observed.is_introduced(), ..present })
        }
        Some(_) => observed.present,
        None => None,
    };
    let is_lost = is_audit && observed.alloc.is_some() && nodes.alloc.is_none();
    if is_lost {
        warn!(dir, instance, "another program deleted the `-alloc` node of an instance");
    }
    observed.alloc = nodes.alloc.map(|node| alloc(id, &node));
    let before = observed.accounts.clone();
    let accounts = read_accounts(id, observed, nodes.accounts);
    let mut changed = observed.take_over(accounts, |account| withdrawn.has(account));
    if is_audit {
        changed.extend(differences(&before, &observed.accounts));
    }
    changed.sort_unstable();
    changed.dedup();
    if !changed.is_empty() {
        let accounts = changed.iter().take(MAX_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
        let count = changed.len();
        warn!(dir, instance, count, accounts, "another program changed account nodes; repairing them");
    }
    if observed.is_empty() {
        tree.instances.remove(id);
    }
    is_lost || !changed.is_empty()
}

/// Reads the accounts below an `-alloc` node, and notes whether foreign nodes are among them. A node that cannot be
/// read or parsed has epoch 0, which is no assignment. A node whose name no leader would write is foreign. A node older
/// than the present process was published to an earlier process.
pub(super) fn read_accounts(
    id: &InstanceId,
    observed: &mut ObservedInstance,
    nodes: Vec<(String, Result<Node, Error>)>,
) -> BTreeMap<String, PublishedAccount> {
    let (present, knew_foreign) = (observed.present, observed.foreign_nodes);
    observed.foreign_nodes = false;
    let mut accounts = BTreeMap::new();
    for (name, node) in nodes {
        let account = paths::decode(&name);
        if paths::encode(&account) != name {
            if !knew_foreign {
                let (dir, instance) = (&id.dir, &id.instance);
                warn!(dir, instance, name, "ignoring a node: no account has its name");
            }
            observed.foreign_nodes = true;
            continue;
        }
        let data = node.as_ref().ok().and_then(|node| AccountNode::read(&node.data));
        let created = node.as_ref().map_or(0, |node| node.created);
        let shown = PublishedAccount {
            epoch: data.as_ref().map_or(0, |data| data.epoch),
            revoked: data
                .as_ref()
                .filter(|data| data.state == State::Revoke)
                .map(|data| data.since.unwrap_or_default()),
            until: data.as_ref().and_then(|data| data.until),
            version: node.map_or(Version::FIRST, |node| node.version),
            from_previous_session: present.is_some_and(|present| created < present.created),
            damage: None,
        };
        accounts.insert(account, shown);
    }
    accounts
}

/// Reads an instance's own node; `None` for a node without a session, or with a name longer than the book allows.
pub(super) fn presence(id: &InstanceId, node: &Node) -> Option<Presence> {
    node.owner?;
    if id.instance.len() > MAX_NAME_BYTES {
        warn!(
            dir = id.dir,
            instance = id.instance,
            "ignoring an instance whose name is longer than {MAX_NAME_BYTES} bytes"
        );
        return None;
    }
    let introduced = node.data == paths::alloc(&id.dir, &id.instance).into_bytes();
    Some(Presence { created: node.created, version: node.version, introduced })
}

/// Reads the `-alloc` node of an instance.
pub(super) fn alloc(id: &InstanceId, node: &Node) -> Alloc {
    let report = ClientReport::read(&node.data).unwrap_or_else(|why| {
        warn!(
            dir = id.dir,
            instance = id.instance,
            why,
            "ignoring an instance's report: it is not the documented JSON"
        );
        ClientReport::default()
    });
    Alloc { created: node.created, version: node.version, report }
}

/// The accounts whose nodes were added, or have other data, compared with what the leader last knew.
fn differences(
    before: &BTreeMap<String, PublishedAccount>,
    now: &BTreeMap<String, PublishedAccount>,
) -> Vec<String> {
    let says = |shown: &PublishedAccount| (shown.epoch, shown.revoked, shown.until, shown.damage);
    let differs =
        |account: &str, shown: &PublishedAccount| before.get(account).map(says) != Some(says(shown));
    now.iter()
        .filter(|(account, shown)| differs(account, shown))
        .map(|(account, _)| account.clone())
        .collect()
}
