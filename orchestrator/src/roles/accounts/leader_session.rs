//! One leadership session: it claims the book, reads the tree, and then compares the two after each event and at
//! every tick. Each session with Redis begins with a claim. The leader acts only while its leadership holds. In
//! addition, every command carries the term, and every write of the tree carries the fence.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::time::sleep;
use tracing::{debug, info, warn};

use super::observed_tree::{Book, InstanceId, ObservedTree};
use super::paths::{self, Paths};
use super::periodic_tasks::PeriodicTasks;
use super::reconcile::{Change, Plan, ReconcileInput, plan, unverified_assignments};
use super::tree_writer::TreeWriter;
use super::watcher::{Kind, WatchEvent, Watcher};
use super::write_backoff::WriteBackoff;
use super::{PART, actions, fault_injection, own_dir, watch_events};
use crate::config::AccountsConfig;
use crate::roles::context::RoleContext as Context;
use allot_client::{BookStore, Error, Record, Session};
use allot_coordination::{self, Kind as Node, Leadership, Version};
use allot_runtime::time::now_ms;
use allot_runtime::{End, Leader};

/// How often the leader checks that the server is still the master, and runs its periodic tasks.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long the leader pauses when ZooKeeper refuses a read or write.
const REFUSED_DELAY: Duration = Duration::from_secs(1);
/// How long the leader pauses after any failed read or write of the tree.
const RETRY_DELAY: Duration = Duration::from_millis(50);
/// How often the leader reads the whole book although nothing in it seems to have changed.
const FULL_READ_INTERVAL: Duration = Duration::from_secs(5);
/// How long the leader waits before it passes on a second return of the same account.
const RETURN_INTERVAL: Duration = Duration::from_secs(1);
/// The leader reads the book again after this many times the duration of the last read, so that a large book is not
/// read all the time.
const READ_PAUSE_FACTOR: u32 = 4;

