//! What is to be done, by comparing the book with the tree. No clock, no I/O: state in, actions out.
//!
//! The tree follows the book, and never shows an account to two instances: an account is shown to nobody before it is
//! shown to nobody else. It is taken from an instance that is there by its own word only, and from one that is gone, or
//! was replaced by another process of its name, without: whoever has lost its session has logged out before.

use std::collections::{BTreeMap, BTreeSet};

use super::observed_tree::{Book, InstanceId, ObservedInstance, ObservedTree, Shown};
use super::write_backoff::WriteBackoff;
use allot_client::AccountRow;

/// A change of the book.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Change {
    /// An instance is there no more.
    Detach { module: String, instance: String },
    /// An instance is there.
    Attach { module: String, id: InstanceId, created: i64 },
    /// An instance gives an account back that is to go elsewhere.
    Logout { account: String, epoch: u64 },
    /// An instance gives an account back that it was to keep.
    Return { account: String, epoch: u64 },
    /// An instance cannot use an account.
    Freeze { account: String },
}

/// A change of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// An account is to be given back; by an instance that is gone, at a time.
    Revoke { id: InstanceId, account: String, until: Option<u64> },
    /// An account is shown no more.
    Withdraw { id: InstanceId, account: String },
    /// What is shown is of another deal, to the same instance.
    Reassign { id: InstanceId, account: String, epoch: u64 },
    /// The node of an instance's accounts goes.
    Clear { id: InstanceId },
    /// An instance is told where its accounts are.
    Introduce { id: InstanceId },
    /// An account is shown.
    Publish { id: InstanceId, account: String, epoch: u64 },
}

impl Action {
    /// The instance that it is about.
    pub(super) fn id(&self) -> &InstanceId {
        match self {
            Self::Revoke { id, .. }
            | Self::Withdraw { id, .. }
            | Self::Reassign { id, .. }
            | Self::Clear { id }
            | Self::Introduce { id }
            | Self::Publish { id, .. } => id,
        }
    }
}

/// What is known besides book and tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReconcileInput<'a> {
    /// Milliseconds since 1970.
    pub(super) now: u64,
    /// Nodes of instances for which the book was told that they are there, by this leader.
    pub(super) attached: &'a BTreeMap<InstanceId, i64>,
    /// Deals that the book does not know, of those that `suspects` named.
    pub(super) unknown: &'a BTreeSet<(String, u64)>,
    /// How long an account of an unknown deal stays revoked after its instance went, in milliseconds.
    pub(super) longest: u64,
    /// While a take-over has not got past its deletes: how long an instance is waited for, in milliseconds.
    pub(super) barrier: Option<u64>,
    /// When this leader began to compare. The barrier ends by this, since other times are of other clocks.
    pub(super) began: u64,
    /// Instances in whose part of the tree something could not be written.
    pub(super) write_backoff: &'a WriteBackoff,
}

impl ReconcileInput<'_> {
    /// Until when an account of a deal that the book has forgotten must wait: somebody may be logged in whom it has
    /// forgotten, too.
    fn until(&self, account: &str, shown: &Shown) -> Option<u64> {
        let is_unknown = self.unknown.contains(&(account.to_owned(), shown.epoch));
        is_unknown.then(|| shown.until.unwrap_or_else(|| self.now.saturating_add(self.longest)))
    }
}

/// What is to be done now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// In the book; the book has to be read again then.
    pub(super) changes: Vec<Change>,
    /// In the tree, where accounts are taken back or hidden.
    pub(super) revocations: Vec<Action>,
    /// In the tree, where nodes of instances come and go.
    pub(super) placements: Vec<Action>,
    /// In the tree, where accounts are shown.
    pub(super) assignments: Vec<Action>,
    /// Accounts that instances are asked for and have not given back.
    pub(super) pending: usize,
    /// Whether the barrier stands.
    pub(super) held_up: bool,
    /// How many of the actions nobody waits for any more, since they have failed for long.
    pub(super) given_up: usize,
    /// When there may be something to do although nothing has happened, in milliseconds since 1970.
    pub(super) next: Option<u64>,
}

impl Plan {
    /// Whether there is nothing to do.
    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
            && self.revocations.is_empty()
            && self.placements.is_empty()
            && self.assignments.is_empty()
    }

    /// All actions, in their order.
    fn actions(&self) -> impl Iterator<Item = &Action> {
        self.revocations.iter().chain(&self.placements).chain(&self.assignments)
    }

    /// Whether nothing is left but what has failed for long.
    pub(super) fn is_done(&self) -> bool {
        self.changes.is_empty() && self.actions().count() == self.given_up && !self.held_up
    }

    /// There may be something to do at this time.
    pub(super) fn wake(&mut self, at: u64) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }
}

