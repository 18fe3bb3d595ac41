//! What keeps the subtasks of a main task from beginning at a worker: it is paused, its window is shut, a limit is
//! reached. Looked at once for a main task, and not for each of its subtasks.

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
use allot_coordination::{Coordinator, Error};

/// What follows for a main task's subtasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Admission {
    /// They may begin, those of a higher priority first.
    Start(i32),
    /// Not now; something will change in the tree.
    Wait,
    /// Not for so long.
    ClosedFor(Duration),
    /// They are to be ended: it is to be stopped, or is over or not there any more, so that nobody waits for them.
    Cancel,
}

/// What is known of a main task.
#[derive(Debug, Default, PartialEq)]
enum Seen {
    #[default]
    Nothing,
    Task(Box<MainTask>),
    Gone,
}

impl Admission {
    /// By what stands in a main task, at this time (milliseconds since 1970).
    pub(crate) fn of(task: &MainTask, now: u64) -> Self {
        if task.cancelling || task.state.is_over() {
            return Self::Cancel;
        }
        if task.paused {
            return Self::Wait;
        }
        match task.window.as_ref().and_then(|window| window.shut_for(now)) {
            Some(span) => Self::ClosedFor(span),
            None => Self::Start(task.priority),
        }
    }
}

/// A main task as it is followed in the tree. Dropping it ends that.
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
    /// Follows a main task; `changed` is told of each change.
    pub(crate) fn follow(
        coordinator: &Coordinator,
        store: &TaskStore,
        id: TaskId,
        changed: Arc<Notify>,
    ) -> Self {
        let (sender, main) = watch::channel(Seen::default());
        let task = tokio::spawn(follow(coordinator.clone(), store.clone(), id, sender, changed));
        Self { main, following: task.abort_handle() }
    }

    /// What it says at this time; [`Admission::Wait`] as long as it was not read.
    pub(crate) fn admission(&self, now: u64) -> Admission {
        match &*self.main.borrow() {
            Seen::Nothing => Admission::Wait,
            Seen::Task(task) => Admission::of(task, now),
            Seen::Gone => Admission::Cancel,
        }
    }
}

async fn follow(
    coordinator: Coordinator,
    store: TaskStore,
    id: TaskId,
    sender: watch::Sender<Seen>,
    told: Arc<Notify>,
) {
    let mut news = coordinator.subscribe();
    loop {
        let status = *news.borrow_and_update();
        let looked = async {
            let (_, changed) = store.tree.watch(&store.paths.main(id)).await?;
            Ok::<_, Fault>((store.main(id).await?, changed))
        };
        match looked.await {
            Ok((main, changed)) => {
                let main = main.map_or(Seen::Nothing, |main| Seen::Task(Box::new(main.task)));
                if sender.send_if_modified(|before| {
                    let other = *before != main;
                    *before = main;
                    other
                }) {
                    told.notify_one();
                }
                tokio::select! {
                    () = changed => {}
                    _ = news.wait_for(|now| *now != status) => {}
                }
            }
            // Whoever sees its subtasks sees it, or that it was removed; and no name is given twice.
            Err(Fault::Tree(Error::NoNode(_))) => {
                warn!(%id, "a task with subtasks is not there any more; what is left of it is removed");
                sender.send_replace(Seen::Gone);
                told.notify_one();
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
    fn a_task_that_is_to_be_stopped_or_is_over_ends_its_subtasks_though_it_is_paused() {
        let id = TaskId::main("u_1", 1_000_000);
        let table = ["d", "s", "t"].map(str::to_owned);
        let task = MainTask { priority: 7, ..MainTask::new(id, table, "u_1".into(), "default".into()) };
        assert_eq!(Admission::of(&task, 0), Admission::Start(7));
        let paused = MainTask { paused: true, ..task };
        assert_eq!(Admission::of(&paused, 0), Admission::Wait);
        assert_eq!(Admission::of(&MainTask { cancelling: true, ..paused.clone() }, 0), Admission::Cancel);
        for state in [State::Done, State::Cancel] {
            assert_eq!(Admission::of(&MainTask { state, ..paused.clone() }, 0), Admission::Cancel);
        }
    }
}
