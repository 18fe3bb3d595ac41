//! Who takes part in a test: processes of their own, as it were, that can vanish without a word, and the world
//! that they meet in.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use allot_coordination::in_process::InProcess;
use allot_coordination::session::Connector;
use allot_coordination::zookeeper::ZooKeeper;
use allot_coordination::{Coordinator, Limits};
use allot_tests::ZooKeeperServer;
use allot_tests::wait::TIMEOUT;
use tokio::runtime::Runtime;

/// The session timeout of the suite. Long, since a busy machine must not end sessions.
pub(crate) const SESSION: Duration = Duration::from_secs(9);

/// A coordinator with threads of its own. Dropping it takes those away in the middle of their work, and
/// the session is not closed: to the service it looks like `kill -9`.
pub(crate) struct Participant {
    runtime: Option<Runtime>,
    coordinator: Option<Coordinator>,
}

impl Participant {
    pub(crate) fn new(connector: Arc<dyn Connector>, limits: Option<Limits>) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let coordinator = {
            let _inside = runtime.enter();
            match limits {
                Some(limits) => Coordinator::start_with(connector, limits),
                None => Coordinator::start(connector),
            }
        };
        let participant = Self { runtime: Some(runtime), coordinator: Some(coordinator) };
        participant.run(async |coordinator| coordinator.up().await.map(drop)).unwrap();
        participant
    }

    pub(crate) fn coordinator(&self) -> &Coordinator {
        self.coordinator.as_ref().expect("it lives")
    }

    /// Runs this to its end, which must come within a generous limit.
    #[track_caller]
    pub(crate) fn run<'a, T, F: Future<Output = T>>(&'a self, what: impl FnOnce(&'a Coordinator) -> F) -> T {
        let runtime = self.runtime.as_ref().expect("it lives");
        let future = what(self.coordinator());
        runtime
            .block_on(async { tokio::time::timeout(TIMEOUT, future).await })
            .unwrap_or_else(|_| panic!("waited {TIMEOUT:?} in vain"))
    }
}

impl Drop for Participant {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // The threads first: what they run is gone before anything could be closed.
            runtime.shutdown_background();
        }
    }
}

/// What both implementations can do and have done to them.
pub(crate) trait World {
    /// A way to the service.
    fn connector(&self) -> Arc<dyn Connector>;
    /// It stops answering.
    fn freeze(&self);
    /// It answers again.
    fn thaw(&self);

    /// One more that takes part.
    fn join(&self) -> Participant {
        Participant::new(self.connector(), None)
    }

    /// One more, with these limits.
    fn join_with(&self, limits: Limits) -> Participant {
        Participant::new(self.connector(), Some(limits))
    }
}

/// A tree in this process.
pub(crate) struct Local {
    tree: InProcess,
    runtime: Runtime,
}

impl Local {
    pub(crate) fn new() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        Self { tree: InProcess::new(SESSION), runtime }
    }
}

impl World for Local {
    fn connector(&self) -> Arc<dyn Connector> {
        Arc::new(self.tree.clone())
    }

    fn freeze(&self) {
        let _inside = self.runtime.enter();
        self.tree.freeze();
    }

    fn thaw(&self) {
        self.tree.thaw();
    }
}

/// A real ZooKeeper server.
pub(crate) struct Real {
    server: ZooKeeperServer,
}

impl Real {
    pub(crate) fn new() -> Self {
        Self { server: ZooKeeperServer::start() }
    }
}

impl World for Real {
    fn connector(&self) -> Arc<dyn Connector> {
        Arc::new(ZooKeeper::new(self.server.address().parse().unwrap(), SESSION))
    }

    fn freeze(&self) {
        self.server.pause();
    }

    fn thaw(&self) {
        self.server.resume();
    }
}
