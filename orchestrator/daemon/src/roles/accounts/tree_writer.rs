//! Reads the tree with many requests at a time, and writes it in batches that carry the leader's fence. A successful
//! write is noted in the observed tree. If the outcome of a write is unknown, the instance has to be read again.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use tracing::{debug, warn};

use super::fault_injection;
use super::node_reader::{InstanceNodes, Withdrawn, alloc, merge, presence, read_accounts};
use super::observed_tree::{Damage, InstanceId, ObservedInstance, ObservedTree, PublishedAccount};
use super::paths::{self, Paths};
use super::protocol::{AccountNode, State};
use super::reconcile::Action;
use allot_coordination::{Error, Kind, Node, Op, Retry, Retryable as _, Tree, Version};

/// Most operations of one multi.
const MAX_OPS: usize = 400;
/// Most bytes of one multi: half of what ZooKeeper accepts, since the fence comes first.
const MAX_BYTES: usize = 128 * 1024;
/// Most requests in flight.
const MAX_IN_FLIGHT: usize = 32;

/// The instances for which the outcome of a write is unknown, each with the accounts whose nodes may be deleted.
pub(super) type Uncertain = BTreeMap<InstanceId, BTreeSet<String>>;

/// The leader's access to the tree.
#[derive(Clone)]
pub(super) struct TreeWriter {
    /// A tree whose writes carry the fence: they fail when this process no longer leads.
    pub(super) tree: Tree,
    pub(super) paths: Paths,
}

impl TreeWriter {
    /// Reads the whole tree.
    pub(super) async fn read(&self) -> Result<ObservedTree, Error> {
        self.tree.sync().await?;
        let mut tree = ObservedTree::default();
        let departments = self.children(self.paths.root()).await?;
        let departments = departments.into_iter().filter(|name| !Paths::is_notify(name));
        let departments = departments.map(|name| format!("{}/{name}", self.paths.root())).collect();
        let modules = self.lists(departments).await?.into_iter();
        let dirs =
            modules.flat_map(|(dir, names)| names.into_iter().map(move |name| format!("{dir}/{name}")));
        for (dir, names) in self.lists(dirs.collect()).await? {
            self.read_dir(&mut tree, &dir, names).await?;
        }
        let full = tree.instances.iter().filter(|(_, observed)| observed.alloc.is_some());
        let allocs: BTreeMap<String, InstanceId> =
            full.map(|(id, _)| (paths::alloc(&id.dir, &id.instance), id.clone())).collect();
        for (alloc, names) in self.lists(allocs.keys().cloned().collect()).await? {
            let nodes = self.tree.get_many_readable(&alloc, names).await?;
            if let Some(id) = allocs.get(&alloc) {
                let observed = tree.at(id);
                observed.accounts = read_accounts(id, observed, nodes);
            }
        }
        Ok(tree)
    }

    async fn read_dir(&self, tree: &mut ObservedTree, dir: &str, names: Vec<String>) -> Result<(), Error> {
        for (name, node) in self.tree.get_many_readable(dir, names).await? {
            let Ok(node) = node else {
                warn!(dir, name, "ignoring a node that may not be read");
                continue;
            };
            let alloc_of = paths::instance_of(&name).map(str::to_owned);
            let is_alloc = alloc_of.is_some();
            if is_alloc == node.owner.is_some() {
                warn!(dir, name, "ignoring a node: instances are ephemeral, and `-alloc` nodes are not");
            }
            let id = InstanceId { dir: dir.to_owned(), instance: alloc_of.unwrap_or(name) };
            if is_alloc && node.owner.is_none() {
                tree.at(&id).alloc = Some(alloc(&id, &node));
            } else if let Some(present) = presence(&id, &node).filter(|_| !is_alloc) {
                tree.at(&id).present = Some(present);
            }
        }
        Ok(())
    }

    /// Reads the nodes again that the leader writes for these instances, after writes whose outcome is unknown. The
    /// arrival of an instance is reported by the watcher only.
    pub(super) async fn reread(&self, tree: &mut ObservedTree, uncertain: &Uncertain) -> Result<(), Error> {
        for (id, nodes) in self.read_instances(uncertain.keys()).await? {
            let withdrawn = uncertain.get(&id);
            merge(tree, &id, nodes, Withdrawn::Accounts(withdrawn.unwrap_or(&BTreeSet::new())));
        }
        Ok(())
    }

