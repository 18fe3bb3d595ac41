//! The ends of runners that could not be written to ZooKeeper. The unit keeps them on its disk, so that they outlive
//! sessions and the process. They are written when ZooKeeper is back, unless somebody else has begun the subtask.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use allot_coordination::Version;
use serde::{Deserialize, Serialize};

use crate::ids::TaskId;
use crate::node_context::NodeContext;
use crate::task::{Ended, SubState, SubTask, write};
use crate::task_store::Found;

/// The end of a runner.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Kept {
    /// The version of the subtask's node while the runner ran. The subtask has another one if anybody has changed it.
    version: i32,
    /// How often the subtask had been started when the runner ran.
    starts: u32,
    /// How the subtask ended; `None` if ZooKeeper was away, so that it is not known or the runner was ended for that
    /// reason: then it runs again.
    pub(super) ended: Option<Ended>,
}

impl Kept {
    pub(super) fn new(sub: &Found<SubTask>, ended: Option<Ended>) -> Self {
        Self { version: sub.version.0, starts: sub.task.starts, ended }
    }

    /// Whether the subtask is as the runner left it, in the inbox of its unit.
    pub(super) fn is_of(&self, sub: &Found<SubTask>) -> bool {
        sub.version == Version(self.version) && sub.task.state == SubState::Running
    }

    /// Whether the subtask was given to another unit, and nobody has begun it since.
    pub(super) fn is_before(&self, sub: &Found<SubTask>) -> bool {
        sub.task.starts == self.starts && sub.task.state == SubState::Init
    }
}

/// The ends that are kept. Clones share them.
#[derive(Clone)]
pub(super) struct KeptEnds {
    node_context: NodeContext,
    all: Arc<Mutex<BTreeMap<TaskId, Kept>>>,
}

impl KeptEnds {
    /// Those that an earlier process of this unit has left on its disk.
    pub(super) async fn load(node_context: &NodeContext) -> Self {
        let kept = node_context.launch.kept(&node_context.config).await.into_iter();
        let read = |(id, data): (TaskId, Vec<u8>)| Some((id, serde_json::from_slice(&data).ok()?));
        let all = Arc::new(Mutex::new(kept.filter_map(read).collect()));
        Self { node_context: node_context.clone(), all }
    }

    /// Keeps an end, also on the disk.
    pub(super) async fn keep(&self, id: TaskId, kept: Kept) {
        self.node_context.launch.keep(&self.node_context.config, id, Some(write(&kept))).await;
        self.lock().insert(id, kept);
    }

    /// Forgets an end that is written, or that nobody needs any more.
    pub(super) async fn forget(&self, id: TaskId) {
        let was_kept = self.lock().remove(&id).is_some();
        if was_kept {
            self.node_context.launch.keep(&self.node_context.config, id, None).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<TaskId, Kept>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, id: TaskId) -> Option<Kept> {
        self.lock().get(&id).cloned()
    }

    pub(super) fn ids(&self) -> Vec<TaskId> {
        self.lock().keys().copied().collect()
    }
}
