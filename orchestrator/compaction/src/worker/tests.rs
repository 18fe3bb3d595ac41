//! Tests of a worker on an in-process tree. Its runners run until they are told to end.

mod changes;
mod storage;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::Settings;
use crate::ids::TaskId;
use crate::node;
use crate::node_context::NodeContext;
use crate::paths;
use crate::runner::{Launch, RunSignals};
use crate::supervisor::{EndCause, Report, Spec};
use crate::task::{Ended, MainTask, State, SubState, SubTask, read, write};
use crate::task_store::{Fault, Found, TaskStore};
use crate::unit::SESSIONS_GAUGE;
use crate::worker::unit_fault::UnitFault;
use allot_coordination::in_process::InProcess;
use allot_coordination::{Coordinator, Error, Kind, Op, Sessions};
use allot_runtime::{Health, Shutdown};

const SESSION: Duration = Duration::from_secs(2);
const UNIT: &str = "u_1";

/// Runners that run until they are told to end.
struct Endless;

impl Launch for Endless {
    fn launch(&self, _: Spec, signals: RunSignals) -> BoxFuture<'static, Result<Report, String>> {
        async move {
            let RunSignals { mut stop, mut lost, .. } = signals;
            let why = tokio::select! {
                _ = stop.wait_for(|stop| *stop) => EndCause::Stopped,
                _ = lost.wait_for(|lost| *lost) => EndCause::CutOff,
            };
            Ok(Report::of(why))
        }
        .boxed()
    }
}

/// An in-process tree, and a client that reads it.
struct World {
    tree: InProcess,
    coordinator: Coordinator,
    store: TaskStore,
}

impl World {
    async fn new() -> Self {
        let tree = InProcess::new(SESSION);
        let coordinator = Coordinator::start(Arc::new(tree.clone()));
        coordinator.up().await.unwrap();
        let store = TaskStore::new(coordinator.tree(), "/c");
        store.prepare().await.unwrap();
        store.tree.ensure(&store.paths.inbox(UNIT)).await.unwrap();
        Self { tree, coordinator, store }
    }

    /// One process of the unit, with these settings changed.
    fn node_context(&self, change: impl FnOnce(&mut Settings), stop: Shutdown) -> NodeContext {
        let mut config = Settings {
            node: Some(UNIT.into()),
            runner: vec!["r".into()],
            root: "/c".into(),
            ..Settings::default()
        };
        change(&mut config);
        let coordinator = Coordinator::start(Arc::new(self.tree.clone()));
        NodeContext {
            watch_sessions: Sessions::new(&coordinator, SESSIONS_GAUGE),
            coordinator,
            health: Health::default(),
            stop,
            config,
            name: UNIT.into(),
            launch: Arc::new(Endless),
        }
    }

    /// Starts one lifetime of the unit's worker.
    fn live(&self, change: impl FnOnce(&mut Settings), stop: Shutdown) {
        self.live_with(Arc::new(Endless), change, stop);
    }

    /// The same, with these runners.
    fn live_with(&self, launch: Arc<dyn Launch>, change: impl FnOnce(&mut Settings), stop: Shutdown) {
        let node_context = NodeContext { launch, ..self.node_context(change, stop) };
        let nodes = node_context.store().paths.nodes();
        let membership = node_context.coordinator.join(&nodes, UNIT, b"{}");
        let (notices, mut noticed) = mpsc::channel(8);
        tokio::spawn(async move { while noticed.recv().await.is_some() {} });
        let (units, fault) =
            (node::follow(&node_context.coordinator, &node_context.store().paths), UnitFault::new());
        tokio::spawn(async move {
            super::run(node_context, notices, membership.subscribe(), units, fault).await;
            membership.leave().await;
        });
    }

