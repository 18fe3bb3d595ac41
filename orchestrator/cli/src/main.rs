//! `allot`: the command line of Allot, and its exit codes.
#![warn(missing_docs, clippy::disallowed_types)]

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, CommandFactory as _, Parser, Subcommand};

use allot_coordination::{Retry, Retryable as _};
use allot_runtime::telemetry;
use allot_runtime::telemetry::LogFormat;

use crate::terminal::errln;

use outcome::Outcome;

mod accounts;
mod compaction;
mod config;
mod console;
#[cfg(test)]
mod documented_lines;
mod generate;
mod numbers;
mod outcome;
mod progress;
mod realm;
mod seats;
mod sources;
mod table;
mod terminal;

/// Allocates scarce things exactly once: seats, numbers, conferences and accounts.
#[derive(Debug, Parser)]
#[command(
    name = "allot",
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
    /// Serve the web console.
    Console(Box<console::Arguments>),
    /// Print an example file of settings.
    #[command(subcommand)]
    Config(config::Command),
    /// Create, end, show and move conferences.
    #[command(subcommand)]
    Conference(realm::ConferenceCommand),
    /// List and drain media units, and end the mass-failure guard.
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

fn main() -> ExitCode {
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            errln!("allot: the threads of the process cannot be started: {error}");
            return ExitCode::FAILURE;
        }
    };
    let result = runtime.block_on(run(Cli::parse()));
    // A thread that waits for storage which does not answer must not keep the process.
    runtime.shutdown_background();
    if let Err(error) = &result {
        let unreachable = |cause: &(dyn std::error::Error + 'static)| {
            matches!(cause.downcast_ref(), Some(allot_client::Error::Link { .. }))
        };
        let hint = if error.chain().any(unreachable) { " (is the server up? see --redis-url)" } else { "" };
        errln!("allot: {error:#}{hint}");
    }
    ExitCode::from(exit_code(&result))
}

async fn run(cli: Cli) -> Result<Outcome> {
    if !matches!(cli.family, Family::Console(_)) {
        telemetry::init(cli.global.verbose, "warn", LogFormat::Text);
    }
    match cli.family {
        Family::Console(arguments) => console::run(cli.global.verbose, *arguments).await,
        Family::Config(command) => config::run(&command),
        Family::Conference(command) => realm::conference(command).await,
        Family::Units(arguments) => realm::units(arguments).await,
        Family::Compaction(command) => compaction::run(command).await,
        Family::Accounts(command) => accounts::run(command).await,
        Family::Generate(command) => generate::run(&command, Cli::command()),
        Family::Seats(command) => seats::run(command).await,
        Family::Numbers(command) => numbers::run(command).await,
    }
}

fn exit_code(result: &Result<Outcome>) -> u8 {
    match result {
        Ok(Outcome::Done) => 0,
        Ok(Outcome::CheckFailed) => 1,
        Err(error) if matches!(error.downcast_ref(), Some(allot_compaction::Fault::Wrong(_))) => 2,
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
        return matches!(fault.retry(), Retry::Pause | Retry::Reread | Retry::Later);
    }
    cause.downcast_ref::<allot_coordination::Error>().is_some_and(allot_coordination::Error::is_transient)
}

#[cfg(test)]
mod tests {
    use allotd::arguments::Arguments;
    use anyhow::{Context, anyhow};
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn command_lines_are_well_formed() {
        Cli::command().debug_assert();
        Arguments::command().debug_assert();
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
        check(&Arguments::command());
    }

    #[test]
    fn redis_address_is_one_flag_of_two_names_anywhere() {
        for line in [
            "allot --redis redis://h:7 seats show k",
            "allot --redis-url redis://h:7 seats show k",
            "allot seats show k --redis redis://h:7",
            "allot numbers show k --redis-url redis://h:7",
            "allot conference --redis redis://h:7 list",
            "allot units --redis redis://h:7",
        ] {
            let mut matches = &Cli::command().try_get_matches_from(line.split(' ')).unwrap();
            while let Some((_, below)) = matches.subcommand() {
                matches = below;
            }
            let address = matches.get_one::<String>("redis-url").map(String::as_str);
            assert_eq!(address, Some("redis://h:7"), "{line}");
        }
        let twice = "allot seats show k --redis redis://a --redis-url redis://b";
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
        assert_eq!(of(allot_compaction::Fault::Wrong("no such window".into())), 2);
    }

    #[test]
    fn a_rush_has_one_end_only() {
        let parse = |line: &str| Cli::try_parse_from(line.split(' '));
        assert!(parse("allot seats rush k --buyers 3 --until-sold-out --duration 5").is_err());
        assert!(parse("allot seats rush k --buyers 3 --duration 5").is_ok());
        assert!(parse("allot seats load --key k").is_err());
        assert!(parse("allot seats load --key k --from-redis").is_ok());
        assert!(parse("allot seats load plan.json --key k --from-redis").is_err());
    }
}
