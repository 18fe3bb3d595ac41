//! `allot config`: prints an example file of settings.

use anyhow::Result;
use clap::Subcommand;

use crate::outcome::Outcome;
use crate::terminal::write;
use allotd::config::Given;

/// The commands for settings.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print a file with every setting, its default and its meaning.
    Example,
}

/// Runs the command.
pub(crate) fn run(command: &Command) -> Result<Outcome> {
    match command {
        Command::Example => write(&Given::example()).map(|()| Outcome::Done),
    }
}
