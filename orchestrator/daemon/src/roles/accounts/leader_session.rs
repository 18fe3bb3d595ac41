//! The leader of a book. Each session with Redis starts with a claim of the book. The leader reads the tree and compares
//! tree and book at every tick and after every watch event. It acts only while leadership holds. In addition, every
//! command carries the term, and every write of the tree is fenced.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};

use super::book_reader::BookReader;
use super::notifications::Notifications;
use super::observed_tree::{InstanceId, ObservedTree};
use super::paths::own_dir;
use super::paths::{self, Paths};
use super::periodic_tasks::PeriodicTasks;
use super::protocol::Totals;
use super::reconcile::{Action, Change, Plan, ReconcileInput, plan, unverified_assignments};
use super::tree_audit::TreeAudit;
use super::tree_writer::{TreeWriter, Uncertain};
use super::watcher::{Kind, WatchEvent, Watcher};
use super::write_backoff::WriteBackoff;
use super::{actions, fault_injection, watch_events};
use crate::config::AccountsConfig;
use crate::roles::context::RoleContext as Context;
use allot_client::{BookStore, Session};
use allot_coordination::{Leadership, Retries};
use allot_runtime::time::now_ms;
use allot_runtime::{LeaderRole, LeaderSession, SessionEnd};

/// Wait before the next tick if the tree is not read.
const RETRY_DELAY: Duration = Duration::from_millis(50);
/// Time for which a returned account stays assigned, even if its instance returns the account again.
const RETURN_INTERVAL: Duration = Duration::from_secs(1);
/// The leader of a book in one term.
pub(super) struct AccountsLeader<'a> {
    context: &'a Context,
    config: &'a AccountsConfig,
    leadership: Leadership,
    /// The book as this session with Redis has read it.
    reader: BookReader,
    tree_writer: TreeWriter,
    watcher: Watcher,
    began: Instant,
    tree: Option<ObservedTree>,
    /// Instances whose nodes must be read again, since the outcome of a write is unknown.
    uncertain: Uncertain,
    tree_audit: TreeAudit,
    /// Instances whose nodes could not be written.
    write_backoff: WriteBackoff,
    /// Reports that ZooKeeper refuses writes.
    publishing: Retries,
    /// Instances that this leader has attached in the book, each with the creation transaction of its node.
    attached: BTreeMap<InstanceId, i64>,
    /// The time at which each account was last returned. It limits the rate for an instance that returns an account as
    /// soon as it gets the account.
    returned_at: BTreeMap<String, Instant>,
    /// What was counted of each account's reported use in this session with Redis.
    counted: BTreeMap<String, Totals>,
    /// Module directories that exist.
    ensured_dirs: BTreeSet<String>,
    /// Whether the first deletes of this take-over are still to do; they come before all assignments.
    barrier: bool,
    /// The time of the first comparison of book and tree, in milliseconds since 1970.
    compared: Option<u64>,
    notifications: Notifications,
    periodic_tasks: PeriodicTasks,
    /// Whether something has changed since book and tree were last compared.
    is_dirty: bool,
    /// The plan of the last comparison.
    last_plan: Plan,
    /// Whether the tree has been equal to the book once in this session.
    taken_over: bool,
}

impl<'a> AccountsLeader<'a> {
    pub(super) fn new(context: &'a Context, leadership: &Leadership) -> Option<Self> {
        let config = &context.config.accounts;
        Some(Self {
            context,
            config,
            tree_writer: TreeWriter { tree: leadership.tree().ok()?, paths: Paths::new(&config.root) },
            leadership: leadership.clone(),
            reader: BookReader::default(),
            watcher: Watcher::new(&context.coordinator),
            began: Instant::now(),
            tree: None,
            uncertain: Uncertain::new(),
            tree_audit: TreeAudit::new(),
            write_backoff: WriteBackoff::new(config.barrier.as_millis() as u64),
            publishing: context.coordinator.retries("publishing accounts"),
            attached: BTreeMap::new(),
            returned_at: BTreeMap::new(),
            counted: BTreeMap::new(),
            ensured_dirs: BTreeSet::new(),
            barrier: true,
            compared: None,
            notifications: Notifications::default(),
            periodic_tasks: PeriodicTasks::new(config),
            is_dirty: true,
            last_plan: Plan::default(),
            taken_over: false,
        })
    }

    fn store(&self, session: &Session) -> BookStore {
        BookStore::new(session.connection.clone(), &self.config.book)
    }
}

