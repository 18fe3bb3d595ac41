//! The manager: each main task of this unit from its submission to its end. It decides by what stands in the tree, and
//! writes at the task's version only, so one that was replaced, or wakes up late, changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::{debug, info, warn};

use super::hashing::{Bin, assign, choose};
use super::ids::TaskId;
use super::node::Units;
use super::node_context::{NodeContext, PAUSE, event};
use super::partitions;
use super::task::{MainTask, State, SubState};
use super::task_store::{Fault, Found, TaskStore};
use allot_coordination::Error;
use allot_runtime::time::now_ms;

/// How many subtasks of a lost worker are read and moved at once.
const RELIEF: usize = 50;
/// How long a listing that failed between two rounds rests.
const LISTING_REST: Duration = Duration::from_secs(60);
/// How often it is looked, while a runner may take its time, whether its worker hangs.
const LOOKS: u32 = 4;
/// The longest rest of a manager that waits for nothing but events.
const LONG: Duration = Duration::from_secs(24 * 3600);

/// Manages until the process shall end.
pub(crate) async fn run(
    node_context: NodeContext,
    mut notices: mpsc::Receiver<TaskId>,
    units: watch::Receiver<Units>,
) {
    let mut stop = node_context.stop.clone();
    let mut drives: JoinSet<TaskId> = JoinSet::new();
    let mut live: BTreeSet<TaskId> = BTreeSet::new();
    let mut again: BTreeSet<TaskId> = BTreeSet::new();
    let mut fresh = own(&node_context).await;
    loop {
        for id in fresh.drain(..) {
            // One that just ends may not have seen why it is named again.
            if live.insert(id) {
                let drive = Drive::new(&node_context, id, units.clone());
                drives.spawn(drive.run());
            } else {
                again.insert(id);
            }
        }
        tokio::select! {
            () = stop.requested() => return,
            Some(id) = notices.recv() => fresh.push(id),
            Some(ended) = drives.join_next(), if !drives.is_empty() => match ended {
                Ok(id) => {
                    live.remove(&id);
                    if again.remove(&id) {
                        fresh.push(id);
                    }
                }
                Err(error) => warn!(%error, "a manager's loop is gone"),
            },
        }
    }
}

/// The tasks that the tree says are this unit's.
async fn own(node_context: &NodeContext) -> Vec<TaskId> {
    let store = node_context.store();
    let mut stop = node_context.stop.clone();
    loop {
        match store.mains().await {
            Ok(mains) => {
                let ours = mains
                    .iter()
                    .filter(|main| !main.task.state.is_over() && main.task.manager == node_context.name);
                return ours.map(|main| main.id).collect();
            }
            Err(fault) => {
                debug!(%fault, "the tasks cannot be read now");
                tokio::select! { () = sleep(PAUSE) => {}, () = stop.requested() => return Vec::new() }
            }
        }
    }
}

/// What follows from a look.
enum Next {
    /// The task is over, or another's.
    Over,
    /// Look again.
    Again,
    /// Nothing to do before this long, or an event.
    Wait(Duration),
}

/// One main task in this unit's hands.
struct Drive {
    node_context: NodeContext,
    store: TaskStore,
    id: TaskId,
    units: watch::Receiver<Units>,
    /// The round's partitions and their workers, with what they follow from.
    plan: Option<Plan>,
    /// Whether somebody may have gone since lost workers were looked for, or when one counts as lost.
    suspicion: Option<Instant>,
    /// When it is looked next for subtasks whose worker hangs.
    examination: Instant,
    /// Runs of subtasks that were seen, by attempt and beginning, and since when. By this unit's clock: that of a worker
    /// may be another.
    seen: BTreeMap<(TaskId, u32, u64), Instant>,
    /// What had finished before this unit was the manager, until it has said what it took up.
    before: Option<u64>,
}

struct Plan {
    tag: String,
    bins: Vec<Bin>,
    partitions: Vec<String>,
    workers: Vec<usize>,
}

impl Drive {
    fn new(node_context: &NodeContext, id: TaskId, units: watch::Receiver<Units>) -> Self {
        let (store, node_context) = (node_context.store(), node_context.clone());
        Self {
            node_context,
            store,
            id,
            units,
            plan: None,
            suspicion: Some(Instant::now()),
            examination: Instant::now(),
            seen: BTreeMap::new(),
            before: Some(0),
        }
    }

