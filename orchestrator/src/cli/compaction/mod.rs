//! `allotd compaction`: what people and scripts ask of the tasks. It reads and writes the tree itself; any unit need
//! not be there, but for a submission one must.

mod explain;
mod submit;
mod upgrade;
mod views;

use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};

use crate::cli::outcome::Outcome;
use crate::config::{Config, TreeSource};
use crate::daemon;
use allot_compaction::board::{Board, Fault};
use allot_compaction::hashing::choose;
use allot_compaction::ids::TaskId;
use allot_compaction::node::{Units, follow};
use allot_coordination::Coordinator;

/// How long ZooKeeper is waited for.
const PATIENCE: Duration = Duration::from_secs(15);

/// What every one of these commands takes.
#[derive(Debug, Args)]
pub(crate) struct Common {
    #[command(flatten)]
    source: TreeSource,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What can be asked.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Submit a task: compact a table, each of its partitions.
    Submit(submit::Arguments),
    /// List the tasks that are not packed into history.
    List {
        /// Only those that are not over.
        #[arg(long)]
        live: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Show a task and its subtasks.
    Show {
        /// The task.
        task: TaskId,
        #[command(flatten)]
        common: Common,
    },
    /// Say why a task is not running, or not finished.
    Explain {
        /// The task.
        task: TaskId,
        #[command(flatten)]
        common: Common,
    },
    /// Stop a task: nothing new of it begins, and what runs is ended.
    Stop {
        /// The task.
        task: TaskId,
        /// Wait until it has stopped.
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Let nothing new of a task begin; what runs goes on.
    Pause {
        /// The task.
        task: TaskId,
        #[command(flatten)]
        common: Common,
    },
    /// Let a paused task go on.
    Resume {
        /// The task.
        task: TaskId,
        #[command(flatten)]
        common: Common,
    },
    /// Give a task another manager, or a subtask that waits another worker.
    Reassign {
        /// The task; of a subtask, its own name.
        task: TaskId,
        /// The unit [default: by hashing, another than now]
        #[arg(long, value_name = "NODE")]
        to: Option<String>,
        /// It is a subtask.
        #[arg(long)]
        subtask: bool,
        #[command(flatten)]
        common: Common,
    },
    /// List the tasks that are over, packed or not.
    History {
        /// Only this one, with all that is known of it.
        task: Option<TaskId>,
        #[command(flatten)]
        common: Common,
    },
    /// Take over the tasks of the first generation, or remove its tree when that is done.
    Upgrade(upgrade::Arguments),
    /// List the units.
    Nodes {
        #[command(flatten)]
        common: Common,
    },
}

/// A way to the tree.
struct Desk {
    config: Config,
    coordinator: Coordinator,
    board: Board,
}

impl Desk {
    async fn open(common: &Common) -> Result<Self> {
        let config = common.source.config()?;
        let Some(zookeeper) = &config.zookeeper else {
            bail!(
                "no ZooKeeper is named: give --zookeeper-servers, ALLOT_ZOOKEEPER, or zookeeper.servers in a file"
            );
        };
        let coordinator = daemon::coordinator(&config);
        if tokio::time::timeout(PATIENCE, coordinator.up()).await.is_err() {
            return Err(allot_coordination::Error::Offline).with_context(|| {
                format!("ZooKeeper at {} did not answer for {PATIENCE:?}", zookeeper.servers)
            });
        }
        let board = Board::new(coordinator.tree(), &config.compaction.root);
        Ok(Self { config, coordinator, board })
    }

    /// Who is there.
    async fn units(&self) -> Result<Units> {
        self.board.prepare().await?;
        let mut units = follow(&self.coordinator, &self.board.paths.nodes());
        let units = units.wait_for(|units| units.current).await.context("the session was lost")?;
        Ok(units.clone())
    }

    /// The unit that is the monitor, by the tree.
    async fn monitor(&self) -> Result<Option<String>> {
        // Whoever stands first leads; looking is not standing.
        Ok(self.coordinator.leader(&self.board.paths.election()).await?)
    }

    async fn close(self, outcome: Result<Outcome>) -> Result<Outcome> {
        self.coordinator.close().await;
        outcome
    }
}

/// Does it.
pub(crate) async fn run(command: Command) -> Result<Outcome> {
    let common = match &command {
        Command::Submit(arguments) => &arguments.common,
        Command::Upgrade(arguments) => &arguments.common,
        Command::List { common, .. }
        | Command::Show { common, .. }
        | Command::Explain { common, .. }
        | Command::Stop { common, .. }
        | Command::Pause { common, .. }
        | Command::Resume { common, .. }
        | Command::Reassign { common, .. }
        | Command::History { common, .. }
        | Command::Nodes { common } => common,
    };
    let json = common.json;
    let desk = Desk::open(common).await?;
    let outcome = match &command {
        Command::Submit(arguments) => submit::run(&desk, arguments).await,
        Command::List { live, .. } => views::list(&desk, *live, json).await,
        Command::Show { task, .. } => views::show(&desk, *task, json).await,
        Command::Explain { task, .. } => explain::run(&desk, *task, json).await,
        Command::Stop { task, wait, .. } => stop(&desk, *task, *wait, json).await,
        Command::Pause { task, .. } => pause(&desk, *task, true, json).await,
        Command::Resume { task, .. } => pause(&desk, *task, false, json).await,
        Command::Reassign { task, to, subtask, .. } => {
            reassign(&desk, (*task, *subtask), to.as_deref(), json).await
        }
        Command::History { task, .. } => views::history(&desk, *task, json).await,
        Command::Upgrade(arguments) => upgrade::run(&desk, arguments).await,
        Command::Nodes { .. } => views::nodes(&desk, json).await,
    };
    desk.close(outcome).await
}

async fn stop(desk: &Desk, id: TaskId, wait: bool, json: bool) -> Result<Outcome> {
    desk.board.stop(id).await?;
    let outcome = if wait { submit::wait(desk, id, "is being stopped").await? } else { Outcome::Done };
    views::show(desk, id, json).await?;
    // That it did not do all of its work is what was asked for; that nobody waited for its end is not.
    let over = desk.board.main(id).await?.is_none_or(|main| main.task.state.is_over());
    Ok(if wait && !over { outcome } else { Outcome::Done })
}

async fn pause(desk: &Desk, id: TaskId, paused: bool, json: bool) -> Result<Outcome> {
    desk.board.pause(id, paused).await?;
    views::show(desk, id, json).await
}

async fn reassign(
    desk: &Desk,
    (id, subtask): (TaskId, bool),
    to: Option<&str>,
    json: bool,
) -> Result<Outcome> {
    if subtask == id.is_main() {
        let kind = if subtask { "a task, and no subtask" } else { "a subtask: say --subtask" };
        return Err(Fault::Refused(format!("{id} is {kind}")).into());
    }
    let Some(main) = desk.board.main(id.of_main()).await? else { return Err(gone(id.of_main()).into()) };
    let mut bins = desk.units().await?.bins(&main.task.pc);
    let has = if subtask {
        desk.board.find_sub(id).await?.map(|sub| sub.task.worker)
    } else {
        Some(main.task.manager)
    };
    let to = if let Some(to) = to {
        if !bins.iter().any(|bin| bin.name == to) {
            return Err(Fault::Refused(format!("unit {to} is not there, or not of {}", main.task.pc)).into());
        }
        to.to_owned()
    } else {
        bins.retain(|bin| Some(&bin.name) != has.as_ref());
        let other = choose(&id.to_string(), &bins).map(|bin| bin.name.clone());
        other.ok_or_else(|| Fault::Refused(format!("no other unit of {} is there", main.task.pc)))?
    };
    if subtask {
        desk.board.move_subtask(id, &to).await?;
    } else {
        desk.board.reassign(id, None, &to).await?;
    }
    views::show(desk, id.of_main(), json).await
}

fn gone(id: TaskId) -> Fault {
    Fault::Refused(format!(
        "task {id} is not there; allotd compaction history {id} looks among the packed ones"
    ))
}
