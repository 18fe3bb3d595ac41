//! Fails subtasks whose worker is present but does not end an overdue runner.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

use crate::ids::TaskId;
use crate::node::Units;
use crate::node_context::NodeContext;
use crate::paths;
use crate::task::{MainTask, SubState};
use crate::task_store::{Fault, Found};

/// Number of checks during the time limit of one runner.
const CHECKS_PER_TIMEOUT: u32 = 4;
/// Number of subtasks that are read, and failed, at once. Their failures fit into one multi.
const BATCH: usize = 20;

/// One run of a subtask: its id, its attempt, and the time of its start by the worker's clock.
type Run = (TaskId, u32, u64);

/// The check of one main task for workers that hang. The manager repeats it.
pub(super) struct OverdueCheck {
    /// The time of the next check.
    next: Instant,
    /// Since when this unit has seen each run. The times are by this unit's clock, since a worker's clock may differ.
    /// They count on one connection with ZooKeeper only: while it is away, no worker can write the end of a run.
    seen: BTreeMap<Run, Instant>,
    /// The connection of `seen`.
    connection: u64,
}

impl OverdueCheck {
    pub(super) fn new() -> Self {
        Self { next: Instant::now(), seen: BTreeMap::new(), connection: 0 }
    }

    /// Time until the next check.
    pub(super) fn due_in(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// Runs the check if it is due. A worker hangs when a run is not over two session timeouts after its time limit.
    pub(super) async fn run(
        &mut self,
        node_context: &NodeContext,
        main: &mut Found<MainTask>,
        units: &Units,
    ) -> Result<(), Fault> {
        let now = Instant::now();
        if self.connection != units.connection() {
            self.seen.clear();
            self.connection = units.connection();
        }
        if self.next > now || !units.current {
            return Ok(());
        }
        let usual = node_context.config.timeout + node_context.config.stop_limit;
        let margin = node_context.session_timeout() * 2;
        self.next = now + (usual + margin) / CHECKS_PER_TIMEOUT;
        let mut seen = BTreeMap::new();
        let done = if main.task.outstanding() > 0 {
            self.fail_overdue(node_context, main, units, &mut seen).await
        } else {
            Ok(())
        };
        match done {
            Ok(()) => self.seen = seen,
            // An error cut the check short: the times of the unchecked runs are kept.
            Err(_) => self.seen.extend(seen),
        }
        done
    }

    /// Checks the running subtasks of all present workers once, and records them in `seen`. Subtasks of other workers
    /// are reassigned when their worker counts as lost.
    async fn fail_overdue(
        &self,
        node_context: &NodeContext,
        main: &mut Found<MainTask>,
        units: &Units,
        seen: &mut BTreeMap<Run, Instant>,
    ) -> Result<(), Fault> {
        let (store, now) = (node_context.store(), Instant::now());
        let usual = node_context.config.timeout + node_context.config.stop_limit;
        let margin = node_context.session_timeout() * 2;
        for name in store.children(&store.paths.assigned()).await? {
            let worker = paths::decode(&name);
            if !units.live.contains_key(&worker) {
                continue;
            }
            for ids in store.at(&worker, Some(main.id)).await?.chunks(BATCH) {
                let mut overdue = store.subs(&worker, ids).await?;
                overdue.retain(|sub| {
                    if sub.task.state != SubState::Running {
                        return false;
                    }
                    let run = (sub.id, sub.task.attempt, sub.task.started);
                    let since = self.seen.get(&run).copied().unwrap_or(now);
                    seen.insert(run, since);
                    let limit = match sub.task.limit {
                        0 => usual,
                        limit => Duration::from_millis(limit),
                    };
                    now.saturating_duration_since(since) >= limit.saturating_add(margin)
                });
                if overdue.is_empty() {
                    continue;
                }
                warn!(
                    id = %main.id, worker, count = overdue.len(),
                    "failed subtasks whose worker did not end them in time"
                );
                store.fail(main, &overdue, "its worker did not end it in time").await?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt as _;
    use futures_util::future::BoxFuture;
    use tokio::time::sleep;

    use super::*;
    use crate::Settings;
    use crate::node::{self, NodeInfo};
    use crate::runner::{Launch, RunSignals};
    use crate::supervisor::{Report, Spec};
    use crate::task::{ChunkedList, State, SubTask, write};
    use allot_coordination::in_process::InProcess;
    use allot_coordination::{Coordinator, Kind, Op, Sessions};

    const SESSION: Duration = Duration::from_secs(2);
    const LIMIT: Duration = Duration::from_secs(10);

    /// Starts no runners.
    struct Nothing;

    impl Launch for Nothing {
        fn launch(&self, _: Spec, _: RunSignals) -> BoxFuture<'static, Result<Report, String>> {
            async { unreachable!("a manager starts no runners") }.boxed()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn run_is_overdue_by_the_time_that_zookeeper_was_there() {
        let tree = InProcess::new(SESSION);
        let coordinator = Coordinator::start(Arc::new(tree.clone()));
        coordinator.up().await.unwrap();
        let (_, stop) = allot_runtime::shutdown_channel();
        let config = Settings { root: "/c".into(), ..Settings::default() };
        let (health, name, launch) = (allot_runtime::Health::default(), "u_1".to_owned(), Arc::new(Nothing));
        let watch_sessions = Sessions::new(&coordinator, "sessions");
        let context = NodeContext {
            coordinator: coordinator.clone(),
            watch_sessions,
            health,
            stop,
            config,
            name,
            launch,
        };
        let store = context.store();
        store.prepare().await.unwrap();
        let info = NodeInfo { pc: "p".into(), slots: 1, limit: 0, version: "1".into(), started: 1 };
        let _unit = coordinator.join(&store.paths.nodes(), "u_1", &write(&info));
        let mut units = node::follow(&coordinator, &store.paths);

        // A task with one subtask, which the present unit runs.
        let id = TaskId::main("u_1", 1_000_000);
        let mut task = MainTask::new(id, ["d", "s", "t"].map(str::to_owned), "u_1".into(), "p".into());
        (task.state, task.cursor) = (State::Assigned, 1);
        task.listing = Some(ChunkedList { tag: "x".into(), chunks: 1, count: 1 });
        let limit = LIMIT.as_millis() as u64;
        let sub = SubTask { state: SubState::Running, limit, ..task.subtask(id.subtask(1), "p", "u_1") };
        let dir = store.paths.at("u_1", id.subtask(1));
        store.tree.ensure(&dir).await.unwrap();
        let create = |path: String, data| Op::Create { path, data, kind: Kind::Persistent };
        let mut ops = store.creation(id, &task);
        ops.push(create(format!("{dir}/{}", paths::status(sub.state)), Vec::new()));
        ops.push(create(format!("{dir}/{}", paths::info("p", "d")), write(&sub)));
        store.tree.multi(ops).await.unwrap();

        let mut check = OverdueCheck::new();
        let mut failed_after = async |span: Duration| {
            sleep(span).await;
            units.wait_for(|units| units.current && units.live.contains_key("u_1")).await.unwrap();
            let units = units.borrow().clone();
            let mut main = store.main(id).await.unwrap().unwrap();
            check.next = Instant::now();
            check.run(&context, &mut main, &units).await.unwrap();
            main.task.result.failed_count
        };
        assert_eq!(failed_after(Duration::ZERO).await, 0);
        assert_eq!(failed_after(LIMIT).await, 0);
        // ZooKeeper is away for a while, and with it every worker's words.
        tree.freeze();
        sleep(SESSION * 3).await;
        tree.thaw();
        assert_eq!(failed_after(LIMIT).await, 0);
        assert_eq!(failed_after(LIMIT + SESSION * 2).await, 1);
    }
}
