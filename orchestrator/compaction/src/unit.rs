//! A compaction node: joins the cluster, and runs worker, manager and monitor until the process shuts down.

use std::sync::Arc;
use std::time::Duration;

use allot_coordination::session::Changed;
use allot_coordination::{Coordinator, Presence, Sessions, Update};
use allot_runtime::time::now_ms;
use allot_runtime::{Health, Shutdown};
use anyhow::{Context as _, Result};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::node::{self, NodeInfo};
use super::node_context::NodeContext;
use super::runner::SupervisedLaunch;
use super::settings::Settings;
use super::task_store::{Fault, TaskStore};
use super::worker::unit_fault::{Refusal, UnitFault};
use super::{manager, monitor, paths, worker};

/// The name of this role in logs and health checks.
const ROLE: &str = "compaction";

/// How long a unit that leaves tries to delete its node.
const LEAVE_LIMIT: Duration = Duration::from_secs(2);

/// The metric of the sessions that only watch tasks.
pub(crate) const SESSIONS_GAUGE: &str = "allot_compaction_watch_sessions";

/// Runs a compaction node until the process shuts down.
///
/// # Errors
/// The settings name no unit.
pub async fn run(coordinator: Coordinator, health: Health, stop: Shutdown, settings: Settings) -> Result<()> {
    let name = settings.node.clone().context("compaction.node is not set")?;
    let launch = Arc::new(SupervisedLaunch::new());
    let watch_sessions = Sessions::new(&coordinator, SESSIONS_GAUGE);
    run_unit(NodeContext { coordinator, watch_sessions, health, stop, config: settings, name, launch }).await
}

pub(crate) async fn run_unit(node_context: NodeContext) -> Result<()> {
    let store = node_context.store();
    let mut stop = node_context.stop.clone();
    let coordinator = &node_context.coordinator;
    // In every session: the tree may be another one, or empty, or the monitor may have removed the inbox of a unit that was
    // away for long.
    let (created, mut is_created) = watch::channel(false);
    let (of, name) = (store.clone(), node_context.name.clone());
    let create = move |_| {
        let (store, name) = (of.clone(), name.clone());
        async move { create_inbox(&store, &name).await }
    };
    let _creating = coordinator.follow("creating the nodes of this unit", create, move |update| {
        created.send_if_modified(|created| {
            let is_new = matches!(update, Update::Read(..)) && !*created;
            *created |= is_new;
            is_new
        });
    });
    node_context
        .health
        .not_ready(ROLE, "not among the compaction nodes: its nodes in ZooKeeper do not exist yet");
    // The inbox must exist before the unit joins, since other units assign work to members only.
    tokio::select! {
        created = is_created.wait_for(|created| *created) => drop(created.context("the session with ZooKeeper is closed")?),
        () = stop.requested() => return Ok(()),
    }
    let info = NodeInfo {
        pc: node_context.config.pc.clone(),
        slots: node_context.config.slots,
        limit: node_context.config.limit,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started: now_ms(),
    };
    let membership = coordinator.join(
        &store.paths.nodes(),
        &paths::encode(&node_context.name),
        &serde_json::to_vec(&info)?,
    );
    let units = node::follow(coordinator, &store.paths);
    let (notices, notice_receiver) = mpsc::channel(64);
    let mut presence = membership.subscribe();
    let mut loops = JoinSet::new();
    let manages = manager::run(node_context.clone(), notice_receiver, units.clone(), presence.clone());
    loops.spawn(manages);
    loops.spawn(monitor::run(node_context.clone(), units.clone(), presence.clone()));
    let mut work = JoinSet::new();
    let fault = UnitFault::new();
    let mut faults = fault.subscribe();
    work.spawn(worker::run(node_context.clone(), notices, presence.clone(), units.clone(), fault.clone()));
    let looking = tokio::spawn(fault.follow(node_context.clone()));
    while !stop.is_requested() {
        let now = *presence.borrow_and_update();
        match now {
            Presence::Present(_) => match &*faults.borrow_and_update() {
                None => node_context.health.ready(ROLE),
                Some(Refusal { why, .. }) => {
                    node_context.health.not_ready(ROLE, format!("starts no subtasks for a while: {why}"));
                }
            },
            Presence::Away => {
                node_context
                    .health
                    .not_ready(ROLE, "not among the compaction nodes: no session with ZooKeeper");
            }
            Presence::Taken => {
                let why = format!(
                    "another compaction node is present as {}; each needs its own compaction.node",
                    node_context.name
                );
                node_context.health.not_ready(ROLE, why);
            }
        }
        tokio::select! {
            changed = presence.changed() => if changed.is_err() { break },
            changed = faults.changed() => if changed.is_err() { break },
            () = stop.requested() => {}
        }
    }
    looking.abort();
    // Return running subtasks first. One session timeout after a unit has left, others declare it lost and count its
    // running subtasks as failed.
    while work.join_next().await.is_some() {}
    // Without an answer, the node ends with the session.
    let _ = timeout(LEAVE_LIMIT, membership.leave()).await;
    while loops.join_next().await.is_some() {}
    Ok(())
}

