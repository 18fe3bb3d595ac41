//! `allot`: the command line of Allot. docs/command-line.md is its contract.
#![warn(missing_docs, clippy::disallowed_types)]

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;
use std::time::Duration;

use allot_runtime::telemetry;
use allot_runtime::telemetry::LogFormat;
use clap::error::ErrorKind;
use clap::{ArgMatches, Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use clap_complete::CompleteEnv;
use clap_complete::engine::ArgValueCompleter;
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::context::Context;
use crate::failure::{Cause, Failure, Result};
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
mod redis_docs;
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

/// How long an interrupted command has to leave what it does, before it is cleaned up behind it.
const GRACE: Duration = Duration::from_millis(200);

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
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
struct Global {
    #[command(flatten)]
    given: Given,
    /// When to use colours
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    color: Color,
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
    #[command(subcommand, alias = "shows")]
    Show(show::Verb),
    /// Pools of telephone numbers
    #[command(subcommand, alias = "pools")]
    Pool(pool::Verb),
    /// Conferences on media units
    #[command(subcommand, alias = "conferences")]
    Conference(Box<conference::Verb>),
    /// Records of conferences that have ended
    #[command(subcommand, alias = "records")]
    Record(record::Verb),
    /// Media units
    #[command(subcommand, alias = "units")]
    Unit(unit::Verb),
    /// Realms of conferences and their settings
    #[command(subcommand, alias = "realms")]
    Realm(realm::Verb),
    /// Accounts of a book
    #[command(subcommand, alias = "accounts")]
    Account(account::Verb),
    /// Books of accounts, and tables that they are made equal to
    #[command(subcommand, alias = "books")]
    Book(book::Verb),
    /// Tasks of compaction
    #[command(subcommand, alias = "tasks")]
    Task(Box<task::Verb>),
    /// Nodes of compaction
    #[command(subcommand, alias = "nodes")]
    Node(node::Verb),
    /// Servers of the settings, and a check of the one in use
    #[command(subcommand, alias = "servers")]
    Server(server::Verb),
    /// Send one command to the master that has its key
    Redis(redis_verb::Redis),
    /// Check settings, or print a file with all of them
    #[command(subcommand)]
    Config(config::Verb),
    /// Print the completion for a shell
    Completion(config::Completion),
    /// Show the versions of client, module and server, and whether they fit
    Version,
    /// Serve the web console
    Console(Box<console::Arguments>),
    /// Explain a command of allot or of Redis, or a topic: commands, environment, exit-codes, formats, options, time
    Help(help::Help),
    /// Write man pages into a folder; packages are built with it
    #[command(name = "__man", hide = true)]
    Man(config::Man),
}

/// The command line, with the help of each verb in the same form.
fn definition() -> clap::Command {
    let completer = ArgValueCompleter::new(complete::servers);
    help::shaped(Cli::command().mut_arg("server", |server| server.add(completer)))
}

fn main() -> ExitCode {
    CompleteEnv::with_factory(definition).bin("allot").complete();
    let cli = match parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let mut as_json = cli.global.given.format.is_some_and(Format::is_json);
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            terminal::note(&format!("allot: the threads of the process cannot be started: {error}"));
            return ExitCode::from(Cause::Local.code());
        }
    };
    let done = runtime.block_on(run(cli, &mut as_json));
    // A thread that waits for storage or standard input must not keep the process, nor miss the runtime until its end.
    std::mem::forget(runtime);
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print(as_json);
            ExitCode::from(failure.cause.code())
        }
    }
}

/// The values of a command line. A noun without a verb lists, and a name behind it is that of a thing to show.
fn matches(words: &[OsString]) -> Result<ArgMatches, clap::Error> {
    use ErrorKind::{
        DisplayHelpOnMissingArgumentOrSubcommand, InvalidSubcommand, MissingSubcommand, UnknownArgument,
    };
    let definition = definition();
    let error = match definition.clone().try_get_matches_from(words) {
        Ok(matches) => return Ok(matches),
        Err(error) => error,
    };
    let lists = |word: &OsString| {
        definition.find_subcommand(word).is_some_and(|noun| noun.find_subcommand("list").is_some())
    };
    let Some(noun) = words.iter().position(lists) else { return Err(error) };
    let (before, after) = words.split_at(noun + 1);
    let parsed =
        |verb: &str| definition.clone().try_get_matches_from([before, &[verb.into()], after].concat());
    let is_bare = after.first().is_none_or(|word| word.to_string_lossy().starts_with('-'));
    match error.kind() {
        // The verb says what is wrong with an option.
        UnknownArgument if is_bare => parsed("list"),
        MissingSubcommand | DisplayHelpOnMissingArgumentOrSubcommand | UnknownArgument => {
            parsed("list").map_err(|_| error)
        }
        InvalidSubcommand if help::is_name(&error, words, &definition) => parsed("get").map_err(|_| error),
        _ => Err(error),
    }
}

