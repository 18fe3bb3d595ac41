//! The state that all requests share: who may call, connections, readers, and what several pages share.

use std::sync::Arc;
use std::time::Duration;

use allot_compaction::TaskClient;
use allot_runtime::blocking;
use anyhow::Result;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::warn;

use crate::actions::Actions;
use crate::channel::Feeds;
use crate::history::{SAMPLES, Sample};
use crate::journal::{Folder, Journal};
use crate::security::{Guard, Sessions};
use crate::settings::{Keys, Settings};
use crate::shared::{Alerts, Holds, Imports, KeyList, Places, PlanTotal, Recent, Sales};
use crate::store::Store;

/// Time for which the list of keys is shared: a scan looks at all keys of the server.
const KEYS_SHARED: Duration = Duration::from_secs(30);
/// Time for which a plan, the moves of a rebalance, or the sales of a show are shared: the server takes tens of
/// milliseconds to make them, in which it serves nobody else.
const ANSWERS_SHARED: Duration = Duration::from_secs(5);

/// Time for which the holds of a show are shared: a large show is listed in many steps.
const HOLDS_SHARED: Duration = Duration::from_secs(2);
/// Requests that are carried out at once; further ones wait. A request takes its place when all of it has been read, so
/// a client that sends slowly keeps nobody waiting.
const REQUESTS: u32 = 256;
/// Time that requests have to end when the process ends.
const REQUESTS_END: Duration = Duration::from_secs(5);
/// Time that storage has to take the last records.
const RECORDS_END: Duration = Duration::from_secs(3);
/// Event streams of one client address at once.
const STREAMS: usize = 256;

/// The console of a process.
pub(crate) struct Console {
    pub(crate) guard: Arc<Guard>,
    pub(crate) keys: Keys,
    /// Connections for reads, as the viewer's user.
    pub(crate) viewer: Store,
    /// Connections for actions, as the operator's user.
    pub(crate) operator: Store,
    /// The tasks of compaction; `None` without a ZooKeeper.
    pub(crate) tasks: Option<TaskClient>,
    pub(crate) feeds: Feeds,
    /// The keys that hold values of Allot.
    pub(crate) key_list: Recent<(), KeyList>,
    /// The plans of a realm, as if this unit were down or as things are.
    pub(crate) plans: Recent<(String, Option<String>), Vec<PlanTotal>>,
    /// The live holds of a show that end first.
    pub(crate) holds: Recent<String, Holds>,
    /// The sales of a show over time.
    pub(crate) sales: Recent<String, Sales>,
    /// The moves that a rebalance of this book would make.
    pub(crate) moves: Recent<String, Vec<Value>>,
    pub(crate) imports: Imports,
    /// What the module has done, by the minute.
    pub(crate) history: Journal<Sample>,
    pub(crate) alerts: Alerts,
    /// What operators did.
    pub(crate) actions: Actions,
    /// Held, so that no other console uses it.
    _folder: Option<Folder>,
    pub(crate) streams: Places,
    requests: Semaphore,
}

impl Console {
    /// A console with what an earlier one has kept.
    ///
    /// # Errors
    /// Its folder cannot be used.
    pub(crate) fn new(settings: Settings, keys: Keys, tasks: Option<TaskClient>) -> Result<Arc<Self>> {
        let folder = settings.data_dir.as_deref().map(Folder::take).transpose()?;
        Ok(Arc::new(Self {
            viewer: Store::new(settings.viewer.clone()),
            operator: Store::new(settings.operator.clone()),
            guard: Arc::new(Guard { sessions: Sessions::new(&settings), settings }),
            keys,
            tasks,
            feeds: Feeds::default(),
            key_list: Recent::new(KEYS_SHARED),
            plans: Recent::new(ANSWERS_SHARED),
            holds: Recent::new(HOLDS_SHARED),
            sales: Recent::new(ANSWERS_SHARED),
            moves: Recent::new(ANSWERS_SHARED),
            imports: Imports::default(),
            history: Journal::open(folder.as_ref(), "history", SAMPLES)?,
            alerts: Alerts::default(),
            actions: Actions::open(folder.as_ref())?,
            _folder: folder,
            streams: Places::new(STREAMS),
            requests: Semaphore::new(REQUESTS as usize),
        }))
    }

    /// Carries out a request when it has a place.
    pub(crate) async fn serve<T>(&self, request: impl Future<Output = T>) -> T {
        // Nobody closes the semaphore.
        let _place = self.requests.acquire().await;
        request.await
    }

    /// Lets the requests end that are carried out, and begins no other; then writes the records that are in memory only.
    pub(crate) async fn end(&self) {
        let places = timeout(REQUESTS_END, self.requests.acquire_many(REQUESTS)).await;
        if places.is_err() {
            warn!("requests have not ended in {} s; whether they act is unknown", REQUESTS_END.as_secs());
        }
        let threads = [self.actions.end(), self.history.end()];
        let write = blocking::run(|| threads.into_iter().flatten().for_each(|thread| drop(thread.join())));
        if timeout(RECORDS_END, write).await.is_err() {
            warn!("storage does not answer: the last records of the console are lost");
        }
    }
}
