//! `allotd accounts`: the operators' commands on a book: import and export of the inventory, status, rebalancing,
//! simulation. No daemon is needed; if one runs, it is notified of changes.

mod export;
mod file;
mod import;
mod simulate;
mod status;

use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};

use crate::cli::outcome::Outcome;
use crate::cli::table;
use crate::config::{BookSource, Config};
use crate::daemon;
use crate::roles::accounts::paths::Paths;
use allot_client::BookStore;
use allot_coordination::{Error, Kind};

/// How long a command waits for ZooKeeper.
const PATIENCE: Duration = Duration::from_secs(15);

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a book equal to a file: modules, accounts, and their assignment to modules.
    Import(import::Arguments),
    /// Print a book as a file that `import` reads.
    Export {
        #[command(flatten)]
        source: BookSource,
    },
    /// Show departments, modules and instances, with shares, use, cost and the month's forecast.
    Status(status::Arguments),
    /// Rebalance projected use: move accounts to the instances that need them.
    Rebalance(RebalanceArguments),
    /// Replay a month of use from a file, and print what it would have cost.
    Simulate(simulate::Arguments),
}

/// The options of a rebalancing.
#[derive(Debug, Args)]
pub(crate) struct RebalanceArguments {
    #[command(flatten)]
    source: BookSource,
    /// Print the moves, and make none.
    #[arg(long)]
    dry_run: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs a command.
pub(crate) async fn run(command: Command) -> Result<Outcome> {
    match command {
        Command::Import(arguments) => import::run(arguments).await,
        Command::Export { source } => export::run(&source).await,
        Command::Status(arguments) => status::run(&arguments).await,
        Command::Rebalance(arguments) => rebalance(&arguments).await,
        Command::Simulate(arguments) => simulate::run(&arguments),
    }
}

/// A connection to the book's master.
async fn open(source: &BookSource) -> Result<(Config, BookStore)> {
    let config = source.config()?.for_book();
    let session = config.servers.session().await?;
    let book = BookStore::new(session.connection, &config.accounts.book);
    Ok((config, book))
}

async fn rebalance(arguments: &RebalanceArguments) -> Result<Outcome> {
    const COLUMNS: [(&str, &str); 6] = [
        ("account", "account"),
        ("from_module", "from module"),
        ("from_instance", "from instance"),
        ("to_module", "to module"),
        ("to_instance", "to instance"),
        ("avoided", "avoids"),
    ];
    let (_, book) = open(&arguments.source).await?;
    let moves = book.rebalance(arguments.dry_run, None).await?;
    if moves.is_empty() && !arguments.json {
        println!("nothing to move: at the present rate no instance needs an account that another can spare");
        return Ok(Outcome::Done);
    }
    table::print(&moves, &COLUMNS, arguments.json)?;
    if arguments.dry_run {
        eprintln!("dry run: nothing was changed");
    }
    Ok(Outcome::Done)
}

/// Notifies the leader that the inventory has changed. Without the notification the leader notices some seconds
/// later.
async fn notify(config: &Config) -> Result<()> {
    let Some(zookeeper) = &config.zookeeper else { return Ok(()) };
    let coordinator = daemon::coordinator(config);
    let raised = async {
        coordinator.up().await?;
        let (tree, path) = (coordinator.tree(), Paths::new(&config.accounts.root).notify());
        loop {
            let raised = if let Some(node) = tree.get(&path).await? {
                tree.set(&path, &node.data, node.version).await.map(drop)
            } else {
                tree.ensure(&config.accounts.root).await?;
                tree.create(&path, b"", Kind::Persistent).await
            };
            match raised {
                // Another process has changed the node at the same time.
                Err(Error::BadVersion(_) | Error::Exists(_) | Error::NoNode(_)) => {}
                raised => return raised,
            }
        }
    };
    let raised = tokio::time::timeout(PATIENCE, raised).await.unwrap_or(Err(Error::Offline));
    coordinator.close().await;
    raised.with_context(|| {
        format!(
            "the book is changed, but ZooKeeper at {} could not be notified; the leader notices the change within some seconds",
            zookeeper.servers
        )
    })
}
