//! The command line: what can be asked of `allotd`, and how an answer becomes an exit code.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

use allot_runtime::child::{program, watchdog};
use allot_runtime::telemetry;
use allot_runtime::telemetry::LogFormat;

use crate::{config, daemon};

mod accounts;
mod compaction;
mod numbers;
pub(crate) mod progress;
mod realm;
mod seats;
pub(crate) mod table;

/// Where Redis is if nobody says otherwise.
pub(crate) const DEFAULT_REDIS: &str = "redis://127.0.0.1:6379";

/// Scarce things, handed out exactly once.
#[derive(Debug, Parser)]
#[command(
    name = "allotd",
    version,
    after_help = "Exit codes: 0 done; 1 a check failed; 2 the command line is wrong; 3 the input is refused; \
                  4 Redis or ZooKeeper is out of reach or refused the request."
)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    family: Family,
}

/// Options of every command.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Address of the Redis server, where --redis-url, --redis-sentinels and --redis-cluster are not given; not used by
    /// `compaction` [default: redis://127.0.0.1:6379]
    // Its value may have a password in it, which help must not show.
    #[arg(long, global = true, env = "ALLOT_REDIS", hide_env_values = true, value_name = "URL")]
    pub(crate) redis: Option<String>,
    /// Say more about what is being done, on standard error; repeat for more.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

impl Global {
    /// Address of the Redis server.
    pub(crate) fn redis(&self) -> &str {
        self.redis.as_deref().unwrap_or(DEFAULT_REDIS)
    }
}

#[derive(Debug, Subcommand)]
enum Family {
    /// Be a scheduler of conferences, a data proxy, a media unit, a unit of compaction, one that deals accounts, or
    /// several
    /// of these.
    Run(Box<config::Source>),
    /// Settings of `run`.
    #[command(subcommand)]
    Config(config::Command),
    /// Conferences: create and end them, look at them, move them.
    #[command(subcommand)]
    Conference(realm::ConferenceCommand),
    /// Media units: list them, drain them, release the brake.
    Units(realm::UnitsArguments),
    /// Compaction: submit tasks, look at them, stop them.
    #[command(subcommand)]
    Compaction(compaction::Command),
    /// Accounts: the inventory in and out of a file, how it stands, evening out, simulations.
    #[command(subcommand)]
    Accounts(accounts::Command),
    /// The guard of a runner; `allotd` starts it itself.
    #[command(hide = true)]
    CompactionGuard,
    /// The watchdog of a process's programs; `allotd` starts it itself.
    #[command(hide = true)]
    Watchdog,
    /// A program that dies with who started it; `allotd` starts it itself.
    #[command(hide = true)]
    ExecChild(program::Arguments),
    /// Shows: load a plan, look at it, sell it out under load.
    #[command(subcommand)]
    Seats(seats::Command),
    /// Number pools: fill one from a file, look at it, take one over from a list and a hash.
    #[command(subcommand)]
    Numbers(numbers::Command),
}

/// How a command that ran to its end turned out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// As asked.
    Done,
    /// What was to be checked does not hold.
    CheckFailed,
    /// The input has problems, which were printed.
    InputRefused,
}

/// Runs what the command line asks for.
pub(crate) async fn main(run_role: daemon::RunRole) -> ExitCode {
    let cli = Cli::parse();
    if !matches!(cli.family, Family::Run(_)) {
        telemetry::init(cli.global.verbose, "warn", LogFormat::Text);
    }
    let result = match cli.family {
        Family::Run(source) => run(&cli.global, *source, run_role).await,
        Family::Config(command) => Ok(config::run(&cli.global, command)),
        Family::Conference(command) => realm::conference(&cli.global, command).await,
        Family::Units(arguments) => realm::units(&cli.global, arguments).await,
        Family::Compaction(command) => compaction::run(&cli.global, command).await,
        Family::Accounts(command) => accounts::run(&cli.global, command).await,
        Family::CompactionGuard => hidden(allot_compaction::run_guard().await),
        Family::Watchdog => hidden(watchdog::run().await),
        Family::ExecChild(arguments) => hidden(program::run(&arguments)),
        Family::Seats(command) => seats::run(&cli.global, command).await,
        Family::Numbers(command) => numbers::run(&cli.global, command).await,
    };
    if let Err(error) = &result {
        eprintln!("allotd: {error:#}");
    }
    ExitCode::from(exit_code(&result))
}

/// How a process that `allotd` starts itself ended.
fn hidden(result: Result<()>) -> Result<Outcome> {
    result.map(|()| Outcome::Done)
}

async fn run(global: &Global, source: config::Source, run_role: daemon::RunRole) -> Result<Outcome> {
    let config = source.config(global)?;
    telemetry::init(global.verbose, "info", config.log);
    daemon::run(config, run_role).await.map(|()| Outcome::Done)
}

fn exit_code(result: &Result<Outcome>) -> u8 {
    match result {
        Ok(Outcome::Done) => 0,
        Ok(Outcome::CheckFailed) => 1,
        Err(error) if error.chain().any(is_of_a_store) => 4,
        Ok(Outcome::InputRefused) | Err(_) => 3,
    }
}

fn is_of_a_store(cause: &(dyn std::error::Error + 'static)) -> bool {
    cause.is::<allot_client::Error>()
        || cause.is::<allot_coordination::Error>()
        || cause.is::<allot_compaction::Fault>()
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_shows_the_value_of_no_variable() {
        fn check(command: &clap::Command) {
            for argument in command.get_arguments().filter(|argument| argument.get_env().is_some()) {
                assert!(argument.is_hide_env_values_set(), "{}: {}", command.get_name(), argument.get_id());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }

    #[test]
    fn every_outcome_has_its_exit_code() {
        assert_eq!(exit_code(&Ok(Outcome::Done)), 0);
        assert_eq!(exit_code(&Ok(Outcome::CheckFailed)), 1);
        assert_eq!(exit_code(&Ok(Outcome::InputRefused)), 3);
        assert_eq!(exit_code(&Err(anyhow!("no such file"))), 3);
        let refused = allot_client::Error::Shape("odd".into());
        assert_eq!(exit_code(&Err(refused).context("while loading")), 4);
    }

    #[test]
    fn a_rush_has_one_end_only() {
        let parse = |line: &str| Cli::try_parse_from(line.split(' '));
        assert!(parse("allotd seats rush k --buyers 3 --until-sold-out --duration 5").is_err());
        assert!(parse("allotd seats rush k --buyers 3 --duration 5").is_ok());
        assert!(parse("allotd seats load --key k").is_err());
        assert!(parse("allotd seats load --key k --from-redis").is_ok());
        assert!(parse("allotd seats load plan.json --key k --from-redis").is_err());
    }
}
