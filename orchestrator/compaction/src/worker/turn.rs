//! The subtasks of a worker that are about to start. While one of a high priority takes its permits, none of a lower
//! priority may take them instead.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ids::TaskId;

/// The subtasks that are about to start, with their priorities.
#[derive(Clone, Default)]
pub(super) struct Turns(Arc<Mutex<BTreeMap<TaskId, i32>>>);

impl Turns {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<TaskId, i32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a subtask. It stays until [`Self::end`], also while an attempt that failed is not over.
    pub(super) fn begin(&self, id: TaskId, priority: i32) {
        self.lock().insert(id, priority);
    }

    /// Removes a subtask that has started, or must not keep others from starting. Others may be given.
    pub(super) fn end(&self, id: TaskId) {
        self.lock().remove(&id);
    }

    /// Number of these subtasks.
    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }

    /// The highest priority of these subtasks.
    pub(super) fn highest(&self) -> Option<i32> {
        self.lock().values().max().copied()
    }
}
