//! Compares the book with the tree and decides what to do. No clock, no I/O: state in, actions out.
//!
//! The tree follows the book and never publishes an account to two instances: an account is withdrawn from one
//! instance before it is published to another. A present instance loses an account only after it has reported the
//! release. An instance that is gone, or was replaced by another process of its name, loses it without a report,
//! since a process whose session is lost has logged out before.

use std::collections::{BTreeMap, BTreeSet};

use super::observed_tree::{Book, InstanceId, ObservedInstance, ObservedTree, PublishedAccount};
use super::protocol::Totals;
use super::write_backoff::WriteBackoff;
use allot_client::AccountRow;

/// A change that the leader makes in the book.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Change {
    /// The instance is gone. `leaves` tells whether it will not come back, so that the book keeps nothing for it.
    Detach { module: String, instance: String, leaves: bool },
    /// The instance is present; `created` is the creation transaction of its node.
    Attach { module: String, id: InstanceId, created: i64 },
    /// The instance has released an account that the book revoked.
    Logout { account: String, epoch: u64 },
    /// The instance returns an account that it could have kept.
    Return { account: String, epoch: u64 },
    /// The instance cannot use the account.
    Freeze { account: String },
    /// The tree or a report has an epoch that the book has lost: later ones must be greater. An account that is
    /// assigned by an epoch that is not greater gets a new one.
    Raise { epoch: u64, account: Option<String> },
    /// The instance has sent so many instructions since this assignment.
    Report { account: String, epoch: u64, total: u64 },
}

impl Change {
    /// Whether the book may assign accounts differently after this change.
    pub(super) fn affects_assignments(&self) -> bool {
        !matches!(self, Self::Report { .. })
    }
}

/// A change that the leader makes in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// Revokes an account. `until` (milliseconds since 1970) is when the node of a gone instance may be deleted.
    Revoke { id: InstanceId, account: String, until: Option<u64> },
    /// Writes the node of an account again that another program deleted or changed.
    Restore { id: InstanceId, account: String },
    /// Deletes the node of an account.
    Withdraw { id: InstanceId, account: String },
    /// Changes the epoch of a published account that the book assigned to the same instance again.
    Reassign { id: InstanceId, account: String, epoch: u64 },
    /// Deletes the `-alloc` node of a gone instance.
    Clear { id: InstanceId },
    /// Creates the `-alloc` node and writes its path into the instance's node.
    Introduce { id: InstanceId },
    /// Creates the node of an account.
    Publish { id: InstanceId, account: String, epoch: u64 },
}

impl Action {
    /// The instance that the action concerns.
    pub(super) fn id(&self) -> &InstanceId {
        match self {
            Self::Revoke { id, .. }
            | Self::Restore { id, .. }
            | Self::Withdraw { id, .. }
            | Self::Reassign { id, .. }
            | Self::Clear { id }
            | Self::Introduce { id }
            | Self::Publish { id, .. } => id,
        }
    }
}

/// The input of the comparison in addition to book and tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReconcileInput<'a> {
    /// The current time, in milliseconds since 1970.
    pub(super) now: u64,
    /// The instances that this leader has attached in the book, each with the creation transaction of its node.
    pub(super) attached: &'a BTreeMap<InstanceId, i64>,
    /// What was counted of each account's reported use in this session with Redis.
    pub(super) counted: &'a BTreeMap<String, Totals>,
    /// Assignments (account, epoch) that the book does not know, of those that `unverified_assignments` named.
    pub(super) unknown: &'a BTreeSet<(String, u64)>,
    /// Time for which an account of an unknown assignment stays revoked after its instance has gone, in milliseconds.
    pub(super) longest: u64,
    /// Time limit for the wait for an instance, in milliseconds, until the first deletes of a take-over are done;
    /// `None` after them.
    pub(super) barrier: Option<u64>,
    /// The time of this leader's first comparison, in milliseconds since 1970. The barrier ends relative to this time,
    /// since other times were taken by other clocks.
    pub(super) began: u64,
    /// The instances whose part of the tree cannot be written.
    pub(super) write_backoff: &'a WriteBackoff,
}

