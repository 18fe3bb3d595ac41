//! One run of a subtask: starts its runner, stops it when the main task is cancelled or the worker leaves, and writes the
//! result.

use std::time::Duration;

use allot_coordination::{Retry, Retryable as _};
use tokio::sync::watch;
use tokio::time::{self, sleep};

use super::{STORAGE_PATIENCE, Unwritten, Worker, order, with};
use crate::admission::Stopped;
use crate::runner::{RunSignals, trust};
use crate::supervisor::EndCause;
use crate::task::{Ended, SubState, SubTask};
use crate::task_store::{Fault, Found};

/// The end of a run of a subtask.
pub(super) enum RunResult {
    /// The runner ended by itself, or at a limit of its task.
    Ended(Ended),
    /// The worker ended the runner for a reason of its own: the subtask runs again.
    CutOff,
    /// No runner was started.
    NotStarted,
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
        let running = self.node_context.launch.launch(spec, signals);
        let report =
            tokio::select! { report = running => report, () = wait_for_stop => return RunResult::CutOff };
        match report {
            Ok(report) if report.why == EndCause::NotStarted => RunResult::NotStarted,
            Ok(report) if matches!(report.why, EndCause::CutOff | EndCause::Abandoned) => RunResult::CutOff,
            Ok(report) if report.why == EndCause::Stopped && *self.leaving.borrow() => RunResult::CutOff,
            Ok(report) => RunResult::Ended(order::ended(&sub.task, report, timeout)),
            Err(why) => RunResult::Ended(sub.task.ended(SubState::Failed, &why)),
        }
    }

    /// Writes the result while the session that started the subtask lives. If the runner ended while that session was
    /// trusted, the next lifetime writes what this one could not.
    pub(super) async fn record_result(
        &self,
        sub: &Found<SubTask>,
        session: i64,
        result: RunResult,
        was_trusted: bool,
    ) -> Result<(), Fault> {
        let coordinator = &self.node_context.coordinator;
        let is_over =
            || *self.lost.borrow() || coordinator.session_id().is_some_and(|current| current != session);
        let mut retries = coordinator.retries(format!("the result of subtask {}", sub.id));
        while !is_over() {
            let done = match &result {
                RunResult::Ended(ended) => self.store.finish(sub, Some(session), ended).await,
                RunResult::CutOff => {
                    let leaving = *self.leaving.borrow();
                    self.store.requeue(sub, Some(session), !leaving).await
                }
                RunResult::NotStarted => self.store.requeue(sub, Some(session), false).await,
            };
            let Err(fault) = done else { return Ok(()) };
            // The subtask was reassigned while it ran here. The new worker waits for the lock, which this session must
            // release.
            if fault.retry() == Retry::Reread && self.store.release(sub, session).await.is_ok() {
                return Err(fault);
            }
            tokio::select! { () = retries.failed(&fault) => {}, () = self.session_ended() => {} }
        }
        if let RunResult::Ended(ended) = result
            && was_trusted
        {
            with(&self.unwritten, |unwritten| {
                unwritten.insert(sub.id, Unwritten { version: sub.version, ended })
            });
        }
        Ok(())
    }
}
