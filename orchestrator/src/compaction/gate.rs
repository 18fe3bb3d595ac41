//! What keeps the subtasks of a main task from beginning at a worker: it is paused, its window is shut, a limit is
//! reached. Looked at once for a main task, and not for each of its subtasks.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::sleep;
use tracing::warn;

use super::PAUSE;
use super::board::{Board, Fault};
use super::ids::TaskId;
use super::task::MainTask;
use crate::coordination::{Coordinator, Error};

/// What follows for a main task's subtasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Word {
    /// They may begin, those of a higher priority first.
    Go(i32),
    /// Not now; something will change in the tree.
    Wait,
    /// Not for so long.
    Shut(Duration),
    /// It is not there any more, so that nobody waits for them: they go.
    Gone,
}

/// What is known of a main task.
#[derive(Debug, Default, PartialEq)]
enum Seen {
    #[default]
    Nothing,
    Task(Box<MainTask>),
    Gone,
}

impl Word {
    /// By what stands in a main task, at this time (milliseconds since 1970).
    pub(crate) fn of(task: &MainTask, now: u64) -> Self {
        // What is to be stopped is gone through, to be ended.
        if task.cancelling {
            return Self::Go(i32::MAX);
        }
        if task.paused {
            return Self::Wait;
        }
        match task.window.as_ref().and_then(|window| window.shut_for(now)) {
            Some(span) => Self::Shut(span),
            None => Self::Go(task.priority),
        }
    }
}

/// A main task as it is followed in the tree. Dropping it ends that.
pub(crate) struct Gate {
    main: watch::Receiver<Seen>,
    following: AbortHandle,
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.following.abort();
    }
}

impl Gate {
    /// Follows a main task; `changed` is told of each change.
    pub(crate) fn follow(coordinator: &Coordinator, board: &Board, id: TaskId, changed: Arc<Notify>) -> Self {
        let (sender, main) = watch::channel(Seen::default());
        let task = tokio::spawn(follow(coordinator.clone(), board.clone(), id, sender, changed));
        Self { main, following: task.abort_handle() }
    }

    /// What it says at this time; [`Word::Wait`] as long as it was not read.
    pub(crate) fn word(&self, now: u64) -> Word {
        match &*self.main.borrow() {
            Seen::Nothing => Word::Wait,
            Seen::Task(task) => Word::of(task, now),
            Seen::Gone => Word::Gone,
        }
    }
}

async fn follow(
    coordinator: Coordinator,
    board: Board,
    id: TaskId,
    sender: watch::Sender<Seen>,
    told: Arc<Notify>,
) {
    let mut news = coordinator.subscribe();
    loop {
        let status = *news.borrow_and_update();
        let looked = async {
            let (_, changed) = board.tree.watch(&board.paths.main(id)).await?;
            Ok::<_, Fault>((board.main(id).await?, changed))
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