impl LeaderRole for AccountsLeader<'_> {
    fn reset_command(&self) -> String {
        format!("`ACCOUNT.TERM {} 0 none FORCE`", self.config.book)
    }

    async fn begin(&mut self, _: &mut LeaderSession<'_>, session: &mut Session) -> Result<(), SessionEnd> {
        let store = self.store(session);
        store.book().await?;
        store.claim(self.leadership.term().0, &self.context.name).await?;
        fault_injection::point("claimed");
        if self.barrier {
            // The time limit for instances that must return accounts starts now.
            self.compared = None;
        }
        self.reader.reset();
        // A failover may have lost what was counted.
        self.counted.clear();
        self.read_tree().await
    }

    async fn check(&mut self, session: &mut Session) -> Result<(), SessionEnd> {
        match self.periodic_tasks.run(&self.store(session), self.leadership.term().0).await? {
            Some(refusal) => Err(SessionEnd::TermRefused(refusal)),
            None => Ok(()),
        }
    }

    async fn tick(
        &mut self,
        _: &mut LeaderSession<'_>,
        session: &mut Session,
    ) -> Result<Duration, SessionEnd> {
        self.reconcile_once(&self.store(session), session).await
    }

    async fn event(&mut self) {
        self.watcher.has_events().await;
    }

    fn session_ended(&mut self, end: &SessionEnd) {
        if matches!(end, SessionEnd::Coordination(_)) {
            // Writes that were in progress may or may not have been done.
            self.tree = None;
        }
    }
}

