//! A session of leadership: claims the book, reads the tree, and then compares the two, whenever something was heard and at
//! every tick, in sessions with Redis of which each begins with a claim. It acts only while the lead holds; besides, every
//! command carries the term, and every write of the tree stands behind the fence.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::time::sleep;
use tracing::{debug, info, warn};

use super::observed_tree::{Book, InstanceId, ObservedTree};
use super::paths::{self, Paths};
use super::periodic_tasks::PeriodicTasks;
use super::reconcile::{Change, Plan, ReconcileInput, plan, suspects};
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

/// How often it is looked whether the server is still the master, and whether a month or a rebalancing is due.
const LOOK: Duration = Duration::from_secs(1);
/// How often a tree that cannot be written is tried.
const REFUSED: Duration = Duration::from_secs(1);
/// How long a tree that could not be read or written rests.
const PAUSE: Duration = Duration::from_millis(50);
/// How often the whole book is read although nothing of it seems to have changed.
const SWEEP: Duration = Duration::from_secs(5);
/// How long an account that was given back stays where it is then, whatever its instance says.
const GIVEN_BACK: Duration = Duration::from_secs(1);
/// The book is read again after so many times as long as it takes, so that a large one is not read all the time.
const REST: u32 = 4;

/// Why a session with Redis did not go on.
enum Fault {
    /// Redis.
    Store(Error),
    /// The coordination service.
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

/// One session.
pub(super) struct LeaderSession<'a> {
    context: &'a Context,
    config: &'a AccountsConfig,
    leader: Leader<'a>,
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

impl<'a> LeaderSession<'a> {
    pub(super) fn new(context: &'a Context, lead: &Leadership) -> Option<Self> {
        let config = &context.config.accounts;
        let (watcher, hearing) = Watcher::new(&context.config);
        Some(Self {
            context,
            config,
            tree_writer: TreeWriter { tree: lead.tree().ok()?, paths: Paths::new(&config.root) },
            leader: Leader::new(context, PART, lead.clone(), context.config.cmu.lease),
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

    /// Leads until it is over.
    pub(super) async fn run(mut self) {
        loop {
            let Some(session) = self.leader.session().await else { return };
            let began = Instant::now();
            match self.serve(session).await {
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
                    debug!(%error, "the tree cannot be read or written now");
                    if !error.is_transient() {
                        warn!(%error, "the tree cannot be read or written");
                        self.context.health.not_ready(PART, format!("the tree: {error}"));
                        sleep(REFUSED).await;
                    }
                    // What was on its way may or may not have been done.
                    self.tree = None;
                    sleep(PAUSE).await;
                }
                Err(Fault::Store(error)) => self.leader.session_failed(&error, began).await,
            }
        }
    }

    /// One session with Redis.
    async fn serve(&mut self, mut session: Session) -> Result<End, Fault> {
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
            // Those that are asked by this session have their time from now.
            self.compared = None;
        }
        self.begin().await?;
        let mut reading = Reading::default();
        let mut looked: Option<Instant> = None;
        loop {
            if !self.leader.may_act().await {
                return Ok(End::Over);
            }
            if looked.is_none_or(|looked| looked.elapsed() >= LOOK) {
                looked = Some(Instant::now());
                session.look().await?;
                if let Some(refusal) = self.periodic_tasks.look(&store, self.leader.lead.term().0).await? {
                    return Ok(End::Refused(refusal));
                }
            }
            let wait = match self.pass(&store, &mut session, &mut reading).await {
                Err(Fault::Store(error)) if error.code() == Some("STALE") => return Ok(End::Refused(error)),
                result => result?,
            };
            self.context.health.ready(PART);
            let mut shutdown = self.context.shutdown.clone();
            tokio::select! {
                () = sleep(wait) => {}
                heard = self.hearing.recv() => if let Some(heard) = heard { self.hear(heard); },
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

    /// Reads the whole tree, and begins to listen.
    async fn begin(&mut self) -> Result<(), Fault> {
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
    ) -> Result<Duration, Fault> {
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
    async fn reread(&mut self) -> Result<(), Fault> {
        let Some(tree) = &mut self.tree else { return Ok(()) };
        while let Some(id) = self.unclear.first().cloned() {
            self.tree_writer.reread(tree, &id).await?;
            self.unclear.remove(&id);
            self.news = true;
        }
        Ok(())
    }

    /// Reads the book, if it has changed or not been read for long.
    async fn read_book(&mut self, store: &BookStore, reading: &mut Reading) -> Result<(), Fault> {
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
    async fn make(&mut self, book: &Book) -> Result<(), Fault> {
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
    ) -> Result<Duration, Fault> {
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
            self.leader.lead.check()?;
            let (term, grace) = (self.leader.lead.term().0, self.config.grace);
            self.attached.extend(actions::carry_out(store, term, grace, &plan.changes).await?);
            reading.at = None;
            fault_injection::point("changed");
        }
        let mut unclear = BTreeSet::new();
        for (actions, half, done) in
            [(&plan.revocations, "half-taken", "taken"), (&plan.placements, "half-introduced", "introduced")]
        {
            if !actions.is_empty() {
                self.leader.lead.check()?;
                unclear.extend(self.tree_writer.take(tree, actions, now, half).await?);
                fault_injection::point(done);
            }
        }
        if self.barrier && !plan.held_up {
            self.barrier = false;
            fault_injection::point("barrier");
        }
        if !plan.assignments.is_empty() && self.confirm(store, session).await? {
            self.leader.lead.check()?;
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
    ) -> Result<BTreeSet<(String, u64)>, Fault> {
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
            "no replica confirmed the last deals in time; they are not shown yet"
        );
        metrics::counter!("allot_accounts_unconfirmed_total").increment(1);
        Ok(false)
    }

    /// The tree is what the book says.
    async fn settled(&mut self, notified: Option<Version>) -> Result<(), Fault> {
        if !self.taken_over {
            self.taken_over = true;
            let took = self.began.elapsed();
            metrics::gauge!("allot_accounts_takeover_seconds").set(took.as_secs_f64());
            info!(term = self.leader.lead.term().0, ?took, "the tree is what the book says");
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
