//! Reading the tree and writing into it: many reads at a time, writes in batches behind the leader's fence. What was
//! written is noted in the tree; where the outcome is not known for certain, the instance has to be read again.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{FutureExt as _, StreamExt as _};
use tracing::{debug, warn};

use super::fault_injection;
use super::observed_tree::{Alloc, InstanceId, ObservedInstance, ObservedTree, Presence, Shown};
use super::paths::{self, Paths};
use super::protocol::{AccountNode, Said, State};
use super::reconcile::Action;
use allot_coordination::{Error, Kind, Node, Op, Tree, Version};

/// Operations of one multi, at most.
const OPS: usize = 400;
/// Their bytes: half of what the tree takes, since the fence stands before them.
const BYTES: usize = 128 * 1024;
/// Bytes of an instance's name, at most, as the book has it.
const NAME: usize = 256;
/// Requests on their way at once.
const AT_ONCE: usize = 32;

/// The leader's way to the tree.
#[derive(Clone)]
pub(super) struct TreeWriter {
    /// Behind the fence.
    pub(super) tree: Tree,
    pub(super) paths: Paths,
}

impl TreeWriter {
    /// Reads everything there is.
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
                (observed.accounts, observed.foreign_nodes) = shown(nodes, observed.present);
            }
        }
        Ok(tree)
    }

    async fn read_dir(&self, tree: &mut ObservedTree, dir: &str, names: Vec<String>) -> Result<(), Error> {
        for (name, node) in self.tree.get_many_readable(dir, names).await? {
            let Ok(node) = node else {
                debug!(dir, name, "a node that may not be read is no instance");
                continue;
            };
            let alloc_of = paths::instance_of(&name).map(str::to_owned);
            let is_alloc = alloc_of.is_some();
            let id = InstanceId { dir: dir.to_owned(), instance: alloc_of.unwrap_or(name) };
            if is_alloc && node.owner.is_none() {
                tree.at(&id).alloc = Some(alloc(&id, &node));
            } else if let Some(present) = presence(&id, &node).filter(|_| !is_alloc) {
                tree.at(&id).present = Some(present);
            }
        }
        Ok(())
    }

    /// Reads an instance again, as far as the leader writes it. That an instance has come is for the watcher to say.
    pub(super) async fn reread(&self, tree: &mut ObservedTree, id: &InstanceId) -> Result<(), Error> {
        self.tree.sync().await?;
        let path = paths::instance(&id.dir, &id.instance);
        let present = self.readable(&path).await?.and_then(|node| presence(id, &node));
        let path = paths::alloc(&id.dir, &id.instance);
        let found = self.readable(&path).await?.filter(|node| node.owner.is_none());
        let names = if found.is_some() { self.children(&path).await? } else { Vec::new() };
        let nodes = self.tree.get_many_readable(&path, names).await?;
        let observed = tree.at(id);
        let known = observed.present.map(|known| known.created);
        observed.present = match present {
            Some(present) if Some(present.created) == known => Some(present),
            Some(_) => observed.present,
            None => None,
        };
        observed.alloc = found.map(|node| alloc(id, &node));
        (observed.accounts, observed.foreign_nodes) = shown(nodes, observed.present);
        if observed.is_empty() {
            tree.instances.remove(id);
        }
        Ok(())
    }

    /// A node, if it is there and may be read.
    async fn readable(&self, path: &str) -> Result<Option<Node>, Error> {
        match self.tree.get(path).await {
            Err(Error::Refused { .. }) => Ok(None),
            node => node,
        }
    }

    /// The children of a node; none of one that is not there, or is not ours to read.
    async fn children(&self, path: &str) -> Result<Vec<String>, Error> {
        match self.tree.children(path).await {
            Err(Error::NoNode(_) | Error::Refused { .. }) => Ok(Vec::new()),
            names => names,
        }
    }

    /// The children of many nodes.
    async fn lists(&self, dirs: Vec<String>) -> Result<Vec<(String, Vec<String>)>, Error> {
        let lists = dirs.into_iter().map(|dir| {
            let tree_writer = self.clone();
            async move { tree_writer.children(&dir).await.map(|names| (dir, names)) }.boxed()
        });
        let mut lists = futures_util::stream::iter(lists).buffer_unordered(AT_ONCE);
        let mut all = Vec::new();
        while let Some(list) = lists.next().await {
            all.push(list?);
        }
        Ok(all)
    }

    /// Takes these actions. The places of which it is not known what became of them are returned; what was done is noted.
    pub(super) async fn take(
        &self,
        tree: &mut ObservedTree,
        actions: &[Action],
        now: u64,
        half: &'static str,
    ) -> Result<BTreeSet<InstanceId>, Error> {
        let mut batches = batches(tree, actions, now);
        let many = batches.len() > 1;
        let (mut unclear, mut introduced) = (BTreeSet::new(), Vec::new());
        while !batches.is_empty() {
            let writes = std::mem::take(&mut batches).into_iter().map(|(numbers, ops)| {
                let tree = self.tree.clone();
                async move { (numbers, tree.multi(ops).await) }.boxed()
            });
            let mut writes = futures_util::stream::iter(writes).buffered(AT_ONCE);
            while let Some((numbers, written)) = writes.next().await {
                if many {
                    fault_injection::point(half);
                }
                let of_it = || numbers.iter().filter_map(|&number| actions.get(number));
                match written {
                    Ok(()) => {
                        for action in of_it() {
                            if let Action::Introduce { id } = action {
                                introduced.push(id.clone());
                            }
                            note(tree, action, now);
                        }
                    }
                    Err(Error::NotLeading) => return Err(Error::NotLeading),
                    // One of them cannot be done, and nothing was: the others can.
                    Err(error) if numbers.len() > 1 && !error.is_transient() && error != Error::Closed => {
                        debug!(%error, actions = numbers.len(), "these are tried apart");
                        batches.extend(apart(tree, actions, &numbers, now));
                    }
                    Err(error) => {
                        debug!(%error, actions = numbers.len(), "these instances are read again");
                        unclear.extend(of_it().map(|action| action.id().clone()));
                    }
                }
            }
        }
        for id in introduced {
            // What a multi creates does not say when; by that it is told from an earlier one of its name.
            let path = paths::alloc(&id.dir, &id.instance);
            match self.tree.get(&path).await {
                Ok(Some(node)) => tree.at(&id).alloc = Some(alloc(&id, &node)),
                Ok(None) | Err(_) => drop(unclear.insert(id)),
            }
        }
        Ok(unclear)
    }
}

