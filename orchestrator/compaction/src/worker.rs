//! The worker: watches its inbox, runs as many subtasks at once as it has slots, each under a supervisor, and reports
//! how they ended. One lifetime of a worker is one ZooKeeper session. Subtasks that an earlier lifetime left running
//! are recovered before they start again.

mod drain;
mod kept;
pub(crate) mod offer;
mod order;
mod recovery;
mod run;
mod starting;
mod taking;
pub(crate) mod unit_fault;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info, warn};

use super::admission::{Admission, AdmissionWatch, Stopped};
use super::ids::TaskId;
use super::node::Units;
use super::node_context::{LONGEST_WAIT_BY_CLOCK, NodeContext};
use super::permits::{self, Announcement, Limited};
use super::task::{MainTask, SubState, SubTask};
use super::task_store::{Fault, Found, TaskStore};
use allot_coordination::{Coordinator, Link, Op, Presence, Retries, Retry, Retryable as _, Status};
use allot_runtime::time::now_ms;
use kept::KeptEnds;
use offer::{Candidate, Offer, Offered};
use unit_fault::UnitFault;

/// How long a subtask keeps others from starting while it waits for its partition's storage.
const STORAGE_PATIENCE: Duration = Duration::from_secs(2);
/// How long a unit that leaves tries to withdraw its announcement.
const WITHDRAWAL_LIMIT: Duration = Duration::from_secs(1);
/// Number of subtasks of tasks that have ended that are removed at once.
const MAX_CANCELLATIONS: usize = 16;

/// The reason that the worker handles a subtask.
enum Purpose {
    /// The subtask's state is `Running`, but this lifetime does not run it.
    Left,
    /// The subtask's main task has ended, or is gone.
    End(
        #[expect(dead_code, reason = "holding the permit limits the number of cancellations")]
        OwnedSemaphorePermit,
    ),
    /// The subtask may start in this slot, and it is its priority's turn.
    Begin(OwnedSemaphorePermit, Stopped),
    /// The subtask waits at this other unit, and may start in this slot.
    Take(Candidate, OwnedSemaphorePermit, Stopped),
}

/// What keeps subtasks that have not started from doing so.
struct Readiness {
    /// After how long the next closed window opens.
    opens: Option<Duration>,
    /// The highest priority of the subtasks that have not started though a slot is free.
    waiting: Option<i32>,
    /// Whether subtasks wait only because no slot is free, or because this unit starts nothing.
    is_full: bool,
}

/// The subtasks that are being handled. Each job returns the subtask and whether handling succeeded; if not, the
/// subtask's state may be `Running`.
type Work = JoinSet<(TaskId, bool)>;

/// The worker of a unit, for one session.
#[derive(Clone)]
pub(crate) struct Worker {
    node_context: NodeContext,
    store: TaskStore,
    /// Notices of main tasks that this unit was given to manage.
    notices: mpsc::Sender<TaskId>,
    slots: Arc<Semaphore>,
    /// Limits concurrent removals, which need no slot.
    cancellations: Arc<Semaphore>,
    /// Signals that a slot is free although its subtask has not ended, or that a main task has changed.
    freed: Arc<Notify>,
    /// Main tasks that have reached a limit.
    limited: Arc<Mutex<BTreeMap<TaskId, Limited>>>,
    /// The subtasks that are about to start, with their priorities. While one of a high priority takes its permits,
    /// none of a lower priority may take them instead. A subtask stays here also while an attempt that failed is not
    /// over.
    starting: Arc<Mutex<BTreeMap<TaskId, i32>>>,
    /// Subtasks that could not be handled, until they are.
    failing: Arc<Mutex<BTreeMap<TaskId, Retries>>>,
    /// Files of partitions whose storage answered late, of subtasks that may start and have not started since.
    late_files: Arc<Mutex<BTreeMap<TaskId, String>>>,
    /// Ends of runners that could not be written. They outlive a session.
    kept: KeptEnds,
    /// The units.
    units: watch::Receiver<Units>,
    /// The operation that fails if all tasks were paused since this unit last looked; `None` if it must look.
    unpaused: Arc<Mutex<Option<Op>>>,
    /// Whether this unit can run runners.
    fault: UnitFault,
    /// The mean time of a run, in milliseconds; 0 if none has ended.
    pace: Arc<AtomicU64>,
    /// Whether a subtask of another unit that was found could not begin here.
    has_missed: Arc<AtomicBool>,
    /// Subtasks of other units that this one passes over when it looks for work, and since when their partitions are
    /// locked; `None` if they have failed here.
    passed_over: Arc<Mutex<BTreeMap<TaskId, Option<Instant>>>>,
    /// Partition locks held by other workers, each with the time when it was first found gone.
    foreign_locks: Arc<Mutex<BTreeMap<String, Option<Instant>>>>,
    /// True when the session is lost.
    lost: watch::Receiver<bool>,
    /// True when the process shuts down.
    leaving: watch::Receiver<bool>,
}