/// How far a published epoch may be ahead of the clock, in microseconds: 12 hours. Later ones are no leader's, and the
/// book would refuse them.
const MAX_EPOCH_LEAD: u64 = 12 * 3_600_000_000;

impl ReconcileInput<'_> {
    /// The latest epoch that a book can have given out, in microseconds since 1970.
    fn latest_epoch(&self) -> u64 {
        self.now.saturating_mul(1000).saturating_add(MAX_EPOCH_LEAD)
    }

    /// The time until which an account stays revoked because the book has forgotten its assignment, in milliseconds
    /// since 1970. Redis may have forgotten a login together with the assignment.
    fn until(&self, account: &str, shown: &PublishedAccount) -> Option<u64> {
        let is_unknown = self.unknown.contains(&(account.to_owned(), shown.epoch));
        is_unknown.then(|| shown.until.unwrap_or_else(|| self.now.saturating_add(self.longest)))
    }
}

/// The next actions of the leader, in the order of the fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Changes of the book; the leader reads the book again after them.
    pub(super) changes: Vec<Change>,
    /// Changes of the tree that revoke or withdraw accounts.
    pub(super) revocations: Vec<Action>,
    /// Changes of the tree that publish accounts again, mostly under new epochs, to the instances that have them. They
    /// need the confirmation of replicas, and do not wait for the barrier.
    pub(super) reassignments: Vec<Action>,
    /// Changes of the tree that create or delete nodes of instances.
    pub(super) placements: Vec<Action>,
    /// Changes of the tree that publish accounts.
    pub(super) assignments: Vec<Action>,
    /// Number of accounts that are revoked and not yet released by their instances.
    pub(super) pending: usize,
    /// Whether the barrier holds back all assignments.
    pub(super) held_up: bool,
    /// Number of actions that have failed for so long that the leader no longer waits for them.
    pub(super) given_up: usize,
    /// The time at which the plan must be made again although nothing has changed, in milliseconds since 1970.
    pub(super) next: Option<u64>,
}

impl Plan {
    /// Whether there is nothing to do.
    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
            && self.revocations.is_empty()
            && self.reassignments.is_empty()
            && self.placements.is_empty()
            && self.assignments.is_empty()
    }

    /// Whether an instance sees something new afterwards: an account, an epoch, or where its accounts are.
    pub(super) fn publishes(&self) -> bool {
        let introduces =
            |action: &&Action| matches!(action, Action::Introduce { .. } | Action::Publish { .. });
        !self.reassignments.is_empty()
            || self.placements.iter().chain(&self.assignments).any(|action| introduces(&action))
    }

    /// All actions, in the order in which they are applied.
    fn actions(&self) -> impl Iterator<Item = &Action> {
        self.revocations.iter().chain(&self.reassignments).chain(&self.placements).chain(&self.assignments)
    }

    /// Whether nothing is left but actions that have failed for long.
    pub(super) fn is_done(&self) -> bool {
        self.changes.is_empty() && self.actions().count() == self.given_up && !self.held_up
    }

    /// Requests another comparison at `at` (milliseconds since 1970) at the latest.
    pub(super) fn wake(&mut self, at: u64) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }
}

/// Whether the book has assigned this account to this instance.
fn is_wanted(book: &Book, row: Option<&AccountRow>, id: &InstanceId) -> bool {
    row.is_some_and(|row| row.state == "assigned" && book.id(row).as_ref() == Some(id))
}

/// Whether the book still waits for this instance to log out of this assignment.
fn is_leaving(book: &Book, row: Option<&AccountRow>, id: &InstanceId, epoch: u64) -> bool {
    row.is_some_and(|row| row.state == "revoking" && row.epoch == epoch && book.id(row).as_ref() == Some(id))
}

