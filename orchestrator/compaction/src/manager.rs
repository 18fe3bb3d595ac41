//! The manager: follows each main task of this unit from its submission to its end. It decides by the state in
//! ZooKeeper, and writes only at the task's version. So a manager that was replaced, or resumes late, changes
//! nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use super::counters::CountedTask;
use super::hashing::{Bin, assign, choose_other};
use super::ids::TaskId;
use super::node::{Units, is_present};
use super::node_context::{LONGEST_WAIT_BY_CLOCK, NodeContext};
use super::notify::Event;
use super::partitions;
use super::task::{MainTask, Partition, State};
use super::task_store::{Fault, Found, TaskStore};
use allot_coordination::session::Changed;
use allot_coordination::{Error, Follower, Lease, Presence};
use allot_runtime::time::now_ms;
use overdue::OverdueCheck;

mod overdue;

/// Number of subtasks of a lost worker that are read and reassigned at once.
const REASSIGN_BATCH: usize = 50;
/// How often a manager looks for waiting subtasks of a task that is being stopped.
const STOP_LOOK: Duration = Duration::from_secs(1);
/// The longest wait of a manager that waits for events only.
const MAX_WAIT: Duration = Duration::from_secs(24 * 3600);

/// Manages this unit's tasks until the process shuts down.
pub(crate) async fn run(
    node_context: NodeContext,
    mut notices: mpsc::Receiver<TaskId>,
    units: watch::Receiver<Units>,
    mut presence: watch::Receiver<Presence>,
) {
    let mut stop = node_context.stop.clone();
    let mut managers: JoinSet<TaskId> = JoinSet::new();
    let mut active: BTreeSet<TaskId> = BTreeSet::new();
    let mut again: BTreeSet<TaskId> = BTreeSet::new();
    let mut new_ids = tokio::select! {
        ids = own_tasks(&node_context, &mut presence) => ids,
        () = stop.requested() => return,
    };
    loop {
        for id in new_ids.drain(..) {
            // A task manager that is just ending may have missed the reason for this notice, so it is started again.
            if active.insert(id) {
                let manager = TaskManager::new(&node_context, id, units.clone(), presence.clone());
                managers.spawn(manager.run());
            } else {
                again.insert(id);
            }
        }
        tokio::select! {
            () = stop.requested() => return,
            Some(id) = notices.recv() => new_ids.push(id),
            Some(ended) = managers.join_next(), if !managers.is_empty() => match ended {
                Ok(id) => {
                    active.remove(&id);
                    if again.remove(&id) {
                        new_ids.push(id);
                    }
                }
                Err(error) => warn!(%error, "a task's manager ended unexpectedly"),
            },
        }
    }
}

/// The unfinished tasks that this unit manages, as read from ZooKeeper once the unit's name belongs to it.
async fn own_tasks(node_context: &NodeContext, presence: &mut watch::Receiver<Presence>) -> Vec<TaskId> {
    if !is_present(presence).await {
        return Vec::new();
    }
    let store = node_context.store();
    let mut retries = node_context.coordinator.retries("reading the tasks of this unit");
    let mains = retries.repeat(|| store.live_mains()).await.unwrap_or_default();
    let ours = mains.iter().filter(|main| main.task.manager == node_context.name);
    ours.map(|main| main.id).collect()
}

/// The manager's next step after one pass.
enum Next {
    /// Stop: the task has ended, or another unit manages it.
    Over,
    /// Make another pass at once.
    Again,
    /// Wait this long, or until an event.
    Wait(Duration),
}

/// The manager of one main task.
struct TaskManager {
    node_context: NodeContext,
    /// The session of this task's watches, reads and writes.
    lease: Lease,
    store: TaskStore,
    follower: Follower,
    id: TaskId,
    units: watch::Receiver<Units>,
    /// Whether the unit's name belongs to it.
    presence: watch::Receiver<Presence>,
    /// The round's partitions and their workers, with the units from which they were computed.
    plan: Option<Plan>,
    /// The time of the next check for lost workers; `None` if no worker may be lost.
    lost_worker_check: Option<Instant>,
    /// The check for workers that hang.
    overdue: OverdueCheck,
    /// The task in the metrics of this unit.
    counted: CountedTask,
    /// Number of subtasks that had finished before this unit became the manager, until that is logged.
    before: Option<u64>,
}

struct Plan {
    tag: String,
    bins: Vec<Bin>,
    partitions: Vec<Partition>,
    workers: Vec<usize>,
}

/// A task as its manager reads it.
struct ManagedTask {
    main: Found<MainTask>,
    /// The names of the outcomes that are not counted yet; `None` if there are no outstanding subtasks, whose outcomes could
    /// arrive. So a task between two rounds needs one watch only.
    finished: Option<Vec<String>>,
}