/// Runs subtasks until the process shuts down.
pub(crate) async fn run(
    node_context: NodeContext,
    notices: mpsc::Sender<TaskId>,
    mut presence: watch::Receiver<Presence>,
    units: watch::Receiver<Units>,
    fault: UnitFault,
) {
    let coordinator = node_context.coordinator.clone();
    let mut stop = node_context.stop.clone();
    let (kept, pace) = (KeptEnds::load(&node_context).await, Arc::default());
    // The deadline of a drain at which the runners have been ended.
    let mut ended_by = None;
    loop {
        let generation = tokio::select! {
            generation = own_session(&coordinator, &mut presence) => generation,
            () = stop.requested() => return,
        };
        let Some(generation) = generation else { return };
        let (lost_sender, lost) = watch::channel(false);
        let (leave, leaving) = watch::channel(false);
        let worker = Worker {
            store: node_context.store(),
            slots: Arc::new(Semaphore::new(node_context.config.slots as usize)),
            cancellations: Arc::new(Semaphore::new(MAX_CANCELLATIONS)),
            freed: Arc::default(),
            limited: Arc::default(),
            starting: Arc::default(),
            failing: Arc::default(),
            late_files: Arc::default(),
            kept: kept.clone(),
            units: units.clone(),
            unpaused: Arc::default(),
            fault: fault.clone(),
            pace: Arc::clone(&pace),
            has_missed: Arc::default(),
            passed_over: Arc::default(),
            foreign_locks: Arc::default(),
            notices: notices.clone(),
            node_context: node_context.clone(),
            lost,
            leaving,
        };
        let mut work = Work::new();
        tokio::select! {
            () = worker.run_session(&mut work) => {}
            () = session_over(&coordinator, generation) => {}
            deadline = worker.drain_overdue(ended_by) => {
                info!("the deadline of the drain has come; ending all runners");
                ended_by = Some(deadline);
                leave.send_replace(true);
                finish(&mut work, session_over(&coordinator, generation), &lost_sender).await;
                continue;
            }
            () = worker.asked_to_leave(&mut stop) => {
                leave.send_replace(true);
                worker.withdraw_announcement().await;
                finish(&mut work, session_over(&coordinator, generation), &lost_sender).await;
                return;
            }
        }
        warn!("the ZooKeeper session is lost; ending all runners");
        lost_sender.send_replace(true);
        while work.join_next().await.is_some() {}
    }
}

/// The number of the session, as soon as this unit's name belongs to it: another process of the same name has the same
/// inbox, and each would use all the slots. `None` when the coordinator is closed.
async fn own_session(coordinator: &Coordinator, presence: &mut watch::Receiver<Presence>) -> Option<u64> {
    loop {
        let generation = coordinator.status().generation;
        let session = coordinator.session_id();
        if matches!(*presence.borrow_and_update(), Presence::Present(owner) if Some(owner) == session) {
            return Some(generation);
        }
        presence.changed().await.ok()?;
    }
}

