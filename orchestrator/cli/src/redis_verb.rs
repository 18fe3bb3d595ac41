//! `allot redis`: one command to the master that has its key, over the configured connection, in any format.

use std::fmt::Write as _;

use allot_client::{Connection, Endpoint, query, to_json};
use clap::Args;
use redis::{Cmd, Value as Reply, cmd};
use serde_json::Value;

use crate::context::{Context, Noun};
use crate::failure::{Failure, Result};
use crate::output::{self, Format, csv_cell, csv_line, field};
use crate::{redis_docs, terminal};

/// Commands that take over their connection.
const OWN_CONNECTION: [&str; 7] =
    ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "MONITOR", "SYNC", "PSYNC", "CLIENT REPLY"];

/// Options of allot that do not stand behind the command: they would be arguments of it.
const OWN_OPTIONS: [&str; 10] = [
    "--dry-run",
    "--yes",
    "--quiet",
    "--verbose",
    "--format",
    "--server",
    "--config",
    "--utc",
    "--color",
    "--limit-time",
];
/// The letters of the short ones.
const OWN_LETTERS: &str = "nyqv";

/// Arguments of `allot redis`.
#[derive(Debug, Args)]
pub(crate) struct Redis {
    /// The command and its arguments, as redis-cli takes them; options of allot are written before it. Behind -- all
    /// words are arguments of the command
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    words: Vec<String>,
}

/// Sends the command, and prints its reply.
pub(crate) async fn run(context: &Context, Redis { words }: &Redis) -> Result {
    let upper: Vec<String> = words.iter().take(2).map(|word| word.to_ascii_uppercase()).collect();
    if OWN_CONNECTION
        .iter()
        .any(|own| upper.join(" ") == *own || upper.first().is_some_and(|first| first == own))
    {
        return Err(Failure::usage(format!("{} needs a connection of its own", words.join(" ")))
            .hint("use redis-cli"));
    }
    context.no_dry_run("a command of Redis")?;
    if let Some(option) = words.iter().skip(1).find(|word| is_own_option(word)).filter(|_| !is_escaped(words))
    {
        let hint = format!(
            "options of allot stand before redis; for an argument of the command write allot redis -- {}",
            words.join(" ")
        );
        return Err(Failure::usage(format!("{option} stands behind the command of Redis")).hint(hint));
    }
    let told = loss(words);
    if let Some(loss) = &told {
        context.confirm(loss).await?;
    }
    let mut command = Cmd::new();
    command.arg(words);
    let mut connection = connect(context, words).await?;
    if told.is_none()
        && let Some(loss) = loss_of_keys(&mut connection, words).await
    {
        context.confirm(&loss).await?;
    }
    // Records are maps in RESP3. A server that does not speak it replies lists.
    let _: Result<Reply, _> = query(&mut connection, cmd("HELLO").arg(3)).await;
    match query::<Reply>(&mut connection, &command).await {
        Ok(reply) => print(context, &reply),
        Err(error) => Err(explained(&mut connection, words, error.into()).await),
    }
}

fn is_own_option(word: &str) -> bool {
    let letters = word.strip_prefix('-').filter(|letters| !letters.is_empty());
    letters.is_some_and(|letters| letters.chars().all(|letter| OWN_LETTERS.contains(letter)))
        || OWN_OPTIONS.contains(&word.split('=').next().unwrap_or_default())
}

/// Whether the command is behind `--`.
fn is_escaped(words: &[String]) -> bool {
    let line: Vec<_> = std::env::args_os().collect();
    let before = line.len().checked_sub(words.len() + 1).and_then(|place| line.get(place));
    before.is_some_and(|word| word == "--")
}

/// What a command takes away that cannot be given back; `None` for all other commands.
fn loss(words: &[String]) -> Option<String> {
    let (name, arguments) = words.split_first()?;
    let last = arguments.last().map_or("", String::as_str);
    match (name.to_ascii_uppercase().as_str(), last.to_ascii_uppercase().as_str()) {
        ("FLUSHALL", _) => Some("delete all keys of the server".to_owned()),
        ("FLUSHDB", _) => Some("delete all keys of the database".to_owned()),
        ("DEL" | "UNLINK", _) if !arguments.is_empty() => Some(format!("delete {}", arguments.join(", "))),
        ("NUMPOOL.DEL" | "ACCOUNT.DEL" | "ACCOUNT.DELMODULE", _) => {
            let (key, deleted) = arguments.split_first()?;
            Some(format!("delete {} from '{key}'", deleted.join(" ")))
        }
        ("CONF.REALM", "DROP") => Some(format!("end all conferences of {}", arguments.join(" "))),
        ("CONF.TERM" | "ACCOUNT.TERM", "FORCE") => {
            Some("take the claim of the present leader away".to_owned())
        }
        _ => None,
    }
}

