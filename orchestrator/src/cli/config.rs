//! `allotd config`: what settings make of a process.

use std::path::PathBuf;

use clap::Subcommand;

use crate::cli::Outcome;
use crate::config::{Given, Source, describe};

/// What can be done with settings.
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
}

/// Does it.
pub(crate) fn run(command: Command) -> Outcome {
    let Command::Check { file, given } = command;
    match Source::new(file, *given).config() {
        Ok(config) => {
            print!("{}", describe(&config));
            Outcome::Done
        }
        Err(error) => {
            eprintln!("allotd: {error:#}");
            Outcome::InputRefused
        }
    }
}