/// Returns when the session with this number has ended.
async fn session_over(coordinator: &Coordinator, generation: u64) {
    let is_over =
        |status: &Status| status.generation != generation || status.link == Link::Ended || status.closed;
    let _ = coordinator.subscribe().wait_for(is_over).await;
}

/// Waits for the end of all work. If the session is `over` before, nothing can be written any more: the runners are ended
/// at once, and their ends are kept.
async fn finish(work: &mut Work, over: impl Future<Output = ()>, lost: &watch::Sender<bool>) {
    tokio::select! {
        () = async { while work.join_next().await.is_some() {} } => return,
        () = over => {}
    }
    warn!("the ZooKeeper session is lost; ending all runners");
    lost.send_replace(true);
    while work.join_next().await.is_some() {}
}

impl Worker {
    /// Withdraws the announcement of a unit that starts nothing any more. Otherwise it would keep lower priorities from
    /// starting elsewhere until the unit's last runner has ended.
    async fn withdraw_announcement(&self) {
        let announcement = Announcement::new(&self.store, &self.node_context.name);
        match timeout(WITHDRAWAL_LIMIT, announcement.withdraw_earlier()).await {
            Ok(Ok(())) => {}
            Ok(Err(fault)) => debug!(%fault, "the announcement of waiting subtasks goes with the session"),
            Err(_) => debug!("the announcement of waiting subtasks goes with the session"),
        }
    }

    /// One lifetime: runs until it is cancelled at the end of the session.
    async fn run_session(&self, work: &mut Work) {
        let coordinator = &self.node_context.coordinator;
        let (tree, dir) = (&self.store.tree, self.store.paths.inbox(&self.node_context.name));
        let mut known: BTreeSet<TaskId> = BTreeSet::new();
        let mut watches: BTreeMap<TaskId, AdmissionWatch> = BTreeMap::new();
        // Subtasks whose state may be `Running` although this lifetime does not run them; `None` means all, which
        // holds at first. Subtasks left by an earlier lifetime are recovered whether or not their task may start now.
        let mut unverified: Option<BTreeSet<TaskId>> = None;
        let mut announcement = Announcement::new(&self.store, &self.node_context.name);
        let mut announcing = coordinator.retries("announcing that subtasks wait for a permit");
        let mut inbox = coordinator.follower("the inbox of this unit");
        let mut permits = coordinator.follower("the permits");
        let mut offers = coordinator.follower("the offers of units");
        let mut offer = Offer::new(&self.store, &self.node_context.name);
        let mut fault = self.fault.subscribe();
        // Subtasks of other units that may begin here.
        let mut found: Vec<Candidate> = Vec::new();
        if announcing.repeat(|| announcement.withdraw_earlier()).await.is_err() {
            return;
        }
        loop {
            let Ok(names) = inbox.read(|| tree.watch(&dir)).await else { return };
            let ids: Vec<TaskId> = names.iter().filter_map(|name| name.parse().ok()).collect();
            let (notices, ids): (Vec<_>, Vec<_>) = ids.into_iter().partition(|id| id.is_main());
            for id in notices {
                let _ = self.notices.send(id).await;
            }
            let candidates =
                ids.iter().copied().filter(|id| unverified.as_ref().is_none_or(|ids| ids.contains(id)));
            let (name, candidates) = (&self.node_context.name, candidates.collect::<Vec<_>>());
            let mut reading = coordinator.retries("reading the subtasks left by an earlier lifetime");
            let left = reading.repeat(|| self.store.in_state(name, &candidates, SubState::Running)).await;
            let Ok(left) = left else { return };
            left.into_iter().for_each(|id| self.spawn_handler(id, Purpose::Left, &mut known, work));
            if unverified.is_none() {
                let mut writing = coordinator.retries("writing results from before this session");
                if writing.repeat(|| self.write_kept_elsewhere(&ids)).await.is_err() {
                    return;
                }
            }
            let unverified = unverified.insert(BTreeSet::new());
            self.update_watches(&ids, &known, &mut watches);
            loop {
                let held = self.is_held();
                let Readiness { opens, waiting, is_full } =
                    self.start_ready(&ids, &watches, &mut known, work);
                let idle = ids.iter().filter(|id| !known.contains(id)).count();
                metrics::gauge!("allot_compaction_waiting").set(idle as f64);
                let free = if is_full || waiting.is_some() || self.starts_nothing() {
                    found.clear();
                    0
                } else {
                    self.take(&ids, &mut found, &mut watches, &mut known, work);
                    self.slots.available_permits()
                };
                if free == 0 {
                    offers.rest();
                }
                let is_limited = with(&self.limited, |limited| limited.values().any(Limited::is_by_cluster));
                let announced = async {
                    announcement.update(waiting, is_limited).await?;
                    let (pace, refusal) = (self.pace.load(Ordering::Relaxed), self.fault.now());
                    offer.update((is_full || refusal.is_some()).then_some(Offered { pace, refusal })).await
                };
                match announced.await {
                    Ok(()) => announcing.succeeded(),
                    Err(fault) => {
                        announcing.failed(&fault).await;
                        // The connection may be another one.
                        break;
                    }
                }
                tokio::select! {
                    () = inbox.changed() => break,
                    // A task may have another limit now.
                    () = self.freed.notified() => with(&self.limited, BTreeMap::clear),
                    () = sleep(opens.unwrap_or_default().min(LONGEST_WAIT_BY_CLOCK)), if opens.is_some() => {}
                    () = permits::freed(&self.store, &mut permits, &self.limited) => {}
                    more = self.look_for_work(&mut offers, &self.units, free), if free > 0 => {
                        found = more;
                        found.reverse();
                    }
                    _ = fault.changed() => {}
                    () = self.fault.has_tried() => {}
                    () = self.hold_changed(held) => {}
                    Some(ended) = work.join_next(), if !work.is_empty() => {
                        if let Ok((id, succeeded)) = ended {
                            known.remove(&id);
                            with(&self.starting, |starting| starting.remove(&id));
                            if !succeeded {
                                unverified.insert(id);
                            }
                        }
                        // The inbox has changed or the subtask must be handled again: read it again.
                        break;
                    }
                }
            }
        }
    }