/// Reads the command line.
fn parse() -> Result<Cli, ExitCode> {
    let words: Vec<OsString> = std::env::args_os().collect();
    let error = match matches(&words).and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => return Ok(cli),
        Err(error) => error,
    };
    let failure = match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            match help::print(&error.render().to_string()) {
                Ok(()) => return Err(ExitCode::SUCCESS),
                Err(failure) => failure,
            }
        }
        _ => help::wrong(&error, &words, &definition()),
    };
    // The option itself may be behind the error.
    let line = words.join(OsStr::new(" ")).to_string_lossy().replace('=', " ");
    let is_set = std::env::var("ALLOT_FORMAT").is_ok_and(|format| format.starts_with("json"));
    failure.print(line.contains("--format json") || (is_set && !line.contains("--format ")));
    Err(ExitCode::from(failure.cause.code()))
}

/// Runs a command. `as_json` becomes whether errors are objects, once the settings are known.
async fn run(cli: Cli, as_json: &mut bool) -> Result {
    let Cli { global, noun } = cli;
    let noun = match noun {
        None => return help::print(&definition().render_help().to_string()),
        Some(Noun::Help(topic)) if !topic.is_of_server() => return help::run(&topic, definition()),
        Some(Noun::Man(config::Man { folder })) => {
            return config::man_pages(&folder, help::for_man_pages(definition()));
        }
        // The console has the settings of a service, of its own file.
        Some(Noun::Console(arguments)) => return console::run(global.verbose, *arguments).await,
        Some(noun) => noun,
    };
    if global.verbose > 0 {
        telemetry::init(global.verbose, "info", LogFormat::Text);
    }
    let settings = Settings::load(&global.given)?;
    *as_json = settings.format.is_json();
    let width = terminal::size().map(|(columns, _)| columns);
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
    // Signals are heard before anything begins.
    let stopped = stopped();
    let (stop, stopping) = oneshot::channel::<()>();
    let own = context.clone();
    // A thread of its own: what reads standard input or checks a large file hears nothing meanwhile.
    let mut work = tokio::task::spawn_blocking(move || {
        Handle::current().block_on(async {
            tokio::select! {
                biased;
                _ = stopping => Ok(()),
                done = dispatch(&own, noun) => done,
            }
        })
    });
    let done = tokio::select! {
        biased;
        cause = stopped => {
            drop(stop);
            let _ = timeout(GRACE, &mut work).await;
            Err(context.interrupted(cause).await)
        }
        done = &mut work => match done {
            Ok(done) => done,
            Err(panic) => Err(Failure::new(Cause::Local, panic.to_string())),
        },
    };
    match done {
        Ok(()) => Ok(()),
        Err(failure) => Err(context.explained(failure).await),
    }
}

/// Hears signals that end the process, from the call on.
fn stopped() -> impl Future<Output = Cause> {
    let signals = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
    async move {
        let [Ok(mut interrupt), Ok(mut terminate)] = signals else { return std::future::pending().await };
        tokio::select! {
            _ = interrupt.recv() => Cause::Interrupted,
            _ = terminate.recv() => Cause::Terminated,
        }
    }
}