    async fn run(mut self) -> TaskId {
        while !self.node_context.stop.is_requested() {
            match self.look().await {
                Ok(true) => {}
                Ok(false) => break,
                Err(fault) if fault.is_passing() => {
                    debug!(id = %self.id, %fault, "a task is looked at again");
                    self.plan = None;
                    sleep(PAUSE).await;
                }
                Err(fault) => {
                    warn!(id = %self.id, %fault, "a task cannot be managed");
                    sleep(Duration::from_secs(1)).await;
                }
            }
        }
        self.id
    }

    /// One look, what follows from it, and the wait for the next. Whether there is a next.
    async fn look(&mut self) -> Result<bool, Fault> {
        self.store.noticed(&self.node_context.name, self.id).await?;
        loop {
            let mut news = self.node_context.coordinator.subscribe();
            let status = *news.borrow_and_update();
            let Some(mut main) = self.store.main(self.id).await? else { return Ok(false) };
            if main.task.state.is_over() || main.task.manager != self.node_context.name {
                return Ok(false);
            }
            let (_, marked) = self.store.tree.watch(&main.dir).await?;
            // The one that it waits for says by its status that it is over.
            let ahead = match main.task.after.as_ref().and_then(|id| id.parse().ok()) {
                Some(before) if main.task.state == State::Init => {
                    match self.store.tree.watch(&self.store.paths.main(before)).await {
                        Err(Error::NoNode(_)) => None,
                        watched => Some(watched?),
                    }
                }
                _ => None,
            };
            // Nothing comes where nothing is out: a task that waits for its next round costs one watch, not two.
            let (finished, came) = if main.task.outstanding() > 0 {
                let (finished, came) = self.store.tree.watch(&self.store.paths.finished(self.id)).await?;
                (finished, Some(came))
            } else {
                (Vec::new(), None)
            };
            // Read behind the watch, so that nothing is missed.
            let Some(again) = self.store.main(self.id).await? else { return Ok(false) };
            main = again;
            match self.act(&mut main, &finished).await? {
                Next::Over => return Ok(false),
                Next::Again => {}
                // The first of a round went out just now.
                Next::Wait(_) if came.is_none() && main.task.outstanding() > 0 => {}
                Next::Wait(span) => {
                    let mut stop = self.node_context.stop.clone();
                    tokio::select! {
                        () = marked => {}
                        () = event(came) => {}
                        () = event(ahead.map(|(_, over)| over)) => {}
                        _ = news.wait_for(|now| *now != status) => {}
                        changed = self.units.changed() => {
                            if changed.is_err() {
                                return Ok(false);
                            }
                            self.units.mark_changed();
                        }
                        () = sleep(span) => {}
                        () = stop.requested() => return Ok(false),
                    }
                }
            }
        }
    }

    fn suspect(&mut self, at: Instant) {
        self.suspicion = Some(self.suspicion.map_or(at, |before| before.min(at)));
    }

    async fn act(&mut self, main: &mut Found<MainTask>, finished: &[String]) -> Result<Next, Fault> {
        if main.task.manager != self.node_context.name {
            return Ok(Next::Over);
        }
        if !finished.is_empty() {
            self.before = self.before.map(|before| before + finished.len() as u64);
            let mut rest = finished;
            while !rest.is_empty() {
                let count = self.store.count(main, rest).await?;
                rest = rest.get(count.max(1)..).unwrap_or_default();
            }
            return Ok(Next::Again);
        }
        // Also what changed while we were at something else.
        if self.units.has_changed().unwrap_or(true) {
            self.suspect(Instant::now());
        }
        let units = self.units.borrow_and_update().clone();
        let before = self.suspicion;
        let restarted = match self.relieve(main, &units).await {
            Ok(count) => count,
            Err(fault) => {
                self.suspicion = before;
                return Err(fault);
            }
        };
        if let Some(finished) = self.before.take() {
            let (round, kept) = (main.task.round, main.task.outstanding().saturating_sub(restarted));
            info!(id = %self.id, round, kept, finished, restarted, "managing a task");
        }
        let due = self.suspicion.map_or(LONG, |at| at.saturating_duration_since(Instant::now()));
        if main.task.listing.is_none() {
            return self.begin(main, due).await;
        }
        self.end_overdue(main).await?;
        let due = due.min(self.examination.saturating_duration_since(Instant::now()));
        let open = main.task.outstanding();
        if main.task.cancelling {
            if open > 0 {
                return Ok(Next::Wait(due));
            }
            self.store.cancel(main, "it was stopped").await?;
            info!(id = %self.id, "a task is stopped");
            return Ok(Next::Over);
        }
        if main.task.paused && (open > 0 || main.task.cursor < main.task.count()) {
            return Ok(Next::Wait(due));
        }
        if main.task.cursor < main.task.count() {
            return self.assign(main, &units, due).await;
        }
        if open > 0 {
            return Ok(Next::Wait(due));
        }
        let round = main.task.round;
        self.store.close_round(main).await?;
        self.plan = None;
        let (well, failed) = (main.task.result.success_count, main.task.result.failed_count);
        info!(id = %self.id, round, well, failed, state = %main.task.state, "a round is done");
        Ok(if main.task.state.is_over() { Next::Over } else { Next::Again })
    }