    /// Begins subtasks of other units while slots are free. `ids` are the subtasks in this unit's inbox.
    fn take(
        &self,
        ids: &[TaskId],
        found: &mut Vec<Candidate>,
        watches: &mut BTreeMap<TaskId, AdmissionWatch>,
        known: &mut BTreeSet<TaskId>,
        work: &mut Work,
    ) {
        while !found.is_empty() && !self.starts_nothing() {
            let Ok(permit) = self.slots.clone().try_acquire_owned() else { return };
            let Some(candidate) = found.pop() else { return };
            let id = candidate.id;
            if known.contains(&id) || ids.contains(&id) {
                continue;
            }
            let main = id.of_main();
            let watch = watches
                .entry(main)
                .or_insert_with(|| AdmissionWatch::follow(&self.node_context, main, self.freed.clone()));
            let purpose = Purpose::Take(candidate, permit, watch.stopped());
            self.fault.starts();
            self.spawn_handler(id, purpose, known, work);
        }
    }

    /// Watches the main tasks of these subtasks, and of those that are being handled, and no others.
    fn update_watches(
        &self,
        ids: &[TaskId],
        known: &BTreeSet<TaskId>,
        watches: &mut BTreeMap<TaskId, AdmissionWatch>,
    ) {
        let mut mains: BTreeSet<TaskId> = ids.iter().chain(known).map(|id| id.of_main()).collect();
        // Those whose subtasks at other units may not begin here, until a permit is freed.
        mains.extend(with(&self.limited, |limited| limited.keys().copied().collect::<Vec<_>>()));
        watches.retain(|main, _| mains.contains(main));
        with(&self.failing, |failing| failing.retain(|id, _| ids.contains(id)));
        for main in mains {
            watches
                .entry(main)
                .or_insert_with(|| AdmissionWatch::follow(&self.node_context, main, self.freed.clone()));
        }
    }

