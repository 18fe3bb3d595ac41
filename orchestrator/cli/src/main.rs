//! `allot`: the command line of Allot. docs/command-line.md is its contract.
#![warn(missing_docs, clippy::disallowed_types)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use allot_runtime::telemetry;
use allot_runtime::telemetry::LogFormat;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use clap_complete::CompleteEnv;
use clap_complete::engine::ArgValueCompleter;

use crate::context::Context;
use crate::failure::{Cause, Result};
use crate::output::{Format, Output};
use crate::settings::{Given, Settings};

mod account;
mod arguments;
mod book;
mod call_record;
mod complete;
mod conference;
mod config;
mod console;
mod context;
#[cfg(test)]
mod documented_lines_tests;
mod failure;
mod help;
mod input;
mod node;
mod output;
mod pool;
mod realm;
mod realm_settings;
mod record;
mod record_file;
mod redis_verb;
mod rehearse;
mod server;
mod settings;
mod show;
mod show_create;
mod stores;
mod task;
mod terminal;
mod time;
mod unit;
mod upgrade;
mod wait;
mod watch;

/// Allot hands scarce things out exactly once: seats, numbers, conferences and accounts, inside Redis.
#[derive(Debug, Parser)]
#[command(name = "allot", version, disable_help_subcommand = true, subcommand_help_heading = "Nouns")]
#[command(subcommand_value_name = "NOUN [VERB]")]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    noun: Option<Noun>,
}

/// Options that are accepted anywhere on the line.
#[allow(clippy::struct_excessive_bools, reason = "each is an option of its own")]
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
struct Global {
    /// The server: a name of the settings, HOST, HOST:PORT, or an address such as redis://HOST:PORT
    #[arg(long, global = true, value_name = "NAME|URL", env = "ALLOT_SERVER", hide_env = true)]
    #[arg(add = ArgValueCompleter::new(complete::servers))]
    server: Option<String>,
    /// File of settings, over ~/.config/allot/config.toml and /etc/allot/config.toml
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Servers of ZooKeeper, HOST:PORT with commas between
    #[arg(long, global = true, value_name = "SERVERS")]
    zookeeper: Option<String>,
    /// Form of the output
    #[arg(long, global = true, value_enum, env = "ALLOT_FORMAT", hide_env = true)]
    format: Option<Format>,
    /// When to use colours
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    color: Color,
    /// Times in UTC also at a terminal
    #[arg(long, global = true)]
    utc: bool,
    /// Time limit of each answer [default: 10s]
    #[arg(long, global = true, value_name = "TIME", value_parser = time::span, env = "ALLOT_LIMIT_TIME", hide_env = true)]
    limit_time: Option<Duration>,
    /// Do not ask
    #[arg(short, long, global = true)]
    yes: bool,
    /// Say what would change, and change nothing
    #[arg(short = 'n', long, global = true)]
    dry_run: bool,
    /// Print only what was asked for, and errors
    #[arg(short, long, global = true)]
    quiet: bool,
    /// Log more on standard error; repeat for more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Color {
    Auto,
    Always,
    Never,
}

/// The nouns. A noun alone lists.
#[derive(Debug, Subcommand)]
enum Noun {
    /// Shows: seats, holds, orders and queues
    #[command(alias = "shows")]
    Show {
        #[command(subcommand)]
        verb: Option<show::Verb>,
    },
    /// Pools of telephone numbers
    #[command(alias = "pools")]
    Pool {
        #[command(subcommand)]
        verb: Option<pool::Verb>,
    },
    /// Conferences on media units
    #[command(alias = "conferences")]
    Conference {
        #[command(subcommand)]
        verb: Option<Box<conference::Verb>>,
    },
    /// Records of conferences that have ended
    #[command(alias = "records")]
    Record {
        #[command(subcommand)]
        verb: Option<record::Verb>,
    },
    /// Media units
    #[command(alias = "units")]
    Unit {
        #[command(subcommand)]
        verb: Option<unit::Verb>,
    },
    /// Realms of conferences and their settings
    #[command(alias = "realms")]
    Realm {
        #[command(subcommand)]
        verb: Option<realm::Verb>,
    },
    /// Accounts of a book
    #[command(alias = "accounts")]
    Account {
        #[command(subcommand)]
        verb: Option<account::Verb>,
    },
    /// Books of accounts, and tables that they are made equal to
    #[command(alias = "books")]
    Book {
        #[command(subcommand)]
        verb: Option<book::Verb>,
    },
    /// Tasks of compaction
    #[command(alias = "tasks")]
    Task {
        #[command(subcommand)]
        verb: Option<Box<task::Verb>>,
    },
    /// Nodes of compaction
    #[command(alias = "nodes")]
    Node {
        #[command(subcommand)]
        verb: Option<node::Verb>,
    },
    /// Servers of the settings, and a check of the one in use
    #[command(alias = "servers")]
    Server {
        #[command(subcommand)]
        verb: Option<server::Verb>,
    },
    /// Send one command to the master that has its key
    Redis(redis_verb::Redis),
    /// Check settings, or print a file with all of them
    Config {
        #[command(subcommand)]
        verb: config::Verb,
    },
    /// Print the completion for a shell
    Completion(config::Completion),
    /// Show the versions of client, module and server, and whether they fit
    Version,
    /// Serve the web console
    Console(Box<console::Arguments>),
    /// Explain a command, or a topic: exit-codes, environment, formats, options, time
    Help(help::Help),
    /// Write man pages into a folder; packages are built with it
    #[command(name = "__man", hide = true)]
    Man(config::Man),
}

