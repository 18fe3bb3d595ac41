//! A stint of leadership: claims the book, reads the tree, and then compares the two, whenever something was heard and at
//! every tick, in sessions with Redis of which each begins with a claim. It acts only while the lead holds; besides, every
//! command carries the term, and every write of the tree stands behind the fence.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::time::sleep;
use tracing::{debug, info, warn};

use super::chores::Chores;
use super::ears::{Ears, Heard, Kind};
use super::hands::Hands;
use super::paths::{self, Paths};
use super::plan::{Change, Moment, Plan, plan, suspects};
use super::stuck::Stuck;
use super::view::{Book, Place, View};
use super::{PART, fault, hearing, orders, own_dir};
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

/// One stint.
pub(super) struct Stint<'a> {
    context: &'a Context,
    config: &'a AccountsConfig,
    leader: Leader<'a>,
    hands: Hands,
    ears: Ears,
    hearing: mpsc::UnboundedReceiver<Heard>,
    began: Instant,
    view: Option<View>,
    /// Instances of which it is not known what stands in the tree.
    unclear: BTreeSet<Place>,
    /// Instances of which something could not be written.
    stuck: Stuck,
    /// Nodes of instances that the book was told of.
    attached: BTreeMap<Place, i64>,
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
    chores: Chores,
    /// Whether something was heard, or done, since book and tree were compared.
    news: bool,
    /// What was to be done last.
    last: Plan,
    /// Whether this take-over is done.
    taken_over: bool,
}

