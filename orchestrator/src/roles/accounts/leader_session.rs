//! The leader of a book. Each session with Redis starts with a claim of the book. The leader reads the tree and compares
//! tree and book at every tick and after every watch event. It acts only while leadership holds. In addition, every
//! command carries the term, and every write of the tree is fenced.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tracing::{info, warn};

use super::observed_tree::{Book, InstanceId, ObservedTree};
use super::paths::own_dir;
use super::paths::{self, Paths};
use super::periodic_tasks::PeriodicTasks;
use super::reconcile::{Change, Plan, ReconcileInput, plan, unverified_assignments};
use super::tree_writer::TreeWriter;
use super::watcher::{Kind, WatchEvent, Watcher};
use super::write_backoff::WriteBackoff;
use super::{actions, fault_injection, watch_events};
use crate::config::AccountsConfig;
use crate::roles::context::RoleContext as Context;
use allot_client::{BookStore, Error, Record, Session};
use allot_coordination::{Kind as Node, Leadership, Version};
use allot_runtime::time::now_ms;
use allot_runtime::{LeaderRole, LeaderSession, SessionEnd};

/// Wait before the next tick if the tree is not read.
const RETRY_DELAY: Duration = Duration::from_millis(50);
/// Interval at which the whole book is read although its counters have not changed.
const FULL_READ_INTERVAL: Duration = Duration::from_secs(5);
/// Time for which a returned account stays assigned, even if its instance returns the account again.
const RETURN_INTERVAL: Duration = Duration::from_secs(1);
/// The pause before the book is read again is at least this many times the duration of the last read, so that a large
/// book is not read all the time.
const READ_PAUSE_FACTOR: u32 = 4;

/// The book at the last read.
#[derive(Default)]
struct BookSnapshot {
    book: Book,
    /// The counters of the book's record that change with every assignment.
    counters: Vec<u64>,
    /// The version of the notify node that was known before the read.
    notified: Option<Version>,
    /// The time of the read, and its duration; `None` if the book must be read again.
    at: Option<(Instant, Duration)>,
}

