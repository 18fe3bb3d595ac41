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

    /// Adds a subtask until the returned value is dropped.
    pub(super) fn begin(&self, id: TaskId, priority: i32) -> Turn {
        self.lock().insert(id, priority);
        Turn { turns: self.clone(), id }
    }

    /// Number of these subtasks, each of which holds a slot.
    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }

    /// The highest priority of these subtasks.
    pub(super) fn highest(&self) -> Option<i32> {
        self.lock().values().max().copied()
    }
}

/// A subtask that is about to start. Dropping it says that the subtask has started, or does not start now.
pub(super) struct Turn {
    turns: Turns,
    id: TaskId,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.lock().remove(&self.id);
    }
}