    /// Creates a task, changed by `change`, with subtasks of the unit in this state.
    async fn task(
        &self,
        table: &str,
        subs: u64,
        state: SubState,
        change: impl FnOnce(&mut MainTask),
    ) -> TaskId {
        let names = ["d", "s", table].map(str::to_owned);
        let id = TaskId::main(table, 1_000_000);
        let mut task = MainTask::new(id, names, "manager_1".into(), "default".into());
        task.state = State::Assigned;
        change(&mut task);
        self.store.tree.multi(self.store.creation(id, &task)).await.unwrap();
        for number in 1..=subs {
            let id = id.subtask(number);
            let sub = SubTask { state, ..task.subtask(id, &format!("{table}{number}"), UNIT) };
            let dir = self.store.paths.at(UNIT, id);
            let nodes = [
                (dir.clone(), Vec::new()),
                (format!("{dir}/{}", paths::status(state)), Vec::new()),
                (format!("{dir}/{}", paths::info(&sub.pc, &sub.db_name)), write(&sub)),
            ];
            let ops = nodes.map(|(path, data)| Op::Create { path, data, kind: Kind::Persistent });
            self.store.tree.multi(ops.into()).await.unwrap();
        }
        id
    }

    async fn sub(&self, id: TaskId) -> Option<SubTask> {
        self.store.sub(UNIT, id).await.unwrap().map(|sub| sub.task)
    }