    /// Reads the nodes of these instances, which nobody but the leader may have written since it last knew them.
    /// Returns whether another program changed something.
    pub(super) async fn audit(&self, tree: &mut ObservedTree, ids: &[InstanceId]) -> Result<bool, Error> {
        let mut changed = false;
        for (id, nodes) in self.read_instances(ids.iter()).await? {
            changed |= merge(tree, &id, nodes, Withdrawn::Nothing);
        }
        Ok(changed)
    }

    /// Reads the nodes of these instances, several at a time. An instance whose own node may not be read any more is left
    /// out, and remains as it was: it is not gone.
    ///
    /// # Errors
    /// None of them may be read: this leader, and not an instance, lacks a permission.
    async fn read_instances(
        &self,
        ids: impl Iterator<Item = &InstanceId>,
    ) -> Result<Vec<(InstanceId, InstanceNodes)>, Error> {
        self.tree.sync().await?;
        let reads = ids.cloned().map(|id| {
            let tree_writer = self.clone();
            async move { (tree_writer.read_instance(&id).await, id) }.boxed()
        });
        let mut reads = futures_util::stream::iter(reads.collect::<Vec<_>>()).buffered(MAX_IN_FLIGHT);
        let (mut all, mut refusal) = (Vec::new(), None);
        while let Some((nodes, id)) = reads.next().await {
            match nodes {
                Ok(nodes) => all.push((id, nodes)),
                Err(error @ Error::Refused { .. }) => {
                    warn!(dir = id.dir, instance = id.instance, %error, "an instance may not be read any more; it stays");
                    refusal = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        refusal.filter(|_| all.is_empty()).map_or(Ok(all), Err)
    }

    async fn read_instance(&self, id: &InstanceId) -> Result<InstanceNodes, Error> {
        let path = paths::instance(&id.dir, &id.instance);
        let present = self.tree.get(&path).await?.and_then(|node| presence(id, &node));
        let path = paths::alloc(&id.dir, &id.instance);
        let alloc = self.readable(&path).await?.filter(|node| node.owner.is_none());
        let names = if alloc.is_some() { self.children(&path).await? } else { Vec::new() };
        let accounts = self.tree.get_many_readable(&path, names).await?;
        Ok(InstanceNodes { present, alloc, accounts })
    }

    /// Reads a node; `None` if it does not exist or may not be read.
    async fn readable(&self, path: &str) -> Result<Option<Node>, Error> {
        match self.tree.get(path).await {
            Err(Error::Refused { .. }) => Ok(None),
            node => node,
        }
    }

    /// The children of a node; empty if the node does not exist or may not be read.
    async fn children(&self, path: &str) -> Result<Vec<String>, Error> {
        match self.tree.children(path).await {
            Err(Error::NoNode(_) | Error::Refused { .. }) => Ok(Vec::new()),
            names => names,
        }
    }

    /// The children of many nodes, each list with its node's path.
    async fn lists(&self, dirs: Vec<String>) -> Result<Vec<(String, Vec<String>)>, Error> {
        let lists = dirs.into_iter().map(|dir| {
            let tree_writer = self.clone();
            async move { tree_writer.children(&dir).await.map(|names| (dir, names)) }.boxed()
        });
        futures_util::stream::iter(lists).buffer_unordered(MAX_IN_FLIGHT).try_collect().await
    }

    /// Applies the actions and notes them in `tree`. Returns the instances for which the outcome is unknown. `now` is
    /// in milliseconds since 1970, `half` is the fault point between two batches.
    pub(super) async fn apply(
        &self,
        tree: &mut ObservedTree,
        actions: &[Action],
        now: u64,
        half: &'static str,
    ) -> Result<(Uncertain, BTreeMap<InstanceId, Error>), Error> {
        let mut batches = batches(tree, actions, now);
        let many = batches.len() > 1;
        let (mut uncertain, mut introduced) = (Uncertain::new(), Vec::new());
        let mut refused = BTreeMap::new();
        while !batches.is_empty() {
            let writes = std::mem::take(&mut batches).into_iter().map(|(numbers, ops)| {
                let tree = self.tree.clone();
                async move { (numbers, tree.multi(ops).await) }.boxed()
            });
            let mut writes = futures_util::stream::iter(writes).buffered(MAX_IN_FLIGHT);
            while let Some((numbers, written)) = writes.next().await {
                if many {
                    fault_injection::point(half);
                }
                let batch_actions = || numbers.iter().filter_map(|&number| actions.get(number));
                match written {
                    Ok(()) => {
                        for action in batch_actions() {
                            if let Action::Introduce { id } = action {
                                introduced.push(id.clone());
                            }
                            note(tree, action, now);
                        }
                    }
                    Err(Error::NotLeading) => return Err(Error::NotLeading),
                    // One action cannot be done, so ZooKeeper did none of the batch. Smaller batches let the others
                    // through.
                    Err(error) if numbers.len() > 1 && !error.is_transient() && error != Error::Closed => {
                        debug!(%error, actions = numbers.len(), "splitting a batch that was rejected");
                        batches.extend(split(tree, actions, &numbers, now));
                    }
                    Err(error) => {
                        debug!(%error, actions = numbers.len(), "reading the instances of a failed batch again");
                        for action in batch_actions() {
                            let withdrawn = uncertain.entry(action.id().clone()).or_default();
                            if let Action::Withdraw { account, .. } = action {
                                withdrawn.insert(account.clone());
                            }
                            if error.retry() == Retry::Refused {
                                refused.insert(action.id().clone(), error.clone());
                            }
                        }
                    }
                }
            }
        }
        for id in introduced {
            // The reply to a multi lacks the creation transaction, which tells this node from an earlier one of the
            // same name.
            let path = paths::alloc(&id.dir, &id.instance);
            match self.tree.get(&path).await {
                Ok(Some(node)) => tree.at(&id).alloc = Some(alloc(&id, &node)),
                Ok(None) | Err(_) => drop(uncertain.entry(id).or_default()),
            }
        }
        Ok((uncertain, refused))
    }
}

/// The indexes of the actions in one multi, and their operations.
type Batch = (Vec<usize>, Vec<Op>);

/// Groups the actions into multis that ZooKeeper accepts; the operations of one action stay together.
fn batches(tree: &ObservedTree, actions: &[Action], now: u64) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    let (mut bytes, most) = (0, fault_injection::batch(MAX_OPS));
    for (number, action) in actions.iter().enumerate() {
        let more = ops(tree, action, now);
        let size: usize = more.iter().map(Op::size).sum();
        match batches.last_mut() {
            Some((numbers, ops)) if ops.len() + more.len() <= most && bytes + size <= MAX_BYTES => {
                numbers.push(number);
                ops.extend(more);
                bytes += size;
            }
            _ => {
                batches.push((vec![number], more));
                bytes = size;
            }
        }
    }
    batches
}

/// Splits a failed multi by its instances; if it has one instance only, by its actions.
fn split(tree: &ObservedTree, actions: &[Action], numbers: &[usize], now: u64) -> Vec<Batch> {
    let mut parts: BTreeMap<&InstanceId, Vec<usize>> = BTreeMap::new();
    for (number, action) in numbers.iter().filter_map(|&number| Some((number, actions.get(number)?))) {
        parts.entry(action.id()).or_default().push(number);
    }
    let parts: Vec<Vec<usize>> = if parts.len() > 1 {
        parts.into_values().collect()
    } else {
        numbers.iter().map(|&number| vec![number]).collect()
    };
    let ops = |numbers: &Vec<usize>| {
        let actions = numbers.iter().filter_map(|&number| actions.get(number));
        actions.flat_map(|action| ops(tree, action, now)).collect()
    };
    parts.into_iter().map(|numbers| (ops(&numbers), numbers)).map(|(ops, numbers)| (numbers, ops)).collect()
}

/// What an action writes into the node of an account: the account's name, the version of the node that is replaced (`None`
/// if the node is created), and the account as it is published afterwards. `None` if the action writes no such node.
fn write<'a>(
    observed: &ObservedInstance,
    action: &'a Action,
    now: u64,
) -> Option<(&'a str, Option<Version>, PublishedAccount)> {
    let shown = |account: &str| observed.accounts.get(account).copied();
    let (account, replaced, written) = match action {
        Action::Publish { account, epoch, .. } => (account, None, fresh(*epoch)),
        Action::Revoke { account, until, .. } => {
            let shown = shown(account)?;
            let (revoked, until) = (shown.revoked.or(Some(now)), until.or(shown.until));
            (account, Some(shown.version), PublishedAccount { revoked, until, ..shown })
        }
        Action::Reassign { account, epoch, .. } => {
            let shown = shown(account)?;
            // An earlier process may be logged in until a read of the book says otherwise.
            (account, Some(shown.version), PublishedAccount { epoch: *epoch, ..shown })
        }
        Action::Restore { account, .. } => {
            let shown = shown(account)?;
            let replaced = match shown.damage? {
                Damage::Deleted => None,
                Damage::Rewritten => Some(shown.version),
            };
            (account, replaced, PublishedAccount { damage: None, ..shown })
        }
        Action::Withdraw { .. } | Action::Clear { .. } | Action::Introduce { .. } => return None,
    };
    let version = replaced.map_or(Version::FIRST, Version::next);
    Some((account, replaced, PublishedAccount { version, ..written }))
}

/// The operations of one action.
fn ops(tree: &ObservedTree, action: &Action, now: u64) -> Vec<Op> {
    let absent = ObservedInstance::default();
    let id = action.id();
    let observed = tree.instances.get(id).unwrap_or(&absent);
    let set = |path: String, version: Version, data: Vec<u8>| Op::Set { path, data, version };
    let create = |path: String, data: Vec<u8>| Op::Create { path, data, kind: Kind::Persistent };
    match action {
        Action::Revoke { .. } | Action::Reassign { .. } | Action::Restore { .. } | Action::Publish { .. } => {
            let Some((account, replaced, written)) = write(observed, action, now) else { return Vec::new() };
            let (path, data) = (paths::account(&id.dir, &id.instance, account), data(account, &written));
            vec![match replaced {
                Some(version) => set(path, version, data),
                None => create(path, data),
            }]
        }
        Action::Withdraw { account, .. } => {
            // The node is deleted only if the use in the latest report is counted.
            let alloc = observed.alloc.as_ref().map(|alloc| Op::Check {
                path: paths::alloc(&id.dir, &id.instance),
                version: Some(alloc.version),
            });
            let path = paths::account(&id.dir, &id.instance, account);
            alloc.into_iter().chain([Op::Delete { path, version: None }]).collect()
        }
        Action::Clear { .. } => {
            let version = observed.alloc.as_ref().map(|alloc| alloc.version);
            vec![Op::Delete { path: paths::alloc(&id.dir, &id.instance), version }]
        }
        Action::Introduce { .. } => {
            let path = paths::alloc(&id.dir, &id.instance);
            let Some(present) = observed.present else { return Vec::new() };
            let name = path.clone().into_bytes();
            // The report of an earlier process of this name no longer counts.
            let alloc = match &observed.alloc {
                Some(alloc) => set(path, alloc.version, Vec::new()),
                None => create(path, Vec::new()),
            };
            vec![alloc, set(paths::instance(&id.dir, &id.instance), present.version, name)]
        }
    }
}

/// Notes an action that was applied.
fn note(tree: &mut ObservedTree, action: &Action, now: u64) {
    let id = action.id();
    let observed = tree.at(id);
    match action {
        Action::Revoke { .. } | Action::Reassign { .. } | Action::Restore { .. } | Action::Publish { .. } => {
            if let Some((account, _, written)) = write(observed, action, now) {
                observed.accounts.insert(account.to_owned(), written);
            }
        }
        Action::Withdraw { account, .. } => drop(observed.accounts.remove(account)),
        Action::Clear { .. } => observed.alloc = None,
        Action::Introduce { .. } => {
            if let Some(present) = &mut observed.present {
                (present.version, present.introduced) = (present.version.next(), true);
            }
        }
    }
    if observed.is_empty() {
        tree.instances.remove(id);
    }
}

fn fresh(epoch: u64) -> PublishedAccount {
    PublishedAccount {
        epoch,
        revoked: None,
        until: None,
        version: Version::FIRST,
        from_previous_session: false,
        damage: None,
    }
}

fn data(account: &str, shown: &PublishedAccount) -> Vec<u8> {
    let state = if shown.revoked.is_some() { State::Revoke } else { State::Assigned };
    let account = account.to_owned();
    AccountNode { account, epoch: shown.epoch, state, since: shown.revoked, until: shown.until }.bytes()
}