/// Reads a task that this unit manages, and watches it, its outcomes and the tasks for which it waits. `None` if this unit
/// does not manage it, or if it has ended.
async fn read(store: &TaskStore, id: TaskId, unit: &str) -> Result<(Option<ManagedTask>, Changed), Fault> {
    let none = || -> Changed { std::future::pending().boxed() };
    let dir = store.paths.main(id);
    let mut watches = match store.tree.watch(&dir).await {
        Err(Error::NoNode(_)) => return Ok((None, none())),
        watched => vec![watched?.1],
    };
    // Read after the watch is set, so that no change is missed.
    let Some(main) = store.main(id).await? else { return Ok((None, none())) };
    if main.task.state.is_over() || main.task.manager != unit {
        return Ok((None, none()));
    }
    // The directory of a task for which this one may wait changes when that task, or a round of it, ends.
    let before = main.task.after.as_ref().filter(|_| main.task.state == State::Init);
    let before = before.and_then(|id| id.parse().ok());
    let followed = main.task.followed().filter(|_| !main.task.is_round_open());
    for id in before.into_iter().chain(followed) {
        match store.tree.watch(&store.paths.main(id)).await {
            Err(Error::NoNode(_)) => {}
            watched => watches.push(watched?.1),
        }
    }
    let mut finished = None;
    if main.task.outstanding() > 0 {
        let (names, changed) = store.tree.watch(&store.paths.finished(id)).await?;
        finished = Some(names);
        watches.push(changed);
    }
    Ok((Some(ManagedTask { main, finished }), futures_util::future::select_all(watches).map(drop).boxed()))
}

impl TaskManager {
    fn new(
        node_context: &NodeContext,
        id: TaskId,
        units: watch::Receiver<Units>,
        presence: watch::Receiver<Presence>,
    ) -> Self {
        let (lease, store) = node_context.lease(id);
        Self {
            node_context: node_context.clone(),
            follower: lease.coordinator().follower(format!("task {id}")),
            lease,
            store,
            id,
            units,
            presence,
            plan: None,
            lost_worker_check: Some(Instant::now()),
            overdue: OverdueCheck::new(),
            counted: CountedTask::default(),
            before: Some(0),
        }
    }

    async fn run(mut self) -> TaskId {
        let mut retries = self.lease.coordinator().retries(format!("managing task {}", self.id));
        let (store, unit) = (&self.store, &self.node_context.name);
        if retries.repeat(|| store.noticed(unit, self.id)).await.is_err() {
            return self.id;
        }
        loop {
            match self.follow_once().await {
                Ok(true) => retries.succeeded(),
                Ok(false) => return self.id,
                Err(fault) => {
                    self.plan = None;
                    retries.failed(&fault).await;
                }
            }
        }
    }

    /// Reads the task under a watch, acts, and waits for the next event. Returns `false` when this unit no longer manages
    /// the task.
    async fn follow_once(&mut self) -> Result<bool, Fault> {
        if !is_present(&mut self.presence).await {
            return Ok(false);
        }
        let (store, id, unit) = (&self.store, self.id, &self.node_context.name);
        let Some(seen) = self.follower.read(|| read(store, id, unit)).await? else { return Ok(false) };
        let ManagedTask { mut main, finished } = seen;
        self.counted.update(&main.task);
        let is_watched = finished.is_some();
        match self.act(&mut main, &finished.unwrap_or_default()).await? {
            Next::Over => return Ok(false),
            Next::Again => {}
            // The first subtasks of a round were just assigned: set the watch for outcomes.
            Next::Wait(_) if !is_watched && main.task.outstanding() > 0 => {}
            Next::Wait(span) => tokio::select! {
                () = self.follower.changed() => {}
                changed = self.units.changed() => {
                    if changed.is_err() {
                        return Ok(false);
                    }
                    self.units.mark_changed();
                }
                () = sleep(span) => {}
            },
        }
        Ok(true)
    }

    fn check_lost_workers_at(&mut self, at: Instant) {
        self.lost_worker_check = Some(self.lost_worker_check.map_or(at, |before| before.min(at)));
    }