/// Assignments (account, epoch) of gone processes that the book's rows do not show. The leader must ask the book
/// whether it knows them.
pub(super) fn unverified_assignments(tree: &ObservedTree, book: &Book) -> BTreeSet<(String, u64)> {
    let mut found = BTreeSet::new();
    for observed in tree.instances.values() {
        for (account, shown) in observed
            .accounts
            .iter()
            .filter(|(_, shown)| !observed.is_introduced() || shown.from_previous_session)
        {
            let row = book.accounts.get(account);
            // The book deleted this account while its instance was present, which it does only after the logout.
            if row.is_none() && observed.is_introduced() {
                continue;
            }
            if row.is_none_or(|row| row.epoch != shown.epoch) {
                found.insert((account.clone(), shown.epoch));
            }
        }
    }
    found
}

/// Compares tree and book, and plans the changes of both.
pub(super) fn plan(tree: &ObservedTree, book: &Book, input: &ReconcileInput<'_>) -> Plan {
    let mut plan = Plan::default();
    // Detach first, so that the accounts of gone instances are free for those that attach.
    for (dir, module) in &book.modules {
        for (instance, state) in &module.instances {
            let id = InstanceId { dir: dir.clone(), instance: instance.clone() };
            let observed = tree.instances.get(&id);
            let leaves = observed.is_some_and(ObservedInstance::leaves);
            let is_gone = observed.is_none_or(|observed| observed.present.is_none());
            if is_gone && (is_attached(Some(state)) || state == "away" && leaves) {
                let module = module.name.clone();
                plan.changes.push(Change::Detach { module, instance: instance.clone(), leaves });
            }
        }
    }
    let published = tree.latest_epoch(input.latest_epoch());
    if published > book.last_epoch {
        plan.changes.push(Change::Raise { epoch: published, account: None });
    }
    for (id, observed) in &tree.instances {
        let withdraws = plan_revocations(&mut plan, book, input, id, observed);
        plan_placement(&mut plan, book, input, id, observed, withdraws);
    }
    let assignments = plan_assignments(&mut plan, tree, book, input);
    let is_late = |action: &Action| input.write_backoff.is_late(action.id(), input.now);
    let awaited = plan.revocations.iter().filter(|action| !is_late(action)).map(Action::id);
    let ends: Vec<Option<u64>> = awaited.map(|id| input.write_backoff.end(id)).collect();
    if plan.changes.iter().any(Change::affects_assignments) {
        // The changed book may contain further revocations, which come before any assignment.
        extend_barrier(&mut plan, input.barrier.map(|limit| input.began.saturating_add(limit)), input.now);
    }
    plan.held_up = input.barrier.is_some() && (!ends.is_empty() || plan.held_up);
    if plan.held_up {
        ends.into_iter().flatten().for_each(|end| plan.wake(end));
    } else {
        plan.assignments = assignments;
    }
    plan.given_up = plan.actions().filter(|action| is_late(action)).count();
    plan
}

/// Whether the book counts an instance with this state as present.
fn is_attached(state: Option<&String>) -> bool {
    state.is_some_and(|state| matches!(state.as_str(), "active" | "standby"))
}