    /// Removes the subtasks of tasks that have ended, and starts ready subtasks while slots are free: by priority, then the
    /// older first.
    fn start_ready(
        &self,
        ids: &[TaskId],
        watches: &BTreeMap<TaskId, AdmissionWatch>,
        known: &mut BTreeSet<TaskId>,
        work: &mut Work,
    ) -> Readiness {
        let now = now_ms();
        let are_paused = self.units.borrow().are_tasks_paused;
        let admission = |watch: &AdmissionWatch| match watch.admission(now) {
            Admission::Cancel => Admission::Cancel,
            _ if are_paused => Admission::Wait,
            admission => admission,
        };
        let admissions: BTreeMap<TaskId, Admission> =
            watches.iter().map(|(main, watch)| (*main, admission(watch))).collect();
        // What the storage said before a pause may be wrong after it.
        let may_start = |id: &TaskId| {
            matches!(admissions.get(&id.of_main()), Some(Admission::Start(_))) && ids.contains(id)
        };
        with(&self.late_files, |files| files.retain(|id, _| may_start(id)));
        let opens = admissions.values().filter_map(|admission| match admission {
            Admission::ClosedFor(span) => Some(*span),
            Admission::Start(_) | Admission::Wait | Admission::Cancel => None,
        });
        let mut ready: Vec<(Reverse<i32>, TaskId)> = Vec::new();
        // The highest priority of the subtasks that may start and have not. One that is refused its permits is among
        // them until its next attempt: else a lower priority elsewhere would get the next permit.
        let mut waiting = with(&self.starting, |starting| starting.values().max().copied());
        for &id in ids {
            match admissions.get(&id.of_main()) {
                _ if known.contains(&id) => {}
                Some(Admission::Start(priority)) => {
                    let limit =
                        with(&self.limited, |limited| limited.get(&id.of_main()).map(Limited::is_by_cluster));
                    // A task that waits for a permit of its own keeps none of the cluster's from others.
                    if limit != Some(false) {
                        waiting = waiting.max(Some(*priority));
                    }
                    if limit.is_none() {
                        ready.push((Reverse(*priority), id));
                    }
                }
                Some(Admission::Cancel) => {
                    if let Ok(permit) = self.cancellations.clone().try_acquire_owned() {
                        self.spawn_handler(id, Purpose::End(permit), known, work);
                    }
                }
                _ => {}
            }
        }
        ready.sort_unstable();
        if self.node_context.config.limit > 0 {
            // All compete for the same permits, so a lower priority waits until no higher one waits.
            ready.retain(|(Reverse(priority), _)| Some(*priority) >= waiting);
        }
        let mut is_full = false;
        for (Reverse(priority), id) in ready {
            let Some(stopped) = watches.get(&id.of_main()).map(AdmissionWatch::stopped) else { continue };
            is_full = self.starts_nothing();
            if is_full {
                return Readiness { opens: opens.min(), waiting: None, is_full };
            }
            let Ok(permit) = self.slots.clone().try_acquire_owned() else {
                is_full = true;
                break;
            };
            with(&self.starting, |starting| starting.insert(id, priority));
            self.fault.starts();
            self.spawn_handler(id, Purpose::Begin(permit, stopped), known, work);
        }
        let has_slot = self.slots.available_permits() + with(&self.starting, |starting| starting.len()) > 0;
        let waiting = waiting.filter(|_| has_slot && !self.starts_nothing());
        Readiness { opens: opens.min(), waiting, is_full }
    }

    /// Handles a subtask in a task of its own.
    fn spawn_handler(&self, id: TaskId, purpose: Purpose, known: &mut BTreeSet<TaskId>, work: &mut Work) {
        known.insert(id);
        let worker = self.clone();
        work.spawn(async move { (id, worker.handle(id, purpose).await) });
    }