    async fn act(&mut self, main: &mut Found<MainTask>, finished: &[String]) -> Result<Next, Fault> {
        if !finished.is_empty() {
            self.before = self.before.map(|before| before + finished.len() as u64);
            let mut rest = finished;
            while !rest.is_empty() {
                let count = self.store.count(main, rest).await?;
                rest = rest.get(count.max(1)..).unwrap_or_default();
            }
            return Ok(Next::Again);
        }
        // This includes changes that came while the manager did other work.
        if self.units.has_changed().unwrap_or(true) {
            self.check_lost_workers_at(Instant::now());
        }
        let units = self.units.borrow_and_update().clone();
        let before = self.lost_worker_check;
        let restarted = match self.reassign_lost(main, &units).await {
            Ok(count) => count,
            Err(fault) => {
                self.lost_worker_check = before;
                return Err(fault);
            }
        };
        if let Some(finished) = self.before.take() {
            let (round, kept) = (main.task.round, main.task.outstanding().saturating_sub(restarted));
            info!(id = %self.id, round, kept, finished, restarted, "managing a task");
        }
        let due = self.lost_worker_check.map_or(MAX_WAIT, |at| at.saturating_duration_since(Instant::now()));
        if main.task.listing.is_none() {
            return self.start_round(main, due).await;
        }
        self.overdue.run(&self.node_context, main, &units).await?;
        let due = due.min(self.overdue.due_in());
        let open = main.task.outstanding();
        if main.task.cancelling {
            if open > 0 {
                return self.stop_waiting(main, due).await;
            }
            self.store.cancel(main, "it was stopped").await?;
            self.node_context.notify(Event::TaskEnded, &main.task);
            info!(id = %self.id, "stopped a task");
            return Ok(Next::Over);
        }
        if (main.task.paused || units.are_tasks_paused) && (open > 0 || main.task.cursor < main.task.count())
        {
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
        let (succeeded, failed) = (main.task.result.success_count, main.task.result.failed_count);
        if main.task.state.is_over() {
            self.node_context.notify(Event::TaskEnded, &main.task);
        } else if failed > 0 && main.task.retry.at == 0 {
            self.node_context.notify(Event::RoundFailed, &main.task);
        }
        info!(id = %self.id, round, succeeded, failed, state = %main.task.state, "finished a round");
        Ok(if main.task.state.is_over() { Next::Over } else { Next::Again })
    }

    /// Starts the next round, or the first, as soon as the task may start, or runs failed partitions again.
    async fn start_round(&mut self, main: &mut Found<MainTask>, due: Duration) -> Result<Next, Fault> {
        if main.task.cancelling {
            self.store.cancel(main, "it was stopped").await?;
            self.node_context.notify(Event::TaskEnded, &main.task);
            return Ok(Next::Over);
        }
        let is_paused = main.task.paused || self.units.borrow().are_tasks_paused;
        if is_paused || self.predecessor(main).await?.is_some() {
            return Ok(Next::Wait(due));
        }
        let wait = main.task.begins_at().max(main.task.retry.at).saturating_sub(now_ms());
        if wait > 0 {
            return Ok(Next::Wait(due.min(Duration::from_millis(wait)).min(LONGEST_WAIT_BY_CLOCK)));
        }
        if main.task.retry.at > 0 {
            if !self.store.open_retry(main).await? {
                return Ok(Next::Wait(due.min(LONGEST_WAIT_BY_CLOCK)));
            }
            info!(id = %self.id, count = main.task.count(), "running failed partitions again");
            return Ok(Next::Again);
        }
        if self.store.held_up(&main.task).await?.is_some() {
            return Ok(Next::Wait(due.min(LONGEST_WAIT_BY_CLOCK)));
        }
        // The listing may take long. Meanwhile the task may be stopped or given to another manager.
        let listed = tokio::select! {
            listed = partitions::list(&self.node_context.config, &main.task) => listed,
            () = self.follower.changed() => return Ok(Next::Again),
        };
        match listed {
            Ok(listing) => {
                if listing.listed > 0 {
                    main.task.listed = listing.listed;
                }
                let planned = main.task.next_at;
                if !self.store.open_round(main, &listing.names).await? {
                    return Ok(Next::Wait(due.min(LONGEST_WAIT_BY_CLOCK)));
                }
                self.node_context.notify_if_late(&main.task, planned);
            }
            Err(why) => {
                self.store.listing_failed(main, &why).await?;
                let (failed, state) = (main.task.list_failed, main.task.state);
                if failed > 0 {
                    let limit = main.task.list_retries;
                    warn!(id = %self.id, why, failed, limit, "cannot list partitions; listing them again");
                } else {
                    let event = if state.is_over() { Event::TaskEnded } else { Event::RoundFailed };
                    self.node_context.notify(event, &main.task);
                    warn!(id = %self.id, why, round = main.task.round, %state, "a round failed: cannot list its partitions");
                }
            }
        }
        Ok(if main.task.state.is_over() { Next::Over } else { Next::Again })
    }

    /// Stops all waiting subtasks, in batches: no worker does, which would take a request for each. Workers end those that
    /// run. One that is queued again meanwhile is found by the next look.
    async fn stop_waiting(&mut self, main: &mut Found<MainTask>, due: Duration) -> Result<Next, Fault> {
        let mut stopped = 0;
        for name in self.store.children(&self.store.paths.assigned()).await? {
            let worker = super::paths::decode(&name);
            let mut ids = self.store.at(&worker, Some(self.id)).await?;
            while !ids.is_empty() {
                stopped += self.store.stop_waiting(main, &worker, &mut ids).await?;
            }
        }
        if stopped == 0 {
            return Ok(Next::Wait(due.min(STOP_LOOK)));
        }
        info!(id = %self.id, stopped, "stopped waiting subtasks of a task");
        Ok(Next::Again)
    }

    /// The task that this one waits for, if that task has not ended.
    async fn predecessor(&self, main: &Found<MainTask>) -> Result<Option<TaskId>, Fault> {
        let Some(id) = main.task.after.as_ref().and_then(|id| id.parse().ok()) else { return Ok(None) };
        let before = self.store.main(id).await?;
        Ok(before.filter(|before| !before.task.state.is_over()).map(|before| before.id))
    }

    /// Assigns the next subtasks, up to as many as one wave may have outstanding.
    async fn assign(
        &mut self,
        main: &mut Found<MainTask>,
        units: &Units,
        due: Duration,
    ) -> Result<Next, Fault> {
        let wave = u64::from(self.node_context.config.wave);
        // Start a new wave when half of the last one is counted, so that subtasks go out in batches.
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
            let all = plan.partitions.iter().zip(plan.workers.iter().map(worker));
            let items: Vec<(&Partition, &str)> = all.skip(from).take(room).collect();
            self.store.assign(main, &items).await?;
            if main.task.cursor as usize == from {
                return Err(Fault::Corrupt(format!("partition {from} of the round cannot be assigned")));
            }
        }
        Ok(Next::Wait(due))
    }