/// Plans the revocations and withdrawals at one instance. Returns whether a new process of its name must wait for them.
fn plan_revocations(
    plan: &mut Plan,
    book: &Book,
    input: &ReconcileInput<'_>,
    id: &InstanceId,
    observed: &ObservedInstance,
) -> bool {
    let mut withdraws = false;
    for (account, shown) in &observed.accounts {
        let row = book.accounts.get(account);
        let (wanted, held) = (is_wanted(book, row, id), observed.is_introduced());
        let before = plan.changes.len();
        if shown.damage.is_some() {
            plan_count(plan, input, observed, account, shown);
            plan.reassignments.push(Action::Restore { id: id.clone(), account: account.clone() });
            continue;
        }
        if let Some(row) = row
            && row.state == "assigned"
            && (row.epoch + 1..=input.latest_epoch()).contains(&shown.epoch)
        {
            plan.changes.push(Change::Raise { epoch: shown.epoch, account: Some(account.clone()) });
        }
        // The book counts the use since an assignment that it has lost after it has learnt its epoch.
        plan_count(plan, input, observed, account, shown);
        let report = observed.alloc.as_ref().map(|alloc| &alloc.report).filter(|_| held);
        let released = report.is_some_and(|report| report.has_released(account, shown.epoch));
        let unusable = report.is_some_and(|report| report.is_unusable(account, shown.epoch));
        if unusable && row.is_some_and(|row| row.state != "frozen") {
            plan.changes.push(Change::Freeze { account: account.clone() });
        }
        let until = input.until(account, shown).filter(|_| !held || shown.from_previous_session);
        if let Some(row) = row.filter(|_| wanted && shown.revoked.is_none() && until.is_none()) {
            plan_kept(plan, input, observed, (id, account), shown, row);
            // A new process must not see the account before it has its new epoch.
            let raises = |change: &Change| matches!(change, Change::Raise { .. });
            withdraws |= !held && plan.changes.iter().skip(before).any(raises);
            continue;
        }
        let leaving = is_leaving(book, row, id, shown.epoch);
        // An earlier process may be logged in. The present process cannot report for it, so the book waits until that
        // login ends.
        let awaits_login_end = leaving && (!held || shown.from_previous_session);
        if released && leaving && !unusable && !awaits_login_end {
            plan.changes.push(Change::Logout { account: account.clone(), epoch: shown.epoch });
        }
        let must_release = held && !released;
        if must_release && shown.revoked.is_none() || until.is_some() && shown.until.is_none() {
            let (id, account) = (id.clone(), account.clone());
            plan.revocations.push(Action::Revoke { id, account, until });
        }
        if must_release {
            note_pending(plan, input, id, shown);
        }
        let forgotten = until.filter(|until| input.now < *until);
        if let Some(until) = forgotten {
            plan.wake(until);
        }
        if !must_release && !awaits_login_end && forgotten.is_none() {
            withdraws = true;
            let withdrawal = Action::Withdraw { id: id.clone(), account: account.clone() };
            // The account comes back to this instance, by an epoch that a failover must not lose meanwhile.
            let actions = if wanted && !held { &mut plan.reassignments } else { &mut plan.revocations };
            actions.push(withdrawal);
        }
    }
    withdraws
}

/// Plans the count of the use that an instance reports of an account. The report of a gone process counts as well.
fn plan_count(
    plan: &mut Plan,
    input: &ReconcileInput<'_>,
    observed: &ObservedInstance,
    account: &str,
    shown: &PublishedAccount,
) {
    let Some(alloc) = &observed.alloc else { return };
    let counted = input.counted.get(account);
    for (epoch, total) in alloc.report.use_of(account, shown.epoch) {
        let is_counted = counted.and_then(|known| known.get(&epoch)).is_some_and(|&before| before >= total);
        if total > 0 && epoch > 0 && !is_counted {
            plan.changes.push(Change::Report { account: account.to_owned(), epoch, total });
        }
    }
}

/// Plans what concerns an account that stays with its instance.
fn plan_kept(
    plan: &mut Plan,
    input: &ReconcileInput<'_>,
    observed: &ObservedInstance,
    (id, account): (&InstanceId, &str),
    shown: &PublishedAccount,
    row: &AccountRow,
) {
    let report = observed.alloc.as_ref().map(|alloc| &alloc.report);
    let held = observed.is_introduced();
    let released = held && report.is_some_and(|report| report.has_released(account, shown.epoch));
    let unusable = held && report.is_some_and(|report| report.is_unusable(account, shown.epoch));
    if row.epoch > shown.epoch || shown.epoch > input.latest_epoch() {
        let (id, account, epoch) = (id.clone(), account.to_owned(), row.epoch);
        plan.reassignments.push(Action::Reassign { id, account, epoch });
    } else if row.epoch < shown.epoch {
        // The book gives the account a greater epoch first.
    } else if released && !unusable && !(shown.from_previous_session && row.login) {
        // A return would end the login of an earlier process, so it is not passed on while one may be logged in.
        plan.changes.push(Change::Return { account: account.to_owned(), epoch: shown.epoch });
    } else if !held
        && observed.present.is_some()
        && shown.epoch <= input.latest_epoch()
        && !row.login
        && report
            .is_some_and(|report| report.use_of(account, shown.epoch).any(|(epoch, _)| epoch == shown.epoch))
    {
        // The next process of this name counts from 0, so it gets a new epoch.
        plan.changes.push(Change::Raise { epoch: shown.epoch, account: Some(account.to_owned()) });
    }
}

