//! One run of a subtask: starts its runner, stops it when the main task is cancelled or the worker leaves, and writes the
//! result.

use std::sync::atomic::Ordering;
use std::time::Duration;

use allot_coordination::{Error, Retry, Retryable as _};
use tokio::sync::watch;
use tokio::time::{self, Instant, sleep};
use tracing::warn;

use super::kept::Kept;
use super::{STORAGE_PATIENCE, Worker, order};
use crate::admission::Stopped;
use crate::hashing::choose_other;
use crate::runner::{RunSignals, trust};
use crate::supervisor::EndCause;
use crate::task::{Ended, SubState, SubTask};
use crate::task_store::{Fault, Found};

/// How many starts of one partition may be refused, wherever that is, before the partition itself has failed.
const MAX_REFUSALS: u32 = 10;

/// After how long without an answer of ZooKeeper a result is kept on the disk.
const KEEP_AFTER: Duration = Duration::from_millis(500);

/// The end of a run of a subtask.
pub(super) enum RunResult {
    /// The runner ended by itself, or at a limit of its task.
    Ended(Ended),
    /// The runner was ended because ZooKeeper was away or the worker leaves: the subtask runs again and uses up no retry.
    CutOff,
    /// The runner was lost with its supervisor: the subtask runs again and uses up a retry.
    Lost,
    /// No runner was started.
    NotStarted,
    /// The unit cannot run runners, for this reason: the subtask runs elsewhere.
    Refused(String),
}

impl Worker {
    /// Runs the runner of a subtask until it ends, for `timeout` at most.
    pub(super) async fn run(
        &self,
        sub: &Found<SubTask>,
        fence: i64,
        timeout: Duration,
        stopped: &Stopped,
    ) -> RunResult {
        // Between the listing and now somebody else may have written the task, or changed a link.
        let mut check = self.node_context.launch.check(&self.node_context.config, &sub.task);
        let checked = if let Ok(checked) = time::timeout(STORAGE_PATIENCE, &mut check).await {
            checked
        } else {
            // Storage that does not answer must keep neither the unit nor the task from ending.
            tokio::select! {
                checked = check => checked,
                () = self.ended() => return RunResult::NotStarted,
                () = stopped.wait() => return RunResult::NotStarted,
                () = sleep(timeout) => {
                    let why = "the storage of the partition did not answer within the time limit";
                    return RunResult::Ended(sub.task.ended(SubState::Failed, why));
                }
            }
        };
        if let Err(why) = checked {
            return RunResult::Ended(sub.task.ended(SubState::Failed, &why));
        }
        // The confirmation of the session may have expired while the subtask was started.
        let Some(until) = trust(&self.node_context.coordinator) else { return RunResult::NotStarted };
        let spec = order::spec(&self.node_context, sub, fence, until, timeout);
        let (stop_sender, stop) = watch::channel(false);
        let mut leaving = self.leaving.clone();
        let wait_for_stop = async {
            tokio::select! {
                () = stopped.wait() => {}
                _ = leaving.wait_for(|leaving| *leaving) => {}
            }
            stop_sender.send_replace(true);
            std::future::pending::<()>().await;
        };
        let signals = RunSignals {
            coordinator: self.node_context.coordinator.clone(),
            stop,
            lost: self.lost.clone(),
            heartbeat: self.node_context.session_timeout() / 10,
        };
        let began = Instant::now();
        let running = self.node_context.launch.launch(spec, signals);
        let report =
            tokio::select! { report = running => report, () = wait_for_stop => return RunResult::CutOff };
        match report {
            Ok(report) if report.why == EndCause::NotStarted => RunResult::NotStarted,
            Ok(report) if report.why == EndCause::Refused => RunResult::Refused(report.output),
            Ok(report) if order::is_refusal(&report) => RunResult::Refused(order::refusal(&report)),
            Ok(report) if report.why == EndCause::CutOff => RunResult::CutOff,
            // With its session, the worker gives its supervisors up.
            Ok(report) if report.why == EndCause::Abandoned && *self.lost.borrow() => RunResult::CutOff,
            Ok(report) if report.why == EndCause::Abandoned => RunResult::Lost,
            Ok(report) if report.why == EndCause::Stopped && *self.leaving.borrow() => RunResult::CutOff,
            Ok(report) => {
                // The unit can run runners.
                self.fault.worked(began);
                RunResult::Ended(order::ended(&sub.task, report, timeout))
            }
            Err(why) => RunResult::Ended(sub.task.ended(SubState::Failed, &why)),
        }
    }

