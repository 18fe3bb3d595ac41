//! `allot help`, and the form of all help texts: what it does, examples, own options; global options have a topic.

use std::any::TypeId;
use std::ffi::OsString;
use std::fmt::Write as _;

use clap::builder::NonEmptyStringValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Id};

use crate::config::environment;
use crate::context::Noun;
use crate::failure::{Cause, Failure, Result};
use crate::output;

/// Arguments of `allot help`.
#[derive(Debug, Args)]
pub(crate) struct Help {
    /// A topic, or the words of a command
    #[arg(value_name = "TOPIC|COMMAND")]
    words: Vec<String>,
}

impl Help {
    /// Whether the server explains it: the list of its commands, or one of them, in capitals.
    pub(crate) fn is_of_server(&self) -> bool {
        self.words.first().is_some_and(|word| {
            word == "commands"
                || word.contains('.')
                || !word.is_empty() && !word.chars().any(char::is_lowercase)
        })
    }

    /// The topic.
    pub(crate) fn words(&self) -> &[String] {
        &self.words
    }
}

const TEMPLATE: &str = "{about-with-newline}\n{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}";
const TOP: &str = "{about-with-newline}\n{before-help}{usage-heading} {usage}\n\n{subcommands}{after-help}";
const MORE: &str = "Global options: allot help options. Exit codes: allot help exit-codes.";
const ALL: &str = "allot NOUN --help shows the verbs of a noun; a noun alone lists.\nallot help options explains --server, --format, --yes, --dry-run and others.\nallot help commands lists the commands of Redis that have no verb; allot help SEAT.HOLD explains one.\nFurther topics: exit-codes, environment, formats, time. All of it: docs/command-line.md.";

/// The examples of a command; empty if there are none. The file has a line with the command, and below it its examples.
fn examples(path: &str) -> String {
    let lines = include_str!("examples.txt").lines().skip_while(|line| *line != path).skip(1);
    let own: Vec<&str> = lines.take_while(|line| line.starts_with("  ")).collect();
    if own.is_empty() { String::new() } else { format!("Examples:\n{}\n", own.join("\n")) }
}

/// Texts that may be empty: words of a command, and the caches of the same server.
const MAY_BE_EMPTY: [&str; 2] = ["redis words", "show create from_caches"];

/// Refuses empty values: they are empty variables of a script.
fn without_empty(command: clap::Command, path: &str) -> clap::Command {
    let is_text = |argument: &&clap::Arg| {
        argument.get_value_parser().type_id() == TypeId::of::<String>()
            && argument.get_possible_values().is_empty()
            && !MAY_BE_EMPTY.contains(&format!("{path} {}", argument.get_id()).as_str())
    };
    let texts: Vec<Id> = command.get_arguments().filter(is_text).map(|text| text.get_id().clone()).collect();
    texts.into_iter().fold(command, |command, text| {
        command.mut_arg(text, |argument| argument.value_parser(NonEmptyStringValueParser::new()))
    })
}

/// Options that `-h` leaves out, so that it fits on one screen.
const RARE: [(&str, &[&str]); 4] = [
    ("conference create", &["licences", "priority", "zone_fall", "prefer"]),
    ("show create", &["tiers_key", "areas_key", "seats_key", "gaps"]),
    (
        "show rehearse",
        &[
            "from",
            "side",
            "focus",
            "disambiguate",
            "connections",
            "confirm",
            "release",
            "ttl",
            "seed",
            "tier",
        ],
    ),
    (
        "task submit",
        &[
            "list_retries",
            "allow_empty",
            "min_score",
            "budget",
            "timeout",
            "pc",
            "retries",
            "retry_failed",
            "retry_delay",
            "priority",
            "limit",
            "repeat",
            "time_zone",
            "after",
            "node",
        ],
    ),
];

/// Gives the help of all verbs one form, and moves global options out of the way.
pub(crate) fn shaped(command: clap::Command) -> clap::Command {
    let names: Vec<String> = command
        .get_arguments()
        .filter(|argument| argument.is_global_set())
        .map(|argument| argument.get_id().to_string())
        .collect();
    let examples = format!("{}\n", examples("allot"));
    let command = without_empty(command, "");
    let mut command = command.before_help(examples).after_help(ALL).help_template(TOP);
    for name in names {
        command = command.mut_arg(name, |argument| argument.hide(true));
    }
    let nouns: Vec<String> = command.get_subcommands().map(|noun| noun.get_name().to_owned()).collect();
    nouns
        .into_iter()
        .fold(command, |command, noun| command.mut_subcommand(&noun, |command| form(command, &noun)))
}