async fn dispatch(context: &Context, noun: Noun) -> Result {
    match noun {
        Noun::Show(verb) => show::run(context, verb).await,
        Noun::Pool(verb) => pool::run(context, verb).await,
        Noun::Conference(verb) => conference::run(context, *verb).await,
        Noun::Record(verb) => record::run(context, verb).await,
        Noun::Unit(verb) => unit::run(context, verb).await,
        Noun::Realm(verb) => realm::run(context, verb).await,
        Noun::Account(verb) => account::run(context, verb).await,
        Noun::Book(verb) => book::run(context, verb).await,
        Noun::Task(verb) => task::run(context, *verb).await,
        Noun::Node(verb) => node::run(context, &verb).await,
        Noun::Server(verb) => server::run(context, verb).await,
        Noun::Redis(command) => redis_verb::run(context, &command).await,
        Noun::Config(verb) => config::run(context, &verb),
        Noun::Completion(arguments) => config::completion(&arguments),
        Noun::Version => server::version(context).await,
        Noun::Help(topic) => redis_docs::help(context, topic.words()).await,
        // These were run without a context.
        Noun::Console(_) | Noun::Man(_) => Ok(()),
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
    fn names_behind_a_noun_are_shown_and_slips_are_not_taken_for_names() {
        let parse = |line: &str| matches(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        let verb = |line: &str| {
            let parsed = parse(line).unwrap();
            let (_, noun) = parsed.subcommand().unwrap();
            noun.subcommand_name().unwrap().to_owned()
        };
        assert_eq!(verb("allot conference 4930123"), "get");
        assert_eq!(verb("allot unit unit-a --realm r"), "get");
        for line in ["allot unit drian", "allot conference delete", "allot task 1 2", "allot server far"] {
            assert!(parse(line).is_err(), "{line}");
        }
        let option = parse("allot conferences --stat open").unwrap_err().render().to_string();
        assert!(option.contains("'--state'"), "{option}");
    }

    #[test]
    fn words_of_other_command_lines_lead_to_the_verb() {
        for (line, hint) in [
            ("allot create show", "allot show create"),
            ("allot conference delete 1", "allot conference end"),
            ("allot describe unit u", "allot unit get"),
            ("allot show rm k", "allot redis DEL"),
            ("allot node cordon n", "allot node drain"),
            ("allot task create d.s.t", "allot task submit"),
            ("allot task logs t", "allot task failures"),
            ("allot config use-context far", "allot server use"),
            ("allot record collect --group g -o f", "--output"),
            ("allot show list -o json", "--format json"),
            ("allot conference extend 1 30m", "--by"),
            ("allot conference move 1 unit-b", "--to"),
            ("allot account limit a 5", "--cap"),
            ("allot doctor", "allot server check"),
            ("allot server status", "allot server check"),
            ("allot pool import k numbers.csv", "allot pool load"),
            ("allot show refund k", "allot help SEAT.REFUND"),
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let failure = help::wrong(&matches(&words).unwrap_err(), &words, &definition());
            let said = format!("{} {}", failure.message, failure.hint.unwrap_or_default());
            assert!(said.contains(hint) && !said.contains("subcommand"), "{line}: {said}");
            assert!(!said.contains("similar"), "{line}: {said}");
        }
    }

    #[test]
    fn man_pages_have_examples_and_global_options() {
        let folder = tempfile::tempdir().unwrap();
        config::man_pages(folder.path(), help::for_man_pages(definition())).unwrap();
        let page = std::fs::read_to_string(folder.path().join("allot-task-submit.1")).unwrap();
        for part in ["  allot task submit shop.public.orders", "\\-\\-server", "\\-\\-list\\-retries"] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    #[test]
    fn global_options_are_accepted_anywhere() {
        for line in [
            "allot --server h:7 show get k",
            "allot show --server h:7 get k",
            "allot show get k --server h:7",
            "allot shows --server h:7",
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let matches = matches(&words).unwrap();
            let cli = Cli::from_arg_matches(&matches).unwrap();
            assert_eq!(cli.global.given.server.as_deref(), Some("h:7"), "{line}");
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
            assert!(lines <= 40, "{} has {lines} lines", command.get_name());
            let verbs: Vec<String> =
                command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
            for verb in verbs.iter().filter(|verb| *verb != "console") {
                command.find_subcommand_mut(verb).into_iter().for_each(check);
            }
        }
        let mut all = definition().term_width(80);
        all.build();
        check(&mut all);
    }

    #[test]
    fn slips_are_refused() {
        let parse = |line: &[&str]| matches(&line.iter().map(OsString::from).collect::<Vec<_>>()).map(drop);
        assert!(parse(&["allot", "show", "get", ""]).is_err());
        assert!(parse(&["allot", "pool", "load", "", "f"]).is_err());
        assert!(parse(&["allot", "show", "rehearse"]).is_err());
        assert!(parse(&["allot", "show", "rehearse", "k", "--really", "k"]).is_err());
        assert!(parse(&["allot", "show", "create", "k"]).is_err());
        assert!(parse(&["allot", "show", "create", "k", "--from-caches"]).is_ok());
        assert!(parse(&["allot", "book", "apply", "f", "--max-delete", "3"]).is_err());
        assert!(parse(&["allot", "task", "pause"]).is_err());
        for line in [
            &["--server", "", "show", "list"][..],
            &["node", "drain", ""],
            &["task", "reassign", "aaaaffff.16176931.56000000.0", "--to", ""],
            &["task", "submit", "d.s.t", "--node", ""],
            &["conference", "list", "--unit", ""],
            &["conference", "create", "1", "--require", ""],
            &["server", "use", ""],
            &["show", "seats", "k", "--tier", ""],
        ] {
            assert!(parse(&[&["allot"], line].concat()).is_err(), "{line:?}");
        }
    }
}
