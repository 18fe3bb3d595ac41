//! The worker: looks into its inbox, runs as many subtasks at once as it has slots, each behind a guard, and hands
//! over how they ended. One life of it is one session; what an earlier life left is begun again by the rule.

mod order;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tracing::{debug, info, warn};

use super::admission::{Admission, AdmissionWatch};
use super::ids::TaskId;
use super::node_context::{NodeContext, PAUSE};
use super::permits;
use super::runner::{Attention, trust};
use super::supervisor::Why;
use super::task::{Ended, MainTask, SubState, SubTask};
use super::task_store::{Fault, Found, TaskStore};
use allot_coordination::Error;
use allot_runtime::time::now_ms;

/// How long a partition is left alone that is locked by another.
const LOCKED: Duration = Duration::from_secs(1);
/// How many subtasks are ended at once whose task is to be.
const ENDINGS: usize = 16;

/// What a subtask is looked at for.
enum Turn {
    /// It stands there as running, and nothing of this life is at it.
    Left,
    /// Its task is to be ended.
    End(#[expect(dead_code, reason = "it is had, and no more")] OwnedSemaphorePermit),
    /// It may begin, in this slot.
    Begin(OwnedSemaphorePermit),
}

/// What came of a beginning.
enum Outcome {
    /// It ended.
    Over(Ended),
    /// It was ended for a reason of ours.
    CutOff,
    /// Nothing was started.
    Unbegun,
}

/// The looks at subtasks that are under way. Each ends with whether all went well; where it did not, the subtask may stand
/// there as running.
type Work = JoinSet<(TaskId, bool)>;

/// A unit as worker.
#[derive(Clone)]
pub(crate) struct Worker {
    node_context: NodeContext,
    store: TaskStore,
    /// Main tasks that somebody has given to this unit.
    notices: mpsc::Sender<TaskId>,
    slots: Arc<Semaphore>,
    /// For subtasks whose task is to be ended: they wait for no slot.
    endings: Arc<Semaphore>,
    /// A slot is free though its subtask is not over, or a main task is otherwise.
    freed: Arc<Notify>,
    /// Main tasks of which no more may run at once, with the permits that were taken when that was found.
    tight: Arc<Mutex<BTreeMap<TaskId, Vec<String>>>>,
    /// Partitions' locks that others had, with when they were first found gone, if they were.
    others: Arc<Mutex<BTreeMap<String, Option<Instant>>>>,
    /// The session is lost.
    lost: watch::Receiver<bool>,
    /// The process shall end.
    leaving: watch::Receiver<bool>,
}

/// Works until the process shall end.
pub(crate) async fn run(node_context: NodeContext, notices: mpsc::Sender<TaskId>) {
    while !node_context.stop.is_requested() {
        let Ok(status) = node_context.coordinator.up().await else { return };
        let (lost_sender, lost) = watch::channel(false);
        let (leave, leaving) = watch::channel(false);
        let worker = Worker {
            store: node_context.store(),
            slots: Arc::new(Semaphore::new(node_context.config.slots as usize)),
            endings: Arc::new(Semaphore::new(ENDINGS)),
            freed: Arc::default(),
            tight: Arc::default(),
            others: Arc::default(),
            notices: notices.clone(),
            node_context: node_context.clone(),
            lost,
            leaving,
        };
        let mut work = Work::new();
        let mut stop = node_context.stop.clone();
        tokio::select! {
            () = worker.live(status.generation, &mut work) => {
                warn!("the session is lost; all runners are ended");
                lost_sender.send_replace(true);
            }
            () = stop.requested() => {
                leave.send_replace(true);
            }
        }
        while work.join_next().await.is_some() {}
    }
}

impl Worker {
    /// One life, until its session is over.
    async fn live(&self, generation: u64, work: &mut Work) {
        let inbox = self.store.paths.inbox(&self.node_context.name);
        let mut known: BTreeSet<TaskId> = BTreeSet::new();
        let mut watches: BTreeMap<TaskId, AdmissionWatch> = BTreeMap::new();
        // Those that may stand there as running though they are not known. At first all: what an earlier life left is taken
        // up whatever its task waits for.
        let mut unsure: Option<BTreeSet<TaskId>> = None;
        let mut news = self.node_context.coordinator.subscribe();
        loop {
            let status = *news.borrow_and_update();
            if status.generation != generation || status.closed {
                return;
            }
            let (names, changed) = match self.store.tree.watch(&inbox).await {
                Ok(looked) => looked,
                Err(error) => {
                    debug!(%error, "the inbox cannot be read now");
                    if let Error::NoNode(_) = error {
                        // We were away so long that it was taken away.
                        let _ = self.store.tree.ensure(&inbox).await;
                    }
                    sleep(PAUSE).await;
                    continue;
                }
            };
            let ids: Vec<TaskId> = names.iter().filter_map(|name| name.parse().ok()).collect();
            let (notices, ids): (Vec<_>, Vec<_>) = ids.into_iter().partition(|id| id.is_main());
            for id in notices {
                let _ = self.notices.send(id).await;
            }
            let doubtful =
                ids.iter().copied().filter(|id| unsure.as_ref().is_none_or(|ids| ids.contains(id)));
            match self.store.running(&self.node_context.name, &doubtful.collect::<Vec<_>>()).await {
                Ok(left) => left.into_iter().for_each(|id| self.look(id, Turn::Left, &mut known, work)),
                Err(fault) => {
                    debug!(%fault, "what an earlier life left cannot be read now");
                    sleep(PAUSE).await;
                    continue;
                }
            }
            let unsure = unsure.insert(BTreeSet::new());
            self.attend(&ids, &mut watches);
            tokio::pin!(changed);
            loop {
                let opens = self.begin(&ids, &watches, &mut known, work);
                tokio::select! {
                    () = &mut changed => break,
                    _ = news.wait_for(|now| *now != status) => break,
                    () = self.freed.notified() => {}
                    () = sleep(opens.unwrap_or_default()), if opens.is_some() => {}
                    () = self.loosened() => {}
                    Some(ended) = work.join_next(), if !work.is_empty() => {
                        if let Ok((id, well)) = ended {
                            known.remove(&id);
                            if !well {
                                unsure.insert(id);
                            }
                        }
                        // What it was about stands in the inbox, or not any more.
                        break;
                    }
                }
            }
        }
    }

