//! Changes of unfinished tasks on behalf of operators, or of the monitor.

use super::{ATTEMPTS, Fault, TaskStore};
use crate::ids::TaskId;
use crate::task::MainTask;
use allot_coordination::{Error, Op};

impl TaskStore {
    /// Changes an unfinished main task on behalf of an operator or the monitor, and wakes its manager and workers.
    async fn change(
        &self,
        id: TaskId,
        mut change: impl FnMut(&mut MainTask) -> Result<Vec<Op>, Fault>,
    ) -> Result<MainTask, Fault> {
        for _ in 0..ATTEMPTS {
            let Some(mut main) = self.main(id).await? else {
                return Err(Fault::Refused(format!("task {id} does not exist, or is packed into history")));
            };
            if main.task.state.is_over() {
                return Err(Fault::Refused(format!("task {id} has ended: {}", main.task.state)));
            }
            let mut new = main.task.clone();
            let mut ops = change(&mut new)?;
            // Wakes manager and workers.
            ops.extend(main.touch(main.task.state));
            match self.write(&mut main, new, ops).await {
                Err(Fault::Tree(Error::BadVersion(_))) => {}
                done => return done.map(|()| main.task),
            }
        }
        Err(Fault::Busy(format!("task {id} was changed by others {ATTEMPTS} times in a row; try again")))
    }

    /// Changes an unfinished task, unless `change` refuses that. Options hold for the subtasks that have not begun;
    /// `retries` for those that are not assigned yet.
    pub async fn set_if(
        &self,
        id: TaskId,
        change: impl Fn(&mut MainTask) -> Result<(), Fault>,
    ) -> Result<MainTask, Fault> {
        self.change(id, |task| change(task).map(|()| Vec::new())).await
    }

    /// Changes an unfinished task.
    pub async fn set(&self, id: TaskId, change: impl Fn(&mut MainTask)) -> Result<MainTask, Fault> {
        self.set_if(id, |task| {
            change(task);
            Ok(())
        })
        .await
    }

    /// Requests the end of a task.
    pub async fn stop(&self, id: TaskId) -> Result<MainTask, Fault> {
        self.set(id, |task| task.cancelling = true).await
    }

    /// Pauses a task, so that no further subtask starts, or resumes it.
    pub async fn pause(&self, id: TaskId, paused: bool) -> Result<MainTask, Fault> {
        self.set(id, |task| task.paused = paused).await
    }

    /// Gives a task to another manager, which must be present. If `from` is given, the task must still have that
    /// manager; otherwise nothing changes.
    pub async fn reassign(&self, id: TaskId, from: Option<&str>, to: &str) -> Result<MainTask, Fault> {
        let notice = self.paths.at(to, id);
        for _ in 0..ATTEMPTS {
            let tell = self.notice(to, id).await?;
            let change = |task: &mut MainTask| {
                if from.is_some_and(|from| from != task.manager) {
                    return Ok(Vec::new());
                }
                to.clone_into(&mut task.manager);
                Ok(vec![Op::Check { path: self.paths.node(to), version: None }, tell.clone()])
            };
            match self.change(id, change).await {
                Err(Fault::Tree(Error::NoNode(path) | Error::Exists(path))) if path == notice => {}
                done => return done,
            }
        }
        Err(Fault::Busy(format!("task {id} was changed by others {ATTEMPTS} times in a row; try again")))
    }
}
