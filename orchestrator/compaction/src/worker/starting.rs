//! The start of a subtask: its permits, the storage of its partition, the lock of its partition; then its run and its
//! result. A start that must wait gives its slot to others.

use std::sync::atomic::Ordering;
use std::time::Duration;

use allot_coordination::Error;
use allot_runtime::time::now_ms;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

use super::offer::Candidate;
use super::{STORAGE_PATIENCE, Worker, order, with};
use crate::admission::{Admission, Stopped};
use crate::permits;
use crate::runner::trust;
use crate::task::{MainTask, SubState, SubTask};
use crate::task_store::{Fault, Found};

/// Pause before a worker retries a partition that another worker has locked.
const LOCKED_DELAY: Duration = Duration::from_secs(1);

impl Worker {
    /// Begins a subtask that waits at another unit, unless somebody else has begun it, or it has failed at this
    /// unit and another can run it.
    pub(super) async fn try_take(
        &self,
        Candidate { id, from, is_alone }: &Candidate,
        permit: OwnedSemaphorePermit,
        stopped: &Stopped,
    ) -> Result<(), Fault> {
        self.has_missed.store(true, Ordering::Relaxed);
        let Some(sub) = self.store.sub(from, *id).await? else { return Ok(()) };
        if sub.task.state != SubState::Init {
            return Ok(());
        }
        if sub.task.avoid == self.node_context.name && !is_alone {
            self.pass_over(*id, false);
            return Ok(());
        }
        let Some(main) = self.unfinished_main(&sub).await? else { return Ok(()) };
        if main.task.cancelling || !matches!(Admission::of(&main.task, now_ms()), Admission::Start(_)) {
            return Ok(());
        }
        self.start(sub, &main, permit, stopped).await
    }

    /// Starts a subtask, if its permits and its partition's lock are free, and follows it to its end.
    pub(super) async fn start(
        &self,
        mut sub: Found<SubTask>,
        main: &Found<MainTask>,
        permit: OwnedSemaphorePermit,
        stopped: &Stopped,
    ) -> Result<(), Fault> {
        let Some(unpaused) = self.unpaused().await? else {
            with(&self.starting, |starting| starting.remove(&sub.id));
            return Err(Fault::Busy("all tasks are paused, which the watch does not show yet".to_owned()));
        };
        let needed = permits::needed(&main.task, self.node_context.config.limit);
        let taken = if needed.is_empty() { Vec::new() } else { permits::taken(&self.store).await? };
        let permits = match permits::free(&self.store, &taken, &needed, main.task.priority) {
            Ok(permits) => permits,
            Err(limit) => {
                if !limit.is_by_cluster() {
                    with(&self.starting, |starting| starting.remove(&sub.id));
                }
                with(&self.limited, |limited| limited.insert(main.id, limit));
                return Ok(());
            }
        };
        let Some(file) = self.file(&sub, stopped).await else { return Ok(()) };
        sub.task.file = file;
        let lock = self.store.lock(&sub.task);
        if self.is_taken(&lock).await? {
            self.back_off(&sub, permit).await;
            return Ok(());
        }
        let coordinator = &self.node_context.coordinator;
        let (Some(session), Some(_)) = (coordinator.session_id(), trust(coordinator)) else {
            // The connection is new. A runner that starts before the session is confirmed would be ended at once.
            return Err(Error::Offline.into());
        };
        let timeout = order::timeout(&self.node_context, &main.task);
        let limit = timeout.saturating_add(self.node_context.config.stop_limit).as_millis() as u64;
        let own = &self.node_context.name;
        let fence = match self.store.start(&mut sub, own, unpaused, permits, session, limit).await {
            Err(Fault::Tree(Error::Exists(path))) if path == lock => {
                with(&self.foreign_locks, |others| others.insert(lock, None));
                self.back_off(&sub, permit).await;
                return Ok(());
            }
            Err(Fault::Tree(Error::BadVersion(path) | Error::NoNode(path)))
                if path == self.store.paths.paused() =>
            {
                with(&self.unpaused, |unpaused| *unpaused = None);
                return Err(Error::BadVersion(path).into());
            }
            fence => fence?,
        };
        with(&self.late_files, |files| files.remove(&sub.id));
        self.has_missed.store(false, Ordering::Relaxed);
        self.let_others_start(sub.id);
        metrics::gauge!("allot_compaction_running").increment(1);
        let began = Instant::now();
        let result = self.run(&sub, fence, timeout, stopped).await;
        self.note_pace(&result, began);
        metrics::gauge!("allot_compaction_running").decrement(1);
        metrics::histogram!("allot_compaction_subtask_seconds").record(began.elapsed());
        let was_trusted = trust(coordinator).is_some();
        self.record_result(&mut sub, session, result, was_trusted).await
    }

    /// The file of a subtask; `None` if it cannot start now, because the unit leaves or loses its session or the task is
    /// stopped before the storage answers, or because the storage answers late. While the storage does not answer, other
    /// subtasks may start in the other slots, and the task may change. So a late answer is kept for the next attempt,
    /// which reads again what it needs to know, and does not ask the storage again: it may always be late.
    async fn file(&self, sub: &Found<SubTask>, stopped: &Stopped) -> Option<String> {
        if let Some(file) = with(&self.late_files, |files| files.get(&sub.id).cloned()) {
            return Some(file);
        }
        let mut file = self.node_context.launch.file(&self.node_context.config, &sub.task);
        if let Ok(file) = timeout(STORAGE_PATIENCE, &mut file).await {
            return Some(file);
        }
        warn!(id = %sub.id, partition = sub.task.partition_name, "the storage of a partition does not answer");
        self.let_others_start(sub.id);
        tokio::select! {
            file = file => drop(with(&self.late_files, |files| files.insert(sub.id, file))),
            () = self.ended() => {}
            () = stopped.wait() => {}
        }
        None
    }

    /// Whether another worker holds a partition's lock, as far as this worker knows, or held it less than one session
    /// timeout ago. The former holder may not yet know that it lost the lock.
    async fn is_taken(&self, lock: &str) -> Result<bool, Fault> {
        if with(&self.foreign_locks, |others| !others.contains_key(lock)) {
            return Ok(false);
        }
        let there = self.store.tree.get(lock).await?.is_some();
        let session = self.node_context.session_timeout();
        Ok(with(&self.foreign_locks, |others| {
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

    /// Waits before the partition is tried again; other subtasks may use the slot.
    async fn back_off(&self, sub: &Found<SubTask>, permit: OwnedSemaphorePermit) {
        drop(permit);
        self.fault.gives_up();
        self.let_others_start(sub.id);
        if sub.task.worker != self.node_context.name {
            self.pass_over(sub.id, true);
        }
        sleep(LOCKED_DELAY).await;
    }
}