    /// Follows the main tasks of these subtasks, and no others.
    fn attend(&self, ids: &[TaskId], watches: &mut BTreeMap<TaskId, AdmissionWatch>) {
        let mains: BTreeSet<TaskId> = ids.iter().map(|id| id.of_main()).collect();
        watches.retain(|main, _| mains.contains(main));
        with(&self.tight, |tight| tight.retain(|main, _| mains.contains(main)));
        for main in mains {
            watches.entry(main).or_insert_with(|| {
                AdmissionWatch::follow(&self.node_context.coordinator, &self.store, main, self.freed.clone())
            });
        }
    }

    /// Ends what is to be ended, and begins what may begin, as long as there are slots: by priority, then the older. When
    /// the next window opens, if one keeps something from beginning.
    fn begin(
        &self,
        ids: &[TaskId],
        watches: &BTreeMap<TaskId, AdmissionWatch>,
        known: &mut BTreeSet<TaskId>,
        work: &mut Work,
    ) -> Option<Duration> {
        let now = now_ms();
        let admissions: BTreeMap<TaskId, Admission> =
            watches.iter().map(|(main, watch)| (*main, watch.admission(now))).collect();
        let opens = admissions.values().filter_map(|word| match word {
            Admission::ClosedFor(span) => Some(*span),
            Admission::Start(_) | Admission::Wait | Admission::Cancel => None,
        });
        let tight: BTreeSet<TaskId> = with(&self.tight, |tight| tight.keys().copied().collect());
        let mut ready: Vec<(Reverse<i32>, TaskId)> = Vec::new();
        for &id in ids {
            match admissions.get(&id.of_main()) {
                _ if known.contains(&id) => {}
                Some(Admission::Start(priority)) if !tight.contains(&id.of_main()) => {
                    ready.push((Reverse(*priority), id));
                }
                Some(Admission::Cancel) => {
                    if let Ok(permit) = self.endings.clone().try_acquire_owned() {
                        self.look(id, Turn::End(permit), known, work);
                    }
                }
                _ => {}
            }
        }
        ready.sort_unstable();
        for (_, id) in ready {
            let Ok(permit) = self.slots.clone().try_acquire_owned() else { break };
            self.look(id, Turn::Begin(permit), known, work);
        }
        opens.min()
    }

