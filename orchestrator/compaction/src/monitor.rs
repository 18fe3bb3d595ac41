//! The monitor: one elected unit. It gives the main tasks of lost managers to other units, packs and deletes history,
//! and removes unused inboxes. Its writes carry a fence, so a deposed monitor changes nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::{BoxFuture, OptionFuture};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio::time::sleep;
use tracing::{debug, info, warn};

use super::hashing::choose;
use super::history;
use super::ids::TaskId;
use super::node::{Units, is_present};
use super::node_context::NodeContext;
use super::notify::Event;
use super::task::MainTask;
use super::task_store::{Fault, Found, TaskStore};
use allot_coordination::{Leadership, LeadershipState, Presence, Retry, Retryable as _};
use allot_runtime::time::now_ms;
use allot_runtime::{Candidate, campaign};

/// Pause before maintenance is retried after a transient error.
const MAINTENANCE_RETRY_DELAY: Duration = Duration::from_secs(60);

/// Takes part in the election until the process shuts down, and acts as the monitor after each election won.
///
/// Leaves the election while another process has this unit's name: that one is a candidate itself.
pub(crate) async fn run(
    node_context: NodeContext,
    units: watch::Receiver<Units>,
    mut presence: watch::Receiver<Presence>,
) {
    let election = node_context.store().paths.election();
    let (coordinator, shutdown) = (node_context.coordinator.clone(), node_context.stop.clone());
    let name = node_context.name.clone();
    let mut monitor = Monitor { node_context, units };
    let mut stop = shutdown.clone();
    loop {
        tokio::select! {
            is_present = is_present(&mut presence) => if !is_present { return },
            () = stop.requested() => return,
        }
        let is_taken = |presence: &Presence| *presence == Presence::Taken;
        tokio::select! {
            ended = campaign(&coordinator, &shutdown, &election, &name, &mut monitor) => {
                if let Err(error) = ended {
                    debug!(%error, "the monitor's election ended");
                }
                return;
            }
            taken = presence.wait_for(is_taken) => if taken.is_err() { return },
        }
    }
}

struct Monitor {
    node_context: NodeContext,
    units: watch::Receiver<Units>,
}

impl Candidate for Monitor {
    async fn lead(&mut self, leadership: Leadership) {
        info!(term = leadership.term().0, "this compaction node is the monitor");
        metrics::gauge!("allot_compaction_monitor").set(1.0);
        let (node_context, units) = (self.node_context.clone(), self.units.clone());
        let mut shutdown = node_context.stop.clone();
        let mut session = MonitorSession {
            node_context,
            units,
            without_units: BTreeSet::new(),
            sizes: history::Sizes::default(),
        };
        tokio::select! {
            () = session.run(&leadership) => {}
            () = leadership.lost() => {}
            () = shutdown.requested() => {}
        }
        metrics::gauge!("allot_compaction_monitor").set(0.0);
        history::publish_size(0, 0);
    }
}

/// One leadership term of the monitor.
struct MonitorSession {
    node_context: NodeContext,
    units: watch::Receiver<Units>,
    /// Tasks that had no unit at the last hourly check, nor at any check since.
    without_units: BTreeSet<TaskId>,
    sizes: history::Sizes,
}

impl MonitorSession {
    async fn run(&mut self, lead: &Leadership) {
        let every = self.node_context.config.every;
        // Check at once and then at every interval, and whenever a unit joins or leaves.
        let mut clock = Instant::now();
        // Maintenance may take long, so it runs beside the checks of lost managers.
        let mut maintenance: Option<BoxFuture<'static, Result<(), Fault>>> = None;
        let mut retries = self.node_context.coordinator.retries("the monitor's check of all tasks");
        while lead.state() != LeadershipState::Lost {
            if self.units.wait_for(|units| units.current).await.is_err() {
                return;
            }
            let by_clock = clock <= Instant::now();
            match self.check_tasks(lead, by_clock).await {
                Ok(due) => {
                    retries.succeeded();
                    if by_clock {
                        clock = Instant::now() + every;
                        // A maintenance run that is still going on is not started twice.
                        if maintenance.is_none() {
                            maintenance = Some(Box::pin(self.maintenance(lead.clone())));
                        }
                    }
                    let due = due.map_or(clock, |due| due.min(clock));
                    tokio::select! {
                        () = sleep(due.saturating_duration_since(Instant::now())) => {}
                        changed = self.units.changed() => if changed.is_err() { return },
                        Some(done) = OptionFuture::from(maintenance.as_mut()), if maintenance.is_some() => {
                            maintenance = None;
                            if let Err(fault) = done {
                                debug!(%fault, "maintenance failed; retrying soon");
                                clock = clock.min(Instant::now() + MAINTENANCE_RETRY_DELAY);
                            }
                        }
                    }
                }
                Err(fault) => retries.failed(&fault).await,
            }
        }
    }