/// The numbers of the actions that go into one multi, and what they are in the tree.
type Batch = (Vec<usize>, Vec<Op>);

/// Steps as multis that the tree takes; what a action needs stays together.
fn batches(tree: &ObservedTree, actions: &[Action], now: u64) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    let (mut bytes, most) = (0, fault_injection::batch(OPS));
    for (number, action) in actions.iter().enumerate() {
        let more = ops(tree, action, now);
        let size: usize = more.iter().map(Op::size).sum();
        match batches.last_mut() {
            Some((numbers, ops)) if ops.len() + more.len() <= most && bytes + size <= BYTES => {
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

/// A multi that failed by its instances; if it is of one, each action by itself.
fn apart(tree: &ObservedTree, actions: &[Action], numbers: &[usize], now: u64) -> Vec<Batch> {
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

/// What a action is in the tree.
fn ops(tree: &ObservedTree, action: &Action, now: u64) -> Vec<Op> {
    let nobody = ObservedInstance::default();
    let observed = tree.instances.get(action.id()).unwrap_or(&nobody);
    let set = |path: String, version: Version, data: Vec<u8>| Op::Set { path, data, version };
    let create = |path: String, data: Vec<u8>| Op::Create { path, data, kind: Kind::Persistent };
    match action {
        Action::Revoke { id, account, until } => {
            let Some(shown) = observed.accounts.get(account) else { return Vec::new() };
            let word = word(account, &revoked(*shown, now, *until));
            vec![set(paths::account(&id.dir, &id.instance, account), shown.version, word)]
        }
        Action::Reassign { id, account, epoch } => {
            let Some(shown) = observed.accounts.get(account) else { return Vec::new() };
            let word = word(account, &Shown { epoch: *epoch, ..*shown });
            vec![set(paths::account(&id.dir, &id.instance, account), shown.version, word)]
        }
        Action::Withdraw { id, account } => {
            vec![Op::Delete { path: paths::account(&id.dir, &id.instance, account), version: None }]
        }
        Action::Publish { id, account, epoch } => {
            vec![create(paths::account(&id.dir, &id.instance, account), word(account, &fresh(*epoch)))]
        }
        Action::Clear { id } => {
            let version = observed.alloc.as_ref().map(|alloc| alloc.version);
            vec![Op::Delete { path: paths::alloc(&id.dir, &id.instance), version }]
        }
        Action::Introduce { id } => {
            let path = paths::alloc(&id.dir, &id.instance);
            let Some(present) = observed.present else { return Vec::new() };
            let name = path.clone().into_bytes();
            // What another process said by this name counts no more.
            let alloc = match &observed.alloc {
                Some(alloc) => set(path, alloc.version, Vec::new()),
                None => create(path, Vec::new()),
            };
            vec![alloc, set(paths::instance(&id.dir, &id.instance), present.version, name)]
        }
    }
}

/// Notes a action that was taken.
fn note(tree: &mut ObservedTree, action: &Action, now: u64) {
    let id = action.id();
    let observed = tree.at(id);
    match action {
        Action::Revoke { account, until, .. } => {
            if let Some(shown) = observed.accounts.get_mut(account) {
                *shown = Shown { version: shown.version.next(), ..revoked(*shown, now, *until) };
            }
        }
        Action::Reassign { account, epoch, .. } => {
            if let Some(shown) = observed.accounts.get_mut(account) {
                // The book dealt it anew: whoever was logged in by the deal before is so no more.
                *shown = Shown { version: shown.version.next(), ..fresh(*epoch) };
            }
        }
        Action::Withdraw { account, .. } => drop(observed.accounts.remove(account)),
        Action::Publish { account, epoch, .. } => {
            observed.accounts.insert(account.clone(), fresh(*epoch));
        }
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

fn fresh(epoch: u64) -> Shown {
    Shown { epoch, revoked: None, until: None, version: Version::FIRST, from_previous_session: false }
}

fn revoked(shown: Shown, now: u64, until: Option<u64>) -> Shown {
    Shown { revoked: shown.revoked.or(Some(now)), until: until.or(shown.until), ..shown }
}

fn word(account: &str, shown: &Shown) -> Vec<u8> {
    let state = if shown.revoked.is_some() { State::Revoke } else { State::Dealt };
    let account = account.to_owned();
    AccountNode { account, epoch: shown.epoch, state, since: shown.revoked, until: shown.until }.bytes()
}

/// Accounts as their nodes show them, and whether there are foreign_nodes among them. One that says nothing that we would say,
/// or may not be read, is of no deal; a name that we would write otherwise is a stranger's. What is older than the process
/// that is there was shown to an earlier one.
fn shown(
    nodes: Vec<(String, Result<Node, Error>)>,
    present: Option<Presence>,
) -> (BTreeMap<String, Shown>, bool) {
    let (mut accounts, mut foreign_nodes) = (BTreeMap::new(), false);
    for (name, node) in nodes {
        let account = paths::decode(&name);
        if paths::encode(&account) != name {
            foreign_nodes = true;
            continue;
        }
        let word = node.as_ref().ok().and_then(|node| AccountNode::read(&node.data));
        let created = node.as_ref().map_or(0, |node| node.created);
        let shown = Shown {
            epoch: word.as_ref().map_or(0, |word| word.epoch),
            revoked: word
                .as_ref()
                .filter(|word| word.state == State::Revoke)
                .map(|word| word.since.unwrap_or_default()),
            until: word.as_ref().and_then(|word| word.until),
            version: node.map_or(Version::FIRST, |node| node.version),
            from_previous_session: present.is_some_and(|present| created < present.created),
        };
        accounts.insert(account, shown);
    }
    (accounts, foreign_nodes)
}

/// An instance by its own node; nothing of a node that lives without a session, or has a name that no book takes.
pub(super) fn presence(id: &InstanceId, node: &Node) -> Option<Presence> {
    node.owner?;
    if id.instance.len() > NAME {
        debug!(dir = id.dir, instance = id.instance, "a name of more than {NAME} bytes is no instance");
        return None;
    }
    let introduced = node.data == paths::alloc(&id.dir, &id.instance).into_bytes();
    Some(Presence { created: node.created, version: node.version, introduced })
}

/// The node of an instance's accounts.
pub(super) fn alloc(id: &InstanceId, node: &Node) -> Alloc {
    let said = Said::read(&node.data).unwrap_or_else(|why| {
        warn!(dir = id.dir, instance = id.instance, why, "what an instance says is not understood");
        Said::default()
    });
    Alloc { created: node.created, version: node.version, said }
}
