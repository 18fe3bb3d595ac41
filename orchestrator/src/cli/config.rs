//! `allotd config`: checks settings, and prints an example file.

use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;

use crate::cli::outcome::Outcome;
use crate::cli::terminal::{errln, out, write};
use crate::config::{Given, Source, describe};

/// The commands for settings.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check a file of settings, with the environment and flags over it as in `run`, and print what they make of a
    /// process.
    Check {
        /// The file.
        file: PathBuf,
        #[command(flatten)]
        given: Box<Given>,
    },
    /// Print a file with every setting, its default and its meaning.
    Example,
}

/// Runs the command.
pub(crate) fn run(command: Command) -> Result<Outcome> {
    let (file, given) = match command {
        Command::Check { file, given } => (file, given),
        Command::Example => return write(&Given::example()).map(|()| Outcome::Done),
    };
    Ok(match Source::new(file, *given).config() {
        Ok(config) => {
            out!("{}", describe(&config));
            Outcome::Done
        }
        Err(error) => {
            errln!("allotd: {error:#}");
            Outcome::InputRefused
        }
    })
}
