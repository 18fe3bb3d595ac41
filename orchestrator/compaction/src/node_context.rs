//! The context that worker, manager and monitor of a compaction unit share.

use std::sync::Arc;
use std::time::Duration;

use allot_coordination::Coordinator;
use allot_runtime::{Health, Shutdown};

use super::runner::Launch;
use super::settings::Settings;
use super::task_store::TaskStore;
use super::watch_sessions::WatchSessions;

/// Pause of a loop after a transient error.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);

/// The shared context of a unit's loops.
#[derive(Clone)]
pub(crate) struct NodeContext {
    pub(crate) coordinator: Coordinator,
    /// The sessions on which the unit watches tasks.
    pub(crate) watch_sessions: WatchSessions,
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

    pub(crate) fn session_timeout(&self) -> Duration {
        self.coordinator.session_timeout()
    }
}

/// Waits for the future; never returns if there is none.
pub(crate) async fn event<T>(awaited: Option<impl Future<Output = T>>) -> T {
    match awaited {
        Some(awaited) => awaited.await,
        None => std::future::pending().await,
    }
}
