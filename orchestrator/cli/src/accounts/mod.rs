//! `allot accounts`: the operators' commands on a book: import and export of the inventory, settings, status,
//! rebalancing, simulation. No daemon is needed; if one runs, it is notified of changes.

mod export;
mod import;
mod session;
mod settings;
mod simulate;
mod status;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::outcome::Outcome;
use crate::sources::BookSource;
use crate::table;
use crate::terminal::{errln, outln};

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
    /// Change settings of the book, or print them.
    Settings(settings::BookArguments),
    /// Define a module, or change its settings.
    Module(settings::ModuleArguments),
    /// Delete a module that has neither accounts nor instances.
    DeleteModule(settings::DeleteArguments),
    /// Limit the instructions of a department in a month.
    Department(settings::DepartmentArguments),
    /// Give accounts another tariff.
    Tariff(settings::TariffArguments),
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
        Command::Settings(arguments) => settings::book(&arguments).await,
        Command::Module(arguments) => settings::module(&arguments).await,
        Command::DeleteModule(arguments) => settings::delete_module(&arguments).await,
        Command::Department(arguments) => settings::department(&arguments).await,
        Command::Tariff(arguments) => settings::tariff(&arguments).await,
        Command::Rebalance(arguments) => rebalance(&arguments).await,
        Command::Simulate(arguments) => simulate::run(&arguments),
    }
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
    let (_, book) = session::open(&arguments.source).await?;
    let moves = book.rebalance(arguments.dry_run, None).await?;
    if moves.is_empty() && !arguments.json {
        outln!("nothing to move: at the present rate no instance needs an account that another can spare");
        return Ok(Outcome::Done);
    }
    table::print(&moves, &COLUMNS, arguments.json)?;
    if arguments.dry_run {
        errln!("dry run: nothing was changed");
    }
    Ok(Outcome::Done)
}
