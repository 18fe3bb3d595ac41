//! The worker: looks into its inbox, runs as many subtasks at once as it has slots, each behind a guard, and hands
//! over how they ended. One life of it is one session; what an earlier life left is begun again by the rule.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tracing::{debug, info, warn};

use super::board::{Board, Fault, Found};
use super::gate::{Gate, Word};
use super::guard::{Report, Spec, Why};
use super::ids::TaskId;
use super::runner::{Attention, trust};
use super::task::{Ended, SubState, SubTask};
use super::{PAUSE, Part, permits};
use crate::coordination::Error;
use crate::daemon::now_ms;

/// How long a partition is left alone that is locked by another.
const LOCKED: Duration = Duration::from_secs(1);
/// How many logs of runners are kept on disk.
const LOGS: usize = 1000;

/// A unit as worker.
#[derive(Clone)]
pub(crate) struct Worker {
    part: Part,
    board: Board,
    /// Main tasks that somebody has given to this unit.
    notices: mpsc::Sender<TaskId>,
    slots: Arc<Semaphore>,
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
pub(crate) async fn run(part: Part, notices: mpsc::Sender<TaskId>) {
    while !part.context.stop.is_asked() {
        let Ok(status) = part.context.coordinator.up().await else { return };
        let (lost_sender, lost) = watch::channel(false);
        let (leave, leaving) = watch::channel(false);
        let worker = Worker {
            board: part.board(),
            slots: Arc::new(Semaphore::new(part.config.slots as usize)),
            freed: Arc::default(),
            tight: Arc::default(),
            others: Arc::default(),
            notices: notices.clone(),
            part: part.clone(),
            lost,
            leaving,
        };
        let mut work = JoinSet::new();
        let mut stop = part.context.stop.clone();
        tokio::select! {
            () = worker.live(status.generation, &mut work) => {
                warn!("the session is lost; all runners are ended");
                lost_sender.send_replace(true);
            }
            () = stop.asked() => {
                leave.send_replace(true);
            }
        }
        while work.join_next().await.is_some() {}
    }
}

impl Worker {
    /// One life, until its session is over.
    async fn live(&self, generation: u64, work: &mut JoinSet<TaskId>) {
        let inbox = self.board.paths.inbox(&self.part.name);
        let mut known: BTreeSet<TaskId> = BTreeSet::new();
        let mut gates: BTreeMap<TaskId, Gate> = BTreeMap::new();
        let mut news = self.part.context.coordinator.subscribe();
        loop {
            let status = *news.borrow_and_update();
            if status.generation != generation || status.closed {
                return;
            }
            let (names, changed) = match self.board.tree.watch(&inbox).await {
                Ok(looked) => looked,
                Err(error) => {
                    debug!(%error, "the inbox cannot be read now");
                    if let Error::NoNode(_) = error {
                        // We were away so long that it was taken away.
                        let _ = self.board.tree.ensure(&inbox).await;
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
            self.attend(&ids, &mut gates);
            tokio::pin!(changed);
            loop {
                let opens = self.begin(&ids, &gates, &mut known, work);
                tokio::select! {
                    () = &mut changed => break,
                    _ = news.wait_for(|now| *now != status) => break,
                    () = self.freed.notified() => {}
                    () = sleep(opens.unwrap_or_default()), if opens.is_some() => {}
                    () = self.loosened() => {}
                    Some(ended) = work.join_next(), if !work.is_empty() => {
                        if let Ok(id) = ended {
                            known.remove(&id);
                        }
                        // What it was about stands in the inbox, or not any more.
                        break;
                    }
                }
            }
        }
    }

    /// Follows the main tasks of these subtasks, and no others.
    fn attend(&self, ids: &[TaskId], gates: &mut BTreeMap<TaskId, Gate>) {
        let mains: BTreeSet<TaskId> = ids.iter().map(|id| id.of_main()).collect();
        gates.retain(|main, _| mains.contains(main));
        with(&self.tight, |tight| tight.retain(|main, _| mains.contains(main)));
        for main in mains {
            gates.entry(main).or_insert_with(|| {
                Gate::follow(&self.part.context.coordinator, &self.board, main, self.freed.clone())
            });
        }
    }

    /// Begins what may begin, as long as there are slots: by priority, then the older. When the next window opens, if
    /// one keeps something from beginning.
    fn begin(
        &self,
        ids: &[TaskId],
        gates: &BTreeMap<TaskId, Gate>,
        known: &mut BTreeSet<TaskId>,
        work: &mut JoinSet<TaskId>,
    ) -> Option<Duration> {
        if self.slots.available_permits() == 0 {
            return None;
        }
        let now = now_ms();
        let words: BTreeMap<TaskId, Word> =
            gates.iter().map(|(main, gate)| (*main, gate.word(now))).collect();
        let opens = words.values().filter_map(|word| match word {
            Word::Shut(span) => Some(*span),
            Word::Go(_) | Word::Wait | Word::Gone => None,
        });
        let tight: BTreeSet<TaskId> = with(&self.tight, |tight| tight.keys().copied().collect());
        let free = ids.iter().filter(|id| !known.contains(id) && !tight.contains(&id.of_main()));
        let mut ready: Vec<(Reverse<i32>, TaskId)> = free
            .filter_map(|id| match words.get(&id.of_main()) {
                Some(Word::Go(priority)) => Some((Reverse(*priority), *id)),
                Some(Word::Gone) => Some((Reverse(i32::MAX), *id)),
                _ => None,
            })
            .collect();
        ready.sort_unstable();
        for (_, id) in ready {
            let Ok(permit) = self.slots.clone().try_acquire_owned() else { break };
            known.insert(id);
            let worker = self.clone();
            work.spawn(async move {
                worker.handle(id, permit).await;
                id
            });
        }
        opens.min()
    }

    /// Ends when permits may be free again that were all taken; never, where none are missed.
    async fn loosened(&self) {
        let missed = |tight: &BTreeMap<TaskId, Vec<String>>| tight.values().cloned().collect::<Vec<_>>();
        let seen = with(&self.tight, |tight| missed(tight));
        if seen.is_empty() {
            return std::future::pending().await;
        }
        match self.board.tree.watch(&self.board.paths.permits()).await {
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

    /// One look at a subtask, and what follows from it.
    async fn handle(&self, id: TaskId, permit: OwnedSemaphorePermit) {
        let fault = match self.try_handle(id, permit).await {
            Ok(()) => return,
            Err(fault) => fault,
        };
        if fault.is_passing() {
            debug!(%id, %fault, "a subtask is looked at again");
            sleep(PAUSE).await;
        } else {
            warn!(%id, %fault, "a subtask cannot be worked on");
            sleep(LOCKED).await;
        }
    }

    async fn try_handle(&self, id: TaskId, permit: OwnedSemaphorePermit) -> Result<(), Fault> {
        let Some(mut sub) = self.board.sub(&self.part.name, id).await? else { return Ok(()) };
        if sub.task.state == SubState::Running {
            drop(permit);
            self.freed.notify_one();
            return self.recover(&sub).await;
        }
        let Some(main) = self.board.main(id.of_main()).await? else {
            return self.board.discard(&sub).await;
        };
        if main.task.cancelling {
            return self.board.finish(&sub, &sub.task.ended(SubState::Stopped, "its task was stopped")).await;
        }
        // It may have changed since its gate was looked at.
        if !matches!(Word::of(&main.task, now_ms()), Word::Go(_)) {
            return Ok(());
        }
        let needed = permits::needed(&main.task, self.part.config.limit);
        let taken = if needed.is_empty() { Vec::new() } else { permits::taken(&self.board).await? };
        let Some(permits) = permits::free(&self.board, &taken, &needed) else {
            with(&self.tight, |tight| tight.insert(main.id, taken));
            return Ok(());
        };
        let lock = self.board.lock(&sub.task);
        if self.is_taken(&lock).await? {
            self.rest(permit).await;
            return Ok(());
        }
        let coordinator = &self.part.context.coordinator;
        if trust(coordinator).is_none() {
            // Just connected again. What begins before our session is known to be good would be ended at once, and use up
            // a retry.
            drop(permit);
            sleep(PAUSE).await;
            return Ok(());
        }
        let session = coordinator.session_id();
        let limit = (self.part.config.timeout + self.part.config.stop_limit).as_millis() as u64;
        let fence = match self.board.start(&mut sub, permits, session, limit).await {
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
        self.hand_over(&sub, outcome).await
    }

    /// Whether a partition's lock is another's, as far as is known here, or was until less than a session time ago: whose
    /// it was may not have known at once that it lost it.
    async fn is_taken(&self, lock: &str) -> Result<bool, Fault> {
        if with(&self.others, |others| !others.contains_key(lock)) {
            return Ok(false);
        }
        let there = self.board.tree.get(lock).await?.is_some();
        let session = self.part.session_timeout();
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
        let path = self.board.lock(&sub.task);
        let session = self.part.session_timeout();
        let name = sub.id.to_string().into_bytes();
        loop {
            let own = self.part.context.coordinator.session_id();
            match self.board.tree.get(&path).await? {
                // We have it, and do not know: the answer to our own beginning was lost.
                Some(node) if node.owner.is_some() && node.owner == own && node.data == name => {
                    if self.board.main(sub.id.of_main()).await?.is_none() {
                        self.board.release(sub, own).await?;
                        return self.board.discard(sub).await;
                    }
                    return self.board.requeue(sub, true, false).await;
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
        if self.board.main(sub.id.of_main()).await?.is_none() {
            return self.board.discard(sub).await;
        }
        info!(id = %sub.id, partition = sub.task.partition_name, "left by an earlier life; waiting again");
        self.board.requeue(sub, false, true).await
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

    /// Runs the runner to its end; `None` where it was ended for a reason of ours.
    async fn compact(&self, sub: &Found<SubTask>, fence: i64) -> Option<Ended> {
        let spec = self.spec(sub, fence);
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
            coordinator: self.part.context.coordinator.clone(),
            stop,
            lost: self.lost.clone(),
            beat: self.part.session_timeout() / 10,
        };
        let running = self.part.launch.launch(spec, attention);
        let report = tokio::select! { report = running => report, () = asked => return None };
        match report {
            Ok(report) if matches!(report.why, Why::CutOff | Why::Abandoned) => None,
            Ok(report) if report.why == Why::Stopped && *self.leaving.borrow() => None,
            Ok(report) => Some(ended(&sub.task, report, self.part.config.timeout)),
            Err(why) => Some(sub.task.ended(SubState::Failed, &why)),
        }
    }

    /// Ends when the main task is to be stopped.
    async fn stopped(&self, main: TaskId) {
        let dir = self.board.paths.main(main);
        let mut news = self.part.context.coordinator.subscribe();
        loop {
            let status = *news.borrow_and_update();
            let looked = async {
                let (_, changed) = self.board.tree.watch(&dir).await?;
                let asked = self.board.main(main).await?.is_some_and(|main| main.task.cancelling);
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

    /// Writes the outcome, as long as this session lives: the next one cannot, it has no lock.
    async fn hand_over(&self, sub: &Found<SubTask>, outcome: Option<Ended>) -> Result<(), Fault> {
        while !*self.lost.borrow() {
            let leaving = *self.leaving.borrow();
            let done = match &outcome {
                Some(ended) => self.board.finish(sub, ended).await,
                None => self.board.requeue(sub, true, !leaving).await,
            };
            match done {
                Err(fault) if fault.is_passing() && !fault.is_race() => sleep(PAUSE).await,
                // It was given to another while it ran here, who waits for its lock: as long as this session lives.
                Err(fault) if fault.is_race() => {
                    let session = self.part.context.coordinator.session_id();
                    match self.board.release(sub, session).await {
                        Err(fault) if fault.is_passing() => sleep(PAUSE).await,
                        _ => return Err(fault),
                    }
                }
                done => return done,
            }
        }
        Ok(())
    }

    fn spec(&self, sub: &Found<SubTask>, fence: i64) -> Spec {
        let (task, config) = (&sub.task, &self.part.config);
        let [db, schema, table] = task.table();
        let main = sub.id.of_main().to_string();
        let (round, attempt, fence) = (task.round.to_string(), task.attempt.to_string(), fence.to_string());
        let pairs = [
            ("ALLOT_TASK", main.as_str()),
            ("ALLOT_SUBTASK", &task.id),
            ("ALLOT_DB", db),
            ("ALLOT_SCHEMA", schema),
            ("ALLOT_TABLE", table),
            ("ALLOT_PARTITION", &task.partition_name),
            ("ALLOT_ROUND", &round),
            ("ALLOT_ATTEMPT", &attempt),
            ("ALLOT_FENCE", &fence),
            ("ALLOT_NODE", &self.part.name),
        ];
        let input = serde_json::json!({
            "task": main, "subtask": task.id, "db": db, "schema": schema, "table": table,
            "partition": task.partition_name, "round": task.round, "attempt": task.attempt,
            "fence": fence, "node": self.part.name,
        });
        Spec {
            program: config.runner.clone(),
            environment: pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            input: format!("{input}\n"),
            timeout: config.timeout.as_millis() as u64,
            stop_limit: config.stop_limit.as_millis() as u64,
            trust: trust(&self.part.context.coordinator).unwrap_or(0),
            log: self.log(sub.id),
        }
    }

    /// Where the last of a runner's output goes; the oldest make room.
    fn log(&self, id: TaskId) -> Option<String> {
        let dir = &self.part.config.output_dir;
        let made = std::fs::create_dir_all(dir).and_then(|()| std::fs::read_dir(dir));
        let entries = match made {
            Ok(entries) => entries,
            Err(error) => {
                warn!(dir = %dir.display(), %error, "no output of runners is kept");
                return None;
            }
        };
        let mut old: Vec<(std::time::SystemTime, PathBuf)> = entries
            .flatten()
            .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "log"))
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
            .collect();
        old.sort();
        let over = (old.len() + 1).saturating_sub(LOGS);
        for (_, path) in old.into_iter().take(over) {
            let _ = std::fs::remove_file(path);
        }
        dir.join(format!("{id}.log")).to_str().map(str::to_owned)
    }
}

fn with<T, R>(shared: &Mutex<T>, act: impl FnOnce(&mut T) -> R) -> R {
    act(&mut shared.lock().unwrap_or_else(PoisonError::into_inner))
}

/// How a runner's end counts.
fn ended(task: &SubTask, report: Report, limit: Duration) -> Ended {
    let (state, message) = match (report.why, report.exit) {
        (Why::Itself, Some(0)) => (SubState::Success, String::new()),
        (Why::Itself, Some(code)) => (SubState::Failed, format!("exit code {code}")),
        (Why::Stopped, _) => (SubState::Stopped, "its task was stopped".to_owned()),
        (Why::Timeout, _) => {
            (SubState::Failed, format!("not done within {}", humantime::format_duration(limit)))
        }
        (_, _) => (SubState::Failed, "it was ended by a signal".to_owned()),
    };
    let result = if state == SubState::Success { report.result } else { None };
    Ended { exit: report.exit, output: report.output, result, ..task.ended(state, &message) }
}