    /// Computes the worker of each partition, unless the plan for this round and these units exists already.
    async fn plan(&mut self, main: &Found<MainTask>, bins: Vec<Bin>) -> Result<(), Fault> {
        let tag = main.task.listing.as_ref().map_or("", |listing| listing.tag.as_str());
        let partitions = match self.plan.take() {
            Some(plan) if plan.tag == tag && plan.bins == bins => {
                self.plan = Some(plan);
                return Ok(());
            }
            Some(plan) if plan.tag == tag => plan.partitions,
            _ => self.store.listed(main).await?,
        };
        let key = |partition: &Partition| (main.task.key(partition.name()), partition.failed_at().to_owned());
        let keys: Vec<(String, String)> = partitions.iter().map(key).collect();
        let workers = assign(&keys, &bins);
        self.plan = Some(Plan { tag: tag.to_owned(), bins, partitions, workers });
        Ok(())
    }

    /// Reassigns the subtasks of lost workers. A worker is lost when it has been away for one session timeout: by
    /// then its supervisors have ended its runners, and its locks have been gone as long. Returns how many subtasks
    /// start again.
    async fn reassign_lost(&mut self, main: &mut Found<MainTask>, units: &Units) -> Result<u64, Fault> {
        let mut moved = 0;
        if self.lost_worker_check.is_none_or(|at| at > Instant::now()) {
            return Ok(moved);
        }
        self.lost_worker_check = None;
        if !units.current || main.task.outstanding() == 0 {
            return Ok(moved);
        }
        let bins = units.bins(&main.task.pc);
        let session = self.node_context.session_timeout();
        for name in self.store.children(&self.store.paths.assigned()).await? {
            let worker = super::paths::decode(&name);
            let Some(since) = units.away_since(&worker) else { continue };
            if since + session > Instant::now() {
                self.check_lost_workers_at(since + session);
                continue;
            }
            let ids = self.store.at(&worker, Some(self.id)).await?;
            for ids in ids.chunks(REASSIGN_BATCH) {
                if bins.is_empty() && !main.task.cancelling {
                    // No unit is present. The subtasks wait, since one may join.
                    continue;
                }
                let found = self.store.subs(&worker, ids).await?.into_iter();
                let subs: Vec<_> = found
                    .map(|sub| {
                        let key = main.task.key(&sub.task.partition_name);
                        let to = choose_other(&key, &bins, &sub.task.avoid);
                        (sub, to.map(|bin| bin.name.clone()))
                    })
                    .collect();
                let count = subs.len();
                moved += self.store.reassign_subtasks(main, &subs).await?;
                info!(id = %self.id, worker, count, "reassigned or failed the subtasks of a lost worker");
            }
        }
        Ok(moved)
    }
}
