//! `allot numbers migrate`: converts the list and the hash of an existing system to a pool, in one step on the server.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result};
use clap::Args;
use redis::cmd;
use serde::Deserialize;

use crate::outcome::Outcome;
use crate::sources::RedisSource;
use crate::terminal::{out, outln};

/// Runs on the server, so that no event of the old system falls between reading and writing.
const SCRIPT: &str = include_str!("migrate.lua");

/// Arguments of `allot numbers migrate`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Name of the existing pool: its keys are {NAME}:idle:up and {NAME}:numstate, the braces included.
    #[arg(long, value_name = "NAME", required_unless_present_all = ["list", "hash"])]
    from: Option<String>,
    /// Key of the list of free numbers, if it is not {NAME}:idle:up.
    #[arg(long, value_name = "KEY")]
    list: Option<String>,
    /// Key of the hash of states, if it is not {NAME}:numstate.
    #[arg(long, value_name = "KEY")]
    hash: Option<String>,
    /// Key of the pool to make; in a cluster with the same hash tag.
    #[arg(long)]
    key: String,
    /// Lease of the calls in progress, in milliseconds; without it, they have no deadline.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    lease: Option<u64>,
    /// Keep the list and the hash.
    #[arg(long)]
    keep: bool,
    /// Print the numbers that would be taken over and all inconsistencies, and change nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    redis: RedisSource,
}

/// A count, with some examples.
#[derive(Debug, Deserialize)]
struct Found {
    count: u64,
    /// An empty list comes as an empty object from Lua.
    examples: serde_json::Value,
}

/// The inconsistencies of a list and a hash, and the state that the numbers get.
const INCONSISTENCIES: [(&str, &str); 8] = [
    ("listed_unknown", "in the list, but not in the hash: left out"),
    ("listed_busy", "in the list, but busy: they carry their call, and do not wait"),
    ("listed_down", "in the list, but down: they do not wait"),
    ("listed_twice", "in the list more than once: they wait once, where they came first"),
    ("listed_not_a_number", "in the list, and no numbers: left out"),
    ("not_listed", "idle and up, but not in the list, so that nobody found them: they wait at the end"),
    ("unreadable", "with a state that cannot be read: taken for idle and down"),
    ("not_a_number", "in the hash, and no numbers: left out"),
];

/// Runs the command.
pub(crate) async fn run(arguments: Arguments) -> Result<Outcome> {
    let named = |key: &Option<String>, part: &str| {
        key.clone().unwrap_or_else(|| format!("{{{}}}:{part}", arguments.from.as_deref().unwrap_or_default()))
    };
    let (list, hash) = (named(&arguments.list, "idle:up"), named(&arguments.hash, "numstate"));
    let mut connection = arguments.redis.connect(&arguments.key).await?;
    let mut command = cmd("EVAL");
    command.arg(SCRIPT).arg(3).arg(&list).arg(&hash).arg(&arguments.key);
    command.arg(u8::from(!arguments.dry_run)).arg(u8::from(arguments.keep));
    command.arg(arguments.lease.map_or_else(String::new, |lease| lease.to_string()));
    let report: String = allot_client::query(&mut connection, &command).await?;
    let report: BTreeMap<String, Found> =
        serde_json::from_str(&report).context("the server's report is not as expected")?;
    out!("{}", draw(&report));
    if arguments.dry_run {
        outln!("dry run: nothing was changed");
    } else {
        outln!("taken over into '{}'", arguments.key);
        if !arguments.keep {
            outln!("'{list}' and '{hash}' are gone");
        }
    }
    Ok(Outcome::Done)
}

fn draw(report: &BTreeMap<String, Found>) -> String {
    let count = |what: &str| report.get(what).map_or(0, |found| found.count);
    let mut text = format!("{} numbers: {} free, {} busy\n", count("numbers"), count("free"), count("busy"));
    for (what, meaning) in INCONSISTENCIES {
        let Some(found) = report.get(what) else { continue };
        let examples: Vec<String> =
            found.examples.as_array().into_iter().flatten().map(ToString::to_string).collect();
        let more = if found.count > examples.len() as u64 { ", ..." } else { "" };
        let _ = writeln!(text, "  {} {meaning} ({}{more})", found.count, examples.join(", "));
    }
    text
}