    /// Waits until a subtask is in this state, with this attempt.
    async fn comes_to(&self, id: TaskId, state: SubState, attempt: u32) -> Found<SubTask> {
        let began = Instant::now();
        loop {
            match self.store.sub(UNIT, id).await.unwrap() {
                Some(sub) if (sub.task.state, sub.task.attempt) == (state, attempt) => return sub,
                other => assert!(began.elapsed() < SESSION * 10, "{other:?}"),
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the unit has left.
    async fn left(&self) {
        let (nodes, began) = (self.store.paths.nodes(), Instant::now());
        while !self.store.children(&nodes).await.unwrap().is_empty() {
            assert!(began.elapsed() < SESSION * 10, "the unit does not leave");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// The outcomes of these subtasks, which must all end within a second.
    async fn ended(&self, main: TaskId, subs: u64) -> Vec<SubState> {
        let dir = self.store.paths.finished(main);
        let began = Instant::now();
        loop {
            let names = self.store.children(&dir).await.unwrap();
            if names.len() as u64 == subs {
                let nodes = self.store.tree.get_many(&dir, names).await.unwrap();
                let state = |(name, node): (String, _)| {
                    let node: allot_coordination::Node = node;
                    read::<Ended>(&name, &node.data).unwrap().state
                };
                return nodes.into_iter().map(state).collect();
            }
            assert!(began.elapsed() < Duration::from_secs(1), "{names:?}");
            sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn subtask_left_running_is_requeued_though_paused_or_without_slot() {
    let world = World::new().await;
    let busy = world.task("busy", 1, SubState::Init, |_| {}).await;
    let (_asked, stop) = allot_runtime::shutdown_channel();
    let paused = world.task("paused", 3, SubState::Running, |task| task.paused = true).await;
    let waiting = world.task("waiting", 1, SubState::Running, |task| task.priority = -1).await;
    world.live(|settings| settings.slots = 1, stop);
    world.comes_to(busy.subtask(1), SubState::Running, 0).await;
    for number in 1..=3 {
        world.comes_to(paused.subtask(number), SubState::Init, 1).await;
    }
    world.comes_to(waiting.subtask(1), SubState::Init, 1).await;
}

/// A stopped task's subtasks need neither a slot nor a permit to end: the manager ends those that wait.
#[tokio::test(start_paused = true)]
async fn waiting_subtasks_of_a_stopped_task_are_left_to_its_manager() {
    let world = World::new().await;
    let (_asked, stop) = allot_runtime::shutdown_channel();
    let busy = world.task("busy", 1, SubState::Init, |task| task.priority = 1).await;
    let other = world.task("other", 30, SubState::Init, |task| task.cursor = 30).await;
    world.live(|settings| (settings.slots, settings.limit) = (9, 1), stop);
    world.comes_to(busy.subtask(1), SubState::Running, 0).await;
    world.store.stop(other).await.unwrap();
    sleep(SESSION * 2).await;
    let mut ids = world.store.at(UNIT, Some(other)).await.unwrap();
    assert_eq!(ids.len(), 30);
    let mut main = world.store.main(other).await.unwrap().unwrap();
    while !ids.is_empty() {
        world.store.stop_waiting(&mut main, UNIT, &mut ids).await.unwrap();
    }
    assert_eq!(world.store.at(UNIT, Some(other)).await.unwrap(), []);
    assert_eq!(main.task.outstanding(), 0);
    assert_eq!(world.sub(busy.subtask(1)).await.unwrap().state, SubState::Running);
}

#[tokio::test(start_paused = true)]
async fn leftover_subtasks_of_a_finished_task_are_discarded() {
    let world = World::new().await;
    let (_asked, stop) = allot_runtime::shutdown_channel();
    let over = |task: &mut MainTask| task.state = State::Cancel;
    let waited = world.task("waited", 2, SubState::Init, over).await;
    let ran = world.task("ran", 1, SubState::Running, over).await;
    world.live(|settings| settings.slots = 1, stop);
    let began = Instant::now();
    while !world.store.at(UNIT, None).await.unwrap().is_empty() {
        assert!(began.elapsed() < SESSION * 10);
        sleep(Duration::from_millis(20)).await;
    }
    for main in [waited, ran] {
        let finished = world.store.children(&world.store.paths.finished(main)).await.unwrap();
        assert_eq!(finished, Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn second_unit_of_a_name_starts_nothing_until_the_first_has_left() {
    let world = World::new().await;
    let nodes = world.store.paths.nodes();
    // Data that differ: equal ones would be those of an earlier session of the same process.
    let mut first = world.coordinator.join(&nodes, UNIT, b"the first");
    first.present().await.unwrap();
    let (_asked, stop) = allot_runtime::shutdown_channel();
    world.live(|settings| settings.slots = 2, stop);
    let main = world.task("t", 1, SubState::Init, |_| {}).await;
    sleep(SESSION * 5).await;
    assert_eq!(world.sub(main.subtask(1)).await.unwrap().state, SubState::Init);
    first.leave().await;
    let began = Instant::now();
    while world.sub(main.subtask(1)).await.unwrap().state == SubState::Init {
        assert!(began.elapsed() < SESSION * 10);
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn expired_session_releases_nothing_that_another_session_holds() {
    let world = World::new().await;
    let main = world.task("t", 1, SubState::Init, |_| {}).await;
    let unit = Coordinator::start(Arc::new(world.tree.clone()));
    unit.up().await.unwrap();
    let store = TaskStore::new(unit.tree(), "/c");
    let session = unit.session_id().unwrap();
    let mut sub = store.sub(UNIT, main.subtask(1)).await.unwrap().unwrap();
    let permit = store.paths.permit("all.0");
    let unpaused = store.unpaused().await.unwrap().unwrap();
    store.start(&mut sub, UNIT, unpaused, vec![permit.clone()], session, 1000).await.unwrap();
    // The session ends, another session takes the lock, and the first unit comes back.
    world.tree.expire(session);
    let lock = store.lock(&sub.task);
    for path in [&lock, &permit] {
        world.store.tree.create(path, b"another's", Kind::Ephemeral).await.unwrap();
    }
    let mut status_changes = unit.subscribe();
    status_changes.wait_for(|status| status.generation == 2 && status.is_up()).await.unwrap();
    let ended = sub.task.ended(SubState::Success, "");
    let offline = Err(Error::Offline.into());
    assert_eq!(store.finish(&sub, Some(session), &ended).await, offline);
    assert_eq!(store.requeue(&sub, UNIT, Some(session), true).await, offline);
    assert_eq!(store.release(&sub, session).await, Ok(()));
    for path in [&lock, &permit] {
        assert_eq!(world.store.tree.get(path).await.unwrap().unwrap().owner, world.coordinator.session_id());
    }
    assert_eq!(world.sub(sub.id).await.unwrap().state, SubState::Running);
}

#[tokio::test(start_paused = true)]
async fn manager_fails_an_overdue_subtask_of_a_present_worker() {
    let world = World::new().await;
    let (_asked, stop) = allot_runtime::shutdown_channel();
    let limits = |settings: &mut Settings| {
        settings.timeout = Duration::from_secs(10);
        settings.stop_limit = Duration::from_secs(1);
    };
    tokio::spawn(crate::unit::run_unit(world.node_context(limits, stop)));
    let id = TaskId::main(UNIT, 1_000_000);
    let task = MainTask {
        named: vec!["only".to_owned()],
        ..MainTask::new(id, ["d", "s", "t"].map(str::to_owned), UNIT.into(), "default".into())
    };
    while world.store.submit(id, &task, false).await.is_err() {
        sleep(Duration::from_millis(20)).await;
    }
    let began = Instant::now();
    let main = loop {
        let main = world.store.main(id).await.unwrap().unwrap().task;
        if main.state.is_over() {
            break main;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{main:?}");
        sleep(Duration::from_millis(20)).await;
    };
    // The runner's timeout, its stop limit, and two session timeouts.
    assert!(began.elapsed() >= Duration::from_secs(15), "{:?}", began.elapsed());
    assert_eq!((main.state, main.result.failed_count), (State::Done, 1));
    assert_eq!(main.failures[0].message, "its worker did not end it in time");
}

/// Runners that take longer than a session to end.
struct Slow;

impl Launch for Slow {
    fn launch(&self, spec: Spec, signals: RunSignals) -> BoxFuture<'static, Result<Report, String>> {
        let ended = Endless.launch(spec, signals);
        async move {
            let report = ended.await;
            sleep(SESSION * 3).await;
            report
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn unit_that_leaves_announces_no_waiting_subtask() {
    let world = World::new().await;
    let (asked, stop) = allot_runtime::shutdown_channel();
    let running = world.task("running", 1, SubState::Init, |task| task.priority = 9).await;
    world.live_with(Arc::new(Slow), |settings| (settings.slots, settings.limit) = (2, 1), stop);
    world.comes_to(running.subtask(1), SubState::Running, 0).await;
    world.task("waiting", 1, SubState::Init, |_| {}).await;
    let announcements = async || {
        let names = world.store.children(&world.store.paths.permits()).await.unwrap();
        names.iter().filter(|name| name.starts_with("waiting.")).count()
    };
    let began = Instant::now();
    while announcements().await == 0 {
        assert!(began.elapsed() < SESSION * 10, "nothing is announced");
        sleep(Duration::from_millis(20)).await;
    }
    asked.send_replace(true);
    sleep(SESSION).await;
    assert_eq!(world.store.children(&world.store.paths.nodes()).await.unwrap().len(), 1, "its runner ends");
    assert_eq!(announcements().await, 0);
}

#[tokio::test(start_paused = true)]
async fn subtask_without_a_status_keeps_no_other_from_starting() {
    let world = World::new().await;
    let (_asked, stop) = allot_runtime::shutdown_channel();
    let damaged = world.task("damaged", 1, SubState::Init, |task| task.priority = 5).await;
    let dir = world.store.paths.at(UNIT, damaged.subtask(1));
    let path = format!("{dir}/{}", paths::status(SubState::Init));
    world.store.tree.multi(vec![Op::Delete { path, version: None }]).await.unwrap();
    let other = world.task("other", 1, SubState::Init, |_| {}).await;
    world.live(|settings| (settings.slots, settings.limit) = (1, 1), stop);
    world.comes_to(other.subtask(1), SubState::Running, 0).await;
    let found = world.store.sub(UNIT, damaged.subtask(1)).await;
    assert!(matches!(&found, Err(Fault::Corrupt(why)) if why.contains("without a status")), "{found:?}");
}

/// Runners that end well after a second, and are cut off with their session.
struct Brief;

impl Launch for Brief {
    fn launch(&self, _: Spec, mut signals: RunSignals) -> BoxFuture<'static, Result<Report, String>> {
        async move {
            let why = tokio::select! {
                () = sleep(Duration::from_secs(1)) => EndCause::Itself,
                _ = signals.lost.wait_for(|lost| *lost) => EndCause::CutOff,
            };
            Ok(Report { exit: Some(0), ..Report::of(why) })
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn result_of_a_runner_that_ended_during_an_outage_is_written_later() {
    let world = World::new().await;
    let (_asked, stop) = allot_runtime::shutdown_channel();
    let main = world.task("t", 1, SubState::Init, |task| task.retries = 0).await;
    world.live_with(Arc::new(Brief), |_| {}, stop);
    world.comes_to(main.subtask(1), SubState::Running, 0).await;
    sleep(Duration::from_millis(200)).await;
    // Longer than any session.
    world.tree.freeze();
    sleep(SESSION * 3).await;
    world.tree.thaw();
    world.coordinator.up().await.unwrap();
    sleep(SESSION * 2).await;
    assert_eq!(world.ended(main, 1).await, [SubState::Success]);
}
