//! The subtasks of a worker that are about to start. While one of a high priority takes its permits, none of a lower
//! priority may take them instead.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::with;
use crate::ids::TaskId;

/// The subtasks that are about to start, with their priorities.
#[derive(Clone, Default)]
pub(super) struct Turns(Arc<Mutex<BTreeMap<TaskId, i32>>>);

impl Turns {
    /// Adds a subtask until the returned value is dropped.
    pub(super) fn begin(&self, id: TaskId, priority: i32) -> Turn {
        with(&self.0, |turns| turns.insert(id, priority));
        Turn { turns: self.clone(), id }
    }

    /// Number of these subtasks, each of which holds a slot.
    pub(super) fn count(&self) -> usize {
        with(&self.0, |turns| turns.len())
    }

    /// The highest priority of these subtasks.
    pub(super) fn highest(&self) -> Option<i32> {
        with(&self.0, |turns| turns.values().max().copied())
    }
}

/// A subtask that is about to start. Dropping it says that the subtask has started, or does not start now.
pub(super) struct Turn {
    turns: Turns,
    id: TaskId,
}

impl Drop for Turn {
    fn drop(&mut self) {
        with(&self.turns.0, |turns| turns.remove(&self.id));
    }
}
