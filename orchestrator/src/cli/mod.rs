//! The command line of `allotd`, and its exit codes.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, CommandFactory as _, Parser, Subcommand};

use allot_runtime::child::watchdog;
use allot_runtime::telemetry;
use allot_runtime::telemetry::LogFormat;

use crate::cli::terminal::errln;
use crate::config::Source;
use crate::daemon;

use outcome::Outcome;

mod accounts;
mod compaction;
mod config;
mod console;
pub(crate) mod console_operations;
#[cfg(test)]
mod documented_lines;
mod generate;
mod numbers;
mod outcome;
pub(crate) mod progress;
mod realm;
mod seats;
pub(crate) mod table;
pub(crate) mod terminal;

/// Allocates scarce things exactly once: seats, numbers, conferences and accounts.
#[derive(Debug, Parser)]
#[command(
    name = "allotd",
    version,
    after_help = "Exit codes: 0 done; 1 a check failed; 2 wrong command line; 3 the input or the settings were refused; \
                  4 Redis or ZooKeeper is out of reach, or refused the request as things stand: try again later."
)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    family: Family,
}

/// Options that are accepted before a command as well as after it.
#[derive(Debug, Args)]
struct Global {
    /// Address of the Redis server, for all commands that need one.
    // The commands read their own option of this name; this one makes it valid before the command, too.
    #[arg(id = "redis-url", long = "redis-url", visible_alias = "redis", global = true, value_name = "URL")]
    #[arg(env = "ALLOT_REDIS_URL", hide_env_values = true, hide = true)]
    _redis_url: Option<String>,
    /// Print more about the work on standard error; repeat for more.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
}

#[derive(Debug, Subcommand)]
enum Family {
    /// Run one or more roles: scheduler, data-proxy, media-unit, compaction, accounts, console.
    Run(Box<Source>),
    /// Serve the web console.
    Console(Box<console::Arguments>),
    /// Check the settings of `run`, or print an example file.
    #[command(subcommand)]
    Config(config::Command),
    /// Create, end, show and move conferences.
    #[command(subcommand)]
    Conference(realm::ConferenceCommand),
    /// List and drain media units, and release the brake.
    Units(realm::UnitsArguments),
    /// Submit, show and stop compaction tasks.
    #[command(subcommand)]
    Compaction(compaction::Command),
    /// Import, export, show, rebalance and simulate accounts.
    #[command(subcommand)]
    Accounts(accounts::Command),
    /// Write man pages or shell completion from this command line; packages are built with it.
    #[command(hide = true, subcommand)]
    Generate(generate::Command),
    /// Load and print shows, and sell them out under load.
    #[command(subcommand)]
    Seats(seats::Command),
    /// Fill and print number pools, and migrate them from a list and a hash.
    #[command(subcommand)]
    Numbers(numbers::Command),
}

/// Runs the command.
pub(crate) async fn main(run_role: daemon::RunRole) -> ExitCode {
    let result = match run_if_child().await {
        Some(result) => result.map(|()| Outcome::Done),
        None => run_command(Cli::parse(), run_role).await,
    };
    if let Err(error) = &result {
        let unreachable = |cause: &(dyn std::error::Error + 'static)| {
            matches!(cause.downcast_ref(), Some(allot_client::Error::Link { .. }))
        };
        let hint = if error.chain().any(unreachable) { " (is the server up? see --redis-url)" } else { "" };
        errln!("allotd: {error:#}{hint}");
    }
    ExitCode::from(exit_code(&result))
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

async fn run_command(cli: Cli, run_role: daemon::RunRole) -> Result<Outcome> {
    if !matches!(cli.family, Family::Run(_) | Family::Console(_)) {
        telemetry::init(cli.global.verbose, "warn", LogFormat::Text);
    }
    match cli.family {
        Family::Run(source) => run(cli.global.verbose, *source, run_role).await,
        Family::Console(arguments) => console::run(cli.global.verbose, *arguments, run_role).await,
        Family::Config(command) => config::run(command),
        Family::Conference(command) => realm::conference(command).await,
        Family::Units(arguments) => realm::units(arguments).await,
        Family::Compaction(command) => compaction::run(command).await,
        Family::Accounts(command) => accounts::run(command).await,
        Family::Generate(command) => generate::run(&command, Cli::command()),
        Family::Seats(command) => seats::run(command).await,
        Family::Numbers(command) => numbers::run(command).await,
    }
}

async fn run(verbose: u8, source: Source, run_role: daemon::RunRole) -> Result<Outcome> {
    let config = source.config()?;
    telemetry::init(verbose, "info", config.log);
    daemon::run(config, run_role).await.map(|()| Outcome::Done)
}

fn exit_code(result: &Result<Outcome>) -> u8 {
    match result {
        Ok(Outcome::Done) => 0,
        Ok(Outcome::CheckFailed) => 1,
        Err(error) if error.chain().any(may_pass_later) => 4,
        Ok(Outcome::InputRefused) | Err(_) => 3,
    }
}

/// Whether the same command may succeed later: a store cannot be reached, or its state is against the command now.
fn may_pass_later(cause: &(dyn std::error::Error + 'static)) -> bool {
    if let Some(error) = cause.downcast_ref::<allot_client::Error>() {
        return !matches!(error, allot_client::Error::Address(_));
    }
    if let Some(fault) = cause.downcast_ref::<allot_compaction::Fault>() {
        return fault.may_pass_later();
    }
    cause.downcast_ref::<allot_coordination::Error>().is_some_and(allot_coordination::Error::is_transient)
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
    fn redis_address_is_one_flag_of_two_names_anywhere() {
        for line in [
            "allotd --redis redis://h:7 seats show k",
            "allotd --redis-url redis://h:7 seats show k",
            "allotd seats show k --redis redis://h:7",
            "allotd numbers show k --redis-url redis://h:7",
            "allotd conference --redis redis://h:7 list",
            "allotd units --redis redis://h:7",
            "allotd run --redis redis://h:7",
        ] {
            let mut matches = &Cli::command().try_get_matches_from(line.split(' ')).unwrap();
            while let Some((_, below)) = matches.subcommand() {
                matches = below;
            }
            let address = matches.get_one::<String>("redis-url").map(String::as_str);
            assert_eq!(address, Some("redis://h:7"), "{line}");
        }
        let twice = "allotd seats show k --redis redis://a --redis-url redis://b";
        assert!(Cli::try_parse_from(twice.split(' ')).is_err());
    }

    #[test]
    fn every_outcome_has_its_exit_code() {
        assert_eq!(exit_code(&Ok(Outcome::Done)), 0);
        assert_eq!(exit_code(&Ok(Outcome::CheckFailed)), 1);
        assert_eq!(exit_code(&Ok(Outcome::InputRefused)), 3);
        assert_eq!(exit_code(&Err(anyhow!("no such file"))), 3);
        let address = allot_client::Error::Address("no address".into());
        assert_eq!(exit_code(&Err(address).context("redis.url")), 3);
        let refused = allot_client::Error::Shape("odd".into());
        assert_eq!(exit_code(&Err(refused).context("while loading")), 4);
        let of = |fault: allot_compaction::Fault| exit_code(&Err(fault.into()));
        assert_eq!(of(allot_coordination::Error::Offline.into()), 4);
        assert_eq!(of(allot_compaction::Fault::Busy("the table has a task".into())), 4);
        assert_eq!(of(allot_compaction::Fault::Refused("no such task".into())), 3);
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