    /// Checks all main tasks once. Returns when the next check is needed, if a unit is away.
    async fn check_tasks(&mut self, lead: &Leadership, by_clock: bool) -> Result<Option<Instant>, Fault> {
        let units = self.units.borrow_and_update().clone();
        let store = self.store(lead)?;
        let grace = self.node_context.config.grace.unwrap_or_else(|| self.node_context.session_timeout());
        let mut due: Option<Instant> = None;
        let mut without_units = BTreeSet::new();
        for mut main in store.live_mains().await? {
            // A manager that has moved to another processing cluster is treated as lost.
            let is_other = units.live.get(&main.task.manager).is_some_and(|info| info.pc != main.task.pc);
            let is_drained = units.is_drained(&main.task.manager);
            let since = units.away_since(&main.task.manager);
            if since.is_none() && !is_other && !is_drained {
                self.without_units.remove(&main.id);
                continue;
            }
            if let Some(since) = since
                && since + grace > Instant::now()
            {
                due = Some(due.map_or(since + grace, |due| due.min(since + grace)));
                continue;
            }
            let bins = units.bins(&main.task.pc);
            if let Some(to) = choose(&main.id.to_string(), &bins) {
                self.without_units.remove(&main.id);
                let from = main.task.manager.clone();
                match store.reassign(main.id, Some(&from), &to.name).await {
                    Ok(_) => info!(id = %main.id, from, to = to.name, "gave a task to another manager"),
                    // The task has ended meanwhile, or the new manager is gone: the next check decides.
                    Err(Fault::Refused(why) | Fault::Busy(why)) => {
                        debug!(why, "did not give a task to another manager");
                    }
                    Err(fault) => return Err(fault),
                }
            } else if main.task.repeats() || (since.is_none() && is_drained) {
                // A schedule waits until a unit is back. A drained unit manages its tasks while there is no other.
            } else if by_clock && self.without_units.contains(&main.id) {
                self.cancel_without_units(&store, &mut main, &units).await?;
            } else {
                without_units.insert(main.id);
            }
        }
        if by_clock {
            self.without_units = without_units;
        }
        // This comes last, since it only informs people.
        if let Err(fault) = Self::note_absence(&store, &units).await {
            debug!(%fault, "cannot record since when compaction nodes are away");
        }
        Ok(due)
    }

    fn store(&self, lead: &Leadership) -> Result<TaskStore, Fault> {
        Ok(TaskStore { tree: lead.tree()?, ..self.node_context.store() })
    }

    /// Maintenance: packs and deletes history, and removes inboxes. Each step runs on its own. A permanent error is
    /// logged, and the step is repeated at the next interval; a transient error is returned.
    fn maintenance(&self, lead: Leadership) -> impl Future<Output = Result<(), Fault>> + use<> {
        let (node_context, units) = (self.node_context.clone(), self.units.clone());
        let sizes = self.sizes.clone();
        async move {
            let store = TaskStore { tree: lead.tree()?, ..node_context.store() };
            let passed = |done: Result<(), Fault>| match done {
                Err(fault) if fault.retry() != Retry::Refused => Err(fault),
                Err(fault) => {
                    warn!(%fault, "a maintenance step failed; it is repeated at the next interval");
                    Ok(())
                }
                Ok(()) => Ok(()),
            };
            passed(history::pack(&store, node_context.config.compress_after).await.map(drop))?;
            passed(history::expire(&store, node_context.config.delete_after).await.map(drop))?;
            passed(sizes.measure(&store).await)?;
            let units = units.borrow().clone();
            passed(tidy(&store, &units, node_context.config.every).await)
        }
    }

    /// Records the time since which units are away, for `explain`, which prints why subtasks wait.
    async fn note_absence(store: &TaskStore, units: &Units) -> Result<(), Fault> {
        // The times come from two clocks: a smaller difference in milliseconds is ignored.
        const SLACK: u64 = 5000;
        for (unit, inbox) in store.inboxes().await? {
            let at = |since: Instant| now_ms().saturating_sub(since.elapsed().as_millis() as u64);
            let away = units.away_since(&unit).map(at);
            // The unit was present meanwhile, which nobody recorded.
            let again =
                units.went(&unit).map(at).zip(inbox.away).is_some_and(|(now, then)| now > then + SLACK);
            let is_change = match (away, inbox.away) {
                (Some(_), None) => true,
                (Some(_), Some(_)) => again,
                (None, noted) => noted.is_some() && units.live.contains_key(&unit),
            };
            if is_change {
                store.note_away(&unit, inbox, away).await?;
            }
        }
        Ok(())
    }