impl AccountsLeader<'_> {
    /// Reads the whole tree and starts its watches, unless the tree is known.
    async fn read_tree(&mut self) -> Result<(), SessionEnd> {
        if self.tree.is_some() {
            return Ok(());
        }
        let tree = &self.tree_writer.tree;
        for path in [self.tree_writer.paths.notify(), own_dir(&self.context.config)] {
            tree.ensure(&path).await?;
        }
        self.notifications.read(tree, &self.tree_writer.paths).await?;
        let tree = self.tree_writer.read().await?;
        fault_injection::point("read");
        let accounts: usize = tree.instances.values().map(|observed| observed.accounts.len()).sum();
        info!(
            term = self.leadership.term().0,
            instances = tree.instances.len(),
            accounts,
            "read the tree of accounts"
        );
        for (id, observed) in &tree.instances {
            self.watcher.watch(&id.dir, Kind::Directory);
            if observed.alloc.is_some() {
                self.watcher.watch(&paths::alloc(&id.dir, &id.instance), Kind::Alloc);
            }
        }
        self.watcher.watch(&self.tree_writer.paths.notify(), Kind::Notify);
        (self.tree, self.is_dirty) = (Some(tree), true);
        self.uncertain.clear();
        Ok(())
    }

    /// Applies a watch event to the observed tree.
    fn apply_event(&mut self, event: WatchEvent) {
        // A watch loop repeats that a directory is missing; only the first report is a change.
        let mut is_change = true;
        match &event {
            WatchEvent::Notified(node) => self.notifications.latest = Some(node.version),
            WatchEvent::Missing { dir } => is_change = self.ensured_dirs.remove(dir),
            WatchEvent::Instances { .. } | WatchEvent::AllocChanged { .. } => {}
        }
        if let Some(tree) = &mut self.tree {
            for id in watch_events::apply(tree, event) {
                is_change = true;
                self.attached.remove(&id);
            }
        }
        self.is_dirty |= is_change;
    }

    /// Reads what has changed, compares and acts. Returns how long to wait before the next call.
    async fn reconcile_once(
        &mut self,
        store: &BookStore,
        session: &mut Session,
    ) -> Result<Duration, SessionEnd> {
        for event in self.watcher.events() {
            self.apply_event(event);
        }
        self.reread().await?;
        self.read_book(store).await?;
        self.ensure_directories().await?;
        let Some(mut tree) = self.tree.take() else { return Ok(RETRY_DELAY) };
        let result = self.apply_plan(store, session, &mut tree).await;
        // After an error the state of the tree is unknown, so it is read again.
        if result.is_ok() {
            self.tree = Some(tree);
        }
        result
    }

    /// Reads the instances again for which the outcome of a write is unknown, and now and then the others.
    async fn reread(&mut self) -> Result<(), SessionEnd> {
        let Some(tree) = &mut self.tree else { return Ok(()) };
        if !self.uncertain.is_empty() {
            self.tree_writer.reread(tree, &self.uncertain).await?;
            self.uncertain.clear();
            self.is_dirty = true;
        }
        self.is_dirty |= self.tree_audit.run(&self.tree_writer, tree).await?;
        Ok(())
    }

    /// Reads the book if it has changed, or if the last read is too old.
    async fn read_book(&mut self, store: &BookStore) -> Result<(), SessionEnd> {
        let notified = self.notifications.latest;
        let (was_read, changed) = self.reader.read(store, &self.tree_writer.paths, notified).await?;
        // The rows include everything up to the last applied event, and no event is applied during the read.
        if was_read && let Some(tree) = &mut self.tree {
            tree.refresh_previous_sessions(&self.reader.book);
        }
        self.is_dirty |= changed;
        Ok(())
    }

    /// Creates the directories of the book's modules, also those that others have deleted.
    async fn ensure_directories(&mut self) -> Result<(), SessionEnd> {
        for dir in self.reader.book.modules.keys() {
            if !self.ensured_dirs.contains(dir) {
                self.tree_writer.tree.ensure(dir).await?;
                self.watcher.watch(dir, Kind::Directory);
                self.ensured_dirs.insert(dir.clone());
            }
        }
        Ok(())
    }

    /// Compares tree and book, and applies the plan. Returns how long to wait before the next call.
    async fn apply_plan(
        &mut self,
        store: &BookStore,
        session: &mut Session,
        tree: &mut ObservedTree,
    ) -> Result<Duration, SessionEnd> {
        let tick = self.config.tick;
        if !self.is_dirty {
            return Ok(tick);
        }
        let unverified = unverified_assignments(tree, &self.reader.book);
        let unknown = self.reader.unknown_assignments(store, unverified).await?;
        let now = now_ms();
        let input = ReconcileInput {
            now,
            attached: &self.attached,
            counted: &self.counted,
            unknown: &unknown,
            longest: self.config.max_ttl.as_millis() as u64,
            barrier: self.barrier.then_some(self.config.barrier.as_millis() as u64),
            began: *self.compared.get_or_insert(now),
            write_backoff: &self.write_backoff,
        };
        let mut plan = plan(tree, &self.reader.book, &input);
        self.delay_returns(&mut plan);
        update_gauges(tree, &plan);
        if plan.is_done() {
            self.record_completion().await?;
            self.is_dirty = false;
        }
        let wait = plan.next.map_or(tick, |next| Duration::from_millis(next.saturating_sub(now_ms()).max(1)));
        if plan.next.is_some() {
            self.is_dirty = true;
        }
        if !plan.changes.is_empty() {
            self.leadership.check()?;
            let (term, grace) = (self.leadership.term().0, self.config.grace);
            self.attached.extend(actions::apply_changes(store, term, grace, &plan.changes).await?);
            self.note_counted(tree, &plan.changes);
            if plan.changes.iter().any(Change::affects_assignments) {
                self.reader.invalidate();
            }
            fault_injection::point("changed");
        }
        self.write(tree, &plan.revocations, now, "half-taken", "taken").await?;
        // An instance sees nothing that a failover could lose: neither accounts nor epochs.
        let confirmed = !plan.publishes() || self.confirm(store, session).await?;
        if confirmed {
            self.write(tree, &plan.reassignments, now, "half-reassigned", "reassigned").await?;
            self.write(tree, &plan.placements, now, "half-introduced", "introduced").await?;
        }
        if self.barrier && !plan.held_up {
            self.barrier = false;
            fault_injection::point("barrier");
        }
        if confirmed {
            self.write(tree, &plan.assignments, now, "half-shown", "shown").await?;
            metrics::counter!("allot_accounts_shown_total").increment(plan.assignments.len() as u64);
        }
        self.write_backoff.note(&self.uncertain.keys().cloned().collect(), now);
        if !self.write_backoff.has_refused() {
            self.publishing.succeeded();
        }
        self.update_watches(tree);
        // A plan that is the same as the last one had no effect, so it is repeated at the tick only.
        let idle = plan.is_empty() || plan == self.last_plan;
        self.last_plan = plan;
        Ok(if idle { wait.min(tick) } else { Duration::from_millis(1) })
    }

    /// Writes these actions, if there are any, and notes the instances for which the outcome is unknown. `half` and
    /// `done` are the fault points between two batches and after them.
    async fn write(
        &mut self,
        tree: &mut ObservedTree,
        actions: &[Action],
        now: u64,
        half: &'static str,
        done: &'static str,
    ) -> Result<(), SessionEnd> {
        let may_write = |action: &&Action| self.write_backoff.may_write(action.id(), now);
        let actions: Vec<Action> = actions.iter().filter(may_write).cloned().collect();
        if actions.is_empty() {
            return Ok(());
        }
        self.leadership.check()?;
        let (uncertain, refused) = self.tree_writer.apply(tree, &actions, now, half).await?;
        for (id, withdrawn) in uncertain {
            self.uncertain.entry(id).or_default().extend(withdrawn);
        }
        for (id, error) in refused {
            self.write_backoff.refused(id, now);
            self.publishing.report(&error);
        }
        fault_injection::point(done);
        Ok(())
    }

    /// Notes the use that was counted, and forgets the accounts that are published nowhere.
    fn note_counted(&mut self, tree: &ObservedTree, changes: &[Change]) {
        let published = tree.published_accounts();
        self.counted.retain(|account, _| published.contains(account.as_str()));
        for change in changes {
            if let Change::Report { account, epoch, total } = change {
                self.counted.entry(account.clone()).or_default().insert(*epoch, *total);
            }
        }
    }

    /// Holds back the return of an account that was returned recently.
    fn delay_returns(&mut self, plan: &mut Plan) {
        self.returned_at.retain(|_, at| at.elapsed() < RETURN_INTERVAL);
        let returned_at = &mut self.returned_at;
        let before = plan.changes.len();
        plan.changes.retain(|change| match change {
            Change::Return { account, .. } if returned_at.contains_key(account) => false,
            Change::Return { account, .. } => {
                returned_at.insert(account.clone(), Instant::now());
                true
            }
            _ => true,
        });
        if plan.changes.len() < before {
            plan.wake(now_ms() + RETURN_INTERVAL.as_millis() as u64);
        }
    }

    /// Watches instances with an `-alloc` node, and stops the other watches.
    fn update_watches(&mut self, tree: &ObservedTree) {
        for (id, observed) in &tree.instances {
            let path = paths::alloc(&id.dir, &id.instance);
            if observed.alloc.is_some() {
                self.watcher.watch(&path, Kind::Alloc);
            } else {
                self.watcher.forget(&path);
            }
        }
        let instances = &tree.instances;
        self.watcher.retain(|path| {
            let Some((dir, name)) = path.rsplit_once('/') else { return true };
            let Some(instance) = paths::instance_of(name) else { return true };
            instances.contains_key(&InstanceId { dir: dir.to_owned(), instance: instance.to_owned() })
        });
    }

    /// Whether replicas have confirmed the assignments in the book. The claim is a write that follows every
    /// assignment that was read, so its confirmation covers them.
    async fn confirm(&self, store: &BookStore, session: &mut Session) -> Result<bool, SessionEnd> {
        if self.config.wait_replicas == 0 {
            return Ok(true);
        }
        store.claim(self.leadership.term().0, &self.context.name).await?;
        if session.wait(self.config.wait_replicas, self.config.wait).await? {
            return Ok(true);
        }
        warn!(
            replicas = session.replicas,
            "no replica confirmed the last assignments in time; they are not published yet"
        );
        metrics::counter!("allot_accounts_unconfirmed_total").increment(1);
        Ok(false)
    }

    /// The tree equals the book: ends the take-over, and records the notification that was handled.
    async fn record_completion(&mut self) -> Result<(), SessionEnd> {
        if !self.taken_over {
            self.taken_over = true;
            let took = self.began.elapsed();
            metrics::gauge!("allot_accounts_takeover_seconds").set(took.as_secs_f64());
            info!(term = self.leadership.term().0, ?took, "reconciled the tree with the book");
            fault_injection::point("settled");
        }
        let TreeWriter { tree, paths } = &self.tree_writer;
        Ok(self.notifications.record(tree, paths, self.reader.notified).await?)
    }
}

fn update_gauges(tree: &ObservedTree, plan: &Plan) {
    let present = tree.instances.values().filter(|observed| observed.present.is_some()).count();
    let accounts: usize = tree.instances.values().map(|observed| observed.accounts.len()).sum();
    metrics::gauge!("allot_accounts_instances").set(present as f64);
    metrics::gauge!("allot_accounts_shown").set(accounts as f64);
    metrics::gauge!("allot_accounts_pending").set(plan.pending as f64);
}