/// What a command of Redis itself does to values of Allot and their event streams; `None` if it writes none of them.
/// Such a command knows nothing of the value: it replaces, moves or deletes the whole.
async fn loss_of_keys(connection: &mut Connection, words: &[String]) -> Option<String> {
    let name = words.first()?.to_ascii_uppercase();
    // Commands of modules know their values, and so do scripts that call them.
    if name.contains('.') || name.starts_with("EVAL") || name.starts_with("FCALL") {
        return None;
    }
    let flags = cmd("COMMAND").arg("GETKEYSANDFLAGS").arg(words).clone();
    // A command without keys is an error here, and a wrong one is explained when it is sent.
    let keys: Vec<(String, Vec<String>)> = query(connection, &flags).await.ok()?;
    for (key, flags) in &keys {
        let has = |wanted: &str| flags.iter().any(|flag| flag == wanted);
        if !has("update") && !has("delete") {
            continue;
        }
        let kind: String = query(connection, cmd("TYPE").arg(key)).await.ok()?;
        let noun = Noun::ALL.into_iter().map(Noun::words).find(|(_, found, _)| *found == kind);
        // Entries are added and taken all the time.
        let harms_stream = has("delete") || !name.starts_with('X');
        let is = match noun {
            Some((_, _, is)) => is,
            None if kind == "stream" && key.ends_with(":evt") && harms_stream => "an event stream",
            None => continue,
        };
        return Some(format!("do {} on '{key}', which is {is}", words.join(" ")));
    }
    None
}

/// A refusal with what to write instead.
async fn explained(connection: &mut Connection, words: &[String], failure: Failure) -> Failure {
    let name = words.first().map_or("", String::as_str);
    match failure.code.as_deref() {
        Some("ERR") if failure.is_unknown_command() => redis_docs::unknown(connection, name, failure).await,
        Some("ERR") if failure.hint.is_none() => match redis_docs::syntax(connection, words).await {
            Some(syntax) => failure.hint(syntax),
            None => failure,
        },
        _ => failure,
    }
}

/// A connection to the server of the command's first key; in a cluster a server says which argument is a key.
async fn connect(context: &Context, words: &[String]) -> Result<Connection> {
    let servers = context.settings.servers("")?;
    let Endpoint::Cluster { .. } = &servers.endpoint else { return context.connect(&servers).await };
    let mut any = context.connect(&servers).await?;
    let keys: Result<Vec<String>, _> = query(&mut any, cmd("COMMAND").arg("GETKEYS").arg(words)).await;
    match keys.ok().and_then(|keys| keys.into_iter().next()) {
        Some(key) => context.connect(&context.settings.servers(&key)?).await,
        None => Ok(any),
    }
}

fn print(context: &Context, reply: &Reply) -> Result {
    let value = to_json(reply);
    match context.out.format {
        Format::Json => context.out.json(&value)?,
        Format::Jsonl => match &value {
            Value::Array(items) => items.iter().try_for_each(|item| context.out.json(item))?,
            other => context.out.json(other)?,
        },
        Format::Csv => output::print(&csv(&value))?,
        Format::Table | Format::Wide => {
            let mut text = String::new();
            draw(&mut text, &value, 0);
            context.out.text(&text)?;
        }
    }
    match value.is_null() {
        // Null is the answer no. The commands say on their pages what it means.
        true if context.out.is_table() => Err(Failure::no("the answer is no: nothing was found or free")),
        true => Err(Failure::no("")),
        false => Ok(()),
    }
}

/// Records as rows, under the names that the first one has; everything else one value a line.
fn csv(value: &Value) -> String {
    let items = match value {
        Value::Array(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    };
    let Some(Value::Object(first)) = items.first() else {
        return items.iter().map(|item| csv_line([csv_cell(item)].into_iter())).collect();
    };
    let line = |item: &Value| csv_line(first.keys().map(|name| csv_cell(field(item, name))));
    csv_line(first.keys()) + &items.iter().map(line).collect::<String>()
}

/// A reply as text: fields of records and items of lists one a line, indented.
fn draw(text: &mut String, value: &Value, depth: usize) {
    let indent = "  ".repeat(depth);
    let scalar = |value: &Value| match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => terminal::value(text).into_owned(),
        other => other.to_string(),
    };
    let is_nested = |value: &Value| match value {
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => false,
    };
    match value {
        Value::Array(items) => {
            for (item, number) in items.iter().zip(1_u64..) {
                if is_nested(item) {
                    let _ = writeln!(text, "{indent}{number})");
                    draw(text, item, depth + 1);
                } else {
                    let _ = writeln!(text, "{indent}{number}) {}", scalar(item));
                }
            }
        }
        Value::Object(fields) => {
            let width = fields.keys().map(String::len).max().unwrap_or(0);
            for (name, field) in fields {
                if is_nested(field) {
                    let _ = writeln!(text, "{indent}{}", terminal::value(name));
                    draw(text, field, depth + 1);
                } else {
                    let _ = writeln!(text, "{indent}{:<width$}  {}", terminal::value(name), scalar(field));
                }
            }
        }
        // A text of several lines, as INFO replies, keeps them.
        Value::String(lines) => {
            let _ = writeln!(text, "{indent}{}", terminal::escaped(&lines.replace('\r', "")).trim_end());
        }
        other => {
            let _ = writeln!(text, "{indent}{}", scalar(other));
        }
    }
}