/// Why a session with Redis ended early.
enum Fault {
    /// A command to Redis failed.
    Store(Error),
    /// A request to ZooKeeper failed.
    Tree(allot_coordination::Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<allot_coordination::Error> for Fault {
    fn from(error: allot_coordination::Error) -> Self {
        Self::Tree(error)
    }
}

/// The book as it was last read.
#[derive(Default)]
struct BookSnapshot {
    book: Book,
    /// The counters of the book's record that change with every assignment.
    counters: Vec<u64>,
    /// The version of the notify node that was known before the read.
    notified: Option<Version>,
    /// When the book was read, and how long the read took; `None` if it must be read again.
    at: Option<(Instant, Duration)>,
}

/// The state of one leadership session.
pub(super) struct LeaderSession<'a> {
    context: &'a Context,
    config: &'a AccountsConfig,
    leader: Leader<'a>,
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
    /// When each account was last returned. An instance that returns an account as soon as it gets it does not get it
    /// back at that speed.
    returned_at: BTreeMap<String, Instant>,
    /// Assignments (account, epoch) that the leader checked_assignments the book about, and whether the book knows them.
    checked_assignments: BTreeMap<(String, u64), bool>,
    /// Module directories that exist.
    ensured_dirs: BTreeSet<String>,
    /// Whether the first deletes of this take-over are still to do; they come before all assignments.
    barrier: bool,
    /// When book and tree were first compared, in milliseconds since 1970.
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

impl<'a> LeaderSession<'a> {
    pub(super) fn new(context: &'a Context, lead: &Leadership) -> Option<Self> {
        let config = &context.config.accounts;
        let (watcher, events) = Watcher::new(&context.config);
        Some(Self {
            context,
            config,
            tree_writer: TreeWriter { tree: lead.tree().ok()?, paths: Paths::new(&config.root) },
            leader: Leader::new(context, PART, lead.clone(), context.config.cmu.lease),
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

    /// Runs until the leadership ends or the process shuts down.
    pub(super) async fn run(mut self) {
        loop {
            let Some(session) = self.leader.session().await else { return };
            let began = Instant::now();
            match self.run_store_session(session).await {
                Ok(End::Over)
                | Err(Fault::Tree(
                    allot_coordination::Error::NotLeading | allot_coordination::Error::Closed,
                )) => return,
                Ok(End::Refused(refusal)) => {
                    let way_in = format!("`ACCOUNT.TERM {} 0 none FORCE`", self.config.book);
                    self.leader.shut_out(&refusal, &way_in).await;
                }
                Err(Fault::Tree(error)) => {
                    self.leader.heard();
                    debug!(%error, "cannot read or write the tree; retrying");
                    if !error.is_transient() {
                        warn!(%error, "ZooKeeper refuses to read or write the tree; retrying in a second");
                        self.context.health.not_ready(PART, format!("the tree: {error}"));
                        sleep(REFUSED_DELAY).await;
                    }
                    // Writes in flight may or may not have been done, so the whole tree is read again.
                    self.tree = None;
                    sleep(RETRY_DELAY).await;
                }
                Err(Fault::Store(error)) => self.leader.session_failed(&error, began).await,
            }
        }
    }

    /// Runs one session with Redis.
    async fn run_store_session(&mut self, mut session: Session) -> Result<End, Fault> {
        let store = BookStore::new(session.connection.clone(), &self.config.book);
        if !self.leader.may_act().await {
            return Ok(End::Over);
        }
        store.book().await?;
        if let Some(end) = self.claim(&store).await? {
            return Ok(end);
        }
        fault_injection::point("claimed");
        if self.barrier {
            // Instances that are asked in this session get their full time from now.
            self.compared = None;
        }
        self.read_tree().await?;
        let mut snapshot = BookSnapshot::default();
        let mut checked_at: Option<Instant> = None;
        loop {
            if !self.leader.may_act().await {
                return Ok(End::Over);
            }
            if checked_at.is_none_or(|checked_at| checked_at.elapsed() >= CHECK_INTERVAL) {
                checked_at = Some(Instant::now());
                session.look().await?;
                if let Some(refusal) = self.periodic_tasks.run(&store, self.leader.lead.term().0).await? {
                    return Ok(End::Refused(refusal));
                }
            }
            let wait = match self.reconcile_once(&store, &mut session, &mut snapshot).await {
                Err(Fault::Store(error)) if error.code() == Some("STALE") => return Ok(End::Refused(error)),
                result => result?,
            };
            self.context.health.ready(PART);
            let mut shutdown = self.context.shutdown.clone();
            tokio::select! {
                () = sleep(wait) => {}
                event = self.events.recv() => if let Some(event) = event { self.apply_event(event); },
                () = self.leader.lead.lost() => return Ok(End::Over),
                () = shutdown.requested() => return Ok(End::Over),
            }
        }
    }

    async fn claim(&self, store: &BookStore) -> Result<Option<End>, Fault> {
        match store.claim(self.leader.lead.term().0, &self.context.name).await {
            Err(error) if error.code() == Some("STALE") => Ok(Some(End::Refused(error))),
            result => Ok(result.map(|()| None)?),
        }
    }

    /// Reads the whole tree and starts its watches, unless the tree is known.
    async fn read_tree(&mut self) -> Result<(), Fault> {
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
            term = self.leader.lead.term().0,
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
    ) -> Result<Duration, Fault> {
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
    async fn reread(&mut self) -> Result<(), Fault> {
        let Some(tree) = &mut self.tree else { return Ok(()) };
        while let Some(id) = self.uncertain.first().cloned() {
            self.tree_writer.reread(tree, &id).await?;
            self.uncertain.remove(&id);
            self.is_dirty = true;
        }
        Ok(())
    }

    /// Reads the book if it has changed, or if the last read is too old.
    async fn read_book(&mut self, store: &BookStore, snapshot: &mut BookSnapshot) -> Result<(), Fault> {
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
    async fn ensure_directories(&mut self, book: &Book) -> Result<(), Fault> {
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
    ) -> Result<Duration, Fault> {
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
            self.leader.lead.check()?;
            let (term, grace) = (self.leader.lead.term().0, self.config.grace);
            self.attached.extend(actions::apply_changes(store, term, grace, &plan.changes).await?);
            snapshot.at = None;
            fault_injection::point("changed");
        }
        let mut uncertain = BTreeSet::new();
        for (actions, half, done) in
            [(&plan.revocations, "half-taken", "taken"), (&plan.placements, "half-introduced", "introduced")]
        {
            if !actions.is_empty() {
                self.leader.lead.check()?;
                uncertain.extend(self.tree_writer.apply(tree, actions, now, half).await?);
                fault_injection::point(done);
            }
        }
        if self.barrier && !plan.held_up {
            self.barrier = false;
            fault_injection::point("barrier");
        }
        if !plan.assignments.is_empty() && self.confirm(store, session).await? {
            self.leader.lead.check()?;
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

    /// Holds back the return of an account that was returned a moment ago.
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

    /// Which of these assignments (account, epoch) the book does not know.
    async fn unknown_assignments(
        &mut self,
        store: &BookStore,
        unverified: BTreeSet<(String, u64)>,
    ) -> Result<BTreeSet<(String, u64)>, Fault> {
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
                    warn!(account = assignment.0, epoch = assignment.1, "the book does not know this deal");
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
    async fn confirm(&self, store: &BookStore, session: &mut Session) -> Result<bool, Fault> {
        if self.config.wait_replicas == 0 {
            return Ok(true);
        }
        store.claim(self.leader.lead.term().0, &self.context.name).await?;
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
    async fn record_completion(&mut self, notified: Option<Version>) -> Result<(), Fault> {
        if !self.taken_over {
            self.taken_over = true;
            let took = self.began.elapsed();
            metrics::gauge!("allot_accounts_takeover_seconds").set(took.as_secs_f64());
            info!(term = self.leader.lead.term().0, ?took, "reconciled the tree with the book");
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
