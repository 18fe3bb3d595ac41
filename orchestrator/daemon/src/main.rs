//! `allotd`: the daemon. Everything that people type is `allot`.
#![warn(missing_docs, clippy::disallowed_types)]

use std::process::ExitCode;

use allot_runtime::child::{program, watchdog};
use allot_runtime::telemetry::{self, LogFormat};
use allotd::arguments::{Arguments, Command};
use allotd::config::{Source, describe};
use anyhow::Result;
use clap::Parser as _;
use tracing::info;

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
            None => run(Arguments::parse()).await,
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

async fn run(arguments: Arguments) -> Result<()> {
    match arguments.command {
        Command::Run(source) => {
            let config = source.config()?;
            telemetry::init(arguments.verbose, "info", config.log);
            for line in describe(&config).lines() {
                info!("{line}");
            }
            allotd::run(config).await
        }
        Command::CheckConfig { file, given } => {
            let config = Source { config: Some(file), given: *given }.config()?;
            print!("{}", describe(&config));
            config.check_programs()
        }
    }
}
