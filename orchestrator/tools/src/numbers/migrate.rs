//! Converts the list and the hash of an existing system to a pool, in one step on the server.

use std::collections::BTreeMap;

use allot_client::Connection;
use anyhow::{Context, Result};
use redis::cmd;
use serde::Deserialize;

/// Runs on the server, so that no event of the old system falls between reading and writing.
const SCRIPT: &str = include_str!("migrate.lua");

/// What is converted, and how.
#[derive(Debug)]
pub struct Options<'a> {
    /// Key of the list of free numbers.
    pub list: &'a str,
    /// Key of the hash of states.
    pub hash: &'a str,
    /// Key of the pool to make; in a cluster with the same hash tag.
    pub pool: &'a str,
    /// Lease of the calls in progress, in milliseconds; without it, they have no deadline.
    pub lease: Option<u64>,
    /// Delete the list and the hash, if every entry could be taken over.
    pub delete: bool,
    /// Change nothing.
    pub dry_run: bool,
}

/// A count, with some examples.
#[derive(Debug, Deserialize)]
struct Counted {
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
pub struct Report(BTreeMap<String, Counted>);

/// Converts the list and the hash to a pool.
pub async fn run(connection: &mut Connection, options: &Options<'_>) -> Result<Report> {
    let mut command = cmd("EVAL");
    command.arg(SCRIPT).arg(3).arg(options.list).arg(options.hash).arg(options.pool);
    command.arg(u8::from(!options.dry_run)).arg(u8::from(options.delete));
    command.arg(options.lease.map_or_else(String::new, |lease| lease.to_string()));
    let report: String = allot_client::query(connection, &command).await?;
    serde_json::from_str(&report).context("the server's report is not as expected")
}

impl Report {
    /// How many numbers there are, how many of them are free, and how many busy.
    pub fn totals(&self) -> [u64; 3] {
        ["numbers", "free", "busy"].map(|what| self.0.get(what).map_or(0, |found| found.count))
    }

    /// Each inconsistency: its name, its count, its meaning, and examples.
    pub fn inconsistencies(&self) -> impl Iterator<Item = (&'static str, u64, &'static str, Vec<&str>)> {
        INCONSISTENCIES.into_iter().filter_map(|(what, meaning)| {
            let found = self.0.get(what)?;
            let examples = found.examples.as_array().into_iter().flatten().filter_map(|one| one.as_str());
            Some((what, found.count, meaning, examples.collect()))
        })
    }
}
