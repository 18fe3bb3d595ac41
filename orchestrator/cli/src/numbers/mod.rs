//! `allot numbers`: fills number pools from a file, prints them, sets their caps and causes, and migrates them from the
//! list and the hash of an existing system.

mod limits;
mod load;
mod migrate;
mod show;

use anyhow::Result;
use clap::Subcommand;

use crate::outcome::Outcome;

/// The commands for number pools.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Put the numbers of a file into a pool.
    Load(load::Arguments),
    /// Print a pool: totals, settings, and who carries its calls.
    Show(show::Arguments),
    /// Set how many calls a number may begin within a time.
    Caps(limits::CapsArguments),
    /// Set after which calls a number goes into quarantine, and for how long.
    Cause(limits::CauseArguments),
    /// Take over the list and the hash of an existing system into a pool, in one step.
    Migrate(migrate::Arguments),
}

/// Runs the command.
pub(crate) async fn run(command: Command) -> Result<Outcome> {
    match command {
        Command::Load(arguments) => load::run(arguments).await,
        Command::Show(arguments) => show::run(arguments).await,
        Command::Caps(arguments) => limits::set_caps(arguments).await,
        Command::Cause(arguments) => limits::set_cause(arguments).await,
        Command::Migrate(arguments) => migrate::run(arguments).await,
    }
}