/// The command line, with the help of each verb in the same form.
fn definition() -> clap::Command {
    help::shaped(Cli::command())
}

fn main() -> ExitCode {
    CompleteEnv::with_factory(definition).bin("allot").complete();
    let (cli, as_json) = match parse() {
        Ok(parsed) => parsed,
        Err(code) => return code,
    };
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            terminal::note(&format!("allot: the threads of the process cannot be started: {error}"));
            return ExitCode::from(Cause::Local.code());
        }
    };
    let done = runtime.block_on(run(cli));
    // A thread that waits for storage which does not answer must not keep the process.
    runtime.shutdown_background();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print(as_json);
            ExitCode::from(failure.cause.code())
        }
    }
}

/// Reads the command line, and whether errors are objects.
fn parse() -> Result<(Cli, bool), ExitCode> {
    let parsed = definition().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    match parsed {
        Ok(cli) => {
            let as_json = matches!(cli.global.format, Some(Format::Json | Format::Jsonl));
            Ok((cli, as_json))
        }
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            let printed = help::print(&error.render().to_string());
            Err(printed.map_or_else(
                |failure| {
                    failure.print(false);
                    ExitCode::from(failure.cause.code())
                },
                |()| ExitCode::SUCCESS,
            ))
        }
        Err(error) => {
            let words: Vec<String> = std::env::args().collect();
            let asked = |word: &str| word == "--format=json" || word == "--format=jsonl";
            let spaced = words
                .windows(2)
                .any(|pair| matches!(pair, [name, form] if name == "--format" && form.starts_with("json")));
            help::wrong(&error).print(spaced || words.iter().any(|word| asked(word)));
            Err(ExitCode::from(Cause::Usage.code()))
        }
    }
}

async fn run(cli: Cli) -> Result {
    let Cli { global, noun } = cli;
    let noun = match noun {
        None => return help::print(&definition().render_help().to_string()),
        Some(Noun::Help(topic)) => return help::run(&topic, definition()),
        Some(Noun::Man(config::Man { folder })) => return config::man_pages(&folder, definition()),
        // The console has the settings of a service, of its own file.
        Some(Noun::Console(arguments)) => return console::run(global.verbose, *arguments).await,
        Some(noun) => noun,
    };
    if global.verbose > 0 {
        telemetry::init(global.verbose, "info", LogFormat::Text);
    }
    let given = Given {
        server: global.server.as_deref(),
        config: global.config.as_deref(),
        zookeeper: global.zookeeper.as_deref(),
        format: global.format,
        utc: global.utc,
        limit: global.limit_time,
    };
    let settings = Settings::load(&given)?;
    let width = terminal::width();
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let color = match global.color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => width.is_some() && !plain,
    };
    let utc = settings.utc || width.is_none();
    let out = Output { format: settings.format, color, utc, width, quiet: global.quiet };
    let context = Context::new(out, settings, global.yes, global.dry_run);
    let done = tokio::select! {
        done = dispatch(&context, noun) => done,
        cause = stopped() => Err(context.interrupted(cause).await),
    };
    match done {
        Ok(()) => Ok(()),
        Err(failure) => Err(context.explained(failure).await),
    }
}

/// Waits for a signal that ends the process.
async fn stopped() -> Cause {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => Cause::Interrupted,
        _ = terminate.recv() => Cause::Terminated,
    }
}