/// Whether the book says that this account is this instance's.
fn is_wanted(book: &Book, row: Option<&AccountRow>, id: &InstanceId) -> bool {
    row.is_some_and(|row| row.state == "dealt" && book.id(row).as_ref() == Some(id))
}

/// Whether the book still waits for this instance's logout.
fn is_leaving(book: &Book, row: Option<&AccountRow>, id: &InstanceId, epoch: u64) -> bool {
    row.is_some_and(|row| row.state == "revoking" && row.epoch == epoch && book.id(row).as_ref() == Some(id))
}

/// Deals of processes that are gone, which the book does not show: whether it knows them must be asked.
pub(super) fn suspects(tree: &ObservedTree, book: &Book) -> BTreeSet<(String, u64)> {
    let mut found = BTreeSet::new();
    for observed in tree.instances.values() {
        for (account, shown) in
            observed.accounts.iter().filter(|(_, shown)| !observed.is_held() || shown.from_previous_session)
        {
            let row = book.accounts.get(account);
            // What was deleted while its instance was there was taken from it by the book's own word.
            if row.is_none() && observed.is_held() {
                continue;
            }
            if row.is_none_or(|row| row.epoch != shown.epoch) {
                found.insert((account.clone(), shown.epoch));
            }
        }
    }
    found
}

/// Compares.
pub(super) fn plan(tree: &ObservedTree, book: &Book, input: &ReconcileInput<'_>) -> Plan {
    let mut plan = Plan::default();
    // Those that go first, so that their places are free for those that come.
    for (dir, module) in &book.modules {
        for (instance, _) in module.instances.iter().filter(|(_, state)| has_come(Some(*state))) {
            let id = InstanceId { dir: dir.clone(), instance: instance.clone() };
            if tree.instances.get(&id).is_none_or(|observed| observed.present.is_none()) {
                let module = module.name.clone();
                plan.changes.push(Change::Detach { module, instance: instance.clone() });
            }
        }
    }
    for (id, observed) in &tree.instances {
        let hides = take(&mut plan, book, input, id, observed);
        arrange(&mut plan, book, input, id, observed, hides);
    }
    let shows = shows(tree, book);
    let late = |action: &Action| input.write_backoff.is_late(action.id(), input.now);
    let taking = |action: &&Action| !matches!(action, Action::Reassign { .. }) && !late(action);
    let waits = plan.revocations.iter().filter(taking).map(Action::id);
    let waits: Vec<Option<u64>> = waits.map(|id| input.write_backoff.end(id)).collect();
    if !plan.changes.is_empty() {
        // What the book makes of them may have to be taken first.
        hold_up(&mut plan, input.barrier.map(|limit| input.began.saturating_add(limit)), input.now);
    }
    plan.held_up = input.barrier.is_some() && (!waits.is_empty() || plan.held_up);
    if plan.held_up {
        waits.into_iter().flatten().for_each(|end| plan.wake(end));
    } else {
        plan.assignments = shows;
    }
    plan.given_up = plan.actions().filter(|action| late(action)).count();
    plan
}

/// Whether the book has an instance as being there.
fn has_come(state: Option<&String>) -> bool {
    state.is_some_and(|state| matches!(state.as_str(), "active" | "standby"))
}

