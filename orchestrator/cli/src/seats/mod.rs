//! `allot seats`: commands for shows. Importers turn a source into a draft, the module's own code builds a show from
//! the draft, and the show's plan is sent to the server.

mod export;
mod find;
mod list;
mod load;
mod rush;
mod show;
mod summary;
mod waiting;

use anyhow::Result;
use clap::Subcommand;

use crate::outcome::Outcome;

/// The commands for shows.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a show from a seating plan, or from the caches of an existing system.
    Load(load::Arguments),
    /// Print a show: areas, counts and a map of every row.
    Show(show::Arguments),
    /// List seats, live holds or sales.
    List(list::Arguments),
    /// List the users who wait for seats.
    Waiting(waiting::Arguments),
    /// Write every seat to standard output, as a table or as JSON with the plan.
    Export(export::Arguments),
    /// Print the seats that a hold would get now, without holding them.
    Find(find::Arguments),
    /// Sell a show out under load, and check that no seat is ever sold twice.
    Rush(rush::Arguments),
}

/// Runs the command.
pub(crate) async fn run(command: Command) -> Result<Outcome> {
    match command {
        Command::Load(arguments) => load::run(arguments).await,
        Command::Show(arguments) => show::run(arguments).await,
        Command::List(arguments) => list::run(arguments).await,
        Command::Waiting(arguments) => waiting::run(arguments).await,
        Command::Export(arguments) => export::run(arguments).await,
        Command::Find(arguments) => find::run(arguments).await,
        Command::Rush(arguments) => rush::run(arguments).await,
    }
}
