//! The leader of a book. Each session with Redis starts with a claim of the book. The leader reads the tree and compares
//! tree and book at every tick and after every watch event. It acts only while leadership holds. In addition, every
//! command carries the term, and every write of the tree is fenced.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tracing::{info, warn};

use super::observed_tree::{Book, InstanceId, ObservedTree};
use super::paths::{self, Paths};
use super::periodic_tasks::PeriodicTasks;
use super::reconcile::{Change, Plan, ReconcileInput, plan, suspects};
use super::tree_writer::TreeWriter;
use super::watcher::{Kind, WatchEvent, Watcher};
use super::write_backoff::WriteBackoff;
use super::{actions, fault_injection, own_dir, watch_events};
use crate::config::AccountsConfig;
use crate::roles::context::RoleContext as Context;
use allot_client::{BookStore, Error, Record, Session};
use allot_coordination::{Kind as Node, Leadership, Version};
use allot_runtime::time::now_ms;
use allot_runtime::{LeaderRole, LeaderSession, SessionEnd};

/// Wait before the next tick if the tree is not read.
const PAUSE: Duration = Duration::from_millis(50);
/// How often the whole book is read although nothing of it seems to have changed.
const SWEEP: Duration = Duration::from_secs(5);
/// How long an account that was given back stays where it is then, whatever its instance says.
const GIVEN_BACK: Duration = Duration::from_secs(1);
/// The book is read again after so many times as long as it takes, so that a large one is not read all the time.
const REST: u32 = 4;

/// The book as it was read last.
#[derive(Default)]
struct Reading {
    book: Book,
    /// What of its record tells that it has changed.
    mark: Vec<u64>,
    /// The version of the notify node that was known before.
    notified: Option<Version>,
    /// When it was read, and how long that took.
    at: Option<(Instant, Duration)>,
}

/// The leader of a book in one term.
pub(super) struct AccountsLeader<'a> {
    context: &'a Context,
    config: &'a AccountsConfig,
    leadership: Leadership,
    /// The book as this session with Redis has read it.
    reading: Reading,
    tree_writer: TreeWriter,
    watcher: Watcher,
    hearing: mpsc::UnboundedReceiver<WatchEvent>,
    began: Instant,
    tree: Option<ObservedTree>,
    /// Instances of which it is not known what stands in the tree.
    unclear: BTreeSet<InstanceId>,
    /// Instances of which something could not be written.
    write_backoff: WriteBackoff,
    /// Nodes of instances that the book was told of.
    attached: BTreeMap<InstanceId, i64>,
    /// Accounts that were given back of late. One that an instance gives back as soon as it has it is not dealt as fast as
    /// that.
    given_back: BTreeMap<String, Instant>,
    /// Deals of which it was asked whether the book knows them.
    asked: BTreeMap<(String, u64), bool>,
    /// Directories that are there.
    made: BTreeSet<String>,
    /// Whether the first deletes of this take-over are not done.
    barrier: bool,
    /// When book and tree were compared first, in milliseconds since 1970.
    compared: Option<u64>,
    /// The notify node's version, and the one that was dealt with.
    notify: Option<Version>,
    recorded: Option<Version>,
    periodic_tasks: PeriodicTasks,
    /// Whether something was heard, or done, since book and tree were compared.
    news: bool,
    /// What was to be done last.
    last: Plan,
    /// Whether this take-over is done.
    taken_over: bool,
}