    /// Cancels a task: no unit of its processing cluster was present at two consecutive hourly checks.
    async fn cancel_without_units(
        &self,
        store: &TaskStore,
        main: &mut Found<MainTask>,
        units: &Units,
    ) -> Result<(), Fault> {
        const BATCH: usize = 50;
        let why = format!("no compaction node of {} was present at two consecutive checks", main.task.pc);
        for name in store.children(&store.paths.assigned()).await? {
            let worker = super::paths::decode(&name);
            if units.away_since(&worker).is_none() {
                continue;
            }
            for ids in store.at(&worker, Some(main.id)).await?.chunks(BATCH) {
                let subs: Vec<_> =
                    store.subs(&worker, ids).await?.into_iter().map(|sub| (sub, None)).collect();
                store.reassign_subtasks(main, &subs).await?;
            }
        }
        loop {
            let names = store.children(&store.paths.finished(main.id)).await?;
            if names.is_empty() {
                break;
            }
            store.count(main, &names).await?;
        }
        store.cancel(main, &why).await?;
        self.node_context.notify(Event::TaskEnded, &main.task);
        warn!(id = %main.id, why, "cancelled a task");
        Ok(())
    }
}

/// Cleans up after units that have been away for `after`: removes notices that nobody will read, and empty inboxes. A
/// unit that returns creates its inbox again.
async fn tidy(store: &TaskStore, units: &Units, after: Duration) -> Result<(), Fault> {
    for (unit, node) in store.inboxes().await? {
        let away = units.away_since(&unit);
        if away.is_none_or(|since| since.elapsed() < after) {
            continue;
        }
        let inbox = store.paths.inbox(&unit);
        for id in store.children(&inbox).await?.iter().filter_map(|name| name.parse::<TaskId>().ok()) {
            if id.is_main() && store.main(id).await?.is_none_or(|main| main.task.manager != unit) {
                store.noticed(&unit, id).await?;
            }
        }
        store.remove_inbox(&unit, node).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Settings;
    use crate::node::{self, NodeInfo};
    use crate::runner::{Launch, RunSignals};
    use crate::supervisor::{Report, Spec};
    use crate::task::State;
    use allot_coordination::in_process::InProcess;
    use allot_coordination::{Coordinator, Membership, Sessions};
    use allot_runtime::Health;

    const SESSION: Duration = Duration::from_secs(2);

    /// Starts no runners.
    struct Nothing;

    impl Launch for Nothing {
        fn launch(&self, _: Spec, _: RunSignals) -> BoxFuture<'static, Result<Report, String>> {
            unreachable!("the monitor starts no runners")
        }
    }

    fn node_context(coordinator: &Coordinator) -> NodeContext {
        let (_, stop) = allot_runtime::shutdown_channel();
        let config = Settings {
            node: Some("m_1".into()),
            runner: vec!["r".into()],
            grace: Some(Duration::from_secs(2)),
            root: "/c".into(),
            ..Settings::default()
        };
        NodeContext {
            coordinator: coordinator.clone(),
            watch_sessions: Sessions::new(coordinator, "sessions"),
            health: Health::default(),
            stop,
            config,
            name: "m_1".into(),
            launch: Arc::new(Nothing),
        }
    }

    /// A coordinator, a node context, and a task whose manager `gone_1` was never present.
    async fn with_a_task() -> (Coordinator, NodeContext, TaskId) {
        let tree = InProcess::new(SESSION);
        let coordinator = Coordinator::start(Arc::new(tree));
        coordinator.up().await.unwrap();
        let node_context = node_context(&coordinator);
        let store = node_context.store();
        store.prepare().await.unwrap();
        store.tree.ensure(&store.paths.inbox("u_1")).await.unwrap();
        let id = TaskId::main("gone_1", 1_000_000);
        let table = ["d", "s", "t"].map(str::to_owned);
        let task = MainTask::new(id, table, "gone_1".into(), "default".into());
        store.tree.multi(store.creation(id, &task)).await.unwrap();
        (coordinator, node_context, id)
    }

    fn unit(coordinator: &Coordinator, node_context: &NodeContext, (name, pc): (&str, &str)) -> Membership {
        let info = NodeInfo { pc: pc.into(), slots: 1, limit: 0, version: "1".into(), started: 1 };
        coordinator.join(&node_context.store().paths.nodes(), name, &serde_json::to_vec(&info).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn task_without_units_at_two_hourly_checks_in_a_row_is_cancelled() {
        let (coordinator, node_context, id) = with_a_task().await;
        let store = node_context.store();
        let mut units = node::follow(&coordinator, &store.paths);
        let mut election = coordinator.campaign(&store.paths.election(), "m_1");
        let lead = election.elected().await.unwrap();
        let mut session = MonitorSession {
            node_context: node_context.clone(),
            units: units.clone(),
            without_units: BTreeSet::new(),
            sizes: history::Sizes::default(),
        };
        let state = async || store.main(id).await.unwrap().unwrap().task.state;
        units.wait_for(|units| units.current).await.unwrap();
        sleep(SESSION * 2).await;
        session.check_tasks(&lead, true).await.unwrap();

        // A unit joins, gets the task, and leaves.
        let membership = unit(&coordinator, &node_context, ("u_1", "default"));
        units.wait_for(|units| units.live.contains_key("u_1")).await.unwrap();
        session.check_tasks(&lead, false).await.unwrap();
        assert_eq!(store.main(id).await.unwrap().unwrap().task.manager, "u_1");
        membership.leave().await;
        units.wait_for(|units| units.live.is_empty()).await.unwrap();
        sleep(SESSION * 2).await;
        session.check_tasks(&lead, true).await.unwrap();
        assert_eq!(state().await, State::Init);
        session.check_tasks(&lead, true).await.unwrap();
        assert_eq!(state().await, State::Cancel);
    }

    #[tokio::test(start_paused = true)]
    async fn repeated_task_without_units_waits_for_one() {
        let (coordinator, node_context, id) = with_a_task().await;
        let store = node_context.store();
        store.set(id, |task| task.repeat.repeat_count = 0).await.unwrap();
        let mut units = node::follow(&coordinator, &store.paths);
        let mut election = coordinator.campaign(&store.paths.election(), "m_1");
        let lead = election.elected().await.unwrap();
        let mut session = MonitorSession {
            node_context: node_context.clone(),
            units: units.clone(),
            without_units: BTreeSet::new(),
            sizes: history::Sizes::default(),
        };
        units.wait_for(|units| units.current).await.unwrap();
        sleep(SESSION * 2).await;
        for _ in 0..4 {
            session.check_tasks(&lead, true).await.unwrap();
        }
        assert_eq!(store.main(id).await.unwrap().unwrap().task.state, State::Init);
        let _membership = unit(&coordinator, &node_context, ("u_1", "default"));
        units.wait_for(|units| units.live.contains_key("u_1")).await.unwrap();
        session.check_tasks(&lead, false).await.unwrap();
        assert_eq!(store.main(id).await.unwrap().unwrap().task.manager, "u_1");
    }

    #[tokio::test(start_paused = true)]
    async fn manager_that_moved_to_another_cluster_is_replaced() {
        let (coordinator, node_context, id) = with_a_task().await;
        let store = node_context.store();
        let mut units = node::follow(&coordinator, &store.paths);
        let _membership = unit(&coordinator, &node_context, ("gone_1", "other"));
        units.wait_for(|units| units.live.contains_key("gone_1")).await.unwrap();
        let mut election = coordinator.campaign(&store.paths.election(), "m_1");
        let lead = election.elected().await.unwrap();
        let mut session = MonitorSession {
            node_context: node_context.clone(),
            units: units.clone(),
            without_units: BTreeSet::new(),
            sizes: history::Sizes::default(),
        };
        session.check_tasks(&lead, true).await.unwrap();
        assert_eq!(store.main(id).await.unwrap().unwrap().task.manager, "gone_1");
        let _another = unit(&coordinator, &node_context, ("u_1", "default"));
        units.wait_for(|units| units.live.contains_key("u_1")).await.unwrap();
        session.check_tasks(&lead, false).await.unwrap();
        let task = store.main(id).await.unwrap().unwrap().task;
        assert_eq!((task.manager.as_str(), task.state), ("u_1", State::Init));
    }

    #[tokio::test(start_paused = true)]
    async fn unpackable_task_does_not_keep_others_from_being_packed() {
        let (_coordinator, node_context, id) = with_a_task().await;
        let store = node_context.store();
        let mut over = store.main(id).await.unwrap().unwrap();
        store.cancel(&mut over, "for a test").await.unwrap();
        // A foreign node below the task, deeper than any of Allot's own nodes.
        store.tree.ensure(&format!("{}/a/b/c", over.dir)).await.unwrap();
        let other = TaskId::main("gone_1", 2_000_000);
        let table = ["d", "s", "t"].map(str::to_owned);
        let mut task = MainTask::new(other, table, "gone_1".into(), "default".into());
        task.state = State::Done;
        store.tree.multi(store.creation(other, &task)).await.unwrap();
        assert_eq!(history::pack(&store, Duration::ZERO).await.unwrap(), 1);
        let rest = store.mains().await.unwrap();
        assert_eq!(rest.iter().map(|main| main.id).collect::<Vec<_>>(), [id]);
        assert_eq!(history::all(&store, &history::Filter::default(), 9).await.unwrap().0.len(), 2);
    }
}
