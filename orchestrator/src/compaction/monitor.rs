//! The monitor: one elected unit. It gives the main tasks of managers that are gone to others, and keeps history small.
//! Its writes are fenced: one that was deposed changes nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use tokio::sync::watch;
use tokio::time::sleep;
use tracing::{debug, info, warn};

use super::board::{Board, Fault, Found};
use super::hashing::choose;
use super::ids::TaskId;
use super::node::Units;
use super::task::MainTask;
use super::{PAUSE, Part, history};
use crate::coordination::{Error, Lead, Standing};
use crate::daemon::now_ms;

/// Stands for election until the process shall end, and is the monitor meanwhile, whenever it is elected.
pub(crate) async fn run(part: Part, units: watch::Receiver<Units>) {
    let mut stop = part.context.stop.clone();
    let paths = part.board().paths;
    let mut election = part.context.coordinator.campaign(&paths.election(), &part.name);
    loop {
        let lead = tokio::select! {
            lead = election.elected() => lead,
            () = stop.asked() => break,
        };
        let Ok(lead) = lead else { break };
        info!(term = lead.term().0, "this unit is the monitor");
        metrics::gauge!("allot_compaction_monitor").set(1.0);
        let mut stint = Stint { part: part.clone(), units: units.clone(), nobody: BTreeSet::new() };
        tokio::select! {
            () = stint.run(&lead) => {}
            () = lead.over() => {}
            () = stop.asked() => break,
        }
        metrics::gauge!("allot_compaction_monitor").set(0.0);
    }
    election.withdraw().await;
}

/// One stint.
struct Stint {
    part: Part,
    units: watch::Receiver<Units>,
    /// Tasks for which nobody was there at the last look of the clock, nor at any since.
    nobody: BTreeSet<TaskId>,
}

