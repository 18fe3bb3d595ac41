//! The state that all requests share: who may call, connections, readers, and what several pages share.

use std::sync::Arc;

use allot_compaction::TaskClient;

use crate::channel::Feeds;
use crate::security::{Guard, Sessions};
use crate::settings::{Keys, Settings};
use crate::shared::{Imports, KeyList, Plans, Streams};
use crate::store::Store;

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
    pub(crate) key_list: KeyList,
    pub(crate) plans: Plans,
    pub(crate) imports: Imports,
    pub(crate) streams: Streams,
}

impl Console {
    pub(crate) fn new(settings: Settings, keys: Keys, tasks: Option<TaskClient>) -> Arc<Self> {
        Arc::new(Self {
            viewer: Store::new(settings.viewer.clone()),
            operator: Store::new(settings.operator.clone()),
            guard: Arc::new(Guard {
                sessions: Sessions::new(settings.viewer_token.clone(), settings.operator_token.clone()),
                settings,
            }),
            keys,
            tasks,
            feeds: Feeds::default(),
            key_list: KeyList::default(),
            plans: Plans::default(),
            imports: Imports::default(),
            streams: Streams::default(),
        })
    }
}
