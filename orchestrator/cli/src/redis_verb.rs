//! `allot redis`: one command to the master that has its key, over the configured connection, in any format.

use std::fmt::Write as _;

use allot_client::{Connection, Endpoint, query, to_json};
use clap::Args;
use redis::{Cmd, Value as Reply, cmd};
use serde_json::Value;

use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::output::{Format, csv_cell, csv_line, field};
use crate::terminal;

/// Commands that take over their connection.
const OWN_CONNECTION: [&str; 7] =
    ["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "MONITOR", "SYNC", "PSYNC", "CLIENT REPLY"];

/// Arguments of `allot redis`.
#[derive(Debug, Args)]
pub(crate) struct Redis {
    /// The command and its arguments, as redis-cli takes them; options of allot are written before it
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
    let takes_claim = matches!(upper.first().map(String::as_str), Some("CONF.TERM" | "ACCOUNT.TERM"))
        && words.last().is_some_and(|word| word.eq_ignore_ascii_case("FORCE"));
    if takes_claim {
        context.confirm("take the claim of the present leader away")?;
    }
    let mut command = Cmd::new();
    command.arg(words);
    let mut connection = connect(context, words).await?;
    // Records are maps in RESP3. A server that does not speak it replies lists.
    let _: Result<Reply, _> = query(&mut connection, cmd("HELLO").arg(3)).await;
    let reply: Reply = query(&mut connection, &command).await?;
    print(context, &reply)
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
        Format::Csv => context.out.raw(&csv(&value))?,
        Format::Table | Format::Wide => {
            let mut text = String::new();
            draw(&mut text, &value, 0);
            context.out.text(&text)?;
        }
    }
    // Null is the answer no.
    if value.is_null() { Err(Failure::no("")) } else { Ok(()) }
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
    csv_line(first.keys().cloned()) + &items.iter().map(line).collect::<String>()
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