impl<'a> AccountsLeader<'a> {
    pub(super) fn new(context: &'a Context, leadership: &Leadership) -> Option<Self> {
        let config = &context.config.accounts;
        let (watcher, hearing) = Watcher::new(&context.config);
        Some(Self {
            context,
            config,
            tree_writer: TreeWriter { tree: leadership.tree().ok()?, paths: Paths::new(&config.root) },
            leadership: leadership.clone(),
            reading: Reading::default(),
            watcher,
            hearing,
            began: Instant::now(),
            tree: None,
            unclear: BTreeSet::new(),
            write_backoff: WriteBackoff::new(config.barrier.as_millis() as u64),
            attached: BTreeMap::new(),
            given_back: BTreeMap::new(),
            asked: BTreeMap::new(),
            made: BTreeSet::new(),
            barrier: true,
            compared: None,
            notify: None,
            recorded: None,
            periodic_tasks: PeriodicTasks::new(config),
            news: true,
            last: Plan::default(),
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
            // The time of instances that are asked in this session starts now.
            self.compared = None;
        }
        self.reading = Reading::default();
        self.read_tree().await
    }

    async fn check(&mut self, session: &mut Session) -> Result<(), SessionEnd> {
        match self.periodic_tasks.look(&self.store(session), self.leadership.term().0).await? {
            Some(refusal) => Err(SessionEnd::TermRefused(refusal)),
            None => Ok(()),
        }
    }

    async fn tick(
        &mut self,
        _: &mut LeaderSession<'_>,
        session: &mut Session,
    ) -> Result<Duration, SessionEnd> {
        let mut reading = std::mem::take(&mut self.reading);
        let wait = self.pass(&self.store(session), session, &mut reading).await;
        self.reading = reading;
        wait
    }

    async fn event(&mut self) {
        match self.hearing.recv().await {
            Some(event) => self.hear(event),
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
    /// Reads the whole tree, and begins to listen.
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
            "the tree is read"
        );
        for (id, observed) in &tree.instances {
            self.watcher.listen(&id.dir, Kind::Directory);
            if observed.alloc.is_some() {
                self.watcher.listen(&paths::alloc(&id.dir, &id.instance), Kind::Alloc);
            }
        }
        self.watcher.listen(&self.tree_writer.paths.notify(), Kind::Notify);
        (self.tree, self.news) = (Some(tree), true);
        self.unclear.clear();
        Ok(())
    }

    fn notified(&self) -> String {
        format!("{}/notified", own_dir(&self.context.config))
    }

    /// Something was heard.
    fn hear(&mut self, heard: WatchEvent) {
        // That a directory is missing is said again and again, and is news once.
        let mut is_news = true;
        match &heard {
            WatchEvent::Notified(node) => self.notify = Some(node.version),
            WatchEvent::Missing { dir } => is_news = self.made.remove(dir),
            WatchEvent::Instances { .. } | WatchEvent::AllocChanged { .. } => {}
        }
        if let Some(tree) = &mut self.tree {
            for id in watch_events::note(tree, heard) {
                is_news = true;
                self.attached.remove(&id);
            }
        }
        self.news |= is_news;
    }

    /// Looks, compares and acts; how long to wait then.
    async fn pass(
        &mut self,
        store: &BookStore,
        session: &mut Session,
        reading: &mut Reading,
    ) -> Result<Duration, SessionEnd> {
        while let Ok(heard) = self.hearing.try_recv() {
            self.hear(heard);
        }
        self.reread().await?;
        self.read_book(store, reading).await?;
        self.make(&reading.book).await?;
        let Some(mut tree) = self.tree.take() else { return Ok(PAUSE) };
        let result = self.act(store, session, reading, &mut tree).await;
        // Where that failed, what stands there now is not known.
        if result.is_ok() {
            self.tree = Some(tree);
        }
        result
    }

    /// Reads again what is not known for certain.
    async fn reread(&mut self) -> Result<(), SessionEnd> {
        let Some(tree) = &mut self.tree else { return Ok(()) };
        while let Some(id) = self.unclear.first().cloned() {
            self.tree_writer.reread(tree, &id).await?;
            self.unclear.remove(&id);
            self.news = true;
        }
        Ok(())
    }

    /// Reads the book, if it has changed or not been read for long.
    async fn read_book(&mut self, store: &BookStore, reading: &mut Reading) -> Result<(), SessionEnd> {
        let notified = self.notify;
        let mark = mark(&store.info().await?)?;
        let due = match reading.at {
            None => true,
            Some((at, took)) => {
                let changed = mark != reading.mark || notified != reading.notified;
                at.elapsed() >= SWEEP.max(took * REST) || changed && at.elapsed() >= took * REST
            }
        };
        if !due {
            return Ok(());
        }
        let began = Instant::now();
        let (modules, accounts) = (store.module_rows().await?, store.account_rows().await?);
        let paths = &self.tree_writer.paths;
        let book = Book::new(modules, accounts, |department, module| paths.module(department, module));
        // Whatever was heard before is in it, and nothing is heard while it is read.
        if let Some(tree) = &mut self.tree {
            tree.settle(&book);
        }
        self.news |= book != reading.book || reading.at.is_none() || notified != reading.notified;
        let at = Some((Instant::now(), began.elapsed()));
        *reading = Reading { book, mark, notified, at };
        Ok(())
    }

    /// Makes the directories of the book's modules, those again that others have deleted.
    async fn make(&mut self, book: &Book) -> Result<(), SessionEnd> {
        for dir in book.modules.keys() {
            if !self.made.contains(dir) {
                self.tree_writer.tree.ensure(dir).await?;
                self.watcher.listen(dir, Kind::Directory);
                self.made.insert(dir.clone());
            }
        }
        Ok(())
    }

    /// Compares, and does what follows.
    async fn act(
        &mut self,
        store: &BookStore,
        session: &mut Session,
        reading: &mut Reading,
        tree: &mut ObservedTree,
    ) -> Result<Duration, SessionEnd> {
        let tick = self.config.tick;
        if !self.news {
            return Ok(tick);
        }
        let book = &reading.book;
        let unknown = self.unknown(store, suspects(tree, book)).await?;
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
        self.pace(&mut plan);
        measure(tree, &plan);
        if plan.is_done() {
            self.settled(reading.notified).await?;
            self.news = false;
        }
        let wait = plan.next.map_or(tick, |next| Duration::from_millis(next.saturating_sub(now_ms()).max(1)));
        if plan.next.is_some() {
            self.news = true;
        }
        if !plan.changes.is_empty() {
            self.leadership.check()?;
            let (term, grace) = (self.leadership.term().0, self.config.grace);
            self.attached.extend(actions::carry_out(store, term, grace, &plan.changes).await?);
            reading.at = None;
            fault_injection::point("changed");
        }
        let mut unclear = BTreeSet::new();
        for (actions, half, done) in
            [(&plan.revocations, "half-taken", "taken"), (&plan.placements, "half-introduced", "introduced")]
        {
            if !actions.is_empty() {
                self.leadership.check()?;
                unclear.extend(self.tree_writer.take(tree, actions, now, half).await?);
                fault_injection::point(done);
            }
        }
        if self.barrier && !plan.held_up {
            self.barrier = false;
            fault_injection::point("barrier");
        }
        if !plan.assignments.is_empty() && self.confirm(store, session).await? {
            self.leadership.check()?;
            unclear.extend(self.tree_writer.take(tree, &plan.assignments, now, "half-shown").await?);
            metrics::counter!("allot_accounts_shown_total").increment(plan.assignments.len() as u64);
            fault_injection::point("shown");
        }
        self.write_backoff.note(&unclear, now);
        self.unclear.extend(unclear);
        self.listen(tree);
        // What did not help the first time is not done as fast as it can be.
        let idle = plan.is_empty() || plan == self.last;
        self.last = plan;
        Ok(if idle { wait.min(tick) } else { Duration::from_millis(1) })
    }

    /// What was given back a input ago is not dealt anew at once.
    fn pace(&mut self, plan: &mut Plan) {
        self.given_back.retain(|_, at| at.elapsed() < GIVEN_BACK);
        let given_back = &mut self.given_back;
        let before = plan.changes.len();
        plan.changes.retain(|change| match change {
            Change::Return { account, .. } if given_back.contains_key(account) => false,
            Change::Return { account, .. } => {
                given_back.insert(account.clone(), Instant::now());
                true
            }
            _ => true,
        });
        if plan.changes.len() < before {
            plan.wake(now_ms() + GIVEN_BACK.as_millis() as u64);
        }
    }

    /// Listens to instances that have come, and to others no more.
    fn listen(&mut self, tree: &ObservedTree) {
        for (id, observed) in &tree.instances {
            let path = paths::alloc(&id.dir, &id.instance);
            if observed.alloc.is_some() {
                self.watcher.listen(&path, Kind::Alloc);
            } else {
                self.watcher.forget(&path);
            }
        }
        let places = &tree.instances;
        self.watcher.retain(|path| {
            let Some((dir, name)) = path.rsplit_once('/') else { return true };
            let Some(instance) = paths::instance_of(name) else { return true };
            places.contains_key(&InstanceId { dir: dir.to_owned(), instance: instance.to_owned() })
        });
    }

    /// Which of these deals the book does not know.
    async fn unknown(
        &mut self,
        store: &BookStore,
        suspects: BTreeSet<(String, u64)>,
    ) -> Result<BTreeSet<(String, u64)>, SessionEnd> {
        self.asked.retain(|deal, _| suspects.contains(deal));
        let new: Vec<&(String, u64)> =
            suspects.iter().filter(|deal| !self.asked.contains_key(*deal)).collect();
        if !new.is_empty() {
            let names: Vec<&str> = new.iter().map(|(account, _)| account.as_str()).collect();
            for (deal, epochs) in new.iter().zip(store.epochs(&names).await?) {
                let known = epochs.contains(&deal.1);
                if !known {
                    warn!(account = deal.0, epoch = deal.1, "the book does not know this deal");
                }
                self.asked.insert((*deal).clone(), known);
            }
        }
        Ok(self.asked.iter().filter(|(_, known)| !**known).map(|(deal, _)| deal.clone()).collect())
    }

    /// Whether what the book says is safe from a failover. The claim is a write of ours that stands behind every deal
    /// that was read, so that its confirmation is theirs.
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
            "no replica confirmed the last deals in time; they are not shown yet"
        );
        metrics::counter!("allot_accounts_unconfirmed_total").increment(1);
        Ok(false)
    }

    /// The tree is what the book says.
    async fn settled(&mut self, notified: Option<Version>) -> Result<(), SessionEnd> {
        if !self.taken_over {
            self.taken_over = true;
            let took = self.began.elapsed();
            metrics::gauge!("allot_accounts_takeover_seconds").set(took.as_secs_f64());
            info!(term = self.leadership.term().0, ?took, "the tree is what the book says");
            fault_injection::point("settled");
        }
        let Some(version) = notified.filter(|version| Some(*version) != self.recorded) else { return Ok(()) };
        let (path, data) = (self.notified(), version.0.to_string());
        match self.tree_writer.tree.get(&path).await? {
            Some(node) => drop(self.tree_writer.tree.set(&path, data.as_bytes(), node.version).await?),
            None => self.tree_writer.tree.create(&path, data.as_bytes(), Node::Persistent).await?,
        }
        self.recorded = Some(version);
        info!(version = version.0, "a notice is dealt with");
        fault_injection::point("recorded");
        Ok(())
    }
}

/// What of a book's record changes with every deal.
fn mark(record: &Record) -> Result<Vec<u64>, Error> {
    let fields = ["last_epoch", "modules", "instances", "accounts", "free", "dealt", "revoking", "frozen"];
    fields.iter().map(|field| record.get(field)).collect()
}

fn measure(tree: &ObservedTree, plan: &Plan) {
    let present = tree.instances.values().filter(|observed| observed.present.is_some()).count();
    let accounts: usize = tree.instances.values().map(|observed| observed.accounts.len()).sum();
    metrics::gauge!("allot_accounts_instances").set(present as f64);
    metrics::gauge!("allot_accounts_shown").set(accounts as f64);
    metrics::gauge!("allot_accounts_pending").set(plan.pending as f64);
}
