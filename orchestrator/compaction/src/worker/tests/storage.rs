//! Storage that answers late or never.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::time::{Instant, sleep};

use super::{Endless, SESSION, World};
use crate::Settings;
use crate::runner::{Launch, RunSignals};
use crate::supervisor::{Report, Spec};
use crate::task::{SubState, SubTask};

/// Storage that never answers for the partitions of two tables.
struct Hanging;

/// The storage never says which file a partition of this table is.
const HUNG_FILE: &str = "hung";
/// The storage never says whether a partition of this table may be compacted.
const HUNG_CHECK: &str = "hung_check";

impl Launch for Hanging {
    fn launch(&self, spec: Spec, signals: RunSignals) -> BoxFuture<'static, Result<Report, String>> {
        Endless.launch(spec, signals)
    }

    fn file(&self, _: &Settings, sub: &SubTask) -> BoxFuture<'static, String> {
        if sub.table_name == HUNG_FILE {
            std::future::pending().boxed()
        } else {
            async { String::new() }.boxed()
        }
    }

    fn check<'a>(&self, _: &'a Settings, sub: &'a SubTask) -> BoxFuture<'a, Result<(), String>> {
        if sub.table_name == HUNG_CHECK { std::future::pending().boxed() } else { async { Ok(()) }.boxed() }
    }
}

#[tokio::test(start_paused = true)]
async fn hung_storage_keeps_neither_others_from_starting_nor_the_unit_from_leaving() {
    let world = World::new().await;
    let (asked, stop) = allot_runtime::shutdown_channel();
    let hung = world.task(HUNG_FILE, 1, SubState::Init, |task| task.priority = 5).await;
    let other = world.task("other", 1, SubState::Init, |_| {}).await;
    world.live_with(Arc::new(Hanging), |settings| (settings.slots, settings.limit) = (2, 9), stop);
    world.comes_to(other.subtask(1), SubState::Running, 0).await;
    assert_eq!(world.sub(hung.subtask(1)).await.unwrap().state, SubState::Init);
    asked.send_replace(true);
    world.left().await;
}

#[tokio::test(start_paused = true)]
async fn stop_ends_the_wait_for_storage() {
    let world = World::new().await;
    let (_asked, stop) = allot_runtime::shutdown_channel();
    let file = world.task(HUNG_FILE, 1, SubState::Init, |_| {}).await;
    let check = world.task(HUNG_CHECK, 1, SubState::Init, |_| {}).await;
    world.live_with(Arc::new(Hanging), |settings| settings.slots = 2, stop);
    world.comes_to(check.subtask(1), SubState::Running, 0).await;
    // Both wait for longer than a subtask keeps others from starting.
    sleep(SESSION * 5).await;
    for main in [file, check] {
        world.store.stop(main).await.unwrap();
    }
    // Neither has a runner yet, so both wait for their manager, which ends them. Their slots are free.
    world.comes_to(check.subtask(1), SubState::Init, 0).await;
    let next = world.task("next", 2, SubState::Init, |_| {}).await;
    for number in 1..=2 {
        world.comes_to(next.subtask(number), SubState::Running, 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn time_limit_ends_the_wait_for_storage() {
    let world = World::new().await;
    let (_asked, stop) = allot_runtime::shutdown_channel();
    let main = world.task(HUNG_CHECK, 1, SubState::Init, |_| {}).await;
    let limit = Duration::from_secs(60);
    let settings = |settings: &mut Settings| (settings.slots, settings.timeout) = (1, limit);
    world.live_with(Arc::new(Hanging), settings, stop);
    world.comes_to(main.subtask(1), SubState::Running, 0).await;
    sleep(limit.saturating_sub(SESSION)).await;
    assert_eq!(world.sub(main.subtask(1)).await.unwrap().state, SubState::Running);
    sleep(SESSION * 3).await;
    assert_eq!(world.ended(main, 1).await, [SubState::Failed]);
}

#[tokio::test(start_paused = true)]
async fn unit_leaves_although_the_storage_of_a_running_subtask_hangs() {
    let world = World::new().await;
    let (asked, stop) = allot_runtime::shutdown_channel();
    let main = world.task(HUNG_CHECK, 1, SubState::Init, |_| {}).await;
    world.live_with(Arc::new(Hanging), |settings| settings.slots = 1, stop);
    world.comes_to(main.subtask(1), SubState::Running, 0).await;
    sleep(SESSION * 5).await;
    asked.send_replace(true);
    world.left().await;
    // Its runner has not begun, so another attempt is none of its retries.
    assert_eq!(world.sub(main.subtask(1)).await.unwrap().attempt, 0);
}

/// Storage that always answers later than the worker waits for it. Counts the questions.
struct Late(AtomicUsize);

/// After how long this storage answers.
const LATE: Duration = Duration::from_secs(5);

impl Launch for Late {
    fn launch(&self, spec: Spec, signals: RunSignals) -> BoxFuture<'static, Result<Report, String>> {
        Endless.launch(spec, signals)
    }

    fn file(&self, _: &Settings, _: &SubTask) -> BoxFuture<'static, String> {
        self.0.fetch_add(1, Ordering::Relaxed);
        async {
            sleep(LATE).await;
            "/data/file".to_owned()
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn late_storage_starts_no_task_that_was_paused_meanwhile_and_delays_others_once() {
    let world = World::new().await;
    let (_asked, stop) = allot_runtime::shutdown_channel();
    let main = world.task("t", 1, SubState::Init, |_| {}).await;
    let storage = Arc::new(Late(AtomicUsize::new(0)));
    let asked = || storage.0.load(Ordering::Relaxed);
    world.live_with(storage.clone(), |settings| settings.slots = 1, stop);
    let began = Instant::now();
    while asked() == 0 {
        assert!(began.elapsed() < SESSION * 10, "the storage is not asked");
        sleep(Duration::from_millis(20)).await;
    }
    sleep(LATE / 2).await;
    world.store.pause(main, true).await.unwrap();
    sleep(LATE * 3).await;
    assert_eq!(world.sub(main.subtask(1)).await.unwrap().state, SubState::Init);
    assert_eq!(asked(), 1);
    // What the storage said before the pause is forgotten. It is asked once more, and its late answer is enough.
    world.store.pause(main, false).await.unwrap();
    let sub = world.comes_to(main.subtask(1), SubState::Running, 0).await;
    assert_eq!(world.store.lock(&sub.task), world.store.paths.file_lock("/data/file"));
    assert_eq!(asked(), 2);
}