    /// Between two rounds, and before the first.
    async fn begin(&mut self, main: &mut Found<MainTask>, due: Duration) -> Result<Next, Fault> {
        if main.task.cancelling {
            self.store.cancel(main, "it was stopped").await?;
            return Ok(Next::Over);
        }
        if main.task.paused || self.predecessor(main).await?.is_some() {
            return Ok(Next::Wait(due));
        }
        let wait = main.task.next_at.saturating_sub(now_ms());
        if wait > 0 {
            return Ok(Next::Wait(due.min(Duration::from_millis(wait))));
        }
        // It may take long; meanwhile the task may be stopped, or given to another.
        let (_, marked) = self.store.tree.watch(&main.dir).await?;
        if self.store.main(self.id).await?.is_none_or(|now| now.version != main.version) {
            return Ok(Next::Again);
        }
        let mut stop = self.node_context.stop.clone();
        let listed = tokio::select! {
            listed = partitions::list(&self.node_context.config, &main.task) => listed,
            () = marked => return Ok(Next::Again),
            () = stop.requested() => return Ok(Next::Over),
        };
        match listed {
            Ok(partitions) => self.store.open_round(main, &partitions).await?,
            Err(why) if main.task.round == 0 => {
                warn!(id = %self.id, why, "a task is cancelled: its partitions cannot be listed");
                self.store.cancel(main, &why).await?;
                return Ok(Next::Over);
            }
            Err(why) => {
                warn!(id = %self.id, why, "partitions cannot be listed; trying again in a minute");
                if main.task.error != why {
                    self.store.note(main, &why).await?;
                }
                return Ok(Next::Wait(due.min(LISTING_REST)));
            }
        }
        Ok(Next::Again)
    }

    /// The task that this one waits for, if that is not over.
    async fn predecessor(&self, main: &Found<MainTask>) -> Result<Option<TaskId>, Fault> {
        let Some(id) = main.task.after.as_ref().and_then(|id| id.parse().ok()) else { return Ok(None) };
        let before = self.store.main(id).await?;
        Ok(before.filter(|before| !before.task.state.is_over()).map(|before| before.id))
    }

    /// How much longer than its runner a subtask may run before its worker must hang.
    fn margin(&self) -> Duration {
        self.node_context.session_timeout() * 2
    }

    /// Workers end runners whose time is up. Where one does not, though it is there, its subtask counts as failed. It is
    /// looked several times while a runner may take its time, and no more often.
    async fn end_overdue(&mut self, main: &mut Found<MainTask>) -> Result<(), Fault> {
        let now = Instant::now();
        if self.examination > now {
            return Ok(());
        }
        let config = &self.node_context.config;
        let usual = config.timeout + config.stop_limit;
        self.examination = now + (usual + self.margin()) / LOOKS;
        let mut seen = BTreeMap::new();
        let done = if main.task.outstanding() > 0 {
            self.examine(main, now, usual, &mut seen).await
        } else {
            Ok(())
        };
        match done {
            Ok(()) => self.seen = seen,
            // The clocks of those that it did not come to go on.
            Err(_) => self.seen.extend(seen),
        }
        done
    }

    /// One look at all that run; what it sees to run goes into `seen`.
    async fn examine(
        &self,
        main: &mut Found<MainTask>,
        now: Instant,
        usual: Duration,
        seen: &mut BTreeMap<(TaskId, u32, u64), Instant>,
    ) -> Result<(), Fault> {
        for name in self.store.children(&self.store.paths.assigned()).await? {
            let worker = super::paths::decode(&name);
            for ids in self.store.at(&worker, Some(self.id)).await?.chunks(RELIEF) {
                let mut overdue = self.store.subs(&worker, ids).await?;
                overdue.retain(|sub| {
                    if sub.task.state != SubState::Running {
                        return false;
                    }
                    let key = (sub.id, sub.task.attempt, sub.task.started);
                    let since = self.seen.get(&key).copied().unwrap_or(now);
                    seen.insert(key, since);
                    let limit = match sub.task.limit {
                        0 => usual,
                        limit => Duration::from_millis(limit),
                    };
                    now.saturating_duration_since(since) >= limit.saturating_add(self.margin())
                });
                if overdue.is_empty() {
                    continue;
                }
                warn!(id = %self.id, worker, count = overdue.len(), "a worker does not end what took too long; failed");
                self.store.fail(main, &overdue, "its worker did not end it in time").await?;
            }
        }
        Ok(())
    }