    /// Looks at a subtask, beside all else.
    fn look(&self, id: TaskId, turn: Turn, known: &mut BTreeSet<TaskId>, work: &mut Work) {
        known.insert(id);
        let worker = self.clone();
        work.spawn(async move { (id, worker.handle(id, turn).await) });
    }

    /// Ends when permits may be free again that were all taken; never, where none are missed.
    async fn loosened(&self) {
        let missed = |tight: &BTreeMap<TaskId, Vec<String>>| tight.values().cloned().collect::<Vec<_>>();
        let seen = with(&self.tight, |tight| missed(tight));
        if seen.is_empty() {
            return std::future::pending().await;
        }
        match self.store.tree.watch(&self.store.paths.permits()).await {
            Ok((mut names, changed)) => {
                names.sort_unstable();
                // They may have changed before they were watched.
                if seen.iter().all(|seen| *seen == names) {
                    changed.await;
                }
            }
            Err(_) => sleep(PAUSE).await,
        }
        with(&self.tight, BTreeMap::clear);
    }

    /// One look at a subtask, and what follows from it; whether all went well.
    async fn handle(&self, id: TaskId, turn: Turn) -> bool {
        let fault = match self.try_handle(id, turn).await {
            Ok(()) => return true,
            Err(fault) => fault,
        };
        if fault.is_passing() {
            debug!(%id, %fault, "a subtask is looked at again");
            sleep(PAUSE).await;
        } else {
            warn!(%id, %fault, "a subtask cannot be worked on");
            sleep(LOCKED).await;
        }
        false
    }

    async fn try_handle(&self, id: TaskId, turn: Turn) -> Result<(), Fault> {
        let Some(sub) = self.store.sub(&self.node_context.name, id).await? else { return Ok(()) };
        if sub.task.state == SubState::Running {
            drop(turn);
            self.freed.notify_one();
            return self.recover(&sub).await;
        }
        let Some(main) = self.live_main(&sub).await? else {
            return self.store.discard(&sub).await;
        };
        if main.task.cancelling {
            let ended = sub.task.ended(SubState::Stopped, "its task was stopped");
            return self.store.finish(&sub, None, &ended).await;
        }
        match turn {
            // It may have changed since its gate was looked at.
            Turn::Begin(permit) if matches!(Admission::of(&main.task, now_ms()), Admission::Start(_)) => {
                self.start(sub, &main, permit).await
            }
            _ => Ok(()),
        }
    }

    /// The main task of a subtask, where that is there and not over: where somebody waits for the subtask.
    async fn live_main(&self, sub: &Found<SubTask>) -> Result<Option<Found<MainTask>>, Fault> {
        let main = self.store.main(sub.id.of_main()).await?;
        Ok(main.filter(|main| !main.task.state.is_over()))
    }

