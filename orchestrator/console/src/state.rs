//! The state that all requests share: the guard, sources, and feeds.

use std::sync::Arc;

use crate::feed::{Feed, Feeds, Subject};
use crate::operations::Operations;
use crate::security::{Guard, Sessions};
use crate::settings::{Places, Settings};
use crate::sources::Sources;
use crate::store::Store;

/// The console of a process. Clones share it.
#[derive(Clone)]
pub(crate) struct Console(Arc<Shared>);

/// The parts of the console.
pub(crate) struct Shared {
    pub(crate) guard: Arc<Guard>,
    pub(crate) sources: Arc<Sources>,
    /// Connections for actions, as the operator's user.
    pub(crate) operator: Store,
    /// What the program does for the console.
    pub(crate) operations: Box<dyn Operations>,
    feeds: Feeds,
}

impl std::ops::Deref for Console {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl Console {
    /// The console, with the reader of the overview running.
    pub(crate) fn new(
        process: allot_runtime::Context,
        settings: Settings,
        places: Places,
        operations: Box<dyn Operations>,
    ) -> Self {
        let console = Self(Arc::new(Shared {
            sources: Sources::new(process, places, settings.viewer.clone()),
            operator: Store::new(settings.operator.clone()),
            operations,
            feeds: Feeds::default(),
            guard: Arc::new(Guard {
                sessions: Sessions::new(settings.viewer_token.clone(), settings.operator_token.clone()),
                settings,
            }),
        }));
        console.feeds.start_overview(&console.sources);
        console
    }

    /// The feed of a subject.
    pub(crate) fn feed(&self, subject: &Subject) -> Arc<Feed> {
        self.feeds.feed(&self.sources, subject)
    }
}