    /// A subtask does not start for now, and keeps others no longer from starting.
    fn let_others_start(&self, id: TaskId) {
        with(&self.starting, |starting| starting.remove(&id));
        self.freed.notify_one();
    }

    /// Handles a subtask. Returns whether that succeeded; if not, the next attempt is due.
    async fn handle(&self, id: TaskId, purpose: Purpose) -> bool {
        let purpose = match purpose {
            Purpose::Take(candidate, permit, stopped) => {
                let from = candidate.from.clone();
                return match self.try_take(&candidate, permit, &stopped).await {
                    Ok(()) => true,
                    Err(fault) => {
                        self.has_missed.store(true, Ordering::Relaxed);
                        debug!(%id, from, %fault, "did not take a subtask of another unit");
                        false
                    }
                };
            }
            purpose => purpose,
        };
        let Err(fault) = self.try_handle(id, purpose).await else {
            with(&self.failing, |failing| failing.remove(&id));
            return true;
        };
        let failing = with(&self.failing, |failing| failing.remove(&id));
        let mut retries =
            failing.unwrap_or_else(|| self.node_context.coordinator.retries(format!("subtask {id}")));
        if fault.retry() == Retry::Refused {
            self.let_others_start(id);
        }
        tokio::select! { () = retries.failed(&fault) => {}, () = self.ended() => {} }
        with(&self.failing, |failing| failing.insert(id, retries));
        false
    }

    async fn try_handle(&self, id: TaskId, purpose: Purpose) -> Result<(), Fault> {
        let Some(sub) = self.store.sub(&self.node_context.name, id).await? else { return Ok(()) };
        if sub.task.state == SubState::Running {
            drop(purpose);
            self.freed.notify_one();
            return self.recover(&sub).await;
        }
        let Some(main) = self.unfinished_main(&sub).await? else {
            return self.store.discard(&sub).await;
        };
        if main.task.cancelling {
            let ended = sub.task.ended(SubState::Stopped, "its task was stopped");
            return self.store.finish(&sub, None, &ended).await;
        }
        match purpose {
            // The task may have changed since its admission was checked.
            Purpose::Begin(permit, stopped)
                if matches!(Admission::of(&main.task, now_ms()), Admission::Start(_)) =>
            {
                self.start(sub, &main, permit, &stopped).await
            }
            // What this worker knows of the task is old: its watch has not come, or its session is cut off.
            Purpose::Begin(..) => {
                with(&self.starting, |starting| starting.remove(&id));
                Err(Fault::Busy("its task has changed, which the watch does not show yet".to_owned()))
            }
            Purpose::Left | Purpose::End(_) | Purpose::Take(..) => Ok(()),
        }
    }

    /// The main task of a subtask, if it exists and has not ended.
    async fn unfinished_main(&self, sub: &Found<SubTask>) -> Result<Option<Found<MainTask>>, Fault> {
        let main = self.store.main(sub.id.of_main()).await?;
        Ok(main.filter(|main| !main.task.state.is_over()))
    }

    /// Sleeps. Returns whether the session ended or the process began to shut down meanwhile.
    async fn pause(&self, span: Duration) -> bool {
        timeout(span, self.ended()).await.is_ok()
    }

    /// Returns when the session has ended.
    async fn session_ended(&self) {
        let _ = self.lost.clone().wait_for(|lost| *lost).await;
    }

    /// Returns when the session has ended or the process has begun to shut down.
    async fn ended(&self) {
        let mut leaving = self.leaving.clone();
        tokio::select! {
            () = self.session_ended() => {}
            _ = leaving.wait_for(|leaving| *leaving) => {}
        }
    }
}

fn with<T, R>(shared: &Mutex<T>, act: impl FnOnce(&mut T) -> R) -> R {
    act(&mut shared.lock().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests;