    /// Begins a subtask, if nothing it needs is another's, and stays with it until its end.
    async fn start(
        &self,
        mut sub: Found<SubTask>,
        main: &Found<MainTask>,
        permit: OwnedSemaphorePermit,
    ) -> Result<(), Fault> {
        let needed = permits::needed(&main.task, self.node_context.config.limit);
        let taken = if needed.is_empty() { Vec::new() } else { permits::taken(&self.store).await? };
        let Some(permits) = permits::free(&self.store, &taken, &needed) else {
            with(&self.tight, |tight| tight.insert(main.id, taken));
            return Ok(());
        };
        let lock = self.store.lock(&sub.task);
        if self.is_taken(&lock).await? {
            self.rest(permit).await;
            return Ok(());
        }
        let coordinator = &self.node_context.coordinator;
        let (Some(session), Some(_)) = (coordinator.session_id(), trust(coordinator)) else {
            // Just connected again. What begins before our session is known to be good would be ended at once.
            drop(permit);
            sleep(PAUSE).await;
            return Ok(());
        };
        let limit =
            (self.node_context.config.timeout + self.node_context.config.stop_limit).as_millis() as u64;
        let fence = match self.store.start(&mut sub, permits, session, limit).await {
            Err(Fault::Tree(Error::Exists(path))) if path == lock => {
                with(&self.others, |others| others.insert(lock, None));
                self.rest(permit).await;
                return Ok(());
            }
            fence => fence?,
        };
        metrics::gauge!("allot_compaction_running").increment(1);
        let outcome = self.compact(&sub, fence).await;
        metrics::gauge!("allot_compaction_running").decrement(1);
        self.hand_over(&sub, session, outcome).await
    }

    /// Whether a partition's lock is another's, as far as is known here, or was until less than a session time ago: whose
    /// it was may not have known at once that it lost it.
    async fn is_taken(&self, lock: &str) -> Result<bool, Fault> {
        if with(&self.others, |others| !others.contains_key(lock)) {
            return Ok(false);
        }
        let there = self.store.tree.get(lock).await?.is_some();
        let session = self.node_context.session_timeout();
        Ok(with(&self.others, |others| {
            let gone = (!there).then(|| others.get(lock).copied().flatten().unwrap_or_else(Instant::now));
            let over = gone.is_some_and(|gone| gone.elapsed() >= session);
            if over {
                others.remove(lock);
            } else {
                others.insert(lock.to_owned(), gone);
            }
            !over
        }))
    }

    /// Leaves a partition alone for a while, and its slot to others.
    async fn rest(&self, permit: OwnedSemaphorePermit) {
        drop(permit);
        self.freed.notify_one();
        sleep(LOCKED).await;
    }

    /// What is `Running` and not run by this life: an earlier one had it. It is begun again when nothing of that one
    /// can still be at it: a session time after its lock has gone.
    async fn recover(&self, sub: &Found<SubTask>) -> Result<(), Fault> {
        let path = self.store.lock(&sub.task);
        let session = self.node_context.session_timeout();
        let name = sub.id.to_string().into_bytes();
        loop {
            let own = self.node_context.coordinator.session_id();
            match self.store.tree.get(&path).await? {
                // We have it, and do not know: the answer to our own beginning was lost.
                Some(node) if node.owner.is_some() && node.owner == own && node.data == name => {
                    return self.give_up(sub, own, false).await;
                }
                Some(node) if node.data == name => {}
                _ => break,
            }
            if self.pause(session / 4).await {
                return Ok(());
            }
        }
        if self.pause(session).await {
            return Ok(());
        }
        info!(id = %sub.id, partition = sub.task.partition_name, "left by an earlier life; waiting again");
        self.give_up(sub, None, true).await
    }

    /// What stands there as running and is not run waits again, if anybody waits for it. With a `holder`, that session of
    /// ours still has its lock.
    async fn give_up(&self, sub: &Found<SubTask>, holder: Option<i64>, counted: bool) -> Result<(), Fault> {
        if self.live_main(sub).await?.is_some() {
            return self.store.requeue(sub, holder, counted).await;
        }
        if let Some(session) = holder {
            self.store.release(sub, session).await?;
        }
        self.store.discard(sub).await
    }

