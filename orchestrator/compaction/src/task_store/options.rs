//! Changes of unfinished tasks on behalf of operators, or of the monitor.

use super::{ATTEMPTS, Fault, TaskStore, create, delete};
use crate::ids::TaskId;
use crate::task::MainTask;
use crate::window::Window;
use allot_coordination::{Error, Op};

/// A change of a task's options; `None` leaves an option as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// The priority.
    pub priority: Option<i32>,
    /// The most subtasks of the task that run at once; 0 for any number.
    pub limit: Option<u32>,
    /// The window; the inner `None` removes it.
    pub window: Option<Option<Window>>,
    /// Time limit of each runner, in seconds; 0 for that of the worker's settings.
    pub timeout: Option<u64>,
    /// Number of times that a subtask may start again after its worker was lost.
    pub retries: Option<u32>,
}

impl Change {
    pub(super) fn apply(&self, task: &mut MainTask) {
        if let Some(priority) = self.priority {
            task.priority = priority;
        }
        if let Some(limit) = self.limit {
            task.limit = limit;
        }
        if let Some(window) = &self.window {
            task.window.clone_from(window);
        }
        if let Some(timeout) = self.timeout {
            task.timeout = timeout;
        }
        if let Some(retries) = self.retries {
            task.retries = retries;
        }
    }
}

impl TaskStore {
    /// Changes an unfinished main task on behalf of an operator or the monitor, and wakes its manager and workers.
    async fn change(
        &self,
        id: TaskId,
        mut change: impl FnMut(&mut MainTask) -> Vec<Op>,
    ) -> Result<MainTask, Fault> {
        for _ in 0..ATTEMPTS {
            let Some(mut main) = self.main(id).await? else {
                return Err(Fault::Refused(format!("task {id} is not there, or packed into history")));
            };
            if main.task.state.is_over() {
                return Err(Fault::Refused(format!("task {id} is over: {}", main.task.state)));
            }
            let mut new = main.task.clone();
            let mut ops = change(&mut new);
            let status = main.status(main.task.state);
            // Manager and workers watch children, not data, so the status node is replaced to notify them.
            ops.extend([delete(status.clone()), create(status, Vec::new())]);
            match self.write(&mut main, new, ops).await {
                Err(Fault::Tree(Error::BadVersion(_))) => {}
                done => return done.map(|()| main.task),
            }
        }
        Err(Fault::Busy(format!("task {id} was changed by others {ATTEMPTS} times in a row; try again")))
    }

    /// Requests the end of a task.
    pub async fn stop(&self, id: TaskId) -> Result<MainTask, Fault> {
        self.change(id, |task| {
            task.cancelling = true;
            Vec::new()
        })
        .await
    }

    /// Pauses a task, so that no further subtask starts, or resumes it.
    pub async fn pause(&self, id: TaskId, paused: bool) -> Result<MainTask, Fault> {
        self.change(id, |task| {
            task.paused = paused;
            Vec::new()
        })
        .await
    }

    /// Changes options of a task. Each holds for the subtasks that have not begun; `retries` for those that are not
    /// assigned yet.
    pub async fn set(&self, id: TaskId, change: &Change) -> Result<MainTask, Fault> {
        self.change(id, |task| {
            change.apply(task);
            Vec::new()
        })
        .await
    }

    /// Gives a task to another manager, which must be present. If `from` is given, the task must still have that
    /// manager; otherwise nothing changes.
    pub async fn reassign(&self, id: TaskId, from: Option<&str>, to: &str) -> Result<MainTask, Fault> {
        let notice = self.paths.at(to, id);
        for _ in 0..ATTEMPTS {
            // An earlier notice may be there, and may be read and deleted at any moment.
            let tell = match self.tree.get(&notice).await? {
                Some(_) => Op::Check { path: notice.clone(), version: None },
                None => create(notice.clone(), Vec::new()),
            };
            let change = |task: &mut MainTask| {
                if from.is_some_and(|from| from != task.manager) {
                    return Vec::new();
                }
                to.clone_into(&mut task.manager);
                vec![Op::Check { path: self.paths.node(to), version: None }, tell.clone()]
            };
            match self.change(id, change).await {
                Err(Fault::Tree(Error::NoNode(path) | Error::Exists(path))) if path == notice => {}
                done => return done,
            }
        }
        Err(Fault::Busy(format!("task {id} was changed by others {ATTEMPTS} times in a row; try again")))
    }
}
