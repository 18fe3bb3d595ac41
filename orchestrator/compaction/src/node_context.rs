//! The context that worker, manager and monitor of a compaction node share.

use std::sync::Arc;
use std::time::Duration;

use allot_coordination::{Coordinator, Lease, Sessions};
use allot_runtime::time::now_ms;
use allot_runtime::{Health, Shutdown};

use super::ids::TaskId;
use super::notify::{Event, LATE, notification};
use super::runner::Launch;
use super::settings::Settings;
use super::task::MainTask;
use super::task_store::TaskStore;

/// The longest wait for a time of day: a clock that is corrected, or a machine that was suspended, costs no more.
pub(crate) const LONGEST_WAIT_BY_CLOCK: Duration = Duration::from_secs(60);

/// The shared context of a unit's loops.
#[derive(Clone)]
pub(crate) struct NodeContext {
    pub(crate) coordinator: Coordinator,
    /// The sessions on which the unit watches tasks.
    pub(crate) watch_sessions: Sessions,
    pub(crate) health: Health,
    pub(crate) stop: Shutdown,
    pub(crate) config: Settings,
    /// Name of the unit, `<host>_<port>`.
    pub(crate) name: String,
    /// Starts runners.
    pub(crate) launch: Arc<dyn Launch>,
}

impl NodeContext {
    pub(crate) fn store(&self) -> TaskStore {
        TaskStore::new(self.coordinator.tree(), &self.config.root)
    }

    /// A session for the watches of one task, and the tasks as that session sees them.
    pub(crate) fn lease(&self, id: TaskId) -> (Lease, TaskStore) {
        // A task has at most four watched paths: its own, that of the outcomes, and those of two tasks for which it waits.
        let lease = self.watch_sessions.lease(4 * self.store().paths.finished(id).len());
        let store = TaskStore::new(lease.coordinator().tree(), &self.config.root);
        (lease, store)
    }

    /// Notifies people about a task as it is now.
    pub(crate) fn notify(&self, event: Event, task: &MainTask) {
        self.launch.notify(&self.config, notification(event, &self.name, task, 0));
    }

    /// Notifies people of a round that begins now, if it is late. `due` is its time in milliseconds since 1970; 0 if it
    /// begins as soon as it can.
    pub(crate) fn notify_if_late(&self, task: &MainTask, due: u64) {
        if due > 0 && now_ms().saturating_sub(due) >= LATE {
            self.launch.notify(&self.config, notification(Event::RoundLate, &self.name, task, due));
        }
    }

    pub(crate) fn session_timeout(&self) -> Duration {
        self.coordinator.session_timeout()
    }
}
