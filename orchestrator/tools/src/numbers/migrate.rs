//! Converts the list and the hash of an existing system to a pool, in one step on the server.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use allot_client::Connection;
use anyhow::{Context, Result};
use clap::Args;
use redis::cmd;
use serde::Deserialize;

/// Runs on the server, so that no event of the old system falls between reading and writing.
const SCRIPT: &str = include_str!("migrate.lua");

/// What is converted, and how.
#[derive(Debug, Args)]
pub struct Options {
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
    pub key: String,
    /// Lease of the calls in progress, in milliseconds; without it, they have no deadline.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    lease: Option<u64>,
    /// Keep the list and the hash.
    #[arg(long)]
    pub keep: bool,
    /// Print the numbers that would be taken over and all inconsistencies, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
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

/// What was found, or taken over.
#[derive(Debug, Deserialize)]
pub struct Report(BTreeMap<String, Found>);

impl Options {
    /// The keys of the list and of the hash.
    pub fn sources(&self) -> [String; 2] {
        let named = |key: &Option<String>, part: &str| {
            key.clone().unwrap_or_else(|| format!("{{{}}}:{part}", self.from.as_deref().unwrap_or_default()))
        };
        [named(&self.list, "idle:up"), named(&self.hash, "numstate")]
    }
}

/// Converts the list and the hash to a pool.
pub async fn run(connection: &mut Connection, options: &Options) -> Result<Report> {
    let mut command = cmd("EVAL");
    command.arg(SCRIPT).arg(3).arg(&options.sources()).arg(&options.key);
    command.arg(u8::from(!options.dry_run)).arg(u8::from(options.keep));
    command.arg(options.lease.map_or_else(String::new, |lease| lease.to_string()));
    let report: String = allot_client::query(connection, &command).await?;
    serde_json::from_str(&report).context("the server's report is not as expected")
}

impl Report {
    /// The report for people.
    pub fn text(&self) -> String {
        draw(&self.0)
    }
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
