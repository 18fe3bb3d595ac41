//! Decides whether subtasks of a main task may start at a worker: the task may be paused, its window closed, or the
//! task cancelled. The worker watches each main task once for all of its subtasks.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tracing::warn;

use super::ids::TaskId;
use super::node_context::NodeContext;
use super::task::MainTask;
use super::task_store::{Fault, TaskStore};
use allot_coordination::session::Changed;
use allot_coordination::{Error, Following, Lease, Update};

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
enum KnownTask {
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
    main: watch::Receiver<KnownTask>,
    _lease: Lease,
    _following: Following,
}

impl AdmissionWatch {
    /// Starts watching a main task; `changed` is notified of each change.
    pub(crate) fn follow(node_context: &NodeContext, id: TaskId, changed: Arc<Notify>) -> Self {
        let (lease, store) = node_context.lease(id);
        let (sender, main) = watch::channel(KnownTask::default());
        let read = move |_| {
            let store = store.clone();
            async move { read(&store, id).await }
        };
        let publish = move |update| {
            let Update::Read(_, seen) = update else { return };
            if sender.send_if_modified(|before| std::mem::replace(before, seen) != *before) {
                changed.notify_one();
            }
        };
        let following = lease.coordinator().follow(format!("task {id}"), read, publish);
        Self { main, _lease: lease, _following: following }
    }

    /// The admission at `now` (milliseconds since 1970); [`Admission::Wait`] until the task is read.
    pub(crate) fn admission(&self, now: u64) -> Admission {
        match &*self.main.borrow() {
            KnownTask::Nothing => Admission::Wait,
            KnownTask::Task(task) => Admission::of(task, now),
            KnownTask::Gone => Admission::Cancel,
        }
    }

    /// Returns when the task is being stopped, has ended, or is no longer watched.
    pub(crate) fn stopped(&self) -> Stopped {
        Stopped(self.main.clone())
    }
}

/// Follows whether a main task is being stopped.
#[derive(Clone)]
pub(crate) struct Stopped(watch::Receiver<KnownTask>);

impl Stopped {
    /// Returns when the task is being stopped, has ended, or is no longer watched: its subtasks are not here any more.
    pub(crate) async fn wait(&self) {
        let is_stopped = |seen: &KnownTask| match seen {
            KnownTask::Nothing => false,
            KnownTask::Task(task) => task.cancelling || task.state.is_over(),
            KnownTask::Gone => true,
        };
        let _ = self.0.clone().wait_for(is_stopped).await;
    }
}

async fn read(store: &TaskStore, id: TaskId) -> Result<(KnownTask, Changed), Fault> {
    match store.tree.watch(&store.paths.main(id)).await {
        Ok((_, changed)) => {
            let main = store.main(id).await?;
            Ok((main.map_or(KnownTask::Nothing, |main| KnownTask::Task(Box::new(main.task))), changed))
        }
        // A worker that sees subtasks of a task either sees the task, or the task was removed. Ids are never reused, so the
        // task will not come back.
        Err(Error::NoNode(_)) => {
            warn!(%id, "a task was removed before its subtasks; removing the subtasks");
            Ok((KnownTask::Gone, Box::pin(std::future::pending())))
        }
        Err(error) => Err(error.into()),
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