/// Gives a command and those below it the form.
fn form(command: clap::Command, path: &str) -> clap::Command {
    // The console has many settings, in the form of the daemon.
    if command.get_name() == "console" {
        return command;
    }
    let examples = examples(path);
    let rare = RARE.iter().find(|(of, _)| *of == path).map_or(&[][..], |(_, rare)| *rare);
    let more = match FAMILIES.iter().find(|(noun, _)| *noun == path) {
        _ if !rare.is_empty() => format!("--help shows more options. {MORE}"),
        Some((_, family)) => {
            format!("Commands of Redis for all else, {family}.*: allot help commands.\n{MORE}")
        }
        None => MORE.to_owned(),
    };
    let command = rare.iter().fold(without_empty(command, path), |command, option| {
        command.mut_arg(option, |option| option.hide_short_help(true))
    });
    let mut command = command
        .help_template(TEMPLATE)
        .after_help(more)
        .disable_help_subcommand(true)
        .subcommand_help_heading("Verbs")
        .subcommand_value_name("VERB");
    if !examples.is_empty() {
        command = command.before_help(format!("{examples}\n"));
    }
    let verbs: Vec<String> = command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    verbs.into_iter().fold(command, |command, verb| {
        let path = format!("{path} {verb}");
        command.mut_subcommand(verb, |command| form(command, &path))
    })
}

/// Prints a help text.
pub(crate) fn print(text: &str) -> Result {
    output::print(&format!("{}\n", text.trim_end()))
}

/// What people write who know other command lines: of a noun, or of any (""), these words mean that verb or line.
const SYNONYMS: [(&str, &[&str], &str); 18] = [
    ("conference", &["delete", "rm", "remove", "cancel", "stop", "kill"], "end"),
    ("task", &["delete", "rm", "remove", "cancel", "kill"], "stop"),
    ("task", &["create", "add", "new", "run", "start"], "submit"),
    ("task", &["logs", "log", "errors"], "failures"),
    ("config", &["use-context", "use"], "server use NAME"),
    ("server", &["status", "info", "ping", "doctor", "test", "get"], "check"),
    ("pool", &["export", "numbers", "dump"], "redis NUMPOOL.SCAN KEY 0"),
    ("allot", &["doctor", "status", "ping", "cluster-info", "info", "health"], "server check"),
    ("allot", &["login", "auth", "use", "context"], "server use NAME"),
    ("realm", &["create", "add", "new", "config"], "set"),
    ("pool", &["create", "add", "new"], "load"),
    ("book", &["create", "add", "new", "load", "import"], "apply"),
    ("account", &["create", "add", "new"], "book apply FILE"),
    ("", &["describe", "show", "view", "info", "inspect", "status"], "get"),
    ("", &["add", "new", "start"], "create"),
    ("", &["cordon"], "drain"),
    ("", &["uncordon"], "undrain"),
    ("", &["delete", "rm", "remove", "destroy"], "redis DEL KEY"),
];

/// The commands of Redis for what has no verb, by the noun.
const FAMILIES: [(&str, &str); 5] =
    [("show", "SEAT"), ("pool", "NUMPOOL"), ("conference", "CONF"), ("unit", "CMU"), ("account", "ACCOUNT")];

/// The most letters by which a verb is mistyped.
const SLIP: usize = 2;

/// The text of an error about this.
fn about(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.as_str()),
        _ => None,
    }
}

/// The noun of a command line, and the verb.
fn of_line<'a>(
    words: &[OsString],
    definition: &'a clap::Command,
) -> Option<(&'a clap::Command, Option<&'a clap::Command>)> {
    let mut words = words.iter();
    let noun = words.find_map(|word| definition.find_subcommand(word))?;
    Some((noun, words.find_map(|word| noun.find_subcommand(word))))
}

