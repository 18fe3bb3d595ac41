//! Requests as words of a command line. The parser of the command then checks the values, and which options go together,
//! so that the API has the rules of the command.

use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value};

/// A request as words of its command. Each value is part of the word of its option, and the names follow `--`, so that no
/// value is taken for an option.
///
/// # Errors
/// The request cannot be written as JSON.
pub fn words<T: Args + Serialize>(wanted: &T) -> serde_json::Result<Vec<String>> {
    let fields: Map<String, Value> = serde_json::from_value(serde_json::to_value(wanted)?)?;
    let (mut words, mut names) = (Vec::new(), vec!["--".to_owned()]);
    for argument in T::augment_args(clap::Command::new("request")).get_arguments() {
        let value = fields.get(argument.get_id().as_str()).unwrap_or(&Value::Null);
        match argument.get_long() {
            Some(option) => words.extend(option_words(option, value)),
            None => names.push(text(value)),
        }
    }
    words.append(&mut names);
    Ok(words)
}

/// An option with its value; none if it is absent, and one for each element of a list.
fn option_words(option: &str, value: &Value) -> Vec<String> {
    match value {
        Value::Null | Value::Bool(false) => Vec::new(),
        Value::Bool(true) => vec![format!("--{option}")],
        Value::Array(values) => values.iter().flat_map(|value| option_words(option, value)).collect(),
        value => vec![format!("--{option}={}", text(value))],
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A length of time, as it was written.
pub(crate) fn length(text: &str) -> Result<String, String> {
    match humantime::parse_duration(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(format!("{error}; write a number and a unit, e.g. 30s, 5m, 1h")),
    }
}