    /// Rests; whether this life ended meanwhile.
    async fn pause(&self, span: Duration) -> bool {
        let (mut lost, mut leaving) = (self.lost.clone(), self.leaving.clone());
        tokio::select! {
            () = sleep(span) => false,
            _ = lost.wait_for(|lost| *lost) => true,
            _ = leaving.wait_for(|leaving| *leaving) => true,
        }
    }

    /// Runs the runner to its end.
    async fn compact(&self, sub: &Found<SubTask>, fence: i64) -> Outcome {
        // What was known of our session may have grown old while the subtask was begun.
        let Some(until) = trust(&self.node_context.coordinator) else { return Outcome::Unbegun };
        let spec = self.spec(sub, fence, until);
        let (stop_sender, stop) = watch::channel(false);
        let mut leaving = self.leaving.clone();
        let asked = async {
            tokio::select! {
                () = self.stopped(sub.id.of_main()) => {}
                _ = leaving.wait_for(|leaving| *leaving) => {}
            }
            stop_sender.send_replace(true);
            std::future::pending::<()>().await;
        };
        let attention = Attention {
            coordinator: self.node_context.coordinator.clone(),
            stop,
            lost: self.lost.clone(),
            beat: self.node_context.session_timeout() / 10,
        };
        let running = self.node_context.launch.launch(spec, attention);
        let report = tokio::select! { report = running => report, () = asked => return Outcome::CutOff };
        match report {
            Ok(report) if report.why == Why::Unbegun => Outcome::Unbegun,
            Ok(report) if matches!(report.why, Why::CutOff | Why::Abandoned) => Outcome::CutOff,
            Ok(report) if report.why == Why::Stopped && *self.leaving.borrow() => Outcome::CutOff,
            Ok(report) => Outcome::Over(order::ended(&sub.task, report, self.node_context.config.timeout)),
            Err(why) => Outcome::Over(sub.task.ended(SubState::Failed, &why)),
        }
    }

    /// Ends when the main task is to be stopped, or is over.
    async fn stopped(&self, main: TaskId) {
        let dir = self.store.paths.main(main);
        let mut news = self.node_context.coordinator.subscribe();
        loop {
            let status = *news.borrow_and_update();
            let looked = async {
                let (_, changed) = self.store.tree.watch(&dir).await?;
                let main = self.store.main(main).await?.map(|main| main.task);
                let asked = main.is_some_and(|main| main.cancelling || main.state.is_over());
                Ok::<_, Fault>((asked, changed))
            };
            match looked.await {
                Ok((true, _)) => return,
                Ok((false, changed)) => tokio::select! {
                    () = changed => {}
                    _ = news.wait_for(|now| *now != status) => {}
                },
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    /// Writes the outcome, as long as the session lives that began it: the next one cannot, it has no lock.
    async fn hand_over(&self, sub: &Found<SubTask>, session: i64, outcome: Outcome) -> Result<(), Fault> {
        let coordinator = &self.node_context.coordinator;
        let is_over =
            || *self.lost.borrow() || coordinator.session_id().is_some_and(|current| current != session);
        while !is_over() {
            let done = match &outcome {
                Outcome::Over(ended) => self.store.finish(sub, Some(session), ended).await,
                Outcome::CutOff => {
                    let leaving = *self.leaving.borrow();
                    self.store.requeue(sub, Some(session), !leaving).await
                }
                Outcome::Unbegun => self.store.requeue(sub, Some(session), false).await,
            };
            match done {
                Err(fault) if fault.is_passing() && !fault.is_race() => sleep(PAUSE).await,
                // It was given to another while it ran here, who waits for its lock: as long as this session lives.
                Err(fault) if fault.is_race() => match self.store.release(sub, session).await {
                    Err(fault) if fault.is_passing() => sleep(PAUSE).await,
                    _ => return Err(fault),
                },
                done => return done,
            }
        }
        Ok(())
    }
}

fn with<T, R>(shared: &Mutex<T>, act: impl FnOnce(&mut T) -> R) -> R {
    act(&mut shared.lock().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests;