/// The leader of a book in one term.
pub(super) struct AccountsLeader<'a> {
    context: &'a Context,
    config: &'a AccountsConfig,
    leadership: Leadership,
    /// The book as this session with Redis has read it.
    snapshot: BookSnapshot,
    tree_writer: TreeWriter,
    watcher: Watcher,
    events: mpsc::UnboundedReceiver<WatchEvent>,
    began: Instant,
    tree: Option<ObservedTree>,
    /// Instances whose nodes must be read again, since the outcome of a write is unknown.
    uncertain: BTreeSet<InstanceId>,
    /// Instances whose nodes could not be written.
    write_backoff: WriteBackoff,
    /// Instances that this leader has attached in the book, each with the creation transaction of its node.
    attached: BTreeMap<InstanceId, i64>,
    /// The time at which each account was last returned. It limits the rate for an instance that returns an account as
    /// soon as it gets the account.
    returned_at: BTreeMap<String, Instant>,
    /// Assignments (account, epoch) that the leader has looked up in the book, and whether the book knows them.
    checked_assignments: BTreeMap<(String, u64), bool>,
    /// Module directories that exist.
    ensured_dirs: BTreeSet<String>,
    /// Whether the first deletes of this take-over are still to do; they come before all assignments.
    barrier: bool,
    /// The time of the first comparison of book and tree, in milliseconds since 1970.
    compared: Option<u64>,
    /// The latest version of the notify node.
    notify: Option<Version>,
    /// The version of the notify node that was last recorded as handled.
    recorded: Option<Version>,
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
        let (watcher, events) = Watcher::new(&context.config);
        Some(Self {
            context,
            config,
            tree_writer: TreeWriter { tree: leadership.tree().ok()?, paths: Paths::new(&config.root) },
            leadership: leadership.clone(),
            snapshot: BookSnapshot::default(),
            watcher,
            events,
            began: Instant::now(),
            tree: None,
            uncertain: BTreeSet::new(),
            write_backoff: WriteBackoff::new(config.barrier.as_millis() as u64),
            attached: BTreeMap::new(),
            returned_at: BTreeMap::new(),
            checked_assignments: BTreeMap::new(),
            ensured_dirs: BTreeSet::new(),
            barrier: true,
            compared: None,
            notify: None,
            recorded: None,
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
        self.snapshot = BookSnapshot::default();
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
        let mut snapshot = std::mem::take(&mut self.snapshot);
        let wait = self.reconcile_once(&self.store(session), session, &mut snapshot).await;
        self.snapshot = snapshot;
        wait
    }

    async fn event(&mut self) {
        match self.events.recv().await {
            Some(event) => self.apply_event(event),
            // The watcher lives as long as this leader.
            None => std::future::pending().await,
        }
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
        let notified = tree.get(&self.notified()).await?;
        self.recorded =
            notified.and_then(|node| String::from_utf8(node.data).ok()?.parse().ok()).map(Version);
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

    fn notified(&self) -> String {
        format!("{}/notified", own_dir(&self.context.config))
    }

    /// Applies a watch event to the observed tree.
    fn apply_event(&mut self, event: WatchEvent) {
        // A watch loop repeats that a directory is missing; only the first report is a change.
        let mut is_change = true;
        match &event {
            WatchEvent::Notified(node) => self.notify = Some(node.version),
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
        snapshot: &mut BookSnapshot,
    ) -> Result<Duration, SessionEnd> {
        while let Ok(event) = self.events.try_recv() {
            self.apply_event(event);
        }
        self.reread().await?;
        self.read_book(store, snapshot).await?;
        self.ensure_directories(&snapshot.book).await?;
        let Some(mut tree) = self.tree.take() else { return Ok(RETRY_DELAY) };
        let result = self.apply_plan(store, session, snapshot, &mut tree).await;
        // After an error the state of the tree is unknown, so it is read again.
        if result.is_ok() {
            self.tree = Some(tree);
        }
        result
    }

    /// Reads the instances again for which the outcome of a write is unknown.
    async fn reread(&mut self) -> Result<(), SessionEnd> {
        let Some(tree) = &mut self.tree else { return Ok(()) };
        while let Some(id) = self.uncertain.first().cloned() {
            self.tree_writer.reread(tree, &id).await?;
            self.uncertain.remove(&id);
            self.is_dirty = true;
        }
        Ok(())
    }

    /// Reads the book if it has changed, or if the last read is too old.
    async fn read_book(&mut self, store: &BookStore, snapshot: &mut BookSnapshot) -> Result<(), SessionEnd> {
        let notified = self.notify;
        let counters = change_counters(&store.info().await?)?;
        let is_due = match snapshot.at {
            None => true,
            Some((at, took)) => {
                let changed = counters != snapshot.counters || notified != snapshot.notified;
                at.elapsed() >= FULL_READ_INTERVAL.max(took * READ_PAUSE_FACTOR)
                    || changed && at.elapsed() >= took * READ_PAUSE_FACTOR
            }
        };
        if !is_due {
            return Ok(());
        }
        let began = Instant::now();
        let (modules, accounts) = (store.module_rows().await?, store.account_rows().await?);
        let paths = &self.tree_writer.paths;
        let book = Book::new(modules, accounts, |department, module| paths.module(department, module));
        // The rows include everything up to the last applied event, and no event is applied during the read.
        if let Some(tree) = &mut self.tree {
            tree.refresh_previous_sessions(&book);
        }
        self.is_dirty |= book != snapshot.book || snapshot.at.is_none() || notified != snapshot.notified;
        let at = Some((Instant::now(), began.elapsed()));
        *snapshot = BookSnapshot { book, counters, notified, at };
        Ok(())
    }

    /// Creates the directories of the book's modules, also those that others have deleted.
    async fn ensure_directories(&mut self, book: &Book) -> Result<(), SessionEnd> {
        for dir in book.modules.keys() {
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
        snapshot: &mut BookSnapshot,
        tree: &mut ObservedTree,
    ) -> Result<Duration, SessionEnd> {
        let tick = self.config.tick;
        if !self.is_dirty {
            return Ok(tick);
        }
        let book = &snapshot.book;
        let unknown = self.unknown_assignments(store, unverified_assignments(tree, book)).await?;
        let now = now_ms();
        let input = ReconcileInput {
            now,
            attached: &self.attached,
            unknown: &unknown,
            longest: self.config.max_ttl.as_millis() as u64,
            barrier: self.barrier.then_some(self.config.barrier.as_millis() as u64),
            began: *self.compared.get_or_insert(now),
            write_backoff: &self.write_backoff,
        };
        let mut plan = plan(tree, book, &input);
        self.delay_returns(&mut plan);
        update_gauges(tree, &plan);
        if plan.is_done() {
            self.record_completion(snapshot.notified).await?;
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
            snapshot.at = None;
            fault_injection::point("changed");
        }
        let mut uncertain = BTreeSet::new();
        for (actions, half, done) in
            [(&plan.revocations, "half-taken", "taken"), (&plan.placements, "half-introduced", "introduced")]
        {
            if !actions.is_empty() {
                self.leadership.check()?;
                uncertain.extend(self.tree_writer.apply(tree, actions, now, half).await?);
                fault_injection::point(done);
            }
        }
        if self.barrier && !plan.held_up {
            self.barrier = false;
            fault_injection::point("barrier");
        }
        if !plan.assignments.is_empty() && self.confirm(store, session).await? {
            self.leadership.check()?;
            uncertain.extend(self.tree_writer.apply(tree, &plan.assignments, now, "half-shown").await?);
            metrics::counter!("allot_accounts_shown_total").increment(plan.assignments.len() as u64);
            fault_injection::point("shown");
        }
        self.write_backoff.note(&uncertain, now);
        self.uncertain.extend(uncertain);
        self.update_watches(tree);
        // A plan that is the same as the last one had no effect, so it is repeated at the tick only.
        let idle = plan.is_empty() || plan == self.last_plan;
        self.last_plan = plan;
        Ok(if idle { wait.min(tick) } else { Duration::from_millis(1) })
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

    /// Returns those of these assignments (account, epoch) that the book does not know.
    async fn unknown_assignments(
        &mut self,
        store: &BookStore,
        unverified: BTreeSet<(String, u64)>,
    ) -> Result<BTreeSet<(String, u64)>, SessionEnd> {
        self.checked_assignments.retain(|assignment, _| unverified.contains(assignment));
        let new: Vec<&(String, u64)> = unverified
            .iter()
            .filter(|assignment| !self.checked_assignments.contains_key(*assignment))
            .collect();
        if !new.is_empty() {
            let names: Vec<&str> = new.iter().map(|(account, _)| account.as_str()).collect();
            for (assignment, epochs) in new.iter().zip(store.epochs(&names).await?) {
                let known = epochs.contains(&assignment.1);
                if !known {
                    warn!(
                        account = assignment.0,
                        epoch = assignment.1,
                        "the book does not know a published assignment"
                    );
                }
                self.checked_assignments.insert((*assignment).clone(), known);
            }
        }
        Ok(self
            .checked_assignments
            .iter()
            .filter(|(_, known)| !**known)
            .map(|(assignment, _)| assignment.clone())
            .collect())
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
    async fn record_completion(&mut self, notified: Option<Version>) -> Result<(), SessionEnd> {
        if !self.taken_over {
            self.taken_over = true;
            let took = self.began.elapsed();
            metrics::gauge!("allot_accounts_takeover_seconds").set(took.as_secs_f64());
            info!(term = self.leadership.term().0, ?took, "reconciled the tree with the book");
            fault_injection::point("settled");
        }
        let Some(version) = notified.filter(|version| Some(*version) != self.recorded) else { return Ok(()) };
        let (path, data) = (self.notified(), version.0.to_string());
        match self.tree_writer.tree.get(&path).await? {
            Some(node) => drop(self.tree_writer.tree.set(&path, data.as_bytes(), node.version).await?),
            None => self.tree_writer.tree.create(&path, data.as_bytes(), Node::Persistent).await?,
        }
        self.recorded = Some(version);
        info!(version = version.0, "handled a notification");
        fault_injection::point("recorded");
        Ok(())
    }
}

/// The counters of a book's record that change with every assignment.
fn change_counters(record: &Record) -> Result<Vec<u64>, Error> {
    let fields = ["last_epoch", "modules", "instances", "accounts", "free", "dealt", "revoking", "frozen"];
    fields.iter().map(|field| record.get(field)).collect()
}

fn update_gauges(tree: &ObservedTree, plan: &Plan) {
    let present = tree.instances.values().filter(|observed| observed.present.is_some()).count();
    let accounts: usize = tree.instances.values().map(|observed| observed.accounts.len()).sum();
    metrics::gauge!("allot_accounts_instances").set(present as f64);
    metrics::gauge!("allot_accounts_shown").set(accounts as f64);
    metrics::gauge!("allot_accounts_pending").set(plan.pending as f64);
}