    /// Notes how long a run took, in a mean of which the latest runs are the most.
    pub(super) fn note_pace(&self, result: &RunResult, began: Instant) {
        if !matches!(result, RunResult::Ended(_)) {
            return;
        }
        let took = (began.elapsed().as_millis() as u64).max(1);
        let before = self.pace.load(Ordering::Relaxed);
        let mean = if before == 0 { took } else { (3 * before).saturating_add(took) / 4 };
        self.pace.store(mean.max(1), Ordering::Relaxed);
    }

    /// The result of a run that this unit refused. The unit takes nothing for a while. A partition at which so many starts
    /// have failed has failed itself.
    fn refused(&self, sub: &mut Found<SubTask>, result: RunResult) -> RunResult {
        let RunResult::Refused(why) = result else { return result };
        warn!(id = %sub.id, partition = sub.task.partition_name, why, "this compaction node cannot run runners");
        self.fault.refused(&why);
        sub.task.refusals += 1;
        if sub.task.refusals < MAX_REFUSALS {
            return RunResult::Refused(why);
        }
        let why = format!("{why}, after {MAX_REFUSALS} starts at compaction nodes that cannot run it");
        RunResult::Ended(sub.task.ended(SubState::Failed, &why))
    }

    /// Another unit that may run this subtask; this one if there is none.
    fn elsewhere(&self, sub: &Found<SubTask>) -> String {
        let (own, task) = (&self.node_context.name, &sub.task);
        let mut bins = self.units.borrow().bins(&task.pc);
        bins.retain(|bin| bin.name != *own);
        let other = choose_other(&sub.id.to_string(), &bins, &task.avoid);
        other.map_or_else(|| own.clone(), |bin| bin.name.clone())
    }

    /// Writes the result while the session that started the subtask lives. The next lifetime writes what this one could not,
    /// a result only if the runner ended while the session was trusted.
    pub(super) async fn record_result(
        &self,
        sub: &mut Found<SubTask>,
        session: i64,
        result: RunResult,
        was_trusted: bool,
    ) -> Result<(), Fault> {
        let result = self.refused(sub, result);
        let sub = &*sub;
        let coordinator = &self.node_context.coordinator;
        let is_over =
            || *self.lost.borrow() || coordinator.session_id().is_some_and(|current| current != session);
        let mut retries = coordinator.retries(format!("the result of subtask {}", sub.id));
        let mut is_kept = false;
        // What is kept: the end, or that the subtask runs again.
        let end = match &result {
            RunResult::Ended(ended) if was_trusted => Some(Some(ended.clone())),
            RunResult::Lost => None,
            _ => Some(None),
        };
        while !is_over() {
            let writing = async {
                match &result {
                    RunResult::Ended(ended) => self.store.finish(sub, Some(session), ended).await,
                    RunResult::Lost => {
                        let leaving = *self.leaving.borrow();
                        self.store.requeue(sub, &sub.task.worker, Some(session), !leaving).await
                    }
                    RunResult::CutOff | RunResult::NotStarted => {
                        self.store.requeue(sub, &sub.task.worker, Some(session), false).await
                    }
                    RunResult::Refused(_) => {
                        let to = self.elsewhere(sub);
                        match self.store.requeue(sub, &to, Some(session), false).await {
                            Err(Fault::Tree(Error::NoNode(path))) if path == self.store.paths.node(&to) => {
                                self.store.requeue(sub, &sub.task.worker, Some(session), false).await
                            }
                            done => done,
                        }
                    }
                }
            };
            tokio::pin!(writing);
            // This process may be stopped before ZooKeeper answers.
            let done = match time::timeout(KEEP_AFTER, &mut writing).await {
                Ok(Ok(())) => Ok(()),
                other => {
                    if let Some(end) = end.clone().filter(|_| !is_kept) {
                        self.kept.keep(sub.id, Kept::new(sub, end)).await;
                        is_kept = true;
                    }
                    if let Ok(done) = other {
                        done
                    } else {
                        // What is kept is written later, unless it is written by this request.
                        tokio::select! {
                            done = &mut writing => done,
                            () = self.session_ended() => continue,
                        }
                    }
                }
            };
            let Err(fault) = done else {
                self.kept.forget(sub.id).await;
                return Ok(());
            };
            // The subtask was reassigned while it ran here. The new worker waits for the lock, which this session must
            // release.
            if fault.retry() == Retry::Reread && self.store.release(sub, session).await.is_ok() {
                self.kept.forget(sub.id).await;
                return Err(fault);
            }
            tokio::select! { () = retries.failed(&fault) => {}, () = self.session_ended() => {} }
        }
        if let Some(end) = end.filter(|_| !is_kept) {
            self.kept.keep(sub.id, Kept::new(sub, end)).await;
        }
        Ok(())
    }
}
