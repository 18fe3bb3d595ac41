//! What the server says about its own commands: which there are, and how each is written.

use allot_client::{Connection, query, to_json};
use redis::{Value as Reply, cmd};
use serde_json::Value;

use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::output::{columns, field};

/// A word is like another if so much of both is the same, of 1.
const LIKE: f64 = 0.8;
/// The most words that are suggested.
const SUGGESTED: usize = 3;

columns! {
    COMMANDS = command Text, summary Text;
}

/// What `COMMAND DOCS` says of these commands, and of all without any.
async fn docs(connection: &mut Connection, names: &[String]) -> Result<Vec<(String, Value)>> {
    let _: Result<Reply, _> = query(connection, cmd("HELLO").arg(3)).await;
    let reply: Reply = query(connection, cmd("COMMAND").arg("DOCS").arg(names)).await?;
    let Value::Object(found) = to_json(&reply) else { return Ok(Vec::new()) };
    Ok(found.into_iter().map(|(name, docs)| (name.to_ascii_uppercase(), docs)).collect())
}

/// The names of the commands of the module `allot`; none if it is not loaded.
async fn of_allot(connection: &mut Connection) -> Result<Vec<String>> {
    let mut list = cmd("COMMAND");
    list.arg("LIST").arg("FILTERBY").arg("MODULE").arg("allot");
    let names: Vec<String> = query(connection, &list).await?;
    Ok(names.into_iter().map(|name| name.to_ascii_uppercase()).collect())
}

/// How a command, or a subcommand of one, is written: its name and its arguments.
pub(crate) async fn syntax(connection: &mut Connection, words: &[String]) -> Option<String> {
    for count in [2, 1] {
        let Some(words) = words.get(..count) else { continue };
        let found = docs(connection, &[words.join("|")]).await.ok()?;
        if let Some((name, docs)) = found.first() {
            return Some(written(name, docs));
        }
    }
    None
}

/// A refusal of a command that the server does not know, with what may be meant.
pub(crate) async fn unknown(connection: &mut Connection, name: &str, failure: Failure) -> Failure {
    let Ok(ours) = of_allot(connection).await else { return failure };
    let wanted = name.to_ascii_uppercase();
    if ours.is_empty() && wanted.contains('.') {
        let hint = failure.hint.clone().unwrap_or_else(|| "the module allot is not loaded".to_owned());
        return failure.hint(hint);
    }
    let all: Vec<String> = query(connection, cmd("COMMAND").arg("LIST")).await.unwrap_or_default();
    let mut like: Vec<(f64, String)> = all
        .into_iter()
        .map(|name| name.to_ascii_uppercase())
        .map(|name| (strsim::jaro_winkler(&name, &wanted), name))
        .filter(|(likeness, _)| *likeness >= LIKE)
        .collect();
    like.sort_by(|one, other| other.0.total_cmp(&one.0));
    let like: Vec<String> = like.into_iter().take(SUGGESTED).map(|(_, name)| name).collect();
    let similar = if like.is_empty() { String::new() } else { format!("similar: {}; ", like.join(", ")) };
    let list = if ours.is_empty() { "" } else { "allot help commands lists those of allot" };
    Failure::usage(format!("the server has no command {wanted}")).hint(format!("{similar}{list}"))
}

/// `allot help commands`, or the syntax of one command of the server.
pub(crate) async fn help(context: &Context, words: &[String]) -> Result {
    let mut connection = context.connect(&context.settings.servers("")?).await?;
    let all = words.first().is_some_and(|word| word == "commands");
    let names = if all { of_allot(&mut connection).await? } else { vec![words.join("|")] };
    if names.is_empty() {
        return Err(Failure::refused("the module allot is not loaded").hint("allot server check"));
    }
    let found = docs(&mut connection, &names).await?;
    if all {
        let row = |(name, docs): (String, Value)| serde_json::json!({"command": name, "summary": field(&docs, "summary")});
        let mut rows: Vec<Value> = found.into_iter().map(row).collect();
        rows.sort_by_key(|row| field(row, "command").to_string());
        return context.out.list(COMMANDS, &rows, "");
    }
    let Some((name, docs)) = found.first() else {
        let failure = Failure::absent(format!("the server has no command {}", words.join(" ")));
        return Err(unknown(&mut connection, &words.join(" "), failure).await);
    };
    let summary = field(docs, "summary").as_str().unwrap_or_default();
    context.out.text(&format!("{}\n{summary}\n", written(name, docs)))
}

/// The line of a command by its documentation, in the form of redis.io.
fn written(name: &str, docs: &Value) -> String {
    // The entry of a subcommand is `container|sub`.
    let mut line = name.replace('|', " ");
    for argument in items(docs, "arguments") {
        line.push(' ');
        line.push_str(&one(argument));
    }
    line
}

fn items<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    field(value, name).as_array().into_iter().flatten()
}

/// An argument, with its token, alternatives, and whether it may be absent or come several times.
fn one(argument: &Value) -> String {
    let text = |name: &str| field(argument, name).as_str();
    let has = |flag: &str| items(argument, "flags").any(|found| found.as_str() == Some(flag));
    let parts = |between: &str| items(argument, "arguments").map(one).collect::<Vec<_>>().join(between);
    let body = match text("type") {
        Some("pure-token") => String::new(),
        Some("oneof") => parts("|"),
        Some("block") => parts(" "),
        _ => text("display_text").or_else(|| text("name")).unwrap_or_default().to_owned(),
    };
    let with_token = match text("token") {
        Some(token) if body.is_empty() => token.to_owned(),
        Some(token) => format!("{token} {body}"),
        None => body.clone(),
    };
    let repeated = if has("multiple_token") { &with_token } else { &body };
    let whole = if has("multiple") { format!("{with_token} [{repeated} ...]") } else { with_token.clone() };
    match text("type") {
        _ if has("optional") => format!("[{whole}]"),
        Some("oneof") => format!("<{whole}>"),
        _ => whole,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn syntax_is_written_as_redis_writes_it() {
        let docs = json!({"summary": "s", "arguments": [
            {"name": "key", "type": "key"},
            {"name": "change", "type": "oneof", "arguments": [
                {"name": "xx", "type": "pure-token", "token": "XX"},
                {"name": "ttl", "type": "integer", "token": "TTL", "display_text": "ms"},
            ]},
            {"name": "off", "type": "pure-token", "token": "OFF", "flags": ["optional"]},
            {"name": "pair", "type": "block", "flags": ["optional", "multiple"], "arguments": [
                {"name": "field", "type": "string"}, {"name": "value", "type": "string"},
            ]},
            {"name": "tag", "type": "string", "token": "TAG", "flags": ["multiple", "multiple_token"]},
        ]});
        let expected = "X.Y key <XX|TTL ms> [OFF] [field value [field value ...]] TAG tag [TAG tag ...]";
        assert_eq!(written("X.Y", &docs), expected);
    }
}