/// Counts an account that a present instance has not released, and extends the barrier for it.
fn note_pending(plan: &mut Plan, input: &ReconcileInput<'_>, id: &InstanceId, shown: &PublishedAccount) {
    plan.pending += 1;
    let end = input.barrier.map(|limit| {
        let end = shown.revoked.map_or(input.began, |at| at.min(input.began)).saturating_add(limit);
        // An instance that cannot be written does not even see the revocation.
        input.write_backoff.end(id).map_or(end, |write_backoff| write_backoff.min(end))
    });
    extend_barrier(plan, end, input.now);
}

/// Extends the barrier until `end` (milliseconds since 1970), if `end` is in the future.
fn extend_barrier(plan: &mut Plan, end: Option<u64>, now: u64) {
    if let Some(end) = end.filter(|end| now < *end) {
        plan.held_up = true;
        plan.wake(end);
    }
}

/// Plans the attachment of a present instance and the nodes of its accounts. `withdraws` tells whether an account of
/// it is withdrawn first.
fn plan_placement(
    plan: &mut Plan,
    book: &Book,
    input: &ReconcileInput<'_>,
    id: &InstanceId,
    observed: &ObservedInstance,
    withdraws: bool,
) {
    let module = book.modules.get(&id.dir);
    let state = module.and_then(|module| module.instances.get(&id.instance));
    let Some(present) = observed.present else {
        // The node is deleted when no account is left below it and the book no longer knows the instance.
        if observed.alloc.is_some() && observed.has_no_children() && state.is_none() {
            plan.placements.push(Action::Clear { id: id.clone() });
        }
        return;
    };
    let Some(module) = module else { return };
    let is_told = input.attached.get(id) == Some(&present.created);
    let attach = Change::Attach { module: module.name.clone(), id: id.clone(), created: present.created };
    if !present.introduced && !is_told {
        if is_attached(state) {
            // The book still has the previous process of this name as attached.
            let instance = id.instance.clone();
            plan.changes.push(Change::Detach { module: module.name.clone(), instance, leaves: false });
        }
        plan.changes.push(attach);
    } else if !is_attached(state) {
        plan.changes.push(attach);
    } else if (!present.introduced || observed.alloc.is_none()) && !withdraws {
        plan.placements.push(Action::Introduce { id: id.clone() });
    }
}

/// Plans the assignments: accounts that the book has assigned and that no instance sees.
fn plan_assignments(
    plan: &mut Plan,
    tree: &ObservedTree,
    book: &Book,
    input: &ReconcileInput<'_>,
) -> Vec<Action> {
    let shown = tree.published_accounts();
    let mut assignments = Vec::new();
    for (account, row) in &book.accounts {
        if row.state != "assigned" || shown.contains(account.as_str()) {
            continue;
        }
        let Some(id) = book.id(row) else { continue };
        let Some(observed) = tree.instances.get(&id).filter(|observed| observed.is_introduced()) else {
            continue;
        };
        let Some(alloc) = &observed.alloc else { continue };
        // The instance has reported the end of this assignment, or of one that the book has lost. The report may
        // stay as it is for ever, so the book assigns the account again, by an epoch that the report does not name.
        let ended = alloc.report.last_ended(account).filter(|ended| *ended <= input.latest_epoch());
        if let Some(ended) = ended.filter(|ended| *ended >= row.epoch) {
            plan.changes.push(Change::Raise { epoch: ended, account: Some(account.clone()) });
        } else {
            assignments.push(Action::Publish { id, account: account.clone(), epoch: row.epoch });
        }
    }
    assignments
}