    /// The next subtasks, up to as many as a wave may have on their way.
    async fn assign(
        &mut self,
        main: &mut Found<MainTask>,
        units: &Units,
        due: Duration,
    ) -> Result<Next, Fault> {
        let wave = u64::from(self.node_context.config.wave);
        // A new wave when half of the last is counted, so that it is one and not a drip.
        if main.task.outstanding() > wave / 2 {
            return Ok(Next::Wait(due));
        }
        let bins = units.bins(&main.task.pc);
        if bins.is_empty() || !units.current {
            return Ok(Next::Wait(due));
        }
        self.plan(main, bins).await?;
        let Some(plan) = &self.plan else { return Ok(Next::Again) };
        while main.task.cursor < main.task.count() && main.task.outstanding() < wave {
            let from = main.task.cursor as usize;
            let room = (wave - main.task.outstanding()) as usize;
            let worker = |&place: &usize| plan.bins.get(place).map_or("", |bin| bin.name.as_str());
            let all = plan.partitions.iter().map(String::as_str).zip(plan.workers.iter().map(worker));
            let items: Vec<(&str, &str)> = all.skip(from).take(room).collect();
            self.store.assign(main, &items).await?;
            if main.task.cursor as usize == from {
                return Err(Fault::Odd(format!("partition {from} of the round cannot be assigned")));
            }
        }
        Ok(Next::Wait(due))
    }

    /// Which partition goes where, as long as the same units are there.
    async fn plan(&mut self, main: &Found<MainTask>, bins: Vec<Bin>) -> Result<(), Fault> {
        let tag = main.task.listing.as_ref().map_or("", |listing| listing.tag.as_str());
        let partitions = match self.plan.take() {
            Some(plan) if plan.tag == tag && plan.bins == bins => {
                self.plan = Some(plan);
                return Ok(());
            }
            Some(plan) if plan.tag == tag => plan.partitions,
            _ => self.store.partitions(main).await?,
        };
        let keys: Vec<String> = partitions.iter().map(|name| main.task.key(name)).collect();
        let workers = assign(&keys, &bins);
        self.plan = Some(Plan { tag: tag.to_owned(), bins, partitions, workers });
        Ok(())
    }

    /// What lost workers had goes to others. A worker counts as lost when it has been away for a session time: by then
    /// its guards have ended what it ran, and its locks have been gone as long. How many began, or begin, anew.
    async fn relieve(&mut self, main: &mut Found<MainTask>, units: &Units) -> Result<u64, Fault> {
        let mut moved = 0;
        if self.suspicion.is_none_or(|at| at > Instant::now()) {
            return Ok(moved);
        }
        self.suspicion = None;
        if !units.current || main.task.outstanding() == 0 {
            return Ok(moved);
        }
        let bins = units.bins(&main.task.pc);
        let session = self.node_context.session_timeout();
        for name in self.store.children(&self.store.paths.assigned()).await? {
            let worker = super::paths::decode(&name);
            let Some(since) = units.away_since(&worker) else { continue };
            if since + session > Instant::now() {
                self.suspect(since + session);
                continue;
            }
            let ids = self.store.at(&worker, Some(self.id)).await?;
            for ids in ids.chunks(RELIEF) {
                if bins.is_empty() && !main.task.cancelling {
                    // Nobody to give it to; somebody may come.
                    continue;
                }
                let found = self.store.subs(&worker, ids).await?.into_iter();
                let subs: Vec<_> = found
                    .map(|sub| {
                        let to = choose(&main.task.key(&sub.task.partition_name), &bins);
                        (sub, to.map(|bin| bin.name.clone()))
                    })
                    .collect();
                let count = subs.len();
                moved += self.store.relieve(main, &subs).await?;
                info!(id = %self.id, worker, count, "subtasks of a lost worker are given to others, or failed");
            }
        }
        Ok(moved)
    }
}
