//! `allot generate`: man pages and shell completion from the definition of the command line.

use std::fs;
use std::path::{Path, PathBuf};

use allotd::arguments::Arguments;
use anyhow::{Context as _, Result};
use clap::{CommandFactory as _, Subcommand};
use clap_complete::Shell;

use super::outcome::Outcome;
use super::terminal::write;

/// What is generated.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write man pages for `allot`, `allotd` and each of their subcommands into a folder.
    Man {
        /// The folder; it is created if it does not exist.
        folder: PathBuf,
    },
    /// Print the completion script for a shell.
    Completion {
        /// The shell.
        shell: Shell,
    },
}

/// Generates from the whole command line, `definition`.
pub(crate) fn run(command: &Command, definition: clap::Command) -> Result<Outcome> {
    match command {
        Command::Man { folder } => man_pages(folder, definition),
        Command::Completion { shell } => completion(*shell, &definition),
    }
    .map(|()| Outcome::Done)
}

fn man_pages(folder: &Path, definition: clap::Command) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create the folder {}", folder.display()))?;
    for program in [definition, Arguments::command()] {
        clap_mangen::generate_to(program.disable_help_subcommand(true), folder)
            .with_context(|| format!("cannot write man pages into {}", folder.display()))?;
    }
    Ok(())
}

fn completion(shell: Shell, definition: &clap::Command) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut without_hidden(definition), "allot", &mut script);
    write(&String::from_utf8(script).context("the completion script is no text")?)
}

/// The command line without hidden subcommands, which completion would suggest.
fn without_hidden(definition: &clap::Command) -> clap::Command {
    let shown = definition.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
    clap::Command::new("allot")
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_subcommand(true)
        .args(definition.get_arguments().cloned())
        .subcommands(shown.cloned())
}