impl<'a> Stint<'a> {
    pub(super) fn new(context: &'a Context, lead: &Leadership) -> Option<Self> {
        let config = &context.config.accounts;
        let (ears, hearing) = Ears::new(&context.config);
        Some(Self {
            context,
            config,
            hands: Hands { tree: lead.tree().ok()?, paths: Paths::new(&config.root) },
            leader: Leader::new(context, PART, lead.clone(), context.config.cmu.lease),
            ears,
            hearing,
            began: Instant::now(),
            view: None,
            unclear: BTreeSet::new(),
            stuck: Stuck::new(config.barrier.as_millis() as u64),
            attached: BTreeMap::new(),
            given_back: BTreeMap::new(),
            asked: BTreeMap::new(),
            made: BTreeSet::new(),
            barrier: true,
            compared: None,
            notify: None,
            recorded: None,
            chores: Chores::new(config),
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
                    self.view = None;
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
        fault::point("claimed");
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
                if let Some(refusal) = self.chores.look(&store, self.leader.lead.term().0).await? {
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
        if self.view.is_some() {
            return Ok(());
        }
        let tree = &self.hands.tree;
        for path in [self.hands.paths.notify(), own_dir(&self.context.config)] {
            tree.ensure(&path).await?;
        }
        let notified = tree.get(&self.notified()).await?;
        self.recorded =
            notified.and_then(|node| String::from_utf8(node.data).ok()?.parse().ok()).map(Version);
        let view = self.hands.read().await?;
        fault::point("read");
        let accounts: usize = view.places.values().map(|stand| stand.accounts.len()).sum();
        info!(term = self.leader.lead.term().0, instances = view.places.len(), accounts, "the tree is read");
        for (place, stand) in &view.places {
            self.ears.listen(&place.dir, Kind::Directory);
            if stand.alloc.is_some() {
                self.ears.listen(&paths::alloc(&place.dir, &place.instance), Kind::Alloc);
            }
        }
        self.ears.listen(&self.hands.paths.notify(), Kind::Notify);
        (self.view, self.news) = (Some(view), true);
        self.unclear.clear();
        Ok(())
    }

    fn notified(&self) -> String {
        format!("{}/notified", own_dir(&self.context.config))
    }

    /// Something was heard.
    fn hear(&mut self, heard: Heard) {
        // That a directory is missing is said again and again, and is news once.
        let mut is_news = true;
        match &heard {
            Heard::Notified(node) => self.notify = Some(node.version),
            Heard::Missing { dir } => is_news = self.made.remove(dir),
            Heard::There { .. } | Heard::Said { .. } => {}
        }
        if let Some(view) = &mut self.view {
            for place in hearing::note(view, heard) {
                is_news = true;
                self.attached.remove(&place);
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
        let Some(mut view) = self.view.take() else { return Ok(PAUSE) };
        let result = self.act(store, session, reading, &mut view).await;
        // Where that failed, what stands there now is not known.
        if result.is_ok() {
            self.view = Some(view);
        }
        result
    }

    /// Reads again what is not known for certain.
    async fn reread(&mut self) -> Result<(), Fault> {
        let Some(view) = &mut self.view else { return Ok(()) };
        while let Some(place) = self.unclear.first().cloned() {
            self.hands.reread(view, &place).await?;
            self.unclear.remove(&place);
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
        let paths = &self.hands.paths;
        let book = Book::new(modules, accounts, |department, module| paths.module(department, module));
        // Whatever was heard before is in it, and nothing is heard while it is read.
        if let Some(view) = &mut self.view {
            view.settle(&book);
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
                self.hands.tree.ensure(dir).await?;
                self.ears.listen(dir, Kind::Directory);
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
        view: &mut View,
    ) -> Result<Duration, Fault> {
        let tick = self.config.tick;
        if !self.news {
            return Ok(tick);
        }
        let book = &reading.book;
        let unknown = self.unknown(store, suspects(view, book)).await?;
        let now = now_ms();
        let moment = Moment {
            now,
            attached: &self.attached,
            unknown: &unknown,
            longest: self.config.max_ttl.as_millis() as u64,
            barrier: self.barrier.then_some(self.config.barrier.as_millis() as u64),
            began: *self.compared.get_or_insert(now),
            stuck: &self.stuck,
        };
        let mut plan = plan(view, book, &moment);
        self.pace(&mut plan);
        measure(view, &plan);
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
            self.attached.extend(orders::carry_out(store, term, grace, &plan.changes).await?);
            reading.at = None;
            fault::point("changed");
        }
        let mut unclear = BTreeSet::new();
        for (steps, half, done) in
            [(&plan.takes, "half-taken", "taken"), (&plan.places, "half-introduced", "introduced")]
        {
            if !steps.is_empty() {
                self.leader.lead.check()?;
                unclear.extend(self.hands.take(view, steps, now, half).await?);
                fault::point(done);
            }
        }
        if self.barrier && !plan.held_up {
            self.barrier = false;
            fault::point("barrier");
        }
        if !plan.shows.is_empty() && self.confirm(store, session).await? {
            self.leader.lead.check()?;
            unclear.extend(self.hands.take(view, &plan.shows, now, "half-shown").await?);
            metrics::counter!("allot_accounts_shown_total").increment(plan.shows.len() as u64);
            fault::point("shown");
        }
        self.stuck.note(&unclear, now);
        self.unclear.extend(unclear);
        self.listen(view);
        // What did not help the first time is not done as fast as it can be.
        let idle = plan.is_empty() || plan == self.last;
        self.last = plan;
        Ok(if idle { wait.min(tick) } else { Duration::from_millis(1) })
    }

    /// What was given back a moment ago is not dealt anew at once.
    fn pace(&mut self, plan: &mut Plan) {
        self.given_back.retain(|_, at| at.elapsed() < GIVEN_BACK);
        let given_back = &mut self.given_back;
        let before = plan.changes.len();
        plan.changes.retain(|change| match change {
            Change::GiveBack { account, .. } if given_back.contains_key(account) => false,
            Change::GiveBack { account, .. } => {
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
    fn listen(&mut self, view: &View) {
        for (place, stand) in &view.places {
            let path = paths::alloc(&place.dir, &place.instance);
            if stand.alloc.is_some() {
                self.ears.listen(&path, Kind::Alloc);
            } else {
                self.ears.forget(&path);
            }
        }
        let places = &view.places;
        self.ears.retain(|path| {
            let Some((dir, name)) = path.rsplit_once('/') else { return true };
            let Some(instance) = paths::instance_of(name) else { return true };
            places.contains_key(&Place { dir: dir.to_owned(), instance: instance.to_owned() })
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
            fault::point("settled");
        }
        let Some(version) = notified.filter(|version| Some(*version) != self.recorded) else { return Ok(()) };
        let (path, data) = (self.notified(), version.0.to_string());
        match self.hands.tree.get(&path).await? {
            Some(node) => drop(self.hands.tree.set(&path, data.as_bytes(), node.version).await?),
            None => self.hands.tree.create(&path, data.as_bytes(), Node::Persistent).await?,
        }
        self.recorded = Some(version);
        info!(version = version.0, "a notice is dealt with");
        fault::point("recorded");
        Ok(())
    }
}

/// What of a book's record changes with every deal.
fn mark(record: &Record) -> Result<Vec<u64>, Error> {
    let fields = ["last_epoch", "modules", "instances", "accounts", "free", "dealt", "revoking", "frozen"];
    fields.iter().map(|field| record.get(field)).collect()
}

fn measure(view: &View, plan: &Plan) {
    let present = view.places.values().filter(|stand| stand.present.is_some()).count();
    let accounts: usize = view.places.values().map(|stand| stand.accounts.len()).sum();
    metrics::gauge!("allot_accounts_instances").set(present as f64);
    metrics::gauge!("allot_accounts_shown").set(accounts as f64);
    metrics::gauge!("allot_accounts_pending").set(plan.pending as f64);
}
