//! Where the console reads: Redis as the viewer's user, ZooKeeper, and the tasks of compaction.

use std::sync::Arc;

use allot_client::Servers;
use allot_compaction::task_store::TaskStore;

use crate::settings::Places;
use crate::store::Store;

/// The sources of everything that the console shows.
pub(crate) struct Sources {
    pub(crate) process: allot_runtime::Context,
    pub(crate) places: Places,
    /// Connections for reads, as the viewer's user.
    pub(crate) viewer: Store,
    /// The tasks of compaction; `None` without a ZooKeeper.
    pub(crate) tasks: Option<TaskStore>,
}

impl Sources {
    pub(crate) fn new(process: allot_runtime::Context, places: Places, viewer: Servers) -> Arc<Self> {
        let tasks =
            (!process.standalone).then(|| TaskStore::new(process.coordinator.tree(), &places.compaction));
        Arc::new(Self { viewer: Store::new(viewer), process, places, tasks })
    }
}
