//! `allot config`: prints an example file of settings.

use allot_console::Section as Console;
use allotd::config::sections::Given;
use anyhow::Result;
use clap::Subcommand;

use crate::outcome::Outcome;
use crate::terminal::write;

/// The commands for settings.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print a file with every setting, its default and its meaning.
    Example,
}

/// Runs the command.
pub(crate) fn run(command: &Command) -> Result<Outcome> {
    match command {
        Command::Example => write(&example()).map(|()| Outcome::Done),
    }
}

/// The settings of the daemon, and those of the console.
fn example() -> String {
    format!("{}\n{}", Given::example(), Console::example())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn committed_example_is_the_generated_one() {
        let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/allot.toml");
        let text = fs::read_to_string(committed).unwrap();
        assert!(text == example(), "write it again: allot config example > examples/allot.toml");
    }
}
