//! `allotd`: the daemon. Everything that people type is `allot`.
#![warn(missing_docs, clippy::disallowed_types)]

use std::path::PathBuf;
use std::process::ExitCode;

use allot_runtime::child::{program, watchdog};
use allot_runtime::telemetry::{self, LogFormat};
use allotd::config::{Given, Source, describe};
use allotd::{daemon, run_role};
use anyhow::Result;
use clap::{Parser, Subcommand};

/// The daemon of Allot: keeps conferences on media units, assigns accounts, and runs compaction.
#[derive(Debug, Parser)]
#[command(
    name = "allotd",
    version,
    after_help = "Exit codes: 0 done; 2 wrong command line; 3 the settings were refused, or a role failed."
)]
struct Cli {
    /// Log more on standard error; repeat for more.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run one or more roles: scheduler, data-proxy, media-unit, compaction, accounts.
    Run(Box<Source>),
    /// Check a file of settings, with the environment and flags over it as in `run`, and print what they make of a
    /// process.
    CheckConfig {
        /// The file.
        file: PathBuf,
        #[command(flatten)]
        given: Box<Given>,
    },
}

fn main() -> ExitCode {
    if let Some(code) = program::exec_if_child() {
        return code;
    }
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("allotd: the threads of the process cannot be started: {error}");
            return ExitCode::FAILURE;
        }
    };
    let result = runtime.block_on(async {
        match run_if_child().await {
            Some(result) => result,
            None => run(Cli::parse()).await,
        }
    });
    // A thread that waits for storage which does not answer must not keep the process.
    runtime.shutdown_background();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("allotd: {error:#}");
            ExitCode::from(3)
        }
    }
}

/// If `allotd` started this process as a supervisor or as a watchdog, runs it. The command line is not parsed: a unit
/// starts a supervisor for each subtask, and parsing would take most of the supervisor's start.
async fn run_if_child() -> Option<Result<()>> {
    let command = std::env::args_os().nth(1)?;
    let is_supervisor = command == allot_compaction::SUPERVISOR_COMMAND;
    if !is_supervisor && command != watchdog::COMMAND {
        return None;
    }
    telemetry::init(0, "warn", LogFormat::Text);
    Some(if is_supervisor { allot_compaction::run_supervisor().await } else { watchdog::run().await })
}

async fn run(cli: Cli) -> Result<()> {
    match cli.command {
        Command::Run(source) => {
            let config = source.config()?;
            telemetry::init(cli.verbose, "info", config.log);
            daemon::run(config, run_role).await
        }
        Command::CheckConfig { file, given } => {
            print!("{}", describe(&Source::new(file, *given).config()?));
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
