//! Decides whether subtasks of a main task may start at a worker: the task may be paused, its window closed, or the
//! task cancelled. The worker watches each main task once for all of its subtasks.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::sleep;
use tracing::warn;

use super::ids::TaskId;
use super::node_context::PAUSE;
use super::task::MainTask;
use super::task_store::{Fault, TaskStore};
use super::watch_sessions::WatchLease;
use allot_coordination::Error;

/// Whether subtasks of a main task may start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The subtasks may start, in the order of priorities.
    Start(i32),
    /// The subtasks wait for a change in the tree.
    Wait,
    /// The window is closed for this long.
    ClosedFor(Duration),
    /// The subtasks must be removed: the task has ended, or no longer exists. Those of a task that is being stopped wait for
    /// the manager, which ends many at once.
    Cancel,
}

/// The watch's last read of a main task.
#[derive(Debug, Default, PartialEq)]
enum Seen {
    #[default]
    Nothing,
    Task(Box<MainTask>),
    Gone,
}

impl Admission {
    /// The admission of a task at `now` (milliseconds since 1970).
    pub(crate) fn of(task: &MainTask, now: u64) -> Self {
        if task.state.is_over() {
            return Self::Cancel;
        }
        if task.cancelling || task.paused {
            return Self::Wait;
        }
        match task.window.as_ref().and_then(|window| window.shut_for(now)) {
            Some(span) => Self::ClosedFor(span),
            None => Self::Start(task.priority),
        }
    }
}

/// Watches a main task. Dropping it ends the watch.
pub(crate) struct AdmissionWatch {
    main: watch::Receiver<Seen>,
    following: AbortHandle,
}

impl Drop for AdmissionWatch {
    fn drop(&mut self) {
        self.following.abort();
    }
}

impl AdmissionWatch {
    /// Starts watching a main task on this session; `root` is the path of compaction's nodes, and `changed` is notified of
    /// each change.
    pub(crate) fn follow(lease: WatchLease, root: &str, id: TaskId, changed: Arc<Notify>) -> Self {
        let (sender, main) = watch::channel(Seen::default());
        let store = TaskStore::new(lease.coordinator().tree(), root);
        let task = tokio::spawn(follow(lease, store, id, sender, changed));
        Self { main, following: task.abort_handle() }
    }

    /// The admission at `now` (milliseconds since 1970); [`Admission::Wait`] until the task is read.
    pub(crate) fn admission(&self, now: u64) -> Admission {
        match &*self.main.borrow() {
            Seen::Nothing => Admission::Wait,
            Seen::Task(task) => Admission::of(task, now),
            Seen::Gone => Admission::Cancel,
        }
    }
}

async fn follow(
    lease: WatchLease,
    store: TaskStore,
    id: TaskId,
    sender: watch::Sender<Seen>,
    notify: Arc<Notify>,
) {
    let mut status_changes = lease.coordinator().subscribe();
    let mut is_synced = false;
    loop {
        let status = *status_changes.borrow_and_update();
        let read = async {
            let (_, changed) = store.tree.watch(&store.paths.main(id)).await?;
            Ok::<_, Fault>((store.main(id).await?, changed))
        };
        match read.await {
            Ok((main, changed)) => {
                is_synced = false;
                let main = main.map_or(Seen::Nothing, |main| Seen::Task(Box::new(main.task)));
                if sender.send_if_modified(|before| {
                    let other = *before != main;
                    *before = main;
                    other
                }) {
                    notify.notify_one();
                }
                tokio::select! {
                    () = changed => {}
                    _ = status_changes.wait_for(|now| *now != status) => {}
                }
            }
            // This session's server may be behind the server of the session that saw the subtasks.
            Err(Fault::Tree(Error::NoNode(_))) if !is_synced => {
                is_synced = store.tree.sync().await.is_ok();
                if !is_synced {
                    sleep(PAUSE).await;
                }
            }
            // A worker that sees subtasks of a task either sees the task, or the task was removed. Ids are never
            // reused, so the task will not come back.
            Err(Fault::Tree(Error::NoNode(_))) => {
                warn!(%id, "a task was removed before its subtasks; removing the subtasks");
                sender.send_replace(Seen::Gone);
                notify.notify_one();
                return;
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::State;

    #[test]
    fn finished_task_ends_its_subtasks_though_paused() {
        let id = TaskId::main("u_1", 1_000_000);
        let table = ["d", "s", "t"].map(str::to_owned);
        let task = MainTask { priority: 7, ..MainTask::new(id, table, "u_1".into(), "default".into()) };
        assert_eq!(Admission::of(&task, 0), Admission::Start(7));
        let paused = MainTask { paused: true, ..task.clone() };
        assert_eq!(Admission::of(&paused, 0), Admission::Wait);
        assert_eq!(
            Admission::of(&MainTask { cancelling: true, ..task.clone() }, 0),
            Admission::Wait,
            "the manager ends them"
        );
        for state in [State::Done, State::Cancel] {
            assert_eq!(Admission::of(&MainTask { state, ..paused.clone() }, 0), Admission::Cancel);
        }
    }
}