/// Whether the word in the place of a verb is a name, and neither mistyped nor a word of other command lines.
pub(crate) fn is_name(error: &clap::Error, words: &[OsString], definition: &clap::Command) -> bool {
    let (Some(word), Some((noun, _))) =
        (about(error, ContextKind::InvalidSubcommand), of_line(words, definition))
    else {
        return false;
    };
    let is_slip = |verb: &clap::Command| strsim::osa_distance(word, verb.get_name()) <= SLIP;
    noun.find_subcommand("get").is_some()
        && !noun.get_subcommands().any(is_slip)
        && !SYNONYMS.iter().any(|(_, synonyms, _)| synonyms.contains(&word))
}

/// A wrong command line, in the form of all failures.
pub(crate) fn wrong(error: &clap::Error, words: &[OsString], definition: &clap::Command) -> Failure {
    let noun = of_line(words, definition);
    let kind = if noun.is_some() { "verb" } else { "noun" };
    let text = error.render().to_string().replace("subcommand", kind);
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let (message, rest) = text.split_once("\n\n").unwrap_or((text, ""));
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let meant = meant(error, words, definition);
    let verb = about(error, ContextKind::InvalidSubcommand);
    let is_close = |tip: &str| {
        let mut offered = tip.split('\'').skip(1).step_by(2);
        verb.is_none_or(|verb| offered.any(|other| strsim::osa_distance(other, verb) <= SLIP))
    };
    let tips = rest.lines().map(str::trim).filter_map(|line| {
        let usage = line.starts_with("Usage: ") && meant.is_none();
        // Hardly anybody means a value.
        let tip = line.strip_prefix("tip: ").filter(|tip| !tip.starts_with("to pass '") && is_close(tip));
        tip.map(str::to_owned).or_else(|| usage.then(|| format!("{line}; --help shows the options")))
    });
    let hint = tips.chain(meant.clone()).collect::<Vec<_>>().join("; ");
    let failure = Failure::usage(message.trim().to_owned());
    if hint.is_empty() { failure } else { failure.hint(hint) }
}

/// What people may mean who know other command lines.
fn meant(error: &clap::Error, words: &[OsString], definition: &clap::Command) -> Option<String> {
    let line = of_line(words, definition);
    if let Some(option) = about(error, ContextKind::InvalidArg) {
        let own = line.and_then(|(_, verb)| verb);
        let has_file = own.is_some_and(|verb| verb.get_arguments().any(|own| own.get_id() == "output"));
        return match option {
            "-o" if has_file => Some("--output FILE".to_owned()),
            "-o" | "--output" | "--json" | "-w" => {
                Some("--format json, wide or another: allot help formats".to_owned())
            }
            // A file is no list and no hash of a server.
            value if !value.starts_with('-') && own.is_some_and(|verb| verb.get_name() == "import") => {
                Some("allot pool load KEY FILE reads a file".to_owned())
            }
            // A value without its option.
            value if error.kind() == ErrorKind::UnknownArgument && !value.starts_with('-') => {
                let options = own?.get_opts().filter_map(clap::Arg::get_long);
                let own = options.filter(|option| !["realm", "book"].contains(option)).take(6);
                let names: Vec<String> = own.map(|option| format!("--{option}")).collect();
                let hint = format!("'{value}' may be the value of {}", names.join(" or "));
                (!names.is_empty()).then_some(hint)
            }
            _ => None,
        };
    }
    let verb = about(error, ContextKind::InvalidSubcommand)?;
    let (noun, _) = line.unwrap_or((definition, None));
    if !noun.has_subcommands() {
        return None;
    }
    let name = noun.get_name();
    if noun.find_subcommand(verb).is_some() {
        return Some(format!("the noun comes first: allot {name} {verb}"));
    }
    let has = |verb: &str| noun.find_subcommand(verb).is_some();
    let is_value = Noun::ALL.iter().any(|noun| noun.words().0 == name);
    let synonym = SYNONYMS.iter().find(|(of, words, meaning)| {
        let is_line = meaning.contains(' ') && (*of == name || is_value);
        (of.is_empty() || *of == name) && words.contains(&verb) && (is_line || has(meaning))
    });
    if let Some((_, _, meaning)) = synonym {
        return Some(if has(meaning) {
            format!("allot {name} {meaning}")
        } else {
            format!("allot {meaning}")
        });
    }
    line?;
    let verbs: Vec<&str> = noun.get_subcommands().map(clap::Command::get_name).collect();
    let family = FAMILIES.iter().find(|(of, _)| *of == name);
    let command = family.map(|(_, family)| format!("{family}.{}", verb.to_uppercase()));
    let others = command.map(|command| {
        format!("; what is one command of Redis has no verb: allot help {command}, allot help commands")
    });
    Some(format!("verbs of {name}: {}{}", verbs.join(", "), others.unwrap_or_default()))
}