async fn dispatch(context: &Context, noun: Noun) -> Result {
    match noun {
        Noun::Show { verb } => show::run(context, verb.unwrap_or(show::Verb::List)).await,
        Noun::Pool { verb } => pool::run(context, verb.unwrap_or(pool::Verb::List)).await,
        Noun::Conference { verb } => {
            let verb = verb.map_or_else(|| conference::Verb::List(conference::List::default()), |verb| *verb);
            conference::run(context, verb).await
        }
        Noun::Record { verb } => {
            record::run(context, verb.unwrap_or_else(|| record::Verb::List(arguments::Realm::default())))
                .await
        }
        Noun::Unit { verb } => {
            unit::run(context, verb.unwrap_or_else(|| unit::Verb::List(unit::List::default()))).await
        }
        Noun::Realm { verb } => realm::run(context, verb.unwrap_or(realm::Verb::List)).await,
        Noun::Account { verb } => {
            account::run(context, verb.unwrap_or_else(|| account::Verb::List(account::List::default()))).await
        }
        Noun::Book { verb } => book::run(context, verb.unwrap_or(book::Verb::List)).await,
        Noun::Task { verb } => {
            let verb = verb.map_or_else(|| task::Verb::List(task::List::default()), |verb| *verb);
            task::run(context, verb).await
        }
        Noun::Node { verb } => node::run(context, verb.unwrap_or(node::Verb::List)).await,
        Noun::Server { verb } => server::run(context, verb.unwrap_or(server::Verb::List)).await,
        Noun::Redis(command) => redis_verb::run(context, &command).await,
        Noun::Config { verb } => config::run(context, &verb),
        Noun::Completion(arguments) => config::completion(context, &arguments),
        Noun::Version => server::version(context).await,
        // These were run without a context.
        Noun::Console(_) | Noun::Help(_) | Noun::Man(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use allotd::arguments::Arguments;

    use super::*;

    #[test]
    fn command_lines_are_well_formed() {
        definition().debug_assert();
        Arguments::command().debug_assert();
    }

    #[test]
    fn help_shows_the_value_of_no_variable() {
        fn check(command: &clap::Command) {
            for argument in command.get_arguments().filter(|argument| argument.get_env().is_some()) {
                let hidden = argument.is_hide_env_values_set() || argument.is_hide_env_set();
                assert!(hidden, "{}: {}", command.get_name(), argument.get_id());
            }
            command.get_subcommands().for_each(check);
        }
        check(&definition());
        check(&Arguments::command());
    }

    #[test]
    fn global_options_are_accepted_anywhere() {
        for line in [
            "allot --server h:7 show get k",
            "allot show --server h:7 get k",
            "allot show get k --server h:7",
            "allot shows --server h:7",
        ] {
            let cli = Cli::try_parse_from(line.split(' ')).unwrap();
            assert_eq!(cli.global.server.as_deref(), Some("h:7"), "{line}");
        }
    }

    #[test]
    fn each_verb_has_an_example() {
        fn check(command: &clap::Command, path: &str) {
            for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
                let name = format!("{path} {}", verb.get_name());
                let is_leaf = verb.get_subcommands().next().is_none();
                let has = verb.get_before_help().is_some_and(|text| text.to_string().contains("Examples:"));
                let exempt = ["version", "console", "help"].contains(&verb.get_name());
                assert!(!is_leaf || has || exempt, "{name} has no example");
                check(verb, &name);
            }
        }
        check(&definition(), "allot");
    }

    #[test]
    fn help_of_each_verb_fits_on_one_screen() {
        fn check(command: &mut clap::Command) {
            let lines = command.render_help().to_string().lines().count();
            assert!(lines <= 45, "{} has {lines} lines", command.get_name());
            let verbs: Vec<String> =
                command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
            for verb in verbs.iter().filter(|verb| *verb != "console" && *verb != "submit") {
                command.find_subcommand_mut(verb).into_iter().for_each(check);
            }
        }
        let mut all = definition().term_width(100);
        all.build();
        check(&mut all);
    }

    #[test]
    fn slips_are_refused() {
        let parse = |line: &[&str]| Cli::try_parse_from(line).map(drop);
        assert!(parse(&["allot", "show", "get", ""]).is_err());
        assert!(parse(&["allot", "pool", "load", "", "f"]).is_err());
        assert!(parse(&["allot", "show", "rehearse"]).is_err());
        assert!(parse(&["allot", "show", "rehearse", "k", "--really", "k"]).is_err());
        assert!(parse(&["allot", "show", "create", "k"]).is_err());
        assert!(parse(&["allot", "show", "create", "k", "--from-caches"]).is_ok());
        assert!(parse(&["allot", "book", "apply", "f", "--max-delete", "3"]).is_err());
        assert!(parse(&["allot", "task", "pause"]).is_err());
    }
}
