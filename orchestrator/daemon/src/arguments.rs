//! The command line of `allotd`.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::config::{Given, Source};

/// The daemon of Allot: keeps conferences on media units, assigns accounts, and runs compaction.
#[derive(Debug, Parser)]
#[command(
    name = "allotd",
    version,
    after_help = "Exit codes: 0 done; 2 wrong command line; 3 the settings were refused, or a role failed."
)]
pub struct Arguments {
    /// Log more on standard error; repeat for more.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run one or more roles: scheduler, data-proxy, media-unit, compaction, accounts.
    Run(Box<Source>),
    /// Check a file of settings, with the environment and flags over it as in `run`, and print what they make of a
    /// process.
    CheckConfig {
        /// The file.
        file: PathBuf,
        /// The settings over it.
        #[command(flatten)]
        given: Box<Given>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switch_needs_no_value_and_takes_one_behind_an_equals_sign() {
        let read = |flags: &[&str]| {
            let words = [&["allotd", "check-config"], flags, &["allot.toml"]].concat();
            match Arguments::try_parse_from(words).unwrap().command {
                Command::CheckConfig { given, file } => {
                    assert_eq!(file, PathBuf::from("allot.toml"));
                    (given.media_unit.drain, given.media_unit.self_stop)
                }
                Command::Run(_) => panic!("another command"),
            }
        };
        assert_eq!(read(&[]), (None, None));
        assert_eq!(read(&["--media-unit-drain"]), (Some(true), None));
        assert_eq!(read(&["--media-unit-drain", "--media-unit-self-stop=false"]), (Some(true), Some(false)));
        assert_eq!(read(&["--media-unit-drain=false", "--media-unit-zone", "z"]), (Some(false), None));
        assert!(Arguments::try_parse_from(["allotd", "run", "--media-unit-drain", "true"]).is_err());
        assert!(Arguments::try_parse_from(["allotd", "run", "--media-unit-drain=maybe"]).is_err());
    }
}
