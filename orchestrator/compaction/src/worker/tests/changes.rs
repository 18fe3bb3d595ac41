//! Changes of the options of a task while it runs.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use super::{SESSION, UNIT, World};
use crate::ids::TaskId;
use crate::node_context::NodeContext;
use crate::runner::{Launch, RunSignals};
use crate::supervisor::{EndCause, Report, Spec};
use crate::task::{MainTask, SubState};
use crate::window::Window;
use allot_runtime::time::now_ms;

impl World {
    /// The states of all subtasks of a task, after the worker had time to start more.
    async fn settled(&self, main: TaskId) -> Vec<SubState> {
        sleep(SESSION).await;
        let ids = self.store.at(UNIT, Some(main)).await.unwrap();
        self.store.subs(UNIT, &ids).await.unwrap().into_iter().map(|sub| sub.task.state).collect()
    }

    /// How many subtasks of a task run, after the worker had time to start more.
    async fn running(&self, main: TaskId) -> usize {
        self.settled(main).await.iter().filter(|state| **state == SubState::Running).count()
    }
}

/// A window that opens in about two hours.
fn closed_window() -> Window {
    let hour = |after: u64| (now_ms() / 3_600_000 + after) % 24;
    Window::new(&format!("{:02}:00-{:02}:00", hour(2), hour(3)), "UTC").unwrap()
}

#[tokio::test(start_paused = true)]
async fn raised_limit_starts_as_many_subtasks_more() {
    let world = World::new().await;
    let (_asked, stop) = allot_runtime::shutdown_channel();
    let main = world.task("t", 6, SubState::Init, |task| task.limit = 1).await;
    world.live(|settings| settings.slots = 9, stop);
    assert_eq!(world.running(main).await, 1);
    for limit in [3, 5] {
        world.store.set(main, |task| task.limit = limit).await.unwrap();
        assert_eq!(world.running(main).await, limit as usize);
    }
}

#[tokio::test(start_paused = true)]
async fn closed_window_starts_nothing_and_ends_nothing() {
    let world = World::new().await;
    let (_asked, stop) = allot_runtime::shutdown_channel();
    let main = world.task("t", 6, SubState::Init, |task| task.limit = 2).await;
    world.live(|settings| settings.slots = 9, stop);
    assert_eq!(world.running(main).await, 2);
    let close = |task: &mut MainTask| (task.window, task.limit) = (Some(closed_window()), 0);
    world.store.set(main, close).await.unwrap();
    assert_eq!(world.running(main).await, 2);
    world.store.set(main, |task| task.window = None).await.unwrap();
    assert_eq!(world.running(main).await, 6);
}

#[tokio::test(start_paused = true)]
async fn raised_priority_starts_first() {
    let world = World::new().await;
    let (_asked, stop) = allot_runtime::shutdown_channel();
    let busy = world.task("busy", 1, SubState::Init, |task| task.priority = 9).await;
    let first = world.task("first", 1, SubState::Init, |task| task.priority = 5).await;
    let raised = world.task("raised", 1, SubState::Init, |_| {}).await;
    world.live(|settings| settings.slots = 1, stop);
    assert_eq!(world.running(busy).await, 1);
    world.store.set(raised, |task| task.priority = 6).await.unwrap();
    assert_eq!(world.settled(raised).await, [SubState::Init]);
    world.store.stop(busy).await.unwrap();
    assert_eq!(world.running(raised).await, 1);
    assert_eq!(world.settled(first).await, [SubState::Init]);
}

/// Runners that succeed, one for each permit that a test gives.
struct Permitted(Arc<Semaphore>);

impl Launch for Permitted {
    fn launch(&self, _: Spec, _: RunSignals) -> BoxFuture<'static, Result<Report, String>> {
        let permits = self.0.clone();
        async move {
            permits.acquire().await.unwrap().forget();
            Ok(Report { exit: Some(0), ..Report::of(EndCause::Itself) })
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn changed_retries_apply_to_the_next_wave() {
    let world = World::new().await;
    let (_asked, stop) = allot_runtime::shutdown_channel();
    let permits = Arc::new(Semaphore::new(0));
    let context = world.node_context(|settings| (settings.slots, settings.wave) = (1, 2), stop);
    tokio::spawn(crate::unit::run_unit(NodeContext {
        launch: Arc::new(Permitted(permits.clone())),
        ..context
    }));
    let id = TaskId::main(UNIT, 1_000_000);
    let task = MainTask {
        named: ["p1", "p2", "p3", "p4"].map(str::to_owned).into(),
        retries: 1,
        ..MainTask::new(id, ["d", "s", "t"].map(str::to_owned), UNIT.into(), "default".into())
    };
    while world.store.submit(id, &task, false).await.is_err() {
        sleep(SESSION / 100).await;
    }
    let assigned = async |count: usize| {
        let began = Instant::now();
        loop {
            let ids = world.store.at(UNIT, Some(id)).await.unwrap();
            let subs = world.store.subs(UNIT, &ids).await.unwrap().into_iter();
            let subs: Vec<_> = subs.map(|sub| (sub.id, sub.task.retries)).collect();
            if subs.iter().any(|(sub, _)| *sub == id.subtask(count as u64)) {
                return subs;
            }
            assert!(began.elapsed() < SESSION * 10, "{subs:?}");
            sleep(SESSION / 100).await;
        }
    };
    let sub = |number: u64, retries: u32| (id.subtask(number), retries);
    assert_eq!(assigned(2).await, [sub(1, 1), sub(2, 1)]);
    world.store.set(id, |task| task.retries = 7).await.unwrap();
    // No subtask of the next wave is assigned before one of this wave has ended.
    sleep(SESSION).await;
    assert_eq!(assigned(2).await, [sub(1, 1), sub(2, 1)]);
    permits.add_permits(1);
    assert_eq!(assigned(3).await, [sub(2, 1), sub(3, 7)]);
}