/// Runs `allot help`.
pub(crate) fn run(Help { words }: &Help, mut definition: clap::Command) -> Result {
    match words.first().map(String::as_str) {
        Some("exit-codes") => return print(&exit_codes()),
        Some("environment") => return print(&environment()),
        Some("formats") => return print(FORMATS),
        Some("time") => return print(TIME),
        Some("options") => return print(&options(&definition)),
        _ => {}
    }
    definition.build();
    let mut command = &mut definition;
    for word in words {
        let Some(found) = command.find_subcommand_mut(word) else {
            let why = format!("there is no topic or command '{}'", words.join(" "));
            let hint = "topics: commands, environment, exit-codes, formats, options, time; allot --help lists the nouns";
            return Err(Failure::absent(why).hint(hint));
        };
        command = found;
    }
    let has_rare = command.get_arguments().any(clap::Arg::is_hide_short_help_set);
    let help = if has_rare { command.render_long_help() } else { command.render_help() };
    print(&help.to_string())
}

/// The definition for man pages, which have global options and examples behind all options.
pub(crate) fn for_man_pages(command: clap::Command) -> clap::Command {
    let globals: Vec<Id> = command
        .get_arguments()
        .filter(|argument| argument.is_global_set())
        .map(|global| global.get_id().clone())
        .collect();
    let shown = |command: clap::Command, id| command.mut_arg(id, |global| global.hide(false));
    examples_last(globals.into_iter().fold(command, shown))
}

fn examples_last(mut command: clap::Command) -> clap::Command {
    if let Some(examples) = command.get_before_help().map(ToString::to_string) {
        command = command.before_help("").after_help(examples);
    }
    let verbs: Vec<String> = command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    verbs.into_iter().fold(command, |command, verb| command.mut_subcommand(verb, examples_last))
}

fn exit_codes() -> String {
    let mut text = String::from("Exit codes, by cause and the same for all commands:\n\n");
    for (_, code, word, meaning) in Cause::ALL {
        let _ = writeln!(text, "  {code:>3}  {word:<12} {meaning}");
    }
    text + "\nWith --format json an error is one object on standard error: code, word,\nmessage, hint; of a file also problems, of a refusal of the server server_code.\n"
}

/// The global options, as clap shows them.
fn options(whole: &clap::Command) -> String {
    let command = clap::Command::new("allot").disable_help_flag(true).disable_help_subcommand(true);
    let globals = whole
        .get_arguments()
        .filter(|argument| argument.is_global_set())
        .cloned()
        .map(|argument| argument.hide(false));
    let mut command = command.args(globals).help_template("{all-args}");
    format!("Anywhere on the line:\n\n{}", command.render_help())
}

const FORMATS: &str = "\
Formats of the output (--format, ALLOT_FORMAT, format in the settings):

  table   for people: as wide as the terminal, short columns first
  wide    a table with all columns
  json    one value: an array of objects, or an object
  jsonl   one object a line, as soon as it is known
  csv     comma-separated values with a header

The names of columns are the names of fields. Stable, and only added to: names
of fields in json, jsonl and csv, the exit codes, and code, word, message and
hint of errors. Not stable: tables, messages, the order of rows without an order
of their own. Times are RFC 3339 in UTC. Lengths of time are milliseconds in
fields that end in _ms. What is not known is null. Empty lists are printed as []
or a header, and the exit code is 1.
";

const TIME: &str = "\
Times and lengths of time:

  2026-11-21T18:00:00+01:00   a time of RFC 3339, in any zone
  500ms 4s 10m 1h30m 7days    a length of time; where a time is wanted, from now

At a terminal times are shown in the zone of this machine. With --utc, in pipes
and in json they are in UTC.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_fit_into_80_columns() {
        for line in [exit_codes(), environment(), FORMATS.to_owned(), TIME.to_owned()].join("\n").lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn every_cause_is_explained() {
        let text = exit_codes();
        for code in ["  0", "  1", "  2", "  3", "  4", "  5", "  6", "  7", "  8", "130", "143"] {
            assert!(text.lines().any(|line| line.starts_with(&format!("  {code}  "))), "{code} in {text}");
        }
    }
}