/// What is to be taken from an instance; whether something of it is hidden.
fn take(
    plan: &mut Plan,
    book: &Book,
    input: &ReconcileInput<'_>,
    id: &InstanceId,
    observed: &ObservedInstance,
) -> bool {
    let mut hides = false;
    for (account, shown) in &observed.accounts {
        let row = book.accounts.get(account);
        let (wanted, held) = (is_wanted(book, row, id), observed.is_held());
        let said = observed.alloc.as_ref().map(|alloc| &alloc.said).filter(|_| held);
        let released = said.is_some_and(|said| said.has_released(account, shown.epoch));
        let unusable = said.is_some_and(|said| said.is_unusable(account, shown.epoch));
        if unusable && row.is_some_and(|row| row.state != "frozen") {
            plan.changes.push(Change::Freeze { account: account.clone() });
        }
        let of = |row: &AccountRow| row.epoch == shown.epoch;
        let until = input.until(account, shown).filter(|_| !held || shown.from_previous_session);
        if wanted && shown.revoked.is_none() && until.is_none() {
            match row.filter(|row| !of(row)) {
                Some(row) => {
                    let (id, account, epoch) = (id.clone(), account.clone(), row.epoch);
                    plan.revocations.push(Action::Reassign { id, account, epoch });
                }
                // Not one that an earlier process may be logged in with: giving back ends the login.
                None if released
                    && !unusable
                    && !(shown.from_previous_session && row.is_some_and(|row| row.login)) =>
                {
                    plan.changes.push(Change::Return { account: account.clone(), epoch: shown.epoch });
                }
                None => {}
            }
            continue;
        }
        let leaving = is_leaving(book, row, id, shown.epoch);
        // An earlier process may be logged in: who is there now cannot speak for it, and the book waits for the end of that.
        let waits = leaving && (!held || shown.from_previous_session);
        if released && leaving && !unusable && !waits {
            plan.changes.push(Change::Logout { account: account.clone(), epoch: shown.epoch });
        }
        let asks = held && !released;
        if asks && shown.revoked.is_none() || until.is_some() && shown.until.is_none() {
            let (id, account) = (id.clone(), account.clone());
            plan.revocations.push(Action::Revoke { id, account, until });
        }
        if asks {
            wait_for(plan, input, id, shown);
        }
        let forgotten = until.filter(|until| input.now < *until);
        if let Some(until) = forgotten {
            plan.wake(until);
        }
        if !asks && !waits && forgotten.is_none() {
            hides = true;
            plan.revocations.push(Action::Withdraw { id: id.clone(), account: account.clone() });
        }
    }
    hides
}

/// An instance that is there was asked for an account, and is waited for.
fn wait_for(plan: &mut Plan, input: &ReconcileInput<'_>, id: &InstanceId, shown: &Shown) {
    plan.pending += 1;
    let end = input.barrier.map(|limit| {
        let end = shown.revoked.map_or(input.began, |at| at.min(input.began)).saturating_add(limit);
        // One that cannot be written to is not even asked.
        input.write_backoff.end(id).map_or(end, |write_backoff| write_backoff.min(end))
    });
    hold_up(plan, end, input.now);
}

/// The barrier stands until then, if it stands at all.
fn hold_up(plan: &mut Plan, end: Option<u64>, now: u64) {
    if let Some(end) = end.filter(|end| now < *end) {
        plan.held_up = true;
        plan.wake(end);
    }
}

/// Brings instances into the book, and tells them where their accounts are.
fn arrange(
    plan: &mut Plan,
    book: &Book,
    input: &ReconcileInput<'_>,
    id: &InstanceId,
    observed: &ObservedInstance,
    hides: bool,
) {
    let module = book.modules.get(&id.dir);
    let state = module.and_then(|module| module.instances.get(&id.instance));
    let Some(present) = observed.present else {
        // It goes when its accounts have gone on, and the book waits for it no more.
        if observed.alloc.is_some() && observed.is_bare() && state.is_none() {
            plan.placements.push(Action::Clear { id: id.clone() });
        }
        return;
    };
    let Some(module) = module else { return };
    let told = input.attached.get(id) == Some(&present.created);
    let attach = Change::Attach { module: module.name.clone(), id: id.clone(), created: present.created };
    if !present.introduced && !told {
        if has_come(state) {
            // Another process of the same name.
            let instance = id.instance.clone();
            plan.changes.push(Change::Detach { module: module.name.clone(), instance });
        }
        plan.changes.push(attach);
    } else if !has_come(state) {
        plan.changes.push(attach);
    } else if (!present.introduced || observed.alloc.is_none()) && !hides {
        plan.placements.push(Action::Introduce { id: id.clone() });
    }
}

/// What can be shown: what the book says and nobody sees.
fn shows(tree: &ObservedTree, book: &Book) -> Vec<Action> {
    let shown = tree.shown();
    let mut shows = Vec::new();
    for (account, row) in &book.accounts {
        if row.state != "dealt" || shown.contains(account.as_str()) {
            continue;
        }
        let Some(id) = book.id(row) else { continue };
        let Some(observed) = tree.instances.get(&id).filter(|observed| observed.is_held()) else { continue };
        // What it said of this very deal it said before it saw that the account was taken away; it has to see that first,
        // or it would lose an account that it has just begun to use.
        let said = observed.alloc.as_ref().map(|alloc| &alloc.said);
        match said {
            Some(said) if !said.has_released(account, row.epoch) => {
                shows.push(Action::Publish { id, account: account.clone(), epoch: row.epoch });
            }
            _ => {}
        }
    }
    shows
}