/// Creates what does not exist of the nodes that the unit needs. The watch fires when the inbox is deleted.
async fn create_inbox(store: &TaskStore, name: &str) -> Result<((), Changed), Fault> {
    store.prepare().await?;
    let inbox = store.paths.inbox(name);
    store.tree.ensure(&inbox).await?;
    let (_, changed) = store.tree.watch_node(&inbox).await?;
    Ok(((), changed))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::ids::TaskId;
    use crate::simulated::{self, Behaviour, Runners};
    use crate::task::{MainTask, RepeatInfo};
    use allot_coordination::in_process::InProcess;
    use allot_simulation::line::{Line, Step, Steps};

    const SESSION: Duration = Duration::from_secs(2);

    /// Counts the requests to the tree, reads and writes, and refuses those below a path if it is told to.
    #[derive(Default)]
    struct Requests {
        made: [AtomicU64; 2],
        refused: Mutex<Option<String>>,
    }

    impl Requests {
        fn made(&self) -> [u64; 2] {
            [0, 1].map(|kind| self.made[kind].load(Ordering::Relaxed))
        }
    }

    impl Steps for Requests {
        fn next(&self, what: &str, path: &str) -> Step {
            let is_write = matches!(what, "create" | "set" | "delete" | "multi");
            self.made[usize::from(is_write)].fetch_add(1, Ordering::Relaxed);
            let refused = self.refused.lock().unwrap();
            let is_refused = refused.as_ref().is_some_and(|below| path.starts_with(below));
            if is_refused { Step::Refused } else { Step::Answered(Duration::ZERO) }
        }
    }

    /// Starts a unit with this number.
    fn join(number: u64, tree: &InProcess, requests: &Arc<Requests>, stop: &Shutdown) -> Coordinator {
        let line = Line::new(tree.clone(), requests.clone());
        let coordinator = Coordinator::start(Arc::new(line));
        let settings =
            Settings { node: Some(format!("u{number}_1")), root: "/c".into(), ..Settings::default() };
        let runners =
            Runners::new(Behaviour { session: SESSION, longest_ms: 60, fails: |_, _| false, limit: ("", 1) });
        let health = Health::default();
        tokio::spawn(simulated::run(coordinator.clone(), health, stop.clone(), settings, runners));
        coordinator
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_make_a_unit_not_ready_and_are_repeated_seldom() {
        let (tree, requests) = (InProcess::new(SESSION), Arc::new(Requests::default()));
        let (_ask, stop) = allot_runtime::shutdown_channel();
        let task_paths = paths::Paths::new("/c");
        for refused in [task_paths.scheduler(), task_paths.inbox("u1_1"), task_paths.nodes()] {
            let coordinator = join(1, &tree, &requests, &stop);
            let health = Health::default();
            let following = tokio::spawn({
                let (health, coordinator) = (health.clone(), coordinator.clone());
                async move { health.follow(&coordinator).await }
            });
            tokio::time::sleep(SESSION * 5).await;
            assert_eq!(health.problems(), Vec::<String>::new());
            *requests.refused.lock().unwrap() = Some(refused.clone());
            // The next event makes the unit read again.
            tree.freeze();
            tokio::time::sleep(SESSION / 2).await;
            tree.thaw();
            tokio::time::sleep(Duration::from_secs(60)).await;
            let problems = health.problems().join(" ");
            assert!(problems.contains(&refused) && problems.contains("refuses"), "{refused}: {problems}");
            let before = requests.made();
            tokio::time::sleep(Duration::from_secs(60)).await;
            let made: u64 = requests.made().into_iter().zip(before).map(|(now, then)| now - then).sum();
            assert!(made <= 60, "{made} requests in a minute while {refused} is refused");
            *requests.refused.lock().unwrap() = None;
            tokio::time::sleep(Duration::from_secs(20)).await;
            assert_eq!(health.problems(), Vec::<String>::new());
            coordinator.close().await;
            following.abort();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn second_process_of_a_name_neither_manages_nor_leads() {
        let tree = InProcess::new(SESSION);
        let [(asked, first), (_ask, second)] = [(), ()].map(|()| allot_runtime::shutdown_channel());
        let (requests, requests_of_second) = (Arc::default(), Arc::<Requests>::default());
        let coordinator = join(1, &tree, &requests, &first);
        tokio::time::sleep(SESSION * 2).await;
        // Two processes differ by the time of their start.
        std::thread::sleep(Duration::from_millis(5));
        let twin = join(1, &tree, &requests_of_second, &second);
        tokio::time::sleep(SESSION * 2).await;
        // A task whose rounds follow each other without an end.
        let store = TaskStore::new(coordinator.tree(), "/c");
        let id = TaskId::main("u1_1", 1_000_000);
        let names = ["d", "s", "t"].map(str::to_owned);
        let task = MainTask {
            named: vec!["p".to_owned()],
            repeat: RepeatInfo { repeat_count: 0, repeat_interval: 0 },
            ..MainTask::new(id, names, "u1_1".into(), "default".into())
        };
        store.submit(id, &task, false).await.unwrap();
        let latches = format!("{}/latches", store.paths.election());
        let before = requests_of_second.made();
        tokio::time::sleep(SESSION * 10).await;
        let rounds = store.main(id).await.unwrap().unwrap().task.round;
        assert!(rounds > 5, "{rounds} rounds");
        assert_eq!(requests_of_second.made(), before, "the second process does nothing");
        assert_eq!(store.children(&latches).await.unwrap().len(), 1);
        // The first one leaves, and the second takes its place.
        asked.send_replace(true);
        let store = TaskStore::new(twin.tree(), "/c");
        tokio::time::sleep(SESSION * 10).await;
        assert!(store.main(id).await.unwrap().unwrap().task.round > rounds + 5);
        assert_eq!(store.children(&latches).await.unwrap().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn hundredth_unit_joins_with_few_requests_of_the_others() {
        let (tree, requests) = (InProcess::new(SESSION), Arc::new(Requests::default()));
        let (_ask, stop) = allot_runtime::shutdown_channel();
        for number in 1..100 {
            join(number, &tree, &requests, &stop);
        }
        tokio::time::sleep(SESSION * 10).await;
        let before = requests.made();
        join(100, &tree, &requests, &stop);
        tokio::time::sleep(SESSION * 10).await;
        let [reads, writes] = [0, 1].map(|kind| requests.made()[kind] - before[kind]);
        println!("the hundredth unit joins: {reads} reads, {writes} writes");
        assert!(reads < 500 && writes < 20, "{reads} reads, {writes} writes");
    }
}