impl Stint {
    async fn run(&mut self, lead: &Lead) {
        let every = self.part.config.every;
        // By the clock, at once and then every hour; and whenever somebody comes or goes.
        let mut clock = Instant::now();
        while lead.now() != Standing::Over {
            if self.units.wait_for(|units| units.current).await.is_err() {
                return;
            }
            let by_clock = clock <= Instant::now();
            match self.look(lead, by_clock).await {
                Ok(due) => {
                    if by_clock {
                        clock = Instant::now() + every;
                    }
                    let due = due.map_or(clock, |due| due.min(clock));
                    tokio::select! {
                        () = sleep(due.saturating_duration_since(Instant::now())) => {}
                        changed = self.units.changed() => if changed.is_err() { return },
                    }
                }
                Err(Fault::Tree(Error::NotLeading)) => sleep(PAUSE).await,
                Err(fault) if fault.is_passing() => {
                    debug!(%fault, "the monitor looks again");
                    sleep(PAUSE).await;
                }
                Err(fault) => {
                    warn!(%fault, "the monitor cannot do its work");
                    sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }

    /// One look; when the next is due, if somebody is away.
    async fn look(&mut self, lead: &Lead, by_clock: bool) -> Result<Option<Instant>, Fault> {
        let units = self.units.borrow_and_update().clone();
        let board = Board { tree: lead.tree()?, ..self.part.board() };
        let grace = self.part.config.grace.unwrap_or_else(|| self.part.session_timeout());
        let mut due: Option<Instant> = None;
        let mut nobody = BTreeSet::new();
        for mut main in board.mains().await? {
            if main.task.state.is_over() {
                continue;
            }
            let Some(since) = units.away_since(&main.task.manager) else {
                self.nobody.remove(&main.id);
                continue;
            };
            if since + grace > Instant::now() {
                due = Some(due.map_or(since + grace, |due| due.min(since + grace)));
                continue;
            }
            let bins = units.bins(&main.task.pc);
            if let Some(to) = choose(&main.id.to_string(), &bins) {
                self.nobody.remove(&main.id);
                let from = main.task.manager.clone();
                match board.reassign(main.id, Some(&from), &to.name).await {
                    Ok(_) => info!(id = %main.id, from, to = to.name, "a task has another manager"),
                    // It is over meanwhile, or its manager-to-be is gone: the next look sees.
                    Err(Fault::Refused(why)) => debug!(why, "a task was not moved"),
                    Err(fault) => return Err(fault),
                }
            } else if by_clock && self.nobody.contains(&main.id) {
                self.give_up(&board, &mut main, &units).await?;
            } else {
                nobody.insert(main.id);
            }
        }
        if by_clock {
            self.nobody = nobody;
            history::pack(&board, self.part.config.compress_after).await?;
            history::expire(&board, self.part.config.delete_after).await?;
            self.tidy(&board, &units).await?;
        }
        // Last, since it is a help and no more.
        if let Err(fault) = Self::note_absence(&board, &units).await {
            debug!(%fault, "since when units are away is not noted");
        }
        Ok(due)
    }

    /// Notes since when units are away, for those who ask why their subtasks wait.
    async fn note_absence(board: &Board, units: &Units) -> Result<(), Fault> {
        // Two clocks: what differs by less is the same.
        const SLACK: u64 = 5000;
        for (unit, inbox) in board.inboxes().await? {
            let at = |since: Instant| now_ms().saturating_sub(since.elapsed().as_millis() as u64);
            let away = units.away_since(&unit).map(at);
            // It was back meanwhile, and nobody noted that.
            let again =
                units.went(&unit).map(at).zip(inbox.away).is_some_and(|(now, then)| now > then + SLACK);
            let is_news = match (away, inbox.away) {
                (Some(_), None) => true,
                (Some(_), Some(_)) => again,
                (None, noted) => noted.is_some() && units.live.contains_key(&unit),
            };
            if is_news {
                board.note_away(&unit, inbox, away).await?;
            }
        }
        Ok(())
    }

    /// Takes away what units left that have not been there since the look before: notices that nobody will read, and
    /// inboxes with nothing in them. One that comes back makes its own anew.
    async fn tidy(&self, board: &Board, units: &Units) -> Result<(), Fault> {
        for (unit, node) in board.inboxes().await? {
            let away = units.away_since(&unit);
            if away.is_none_or(|since| since.elapsed() < self.part.config.every) {
                continue;
            }
            let inbox = board.paths.inbox(&unit);
            for id in board.children(&inbox).await?.iter().filter_map(|name| name.parse::<TaskId>().ok()) {
                if id.is_main() && board.main(id).await?.is_none_or(|main| main.task.manager != unit) {
                    board.noticed(&unit, id).await?;
                }
            }
            board.remove_inbox(&unit, node).await?;
        }
        Ok(())
    }

    /// No unit of its processing cluster was there at two looks in a row.
    async fn give_up(&self, board: &Board, main: &mut Found<MainTask>, units: &Units) -> Result<(), Fault> {
        const BATCH: usize = 50;
        let why = format!("no unit of {} was there at two looks in a row", main.task.pc);
        for name in board.children(&board.paths.assigned()).await? {
            let worker = super::paths::decode(&name);
            if units.away_since(&worker).is_none() {
                continue;
            }
            for ids in board.at(&worker, Some(main.id)).await?.chunks(BATCH) {
                let subs: Vec<_> =
                    board.subs(&worker, ids).await?.into_iter().map(|sub| (sub, None)).collect();
                board.relieve(main, &subs).await?;
            }
        }
        loop {
            let names = board.children(&board.paths.finished(main.id)).await?;
            if names.is_empty() {
                break;
            }
            board.count(main, &names).await?;
        }
        board.cancel(main, &why).await?;
        warn!(id = %main.id, why, "a task is cancelled");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::future::BoxFuture;

    use super::*;
    use crate::compaction::guard::{Report, Spec};
    use crate::compaction::node::{self, NodeInfo};
    use crate::compaction::runner::{Attention, Launch};
    use crate::compaction::task::State;
    use crate::config::Config;
    use crate::coordination::in_process::InProcess;
    use crate::coordination::{Coordinator, Settings};
    use crate::daemon::{Context, Health};

    const SESSION: Duration = Duration::from_secs(2);

    /// Begins nothing.
    struct Nothing;

    impl Launch for Nothing {
        fn launch(&self, _: Spec, _: Attention) -> BoxFuture<'static, Result<Report, String>> {
            unreachable!("the monitor begins no runners")
        }
    }

    fn part(coordinator: &Coordinator) -> Part {
        let text = "[zookeeper]\nservers = \"a:1\"\n[compaction]\nnode = \"m_1\"\nrunner = [\"r\"]\n\
                    grace = \"2s\"\nroot = \"/c\"";
        let config = Config::of(text);
        let (_, stop) = crate::daemon::stop();
        let context = Context {
            config: Arc::new(config),
            name: "m_1".into(),
            coordinator: coordinator.clone(),
            alone: false,
            health: Health::default(),
            stop,
        };
        let config = context.config.compaction.clone();
        Part { context, config, name: "m_1".into(), launch: Arc::new(Nothing) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_is_cancelled_when_nobody_was_there_from_one_look_to_the_next_and_not_between_two_stays() {
        let tree = InProcess::new(SESSION);
        let coordinator = Coordinator::start(Arc::new(tree), &Settings::default());
        coordinator.up().await.unwrap();
        let part = part(&coordinator);
        let board = part.board();
        board.prepare().await.unwrap();
        board.tree.ensure(&board.paths.inbox("u_1")).await.unwrap();
        let id = TaskId::main("gone_1", 1_000_000);
        let table = ["d", "s", "t"].map(str::to_owned);
        let task = MainTask::new(id, table, "gone_1".into(), "default".into());
        board.tree.multi(board.creation(id, &task)).await.unwrap();
        let mut units = node::follow(&coordinator, &board.paths.nodes());
        let mut election = coordinator.campaign(&board.paths.election(), "m_1");
        let lead = election.elected().await.unwrap();
        let mut stint = Stint { part, units: units.clone(), nobody: BTreeSet::new() };
        let state = async || board.main(id).await.unwrap().unwrap().task.state;
        units.wait_for(|units| units.current).await.unwrap();
        sleep(SESSION * 2).await;
        stint.look(&lead, true).await.unwrap();

        // Somebody comes, has the task, and goes.
        let info = NodeInfo { pc: "default".into(), slots: 1, limit: 0, version: "1".into(), started: 1 };
        let membership = coordinator.join(&board.paths.nodes(), "u_1", &serde_json::to_vec(&info).unwrap());
        units.wait_for(|units| units.live.contains_key("u_1")).await.unwrap();
        stint.look(&lead, false).await.unwrap();
        assert_eq!(board.main(id).await.unwrap().unwrap().task.manager, "u_1");
        membership.leave().await;
        units.wait_for(|units| units.live.is_empty()).await.unwrap();
        sleep(SESSION * 2).await;
        stint.look(&lead, true).await.unwrap();
        assert_eq!(state().await, State::Init);
        stint.look(&lead, true).await.unwrap();
        assert_eq!(state().await, State::Cancel);
    }
}
